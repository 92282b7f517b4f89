# SPDX-License-Identifier: Apache-2.0
"""Gradients of tensor expressions, by reverse mode."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .._ffi import Api
from .._arguments import listed
from ..arith import Analyzer
from ..error import Error
from ..ir import IntImm
from ..ir.base import structural_equal
from ..tir import Cast, Select, Var, const, stmt_functor
from ..tir.expr import all as _all, as_expr, cos, cosh, exp, if_then_else, log, sin, sinh, sqrt
from ..tir.reduction import prod, sum as _sum
from .operation import compute, reduce_axis
from .tensor import ComputeOp, PlaceholderOp, Tensor

_api = Api("tir")
_ln2, _ln10 = math.log(2), math.log(10)

# The derivative of an intrinsic of one argument: of the argument x and the value y.
_UNARY = {
    "exp": lambda x, y: y, "exp2": lambda x, y: y * _ln2, "exp10": lambda x, y: y * _ln10, "log": lambda x, y: 1 / x,
    "log2": lambda x, y: 1 / (x * _ln2), "log10": lambda x, y: 1 / (x * _ln10), "log1p": lambda x, y: 1 / (x + 1),
    "sqrt": lambda x, y: 0.5 / y, "rsqrt": lambda x, y: y / x * -0.5, "sin": lambda x, y: cos(x),
    "cos": lambda x, y: -sin(x), "tan": lambda x, y: y * y + 1, "asin": lambda x, y: 1 / sqrt(1 - x * x),
    "acos": lambda x, y: -1 / sqrt(1 - x * x), "atan": lambda x, y: 1 / (x * x + 1), "sinh": lambda x, y: cosh(x),
    "cosh": lambda x, y: sinh(x), "tanh": lambda x, y: 1 - y * y, "sigmoid": lambda x, y: y * (1 - y),
    "erf": lambda x, y: exp(-(x * x)) * (2 / math.sqrt(math.pi)), "likely": lambda x, y: as_expr(1.0),
    "fabs": lambda x, y: Select(x >= 0, const(1, x.dtype), const(-1, x.dtype)),
}
_UNARY["abs"] = _UNARY["fabs"]
# Constant but for jumps.
_STEPS = ("floor", "ceil", "trunc", "round", "nearbyint", "isnan", "isinf", "isfinite")


def gradient(output: Tensor, inputs: Tensor | Sequence[Tensor], head: Tensor | None = None) -> list[Tensor]:
    """The gradients of a tensor with respect to the inputs: of `head` times its Jacobians, summed over the output's
    dimensions, which are head's last; head's first ones lead the results' shapes. Without head: the Jacobians, of shape
    output.shape + input.shape. Where several elements are the greatest of a max or min, they share its gradient."""
    inputs = [inputs] if isinstance(inputs, Tensor) else listed("gradient: inputs", inputs, "a tensor, or a list of them")
    for tensor in (output, *inputs, *([] if head is None else [head])):
        if not isinstance(tensor, Tensor):
            raise Error(f"gradient: expected a tensor, not {tensor!r}")
    if not _is_float(output):
        raise Error(f"gradient: tensor {output.name} has dtype {output.dtype}; expected floating-point numbers")
    rank = len(output.shape)
    if head is None:
        shape = [*output.shape, *output.shape]
        head = compute(shape, lambda *i: if_then_else(_equal(i[:rank], i[rank:]), const(1, output.dtype),
                                                      const(0, output.dtype)), name="identity")
    kept = len(head.shape) - rank
    if kept < 0 or not all(_same(a, b) for a, b in zip(head.shape[kept:], output.shape)):
        raise Error(f"gradient: head has shape {list(head.shape)}; expected {list(output.shape)} at its end")
    return _Reverse(output, inputs, head, kept).results()


def _is_float(value):
    return str(value.dtype).startswith(("float", "bfloat"))


def _same(a, b):
    return structural_equal(a, b, tolerance=0)


def _equal(left, right):
    return _all(*[_api._OpEQ(a, b) for a, b in zip(left, right)]) if left else const(True, "bool")


def _key(tensor):
    return tensor.op, int(tensor.value_index)


class _Reverse:
    """Adjoints of tensors, consumers before producers."""

    def __init__(self, output, inputs, head, kept):
        self._inputs, self._head, self._prefix = inputs, head, list(head.shape[:kept])
        self._wanted = {_key(t) for t in inputs}
        self._order, self._leads = [], {}
        self._reach(output)
        self._terms = {_key(output): [head]}

    def _reach(self, output):
        """Orders the tensors' operations, producers first, and notes which read an input."""
        stack = [(output, False)]
        while stack:
            tensor, done = stack.pop()
            key = _key(tensor)
            if done:
                self._leads[key] = key in self._wanted or any(
                    self._leads[_key(t)] for t in tensor.op.input_tensors)
                self._order.append(tensor)
            elif key not in self._leads:
                self._leads[key] = False
                stack.append((tensor, True))
                stack += [(t, False) for t in tensor.op.input_tensors if _key(t) not in self._leads]

    def results(self):
        """The adjoints of the inputs."""
        adjoints = {}
        for tensor in reversed(self._order):
            key = _key(tensor)
            if key in self._terms:
                adjoints[key] = self._total(tensor, self._terms[key])
                if self._leads[key] and not isinstance(tensor.op, PlaceholderOp):
                    if any(self._leads[_key(t)] for t in tensor.op.input_tensors):
                        self._pull(tensor, adjoints[key])
        return [adjoints[_key(t)] if _key(t) in adjoints else self._zeros(t) for t in self._inputs]

    def _zeros(self, tensor):
        return compute([*self._prefix, *tensor.shape], lambda *i: const(0, tensor.dtype), name=f"{tensor.name}.grad")

    def _total(self, tensor, terms):
        if len(terms) == 1:
            return terms[0]
        return compute(list(terms[0].shape), lambda *i: _added([t(*i) for t in terms]), name=f"{tensor.name}.grad")

    def _pull(self, tensor, adjoint):
        """Adds what a tensor's adjoint gives those that it reads."""
        op = tensor.op
        if not isinstance(op, ComputeOp) or len(op.body) != 1:
            raise Error(f"gradient: '{op.name}' is {op._type_key()} of {op.num_outputs} outputs; expected a te.compute of one")
        body, weight = op.body[0], as_expr(1.0)
        if body._type_key() == "tir.Reduce":
            body, weight = _reduction(tensor, body)
        for load, factor in partial_derivatives(body, Cast(str(body.dtype), weight), op.name):
            key = _key(load.producer)
            if self._leads.get(key) and _is_float(load):
                self._terms.setdefault(key, []).append(
                    _Adjoint(self._prefix, op, load, factor).tensor(adjoint))


