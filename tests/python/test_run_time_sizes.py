# SPDX-License-Identifier: Apache-2.0
"""Axes, sizes and factors that are inputs of a model, in any dimensions: against ONNX's reference implementation."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import treadle

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def dynamic_model(node, inputs, opset, domain=""):
    """Every dimension of tensors is a symbol; lists of axes and sizes keep their lengths."""
    infos = []
    for name, array in inputs.items():
        is_list = array.ndim < 2 and (array.dtype == np.int64 or name == "scales")
        shape = array.shape if is_list else [f"{name}{d}" for d in range(array.ndim)]
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape))
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in node.output])
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=imports)


CASES = [
    ("ReduceSum", 13, {}, {"x": floats(2, 3, 4), "axes": ints(-1, 0)}),
    ("ReduceLogSumExp", 18, {"keepdims": 0}, {"x": floats(2, 3, 4), "axes": ints(1)}),
    ("Squeeze", 13, {}, {"x": floats(1, 3, 1), "axes": ints(0, -1)}),
    ("Unsqueeze", 13, {}, {"x": floats(2, 3), "axes": ints(-1, 0)}),
    ("CumSum", 14, {"reverse": 1}, {"x": floats(2, 3, 4), "axis": np.array(1, np.int64)}),
    ("Trilu", 14, {"upper": 0}, {"x": floats(2, 4, 5), "k": np.array(1, np.int64)}),
    ("CenterCropPad", 18, {}, {"x": floats(5, 4, 3), "shape": ints(3, 7, 3)}),
    ("Pad", 18, {}, {"x": floats(2, 3, 4), "pads": ints(1, 0, 2, 1), "value": np.array(7, np.float32), "axes": ints(2, -3)}),
    ("Resize", 19, {"mode": "linear"},
     {"x": floats(1, 1, 4, 6), "roi": floats(0), "scales": np.array([1, 1, 0.5, 1.5], np.float32)}),
    ("DFT", 20, {"onesided": 1}, {"x": floats(2, 8, 3, 1), "length": np.array(6, np.int64), "axis": np.array(1, np.int64)}),
    ("DepthToSpace", 13, {"blocksize": 2}, {"x": floats(1, 8, 2, 3)}),
    ("Einsum", 12, {"equation": "bij,bkj->bik"}, {"x": floats(2, 3, 4), "z": floats(2, 5, 4)}),
    ("Hardmax", 13, {"axis": 1}, {"x": floats(2, 5, 3)}),
    ("GroupNormalization", 21, {"num_groups": 2}, {"x": floats(2, 6, 3), "s": floats(6), "b": floats(6)}),
    ("GatherND", 13, {}, {"x": floats(4, 3, 2), "i": np.array([[0, 1], [-1, 2]], np.int64)}),
]


@pytest.mark.parametrize("op, opset, attributes, inputs", CASES, ids=[f"{case[0]}{i}" for i, case in enumerate(CASES)])
def test_operator(op, opset, attributes, inputs):
    node = helper.make_node(op, list(inputs), ["y"], **attributes)
    model = dynamic_model(node, inputs, opset)
    # The last dimension of what holds complex numbers or indices is part of the operator.
    for info in model.graph.input:
        if (op, info.name) in (("DFT", "x"), ("GatherND", "i")):
            info.type.tensor_type.shape.dim[-1].dim_value = inputs[info.name].shape[-1]
    expected = ReferenceEvaluator(model).run(None, inputs)[0]
    actual = treadle.compile(model).run(None, inputs)[0]
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_axis_out_of_range_is_refused_when_it_runs():
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"])
    x = floats(2, 3)
    model = treadle.compile(dynamic_model(node, {"x": x, "axes": ints(0)}, 13))
    with pytest.raises(treadle.Error):
        model.run(None, {"x": x, "axes": ints(2)})


def test_random_numbers_are_the_same_in_every_run():
    node = helper.make_node("RandomNormalLike", ["x"], ["y"], seed=3.0, mean=1.0, scale=2.0)
    x = floats(100, 100)
    model = treadle.compile(dynamic_model(node, {"x": x}, 22))
    first, second = model.run(None, {"x": x})[0], model.run(None, {"x": x})[0]
    np.testing.assert_array_equal(first, second)
    assert abs(first.mean() - 1) < 0.1 and abs(first.std() - 2) < 0.1


def test_groups_that_do_not_divide_the_channels():
    inputs = {"x": floats(2, 5, 3), "s": floats(5), "b": floats(5)}
    node = helper.make_node("GroupNormalization", list(inputs), ["y"], num_groups=2)
    with pytest.raises(treadle.Error, match="^node 'GroupNormalization#0' .GroupNormalization.: remainder of the number of channels by 'num_groups' 1; expected 0"):
        treadle.compile(dynamic_model(node, inputs, 21)).run(None, inputs)


@pytest.mark.parametrize("op, attributes, more", [("DFT", {}, []), ("STFT", {"onesided": 0}, [np.array(2), floats(4)])])
@pytest.mark.parametrize("parts", [0, 3])
def test_elements_have_one_or_two_parts(op, attributes, more, parts):
    inputs = {"x": floats(1, 8, parts), **{f"i{k}": value for k, value in enumerate(more)}}
    node = helper.make_node(op, list(inputs), ["y"], **attributes)
    with pytest.raises(treadle.Error, match=f"^(node '{op}#0' .{op}.): (a dimension that has to be 1|size of the last dimension less 1 (2|-1) is out of range)"):
        treadle.compile(dynamic_model(node, inputs, 17)).run(None, inputs)
