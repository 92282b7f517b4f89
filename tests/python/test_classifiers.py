# SPDX-License-Identifier: Apache-2.0
"""Classifiers of ai.onnx.ml with labels of both kinds, against ONNX Runtime."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(0)
FEATURES, ROWS = 3, 7


def check(node, label_type):
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", FEATURES])],
                              [helper.make_tensor_value_info("label", label_type, ["n"]),
                               helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", None])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)],
                              ir_version=9)
    x = RNG.standard_normal((ROWS, FEATURES)).astype(np.float32)
    labels, scores = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    actual_labels, actual_scores = treadle.compile(model).run(None, {"x": x})
    assert actual_labels.tolist() == labels.tolist()
    np.testing.assert_allclose(actual_scores, scores, rtol=1e-4, atol=1e-5)


def labels_of(kind, count):
    if kind == "strings":
        return {"classlabels_strings": [f"class {i}" for i in range(count)]}, TensorProto.STRING
    return {"classlabels_ints": [10 + i for i in range(count)]}, TensorProto.INT64


@pytest.mark.parametrize("kind", ["ints", "strings"])
@pytest.mark.parametrize("classes, kernel, probabilities, transform", [
    (2, "RBF", False, "NONE"), (2, "LINEAR", True, "NONE"), (3, "RBF", False, "NONE"), (4, "POLY", True, "NONE"),
    (3, "SIGMOID", True, "SOFTMAX"), (3, "LINEAR", False, "LOGISTIC"), (3, "RBF", True, "SOFTMAX_ZERO")])
def test_support_vectors(kind, classes, kernel, probabilities, transform):
    counts = [2 + i for i in range(classes)]
    vectors, pairs = sum(counts), classes * (classes - 1) // 2
    labels, label_type = labels_of(kind, classes)
    more = {"prob_a": RNG.standard_normal(pairs).tolist(), "prob_b": RNG.standard_normal(pairs).tolist()} if probabilities else {}
    check(helper.make_node("SVMClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", kernel_type=kernel,
                           kernel_params=[0.4, 0.2, 3.0], vectors_per_class=counts, post_transform=transform,
                           coefficients=RNG.standard_normal((classes - 1) * vectors).tolist(),
                           support_vectors=RNG.standard_normal(vectors * FEATURES).tolist(),
                           rho=RNG.standard_normal(pairs).tolist(), **labels, **more), label_type)


@pytest.mark.parametrize("kind", ["ints", "strings"])
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_linear(kind, transform):
    labels, label_type = labels_of(kind, 3)
    check(helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", post_transform=transform,
                           coefficients=RNG.standard_normal(9).tolist(), intercepts=RNG.standard_normal(3).tolist(),
                           **labels), label_type)
