# SPDX-License-Identifier: Apache-2.0
"""Functions whose parameters aren't simply operands and attributes in the order of the operator's declaration: those
that take shapes known or computed, and those that join several operators."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...error import Error
from ...ir import DataType, TensorType
from ..expr import Constant, Expr, Tuple, TupleWrapper, const
from ._make import call_op, is_dynamic, known, make, operand

if TYPE_CHECKING:
    from ..._typing import DTypeLike, ExprLike


def _dtype(value):
    return str(DataType(value))


def _static_or_dynamic(name, tensors, attrs, operands, dyn_tensors):
    """The operator, or its dyn. form when one of `operands` is computed; these are then operands."""
    if any(is_dynamic(value) for value in operands.values()):
        return call_op(f"dyn.{name}", dyn_tensors(), attrs)
    return call_op(name, tensors, {**attrs, **{key: known(value) for key, value in operands.items()}})


def _as_operand(value):
    return value if is_dynamic(value) else const(known(value), "int64")


# Tensors from nothing.
def zeros(shape: Any, dtype: DTypeLike) -> Expr:
    """A tensor of zeros."""
    return _static_or_dynamic("zeros", [], {"dtype": _dtype(dtype)}, {"shape": _dims(shape)}, lambda: [shape])


def ones(shape: Any, dtype: DTypeLike) -> Expr:
    """A tensor of ones."""
    return _static_or_dynamic("ones", [], {"dtype": _dtype(dtype)}, {"shape": _dims(shape)}, lambda: [shape])


def full(fill_value: ExprLike, shape: Any = (), dtype: DTypeLike = "") -> Expr:
    """A tensor filled with a scalar, of the scalar's type unless `dtype` says another."""
    attrs = {"dtype": _dtype(dtype)} if dtype else {}
    return _static_or_dynamic("full", [fill_value], attrs, {"shape": _dims(shape)}, lambda: [fill_value, shape])


def arange(start: ExprLike, stop: ExprLike | None = None, step: ExprLike | None = None,
           dtype: DTypeLike = "float32") -> Expr:
    """The numbers from `start` (0 when only one bound is given) to `stop`, which isn't one of them, by `step`."""
    if stop is None:
        start, stop = 0, start
    bounds = {"start": start, "stop": stop, "step": 1 if step is None else step}
    bounds = {key: value if isinstance(value, Expr) else const(value, dtype) for key, value in bounds.items()}
    numbers = {key: float(known(value)) for key, value in bounds.items() if isinstance(value, Constant)}
    return call_op("arange", list(bounds.values()), {**numbers, "dtype": _dtype(dtype)})


def _dims(shape):
    if isinstance(shape, int):
        return [shape]
    return shape


# Shapes.
def reshape(data: ExprLike, newshape: Any, allowzero: bool = False) -> Expr:
    """The same elements in another shape. 0 keeps a dimension, -1 is what is left, -2 keeps all remaining ones, -3 joins
    two, -4 splits one into the two that follow."""
    if isinstance(newshape, str):
        raise TypeError(f"reshape: newshape is {newshape!r}; expected a list of integers, or an expression")
    if isinstance(newshape, int):
        newshape = [newshape]
    if isinstance(newshape, (list, tuple)) and any(is_dynamic(dim) for dim in newshape):
        newshape = call_op("concatenate", [Tuple([reshape(as_int64(dim), [1]) for dim in newshape])], {"axis": 0})
    return _static_or_dynamic("reshape", [data], {"allowzero": allowzero}, {"newshape": newshape},
                              lambda: [data, newshape])


def as_int64(value: Any) -> Expr:
    """An int64 tensor."""
    return call_op("cast", [value], {"dtype": "int64"}) if is_dynamic(value) else const(value, "int64")


def broadcast_to(data: ExprLike, shape: Any) -> Expr:
    """`data` repeated along its dimensions of size 1 until it has the shape."""
    return _static_or_dynamic("broadcast_to", [data], {}, {"shape": _dims(shape)}, lambda: [data, shape])


def collapse_sum_to(data: ExprLike, shape: Any) -> Expr:
    """The sum over the dimensions that broadcasting from the shape (a tensor, or numbers) would add or enlarge."""
    return call_op("collapse_sum_to", [data, _as_operand(shape)])


def tile(data: ExprLike, reps: Any) -> Expr:
    """`data` repeated as a whole, `reps` times along each dimension."""
    return _static_or_dynamic("tile", [data], {}, {"reps": _dims(reps)}, lambda: [data, reps])


