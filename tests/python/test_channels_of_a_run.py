# SPDX-License-Identifier: Apache-2.0
"""Convolutions of operands whose channels the model doesn't tell: they are as many as the weights want."""
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle


def model(op, weight, **attributes):
    """Of an operand that is reshaped to what a run gives."""
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["image"]),
             helper.make_node(op, ["image", "w"], ["y"], name="the_conv", **attributes)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["count"]),
              helper.make_tensor_value_info("shape", TensorProto.INT64, [weight.ndim])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


CASES = {"pointwise": ("Conv", (48, 32, 1, 1), {}, 32), "window": ("Conv", (32, 32, 3, 3), dict(pads=[1] * 4), 32),
         "groups": ("Conv", (32, 16, 3, 3), dict(group=2), 32), "depthwise": ("Conv", (32, 1, 3, 3), dict(group=32), 32),
         "row": ("Conv", (16, 16, 3), {}, 16), "transposed": ("ConvTranspose", (16, 24, 2, 2), dict(strides=[2, 2]), 16)}


@pytest.mark.parametrize("case", CASES)
def test_convolutions(case):
    op, shape, attributes, channels = CASES[case]
    rng = np.random.default_rng(4)
    proto = model(op, rng.standard_normal(shape).astype("f4"), **attributes)
    compiled = treadle.compile(proto.SerializeToString())
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for sizes in ((1, 7, 9), (2, 4, 5)):
        image = (sizes[0], channels, *sizes[1:len(shape) - 1])
        feed = {"x": rng.standard_normal(np.prod(image)).astype("f4"), "shape": np.array(image, "i8")}
        np.testing.assert_allclose(compiled.run(None, feed)[0], session.run(None, feed)[0], rtol=1e-4, atol=1e-4)
    wrong = (1, channels // 2, *[8] * (len(shape) - 2))
    with pytest.raises(treadle.Error, match="the_conv.*size of the channel dimension"):
        compiled.run(None, {"x": np.zeros(np.prod(wrong), "f4"), "shape": np.array(wrong, "i8")})


@pytest.mark.parametrize("case", ["pointwise", "window", "depthwise", "row"])
def test_convolutions_of_bytes(case):
    _, shape, attributes, channels = CASES[case]
    rng = np.random.default_rng(5)
    weight = rng.integers(-8, 8, shape).astype("i1")
    proto = model("ConvInteger", weight, **attributes)
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    compiled = treadle.compile(proto.SerializeToString())
    assert "nn.contrib" in compiled.explain() or len(shape) == 3
    floats = ReferenceEvaluator(model("Conv", weight.astype("f4"), **attributes))
    for sizes in ((1, 7, 9), (2, 4, 5)):
        image = (sizes[0], channels, *sizes[1:len(shape) - 1])
        feed = {"x": rng.integers(0, 256, np.prod(image), dtype="u1"), "shape": np.array(image, "i8")}
        expected = floats.run(None, {**feed, "x": feed["x"].astype("f4")})[0]
        np.testing.assert_array_equal(compiled.run(None, feed)[0], expected.astype("i4"))
    wrong = (1, channels // 2, *[8] * (len(shape) - 2))
    with pytest.raises(treadle.Error, match="the_conv.*size of the channel dimension"):
        compiled.run(None, {"x": np.zeros(np.prod(wrong), "u1"), "shape": np.array(wrong, "i8")})


def test_kernels_are_those_of_known_channels():
    compiled = treadle.compile(model("Conv", np.zeros((48, 32, 1, 1), "f4")).SerializeToString())
    assert "nn.contrib_conv2d_NCHWc" in compiled.explain()
