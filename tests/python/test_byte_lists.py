# SPDX-License-Identifier: Apache-2.0
"""Products of bytes by vpmaddubsw (targets/cpu/kernels/listed_matmul.cc), bit for bit against exact integers."""
import pathlib
import platform
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle.script import tir as T

AVX2 = "llvm -mcpu=x86-64-v3"
TARGETS = [AVX2 + " -emulate-intrinsics=1"]
if platform.machine() == "x86_64":
    TARGETS.append(AVX2)
PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"


def product(rows, weight, constant=True, zero=0):
    """A product of uint8 data with that zero point and a weight (k, n)."""
    k, n = weight.shape
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, [*rows, k])]
    weights = [numpy_helper.from_array(np.uint8(zero), "zero")]
    if constant:
        weights.append(numpy_helper.from_array(weight, "w"))
    else:
        inputs.append(helper.make_tensor_value_info("w", TensorProto.INT8, [k, n]))
    node = helper.make_node("MatMulInteger", ["x", "w", "zero"], ["y"])
    output = helper.make_tensor_value_info("y", TensorProto.INT32, [*rows, n])
    return helper.make_model(helper.make_graph([node], "product", inputs, [output], weights),
                             opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def is_listed(model, folder, target=AVX2):
    onnx.save(model, folder / "model.onnx")
    explained = subprocess.run([PROGRAM, "explain", folder / "model.onnx", "--target", target], check=True, text=True,
                               capture_output=True)
    return re.search(r"\* \w+\.listed_bytes", explained.stdout) is not None


def check(model, weight, data, zero=0):
    for target in TARGETS:
        compiled = treadle.compile(model, target=target)
        for x in data:
            exact = (x.astype(np.int64) - zero) @ weight.astype(np.int64)
            np.testing.assert_array_equal(compiled.run(None, {"x": x})[0], exact, err_msg=target)


def gaussian(rng, k, n):
    """As quantisers write them: a scale for each column, whose largest weight is 127."""
    w = rng.normal(size=(k, n))
    return np.rint(w / np.abs(w).max(0) * 127).astype(np.int8)


def data(rng, shape):
    return [rng.integers(0, 256, shape).astype(np.uint8), np.full(shape, 255, np.uint8), np.zeros(shape, np.uint8),
            rng.choice(np.array([0, 255], np.uint8), shape)]


@pytest.mark.parametrize("rows", [(1,), (3,), (23,), (2, 11)])
@pytest.mark.parametrize("k,n", [(384, 64), (256, 24), (500, 40), (1030, 8), (1030, 33), (771, 20)])
def test_products_of_usual_weights(tmp_path, rows, k, n):
    rng = np.random.default_rng(k + n)
    weight = gaussian(rng, k, n)
    model = product(rows, weight, zero=100)
    assert is_listed(model, tmp_path)
    check(model, weight, data(rng, (*rows, k)), zero=100)


@pytest.mark.parametrize("kind", ["small", "one sign", "extreme columns", "sparse", "zero"])
def test_products_of_unusual_weights(tmp_path, kind):
    rng = np.random.default_rng(5)
    weight = gaussian(rng, 512, 256)
    if kind == "small":
        weight = rng.integers(-32, 33, weight.shape).astype(np.int8)
    elif kind == "one sign":
        weight = rng.integers(0, 64, weight.shape).astype(np.int8)
    elif kind == "extreme columns":  # of one block of eight
        weight[:, 9], weight[:, 10], weight[::2, 11] = 127, -128, -128
    elif kind == "sparse":
        weight = np.where(rng.random(weight.shape) < 0.9, 0, rng.choice([-128, 127], weight.shape)).astype(np.int8)
    else:
        weight[:] = 0
    model = product((13,), weight)
    assert is_listed(model, tmp_path)
    check(model, weight, data(rng, (13, 512)))


@pytest.mark.parametrize("value", [127, -128])
def test_weights_of_which_no_two_words_fit(tmp_path, value):
    weight = np.full((256, 16), value, np.int8)
    model = product((9,), weight)
    # Those of -128 don't fit by themselves, either.
    assert is_listed(model, tmp_path) == (value == 127)
    check(model, weight, data(np.random.default_rng(1), (9, 256)))


@pytest.mark.parametrize("first,second", [((100, 100, 0, 0), (100, -100, 0, 0)), ((100, 100, 100, 0), (100, -100, 100, 0)),
                                          ((100, 100, 100, 0), (100, -100, -100, 0))])
def test_words_whose_bytes_fit_in_another_order(tmp_path, first, second):
    """Neighbours of one sign in some columns, of two signs in others: neither the words nor their complements fit."""
    weight = np.tile(np.array([first, second] * 8, np.int8).T, (64, 1))
    model = product((19,), weight, zero=9)
    assert is_listed(model, tmp_path)
    check(model, weight, data(np.random.default_rng(1), (19, 256)), zero=9)


def test_weights_that_are_no_constants_stay_products_of_int16(tmp_path):
    assert not is_listed(product((9,), np.zeros((512, 16), np.int8), constant=False), tmp_path)


def test_a_dynamic_number_of_rows(tmp_path):
    rng = np.random.default_rng(9)
    weight = gaussian(rng, 512, 40)
    model = product(("rows",), weight)
    assert is_listed(model, tmp_path)
    check(model, weight, [x for rows in (1, 9, 10, 31) for x in data(rng, (rows, 512))])


@pytest.mark.parametrize("target", ["llvm -mcpu=znver4", "llvm -mcpu=x86-64-v4", "llvm -mcpu=x86-64-v2",
                                    "llvm -mcpu=x86-64-v3 -mattr=+amx-tile,+amx-int8", "c"])
def test_other_machines_have_other_products(tmp_path, target):
    assert not is_listed(product((9,), gaussian(np.random.default_rng(2), 512, 32)), tmp_path, target)


@T.prim_func
def add_listed(words: T.Buffer((2, 5), "int32"), weight: T.Buffer((2, 4), "float32"), x: T.Buffer((8,), "float32"),
               y: T.Buffer((2,), "float32")):
    for row in T.serial(2):
        y[row] = T.float32(0)
        for entry in T.serial(4, annotations={"list_length": 1}):
            y[row] = y[row] + weight[row, entry] * x[words[row, entry]]


@pytest.mark.parametrize("target", ["llvm", "stackvm"])
def test_loops_over_lists_end_where_the_list_does(target):
    words = np.array([[7, 0, 1, 1, 2], [3, 3, 5, 1, 4]], np.int32)  # last their lengths
    weight = np.array([[1, 2, np.nan, np.nan], [1, 2, 3, 4]], np.float32)
    x, y = np.arange(1, 9, dtype=np.float32), treadle.nd.array(np.zeros(2, np.float32))
    built = treadle.build(add_listed, target=target)
    built(*(treadle.nd.array(a) for a in (words, weight, x)), y)
    np.testing.assert_array_equal(y.numpy(), [10, 4 + 8 + 18 + 8])


@T.prim_func
def turn_words(x: T.Buffer((64,), "uint8"), y: T.Buffer((64,), "uint8"), z: T.Buffer((64,), "uint8")):
    for i in T.serial(2):
        for j in T.vectorized(32):
            y[i * 32 + j] = x[i * 32 + j // 4 * 4 + (j + 1) % 4]
    for i in T.serial(2):
        for j in T.vectorized(32):
            z[i * 32 + j] = x[(1 - i) * 32 + j // 4 * 4 + j % 4 // 2 + j % 2 * 2]


@pytest.mark.parametrize("target", ["llvm", "stackvm"])
def test_neighbours_in_another_order(target):
    """Loads of them are one load."""
    x = np.random.default_rng(3).integers(0, 256, 64).astype(np.uint8)
    y, z = (treadle.nd.array(np.zeros(64, np.uint8)) for _ in range(2))
    built = treadle.build(turn_words, target=target)
    built(treadle.nd.array(x), y, z)
    np.testing.assert_array_equal(y.numpy(), x.reshape(-1, 4)[:, [1, 2, 3, 0]].ravel())
    np.testing.assert_array_equal(z.numpy(), np.roll(x, 32).reshape(-1, 4)[:, [0, 2, 1, 3]].ravel())
    if target == "llvm":
        assert "load i8," not in built.get_source()


def test_a_dynamic_depth():
    """Only a run knows that it fits the weight: a product of another kind."""
    rng = np.random.default_rng(12)
    weight = gaussian(rng, 512, 40)
    model = product((9,), weight)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "depth"
    check(model, weight, data(rng, (9, 512)))
