# SPDX-License-Identifier: Apache-2.0
"""Operators of networks and pictures that are expressions of others."""
import math

import numpy as np

from ..expr import Tuple, TupleGetItem, TupleWrapper, bind, const, var
from ._functions import concatenate, reshape, strided_slice, take, transpose
from ._make import call_op, known, make
from ._types import dtype_of, static_shape, tensor_type


def _pair(value):
    value = known(value)
    return [int(value)] * 2 if isinstance(value, int) else [int(v) for v in value]


def _four(padding):
    """(top, left, bottom, right)"""
    values = [int(v) for v in ([padding] if isinstance(padding, int) else known(padding))]
    return values * 4 if len(values) == 1 else values * 2 if len(values) == 2 else values


def _only(name, wanted, **given):
    for key, value in given.items():
        if value != wanted[key]:
            raise ValueError(f"{name}: {key} {value!r} isn't there; expected {wanted[key]!r}")


def fifo_buffer(data, buffer, axis):
    """The newest elements along an axis: those of the buffer without its first ones, then `data`."""
    size = static_shape(data, "nn.fifo_buffer")[axis]
    length = static_shape(buffer, "nn.fifo_buffer")[axis]
    return strided_slice(concatenate([buffer, data], axis), [size], [size + length], axes=[axis])


# Gradients.
def _pool_gradient(pool, out_grad, data, **attrs):
    """The gradient of a pool's operand, given that of its result."""
    from ..expr import Function
    from ..transform import gradient

    x, g = var("data", tensor_type(data)), var("grad", tensor_type(out_grad))
    weighted = call_op("multiply", [make(pool)(x, **attrs), g])
    both = gradient(Function([x, g], weighted))
    body = bind(both, {both.params[0]: data, both.params[1]: out_grad}).body
    return TupleGetItem(TupleGetItem(body, 1), 0)


def max_pool2d_grad(out_grad, data, pool_size=(1, 1), strides=(1, 1), padding=(0, 0), layout="NCHW", out_layout="",
                    ceil_mode=False):
    """The gradient of the operand of max_pool2d."""
    _only("nn.max_pool2d_grad", {"out_layout": ""}, out_layout=out_layout)
    return _pool_gradient("nn.max_pool2d", out_grad, data, pool_size=_pair(pool_size), strides=_pair(strides),
                          padding=_four(padding), layout=layout, ceil_mode=ceil_mode)


def avg_pool2d_grad(out_grad, data, pool_size=(1, 1), strides=(1, 1), padding=(0, 0), layout="NCHW", out_layout="",
                    ceil_mode=False, count_include_pad=False):
    """The gradient of the operand of avg_pool2d."""
    _only("nn.avg_pool2d_grad", {"out_layout": ""}, out_layout=out_layout)
    return _pool_gradient("nn.avg_pool2d", out_grad, data, pool_size=_pair(pool_size), strides=_pair(strides),
                          padding=_four(padding), layout=layout, ceil_mode=ceil_mode,
                          count_include_pad=count_include_pad)