def _added(values):
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _reduction(tensor, reduce):
    """The source of a reduction, and the derivative of the result with respect to it."""
    op, combiner, source = tensor.op, reduce.combiner, reduce.source[0]
    combined = combiner.result[0]
    kind = combined._type_key()
    if kind == "tir.Select" and combined.condition._type_key() == "tir.GT" and (
            combined.true_value, combined.false_value) == (combined.condition.a, combined.condition.b):
        kind, combined = "tir.Max", combined.condition  # the greater one, as in softmax
    plain = len(combiner.result) == 1 and kind in ("tir.Add", "tir.Max", "tir.Min", "tir.Mul") and {
        combined.a, combined.b} == {combiner.lhs[0], combiner.rhs[0]}
    if not plain or len(reduce.init) > 0:
        raise Error(f"gradient: '{op.name}' reduces by {combiner.result[0]}{' from an init' if len(reduce.init) else ''}; "
                    "expected a sum, product, max or min")
    axes, extra = [a.var for a in op.axis], list(reduce.axis)
    one, zero = const(1, source.dtype), const(0, source.dtype)
    weight = one
    if kind in ("tir.Max", "tir.Min"):
        def is_best(value, indices):
            return _api._OpEQ(value, tensor(*indices))

        def count(*indices):
            fresh, renamed = _renamed(extra)
            hit = if_then_else(_api._OpAnd(is_best(source, axes), reduce.condition), one, zero)
            return _sum(_substitute(hit, {**dict(zip(axes, indices)), **renamed}), axis=fresh)

        ties = compute(list(tensor.shape), count, name=f"{tensor.name}.ties")
        weight = if_then_else(is_best(source, axes), one / ties(*axes), zero)
    elif kind == "tir.Mul":
        def others(*indices):
            own, around = indices[:len(axes)], indices[len(axes):]
            fresh, renamed = _renamed(extra)
            shifted = [i + a.dom.min for i, a in zip(around, extra)]
            factor = _substitute(if_then_else(reduce.condition, source, one), {**dict(zip(axes, own)), **renamed})
            return prod(if_then_else(_equal([f.var for f in fresh], shifted), one, factor), axis=fresh)

        rest = compute([*tensor.shape, *[a.dom.extent for a in extra]], others, name=f"{tensor.name}.others")
        weight = rest(*axes, *[a.var - a.dom.min for a in extra])
    if not (isinstance(reduce.condition, IntImm) and reduce.condition.value):
        weight = if_then_else(reduce.condition, weight, zero)
    return source, weight


