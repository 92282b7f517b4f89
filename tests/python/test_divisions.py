# SPDX-License-Identifier: Apache-2.0
"""Divisions by numbers and by scales, which generated code does without dividing, are NumPy's to the last bit."""
import numpy as np
import pytest

import treadle

TARGETS = ["llvm -mcpu=native", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64", "c", "stackvm"]
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1.0, -1.0, 2.0**-95, 0.5, 4.5, 1e30, 16777216.0]


def values(count=4096):
    """Of all magnitudes from 2^-90 on, and those at the edges."""
    r = np.random.default_rng(0)
    x = np.ldexp(r.standard_normal(count), r.integers(-90, 120, count)).astype("f4")
    x[:len(EDGES)] = EDGES
    return x


def run(text, target, **inputs):
    built = treadle.relay.build(treadle.relay.fromtext('#[version = "0.0.5"]\n' + text), target)
    executor = treadle.contrib.graph_executor.GraphModule(built["default"](treadle.cpu()))
    executor.run(**inputs)
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


def fields(values):
    return ", ".join(f"%{i}" for i in range(len(values)))


DIVISORS = [9.0, -7.0, 3.1415927, 1.1e-20, 8.0, 1e-38, 3e38, 0.0]
SCALES = [0.5, 0.037, 3e-12, 7e11, 0.1, 2.0, 1e-38, 3e38]


@pytest.mark.parametrize("target", TARGETS)
def test_quotients_by_numbers_are_those_of_numpy(target):
    x = values()
    text = "".join(f"  %{i} = divide(%x, {d:.9g}f);\n" for i, d in enumerate(DIVISORS))
    results = run(f"def @main(%x: Tensor[(4096), float32]) {{\n{text}  ({fields(DIVISORS)})\n}}", target, x=x)
    for divisor, result in zip(DIVISORS, results):
        with np.errstate(all="ignore"):
            expected = x / np.float32(divisor)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
        same = ~np.isnan(expected) & ((np.abs(expected) > 2.0**-100) | (expected == 0))
        np.testing.assert_array_equal(result[same].view("u4"), expected[same].view("u4"), str(divisor))


@pytest.mark.parametrize("target", TARGETS)
def test_layers_of_different_scales_round_as_numpy(target):
    """They share a kernel, which has the scale as an argument, where that is within bounds."""
    x = values()
    for i, scale in enumerate(SCALES[:6]):  # halves between integers, too
        x[512 * (i + 1):512 * (i + 2)] = np.arange(-256, 256).astype("f4") * np.float32(scale / 2)
    text = "".join(f'  %{i} = cast(qnn.contrib_round_clip(%x, a_min=-128f, a_max=127f, divisor={s:.9g}f), dtype="int8");\n'
                   for i, s in enumerate(SCALES))
    results = run(f"def @main(%x: Tensor[(4096), float32]) {{\n{text}  ({fields(SCALES)})\n}}", target, x=x)
    for scale, result in zip(SCALES, results):
        with np.errstate(all="ignore"):
            quotient = np.where(np.isnan(x), np.float32(-128), x / np.float32(scale))
        np.testing.assert_array_equal(result, np.round(np.clip(quotient, -128, 127)).astype("i1"), str(scale))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_quotients_of_integers(dtype, target):
    """Vectors of them are divided as floating-point numbers, which is exact up to 32 bits."""
    limits, r = np.iinfo(dtype), np.random.default_rng(0)
    edges = np.array([limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, 2, 3, limits.max // 2], dtype)
    a, b = (grid.ravel() for grid in np.meshgrid(edges, edges))
    bits = r.integers(1, limits.bits + 1, (2, 4096 - a.size))
    wide = r.integers(np.iinfo("i8").min, np.iinfo("i8").max, bits.shape, dtype="i8") >> (64 - bits)
    a, b = (np.concatenate([start, rest.astype(dtype)]) for start, rest in zip((a, b), wide))
    b[b.size // 2:] = np.maximum(b[b.size // 2:], 1)
    a[-2048:] //= b[-2048:]
    a[-2048:] *= b[-2048:]  # whole quotients
    names = ["divide", "floor_divide", "mod", "floor_mod"]
    text = "".join(f"  %{i} = {name}(%a, %b);\n" for i, name in enumerate(names))
    tensor = f"Tensor[(4096), {dtype}]"
    results = run(f"def @main(%a: {tensor}, %b: {tensor}) {{\n{text}  ({fields(names)})\n}}", target, a=a, b=b)
    exact = [(int(x), int(y)) for x, y in zip(a, b)]
    floor = [x // y if y != 0 else 0 for x, y in exact]
    whole = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y != 0 else 0 for x, y in exact]
    for name, result in zip(names, results):
        quotients = floor if name.startswith("floor") else whole
        rest = [x - q * y if y != 0 else 0 for (x, y), q in zip(exact, quotients)]
        expected = np.array(quotients if "divide" in name else rest, object) & (2**limits.bits - 1)
        np.testing.assert_array_equal(result.astype(object) & (2**limits.bits - 1), expected, name)
