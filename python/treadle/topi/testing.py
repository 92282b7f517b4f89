# SPDX-License-Identifier: Apache-2.0
"""What operators compute, by NumPy: references for tests, under TVM's names."""
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


def conv2d_nchw_python(a_np, w_np, stride, padding, groups=1):
    """Convolution of data NCHW with a filter OIHW, in the type of the data."""
    stride, kernel = _pair(stride), w_np.shape[2:]
    pads = _padding(padding, kernel, stride, a_np.shape[2:])
    padded = np.pad(a_np, ((0, 0), (0, 0), *pads))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))[:, :, ::stride[0], ::stride[1]]
    parts = [np.einsum("ncyxij,ocij->noyx", data, weight)
             for data, weight in zip(np.split(windows, groups, axis=1), np.split(w_np, groups))]
    return np.concatenate(parts, axis=1).astype(a_np.dtype)


def conv2d_nhwc_python(a_np, w_np, stride, padding, groups=1):
    """Convolution of data NHWC with a filter HWIO."""
    result = conv2d_nchw_python(a_np.transpose(0, 3, 1, 2), w_np.transpose(3, 2, 0, 1), stride, padding, groups)
    return result.transpose(0, 2, 3, 1)


def conv2d_hwcn_python(a_np, w_np, stride, padding):
    """Convolution of data HWCN with a filter HWIO."""
    result = conv2d_nchw_python(a_np.transpose(3, 2, 0, 1), w_np.transpose(3, 2, 0, 1), stride, padding)
    return result.transpose(2, 3, 1, 0)


def depthwise_conv2d_python_nchw(input_np, filter_np, stride, padding):
    """Convolution of each channel by itself; the filter is (channels, multiplier, height, width)."""
    channels, multiplier, height, width = filter_np.shape
    weight = filter_np.reshape(channels * multiplier, 1, height, width)
    return conv2d_nchw_python(input_np, weight, stride, padding, groups=channels)


def dense(x, y, bias=None, use_bias=False, use_relu=False, out_dtype=None):
    """x times the transposed y."""
    result = x.astype(out_dtype or x.dtype) @ y.astype(out_dtype or x.dtype).T
    result = result + bias if use_bias and bias is not None else result
    return np.maximum(result, 0) if use_relu else result


def batch_matmul(x, y, out_dtype=None):
    """Products of x[b] with the transposed y[b]; either may have one batch."""
    out_dtype = out_dtype or x.dtype
    return x.astype(out_dtype) @ y.astype(out_dtype).transpose(0, 2, 1)


def softmax_python(a_np, axis=1):
    """Exponentials that sum to 1."""
    exponentials = np.exp(a_np - a_np.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def log_softmax_python(a_np, axis=1):
    """Logarithm of softmax_python."""
    shifted = a_np - a_np.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def l2_normalize_python(a_np, eps, axis=None):
    """Divided by the root of the sum of squares, which is at least eps."""
    return a_np / np.sqrt(np.maximum((a_np**2).sum(axis=axis, keepdims=True), eps))


def get_injective_schedule(target):
    """The function that schedules element-wise computations for a target."""
    from .generic import schedule_injective

    return schedule_injective


get_broadcast_schedule = get_elemwise_schedule = get_injective_schedule


def get_reduce_schedule(target):
    """The function that schedules reductions for a target."""
    from .generic import schedule_reduce

    return schedule_reduce
