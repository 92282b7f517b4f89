# SPDX-License-Identifier: Apache-2.0
"""Operators of networks as tensor expressions, under the original's names. Those that aren't here have the parameters of
the graph operator of the same name (`treadle.relay.nn`)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

from .. import te, tir
from ._operators import operator_of
from .sparse import sparse_dense  # noqa: F401 - one of these operators

if TYPE_CHECKING:
    from .._typing import DTypeLike
    from ..te import Tensor

    Ints = Union[int, Sequence[int]]

_KERNELS = {"NCW": "OIW", "NWC": "WIO", "NCHW": "OIHW", "NHWC": "HWIO", "NCDHW": "OIDHW", "NDHWC": "DHWIO"}


def _several(value, count):
    return [int(value)] * count if isinstance(value, int) or not hasattr(value, "__len__") else [int(v) for v in value]


def _padding(padding, sizes, kernel, strides, dilation):
    """Elements before all spatial dimensions, then behind them. "SAME": so many that a result has ceil(size / stride)
    elements; "VALID": none."""
    rank = len(kernel)
    if padding == "VALID":
        return [0] * (2 * rank)
    if padding == "SAME":
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
        whole = [max(0, (-(-int(n) // s) - 1) * s + r - int(n)) for n, s, r in zip(sizes, strides, reach)]
        return [w // 2 for w in whole] + [w - w // 2 for w in whole]
    if isinstance(padding, str):
        raise ValueError(f"padding {padding!r}; expected numbers, \"SAME\" or \"VALID\"")
    values = _several(padding, rank)
    return values * 2 if len(values) == rank else values


def _conv(data, weight, strides, padding, dilation, layout, out_dtype, groups=1, kernel_layout=None, channels=None):
    if layout not in _KERNELS:
        raise ValueError(f"layout {layout!r}; expected one of {', '.join(_KERNELS)}")
    kernel_layout = kernel_layout or _KERNELS[layout]
    spatial = [axis for axis in layout if axis not in "NC"]
    shape = dict(zip(kernel_layout, (int(d) for d in weight.shape)))
    kernel = [shape[axis] for axis in spatial]
    sizes = [dim for axis, dim in zip(layout, data.shape) if axis in spatial]
    strides, dilation = _several(strides, len(spatial)), _several(dilation, len(spatial))
    return operator_of(f"nn.conv{len(spatial)}d")(
        data, weight, strides=strides, padding=_padding(padding, sizes, kernel, strides, dilation), dilation=dilation,
        groups=groups, channels=channels or shape["O"], kernel_size=kernel, data_layout=layout,
        kernel_layout=kernel_layout, out_dtype=out_dtype or "void")


def conv1d(data: Tensor, kernel: Tensor, strides: Ints = 1, padding: Ints | str = "VALID", dilation: Ints = 1,
           layout: str = "NCW", out_dtype: DTypeLike | None = None) -> Tensor:
    """A convolution; the kernel is OIW, for layout NWC WIO."""
    return _conv(data, kernel, strides, padding, dilation, layout, out_dtype)


def conv1d_ncw(data: Tensor, kernel: Tensor, strides: Ints = 1, padding: Ints | str = "VALID", dilation: Ints = 1,
               out_dtype: DTypeLike | None = None) -> Tensor:
    """A convolution of (batch, channels, width); the kernel is OIW."""
    return _conv(data, kernel, strides, padding, dilation, "NCW", out_dtype)


def conv1d_nwc(data: Tensor, kernel: Tensor, strides: Ints = 1, padding: Ints | str = "VALID", dilation: Ints = 1,
               out_dtype: DTypeLike | None = None) -> Tensor:
    """A convolution of (batch, width, channels); the kernel is WIO."""
    return _conv(data, kernel, strides, padding, dilation, "NWC", out_dtype)


def conv2d(input: Tensor, filter: Tensor, strides: Ints = 1, padding: Ints | str = 0, dilation: Ints = 1,
           layout: str = "NCHW", out_dtype: DTypeLike | None = None, groups: int = 1) -> Tensor:
    """A convolution; the filter is OIHW, for layout NHWC HWIO, for HWCN HWIO."""
    if layout == "HWCN":
        return conv2d_hwcn(input, filter, strides, padding, dilation, out_dtype)
    return _conv(input, filter, strides, padding, dilation, layout, out_dtype, groups)


def conv2d_nchw(Input: Tensor, Filter: Tensor, stride: Ints, padding: Ints | str, dilation: Ints = 1,
                out_dtype: DTypeLike | None = None) -> Tensor:
    """A convolution of (batch, channels, height, width); the filter is OIHW."""
    return _conv(Input, Filter, stride, padding, dilation, "NCHW", out_dtype)


def conv2d_nhwc(Input: Tensor, Filter: Tensor, stride: Ints, padding: Ints | str, dilation: Ints = 1,
                out_dtype: DTypeLike = "float32") -> Tensor:
    """A convolution of (batch, height, width, channels); the filter is HWIO."""
    return _conv(Input, Filter, stride, padding, dilation, "NHWC", out_dtype)


def conv2d_hwcn(Input: Tensor, Filter: Tensor, stride: Ints, padding: Ints | str, dilation: Ints = 1,
                out_dtype: DTypeLike | None = None) -> Tensor:
    """A convolution of (height, width, channels, batch) with (height, width, channels, filters)."""
    out_dtype = out_dtype or Input.dtype
    strides, dilation = _several(stride, 2), _several(dilation, 2)
    kernel = [int(d) for d in Filter.shape[:2]]
    top, left, bottom, right = _padding(padding, Input.shape[:2], kernel, strides, dilation)
    padded = pad(Input, [top, left, 0, 0], [bottom, right, 0, 0], name="pad_temp")
    size = [(int(n) - (k - 1) * d - 1) // s + 1
            for n, k, d, s in zip(padded.shape[:2], kernel, dilation, strides)]
    ry, rx = te.reduce_axis((0, kernel[0]), name="ry"), te.reduce_axis((0, kernel[1]), name="rx")
    rc = te.reduce_axis((0, Input.shape[2]), name="rc")
    return te.compute(
        (*size, Filter.shape[3], Input.shape[3]),
        lambda y, x, f, n: te.sum(
            padded[y * strides[0] + ry * dilation[0], x * strides[1] + rx * dilation[1], rc, n].astype(out_dtype)
            * Filter[ry, rx, rc, f].astype(out_dtype), axis=[ry, rx, rc]),
        name="Conv2dOutput", tag="conv2d_hwcn")


def group_conv2d_nchw(Input: Tensor, Filter: Tensor, stride: Ints, padding: Ints | str, dilation: Ints, groups: int,
                      out_dtype: DTypeLike | None = None) -> Tensor:
    """A convolution of `groups` of channels; the filter is OIHW with the channels of one group."""
    return _conv(Input, Filter, stride, padding, dilation, "NCHW", out_dtype, groups)


def group_conv2d_nhwc(Input: Tensor, Filter: Tensor, stride: Ints, padding: Ints | str, dilation: Ints, groups: int,
                      out_dtype: DTypeLike | None = None) -> Tensor:
    """A convolution of `groups` of channels; the filter is HWIO with the channels of one group."""
    return _conv(Input, Filter, stride, padding, dilation, "NHWC", out_dtype, groups)


def depthwise_conv2d_nchw(Input: Tensor, Filter: Tensor, stride: Ints, padding: Ints | str, dilation: Ints,
                          out_dtype: DTypeLike | None = None) -> Tensor:
    """Each channel by itself; the filter is (channels, multiplier, height, width)."""
    channels, multiplier = (int(d) for d in Filter.shape[:2])
    return _conv(Input, Filter, stride, padding, dilation, "NCHW", out_dtype, channels,
                 channels=channels * multiplier)


def depthwise_conv2d_nhwc(Input: Tensor, Filter: Tensor, stride: Ints, padding: Ints | str, dilation: Ints,
                          out_dtype: DTypeLike | None = None) -> Tensor:
    """Each channel by itself; the filter is (height, width, channels, multiplier)."""
    channels, multiplier = (int(d) for d in Filter.shape[2:])
    return _conv(Input, Filter, stride, padding, dilation, "NHWC", out_dtype, channels, "HWOI",
                 channels * multiplier)


def conv2d_NCHWc(data: Tensor, kernel: Tensor, stride: Ints, padding: Ints | str, dilation: Ints, layout: str,
                 out_layout: str, out_dtype: DTypeLike = "float32") -> Tensor:
    """A convolution of blocks of channels: data NCHW16c, kernel OIHW16i16o."""
    size = [int(d) for d in kernel.shape]
    strides, dilation = _several(stride, 2), _several(dilation, 2)
    inner, outer = size[4], size[5]
    return operator_of("nn.contrib_conv2d_NCHWc")(
        data, kernel, strides=strides, padding=_padding(padding, data.shape[2:4], size[2:4], strides, dilation),
        dilation=dilation, channels=size[0] * outer, kernel_size=size[2:4], data_layout=layout,
        kernel_layout=f"OIHW{inner}i{outer}o", out_layout=out_layout, out_dtype=out_dtype)


def conv3d_ncdhw(Input: Tensor, Filter: Tensor, stride: Ints, padding: Ints | str, dilation: Ints,
                 out_dtype: DTypeLike | None = None, groups: int = 1) -> Tensor:
    """A convolution of (batch, channels, depth, height, width); the filter is OIDHW."""
    return _conv(Input, Filter, stride, padding, dilation, "NCDHW", out_dtype, groups)


def conv3d_ndhwc(Input: Tensor, Filter: Tensor, stride: Ints, padding: Ints | str, dilation: Ints, groups: int = 1,
                 out_dtype: DTypeLike = "float32") -> Tensor:
    """A convolution of (batch, depth, height, width, channels); the filter is DHWIO."""
    return _conv(Input, Filter, stride, padding, dilation, "NDHWC", out_dtype, groups)


def _conv_transpose(data, weight, strides, padding, out_dtype, output_padding, groups=1):
    rank = len(data.shape) - 2
    kernel = [int(d) for d in weight.shape[2:]]
    return operator_of(f"nn.conv{rank}d_transpose")(
        data, weight, strides=_several(strides, rank),
        padding=_padding(padding, data.shape[2:], kernel, [1] * rank, [1] * rank), groups=groups,
        channels=int(weight.shape[1]) * groups, kernel_size=kernel, output_padding=_several(output_padding, rank),
        out_dtype=out_dtype or "")


def conv1d_transpose_ncw(data: Tensor, kernel: Tensor, stride: Ints, padding: Ints | str,
                         out_dtype: DTypeLike | None = None, output_padding: Ints = 0) -> Tensor:
    """The transpose of a convolution; the kernel is IOW."""
    return _conv_transpose(data, kernel, stride, padding, out_dtype, output_padding)


def conv2d_transpose_nchw(Input: Tensor, Filter: Tensor, strides: Ints, padding: Ints | str,
                          out_dtype: DTypeLike | None = None, output_padding: Ints = (0, 0)) -> Tensor:
    """The transpose of a convolution; the filter is IOHW."""
    return _conv_transpose(Input, Filter, strides, padding, out_dtype, output_padding)


def group_conv2d_transpose_nchw(data: Tensor, kernel: Tensor, stride: Ints, padding: Ints | str,
                                out_dtype: DTypeLike | None, output_padding: Ints, groups: int) -> Tensor:
    """A transposed convolution of `groups` of channels; the filter is IOHW."""
    return _conv_transpose(data, kernel, stride, padding, out_dtype, output_padding, groups)


def conv3d_transpose_ncdhw(Input: Tensor, Filter: Tensor, strides: Ints, padding: Ints | str,
                           out_dtype: DTypeLike | None = None, output_padding: Ints = (0, 0, 0)) -> Tensor:
    """The transpose of a convolution; the filter is IODHW."""
    return _conv_transpose(Input, Filter, strides, padding, out_dtype, output_padding)


def matmul(tensor_a: Tensor, tensor_b: Tensor, bias: Tensor | None = None, out_dtype: DTypeLike | None = None,
           transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """The product of two matrices, plus the bias."""
    product = operator_of("nn.matmul")(tensor_a, tensor_b, None, out_dtype=out_dtype or "void",
                                       transpose_a=transpose_a, transpose_b=transpose_b)
    return product if bias is None else operator_of("nn.bias_add")(product, bias, axis=-1)


def dense(data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: DTypeLike | None = None) -> Tensor:
    """data times the transposed weight, plus the bias."""
    product = operator_of("nn.dense")(data, weight, None, out_dtype=out_dtype or "void")
    return product if bias is None else operator_of("nn.bias_add")(product, bias, axis=-1)


def batch_matmul(tensor_a: Tensor, tensor_b: Tensor, oshape: Any = None, out_dtype: DTypeLike | None = None,
                 transpose_a: bool = False, transpose_b: bool = True) -> Tensor:
    """Products of matrices, batch by batch. `oshape` follows from the operands."""
    del oshape
    return operator_of("nn.batch_matmul")(tensor_a, tensor_b, out_dtype=out_dtype or "void", transpose_a=transpose_a,
                                          transpose_b=transpose_b)


def flatten(data: Tensor) -> Tensor:
    """All dimensions but the first as one."""
    return operator_of("nn.batch_flatten")(data)


def _scale_shift(data, scale, shift, axis):
    index = lambda tensor, i: tensor(i[axis])  # noqa: E731
    return te.compute(data.shape, lambda *i: data(*i) * index(scale, i) + index(shift, i), name="ScaleShift",
                      tag="broadcast")


def scale_shift_nchw(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Input * Scale + Shift, by channel."""
    return _scale_shift(Input, Scale, Shift, 1)


