# SPDX-License-Identifier: Apache-2.0
"""The graph IR's operators as tensor expressions: topi.add(A, B), topi.nn.relu(A), topi.sum(A, axis=1).

Arguments are those of the operator of the same name in `treadle.relay`, with tensors (treadle.te) for expressions.
"""
import operator

from .. import relay, te, tir
from .._ffi import Api
from ..ir import PrimExpr
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


class _Namespace:
    """Operators of one namespace of the graph IR, such as topi.nn."""

    def __init__(self, prefix):
        self._prefix = prefix

    def __getattr__(self, name):
        return _operator(self._prefix + name)


def _operator(name):
    name = _ALIASES.get(name, name)
    build = relay
    for part in name.split("."):
        build = getattr(build, part, None)
        if build is None:
            raise AttributeError(f"there is no operator '{name}'")

    def compute(*args, **kwargs):
        return _apply(name, build, args, kwargs)

    compute.__name__ = name.split(".")[-1]
    compute.__doc__ = build.__doc__
    return compute


_tensor.operators = _operator  # type: ignore[assignment] # arithmetic of tensors


def elemwise_sum(xs):
    """The sum of tensors of one shape."""
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total


def full(shape, dtype, fill_value):
    """A tensor whose elements are all fill_value."""
    return _operator("full")(relay.const(fill_value, dtype), list(shape), dtype)


def arange(start, stop=None, step=1, dtype="float32"):
    """Numbers from start (0, if only one is given) up to stop, which isn't included."""
    start, stop = (0, start) if stop is None else (start, stop)
    return _operator("arange")(*(relay.const(v, dtype) for v in (start, stop, step)), dtype=dtype)


def matmul(a, b, transp_a=False, transp_b=False):
    """The product of two matrices."""
    return _operator("nn.matmul")(a, b, None, transpose_a=transp_a, transpose_b=transp_b)


class _Networks(_Namespace):
    """topi.nn: operators of networks, some with other parameters than in the graph IR."""

    @staticmethod
    def conv2d(input, filter, strides=1, padding=0, dilation=1, layout="NCHW", out_dtype=None, groups=1):
        """A convolution; the filter is OIHW, for layout NHWC HWIO."""
        kernels = {"NCHW": "OIHW", "NHWC": "HWIO"}
        if layout not in kernels:
            raise ValueError(f"topi.nn.conv2d: layout {layout!r}; expected one of {', '.join(kernels)}")
        shape = dict(zip(kernels[layout], (int(d) for d in filter.shape)))
        return _operator("nn.conv2d")(input, filter, strides=strides, padding=padding, dilation=dilation, groups=groups,
                                      channels=shape["O"], kernel_size=(shape["H"], shape["W"]), data_layout=layout,
                                      kernel_layout=kernels[layout], out_dtype=out_dtype or "void")

    def conv2d_nchw(self, Input, Filter, stride, padding, dilation=1, out_dtype=None):
        return self.conv2d(Input, Filter, stride, padding, dilation, "NCHW", out_dtype)

    def conv2d_nhwc(self, Input, Filter, stride, padding, dilation=1, out_dtype="float32"):
        return self.conv2d(Input, Filter, stride, padding, dilation, "NHWC", out_dtype)

    def group_conv2d_nchw(self, Input, Filter, stride, padding, dilation, groups, out_dtype=None):
        return self.conv2d(Input, Filter, stride, padding, dilation, "NCHW", out_dtype, groups)

    @staticmethod
    def dense(data, weight, bias=None, out_dtype=None):
        """data times the transposed weight, plus the bias."""
        product = _operator("nn.dense")(data, weight, None, out_dtype=out_dtype or "void")
        return product if bias is None else _operator("nn.bias_add")(product, bias, axis=-1)

    @staticmethod
    def pad(data, pad_before, pad_after=None, pad_value=0.0, name="PadInput"):
        """Elements of pad_value before and after those of each dimension."""
        after = pad_before if pad_after is None else pad_after
        width = [(int(b), int(a)) for b, a in zip(pad_before, after)]
        return _operator("nn.pad")(data, width, pad_value=pad_value)

    @staticmethod
    def global_pool(data, pool_type, layout="NCHW"):
        """The average or maximum ("avg", "max") of each channel."""
        return _operator(f"nn.global_{pool_type}_pool2d")(data, layout=layout)


nn = _Networks("nn.")
image = _Namespace("image.")
vision = _Namespace("vision.")


def __getattr__(name):
    if name.startswith("__") or name == "testing":  # a module, also of the graph IR
        raise AttributeError(name)
    return _operator(name)


from . import generic, testing, utils  # noqa: E402 - uses what is above

# The original's modules by machine: the schedule asks the current target.
x86 = arm_cpu = cuda = gpu = mali = intel_graphics = generic
