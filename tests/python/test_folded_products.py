# SPDX-License-Identifier: Apache-2.0
"""Products of constants are folded, large ones too, and what is too much to fold doesn't keep the rest from it."""
import numpy as np
import onnx.numpy_helper as numpy_helper
import pytest
from onnx import TensorProto, helper

import treadle
from treadle import relay

RNG = np.random.default_rng(0)


def compiled_parts(nodes, weights, shape):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    module, _ = relay.frontend.from_onnx(model)
    for name in ("InferType", "FoldConstant"):
        module = getattr(relay.transform, name)()(module)
    return treadle.compile(model.SerializeToString()), module.astext(show_meta_data=False)


def of_normal(*shape):
    return RNG.standard_normal(shape).astype("f4")


@pytest.mark.parametrize("left,right", [((640, 512), (512, 512)), ((3, 1, 7, 70), (1, 2, 70, 33)), ((5, 1), (1, 3)),
                                        ((2, 4, 19), (19, 17))])
def test_products(left, right):
    weights = {"a": of_normal(*left), "b": of_normal(*right)}
    product = np.matmul(weights["a"].astype("f8"), weights["b"].astype("f8"))
    nodes = [helper.make_node("MatMul", ["a", "b"], ["p"]), helper.make_node("Add", ["x", "p"], ["y"])]
    model, text = compiled_parts(nodes, weights, product.shape)
    assert "matmul" not in text and "dense" not in text
    x = of_normal(*product.shape)
    np.testing.assert_allclose(model.run(None, {"x": x})[0], x + product, rtol=1e-5, atol=2e-4)


def test_after_what_is_too_much():
    """The convolution takes more than the interpreter is given."""
    weights = {"image": of_normal(1, 64, 64, 64), "w": of_normal(64, 64, 3, 3) / 24, "a": of_normal(24, 40),
               "b": of_normal(24, 8)}
    nodes = [helper.make_node("Conv", ["image", "w"], ["c"]), helper.make_node("ReduceMax", ["c"], ["m"], keepdims=0),
             helper.make_node("Transpose", ["a"], ["t"]), helper.make_node("MatMul", ["t", "b"], ["p"]),
             helper.make_node("Add", ["m", "x"], ["s"]), helper.make_node("Add", ["s", "p"], ["y"])]
    model, text = compiled_parts(nodes, weights, (40, 8))
    assert "nn.conv2d" in text and "transpose" not in text and "matmul" not in text and "dense" not in text
    x = of_normal(40, 8)
    windows = np.lib.stride_tricks.sliding_window_view(weights["image"][0], (3, 3), axis=(1, 2))
    most = np.einsum("chwij,ocij->ohw", windows, weights["w"], optimize=True).max()
    np.testing.assert_allclose(model.run(None, {"x": x})[0], x + weights["a"].T @ weights["b"] + most, rtol=1e-4, atol=1e-4)
