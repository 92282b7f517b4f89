# SPDX-License-Identifier: Apache-2.0
"""Tensors computed by loops that are written in Python: `@te.hybrid.script`.

Called with tensors, the function's source becomes statements (a te.extern operation); called with arrays, it runs in
Python. Loops run as they are written: the operation has no axes to schedule.
"""
import ast
import functools
import inspect
import operator
import textwrap
import types
from typing import Any

import numpy as np

from ..error import Error
from ..ir import PrimExpr
from ..tir import expr as _expr
from ..tir import ir_builder
from ..tir.expr import EqualOp, as_expr
from ..tir.function import decl_buffer
from ..tir.reduction import max as _max, min as _min
from .operation import extern
from .tensor import Tensor

_LOOPS = {"range": "serial", "serial": "serial", "parallel": "parallel", "vectorize": "vectorize", "unroll": "unroll"}
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
              ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.BitAnd: operator.and_,
              ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift,
              ast.RShift: operator.rshift, ast.Pow: operator.pow, ast.Lt: operator.lt, ast.LtE: operator.le,
              ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne}
_FUNCTIONS = {name: getattr(_expr, name) for name in (
    "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "sin", "cos", "erf", "floor", "ceil", "trunc", "round", "abs",
    "power", "likely")}
_FUNCTIONS.update(max=_max, min=_min, ceil_div=lambda a, b: (a + b - 1) // b)
_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
          "bool")


class HybridError(Error, ValueError):
    """A function that can't be a tensor computation; the message names the line."""


class _Scalar:
    """A variable that is assigned: memory of one element."""

    def __init__(self, pointer):
        self.pointer = pointer


class _Memory:
    """A buffer with its shape, as the source sees a tensor."""

    def __init__(self, builder, buffer):
        self.buffer, self.pointer = buffer, builder.buffer_ptr(buffer)
        self.shape, self.dtype = tuple(buffer.shape), buffer.dtype


