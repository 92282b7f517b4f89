# SPDX-License-Identifier: Apache-2.0
"""Operators on quantised tensors, bit for bit against exact integers in NumPy."""
import numpy as np
import pytest

import treadle
from treadle import relay
from treadle.ir import IRModule

SCALE = np.float32(0.0123)


def run(text_or_function, *arrays):
    module = IRModule.from_expr(text_or_function) if not isinstance(text_or_function, IRModule) else text_or_function
    return relay.create_executor("graph", mod=module, target="llvm").evaluate()(*arrays).numpy()


def program(source):
    return treadle.parser.parse('#[version = "0.0.5"]\n' + source)


def saturate(values, dtype):
    info = np.iinfo(dtype)
    return np.clip(values, info.min, info.max).astype(dtype)


def ends(rng, shape, dtype):
    """Random integers with both ends of the range among them."""
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    flat = values.reshape(-1)
    flat[: flat.size // 3] = info.max
    flat[flat.size // 3: flat.size // 2] = info.min
    return values


@pytest.mark.parametrize("dtype,zero", [("uint8", 0), ("uint8", 3), ("int8", -100), ("uint16", 3), ("int16", 100)])
def test_quantize_rounds_halves_to_even_and_saturates(dtype, zero):
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0, -0.0, 1e30, -1e30, np.inf, -np.inf, 77.49, -77.51], np.float32)
    source = f"""def @main(%x: Tensor[(13), float32]) {{
      qnn.quantize(%x, 1f, {zero}, out_dtype="{dtype}") }}"""
    with np.errstate(over="ignore"):
        expected = saturate(np.clip(np.rint(x), -1e9, 1e9).astype(np.int64) + zero, dtype)
    np.testing.assert_array_equal(run(program(source), x), expected)


@pytest.mark.parametrize("k", [1, 4, 63, 65])
@pytest.mark.parametrize("data", ["uint8", "int8"])
@pytest.mark.parametrize("weight", ["uint8", "int8"])
def test_dense_is_exact(k, data, weight):
    rng = np.random.default_rng(k)
    a, b = ends(rng, (7, k), data), ends(rng, (19, k), weight)
    for data_zero, weight_zero in [(0, 0), (np.iinfo(data).max, 0), (5, np.iinfo(weight).min)]:
        source = f"""def @main(%a: Tensor[(7, {k}), {data}], %b: Tensor[(19, {k}), {weight}]) {{
          qnn.dense(%a, %b, {data_zero}, {weight_zero}, 1f, 1f, units=19, out_dtype="int32") }}"""
        expected = (a.astype(np.int64) - data_zero) @ (b.astype(np.int64) - weight_zero).T
        np.testing.assert_array_equal(run(program(source), a, b), expected)


@pytest.mark.parametrize("data_zero", [0, 7, 255])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_convolution_pads_with_the_zero_point(data_zero, groups):
    rng = np.random.default_rng(groups)
    x, w = ends(rng, (1, 6, 7, 9), "uint8"), ends(rng, (12, 6 // groups, 3, 3), "int8")
    source = f"""def @main(%x: Tensor[(1, 6, 7, 9), uint8], %w: Tensor[(12, {6 // groups}, 3, 3), int8]) {{
      qnn.conv2d(%x, %w, {data_zero}, 0, 1f, 1f, padding=[1, 1, 1, 1], strides=[2, 1], groups={groups},
                 channels=12, kernel_size=[3, 3], out_dtype="int32") }}"""
    padded = np.pad(x.astype(np.int64) - data_zero, [(0, 0), (0, 0), (1, 1), (1, 1)])
    expected = np.zeros((1, 12, 4, 9), np.int64)
    for o in range(12):
        first = o // (12 // groups) * (6 // groups)
        for i, j, c in np.ndindex(3, 3, 6 // groups):
            expected[0, o] += padded[0, first + c, i: i + 7: 2, j: j + 9] * int(w[o, c, i, j])
    np.testing.assert_array_equal(run(program(source), x, w), expected)


def test_requantize_uses_one_factor_in_float32():
    rng = np.random.default_rng(1)
    x = rng.integers(-(2**24), 2**24, (64, 16)).astype(np.int32)
    scales = rng.uniform(1e-6, 1e-4, 16).astype(np.float32)
    source = program("""def @main(%x: Tensor[(64, 16), int32], %s: Tensor[(16), float32]) {
      qnn.requantize(%x, %s, 0, 0.0123f, 3, axis=1, out_dtype="uint8") }""")
    expected = saturate(np.rint(x.astype(np.float32) * (scales / SCALE)).astype(np.int64) + 3, np.uint8)
    np.testing.assert_array_equal(run(source, x, scales), expected)
