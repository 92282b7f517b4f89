# SPDX-License-Identifier: Apache-2.0
"""Reductions over axes of tensor expressions."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._ffi import Api
from ..ir import PrimExpr
from .expr import IterVar, Var, as_expr, const, infinity

if TYPE_CHECKING:
    from .._typing import Scalar

_tir = Api("tir")


def comm_reducer(fcombine: Callable[..., Any], fidentity: Callable[..., Any],
                 name: str = "reduce") -> Callable[..., Any]:
    """A reduction by `fcombine(x, y)` whose neutral element is `fidentity(dtype)`. Both take and give tuples where
    several values are reduced together."""

    for what, given in (("fcombine", fcombine), ("fidentity", fidentity)):
        if not callable(given):
            raise TypeError(f"comm_reducer {name}: {what} is {given!r}; expected a function")

    def reduce(expr, axis=None, where=None, init=None):
        several = isinstance(expr, (tuple, list))
        sources = [as_expr(e) for e in (expr if several else [expr])]
        dtypes = [str(e.dtype) for e in sources]
        lhs = [Var(f"x{i}", dtype) for i, dtype in enumerate(dtypes)]
        rhs = [Var(f"y{i}", dtype) for i, dtype in enumerate(dtypes)]
        if axis is None:
            raise ValueError(f"{name}: no axis to reduce over; expected one made by te.reduce_axis, or several")
        if several:
            result = fcombine(tuple(lhs), tuple(rhs))
            identity = fidentity(*dtypes)
        else:
            result, identity = [fcombine(lhs[0], rhs[0])], [fidentity(dtypes[0])]
        if not isinstance(result, (list, tuple)) or not isinstance(identity, (list, tuple)) or not (
                len(result) == len(identity) == len(dtypes)):
            raise TypeError(f"{name}: {len(dtypes)} values are reduced together; the combination gives {result!r}, the "
                            f"neutral element is {identity!r}; expected {len(dtypes)} each")
        for e in identity:
            if not isinstance(e, (int, float, PrimExpr)) and not hasattr(e, "item"):
                raise TypeError(f"{name}: the neutral element must be a number, not {e!r} (dtypes {', '.join(dtypes)})")
        combiner = _tir.CommReducer(lhs, rhs, [as_expr(e) for e in result],
                                    [const(e, dtype) for e, dtype in zip(identity, dtypes)])
        axis = list(axis) if isinstance(axis, (list, tuple)) else [axis]
        for each in axis:
            if not isinstance(each, IterVar) or each.iter_type != IterVar.CommReduce:
                raise TypeError(f"{name}: {each!r} isn't a reduction axis; expected one made by te.reduce_axis")
        init = [] if init is None else [as_expr(e) for e in (init if isinstance(init, (list, tuple)) else [init])]
        where = None if where is None else as_expr(where)
        if where is not None and str(getattr(where, "dtype", "")) != "bool":
            raise TypeError(f"{name}: where must be a condition, not {where!r}")
        results = _tir.Reduce(combiner, sources, axis, where, init)
        return list(results) if several else results[0]

    reduce.__name__ = name
    reduce.__doc__ = (f"The {name} of `expr` over reduction axes (te.reduce_axis); `where`: of the elements that it holds "
                      "for; `init`: what it begins with instead of the neutral element.")
    return reduce


sum = comm_reducer(lambda x, y: x + y, lambda dtype: const(0, dtype), name="sum")
prod = comm_reducer(lambda x, y: x * y, lambda dtype: const(1, dtype), name="prod")


def _lowest(dtype):
    return _tir._OpNeg(infinity(dtype)) if "float" in dtype else _tir.min_value(dtype)


_max = comm_reducer(lambda x, y: _tir._OpMax(x, y), _lowest, name="max")
_min = comm_reducer(lambda x, y: _tir._OpMin(x, y), lambda dtype: infinity(dtype), name="min")


def max(lhs: Scalar, rhs: Scalar | IterVar | None = None, axis: IterVar | list[IterVar] | None = None,
        **kwargs: Any) -> PrimExpr:
    """The greater of two scalars, or (with an axis) the greatest element."""
    if axis is None and not isinstance(rhs, IterVar):
        return _tir._OpMax(as_expr(lhs), as_expr(rhs))
    return _max(lhs, rhs if axis is None else axis, **kwargs)


def min(lhs: Scalar, rhs: Scalar | IterVar | None = None, axis: IterVar | list[IterVar] | None = None,
        **kwargs: Any) -> PrimExpr:
    """The lesser of two scalars, or (with an axis) the least element."""
    if axis is None and not isinstance(rhs, IterVar):
        return _tir._OpMin(as_expr(lhs), as_expr(rhs))
    return _min(lhs, rhs if axis is None else axis, **kwargs)


def _arg_reducer(name, better, neutral):
    def combine(x, y):
        keep = tir_or(better(x[1], y[1]), _tir._OpAnd(_tir._OpEQ(x[1], y[1]), _tir._OpLT(x[0], y[0])))
        return _tir.Select(keep, x[0], y[0]), _tir.Select(keep, x[1], y[1])

    def tir_or(a, b):
        return _tir._OpOr(a, b)

    return comm_reducer(combine, lambda index, value: (_tir.max_value(index), neutral(value)), name=name)


argmax = _arg_reducer("argmax", lambda a, b: _tir._OpGT(a, b), _lowest)
argmin = _arg_reducer("argmin", lambda a, b: _tir._OpLT(a, b), lambda dtype: infinity(dtype))