def squeeze(data: ExprLike, axis: int | Sequence[int] | Expr | None = None) -> Expr:
    """Without the dimensions of size 1 that `axis` names (None: all)."""
    if is_dynamic(axis):
        return call_op("dyn.squeeze", [data, axis])
    axis = known(axis)
    return call_op("squeeze", [data], {} if axis is None else {"axis": [axis] if isinstance(axis, int) else axis})


def transpose(data: ExprLike, axes: Sequence[int] | None = None) -> Expr:
    """The dimensions in another order; None: reversed."""
    return call_op("transpose", [data], {} if axes is None else {"axes": list(axes)})


def strided_slice(data: ExprLike, begin: Any, end: Any, strides: Any = None, axes: Sequence[int] | None = None,
                  slice_mode: str = "end") -> Expr:
    """Elements from `begin` to `end` by `strides` along each dimension (or along `axes`). slice_mode "size": `end` says
    how many elements, -1 all that are left."""
    if any(is_dynamic(value) for value in (begin, end, strides)):
        strides = [1] * 1 if strides is None else strides
        return call_op("dyn.strided_slice", [data, *map(_as_operand, (begin, end, strides))],
                       {"slice_mode": slice_mode, **({} if axes is None else {"axes": list(axes)})})
    attrs = {"begin": known(begin), "end": known(end), "slice_mode": slice_mode,
             "strides": [1] * len(known(begin)) if strides is None else known(strides)}
    if axes is not None:
        attrs["axes"] = list(axes)
    return call_op("strided_slice", [data], attrs)


def strided_set(data: ExprLike, v: ExprLike, begin: Any, end: Any, strides: Any = None) -> Expr:
    """`data` with the slice replaced by `v`."""
    strides = const([1] * len(known(begin)), "int64") if strides is None else strides
    return call_op("strided_set", [data, v, *map(_as_operand, (begin, end, strides))])


