# SPDX-License-Identifier: Apache-2.0
"""Softmax of rows that are computed in vectors, with and without what is left of them, against NumPy in float64."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle

LENGTHS = (31, 32, 33, 197, 1000)


def model(operator, length, quantised=False):
    nodes = [helper.make_node(operator, ["x"], ["y"], axis=-1)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 5, length])]
    weights = []
    if quantised:
        nodes.append(helper.make_node("QuantizeLinear", ["y", "scale", "zero"], ["q"]))
        weights = [helper.make_tensor("scale", TensorProto.FLOAT, [], [1 / 256]),
                   helper.make_tensor("zero", TensorProto.UINT8, [], [0])]
        outputs = [helper.make_tensor_value_info("q", TensorProto.UINT8, [3, 5, length])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 5, length])],
                              outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def rows(length):
    x = np.random.default_rng(length).standard_normal((3, 5, length)).astype(np.float32) * 4
    x[0, 0, 1:] = -np.inf  # all of the weight is on one element
    x[1, 1, -1] = 90  # the last one, of what is left of the vectors
    return x


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3", "c"])
@pytest.mark.parametrize("length", LENGTHS)
def test_rows(length, target):
    x = rows(length)
    y = treadle.compile(model("Softmax", length), target=target).run(None, {"x": x})[0]
    np.testing.assert_allclose(y, softmax(x), rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3", "c"])
@pytest.mark.parametrize("length", (31, 49))
def test_small_weights_are_zero_or_normal(length, target):
    """Masks of windowed transformers add -100. Products with subnormal weights take a hundred cycles on some processors."""
    x = rows(length)
    x[2, :, ::2] -= 100
    y = treadle.compile(model("Softmax", length), target=target).run(None, {"x": x})[0]
    np.testing.assert_allclose(y, softmax(x), rtol=2e-6, atol=2e-38)
    assert np.count_nonzero(y[2]) < y[2].size
    assert not np.any((y > 0) & (y < np.finfo(np.float32).tiny))


def test_exponentials_keep_subnormal_numbers():
    """Of Exp itself, and of limits outside those of normal numbers."""
    x = np.linspace(-110, 89, 4000, dtype=np.float32)
    for low, high in ((-200, 200), (-87, 88), (-95, 60), (-60, 95)):
        nodes = [helper.make_node("Clip", ["x", "low", "high"], ["c"]), helper.make_node("Exp", ["c"], ["y"])]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4000])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4000])],
                                  [helper.make_tensor("low", TensorProto.FLOAT, [], [low]),
                                   helper.make_tensor("high", TensorProto.FLOAT, [], [high])])
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        y = treadle.compile(proto).run(None, {"x": x})[0]
        with np.errstate(over="ignore"):
            expected = np.exp(np.clip(x.astype(np.float64), low, high)).astype(np.float32)
        np.testing.assert_allclose(y, expected, rtol=3e-7, atol=3e-45)


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_that_are_not_numbers(length):
    x = rows(length)
    x[1, 0, 3], x[1, 2, :] = np.nan, -np.inf
    y = treadle.compile(model("Softmax", length)).run(None, {"x": x})[0]
    with np.errstate(invalid="ignore"):
        expected = softmax(x)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))


@pytest.mark.parametrize("length", LENGTHS)
def test_logarithms(length):
    x = np.nan_to_num(rows(length), neginf=-50)
    y = treadle.compile(model("LogSoftmax", length)).run(None, {"x": x})[0]
    np.testing.assert_allclose(y, np.log(softmax(x)), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("length", LENGTHS)
def test_quantised_results(length):
    x = rows(length)
    q = treadle.compile(model("Softmax", length, quantised=True)).run(None, {"x": x})[0]
    expected = np.clip(np.rint(softmax(x) * 256), 0, 255)
    assert np.abs(q.astype(int) - expected).max() <= 1
    assert np.mean(q != expected) <= 1e-3


@pytest.mark.parametrize("length", [34, 40, 63])
def test_rows_of_which_some_are_left_out(length):
    """A maximum whose values have names is still one that is computed in parts."""
    source = (f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 6, 1, {length}), float32]) {{ %0 = nn.softmax(%x); '
              "%1 = less(%x, 0f); where(%1, 0f, %0) }\n")
    x = np.random.default_rng(3).standard_normal((2, 6, 1, length)).astype(np.float32)
    built = treadle.relay.build(treadle.relay.fromtext(source), "llvm -mcpu=native")
    executor = treadle.contrib.graph_executor.GraphModule(built["default"](treadle.cpu()))
    executor.run(x=x)
    np.testing.assert_allclose(executor.get_output(0).numpy(), np.where(x < 0, 0, softmax(x)), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3", "c"])
@pytest.mark.parametrize("axis", (-1, 1, 0))
@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax"])
def test_sizes_of_a_run(operator, axis, target):
    """Vectors of a row end where the buffers do that hold it."""
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["a", "b", "c"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"], axis=axis)], "g", info[:1], info[1:])
    compiled = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                               target=target)
    for shape in ((2, 3, 1), (3, 2, 7), (1, 5, 16), (2, 1, 31), (4, 3, 49), (2, 17, 100), (0, 3, 4), (3, 0, 4)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 4
        e = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True, initial=-np.inf))
        expected = e / e.sum(axis=axis, keepdims=True)
        if operator == "LogSoftmax":
            expected = np.log(expected)
        np.testing.assert_allclose(compiled.run(None, {"x": x})[0], expected, rtol=5e-6, atol=2e-6)
