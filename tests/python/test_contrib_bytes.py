# SPDX-License-Identifier: Apache-2.0
"""Products of bytes of com.microsoft beside exact integers in NumPy: the sums of ONNX Runtime saturate on some
processors."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

RNG = np.random.default_rng(11)


def result_of(op, inputs, constants=(), outputs=1, bytes_out=None, **attributes):
    """Outputs of one node. `inputs`: name -> array, None where left out; those of `constants` are initializers."""
    given = {name: np.asarray(value) for name, value in inputs.items() if value is not None}
    types = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in given.items()}
    names = [name if value is not None else "" for name, value in inputs.items()]
    out_type = TensorProto.FLOAT if bytes_out is None else helper.np_dtype_to_tensor_dtype(np.dtype(bytes_out))
    graph = helper.make_graph(
        [helper.make_node(op, names, [f"y{i}" for i in range(outputs)], domain="com.microsoft", **attributes)], "g",
        [helper.make_tensor_value_info(name, types[name], value.shape) for name, value in given.items()
         if name not in constants],
        [helper.make_tensor_value_info(f"y{i}", out_type, None) for i in range(outputs)],
        [numpy_helper.from_array(value, name) for name, value in given.items() if name in constants])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    feed = {name: value for name, value in given.items() if name not in constants}
    results = treadle.compile(model.SerializeToString()).run(None, feed)
    return [np.asarray(result) for result in results]


def ends(shape, dtype):
    """Bytes, a third of which are the largest of the type, a sixth the smallest."""
    info = np.iinfo(dtype)
    values = RNG.integers(info.min, info.max + 1, shape).astype(dtype)
    flat = values.reshape(-1)
    flat[::3], flat[1::6] = info.max, info.min
    return values


def scales(*shape):
    return RNG.uniform(0.001, 0.01, shape).astype(np.float32)


def centred(values, zero):
    return values.astype(np.int64) - np.asarray(zero).astype(np.int64)


def equal_but_for_halves(result, exact, dtype):
    """Integers of numbers in float64, which may go either way where those lie in the middle of two."""
    info = np.iinfo(dtype)
    apart = result.astype(np.int64) - np.clip(np.rint(exact), info.min, info.max).astype(np.int64)
    halves = np.abs(exact - np.floor(exact) - 0.5) < 1e-4
    assert result.dtype == dtype and np.all((apart == 0) | halves) and np.abs(apart).max() <= 1


def near(result, exact, tolerance=1e-5):
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, exact, rtol=tolerance, atol=tolerance * np.abs(exact).max())


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("k", [5, 64])
@pytest.mark.parametrize("bias_shape", [(9,), (1,), (3, 1), ()])
def test_gemm(quantised, k, bias_shape):
    a, b, zero = ends((3, k), "uint8"), ends((9, k), "int8"), np.uint8(100)
    bias = RNG.integers(-9999, 9999, bias_shape).astype(np.int32)
    a_scale, b_scale, y_scale, y_zero = np.float32(0.02), scales(9), np.float32(0.7), np.uint8(99)
    inputs = {"a": a, "as": a_scale, "az": zero, "b": b, "bs": b_scale, "bz": np.zeros(9, np.int8), "c": bias}
    if quantised:
        inputs |= {"ys": y_scale, "yz": y_zero}
    constants = ["as", "az", "b", "bs", "bz", "c", "ys", "yz"]
    exact = (centred(a, zero) @ centred(b, 0).T + bias) * (0.5 * float(a_scale) * b_scale.astype(np.float64))
    (y,) = result_of("QGemm", inputs, constants, bytes_out="uint8" if quantised else None, transB=1, alpha=0.5)
    if quantised:
        equal_but_for_halves(y, exact / float(y_scale) + float(y_zero), np.uint8)
    else:
        near(y, exact)


def test_convolution_with_channels_last():
    x, w, zero = ends((1, 6, 7, 8), "uint8"), ends((16, 8, 3, 3), "int8"), np.uint8(100)
    bias = RNG.integers(-1000, 1000, 16).astype(np.int32)
    x_scale, w_scale, y_scale, y_zero = np.float32(0.02), scales(16), np.float32(0.5), np.uint8(120)
    padded = np.pad(centred(x, zero), [(0, 0), (1, 1), (1, 1), (0, 0)])
    sums = bias + sum(padded[:, i: i + 6, j: j + 7] @ centred(w[:, :, i, j], 0).T for i, j in np.ndindex(3, 3))
    inputs = {"x": x, "xs": x_scale, "xz": zero, "w": w, "ws": w_scale, "wz": np.zeros(16, np.int8), "ys": y_scale,
              "yz": y_zero, "c": bias}
    (y,) = result_of("QLinearConv", inputs, list(inputs)[1:], bytes_out="uint8", channels_last=1, pads=[1, 1, 1, 1])
    factor = float(x_scale) * w_scale.astype(np.float64) / float(y_scale)
    equal_but_for_halves(y, sums * factor + float(y_zero), np.uint8)


def quantised(x):
    """Bytes, scale and zero point that DynamicQuantizeLinear gives."""
    scale = (max(x.max(), np.float32(0)) - min(x.min(), np.float32(0))) / np.float32(255)
    zero = np.rint(-min(x.min(), np.float32(0)) / scale)
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.int64), scale, np.int64(zero)


@pytest.mark.parametrize("weight", ["int8", "uint8"])
def test_dynamically_quantised_products(weight):
    w, w_scale, w_zero = ends((32, 20), weight), scales(20), ends((20,), weight)
    bias = RNG.standard_normal(20).astype(np.float32)
    x = RNG.standard_normal((2, 5, 32)).astype(np.float32)
    (y,) = result_of("DynamicQuantizeMatMul", {"x": x, "w": w, "ws": w_scale, "wz": w_zero, "bias": bias},
                     ["w", "ws", "wz", "bias"])
    codes, scale, zero = quantised(x)
    near(y, (codes - zero) @ centred(w, w_zero) * (float(scale) * w_scale.astype(np.float64)) + bias)
    a = ends((5, 32), "uint8")
    inputs = {"x": a, "w": w, "xs": np.float32(0.02), "ws": w_scale, "xz": np.uint8(9), "wz": w_zero}
    (y,) = result_of("MatMulIntegerToFloat", inputs, ["w", "ws", "xs", "xz", "wz"])
    near(y, centred(a, 9) @ centred(w, w_zero) * (float(np.float32(0.02)) * w_scale.astype(np.float64)))


def attention(x, w, bias, mask, past, heads):
    """Outputs of attention of real x and weights in float64; `mask` is 0 where a key isn't seen."""
    batch, tokens, _ = x.shape
    parts = (x @ w + bias).reshape(batch, tokens, 3, heads, -1).transpose(2, 0, 3, 1, 4)
    query, key, value = parts
    if past is not None:
        key, value = np.concatenate([past[0], key], 2), np.concatenate([past[1], value], 2)
    scores = query @ key.transpose(0, 1, 3, 2) / query.shape[-1]**0.5
    scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = weights / weights.sum(-1, keepdims=True) @ value
    return y.transpose(0, 2, 1, 3).reshape(batch, tokens, -1), np.stack([key, value])


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("weight", ["int8", "uint8"])
def test_attention_of_bytes(weight, columns):
    x, w, bias = ends((2, 5, 24), "uint8"), ends((24, 48), weight), RNG.standard_normal(48).astype(np.float32)
    x_scale, w_scale = np.float32(0.02), scales(48) if columns else scales()
    past = RNG.standard_normal((2, 2, 4, 3, 4)).astype(np.float32)
    inputs = {"x": x, "w": w, "bias": bias, "xs": x_scale, "ws": w_scale,
              "mask": np.array([[1] * 8, [1] * 6 + [0] * 2], np.int32), "xz": np.uint8(100),
              "wz": np.full(48, 3, weight) if columns else np.array(3, weight), "past": past}
    constants = ["w", "bias", "xs", "ws", "xz", "wz"]
    real = (centred(x, 100) * float(x_scale), centred(w, 3) * np.asarray(w_scale, np.float64), bias)
    for result, exact in zip(result_of("QAttention", inputs, constants, 2, num_heads=4),
                             attention(*real, inputs["mask"][:, None, None, :], past, 4)):
        near(result, exact, 1e-4)
    inputs |= {"mask": np.array([5, 3], np.int32), "past": None}
    seen = np.tril(np.ones((5, 5))) * (np.arange(5) < inputs["mask"][:, None])[:, None, None, :]
    (y,) = result_of("QAttention", inputs, constants, num_heads=4, unidirectional=1)
    near(y, attention(*real, seen, None, 4)[0], 1e-4)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("shape", [(2, 5, 3, 4), (1, 24, 17, 19), (1, 3, 600, 1)])
