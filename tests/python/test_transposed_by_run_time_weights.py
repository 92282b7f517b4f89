# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions by weights of known shape that a run gives, which are products of matrices."""
import numpy as np
import onnxruntime
import pytest
from onnx import helper

import treadle

RNG = np.random.default_rng(8)


def model_of(feed, dims, **attributes):
    """`dims`: what the shape of the image is declared as."""
    def info(name, value):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), dims if name == "x" else value.shape)

    node = helper.make_node("ConvTranspose", list(feed), ["y"], **attributes)
    graph = helper.make_graph([node], "g", [info(*item) for item in feed.items()], [helper.make_empty_tensor_value_info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def expected_of(feed, **attributes):
    model = model_of(feed, feed["x"].shape, **attributes).SerializeToString()
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)[0]


CASES = [((1, 6, 9, 20), (6, 5, 2, 2), dict(strides=[2, 2])), ((2, 6, 5, 40), (6, 5, 4, 4), dict(strides=[2, 2], pads=[1, 1, 1, 1])),
         ((2, 6, 7, 5), (6, 3, 3, 3), dict(pads=[1, 0, 1, 2])), ((1, 6, 4, 18), (6, 5, 3, 5), dict(strides=[2, 3], pads=[1, 2, 1, 0], output_padding=[1, 2])),
         ((2, 6, 7, 5), (6, 4, 3, 3), dict(group=2, strides=[2, 2])), ((1, 6, 7, 5), (6, 4, 3, 3), dict(group=3, dilations=[2, 3])),
         ((1, 6, 3, 4), (6, 2, 2, 2), dict(strides=[3, 3], output_padding=[2, 2])), ((2, 6, 30), (6, 5, 8), dict(strides=[4], pads=[2, 2])),
         ((2, 6, 9), (6, 5, 20), dict(strides=[8])), ((2, 6, 3, 4, 5), (6, 4, 3, 3, 3), dict(strides=[2, 2, 2], pads=[1] * 6, output_padding=[1, 1, 1])),
         ((2, 4, 5, 6), (4, 1, 3, 3), dict(group=4, strides=[2, 2])), ((1, 6, 9, 20), (6, 5, 2, 2), dict(strides=[2, 2], auto_pad="SAME_UPPER"))]


@pytest.mark.parametrize("dims", ["known", "image", "named", "none"])
@pytest.mark.parametrize("image, weights, attributes", CASES)
def test_transposed_convolutions(image, weights, attributes, dims):
    feed = {"x": RNG.standard_normal(image).astype(np.float32), "w": RNG.standard_normal(weights).astype(np.float32),
            "b": RNG.standard_normal(weights[1] * attributes.get("group", 1)).astype(np.float32)}
    shape = {"known": image, "image": [*image[:2], *(f"x{i}" for i in range(2, len(image)))], "named": [f"x{i}" for i in range(len(image))],
             "none": [None] * len(image)}[dims]
    y = treadle.compile(model_of(feed, shape, **attributes), threads=1).run(None, feed)[0]
    np.testing.assert_allclose(y, expected_of(feed, **attributes), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(0, 6, 3, 4), (2, 6, 0, 4), (2, 6, 3, 0)])
def test_images_without_elements(shape):
    feed = {"x": np.zeros(shape, np.float32), "w": np.ones((6, 2, 3, 3), np.float32)}
    model = treadle.compile(model_of(feed, ["n", "c", "h", "w"], strides=[2, 2], output_padding=[1, 1]), threads=1)
    constant = treadle.compile(model_of(feed, ["n", "c", "h", "w"], strides=[2, 2], output_padding=[1, 1]), constants={"w": feed["w"]}, threads=1)
    assert model.run(None, feed)[0].shape == constant.run(None, {"x": feed["x"]})[0].shape


def test_infinities_meet_no_zeros():
    feed = {"x": np.ones((1, 2, 4, 4), np.float32), "w": np.ones((2, 1, 3, 3), np.float32)}
    feed["x"][0, 0, 1, 1] = np.inf
    y = treadle.compile(model_of(feed, feed["x"].shape, strides=[2, 2]), threads=1).run(None, feed)[0]
    np.testing.assert_array_equal(y, expected_of(feed, strides=[2, 2]))


def test_double():
    feed = {"x": RNG.standard_normal((1, 4, 5, 6)), "w": RNG.standard_normal((4, 3, 3, 3))}
    y = treadle.compile(model_of(feed, feed["x"].shape, strides=[2, 2]), threads=1).run(None, feed)[0]
    single = {name: value.astype(np.float32) for name, value in feed.items()}
    np.testing.assert_allclose(y, expected_of(single, strides=[2, 2]), rtol=1e-4, atol=1e-4)
