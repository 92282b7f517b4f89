# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms of all kinds of lengths against NumPy's, which are computed in float64."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

RNG = np.random.default_rng(3)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def pairs(z, dtype=np.float32):
    return np.stack([z.real, z.imag], -1).astype(dtype)


def compiled(node, x, constants, open_dims, dtype=TensorProto.FLOAT):
    shape = [None] * (x.ndim - 1) + [x.shape[-1]] if open_dims else x.shape
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", dtype, shape)],
                              [helper.make_tensor_value_info("y", dtype, None)],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    return treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))


def transform(x, open_dims=False, axis=-2, length=None, dtype=TensorProto.FLOAT, **attributes):
    constants = {"a": np.array(axis)}
    if length is not None:
        constants["n"] = np.array(length)
    node = helper.make_node("DFT", ["x", "n" if length is not None else "", "a"], ["y"], **attributes)
    return compiled(node, x, constants, open_dims, dtype).run(None, {"x": x})[0]


def close(actual, expected, tolerance=1e-6):
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("length", [1, 2, 7, 64, 97, 100, 262, 360, 1009, 2048])
@pytest.mark.parametrize("parts", [1, 2])
def test_lengths(length, parts):
    x = floats(3, length, parts)
    close(transform(x), pairs(np.fft.fft(x[..., 0] + (1j * x[..., 1] if parts == 2 else 0))))


@pytest.mark.parametrize("length", [1, 12, 63, 64, 97, 512])
def test_halves(length):
    x = floats(2, length, 1)
    half = transform(x, onesided=1)
    close(half, pairs(np.fft.rfft(x[..., 0])))
    back = transform(half, length=length, inverse=1, onesided=1)
    close(back, x)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("length", [48, 64, 80])
@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("open_dims", [False, True])
def test_axes_cut_and_filled(axis, length, inverse, open_dims):
    shape = [3, 4, 5]
    shape[axis] = 64
    x = floats(*shape, 2)
    of = np.fft.ifft if inverse else np.fft.fft
    close(transform(x, open_dims, axis, length, inverse=inverse), pairs(of(x[..., 0] + 1j * x[..., 1], length, axis)))


@pytest.mark.parametrize("length", [1, 2, 31, 72, 256])
def test_lengths_of_a_run(length):
    x = floats(2, length, 1)
    close(transform(x, True, onesided=1), pairs(np.fft.rfft(x[..., 0])))


def test_float64_keeps_its_digits():
    x = RNG.standard_normal((2, 96, 1))
    close(transform(x, dtype=TensorProto.DOUBLE), pairs(np.fft.fft(x[..., 0]), np.float64), 1e-14)


@pytest.mark.parametrize("length, step", [(400, 160), (256, 64)])
@pytest.mark.parametrize("open_dims", [False, True])
def test_short_time(length, step, open_dims):
    x, window = floats(2, 1000, 1), np.hanning(length).astype(np.float32)
    node = helper.make_node("STFT", ["x", "s", "w"], ["y"], onesided=1)
    y = compiled(node, x, {"s": np.array(step), "w": window}, open_dims).run(None, {"x": x})[0]
    frames = np.lib.stride_tricks.sliding_window_view(x[..., 0], length, 1)[:, ::step]
    close(y, pairs(np.fft.rfft(frames * window)))


@pytest.mark.parametrize("open_dims", [False, True])
def test_nothing_to_transform_is_refused(open_dims):
    with pytest.raises(treadle.Error, match="length of the transform"):
        transform(np.zeros((2, 0, 1), np.float32), open_dims)