def scale_shift_nhwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Input * Scale + Shift, by channel."""
    return _scale_shift(Input, Scale, Shift, 3)


def pad(data: Tensor, pad_before: Sequence[Any], pad_after: Sequence[Any] | None = None, pad_value: float = 0.0,
        name: str = "PadInput") -> Tensor:
    """Elements of pad_value before and after those of each dimension."""
    before, after = list(pad_before), list(pad_before if pad_after is None else pad_after)
    if isinstance(pad_value, (int, float)) and name == "PadInput":
        return operator_of("nn.pad")(data, [(int(b), int(a)) for b, a in zip(before, after)], pad_value=pad_value)
    if not any(before) and not any(after):
        return data

    def element(*index):
        inside = [check for i, b, a, n in zip(index, before, after, data.shape)
                  for check in ([i >= b] if b else []) + ([i < n + b] if a else [])]
        value = tir.const(pad_value, data.dtype) if isinstance(pad_value, (int, float)) else pad_value
        return tir.if_then_else(tir.all(*inside), data(*(i - b if b else i for i, b in zip(index, before))), value)

    return te.compute([n + b + a for n, b, a in zip(data.shape, before, after)], element, name=name,
                      tag="injective,pad")


def _pool(rank, data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad):
    if pool_type not in ("max", "avg"):
        raise ValueError(f"pool_type {pool_type!r}; expected max or avg")
    more = {"count_include_pad": count_include_pad} if pool_type == "avg" else {}
    return operator_of(f"nn.{pool_type}_pool{rank}d")(
        data, pool_size=_several(kernel, rank), strides=_several(stride, rank), dilation=_several(dilation, rank),
        padding=_several(padding, 2 * rank), layout=layout, ceil_mode=ceil_mode, **more)


def pool1d(data: Tensor, kernel: Ints, stride: Ints, dilation: Ints, padding: Ints, pool_type: str,
           ceil_mode: bool = False, layout: str = "NCW", count_include_pad: bool = True) -> Tensor:
    """The average or maximum ("avg", "max") of each window."""
    return _pool(1, data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad)


def pool2d(data: Tensor, kernel: Ints, stride: Ints, dilation: Ints, padding: Ints, pool_type: str,
           ceil_mode: bool = False, layout: str = "NCHW", count_include_pad: bool = True) -> Tensor:
    """The average or maximum ("avg", "max") of each window."""
    return _pool(2, data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad)


def pool3d(data: Tensor, kernel: Ints, stride: Ints, dilation: Ints, padding: Ints, pool_type: str,
           ceil_mode: bool = False, layout: str = "NCDHW", count_include_pad: bool = True) -> Tensor:
    """The average or maximum ("avg", "max") of each window."""
    return _pool(3, data, kernel, stride, dilation, padding, pool_type, ceil_mode, layout, count_include_pad)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The average or maximum ("avg", "max") of each channel."""
    return operator_of(f"nn.global_{pool_type}_pool2d")(data, layout=layout)


