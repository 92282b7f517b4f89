# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of bytes (targets/cpu/kernels/byte_conv.cc), bit for bit against exact integers."""
import platform

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

AVX2 = "llvm -mcpu=x86-64-v3"
TARGETS = [AVX2 + " -emulate-intrinsics=1"]
if platform.machine() == "x86_64":
    TARGETS.append(AVX2)


def convolution(shape, weight, zero, attributes):
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)]
    weights = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.uint8(zero), "zero")]
    node = helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"], group=weight.shape[0], **attributes)
    output = helper.make_tensor_value_info("y", TensorProto.INT32, None)
    return helper.make_model(helper.make_graph([node], "depthwise", inputs, [output], weights),
                             opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def exact(x, weight, zero, pads, strides, dilations):
    x = np.pad(x.astype(np.int64) - zero, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    span = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations)]
    high, wide = ((x.shape[2 + i] - span[i]) // strides[i] + 1 for i in (0, 1))
    y = np.zeros((*x.shape[:2], high, wide), np.int64)
    for a in range(weight.shape[2]):
        for b in range(weight.shape[3]):
            top, left = a * dilations[0], b * dilations[1]
            taps = x[:, :, top:top + strides[0] * (high - 1) + 1:strides[0],
                     left:left + strides[1] * (wide - 1) + 1:strides[1]]
            y += taps * weight[None, :, 0, a, b, None, None].astype(np.int64)
    return y


@pytest.mark.parametrize("strides", [[1, 1], [2, 2], [3, 1], [1, 2]])
@pytest.mark.parametrize("kernel,pads,dilations", [([3, 3], [1, 1, 1, 1], [1, 1]), ([5, 5], [2, 2, 2, 2], [1, 1]),
                                                   ([2, 3], [0, 0, 0, 0], [1, 1]), ([4, 1], [3, 0, 0, 0], [1, 1]),
                                                   ([3, 3], [0, 1, 2, 0], [2, 1]), ([1, 5], [0, 2, 0, 2], [1, 1])])
def test_depthwise_convolutions_are_exact(kernel, pads, dilations, strides):
    rng = np.random.default_rng(sum(kernel) + strides[0])
    attributes = {"pads": pads, "strides": strides, "dilations": dilations}
    for shape in [(1, 16, 9, 11), (2, 24, 8, 5)]:
        weight = rng.integers(-128, 128, (shape[1], 1, *kernel)).astype(np.int8)
        model = convolution(shape, weight, 37, attributes)
        for target in TARGETS:
            compiled = treadle.compile(model, target=target)
            for x in (rng.integers(0, 256, shape).astype(np.uint8), np.full(shape, 255, np.uint8)):
                np.testing.assert_array_equal(compiled.run(None, {"x": x})[0],
                                              exact(x, weight, 37, pads, strides, dilations), err_msg=target)


def test_depthwise_convolutions_of_dynamic_images_are_exact():
    rng = np.random.default_rng(3)
    weight = rng.integers(-128, 128, (16, 1, 3, 3)).astype(np.int8)
    for stride in (1, 2):
        attributes = {"pads": [1] * 4, "strides": [stride] * 2}
        for target in TARGETS:
            compiled = treadle.compile(convolution((1, 16, "h", "w"), weight, 5, attributes), target=target)
            for size in ((1, 1), (7, 10), (16, 4)):
                x = rng.integers(0, 256, (1, 16, *size)).astype(np.uint8)
                np.testing.assert_array_equal(compiled.run(None, {"x": x})[0],
                                              exact(x, weight, 5, [1] * 4, [stride] * 2, [1, 1]), err_msg=target)
