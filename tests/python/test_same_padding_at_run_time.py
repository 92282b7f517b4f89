# SPDX-License-Identifier: Apache-2.0
"""auto_pad SAME with strides, of sizes that only a run knows: as much is added as each size wants."""
import numpy as np
import onnx
import onnxruntime
import pytest
import treadle
from onnx import TensorProto, helper

WEIGHTS = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype("f4")


def model(op, dtype=TensorProto.FLOAT, weights=None, opset=17, **attributes):
    inputs = ["x"] if weights is None else ["x", "w"]
    node = helper.make_node(op, inputs, ["y"], **attributes)
    rank = 2 + len(attributes["strides"])
    out = TensorProto.INT32 if op == "ConvInteger" else dtype
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", dtype, ["n", 3, "h", "w_"][:rank])],
        [helper.make_tensor_value_info("y", out, [None] * rank)],
        [] if weights is None else [onnx.numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def compare(source, compiled, x):
    expected, = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    actual = compiled(x=x)["y"]
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, atol=1e-4, rtol=1e-4)


SIZES = [(1, 3, 9, 8), (2, 3, 7, 5), (1, 3, 6, 12)]


@pytest.mark.parametrize("side", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("op, attributes", [
    ("Conv", dict(weights=WEIGHTS, strides=[2, 2])),
    ("Conv", dict(weights=WEIGHTS, strides=[1, 2])),
    ("Conv", dict(weights=WEIGHTS[:, :, :1, :1], strides=[3, 2])),
    ("MaxPool", dict(kernel_shape=[3, 2], strides=[2, 2])),
    ("AveragePool", dict(kernel_shape=[3, 3], strides=[2, 3])),
    ("AveragePool", dict(kernel_shape=[3, 3], strides=[2, 2], count_include_pad=1)),
    ("LpPool", dict(kernel_shape=[3, 3], strides=[2, 2])),
])
def test_each_size_is_padded_as_it_wants(op, attributes, side):
    source = model(op, auto_pad=side, **attributes)
    compiled = treadle.compile(source, threads=1)
    rng = np.random.default_rng(1)
    for shape in SIZES:
        compare(source, compiled, rng.standard_normal(shape).astype("f4") - 2)


def test_one_dimension_and_integers():
    source = model("Conv", weights=WEIGHTS[:, :, 0], strides=[2], auto_pad="SAME_UPPER")
    compiled = treadle.compile(source, threads=1)
    for length in (6, 7):
        compare(source, compiled, np.random.default_rng(1).standard_normal((1, 3, length)).astype("f4"))
    weights = np.random.default_rng(2).integers(0, 255, (4, 3, 3, 3)).astype("u1")
    source = model("ConvInteger", TensorProto.UINT8, weights=weights, strides=[2, 2], auto_pad="SAME_UPPER")
    compiled = treadle.compile(source, threads=1)
    for shape in SIZES:
        compare(source, compiled, np.random.default_rng(1).integers(0, 255, shape).astype("u1"))


def test_transposed_convolutions_need_no_size():
    weights = np.ascontiguousarray(WEIGHTS.transpose(1, 0, 2, 3))
    source = model("ConvTranspose", weights=weights, strides=[2, 2], auto_pad="SAME_UPPER")
    compiled = treadle.compile(source, threads=1)
    for shape in SIZES:
        compare(source, compiled, np.random.default_rng(1).standard_normal(shape).astype("f4"))