def adaptive_pool(data: Tensor, output_size: Ints, pool_type: str, layout: str = "NCHW") -> Tensor:
    """The average or maximum of as many windows as the result has elements."""
    return operator_of(f"nn.adaptive_{pool_type}_pool2d")(data, list(output_size), layout=layout)


def adaptive_pool3d(data: Tensor, output_size: Ints, pool_type: str, layout: str = "NCDHW") -> Tensor:
    """The average or maximum of as many windows as the result has elements."""
    return operator_of(f"nn.adaptive_{pool_type}_pool3d")(data, list(output_size), layout=layout)


def layout_transform(tensor: Tensor, current_layout: str, desired_layout: str) -> Tensor:
    """The tensor in another layout: "NCHW" to "NHWC", "NCHW16c", ..."""
    return operator_of("layout_transform")(tensor, current_layout, desired_layout)


def correlation_nchw(data1: Tensor, data2: Tensor, kernel_size: int, max_displacement: int, stride1: int, stride2: int,
                     padding: Ints, is_multiply: bool) -> Tensor:
    """How alike the patches of two feature maps are, a channel for each displacement."""
    return operator_of("nn.correlation")(data1, data2, kernel_size=kernel_size, max_displacement=max_displacement,
                                         stride1=stride1, stride2=stride2, padding=padding, is_multiply=is_multiply)


