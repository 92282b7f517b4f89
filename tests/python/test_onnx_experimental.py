# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX took out again, which old models have. ONNX's checker and ONNX Runtime don't know them any more:
the references are their formulas."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle


def run(op, arrays, **attributes):
    names = [f"x{i}" for i in range(len(arrays))]
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for name, a in zip(names, arrays)]
    node = helper.make_node(op, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 7)], ir_version=4)
    return treadle.compile(model.SerializeToString())(**dict(zip(names, arrays)))


def first(result):
    return np.asarray(list(result.values())[0] if isinstance(result, dict) else result[0] if isinstance(
        result, (list, tuple)) else result)


X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")


@pytest.mark.parametrize("op, attributes, expected", [
    ("Affine", {"alpha": 2.0, "beta": -1.0}, 2 * X - 1),
    ("Scale", {"scale": 3.0}, 3 * X),
    ("ScaledTanh", {"alpha": 2.0, "beta": 0.5}, 2 * np.tanh(X / 2)),
    ("ParametricSoftplus", {"alpha": 2.0, "beta": 3.0}, 2 * np.log1p(np.exp(3 * X))),
    ("ATen", {"operator": "relu"}, np.maximum(X, 0)),
], ids=lambda v: v if isinstance(v, str) else "")
def test_functions_of_one_operand(op, attributes, expected):
    np.testing.assert_allclose(first(run(op, [X], **attributes)), expected, rtol=1e-5, atol=1e-6)


def test_fully_connected():
    rng = np.random.default_rng(1)
    w, b = rng.standard_normal((5, 3, 4)).astype("float32"), rng.standard_normal(5).astype("float32")
    expected = X.reshape(2, 12) @ w.reshape(5, 12).T + b
    np.testing.assert_allclose(first(run("FC", [X, w, b])), expected, rtol=1e-4, atol=1e-5)


def test_spatial_normalization():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2, 3, 4, 5)).astype("float32")
    scale, bias, mean, variance = (rng.random(3).astype("float32") for _ in range(4))
    c = (slice(None), None, None)
    expected = (x - mean[c]) / np.sqrt(variance[c] + 1e-5) * scale[c] + bias[c]
    np.testing.assert_allclose(first(run("SpatialBN", [x, scale, bias, mean, variance])), expected, rtol=1e-4, atol=1e-5)


def test_embedding_and_unknown_functions_of_pytorch():
    table, ids = np.arange(12, dtype="float32").reshape(4, 3), np.array([2, 0], "int64")
    np.testing.assert_array_equal(first(run("ATen", [table, ids], operator="embedding")), table[ids])
    with pytest.raises(treadle.Error, match="function 'fft'"):
        run("ATen", [X], operator="fft")
