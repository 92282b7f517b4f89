# SPDX-License-Identifier: Apache-2.0
"""Resize of images whose channels are last, which keep their number: they are moved as they are. Also of images that shrink."""
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle

FLOAT = onnx.TensorProto.FLOAT


def model(shape, scales, roi=None, **attributes):
    constants = [numpy_helper.from_array(np.array(scales, "f4"), "s")]
    if roi is not None:
        constants.append(numpy_helper.from_array(np.array(roi, "f4"), "roi"))
    node = helper.make_node("Resize", ["x", "roi" if roi is not None else "", "s"], ["y"], **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", FLOAT, shape)], [onnx.ValueInfoProto(name="y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def check(shape, onnx_model):
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    expected = ReferenceEvaluator(onnx_model).run(None, {"x": x})[0]
    np.testing.assert_allclose(treadle.compile(onnx_model, threads=2)(x=x)["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("shape, scales", [
    ((1, 3, 5, 3), (1, 2, 2, 1)), ((1, 4, 6, 17), (1, 0.5, 1.5, 1)), ((2, 8, 3), (1, 2, 1)), ((4, 6, 3), (2, 0.5, 1)),
    ((1, 2, 3, 2, 2, 2), (1, 1, 2, 2, 1, 1)), ((7, 4, 3), (2, 1, 1)), ((2, 3, 4, 2), (1.5, 2, 0.5, 1))])
def test_channels_last(mode, shape, scales):
    check(shape, model(shape, scales, mode=mode, coordinate_transformation_mode="asymmetric" if mode == "nearest" else "half_pixel"))


@pytest.mark.parametrize("shape, scales", [
    ((1, 0, 4, 3), (1, 1, 2, 1)), ((1, 3, 4, 0), (1, 1, 2, 1)), ((0, 4, 3), (2, 2, 1)), ((3, 0), (2, 1)), ((2, 4, 0, 3, 3), (1, 1, 1, 2, 1))])
def test_no_elements(shape, scales):
    """A 0 was read as a dimension to copy."""
    y = treadle.compile(model(shape, scales, mode="linear"))(x=np.zeros(shape, "f4"))["y"]
    assert y.shape == tuple(int(n * s) for n, s in zip(shape, scales))


def test_cropped_channels_last():
    """A region of the channels themselves isn't kept."""
    attributes = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    check((1, 5, 9, 3), model((1, 5, 9, 3), (1, 2, 2, 1), roi=[0, 0.1, 0.2, 0, 1, 0.8, 1.2, 1], **attributes))
    check((1, 5, 9, 3), model((1, 5, 9, 3), (1, 2, 2, 1), roi=[0, 0, 0, 0.2, 1, 1, 1, 0.7], **attributes))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric"])
def test_images_that_shrink(mode, coordinates):
    """Each element by itself, from tables of places and weights: known and unknown sizes, more than a vector of columns."""
    shape, attributes = (1, 1, 4, 40), {"mode": mode, "coordinate_transformation_mode": coordinates}
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    expected = ReferenceEvaluator(model(shape, (1, 1, 0.5, 0.5), **attributes)).run(None, {"x": x})[0]
    for sizes in (shape, ("n", 1, "h", "w")):
        compiled = treadle.compile(model(sizes, (1, 1, 0.5, 0.5), **attributes), threads=2)
        np.testing.assert_allclose(compiled(x=x)["y"], expected, rtol=1e-5, atol=1e-5)