def deformable_conv2d_nchw(data: Tensor, offset: Tensor, kernel: Tensor, strides: Ints, padding: Ints, dilation: Ints,
                           deformable_groups: int, groups: int, out_dtype: DTypeLike | None = None) -> Tensor:
    """A convolution, kernel OIHW, that reads at places that `offset` moves."""
    return operator_of("nn.deformable_conv2d")(
        data, offset, kernel, strides=_several(strides, 2), padding=_several(padding, 2), dilation=_several(dilation, 2),
        deformable_groups=deformable_groups, groups=groups, channels=int(kernel.shape[0]),
        kernel_size=[int(d) for d in kernel.shape[2:]], out_dtype=out_dtype or "")


def _pads(padding, kernel):
    """Elements before all dimensions, then behind them; of "SAME" for strides of 1."""
    if padding == "SAME":
        return (*(k // 2 for k in kernel), *((k - 1) // 2 for k in kernel))
    return tuple(_padding(padding, kernel, kernel, [1] * len(kernel), [1] * len(kernel)))


def get_pad_tuple(padding: Ints | str, kernel: Sequence[int]) -> tuple[int, ...]:
    """(top, left, bottom, right) of a padding that is a number, two or four of them, "SAME" or "VALID"."""
    return _pads(padding, kernel)


def get_pad_tuple1d(padding: Ints | str, kernel: Sequence[int] | int) -> tuple[int, ...]:
    """(left, right)"""
    return _pads(padding, [kernel] if isinstance(kernel, int) else kernel)


def get_pad_tuple3d(padding: Ints | str, kernel: Sequence[int]) -> tuple[int, ...]:
    """(front, top, left, back, bottom, right)"""
    return _pads(padding, kernel)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return operator_of("nn." + name)
