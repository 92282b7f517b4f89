# SPDX-License-Identifier: Apache-2.0
"""Questions about expressions of the graph IR."""
from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .._ffi import Api
from ..error import Error
from ..ir import (FuncType, GlobalTypeVar, IRModule, IncompleteType, Op, RelayRefType, TensorType, TupleType, TypeCall,
                  TypeData, TypeKind, TypeVar)
from .expr import Call, Constant, Function, If, Let, Match, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from .expr import Expr

if TYPE_CHECKING:
    from ..ir import Type

_api = Api("relay.analysis")


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], Any]) -> None:
    """Calls `fvisit` with each expression once, operands first."""
    return _api.post_order_visit(expr, fvisit)


def free_vars(expr: Expr) -> list[Var]:
    """The variables that an expression uses without binding them, in the order of first use."""
    return _api.free_vars(expr)


def bound_vars(expr: Expr) -> list[Var]:
    """The variables that an expression binds."""
    return _api.bound_vars(expr)


def all_vars(expr: Expr) -> list[Var]:
    """All variables of an expression, in the order of first use."""
    return _api.all_vars(expr)


def well_formed(expr: Expr | IRModule) -> bool:
    """Whether each variable is bound at most once and used only where it is bound."""
    return bool(_api.well_formed(expr))


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[str]:
    """The cases that a match doesn't cover, as texts of patterns."""
    return list(_api.unmatched_cases(match, mod))


def _type_vars(node):
    """(free, bound) type variables of a type or expression, in the order of first use."""
    free, bound = [], []

    def add(var, variables):
        if not any(var.same_as(other) for other in variables):
            variables.append(var)

    def visit_type(kind):
        stack = [kind]
        while stack:
            each = stack.pop()
            if isinstance(each, TypeVar):
                add(each, free)
            elif isinstance(each, FuncType):
                for var in each.type_params:
                    add(var, bound)
                stack += reversed([*each.arg_types, each.ret_type])
            elif isinstance(each, TupleType):
                stack += reversed(list(each.fields))
            elif isinstance(each, RelayRefType):
                stack.append(each.value)
            elif isinstance(each, TypeCall):
                stack += reversed([each.func, *each.args])
            elif isinstance(each, TypeData):
                for var in each.type_vars:
                    add(var, bound)
                stack += reversed([kind for constructor in each.constructors for kind in constructor.inputs])

    def visit(expr):
        if isinstance(expr, Var) and expr.type_annotation is not None:
            visit_type(expr.type_annotation)
        elif isinstance(expr, Function):
            for var in expr.type_params:
                add(var, bound)
            if expr.ret_type is not None:
                visit_type(expr.ret_type)
        elif isinstance(expr, Call):
            for kind in expr.type_args:
                if kind is not None:
                    visit_type(kind)

    if isinstance(node, (TypeVar, TensorType, FuncType, TupleType, RelayRefType, TypeCall, TypeData, GlobalTypeVar,
                         IncompleteType)):
        visit_type(node)
    else:
        post_order_visit(node, visit)
    free = [var for var in free if not any(var.same_as(other) for other in bound)]
    return free, bound


def free_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """The type variables that an expression or type uses without binding them."""
    return _type_vars(expr)[0]


def bound_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """The type variables that an expression or type binds."""
    return _type_vars(expr)[1]


def all_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """All type variables of an expression or type."""
    free, bound = _type_vars(expr)
    return free + bound


def check_kind(t: Type, mod: IRModule | None = None) -> int:
    """The kind of a type (a number of TypeKind). An Error where it is put together wrongly."""

    def expect(kind, wanted, what):
        found = check_kind(kind, mod)
        if found != wanted:
            raise Error(f"{what} of {t} must be of kind {wanted}, not {found}")

    if isinstance(t, (TypeVar, GlobalTypeVar, IncompleteType)):
        return int(t.kind)
    if isinstance(t, TypeCall):
        expect(t.func, TypeKind.AdtHandle, "what is applied")
        for arg in t.args:
            expect(arg, TypeKind.Type, "an argument")
        if mod is not None:
            for header, data in mod.type_definitions.items():
                if header.same_as(t.func) and len(data.type_vars) != len(t.args):
                    raise Error(f"{header} takes {len(data.type_vars)} types, not {len(t.args)}")
    elif isinstance(t, TupleType):
        for field in t.fields:
            expect(field, TypeKind.Type, "a field")
    elif isinstance(t, FuncType):
        for arg in t.arg_types:
            expect(arg, TypeKind.Type, "an argument")
        expect(t.ret_type, TypeKind.Type, "the result")
    elif isinstance(t, RelayRefType):
        expect(t.value, TypeKind.Type, "the value")
    elif isinstance(t, TypeData):
        expect(t.header, TypeKind.AdtHandle, "the header")
        for constructor in t.constructors:
            for field in constructor.inputs:
                expect(field, TypeKind.Type, "a field")
        return TypeKind.TypeData
    return TypeKind.Type


def _functions(node):
    return [node[var] for var in node.get_global_vars()] if isinstance(node, IRModule) else [node]


def _calls(expr):
    """The calls of operators in an expression, within functions too."""
    found = []

    def visit(node):
        if isinstance(node, Call) and isinstance(node.op, Op):
            found.append(node)

    for function in _functions(expr):
        post_order_visit(function, visit)
    return found


def list_op_freqs(mod: Expr | IRModule) -> dict[str, int]:
    """How often each operator is called: a dict from names."""
    counts: dict[str, int] = {}
    for call in _calls(mod):
        counts[call.op.name] = counts.get(call.op.name, 0) + 1
    return counts