# Convolutions.
def deformable_conv2d(data, offset, weight, strides=(1, 1), padding=(0, 0), dilation=(1, 1), deformable_groups=1,
                      groups=1, channels=None, kernel_size=None, data_layout="NCHW", kernel_layout="OIHW", out_layout="",
                      out_dtype=""):
    """A convolution that reads at places that `offset`, (N, deformable_groups * kernel * 2, OH, OW), moves."""
    _only("nn.deformable_conv2d", {"data_layout": "NCHW", "kernel_layout": "OIHW", "out_layout": ""},
          data_layout=data_layout, kernel_layout=kernel_layout, out_layout=out_layout)
    batch, in_channels = static_shape(data, "nn.deformable_conv2d")[:2]
    outputs, per_group, kh, kw = static_shape(weight, "nn.deformable_conv2d")
    if channels not in (None, outputs) or (kernel_size is not None and _pair(kernel_size) != [kh, kw]):
        raise ValueError(f"nn.deformable_conv2d: the weight has {outputs} channels and size ({kh}, {kw})")
    if groups < 1 or in_channels % groups or outputs % groups or per_group != in_channels // groups:
        raise ValueError(f"nn.deformable_conv2d: {groups} groups don't fit {in_channels} and {outputs} channels")
    height, width = static_shape(offset, "nn.deformable_conv2d")[2:]
    columns = call_op("nn.deformable_columns", [data, offset, const(1, dtype_of(data))],
                      {"kernel": [kh, kw], "strides": _pair(strides), "dilations": _pair(dilation),
                       "padding": _four(padding), "groups": deformable_groups})
    depth, points = per_group * kh * kw, height * width
    rows = reshape(transpose(reshape(columns, [batch, groups, depth, points]), [1, 0, 3, 2]),
                   [groups, batch * points, depth])
    product = make("nn.batch_matmul")(rows, reshape(weight, [groups, outputs // groups, depth]))
    result = transpose(reshape(product, [groups, batch, points, outputs // groups]), [1, 0, 3, 2])
    result = reshape(result, [batch, outputs, height, width])
    return call_op("cast", [result], {"dtype": out_dtype}) if out_dtype else result


def correlation(data1, data2, kernel_size=1, max_displacement=1, stride1=1, stride2=1, padding=0, is_multiply=True,
                layout="NCHW"):
    """How alike the patches of two feature maps are, for each displacement up to max_displacement in steps of stride2:
    the mean of products (or of absolute differences), one channel of the result each."""
    _only("nn.correlation", {"layout": "NCHW"}, layout=layout)
    shape = static_shape(data1, "nn.correlation")
    top, left, bottom, right = _four(padding)
    size = [shape[2] + top + bottom, shape[3] + left + right]
    border = (kernel_size - 1) // 2 + max_displacement
    out = [math.ceil((n - 2 * border) / stride1) for n in size]
    if min(out) < 1:
        raise ValueError(f"nn.correlation: displacements of {max_displacement} leave nothing of {size[0]} x {size[1]}")
    widths = [[0, 0], [0, 0], [top, bottom], [left, right]]
    first, second = (make("nn.pad")(d, const(0, dtype_of(d)), pad_width=widths) for d in (data1, data2))
    reach = [(n - 1) * stride1 + kernel_size for n in out]
    steps = [s * stride2 for s in range(-(max_displacement // stride2), max_displacement // stride2 + 1)]
    start = max_displacement

    def window(tensor, dy, dx):
        begin = [start + dy, start + dx]
        return strided_slice(tensor, begin, [b + n for b, n in zip(begin, reach)], axes=[2, 3])

    maps = []
    for dy in steps:
        for dx in steps:
            a, b = window(first, 0, 0), window(second, dy, dx)
            each = a * b if is_multiply else make("abs")(a - b)
            mean = make("mean")(each, axis=[1], keepdims=True)
            maps.append(make("nn.avg_pool2d")(mean, pool_size=[kernel_size] * 2, strides=[stride1] * 2,
                                              padding=[0] * 4))
    return concatenate(maps, 1)


def dilation2d(data, weight, strides=(1, 1), padding=(0, 0), dilations=(1, 1), data_layout="NCHW", kernel_layout="IHW",
               out_dtype=""):
    """Grayscale dilation: the largest sum of an element of each window and the weight there, by channel."""
    nhwc = data_layout == "NHWC"
    _only("image.dilation2d", {"data_layout": "NHWC" if nhwc else "NCHW", "kernel_layout": "HWI" if nhwc else "IHW"},
          data_layout=data_layout, kernel_layout=kernel_layout)
    if nhwc:
        inner = dilation2d(transpose(data, [0, 3, 1, 2]), transpose(weight, [2, 0, 1]), strides, padding, dilations,
                           out_dtype=out_dtype)
        return transpose(inner, [0, 2, 3, 1])
    shape, (channels, kh, kw) = static_shape(data, "image.dilation2d"), static_shape(weight, "image.dilation2d")
    (sy, sx), (dy, dx), (top, left, bottom, right) = _pair(strides), _pair(dilations), _four(padding)
    dtype = dtype_of(data)
    lowest = np.finfo(dtype).min if dtype.startswith("float") else np.iinfo(dtype).min
    padded = make("nn.pad")(data, const(lowest, dtype), pad_width=[[0, 0], [0, 0], [top, bottom], [left, right]])
    height = (shape[2] + top + bottom - (kh - 1) * dy - 1) // sy + 1
    width = (shape[3] + left + right - (kw - 1) * dx - 1) // sx + 1
    result = None
    for y in range(kh):
        for x in range(kw):
            begin = [y * dy, x * dx]
            part = strided_slice(padded, begin, [begin[0] + (height - 1) * sy + 1, begin[1] + (width - 1) * sx + 1],
                                 [sy, sx], axes=[2, 3])
            at = strided_slice(weight, [y, x], [y + 1, x + 1], axes=[1, 2])
            moved = part + reshape(at, [1, channels, 1, 1])
            result = moved if result is None else make("maximum")(result, moved)
    return call_op("cast", [result], {"dtype": out_dtype}) if out_dtype else result


def crop_and_resize(data, boxes, box_indices, crop_size, layout="NCHW", method="bilinear", extrapolation_value=0,
                    out_dtype=None):
    """Parts of pictures at another size. boxes: (count, 4), (y1, x1, y2, x2) of 1; box_indices: the picture of each."""
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(f"image.crop_and_resize: layout {layout!r} isn't there; expected 'NCHW' or 'NHWC'")
    if method not in ("bilinear", "nearest_neighbor"):
        raise ValueError(f"image.crop_and_resize: method {method!r}; expected 'bilinear' or 'nearest_neighbor'")
    if layout == "NHWC":
        inner = crop_and_resize(transpose(data, [0, 3, 1, 2]), boxes, box_indices, crop_size, "NCHW", method,
                                extrapolation_value, out_dtype)
        return transpose(inner, [0, 2, 3, 1])
    shape = static_shape(data, "image.crop_and_resize")
    count = static_shape(boxes, "image.crop_and_resize")[0]
    target, places, inside = [int(n) for n in known(crop_size)], [], []
    for axis in range(2):
        low, high = (strided_slice(boxes, [k], [k + 1], axes=[1]) for k in (axis, axis + 2))  # (count, 1)
        last = float(shape[2 + axis] - 1)
        steps = const(np.arange(target[axis], dtype="float32")[None] / max(target[axis] - 1, 1))
        at = low * const(last) + (high - low) * const(last) * steps  # (count, target)
        inside.append(make("logical_and")(make("greater_equal")(at, const(0.0)), make("less_equal")(at, const(last))))
        places.append(make("round")(at) if method == "nearest_neighbor" else at)
    # grid_sample takes places from -1 to 1.
    ys, xs = (at * const(2.0 / max(shape[2 + axis] - 1, 1)) - const(1.0) for axis, at in enumerate(places))
    whole = [count, 1, *target]
    broadcast = make("broadcast_to")
    grid = concatenate([broadcast(reshape(xs, [count, 1, 1, target[1]]), whole),
                        broadcast(reshape(ys, [count, 1, target[0], 1]), whole)], 1)
    pictures = take(data, call_op("cast", [box_indices], {"dtype": "int32"}), axis=0)
    sampled = make("image.grid_sample")(pictures, grid, padding_mode="border", align_corners=True)
    seen = make("logical_and")(reshape(inside[0], [count, 1, target[0], 1]), reshape(inside[1], [count, 1, 1, target[1]]))
    result = make("where")(seen, sampled, const(float(extrapolation_value)))
    return call_op("cast", [result], {"dtype": out_dtype}) if out_dtype else result


def reverse_reshape(data, newshape):
    """reshape, its codes read from the last dimension on: 0 keeps the dimension that is as far from the end."""
    wanted = [newshape] if isinstance(newshape, int) else list(known(newshape))
    if any(code < -1 for code in wanted):
        raise ValueError("reverse_reshape: the codes 0 and -1 are there, not those below")
    shape = static_shape(data, "reverse_reshape")
    dims = [shape[i - len(wanted)] if code == 0 else code for i, code in enumerate(wanted)]
    return reshape(data, dims)


# What qnn's operators do to numbers of float32.
def _simulated_range(out_dtype):
    if not isinstance(out_dtype, str) or out_dtype not in ("int8", "uint8", "int32", "disable"):
        raise ValueError(f"out_dtype {out_dtype!r}; expected 'int8', 'uint8', 'int32' or 'disable'")
    if out_dtype == "disable":
        return None
    info = np.iinfo(out_dtype)
    return float(info.min), float(info.max)


def _by_axis(value, data, axis):
    """A vector along an axis of `data`, broadcast; scalars as they are."""
    kind = tensor_type(value)
    if len(kind.shape) == 0:
        return value
    rank = len(tensor_type(data).shape)
    shape = [1] * rank
    shape[axis % rank] = -1
    return reshape(value, shape)


def simulated_quantize(data, output_scale, output_zero_point, axis=-1, out_dtype="int8"):
    """What quantize gives, as float32: rounded and clipped to the range of out_dtype ("disable": data itself)."""
    bounds = _simulated_range(out_dtype)
    if bounds is None:
        return data
    scale, zero = (_by_axis(v, data, axis) for v in (output_scale, output_zero_point))
    zero = call_op("cast", [zero], {"dtype": "float32"})
    return make("clip")(make("round")(data / scale) + zero, a_min=bounds[0], a_max=bounds[1])


def simulated_dequantize(data, input_scale, input_zero_point, axis=-1, in_dtype="int8"):
    """What dequantize gives of numbers that are float32 already ("disable": data itself)."""
    if _simulated_range(in_dtype) is None:
        return data
    scale, zero = (_by_axis(v, data, axis) for v in (input_scale, input_zero_point))
    return (data - call_op("cast", [zero], {"dtype": "float32"})) * scale


def qnn_conv2d_transpose(data, weight, input_zero_point, kernel_zero_point, input_scale, kernel_scale, strides=(1, 1),
                         padding=(0, 0), dilation=(1, 1), channels=None, kernel_size=None, groups=1, data_layout="NCHW",
                         kernel_layout="IOHW", out_layout="", output_padding=(0, 0), out_dtype="int32"):
    """The transpose of a convolution of quantised numbers: sums of integers, of scale input_scale * kernel_scale."""
    from ._functions import conv2d_transpose

    del input_scale, kernel_scale
    x, w = (call_op("cast", [value], {"dtype": "int32"}) - call_op("cast", [zero], {"dtype": "int32"})
            for value, zero in ((data, input_zero_point), (weight, kernel_zero_point)))
    return conv2d_transpose(x, w, strides, padding, dilation, channels, kernel_size, groups, data_layout, kernel_layout,
                            out_layout, output_padding, out_dtype)


NN = {function.__name__: function for function in (fifo_buffer, max_pool2d_grad, avg_pool2d_grad, deformable_conv2d,
                                                   correlation)}
IMAGE = {"dilation2d": dilation2d, "crop_and_resize": crop_and_resize}
QNN = {"simulated_quantize": simulated_quantize, "simulated_dequantize": simulated_dequantize,
       "conv2d_transpose": qnn_conv2d_transpose}
ROOT = {"reverse_reshape": reverse_reshape}