def _substitute(e, values):
    return stmt_functor.substitute(e, {k: as_expr(v) for k, v in values.items()})


def _renamed(axes):
    fresh = [reduce_axis((a.dom.min, a.dom.min + a.dom.extent), a.var.name) for a in axes]
    return fresh, {a.var: f.var for a, f in zip(axes, fresh)}


def partial_derivatives(e: Any, adjoint: Any, name: str) -> Any:
    """Pairs of each element that expression `e` reads and `adjoint` times the derivative of `e` with respect to it."""
    found, stack = [], [(e, adjoint)]
    while stack:
        node, adjoint = stack.pop()
        if not _is_float(node):
            continue
        kind = node._type_key().rsplit(".", 1)[-1]
        if kind == "ProducerLoad":
            found.append((node, adjoint))
        elif kind in _RULES:
            stack += _RULES[kind](node, adjoint)
        elif kind == "Call":
            stack += _call(node, adjoint, name)
        elif kind == "Let":
            stack.append((_substitute(node.body, {node.var: node.value}), adjoint))
        elif kind not in ("FloatImm", "Var"):
            raise Error(f"gradient: '{name}' holds {kind}, of which there is no derivative: {node}")
    return found


def _chosen(select):
    def rule(e, adjoint):
        zero = const(0, adjoint.dtype)
        return [(e.true_value, select(e.condition, adjoint, zero)), (e.false_value, select(e.condition, zero, adjoint))]

    return rule


def _extreme(compare):
    def rule(e, adjoint):
        zero, first = const(0, adjoint.dtype), compare(e.a, e.b)
        return [(e.a, Select(first, adjoint, zero)), (e.b, Select(first, zero, adjoint))]

    return rule


_RULES = {
    "Add": lambda e, d: [(e.a, d), (e.b, d)], "Sub": lambda e, d: [(e.a, d), (e.b, -d)],
    "Mul": lambda e, d: [(e.a, d * e.b), (e.b, d * e.a)],
    "Div": lambda e, d: [(e.a, d / e.b), (e.b, -(d * e.a) / (e.b * e.b))],
    "Max": _extreme(lambda a, b: a >= b), "Min": _extreme(lambda a, b: a <= b), "Select": _chosen(Select),
    "Cast": lambda e, d: [(e.value, Cast(str(e.value.dtype), d))] if _is_float(e.value) else [],
}


def _call(e, adjoint, name):
    op = getattr(e.op, "name", "").removeprefix("tir.")
    if op in _STEPS:
        return []
    if op in _UNARY:
        return [(e.args[0], adjoint * _UNARY[op](e.args[0], e))]
    if op == "if_then_else":
        condition, then, otherwise = e.args
        zero = const(0, adjoint.dtype)
        return [(then, if_then_else(condition, adjoint, zero)), (otherwise, if_then_else(condition, zero, adjoint))]
    if op == "pow":
        base, power = e.args
        terms = [(base, adjoint * power * _api._OpPow(base, power - 1))]
        return terms + ([(power, adjoint * e * log(base))] if not hasattr(power, "value") else [])
    raise Error(f"gradient: '{name}' calls {op or e.op}, of which there is no derivative")


