# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of tokens (batch, pixels, channels), which keep channels last, against float64."""
import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from test_convolution import convolve
from test_kernels import V3, conv_problem, plans_of, some


class Tokens:
    """Transposed to an image, convolved with a bias, a shortcut where the size stays, ReLU, and back."""

    def __init__(self, channels, height, width, kernel, stride, dilation, pad, shortcut, batch=2):
        rng = np.random.default_rng(channels + height)
        self.x = rng.standard_normal((batch, height * width, channels)).astype(np.float32)
        w = (rng.standard_normal((channels, 1, kernel, kernel)) * 0.2).astype(np.float32)
        b = rng.standard_normal(channels).astype(np.float32)
        image = self.x.transpose(0, 2, 1).reshape(batch, channels, height, width)
        y = convolve(image, w, b, (stride,) * 2, (pad,) * 4, (dilation,) * 2, channels)
        y = np.maximum(y + image if shortcut else y, 0)
        pixels = y.shape[2] * y.shape[3]
        self.expected = y.reshape(batch, channels, pixels).transpose(0, 2, 1)
        nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
                 helper.make_node("Reshape", ["t", "image"], ["i"]),
                 helper.make_node("Conv", ["i", "w", "b"], ["c"], pads=[pad] * 4, strides=[stride] * 2,
                                  dilations=[dilation] * 2, group=channels),
                 helper.make_node("Add", ["c", "i"], ["a"]) if shortcut else helper.make_node("Identity", ["c"], ["a"]),
                 helper.make_node("Relu", ["a"], ["r"]), helper.make_node("Reshape", ["r", "rows"], ["f"]),
                 helper.make_node("Transpose", ["f"], ["y"], perm=[0, 2, 1])]
        constants = {"w": w, "b": b, "image": np.int64([batch, channels, height, width]), "rows": np.int64([batch, channels, pixels])}
        graph = helper.make_graph(nodes, "tokens", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.x.shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                                  [numpy_helper.from_array(value, name) for name, value in constants.items()])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def check(self, tolerance=1e-4, **options):
        model = treadle.compile(self.model, **options)
        (y,) = model.run(None, {"x": self.x})
        np.testing.assert_allclose(y, self.expected, rtol=tolerance, atol=tolerance)
        return model


SHAPES = [(32, 7, 9, 3, 1, 1, 1, True), (64, 14, 14, 3, 1, 1, 1, False), (8, 5, 40, 5, 1, 1, 2, True), (48, 9, 8, 3, 2, 1, 1, False),
          (24, 11, 10, 3, 1, 2, 2, True), (320, 4, 4, 3, 1, 1, 0, False), (16, 1, 33, 1, 1, 1, 0, True), (12, 6, 6, 3, 1, 1, 1, True)]


@pytest.mark.parametrize("shape", SHAPES)
def test_tokens_are_convolved_as_images_are(shape):
    Tokens(*shape).check()


def test_tokens_stay_where_they_are():
    profile = Tokens(64, 14, 14, 3, 1, 1, 1, True).check(target=V3).profile()
    assert "depthwise_conv2d_NHWC" in str(profile) and "transpose" not in str(profile)


def test_batches_may_be_dynamic():
    layer = Tokens(64, 14, 14, 3, 1, 1, 1, True, batch=3)
    layer.model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    for constant in layer.model.graph.initializer:
        if constant.name in ("image", "rows"):
            constant.CopyFrom(numpy_helper.from_array(np.int64([-1, *numpy_helper.to_array(constant)[1:]]), constant.name))
    profile = layer.check().profile({"x": layer.x})
    assert "depthwise_conv2d_NHWC" in str(profile) and "transpose" not in str(profile)


def test_tokens_of_bfloat16_are_widened():
    Tokens(64, 14, 14, 3, 1, 1, 1, False).check(2e-2, pass_config={"relay.precision": "bf16"})


def test_plans_with_channels_last_compute_the_same():
    layer = Tokens(96, 8, 8, 3, 1, 1, 1, True, batch=1)
    problem = conv_problem(96, 8, 96, 3, 96, 1)
    plans = [json.loads(str(plan)) for plan in plans_of("conv2d.depthwise_nhwc", json.dumps(problem), V3)]
    assert {plan["channels"] for plan in plans} == {16, 32, 48, 96}
    for plan in some(plans, 6):
        record = json.dumps({"problem": problem, "kernel": "conv2d.depthwise_nhwc", "plan": plan})
        layer.check(target=V3, pass_config={"schedule.plans": record})
