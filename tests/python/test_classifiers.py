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


def learning_model(op, inputs, outputs, **attributes):
    node = helper.make_node(op, list(inputs), outputs, name="it", domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n, dims in inputs.items()],
                              [helper.make_empty_tensor_value_info(n) for n in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 1)],
                             ir_version=9)


@pytest.mark.parametrize("labels", [[1, 2, 3], [0, 1]])
@pytest.mark.parametrize("given", [True, False], ids=["intercepts", "none"])
def test_linear_of_any_number_of_columns(labels, given):
    """The coefficients tell it, and what has another one is refused."""
    count = len(labels)
    model = learning_model("LinearClassifier", {"x": ["n", "c"]}, ["label", "scores"], classlabels_ints=labels,
                           coefficients=RNG.standard_normal(count * 4).tolist(),
                           **({"intercepts": RNG.standard_normal(count).tolist()} if given else {}))
    compiled = treadle.compile(model)
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    expected = treadle.compile(model, shapes={"x": (3, 4)}).run(None, {"x": x})
    for ours, other in zip(compiled.run(None, {"x": x}), expected, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-5)
    with pytest.raises(treadle.Error, match="size of the operand 3; expected 4"):
        compiled.run(None, {"x": x[:, :3]})


@pytest.mark.parametrize("columns", [(2, 3), (1, 3), (5, 0)])
def test_features_of_any_number_of_columns(columns):
    """Cut, or filled with zeros."""
    compiled = treadle.compile(learning_model("FeatureVectorizer", {"x": ["n", "a"], "w": ["n", "b"]}, ["y"], inputdimensions=[2, 3]))
    parts = [RNG.standard_normal((4, c)).astype(np.float32) for c in columns]
    wide = [np.pad(p, [(0, 0), (0, 5)])[:, :c] for p, c in zip(parts, (2, 3))]
    np.testing.assert_array_equal(compiled.run(None, dict(zip("xw", parts)))[0], np.concatenate(wide, 1))
