# SPDX-License-Identifier: Apache-2.0
"""Images of columns (Col2Im) against the definition, for blocks, strides and dilations of all kinds."""
import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

RNG = np.random.default_rng(5)


def counts_of(image, block, strides, dilations, pads):
    rank = len(image)
    return [max(0, (image[d] + pads[d] + pads[rank + d] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1) for d in range(rank)]


def image_of(x, image, block, strides, dilations, pads):
    """By the definition, in float64."""
    rank = len(image)
    counts = counts_of(image, block, strides, dilations, pads)
    x = x.astype(np.float64).reshape(len(x), x.shape[1] // int(np.prod(block)), *block, *counts)
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
WIDE_CASES = [((70, 70), (3, 3), 1, 1, (1, 1)), ((7, 70), (4, 4), 2, 1, (1, 1)), ((7, 74), (2, 3), 3, 1, (0, 2)), ((20, 90), (4, 9), 8, 1, (0, 3)),
              ((6, 40), (3, 3), 2, 1, (-1, -3)), ((6, 40), (3, 5), 5, 1, (0, -3)), ((6, 21), (2, 2), 2, 1, (0, 40)), ((2, 3), (3, 5), 1, 1, (0, 0))]


def compiled(feed, given, sizes, **attributes):
    """Inputs named in `given` are those of a run, of any shape; the other lists are initializers."""
    def info(name, value):
        shape = [None] * value.ndim if name == "x" and "X" in given else value.shape
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), shape)

    known = [numpy_helper.from_array(value, name) for name, value in sizes.items() if name not in given]
    inputs = {**feed, **{name: value for name, value in sizes.items() if name in given}}
    graph = helper.make_graph([helper.make_node("Col2Im", ["x", "i", "b"], ["y"], **attributes)], "g", [info(*item) for item in inputs.items()],
                              [helper.make_empty_tensor_value_info("y")], known)
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    return model.run(None, inputs)[0]


def check(image, block, stride, dilation, pad, given, dtype=np.float32):
    rank = len(image)
    strides, dilations, pads = [stride] * rank, [dilation] * rank, [*pad, *pad[::-1]]
    counts = counts_of(image, block, strides, dilations, pads)
    x = RNG.standard_normal((2, 3 * int(np.prod(block)), int(np.prod(counts)))) * (1 if np.dtype(dtype).kind == "f" else 50)
    x = x.astype(dtype)
    y = compiled({"x": x}, given, {"i": np.array(image), "b": np.array(block)}, strides=strides, dilations=dilations, pads=pads)
    assert y.dtype == dtype
    tolerance = 1e-3 if dtype == np.float16 else 1e-5
    np.testing.assert_allclose(y, image_of(x, image, block, strides, dilations, pads), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("given", ["", "X", "Xib"])
@pytest.mark.parametrize("image, block, stride, dilation, pad", CASES + WIDE_CASES)
def test_columns_to_image(image, block, stride, dilation, pad, given):
    check(image, block, stride, dilation, pad, given)


@pytest.mark.parametrize("given", ["i", "b", "Xi"])
@pytest.mark.parametrize("stride", [1, 2, 5])
def test_sizes_that_a_run_gives(given, stride):
    check((9, 40), (3, 4), stride, 1, (1, 2), given)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.int64])
@pytest.mark.parametrize("stride", [1, 2, 7])
def test_number_formats(dtype, stride):
    check((9, 40), (3, 3), stride, 1, (1, 1), "Xib", dtype)


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


def summed(shape, padding):
    text = f"""#[version = "0.0.5"]
        def @main(%c: Tensor[{shape}, float32]) {{
            nn.contrib_columns_to_image(%c, strides=[1, 1], dilation=[1, 1], padding={padding}) }}"""
    return treadle.relay.build(treadle.parser.parse(text), target="llvm")


def test_images_of_no_channels():
    """Their number, which is known, is a divisor."""
    executor = treadle.contrib.graph_executor.GraphModule(summed((2, 0, 3, 3, 4, 4), [0] * 4)["default"](treadle.cpu()))
    executor.run()
    assert executor.get_output(0).numpy().shape == (2, 0, 6, 6)


def test_padding_that_overflows():
    with pytest.raises(treadle.Error, match="overflows"):
        summed((1, 2, 3, 3, 4, 4), [2**63 - 1] * 4)
