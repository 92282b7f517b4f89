# SPDX-License-Identifier: Apache-2.0
"""Convolutions of bytes by vpmaddubsw (targets/cpu/kernels/listed_conv.cc), bit for bit against exact integers."""
import pathlib
import platform
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

AVX2 = "llvm -mcpu=x86-64-v3"
TARGETS = [AVX2 + " -emulate-intrinsics=1"]
if platform.machine() == "x86_64":
    TARGETS.append(AVX2)
PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"


def convolution(shape, weight, zero=0, **attributes):
    """A convolution of uint8 data with that zero point by a weight (OIHW)."""
    weights = [numpy_helper.from_array(np.uint8(zero), "zero"), numpy_helper.from_array(weight, "w")]
    node = helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"], **attributes)
    graph = helper.make_graph([node], "convolution", [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def exact(x, weight, zero=0, group=1, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)):
    x = np.pad(x.astype(np.int64) - zero, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    outputs, inputs, high, wide = weight.shape
    oh = (x.shape[2] - (high - 1) * dilations[0] - 1) // strides[0] + 1
    ow = (x.shape[3] - (wide - 1) * dilations[1] - 1) // strides[1] + 1
    y = np.zeros((x.shape[0], outputs, oh, ow), np.int64)
    for g in range(group):
        of = slice(g * outputs // group, (g + 1) * outputs // group)
        for r in range(high):
            for c in range(wide):
                at = x[:, g * inputs:(g + 1) * inputs, r * dilations[0]:, c * dilations[1]:]
                at = at[:, :, ::strides[0], ::strides[1]][:, :, :oh, :ow]
                y[:, of] += np.einsum("nihw,oi->nohw", at, weight[of, :, r, c].astype(np.int64))
    return y


def is_listed(model, folder, target=AVX2):
    onnx.save(model, folder / "model.onnx")
    explained = subprocess.run([PROGRAM, "explain", folder / "model.onnx", "--target", target], check=True, text=True,
                               capture_output=True)
    return re.search(r"\* qnn_conv2d\.listed", explained.stdout) is not None


def gaussian(rng, shape, largest=127):
    """As quantisers write them: a scale for each channel, whose largest weight is 127."""
    w = rng.normal(size=shape)
    return np.rint(w / np.abs(w).max((1, 2, 3), keepdims=True) * largest).astype(np.int8)


def data(rng, shape):
    return [rng.integers(0, 256, shape).astype(np.uint8), np.full(shape, 255, np.uint8),
            rng.choice(np.array([0, 255], np.uint8), shape)]


def check(model, weight, xs, zero=0, **attributes):
    for target in TARGETS:
        compiled = treadle.compile(model, target=target)
        for x in xs:
            np.testing.assert_array_equal(compiled.run(None, {"x": x})[0], exact(x, weight, zero, **attributes),
                                          err_msg=target)


POINTWISE = [((1, 256, 7, 7), 128, {}), ((2, 300, 5, 6), 96, {}), ((1, 512, 9, 8), 104, {"strides": [2, 2]}),
             ((1, 260, 1, 13), 200, {}), ((1, 256, 7, 5), 128, {"strides": [3, 1]}), ((2, 264, 6, 7), 120, {}),
             ((1, 260, 9, 5), 113, {"strides": [2, 1]})]


@pytest.mark.parametrize("shape,outputs,attributes", POINTWISE)
def test_pointwise(tmp_path, shape, outputs, attributes):
    rng = np.random.default_rng(outputs)
    weight = gaussian(rng, (outputs, shape[1], 1, 1))
    model = convolution(shape, weight, zero=100, **attributes)
    assert is_listed(model, tmp_path)
    check(model, weight, data(rng, shape), zero=100, **attributes)


WINDOWS = [((1, 64, 9, 9), (96, 64, 5, 5), {"pads": [2, 2, 2, 2]}),
           ((1, 20, 9, 10), (136, 20, 5, 5), {"pads": [2, 2, 2, 2]}),
           ((1, 12, 12, 11), (144, 12, 4, 3), {"pads": [1, 0, 0, 1]}),
           ((1, 64, 9, 12), (64, 64, 3, 3), {"pads": [2, 1, 0, 3], "dilations": [2, 2]}),
           ((1, 64, 11, 11), (40, 64, 3, 2), {"strides": [2, 1], "pads": [1, 0, 1, 1]}),
           ((2, 128, 14, 15), (64, 4, 3, 3), {"group": 32, "pads": [1, 1, 1, 1]}),
           ((1, 128, 13, 11), (128, 16, 3, 3), {"group": 8, "pads": [1, 1, 1, 1]}),
           ((1, 128, 29, 27), (128, 32, 3, 3), {"group": 4, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
           ((1, 3, 31, 30), (64, 3, 7, 7), {"pads": [3, 3, 3, 3], "strides": [2, 2]}),
           ((1, 4, 20, 21), (64, 4, 5, 5), {"pads": [1, 2, 3, 4]})]


@pytest.mark.parametrize("shape,kernel,attributes", WINDOWS)
def test_windows(tmp_path, shape, kernel, attributes):
    rng = np.random.default_rng(kernel[0])
    weight = gaussian(rng, kernel, 60 if "strides" not in attributes or "group" in attributes else 127)
    model = convolution(shape, weight, zero=3, **attributes)
    assert is_listed(model, tmp_path)
    check(model, weight, data(rng, shape), zero=3, **attributes)


def test_windows_at_odd_bytes_have_no_complements(tmp_path):
    rng = np.random.default_rng(4)
    weight = rng.integers(-24, 25, (64, 3, 7, 7)).astype(np.int8)
    shape, attributes = (1, 3, 14, 15), {"pads": [3, 3, 3, 3]}
    model = convolution(shape, weight, zero=128, **attributes)
    assert is_listed(model, tmp_path)
    check(model, weight, data(rng, shape), zero=128, **attributes)


def test_a_dynamic_number_of_images(tmp_path):
    rng = np.random.default_rng(1)
    weight, attributes = gaussian(rng, (96, 64, 5, 5)), {"pads": [2, 2, 2, 2]}
    model = convolution(("images", 64, 9, 9), weight, zero=7, **attributes)
    assert is_listed(model, tmp_path)
    check(model, weight, [x for images in (1, 3) for x in data(rng, (images, 64, 9, 9))], zero=7, **attributes)


@pytest.mark.parametrize("kind", ["small", "one sign", "extreme channels", "sparse", "zero"])
def test_unusual_weights(tmp_path, kind):
    rng = np.random.default_rng(5)
    weight = gaussian(rng, (256, 256, 1, 1))
    if kind == "small":
        weight = rng.integers(-32, 33, weight.shape).astype(np.int8)
    elif kind == "one sign":
        weight = rng.integers(0, 64, weight.shape).astype(np.int8)
    elif kind == "extreme channels":  # of one block of eight
        weight[9], weight[10], weight[11, ::2] = 127, -128, -128
    elif kind == "sparse":
        weight = np.where(rng.random(weight.shape) < 0.9, 0, rng.choice([-128, 127], weight.shape)).astype(np.int8)
    else:
        weight[:] = 0
    model = convolution((1, 256, 5, 5), weight)
    assert is_listed(model, tmp_path)
    check(model, weight, data(rng, (1, 256, 5, 5)))


@pytest.mark.parametrize("value", [127, -128])
def test_weights_of_which_none_fit_stay_products_of_int16(tmp_path, value):
    weight = np.full((128, 256, 1, 1), value, np.int8)
    model = convolution((1, 256, 4, 4), weight)
    assert not is_listed(model, tmp_path)
    check(model, weight, data(np.random.default_rng(1), (1, 256, 4, 4)))


@pytest.mark.parametrize("channels", [16, 24, 40, 80])
def test_convolutions_of_few_channels(channels):
    rng = np.random.default_rng(channels)
    weight = gaussian(rng, (48, channels, 1, 1))
    model = convolution((1, channels, 14, 14), weight)
    check(model, weight, data(rng, (1, channels, 14, 14)))


def test_other_kernels_are_kept(tmp_path):
    rng = np.random.default_rng(2)
    for shape, kernel, attributes in [((1, 64, 12, 12), (64, 64, 3, 3), {"pads": [1, 1, 1, 1]}),  # Winograd
                                      ((1, 64, 12, 12), (64, 1, 3, 3), {"group": 64}),  # depthwise
                                      ((1, 256, "h", 12), (128, 256, 1, 1), {})]:
        assert not is_listed(convolution(shape, gaussian(rng, kernel), **attributes), tmp_path)


@pytest.mark.parametrize("target", ["llvm -mcpu=znver4", "llvm -mcpu=skylake-avx512", "llvm -mcpu=sapphirerapids",
                                    "llvm -mcpu=x86-64-v3 -mattr=+amx-tile,+amx-int8", "llvm -mcpu=x86-64-v2", "c"])
def test_other_machines_have_other_products(tmp_path, target):
    weight = gaussian(np.random.default_rng(2), (128, 256, 1, 1))
    assert not is_listed(convolution((1, 256, 7, 7), weight), tmp_path, target)


@pytest.mark.parametrize("channels", [1, 3, 5, 6, 7])
@pytest.mark.parametrize("size", [(2, 8), (7, 7)])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
def test_pixels_that_are_no_whole_words(channels, size, strides):
    """The copy has columns beyond those of the image, so that its rows aren't one."""
    rng = np.random.default_rng(channels)
    weight, shape = gaussian(rng, (16, channels, 1, 1), 64), (2, channels, *size)
    check(convolution(shape, weight, 4, strides=strides), weight, data(rng, shape), 4, strides=strides)
