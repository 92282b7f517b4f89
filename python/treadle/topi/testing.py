# SPDX-License-Identifier: Apache-2.0
"""What operators compute, by NumPy: references for tests, under TVM's names."""
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def _pair(value):
    return (int(value), int(value)) if np.isscalar(value) else (int(value[0]), int(value[1]))


def _padding(padding, kernel, stride, size):
    """((top, bottom), (left, right)) of an int, two or four numbers, or "SAME", "VALID"."""
    if padding == "VALID":
        return (0, 0), (0, 0)
    if padding == "SAME":
        whole = [max(0, (-(-s // st) - 1) * st + k - s) for s, st, k in zip(size, stride, kernel)]
        return tuple((w // 2, w - w // 2) for w in whole)
    if not np.isscalar(padding) and len(padding) == 4:
        return (padding[0], padding[2]), (padding[1], padding[3])
    return tuple((p, p) for p in _pair(padding))


def conv2d_nchw_python(a_np: np.ndarray, w_np: np.ndarray, stride: int | Sequence[int], padding: int | str | Sequence[int],
                       groups: int = 1) -> np.ndarray:
    """Convolution of data NCHW with a filter OIHW, in the type of the data."""
    stride, kernel = _pair(stride), w_np.shape[2:]
    pads = _padding(padding, kernel, stride, a_np.shape[2:])
    padded = np.pad(a_np, ((0, 0), (0, 0), *pads))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))[:, :, ::stride[0], ::stride[1]]
    parts = [np.einsum("ncyxij,ocij->noyx", data, weight)
             for data, weight in zip(np.split(windows, groups, axis=1), np.split(w_np, groups))]
    return np.concatenate(parts, axis=1).astype(a_np.dtype)


def conv2d_nhwc_python(a_np: np.ndarray, w_np: np.ndarray, stride: int | Sequence[int], padding: int | str | Sequence[int],
                       groups: int = 1) -> np.ndarray:
    """Convolution of data NHWC with a filter HWIO."""
    result = conv2d_nchw_python(a_np.transpose(0, 3, 1, 2), w_np.transpose(3, 2, 0, 1), stride, padding, groups)
    return result.transpose(0, 2, 3, 1)


def conv2d_hwcn_python(a_np: np.ndarray, w_np: np.ndarray, stride: int | Sequence[int],
                       padding: int | str | Sequence[int]) -> np.ndarray:
    """Convolution of data HWCN with a filter HWIO."""
    result = conv2d_nchw_python(a_np.transpose(3, 2, 0, 1), w_np.transpose(3, 2, 0, 1), stride, padding)
    return result.transpose(2, 3, 1, 0)


def depthwise_conv2d_python_nchw(input_np: np.ndarray, filter_np: np.ndarray, stride: int | Sequence[int],
                                 padding: int | str | Sequence[int]) -> np.ndarray:
    """Convolution of each channel by itself; the filter is (channels, multiplier, height, width)."""
    channels, multiplier, height, width = filter_np.shape
    weight = filter_np.reshape(channels * multiplier, 1, height, width)
    return conv2d_nchw_python(input_np, weight, stride, padding, groups=channels)


def dense(x: np.ndarray, y: np.ndarray, bias: np.ndarray | None = None, use_bias: bool = False, use_relu: bool = False,
          out_dtype: str | None = None) -> np.ndarray:
    """x times the transposed y."""
    result = x.astype(out_dtype or x.dtype) @ y.astype(out_dtype or x.dtype).T
    result = result + bias if use_bias and bias is not None else result
    return np.maximum(result, 0) if use_relu else result


def batch_matmul(x: np.ndarray, y: np.ndarray, out_dtype: str | None = None) -> np.ndarray:
    """Products of x[b] with the transposed y[b]; either may have one batch."""
    out_dtype = out_dtype or x.dtype
    return x.astype(out_dtype) @ y.astype(out_dtype).transpose(0, 2, 1)


def softmax_python(a_np: np.ndarray, axis: int = 1) -> np.ndarray:
    """Exponentials that sum to 1."""
    exponentials = np.exp(a_np - a_np.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def log_softmax_python(a_np: np.ndarray, axis: int = 1) -> np.ndarray:
    """Logarithm of softmax_python."""
    shifted = a_np - a_np.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def l2_normalize_python(a_np: np.ndarray, eps: float, axis: int | Sequence[int] | None = None) -> np.ndarray:
    """Divided by the root of the sum of squares, which is at least eps."""
    return a_np / np.sqrt(np.maximum((a_np**2).sum(axis=axis, keepdims=True), eps))


def one_hot(indices: np.ndarray, on_value: float, off_value: float, depth: int, axis: int, dtype: str) -> np.ndarray:
    """Rows of off_value with on_value at the index."""
    hot = np.asarray(indices)[..., None] == np.arange(depth)
    return np.moveaxis(np.where(hot, on_value, off_value).astype(dtype), -1, axis)


def sequence_mask(data: np.ndarray, valid_length: np.ndarray, mask_value: float, axis: int) -> np.ndarray:
    """The data (time, batch, ...), or with axis 1 (batch, time, ...), with mask_value from each valid length on."""
    steps = np.arange(data.shape[axis])
    beyond = steps[:, None] >= valid_length[None, :] if axis == 0 else steps[None, :] >= valid_length[:, None]
    return np.where(beyond.reshape(beyond.shape + (1,) * (data.ndim - 2)), mask_value, data).astype(data.dtype)


def strided_slice_python(data: np.ndarray, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None,
                         slice_mode: str = "end", axes: Sequence[int] | None = None) -> np.ndarray:
    """A slice; slice_mode "size": `end` are sizes, -1 all that is left."""
    axes = list(range(len(begin))) if axes is None else [int(axis) for axis in axes]
    strides = list(strides) if strides else []
    index = [slice(None)] * data.ndim
    for i, axis in enumerate(axes):
        first = begin[i]
        if slice_mode == "size":
            start = 0 if first is None else int(first)
            index[axis] = slice(start, None if end[i] < 0 else start + int(end[i]))
        else:
            last = end[i] if i < len(end) else None
            index[axis] = slice(first, last, strides[i] if i < len(strides) else None)
    return data[tuple(index)]


def dilate_python(input_np: np.ndarray, strides: Sequence[int], dilation_value: float = 0.0,
                  out_dtype: str | None = None) -> np.ndarray:
    """The elements with others of dilation_value between them."""
    shape = [(size - 1) * stride + 1 for size, stride in zip(input_np.shape, strides)]
    result = np.full(shape, dilation_value, out_dtype or input_np.dtype)
    result[tuple(slice(None, None, stride) for stride in strides)] = input_np
    return result


def gather_python(data: np.ndarray, axis: int, indices: np.ndarray) -> np.ndarray:
    """Along an axis, the elements at the indices."""
    return np.take_along_axis(data, indices, axis)


def matrix_set_diag(input_np: np.ndarray, diagonal: np.ndarray, k: int | Sequence[int] = 0,
                    align: str = "RIGHT_LEFT") -> np.ndarray:
    """The matrices with other diagonals: one (k), or a band (k is a pair), each aligned in its row of `diagonal`."""
    result, (rows, columns) = input_np.copy(), input_np.shape[-2:]
    low, high = (k, k) if np.isscalar(k) or len(k) == 1 else k
    low, high = int(np.ravel(low)[0]), int(np.ravel(high)[0])
    longest = max(min(rows + min(d, 0), columns - max(d, 0)) for d in range(low, high + 1))
    for number, d in enumerate(range(high, low - 1, -1)):
        count = min(rows + min(d, 0), columns - max(d, 0))
        values = diagonal if low == high else diagonal[..., number, :]
        side = align.split("_")[0 if d >= 0 else 1]
        first = longest - count if side == "RIGHT" else 0
        at = np.arange(count)
        result[..., at - min(d, 0), at + max(d, 0)] = values[..., first:first + count]
    return result


def adaptive_pool(np_data: np.ndarray, out_size: Sequence[int], pool_type: str, layout: str) -> np.ndarray:
    """Averages ("avg") or maxima ("max") of windows that divide each spatial axis of NC.. or N..C data evenly."""
    channels_last = layout.endswith("C")
    data = np.moveaxis(np_data, -1, 1) if channels_last else np_data
    sizes = data.shape[2:]
    out = (out_size,) * len(sizes) if np.isscalar(out_size) else tuple(out_size)
    result = np.empty(data.shape[:2] + out, np_data.dtype)
    for at in np.ndindex(*out):
        window = tuple(slice(i * size // n, -(-(i + 1) * size // n)) for i, n, size in zip(at, out, sizes))
        part = data[(slice(None), slice(None), *window)].reshape(*data.shape[:2], -1)
        result[(slice(None), slice(None), *at)] = part.mean(-1) if pool_type == "avg" else part.max(-1)
    return np.moveaxis(result, 1, -1) if channels_last else result


def nll_loss(predictions: np.ndarray, targets: np.ndarray, weights: np.ndarray, reduction: str = "mean",
             ignore_index: int = -100) -> np.ndarray:
    """Minus the weighted predictions (N, C, ...) at the targets (N, ...), "mean", "sum" or "none"; ignored ones are 0."""
    taken = np.where(targets == ignore_index, 0, targets)
    weight = np.where(targets == ignore_index, 0, weights[taken])
    loss = -np.take_along_axis(predictions, taken[:, None], 1)[:, 0] * weight
    if reduction == "none":
        return loss
    return loss.sum() / weight.sum() if reduction == "mean" else loss.sum()


def get_injective_schedule(target: Any) -> Callable[..., Any]:
    """The function that schedules element-wise computations for a target."""
    from .generic import schedule_injective

    return schedule_injective


get_broadcast_schedule = get_elemwise_schedule = get_injective_schedule


def get_reduce_schedule(target: Any) -> Callable[..., Any]:
    """The function that schedules reductions for a target."""
    from .generic import schedule_reduce

    return schedule_reduce
