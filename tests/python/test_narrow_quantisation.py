# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear of 4 and 2 bits, and scales of any rank, beside NumPy."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

RANGES = {"UINT4": (0, 15), "INT4": (-8, 7), "UINT2": (0, 3), "INT2": (-2, 1)}
SCALE = np.float32(0.9)


def run(nodes, feed, initializers=(), functions=(), result=TensorProto.FLOAT):
    inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
              for name, value in feed.items()]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", result, None)],
                              list(initializers))
    opsets = [helper.make_opsetid("", 25), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=11, functions=list(functions))
    return np.asarray(treadle.compile(model.SerializeToString()).run(None, feed)[0])


def number(name, kind, value):
    return helper.make_tensor(name, getattr(TensorProto, kind), (), [value])


def there_and_back(domain=""):
    return [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], domain=domain),
            helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], domain=domain)]


@pytest.mark.parametrize("kind", RANGES)
@pytest.mark.parametrize("where", ["initializer", "constant", "function", "branch", "com.microsoft"])
def test_zero_points_say_the_range(kind, where):
    least, most = RANGES[kind]
    x = np.array([1e30, -1e30, np.inf, -np.inf, 0.45, -0.45, 1.35, *np.linspace(-9, 9, 41)], np.float32)
    scale = numpy_helper.from_array(SCALE, "scale")
    for value in (least, most):
        zero, nodes, feed, functions = number("zero", kind, value), there_and_back(), {"x": x}, []
        weights = [scale, zero]
        if where == "constant":
            nodes, weights = [helper.make_node("Constant", [], ["zero"], value=zero), *nodes], [scale]
        elif where == "function":
            functions = [helper.make_function("own", "Round", ["x", "scale", "zero"], ["y"], nodes,
                                              [helper.make_opsetid("", 25)])]
            nodes = [helper.make_node("Round", ["x", "scale", "zero"], ["y"], domain="own")]
        elif where == "branch":
            y = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
            branches = {"then_branch": helper.make_graph(nodes, "rounded", [], y),
                        "else_branch": helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "other", [], y)}
            nodes, feed = [helper.make_node("If", ["condition"], ["y"], **branches)], {"x": x, "condition": np.array(True)}
        elif where == "com.microsoft":
            nodes = there_and_back("com.microsoft")
        codes = np.clip(np.rint(x / SCALE).astype(np.float64) + value, least, most)
        expected = ((codes - value) * SCALE).astype(np.float32)
        np.testing.assert_array_equal(run(nodes, feed, weights, functions), expected)


@pytest.mark.parametrize("kind", ["UINT4", "INT4"])
@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_weights_with_a_scale_for_each_column(kind, domain):
    rng, (least, most) = np.random.default_rng(3), RANGES[kind]
    codes, zeros = rng.integers(least, most + 1, (7, 6)), rng.integers(least, most + 1, 6)
    scales, x = rng.uniform(0.1, 0.2, 6).astype(np.float32), rng.standard_normal((5, 7)).astype(np.float32)
    weights = [helper.make_tensor("codes", getattr(TensorProto, kind), codes.shape, codes.ravel().tolist()),
               numpy_helper.from_array(scales, "scale"),
               helper.make_tensor("zero", getattr(TensorProto, kind), (6,), zeros.tolist())]
    nodes = [helper.make_node("DequantizeLinear", ["codes", "scale", "zero"], ["w"], axis=1, domain=domain),
             helper.make_node("MatMul", ["x", "w"], ["y"])]
    exact = x.astype(np.float64) @ ((codes - zeros) * scales.astype(np.float64))
    np.testing.assert_allclose(run(nodes, {"x": x}, weights), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("of_a,of_b", [((3, 1), (1, 5)), ((2, 3, 1), ()), ((3,), (2, 1, 5)), ((2, 3, 1), (2, 1, 5))])
def test_scales_of_products_have_the_rank_of_their_operand(of_a, of_b):
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 256, (2, 3, 70)).astype(np.uint8), rng.integers(-128, 128, (2, 70, 5)).astype(np.int8)
    feed = {"a": a, "as": rng.uniform(0.01, 0.1, of_a).astype(np.float32),
            "az": rng.choice([0, 255, 7], of_a).astype(np.uint8), "b": b,
            "bs": rng.uniform(0.01, 0.1, of_b).astype(np.float32),
            "bz": rng.choice([-128, 127, 7], of_b).astype(np.int8), "ys": np.float32(2), "yz": np.uint8(255)}
    rows = (lambda value: value[:, None]) if len(of_a) == 1 else (lambda value: value)
    sums = (a.astype(np.int64) - rows(feed["az"]).astype(np.int64)) @ (b.astype(np.int64) - feed["bz"].astype(np.int64))
    factor = rows(feed["as"]) * feed["bs"] / feed["ys"]
    expected = np.clip(np.rint(sums.astype(np.float32) * factor) + 255, 0, 255).astype(np.uint8)
    feed = {name: np.asarray(value) for name, value in feed.items()}
    y = run([helper.make_node("QLinearMatMul", list(feed), ["y"])], feed, result=TensorProto.UINT8)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("name,shape", [("as", (2, 3, 70)), ("bs", (2, 70, 5))])
def test_scales_along_what_is_summed_are_refused(name, shape):
    feed = {"a": np.zeros((2, 3, 70), np.uint8), "as": np.float32(1), "az": np.uint8(0),
            "b": np.zeros((2, 70, 5), np.int8), "bs": np.float32(1), "bz": np.int8(0), "ys": np.float32(1),
            "yz": np.uint8(0)}
    feed |= {name: np.ones(shape, np.float32), name[0] + "z": np.zeros(shape, feed[name[0] + "z"].dtype)}
    feed = {key: np.asarray(value) for key, value in feed.items()}
    with pytest.raises(treadle.Error, match="differ along the dimension that is summed over"):
        run([helper.make_node("QLinearMatMul", list(feed), ["y"])], feed, result=TensorProto.UINT8)
