# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose weights only the run knows, as those that a model makes of its inputs: packed at each run where that pays."""
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import treadle

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def model_of(op, feed, open_sizes=False, **attributes):
    def info(name, value):
        shape = list(value.shape)
        if open_sizes and name == "x":
            shape = ["n", shape[1], *(f"d{i}" for i in range(len(shape) - 2))]
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    nodes = [helper.make_node("Mul", ["w", "scale"], ["made"]), helper.make_node(op, ["x", "made", "b"], ["sums"], **attributes),
             helper.make_node("Relu", ["sums"], ["y"])]
    graph = helper.make_graph(nodes, "g", [info(*item) for item in feed.items()], [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def check(op, x, w, outputs, **attributes):
    feed = dict(x=x, w=w, scale=floats(*(1 for _ in w.shape)), b=floats(outputs))
    for open_sizes in (False, True):
        model = model_of(op, feed, open_sizes, **attributes)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        compiled = treadle.compile(model, threads=2)
        for sign in (1, -1):  # other weights in each run
            own = dict(feed, scale=sign * feed["scale"])
            np.testing.assert_allclose(compiled(**own)["y"], session.run(None, own)[0], rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("channels, outputs", [(16, 32), (3, 16), (12, 16), (16, 20)])
@pytest.mark.parametrize("kernel, attributes", [((3, 3), dict(pads=[1, 1, 1, 1])), ((1, 1), {}), ((3, 2), dict(strides=[2, 1], dilations=[1, 2]))])
def test_images(channels, outputs, kernel, attributes):
    check("Conv", floats(2, channels, 9, 10), floats(outputs, channels, *kernel), outputs, **attributes)


@pytest.mark.parametrize("spatial, kernel", [((40,), (3,)), ((4, 6, 7), (2, 3, 3)), ((5, 4, 6), (1, 1, 1))])
def test_rows_and_volumes(spatial, kernel):
    check("Conv", floats(2, 16, *spatial), floats(16, 16, *kernel), 16)


def test_few_pixels():
    check("Conv", floats(1, 32, 3, 3), floats(32, 32, 3, 3), 32)


def test_groups():
    check("Conv", floats(2, 32, 8, 8), floats(32, 16, 3, 3), 32, group=2)
    check("Conv", floats(1, 16, 8, 8), floats(16, 1, 3, 3), 16, group=16)


@pytest.mark.parametrize("size, text", [(12, "* conv2d.direct"), (4, "the weight isn't constant, and used by few pixels")])
def test_chosen_kernel(size, text):
    """The weight is packed for the kernel that constant ones get; one that few pixels use is read as it is."""
    feed = dict(x=floats(1, 16, size, size), w=floats(16, 16, 3, 3), scale=floats(1, 1, 1, 1), b=floats(16))
    assert text in treadle.compile(model_of("Conv", feed), target="llvm -mcpu=x86-64-v3").explain()
