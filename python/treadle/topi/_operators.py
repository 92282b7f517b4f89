# SPDX-License-Identifier: Apache-2.0
"""Calls of graph operators on tensors of tensor expressions."""
import operator

from .. import relay, te, tir
from .._arguments import suggest
from .._ffi import Api
from ..ir import Op, PrimExpr
from ..target import Target
from ..te import Tensor
from ..te import tensor as _tensor

_api = Api("topi")
_ALIASES = {"broadcast_add": "add", "broadcast_sub": "subtract", "broadcast_mul": "multiply",
            "broadcast_div": "divide", "identity": "copy"}


def _current_target():
    return str(Target.current() or "llvm")


_SCALAR = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": tir.div, "maximum": te.max,
           "minimum": te.min, "power": tir.power}


def _with_scalar(name, args):
    """An operation of a tensor and a scalar whose value isn't known, such as te.var("k")."""
    tensor = next(a for a in args if isinstance(a, Tensor))
    return te.compute(tensor.shape, lambda *i: _SCALAR[name](*(a(*i) if isinstance(a, Tensor) else a for a in args)),
                      name=f"T_{name}", tag="broadcast")


def _apply(name, build, args, kwargs):
    """The results of the operator: a tensor, or a list of several."""
    if name in _SCALAR and len(args) == 2 and sum(isinstance(a, Tensor) for a in args) == 1 and any(
            isinstance(a, PrimExpr) for a in args):
        return _with_scalar(name, args)
    tensors, variables = [], []

    def replaced(value):
        if isinstance(value, Tensor):
            for known, variable in zip(tensors, variables):
                if known == value:
                    return variable
            tensors.append(value)
            variables.append(relay.var(value.name, shape=list(value.shape), dtype=str(value.dtype)))
            return variables[-1]
        if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
            return relay.Tuple([replaced(v) for v in value])
        return value

    args = [replaced(a) for a in args]
    kwargs = {key: replaced(value) for key, value in kwargs.items()}
    if not tensors and name in _BINARY:
        raise TypeError(f"topi.{name} needs a tensor among its arguments")
    if name in _BINARY:  # numbers beside tensors
        dtype = str(tensors[0].dtype)
        args = [relay.const(a, dtype) if isinstance(a, (int, float)) else a for a in args]
    body = build(*args, **kwargs)
    if isinstance(body, relay.expr.TupleWrapper):
        body = body.astuple()
    outputs = list(_api.Compute(relay.Function(variables, body), tensors, _current_target()))
    return outputs[0] if len(outputs) == 1 else outputs


_BINARY = {"add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "mod", "floor_divide", "floor_mod",
           "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "logical_and", "logical_or"}


class Namespace:
    """Operators of one namespace of the graph IR, such as topi.nn."""

    def __init__(self, prefix):
        self._prefix = prefix

    def __getattr__(self, name):
        return operator_of(self._prefix + name)


def operator_of(name):
    name = _ALIASES.get(name, name)
    build = relay
    for part in name.split("."):
        build = getattr(build, part, None)
        if build is None:
            raise AttributeError(f"there is no operator '{name}'" + suggest(name, [*_ALIASES, *Op.list_op_names()]))

    def compute(*args, **kwargs):
        return _apply(name, build, args, kwargs)

    compute.__name__ = name.split(".")[-1]
    compute.__doc__ = build.__doc__
    return compute


_tensor.operators = operator_of  # type: ignore[assignment] # arithmetic of tensors
