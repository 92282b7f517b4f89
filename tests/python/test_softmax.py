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