def list_fake_quantized_op_freqs(mod: Expr | IRModule) -> dict[str, int]:
    """How often each operator is called between qnn.dequantize and qnn.quantize, a dict from names: calls of operators
    in float whose operands all come from qnn.dequantize or constants, on every path back from a qnn.quantize."""
    found: dict[Call, None] = {}
    counts: dict[str, int] = {}
    for end in _calls(mod):
        if getattr(end.op, "name", "") != "qnn.quantize":
            continue
        inside, stack, closed = [], [end.args[0]], True
        seen = set()
        while stack and closed:
            node = stack.pop()
            if node in seen or isinstance(node, Constant):
                continue
            seen.add(node)
            if isinstance(node, Call) and isinstance(node.op, Op):
                if node.op.name != "qnn.dequantize":
                    inside.append(node)
                    stack += node.args
            elif isinstance(node, (Tuple, TupleGetItem)):
                stack += _operands(node)
            else:
                closed = False
        if closed:
            found.update(dict.fromkeys(inside))
    for call in found:
        counts[call.op.name] = counts.get(call.op.name, 0) + 1
    return counts


def count_layers(expr: Expr | IRModule, valid_ops: Iterable[str]) -> int:
    """The largest number of calls of the operators named on one path through an expression."""
    depth: dict[Expr, int] = {}

    def visit(node):
        below = max((depth.get(child, 0) for child in _operands(node)), default=0)
        counted = isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in valid_ops
        depth[node] = below + (1 if counted else 0)

    roots = _functions(expr)
    for root in roots:
        post_order_visit(root, visit)
    return max((depth[root] for root in roots), default=0)


def _operands(node):
    if isinstance(node, Call):
        return [node.op, *node.args]
    if isinstance(node, Tuple):
        return list(node.fields)
    if isinstance(node, TupleGetItem):
        return [node.tuple_value]
    if isinstance(node, Let):
        return [node.value, node.body]
    if isinstance(node, If):
        return [node.cond, node.true_branch, node.false_branch]
    if isinstance(node, Match):
        return [node.data, *(clause.rhs for clause in node.clauses)]
    if isinstance(node, Function):
        return [node.body]
    if isinstance(node, RefWrite):
        return [node.ref, node.value]
    if isinstance(node, RefRead):
        return [node.ref]
    return [node.value] if isinstance(node, RefCreate) else []


def collect_device_info(expr: Expr) -> dict[Expr, int]:
    """The device type of each value of a function in which device_copy stands where values move (after
    RewriteAnnotatedOps; before or after fusion): a dict from expressions to numbers. Parameters are where they are read.
    Empty where nothing is copied."""
    return {key: int(value) for key, value in _api.CollectDeviceInfo(expr).items()}


def collect_device_annotation_ops(expr: Expr) -> dict[Expr, int]:
    """The calls of on_device in an expression, with the device types that they name."""
    return {key: int(value) for key, value in _api.CollectDeviceAnnotationOps(expr).items()}


def get_total_mac_number(expr: Expr) -> int:
    """The multiply-adds of convolutions and matrix products in a typed expression, as the operators are defined
    (a Winograd convolution counts as the direct one). Calls with a symbolic shape count nothing."""
    return int(_api.total_mac_count(expr))


def all_dtypes(expr: Expr) -> set[str]:
    """The names of all element types in a typed expression."""
    found = set()

    def add(kind):
        if isinstance(kind, TensorType):
            found.add(str(kind.dtype))
        elif isinstance(kind, TupleType):
            for field in kind.fields:
                add(field)

    post_order_visit(expr, lambda node: add(node._checked_type_))
    return found


def extract_fused_functions(mod: Expr | IRModule) -> dict[str, IRModule]:
    """The fused functions of a module by name: "fused_" and the names of their operators, numbered where equal."""
    found = {}

    def visit(node):
        if isinstance(node, Function) and node.attrs.get("Primitive") is not None and int(node.attrs["Primitive"]):
            name = "fused_" + "_".join(call.op.name.replace(".", "_") for call in _calls(node))
            unique, number = name, 0
            while unique in found:
                number += 1
                unique = f"{name}_{number}"
            found[unique] = IRModule.from_expr(node)

    for function in _functions(mod):
        post_order_visit(function, visit)
    return found


class Feature(str, enum.Enum):
    """Constructs of the language; each equals its name."""

    fVar = "fVar"
    fGlobalVar = "fGlobalVar"
    fConstant = "fConstant"
    fTuple = "fTuple"
    fTupleGetItem = "fTupleGetItem"
    fFunction = "fFunction"
    fOp = "fOp"
    fCall = "fCall"
    fLet = "fLet"
    fIf = "fIf"
    fRefCreate = "fRefCreate"
    fRefRead = "fRefRead"
    fRefWrite = "fRefWrite"
    fConstructor = "fConstructor"
    fMatch = "fMatch"
    fGraph = "fGraph"
    fLetRec = "fLetRec"


def detect_feature(a: Expr | IRModule, b: IRModule | None = None) -> set[Feature]:
    """Which constructs of the language an expression uses: a set of names (Feature)."""
    found = set()
    names = {Function: "fFunction", Call: "fCall", Let: "fLet", If: "fIf", Match: "fMatch", Tuple: "fTuple",
             TupleGetItem: "fTupleGetItem", RefCreate: "fRefCreate", RefRead: "fRefRead", RefWrite: "fRefWrite",
             Var: "fVar", Op: "fOp"}
    for function in _functions(a if not isinstance(a, IRModule) or b is None else b):
        post_order_visit(function, lambda node: found.add(names.get(type(node), "f" + type(node).__name__)))
    return {Feature[name] for name in found if name in Feature.__members__}
