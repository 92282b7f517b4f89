# SPDX-License-Identifier: Apache-2.0
"""Building tensor expressions."""
import inspect

from .._ffi import Api, get_global_func
from ..ir import PrimExpr
from ..tir.expr import IterVar, Var, as_expr, const, infinity

_api = Api("te")
_tir = Api("tir")


def _shape(shape):
    shape = shape if isinstance(shape, (tuple, list)) or hasattr(shape, "__iter__") else (shape,)
    return [as_expr(int(d) if hasattr(d, "__index__") and not isinstance(d, PrimExpr) else d) for d in shape]


def var(name="tindex", dtype="int32"):
    """A variable, such as a symbolic dimension."""
    return Var(name, dtype)


def placeholder(shape, dtype="float32", name="placeholder"):
    """An input tensor."""
    return _api.Placeholder(_shape(shape), str(dtype), name)


def compute(shape, fcompute, name="compute", tag="", attrs=None, varargs_names=None):
    """A tensor whose elements are `fcompute` of their indices; a list of several for a list result."""
    shape = _shape(shape)
    parameters = inspect.signature(fcompute).parameters.values()
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = [p for p in parameters if p.kind == p.VAR_POSITIONAL]
    if variadic:
        names += list(varargs_names or [])
        names += [f"i{i}" for i in range(len(names), len(shape))]
    if len(names) != len(shape):
        raise ValueError(f"compute {name}: the function takes {len(names)} indices, the shape has {len(shape)} dimensions")
    axis = [_axis((0, extent), axis_name, 0) for axis_name, extent in zip(names, shape)]
    body = fcompute(*[iv.var for iv in axis])
    several = isinstance(body, (list, tuple))
    body = [as_expr(e) for e in (body if several else [body])]
    op = _api.ComputeOp(name, tag, attrs or {}, axis, body)
    outputs = [op.output(i) for i in range(op.num_outputs)]
    return outputs if several else outputs[0]


def _axis(dom, name, kind):
    begin, end = (as_expr(x) for x in dom)
    dom = get_global_func("ir.Range")(begin, end)
    return _tir.IterVar(dom, _tir.Var(name, str(dom.extent.dtype)), kind, "")


def reduce_axis(dom, name="rv", thread_tag="", span=None):
    """An axis to reduce over, from dom[0] up to but not including dom[1]."""
    return _axis(dom, name, 2)


def thread_axis(dom=None, tag="", name="", span=None):
    """A thread axis to bind loops to; its tag, such as "threadIdx.x"."""
    return tag or dom


def comm_reducer(fcombine, fidentity, name="reduce"):
    """A reduction by `fcombine(x, y)` whose neutral element is `fidentity(dtype)`. Both take and give tuples where
    several values are reduced together."""

    def reduce(expr, axis, where=None, init=None):
        several = isinstance(expr, (tuple, list))
        sources = [as_expr(e) for e in (expr if several else [expr])]
        dtypes = [str(e.dtype) for e in sources]
        lhs = [Var(f"x{i}", dtype) for i, dtype in enumerate(dtypes)]
        rhs = [Var(f"y{i}", dtype) for i, dtype in enumerate(dtypes)]
        if several:
            result = fcombine(tuple(lhs), tuple(rhs))
            identity = fidentity(*dtypes)
        else:
            result, identity = [fcombine(lhs[0], rhs[0])], [fidentity(dtypes[0])]
        combiner = _tir.CommReducer(lhs, rhs, [as_expr(e) for e in result],
                                    [const(e, dtype) for e, dtype in zip(identity, dtypes)])
        axis = list(axis) if isinstance(axis, (list, tuple)) else [axis]
        init = [] if init is None else [as_expr(e) for e in (init if isinstance(init, (list, tuple)) else [init])]
        results = _tir.Reduce(combiner, sources, axis, None if where is None else as_expr(where), init)
        return list(results) if several else results[0]

    reduce.__name__ = name
    return reduce


sum = comm_reducer(lambda x, y: x + y, lambda dtype: const(0, dtype), name="sum")
prod = comm_reducer(lambda x, y: x * y, lambda dtype: const(1, dtype), name="prod")


def _lowest(dtype):
    return _tir._OpNeg(infinity(dtype)) if "float" in dtype else _tir.min_value(dtype)


_max = comm_reducer(lambda x, y: _tir._OpMax(x, y), _lowest, name="max")
_min = comm_reducer(lambda x, y: _tir._OpMin(x, y), lambda dtype: infinity(dtype), name="min")


def max(lhs, rhs=None, axis=None, **kwargs):
    """The greater of two scalars, or (with an axis) the greatest element."""
    if axis is None and not isinstance(rhs, IterVar):
        return _tir._OpMax(as_expr(lhs), as_expr(rhs))
    return _max(lhs, rhs if axis is None else axis, **kwargs)


def min(lhs, rhs=None, axis=None, **kwargs):
    """The lesser of two scalars, or (with an axis) the least element."""
    if axis is None and not isinstance(rhs, IterVar):
        return _tir._OpMin(as_expr(lhs), as_expr(rhs))
    return _min(lhs, rhs if axis is None else axis, **kwargs)


def create_prim_func(args, name="main"):
    """A schedulable function of the tensors."""
    return _api.CreatePrimFunc(list(args), name)