class _Builder:
    """Interprets the source of a function: what is known now is computed, the rest becomes statements."""

    def __init__(self, tree, names, arguments):
        self._ib = ir_builder.create()
        self._tree, self._names = tree, names
        self._scopes = [{}]
        self.inputs, self.in_buffers, self.out_buffers, self.result = [], [], [], None
        self._assigned = {}
        for node in ast.walk(tree):
            for target in getattr(node, "targets", [node.target] if isinstance(node, ast.AugAssign) else []):
                if isinstance(target, ast.Name):
                    again = 2 if isinstance(node, ast.AugAssign) else 1
                    self._assigned[target.id] = self._assigned.get(target.id, 0) + again
        params = [a.arg for a in tree.args.args]
        if len(params) != len(arguments):
            raise HybridError(f"{tree.name} takes {len(params)} arguments, not {len(arguments)}")
        for name, value in zip(params, arguments):
            self._scopes[0][name] = self._parameter(name, value)

    def _parameter(self, name, value):
        if isinstance(value, (list, tuple)):
            return [self._parameter(f"{name}_{i}", v) for i, v in enumerate(value)]
        if not isinstance(value, Tensor):
            return value
        buffer = decl_buffer(value.shape, value.dtype, value.name)
        self.inputs.append(value)
        self.in_buffers.append(buffer)
        return _Memory(self._ib, buffer)

    def run(self):
        """The body as a statement; `result` is what it returns, `out_buffers` the outputs."""
        self._block(self._tree.body)
        if self.result is None:
            raise HybridError(f"{self._tree.name} returns no output_tensor")
        return self._ib.get()

    def _fail(self, node, why):
        raise HybridError(f"{self._tree.name}, line {node.lineno}: {why}: {ast.unparse(node).splitlines()[0]}")

    # Statements.

    def _block(self, statements):
        self._scopes.append({})
        for node in statements:
            method = getattr(self, f"_do_{type(node).__name__}", None)
            if method is None:
                self._fail(node, f"{type(node).__name__} statements aren't supported")
            try:
                method(node)
            except HybridError:
                raise
            except (Error, TypeError, ValueError) as error:
                self._fail(node, str(error))
        self._scopes.pop()

    def _do_Pass(self, node):
        pass

    def _do_Expr(self, node):
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
            self._ib.emit(as_expr(self._eval(node.value)))

    def _do_Return(self, node):
        items = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        found = [self._eval(item) if item is not None else None for item in items]
        for item in found:
            if not isinstance(item, _Memory) or not any(item.buffer is b for b in self.out_buffers):
                self._fail(node, "only tensors of output_tensor can be returned")
        self.result = [item.buffer for item in found]

    def _do_Assert(self, node):
        message = node.msg.value if isinstance(node.msg, ast.Constant) else ast.unparse(node.test)
        self._ib.assert_stmt(as_expr(self._eval(node.test)), str(message))

    def _do_Assign(self, node):
        if len(node.targets) != 1:
            self._fail(node, "only one target can be assigned")
        target = node.targets[0]
        if isinstance(target, ast.Tuple):
            values = self._eval(node.value)
            if not isinstance(values, (list, tuple)) or len(values) != len(target.elts):
                self._fail(node, f"{len(target.elts)} values are expected")
            for each, value in zip(target.elts, values):
                self._assign(node, each, value)
        else:
            self._assign(node, target, self._eval(node.value, getattr(target, "id", None)))

    def _do_AugAssign(self, node):
        change = _OPERATORS.get(type(node.op))
        self._assign(node, node.target, change(self._eval(node.target), self._eval(node.value)))

    def _assign(self, node, target, value):
        if isinstance(target, ast.Subscript):
            memory = self._eval(target.value)
            if not isinstance(memory, _Memory):
                self._fail(node, "only elements of tensors can be assigned")
            memory.pointer[self._indices(target, memory)] = _plain(value)
            return
        if not isinstance(target, ast.Name):
            self._fail(node, "only names and elements of tensors can be assigned")
        known = next((s for s in reversed(self._scopes) if target.id in s), None)
        if known is not None and isinstance(known[target.id], _Scalar):
            known[target.id].pointer[0] = _plain(value)
        elif isinstance(value, (_Memory, list, tuple, str)) or (self._assigned.get(target.id) == 1 and
                                                                not isinstance(value, (PrimExpr, EqualOp))):
            self._scopes[-1][target.id] = value
        else:
            value = as_expr(_plain(value))
            scalar = _Scalar(self._ib.allocate(str(value.dtype), (1,), target.id, "local"))
            scalar.pointer[0] = value
            self._scopes[-1][target.id] = scalar

    def _do_If(self, node):
        condition = self._eval(node.test)
        if not isinstance(condition, (PrimExpr, EqualOp)):  # known now
            self._block(node.body if condition else node.orelse)
            return
        with self._ib.if_scope(as_expr(condition)):
            self._block(node.body)
        if node.orelse:
            with self._ib.else_scope():
                self._block(node.orelse)

    def _do_While(self, node):
        with self._ib.while_loop(as_expr(self._eval(node.test))):
            self._block(node.body)

    def _do_For(self, node):
        call = node.iter
        name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None
        if not isinstance(node.target, ast.Name) or node.orelse:
            self._fail(node, "a loop has one variable and no else")
        if name not in _LOOPS and name != "const_range":
            self._fail(node, f"a loop is over {', '.join(_LOOPS)} or const_range")
        bounds = [self._eval(a) for a in call.args]
        if not 1 <= len(bounds) <= 3:
            self._fail(node, f"{name} takes one to three arguments")
        begin, end = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) == 3 else 1
        if name == "const_range":
            for i in range(int(begin), int(end), int(step)):
                self._scopes.append({node.target.id: i})
                self._block(node.body)
                self._scopes.pop()
            return
        if isinstance(step, PrimExpr) or step <= 0:
            self._fail(node, "the step must be a positive constant")
        if step == 1:
            scope = self._ib.for_range(begin, end, node.target.id, kind=_LOOPS[name])
        else:
            scope = self._ib.for_range(0, (end - begin + step - 1) // step, node.target.id, kind=_LOOPS[name])
        with scope as var:
            self._scopes.append({node.target.id: var if step == 1 else var * step + begin})
            self._block(node.body)
            self._scopes.pop()

    # Expressions.

    def _eval(self, node, name=None):
        method = getattr(self, f"_get_{type(node).__name__}", None)
        if method is None:
            self._fail(node, f"{type(node).__name__} isn't supported")
        return method(node, name) if isinstance(node, ast.Call) else method(node)

    def _get_Constant(self, node):
        return node.value

    def _get_Name(self, node):
        for scope in reversed(self._scopes):
            if node.id in scope:
                value = scope[node.id]
                return value.pointer[0] if isinstance(value, _Scalar) else value
        if node.id in self._names:
            return self._names[node.id]
        return self._fail(node, f"'{node.id}' isn't defined here")

    def _get_Tuple(self, node):
        return tuple(self._eval(e) for e in node.elts)

    _get_List = _get_Tuple

    def _get_Attribute(self, node):
        value = self._eval(node.value)
        if isinstance(value, _Memory) and node.attr not in ("shape", "dtype"):
            self._fail(node, "a tensor has only shape and dtype here")
        return getattr(value, node.attr)

    def _indices(self, node, memory):
        index = self._eval(node.slice)
        index = tuple(index) if isinstance(index, tuple) else (index,)
        if len(index) != len(memory.shape):
            self._fail(node, f"{memory.buffer.name} has {len(memory.shape)} dimensions but {len(index)} indices")
        return index

    def _get_Subscript(self, node):
        value = self._eval(node.value)
        if isinstance(value, _Memory):
            return value.buffer[tuple(as_expr(_plain(i)) for i in self._indices(node, value))]
        index = self._eval(node.slice)
        if isinstance(index, PrimExpr) and not hasattr(index, "value"):
            self._fail(node, "the index must be a constant")
        return value[int(index)]

    def _get_BinOp(self, node):
        apply = _OPERATORS.get(type(node.op))
        if apply is None:
            self._fail(node, f"operator {type(node.op).__name__} isn't supported")
        return apply(self._eval(node.left), self._eval(node.right))

    def _get_UnaryOp(self, node):
        value = self._eval(node.operand)
        if isinstance(node.op, ast.Not):
            return _expr.Not(value) if isinstance(value, (PrimExpr, EqualOp)) else not value
        return -value if isinstance(node.op, ast.USub) else ~value if isinstance(node.op, ast.Invert) else value

    def _get_Compare(self, node):
        values = [self._eval(v) for v in (node.left, *node.comparators)]
        parts = []
        for op, a, b in zip(node.ops, values, values[1:]):
            if type(op) not in _OPERATORS:
                self._fail(node, f"comparison {type(op).__name__} isn't supported")
            parts.append(_OPERATORS[type(op)](a, b))
        return self._joined(parts, _expr.all, all)

    def _get_BoolOp(self, node):
        parts = [self._eval(v) for v in node.values]
        return self._joined(parts, *((_expr.all, all) if isinstance(node.op, ast.And) else (_expr.any, any)))

    @staticmethod
    def _joined(parts, symbolic, known):
        if len(parts) == 1:
            return parts[0]
        return symbolic(*parts) if any(isinstance(p, (PrimExpr, EqualOp)) for p in parts) else known(parts)

    def _get_IfExp(self, node):
        condition = self._eval(node.test)
        if not isinstance(condition, (PrimExpr, EqualOp)):
            return self._eval(node.body if condition else node.orelse)
        return _expr.if_then_else(condition, self._eval(node.body), self._eval(node.orelse))

    def _get_Call(self, node, name=None):
        function = node.func.id if isinstance(node.func, ast.Name) else None
        arguments = [self._eval(a) for a in node.args]
        keywords = {k.arg: self._eval(k.value) for k in node.keywords}
        if function in ("output_tensor", "allocate"):
            return self._new(node, function, name, *arguments, **keywords)
        if function == "len":
            return len(arguments[0].shape if isinstance(arguments[0], _Memory) else arguments[0])
        if function in _TYPES:
            return as_expr(_plain(arguments[0])).astype(function)
        known = _FUNCTIONS.get(function) or (self._names.get(function) if function else self._eval(node.func))
        if known is None:
            self._fail(node, f"function '{function}' isn't known here")
        return known(*[_plain(a) for a in arguments], **keywords)

    def _new(self, node, kind, name, shape, dtype="float32", scope="global"):
        shape = shape if isinstance(shape, (tuple, list)) else (shape,)
        buffer = decl_buffer(shape, dtype, name or kind, scope=scope)
        if kind == "output_tensor":
            if len(self._scopes) > 2:
                self._fail(node, "output_tensor stands outside of loops")
            self.out_buffers.append(buffer)
            return _Memory(self._ib, buffer)
        memory = _Memory(self._ib, buffer)
        memory.pointer = self._ib.allocate(dtype, shape, name or kind, scope)
        memory.buffer = memory.pointer.buffer
        return memory


def _plain(value):
    return value.as_expr() if isinstance(value, EqualOp) else value


def _emulation():
    """What the names of the language do when a function runs in Python."""
    functions = {name: getattr(np, name) for name in ("exp", "log", "sqrt", "tanh", "sin", "cos", "floor", "ceil",
                                                      "trunc", "round", "power")}
    functions.update({name: getattr(np, name if name != "bool" else "bool_") for name in _TYPES})
    functions.update({name: range for name in (*_LOOPS, "const_range")})
    functions.update(
        output_tensor=lambda shape, dtype="float32": np.zeros(shape, dtype),
        allocate=lambda shape, dtype="float32", scope="global": np.zeros(shape, dtype),
        rsqrt=lambda x: 1 / np.sqrt(x), sigmoid=lambda x: 1 / (1 + np.exp(-x)), likely=lambda x: x,
        ceil_div=lambda a, b: (a + b - 1) // b)
    return functions


def _contains_tensor(value):
    return isinstance(value, Tensor) or (isinstance(value, (list, tuple)) and any(map(_contains_tensor, value)))


def script(pyfunc: Any) -> Any:
    """Decorator of functions of tensors. Inside there are: loops over range, parallel, vectorize, unroll and
    const_range, output_tensor(shape, dtype), allocate(shape, dtype, scope), if, while, assert, arithmetic and the
    usual functions of scalars."""
    if not inspect.isfunction(pyfunc):
        raise HybridError(f"script: expected a function of tensors, not {pyfunc!r}")
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(pyfunc))).body[0]
    except (OSError, SyntaxError) as error:
        raise HybridError(f"the source of {pyfunc.__name__} can't be read: {error}") from error
    ast.increment_lineno(tree, pyfunc.__code__.co_firstlineno - 1)

    @functools.wraps(pyfunc)
    def call(*args):
        closure = inspect.getclosurevars(pyfunc)
        names = {**closure.builtins, **closure.globals, **closure.nonlocals}
        if not _contains_tensor(args):
            known = {**_emulation(), **pyfunc.__globals__}
            return types.FunctionType(pyfunc.__code__, known, pyfunc.__name__, pyfunc.__defaults__,
                                      pyfunc.__closure__)(*args)
        builder = _Builder(tree, names, args)
        body = builder.run()
        outputs = extern([list(b.shape) for b in builder.out_buffers], builder.inputs, lambda ins, outs: body,
                         name=pyfunc.__name__, in_buffers=builder.in_buffers, out_buffers=builder.out_buffers)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        found = [next(o for o, b in zip(outputs, builder.out_buffers) if b is wanted) for wanted in builder.result]
        return found[0] if len(found) == 1 else found

    return call
