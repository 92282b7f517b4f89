# SPDX-License-Identifier: Apache-2.0
"""Images of columns (Col2Im) against the definition, for blocks, strides and dilations of all kinds."""
import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

RNG = np.random.default_rng(5)


def image_of(x, image, block, strides, dilations, pads):
    """By the definition, in float64."""
    rank = len(image)
    counts = [(image[d] + pads[d] + pads[rank + d] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1 for d in range(rank)]
    x = x.astype(np.float64).reshape(len(x), -1, *block, *counts)
    y = np.zeros((*x.shape[:2], *image))
    for tap in itertools.product(*map(range, block)):
        for place in itertools.product(*map(range, counts)):
            at = [place[d] * strides[d] + tap[d] * dilations[d] - pads[d] for d in range(rank)]
            if all(0 <= at[d] < image[d] for d in range(rank)):
                y[(slice(None), slice(None), *at)] += x[(slice(None), slice(None), *tap, *place)]
    return y


CASES = [((9, 21), (3, 3), 1, 1, (1, 1)), ((9, 10), (3, 3), 2, 1, (1, 0)), ((8, 12), (4, 4), 4, 1, (0, 0)), ((9, 10), (2, 3), 4, 1, (0, 1)),
         ((9, 37), (5, 2), 1, 1, (2, 0)), ((9, 10), (3, 2), 1, 2, (1, 1)), ((12, 11), (3, 2), 2, 3, (2, 1)), ((17,), (5,), 2, 1, (3,)),
         ((5, 6, 7), (2, 3, 2), 1, 1, (0, 1, 1)), ((9, 10), (1, 1), 1, 1, (0, 0)), ((12, 12), (9, 9), 1, 1, (1, 0)), ((6, 7), (3, 3), 1, 1, (-1, -1))]


@pytest.mark.parametrize("open_dims", [False, True])
@pytest.mark.parametrize("image, block, stride, dilation, pad", CASES)
def test_columns_to_image(image, block, stride, dilation, pad, open_dims):
    rank = len(image)
    strides, dilations, pads = [stride] * rank, [dilation] * rank, [*pad, *pad[::-1]]
    counts = [(image[d] + pads[d] + pads[rank + d] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1 for d in range(rank)]
    x = RNG.standard_normal((2, 3 * int(np.prod(block)), int(np.prod(counts)))).astype(np.float32)
    node = helper.make_node("Col2Im", ["x", "i", "b"], ["y"], strides=strides, dilations=dilations, pads=pads)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None] * 3 if open_dims else x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(np.array(image), "i"), numpy_helper.from_array(np.array(block), "b")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    y = model.run(None, {"x": x})[0]
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, image_of(x, image, block, strides, dilations, pads), rtol=1e-5, atol=1e-5)


def test_infinities_stay_where_they_are():
    x = np.zeros((1, 9, 20), np.float32)
    x[0, 4, 7] = np.inf
    node = helper.make_node("Col2Im", ["x", "i", "b"], ["y"], pads=[1, 1, 1, 1])
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(np.array([4, 5]), "i"), numpy_helper.from_array(np.array([3, 3]), "b")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    y = model.run(None, {"x": x})[0]
    assert np.isinf(y[0, 0, 1, 2]) and np.isfinite(y).sum() == 19