def test_global_pool(last, dtype, shape):
    x, zero, scale = ends(shape, dtype), ends((1,), dtype)[0], np.float32(0.02)
    order = (0, 2, 3, 1) if last else (0, 1, 2, 3)
    inputs = {"x": x.transpose(order), "xs": scale, "xz": zero, "ys": np.float32(0.03), "yz": np.asarray(7, dtype)}
    exact = centred(x, zero).mean((2, 3), keepdims=True).transpose(order) * float(scale) / float(np.float32(0.03)) + 7
    (y,) = result_of("QLinearGlobalAveragePool", inputs, list(inputs)[1:], bytes_out=dtype, channels_last=int(last))
    equal_but_for_halves(y, exact, np.dtype(dtype))


@pytest.mark.parametrize("axes,keepdims", [([1], 0), ([0, 2], 1), ([-1], 1), ([0, 1, 2], 0)])
def test_mean(axes, keepdims):
    x, zero, scale = ends((4, 33, 6), "uint8"), np.uint8(250), np.float32(0.02)
    inputs = {"x": x, "xs": scale, "xz": zero, "ys": np.float32(0.03), "yz": np.uint8(200)}
    exact = centred(x, zero).mean(tuple(axes), keepdims=bool(keepdims)) * float(scale) / float(np.float32(0.03)) + 200
    (y,) = result_of("QLinearReduceMean", inputs, list(inputs)[1:], bytes_out="uint8", axes=axes, keepdims=keepdims)
    equal_but_for_halves(y, exact, np.uint8)


@pytest.mark.parametrize("dtype,zero", [("uint8", 0), ("uint8", 255), ("int8", -128), ("int8", 5)])
def test_sums_beyond_the_range(dtype, zero):
    a, b, of = ends((3, 77), dtype), ends((3, 77), dtype), np.asarray(zero, dtype)
    inputs = {"a": a, "as": np.float32(0.5), "az": of, "b": b, "bs": np.float32(0.25), "bz": of, "ys": np.float32(0.25), "yz": of}
    (y,) = result_of("QLinearAdd", inputs, [name for name in inputs if name not in "ab"], bytes_out=dtype)
    exact = centred(a, zero) * 2 + centred(b, zero) + zero
    assert np.array_equal(y, np.clip(exact, np.iinfo(dtype).min, np.iinfo(dtype).max))