def split(data: ExprLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> TupleWrapper:
    """Parts along a dimension: so many equal ones, or cut before the indices."""
    sections = known(indices_or_sections)
    return call_op("split", [data], {"indices_or_sections": sections, "axis": axis})


def concatenate(data: Any, axis: int) -> Expr:
    """Tensors one after another along a dimension."""
    return call_op("concatenate", [_sequence(data)], {"axis": axis})


def stack(data: Any, axis: int) -> Expr:
    """Tensors along a new dimension."""
    return call_op("stack", [_sequence(data)], {"axis": axis})


def einsum(data: Any, equation: str) -> Expr:
    """Einstein's sum of products."""
    return call_op("einsum", [_sequence(data)], {"equation": equation})


def meshgrid(data: Any, indexing: str = "ij") -> TupleWrapper:
    """Coordinates of a grid, one tensor per vector."""
    data = _sequence(data)
    return TupleWrapper(call_op("meshgrid", [data], {"indexing": indexing}), len(data.fields))


def _sequence(data):
    return Tuple([operand(item) for item in data]) if isinstance(data, (list, tuple)) else operand(data)


def take(data: ExprLike, indices: ExprLike, axis: int | None = None, batch_dims: int = 0, mode: str = "clip") -> Expr:
    """The elements of `data` at the indices: along a dimension, or of the flattened tensor."""
    attrs = {"batch_dims": batch_dims, "mode": mode}
    return call_op("take", [data, indices], attrs if axis is None else {**attrs, "axis": axis})


def gather(data: ExprLike, axis: int, indices: ExprLike) -> Expr:
    """Elements along an axis, by an index for each element of the result."""
    return call_op("gather", [data, indices], {"axis": axis})


def matrix_set_diag(data: ExprLike, diagonal: ExprLike, k: int | Sequence[int] = 0, align: str = "RIGHT_LEFT") -> Expr:
    """A matrix with other diagonals: those from k[0] to k[1], aligned to super- and subdiagonals as `align` says."""
    sides = align.upper().split("_")
    if len(sides) != 2 or not {*sides} <= {"LEFT", "RIGHT"}:
        raise ValueError(f"align is LEFT_LEFT, LEFT_RIGHT, RIGHT_LEFT or RIGHT_RIGHT, not {align}")
    first, last = (k, k) if isinstance(k, int) else (k[0], k[-1])
    return call_op("matrix_set_diag", [data, diagonal],
                   {"k1": first, "k2": last, "super_diag_right_align": sides[0] == "RIGHT",
                    "sub_diag_right_align": sides[1] == "RIGHT"})


def sparse_to_dense(sparse_indices: ExprLike, output_shape: Sequence[int], sparse_values: ExprLike,
                    default_value: ExprLike = 0) -> Expr:
    """A tensor of `default_value` with other values at some places."""
    return call_op("sparse_to_dense", [sparse_indices, sparse_values, default_value],
                   {"output_shape": known(output_shape)})


def unique(data: ExprLike, is_sorted: bool = True, return_counts: bool = False) -> TupleWrapper:
    """The distinct elements, where they are, and on request how often."""
    return call_op("unique", [data], {"sorted": is_sorted, "return_counts": return_counts})


def repeat(data: ExprLike, repeats: int, axis: int) -> Expr:
    """Each element `repeats` times along a dimension."""
    return call_op("repeat", [data], {"repeats": repeats, "axis": axis})


def one_hot(indices: ExprLike, on_value: ExprLike, off_value: ExprLike, depth: int | Expr, axis: int,
            dtype: DTypeLike) -> Expr:
    """`on_value` where the place along a new dimension is the index, else `off_value`."""
    attrs = {"axis": axis, "dtype": _dtype(dtype)}
    return _static_or_dynamic("one_hot", [indices, on_value, off_value], attrs, {"depth": depth},
                              lambda: [indices, on_value, off_value, depth])


def topk(data: ExprLike, k: int | Expr = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False,
         dtype: DTypeLike = "int32") -> Any:
    """The k largest elements along a dimension: values and indices ("both"), "values" or "indices"."""
    attrs = {"axis": axis, "ret_type": ret_type, "is_ascend": is_ascend, "dtype": _dtype(dtype)}
    return _static_or_dynamic("topk", [data], attrs, {"k": k}, lambda: [data, k])


def gather_nd(data: ExprLike, indices: ExprLike, batch_dims: int = 0, index_rank: int | None = None) -> Expr:
    """Slices of `data` at the coordinates along the first dimension of the indices."""
    attrs = {"batch_dims": batch_dims}
    return call_op("gather_nd", [data, indices], attrs if index_rank is None else {**attrs, "index_rank": index_rank})


def cast(data: ExprLike, dtype: DTypeLike) -> Expr:
    """The values as another type."""
    return call_op("cast", [data], {"dtype": _dtype(dtype)})


def clip(a: ExprLike, a_min: float, a_max: float) -> Expr:
    """The values within bounds."""
    return call_op("clip", [a], {"a_min": float(a_min), "a_max": float(a_max)})


def full_like(data: ExprLike, fill_value: ExprLike) -> Expr:
    """A tensor of the shape and type of `data` filled with a scalar."""
    return call_op("full_like", [data, fill_value])


def layout_transform(data: ExprLike, src_layout: str, dst_layout: str) -> Expr:
    """The tensor in another layout: "NCHW" to "NHWC", "NCHW16c", ..."""
    return call_op("layout_transform", [data], {"src_layout": src_layout, "dst_layout": dst_layout})


# Reductions.
def variance(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False,
             unbiased: bool = False, with_mean: ExprLike | None = None) -> Expr:
    """The mean squared distance from the mean."""
    mean = make("mean")(data, axis, True, exclude) if with_mean is None else with_mean
    return call_op("variance", [data, mean], {**_axis(axis), "keepdims": keepdims, "exclude": exclude,
                                              "unbiased": unbiased})


def std(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False,
        unbiased: bool = False) -> Expr:
    """The square root of the variance."""
    return call_op("sqrt", [variance(data, axis, keepdims, exclude, unbiased)])


def mean_variance(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False,
                  exclude: bool = False, unbiased: bool = False) -> TupleWrapper:
    """Mean and variance."""
    mean = make("mean")(data, axis, True, exclude)
    result = mean if keepdims else make("mean")(data, axis, False, exclude)
    return TupleWrapper(Tuple([result, variance(data, axis, keepdims, exclude, unbiased, mean)]), 2)


def mean_std(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False,
             exclude: bool = False) -> TupleWrapper:
    """Mean and standard deviation."""
    mean, var = mean_variance(data, axis, keepdims, exclude)
    return TupleWrapper(Tuple([mean, call_op("sqrt", [var])]), 2)


def logsumexp(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expr:
    """The logarithm of the sum of exponentials, without overflow."""
    top = make("max")(data, axis, True)
    total = make("sum")(call_op("exp", [call_op("subtract", [data, top])]), axis, True)
    result = call_op("add", [call_op("log", [total]), top])
    return result if keepdims else squeeze(result, axis)


def _axis(axis):
    return {} if axis is None else {"axis": [axis] if isinstance(axis, int) else list(axis)}


def _reduction(name):
    def reduce(data, axis=None, keepdims=False, exclude=False, **more):
        return call_op(name, [data], {**_axis(axis), "keepdims": keepdims, "exclude": exclude, **more})

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = make(name).__doc__
    return reduce


ROOT: dict[str, Callable[..., Any]] = {function.__name__: function for function in (
    zeros, ones, full, arange, reshape, broadcast_to, collapse_sum_to, tile, squeeze, transpose, strided_slice, strided_set, split,
    concatenate, stack, einsum, meshgrid, take, repeat, one_hot, topk, gather, gather_nd, cast, clip, full_like,
    matrix_set_diag, sparse_to_dense, unique, layout_transform, variance, std, mean_variance, mean_std, logsumexp)}
ROOT.update({name: _reduction(name) for name in ("sum", "mean", "max", "min", "prod", "all", "any", "argmax", "argmin")})


# Neural networks.
def pad(data: ExprLike, pad_width: Any, pad_value: ExprLike = 0, pad_mode: str = "constant") -> Expr:
    """A border of [before, after] elements per dimension."""
    if not isinstance(pad_value, Expr):
        kind = getattr(operand(data), "_checked_type_", None) or getattr(operand(data), "type_annotation", None)
        pad_value = const(pad_value, str(kind.dtype) if isinstance(kind, TensorType) else "float32")
    if is_dynamic(pad_width):
        return call_op("dyn.nn.pad", [data, pad_width, pad_value], {"pad_mode": pad_mode})
    pairs = known(pad_width)
    if not isinstance(pairs, list) or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise Error(f"nn.pad: pad_width is {pad_width!r}; expected a pair (before, after) for each dimension")
    return call_op("nn.pad", [data, pad_value], {"pad_width": [list(pair) for pair in pairs], "pad_mode": pad_mode})


def dropout(data: ExprLike, rate: float = 0.5) -> Expr:
    """In training a part of the values becomes 0; in inference the values themselves."""
    return call_op("nn.dropout", [data], {"rate": rate})[0]


def dropout_raw(data: ExprLike, rate: float = 0.5) -> Expr:
    """dropout with both results: values and mask."""
    return call_op("nn.dropout", [data], {"rate": rate}).astuple()


def conv2d_transpose(data: ExprLike, weight: ExprLike, strides: Any = (1, 1), padding: Any = (0, 0),
                     dilation: Any = (1, 1), channels: int | None = None, kernel_size: Any = None, groups: int = 1,
                     data_layout: str = "NCHW", kernel_layout: str = "IOHW", out_layout: str = "",
                     output_padding: Any = (0, 0), out_dtype: DTypeLike = "") -> Expr:
    """The transpose of a convolution."""
    return _conv_transpose("nn.conv2d_transpose", data, weight, locals())


def conv1d_transpose(data: ExprLike, weight: ExprLike, strides: Any = (1,), padding: Any = (0,), dilation: Any = (1,),
                     channels: int | None = None, kernel_size: Any = None, groups: int = 1, data_layout: str = "NCW",
                     kernel_layout: str = "IOW", out_layout: str = "", output_padding: Any = (0,),
                     out_dtype: DTypeLike = "") -> Expr:
    """The transpose of a convolution."""
    return _conv_transpose("nn.conv1d_transpose", data, weight, locals())


def conv3d_transpose(data: ExprLike, weight: ExprLike, strides: Any = (1, 1, 1), padding: Any = (0, 0, 0),
                     dilation: Any = (1, 1, 1), channels: int | None = None, kernel_size: Any = None, groups: int = 1,
                     data_layout: str = "NCDHW", kernel_layout: str = "IODHW", out_layout: str = "",
                     output_padding: Any = (0, 0, 0), out_dtype: DTypeLike = "") -> Expr:
    """The transpose of a convolution."""
    return _conv_transpose("nn.conv3d_transpose", data, weight, locals())


def _conv_transpose(name, data, weight, values):
    attrs = {key: value for key, value in values.items()
             if key not in ("data", "weight") and value is not None and value != ""}
    return call_op(name, [data, weight], attrs)


def upsampling(data: ExprLike, scale_h: float | Expr = 1, scale_w: float | Expr = 1, layout: str = "NCHW",
               method: str = "nearest_neighbor", align_corners: bool = False) -> Expr:
    """A picture enlarged by factors."""
    attrs = {"layout": layout, "method": method, "align_corners": align_corners}
    if is_dynamic(scale_h) or is_dynamic(scale_w):
        return call_op("dyn.nn.upsampling", [data, operand(scale_h), operand(scale_w)], attrs)
    return call_op("nn.upsampling", [data], {**attrs, "scale_h": float(known(scale_h)), "scale_w": float(known(scale_w))})


def global_pool(name: str) -> Callable[..., Expr]:
    def pool(data, layout=None, out_layout=""):
        attrs = {"out_layout": out_layout} if out_layout else {}
        return call_op(name, [data], attrs if layout is None else {**attrs, "layout": layout})

    pool.__name__ = pool.__qualname__ = name[3:]
    pool.__doc__ = make(name).__doc__
    return pool


def mirror_pad(data: ExprLike, pad_width: Any, mode: str = "SYMMETRIC") -> Expr:
    """Pads with what lies beside the border."""
    return call_op("nn.mirror_pad", [data], {"pad_width": known(pad_width), "mode": mode})


def contrib_dense_pack(data: ExprLike, weight: ExprLike, weight_layout: str = "NC", units: int | None = None,
                       out_dtype: DTypeLike = "") -> Expr:
    """A dense layer whose weight is in a packed layout."""
    attrs = {"weight_layout": weight_layout, "units": units}
    return call_op("nn.contrib_dense_pack", [data, weight], {**attrs, **({"out_dtype": out_dtype} if out_dtype else {})})


NN = {function.__name__: function for function in (
    pad, dropout, dropout_raw, conv1d_transpose, conv2d_transpose, conv3d_transpose, upsampling, mirror_pad,
    contrib_dense_pack)}
NN["contrib_conv2d_nchwc"] = make("nn.contrib_conv2d_NCHWc")
NN["contrib_conv2d_select_nchwc"] = make("nn.contrib_conv2d_select_NCHWc")
NN["contrib_depthwise_conv2d_nchwc"] = make("nn.contrib_depthwise_conv2d_NCHWc")


# Pictures.
def _resize(name, spatial, default_layout, what):
    """The function that makes calls of a resizing operator over `spatial` dimensions."""
    def resize(data, size, roi=None, layout=default_layout, method="linear",
               coordinate_transformation_mode="half_pixel", rounding_method="", cubic_alpha=-0.5, cubic_exclude=0,
               extrapolation_value=0.0, out_dtype=None):
        attrs = {"layout": layout, "method": method, "coordinate_transformation_mode": coordinate_transformation_mode,
                 "rounding_method": rounding_method, "cubic_alpha": cubic_alpha, "cubic_exclude": cubic_exclude,
                 "extrapolation_value": extrapolation_value}
        if out_dtype:
            attrs["out_dtype"] = _dtype(out_dtype)
        roi = [0.0] * (2 * spatial) if roi is None else roi
        if is_dynamic(size) or is_dynamic(roi):
            if spatial != 2:
                raise Error(f"image.{name}: size and roi must be known; only image.resize2d takes computed ones")
            return call_op("dyn.image.resize2d", [data, _as_operand(size), roi if is_dynamic(roi) else
                                                  const(known(roi), "float32")], attrs)
        size, roi = known(size), [float(value) for value in known(roi)]
        if any(roi):
            attrs["roi"] = roi
        return call_op(f"image.{name}", [data], {**attrs, "size": [size] * spatial if isinstance(size, int) else size})

    resize.__name__ = resize.__qualname__ = name
    resize.__doc__ = what
    return resize


IMAGE = {"resize1d": _resize("resize1d", 1, "NCW", "A row at another size."),
         "resize2d": _resize("resize2d", 2, "NCHW", "A picture at another size."),
         "resize3d": _resize("resize3d", 3, "NCDHW", "A volume at another size.")}


# Annotations and devices.
def _device_type(device):
    """The number of a device: Device, name or number."""
    from ... import nd

    if isinstance(device, str):
        device = nd.device(device)
    return int(device if isinstance(device, int) else device.device_type)


def on_device(body: ExprLike, device: Any = None, constrain_result: bool = False, constrain_body: bool = True,
              is_fixed: bool | None = None, device_type: Any = None) -> Expr:
    """Says that `body` is computed on a device; with `constrain_result` that its value is needed there, too."""
    if not constrain_body:
        raise ValueError("an annotation that doesn't constrain its body isn't supported: use device_copy")
    device = device_type if device is None else device
    return call_op("on_device", [body], {"device_type": _device_type(device),
                                         "is_fixed": bool(constrain_result if is_fixed is None else is_fixed)})


def device_copy(data: ExprLike, src_device: Any, dst_device: Any) -> Expr:
    """The value on another device."""
    return call_op("device_copy", [data], {"src_dev_type": _device_type(src_device),
                                           "dst_dev_type": _device_type(dst_device)})


ROOT["device_copy"] = device_copy
ANNOTATION = {"on_device": on_device}