class _Adjoint:
    """What one read of an element gives its tensor's adjoint.

    Y[i] reads X at places e(i, k): X.grad[j] sums over those i and k with e(i, k) = j. Where an equation has a variable with
    coefficient 1 or -1 it is solved for it; the others are conditions."""

    def __init__(self, prefix, op, load, factor):
        self._prefix, self._op, self._load, self._factor = prefix, op, load, factor
        self._axes = [*op.axis, *op.reduce_axis]

    def tensor(self, adjoint):
        """The contribution, given the adjoint of the tensor that reads."""
        shape = [*self._prefix, *self._load.producer.shape]
        return compute(shape, lambda *i: self._element(adjoint, i[:len(self._prefix)], i[len(self._prefix):]),
                       name=f"{self._load.producer.name}.grad")

    def _element(self, adjoint, prefix, place):
        solved, conditions = self._solve(place)
        free = [a for a in self._axes if a.var not in solved]
        fresh, renamed = _renamed(free)
        values = {**{v: _substitute(e, renamed) for v, e in solved.items()}, **renamed}
        own = [values[a.var] for a in self._op.axis]
        value = _substitute(self._factor, values) * adjoint(*prefix, *own)
        value = Cast(str(self._load.dtype), value)
        if conditions:
            value = if_then_else(_all(*[_substitute(c, renamed) for c in conditions]), value, const(0, value.dtype))
        return _sum(value, axis=fresh) if fresh else value

    def _solve(self, place):
        """Values of axes in terms of the place and the other axes, and what must hold beside."""
        solved, conditions = {}, []
        for index, target, extent in zip(self._load.indices, place, self._load.producer.shape):
            index = Analyzer().simplify(_substitute(index, solved)) if solved else index
            axis, sign = self._pick(index, solved)
            if axis is None:
                conditions.append(_api._OpEQ(index, target))
                continue
            rest = _substitute(index, {axis.var: const(0, str(axis.var.dtype))})
            found = Analyzer().simplify(target - rest if sign > 0 else rest - target)
            if str(found.dtype) != str(axis.var.dtype):
                found = Cast(str(axis.var.dtype), found)
            solved = {v: _substitute(e, {axis.var: found}) for v, e in solved.items()}
            conditions = [_substitute(c, {axis.var: found}) for c in conditions]
            solved[axis.var] = found
            if not (isinstance(index, Var) and axis.dom.min == 0 and _same(axis.dom.extent, extent)):
                conditions += [_api._OpGE(found, axis.dom.min), _api._OpLT(found, axis.dom.min + axis.dom.extent)]
        return solved, conditions

    def _pick(self, index, solved):
        """The unsolved axis of the greatest extent that the index has as a term, and its sign."""
        best = (None, 0)
        for axis in self._axes:
            sign = 0 if axis.var in solved else _coefficient(index, axis.var)
            if sign and (best[0] is None or _extent(axis) > _extent(best[0])):
                best = (axis, sign)
        return best


def _extent(axis):
    return int(axis.dom.extent) if isinstance(axis.dom.extent, IntImm) else 1 << 40


def _coefficient(e, var):
    """1 or -1 if `e` is that times the variable plus what doesn't depend on it, else 0."""
    if isinstance(e, Var):
        return int(e.same_as(var))
    kind = e._type_key()
    if kind == "tir.Cast":
        return _coefficient(e.value, var) if str(e.value.dtype).startswith("int") else 0
    if kind in ("tir.Add", "tir.Sub"):
        left, right = _coefficient(e.a, var), _coefficient(e.b, var)
        if left and not _depends(e.b, var):
            return left
        if right and not _depends(e.a, var):
            return right if kind == "tir.Add" else -right
    return 0


def _depends(e, var):
    seen = []
    stmt_functor.post_order_visit(e, lambda n: seen.append(n) if isinstance(n, Var) and n.same_as(var) else None)
    return bool(seen)
