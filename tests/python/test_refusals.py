# SPDX-License-Identifier: Apache-2.0
"""Models that are refused: the error names the node and its operator, whether sizes are known or not, and wherever in
the compiler or in the run the fault shows."""
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle as tvm

STATIC, DYNAMIC = [1, 3, 4, 4], ["n", 3, "h", "w"]
INT64 = np.int64


def model_of(op, shape, constants=(), opset=22, dtype=TensorProto.FLOAT, names=None, **attributes):
    """One node "it"; names: its inputs, of which "x" is the model's and the others are the constants."""
    if names is None:
        names = ["x", *(f"c{i}" for i in range(len(constants)))]
    weights = [name for name in names if name not in ("x", "")]
    graph = helper.make_graph([helper.make_node(op, names, ["y"], name="it", **attributes)], "g",
                              [helper.make_tensor_value_info("x", dtype, shape)], [helper.make_empty_tensor_value_info("y")],
                              [numpy_helper.from_array(np.asarray(value), name) for value, name in zip(constants, weights)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def refusal(model, shape=(1, 3, 4, 4)):
    """What compiling or running it says."""
    with pytest.raises(tvm.Error) as error:
        tvm.compile(model, threads=1).run(None, {"x": np.ones(shape, "float32")})
    assert not isinstance(error.value, tvm.InternalError)
    return error.value


@pytest.mark.parametrize("shape", [STATIC, DYNAMIC], ids=["static", "dynamic"])
@pytest.mark.parametrize("op, constants, attributes", [
    ("MaxPool", (), {"kernel_shape": [9, 9]}),
    ("MaxPool", (), {"kernel_shape": [2, 2], "dilations": [7, 1]}),
    ("MaxPool", (), {"kernel_shape": [9, 9], "strides": [2, 2], "ceil_mode": 1}),
    ("AveragePool", (), {"kernel_shape": [6, 2]}),
    ("AveragePool", (), {"kernel_shape": [9, 9], "auto_pad": "VALID"}),
    ("LpPool", (), {"kernel_shape": [9, 9], "strides": [3, 3]}),
    ("Conv", [np.ones((2, 3, 9, 9), "float32")], {}),
    ("ConvTranspose", [np.ones((3, 2, 2, 2), "float32")], {"pads": [9, 9, 9, 9]}),
    ("Pad", [INT64([0, 0, -3, 0, 0, 0, -3, 0])], {}),
    ("Pad", [INT64([0, 0, -9, 0, 0, 0, 0, 0])], {"mode": "edge"}),
    ("Pad", [INT64([0, 0, 0, -5, 0, 0, 0, 0])], {"mode": "reflect"}),
    ("Reshape", [INT64([-1, 7])], {}),
    ("Reshape", [INT64([5, -1])], {"allowzero": 1}),
])
def test_sizes_that_leave_less_than_nothing(op, constants, attributes, shape):
    error = refusal(model_of(op, shape, constants, **attributes))
    assert isinstance(error, (tvm.error.ShapeError, tvm.error.ModelFormatError))
    assert "'it'" in str(error), error
    if shape is STATIC:
        assert f"node 'it' ({op}): " in str(error)


def test_widths_of_borders_that_only_a_run_knows():
    node = helper.make_node("Pad", ["x", "pads"], ["y"], name="it")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
                                            helper.make_tensor_value_info("pads", TensorProto.INT64, [2])],
                              [helper.make_empty_tensor_value_info("y")])
    model = tvm.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), threads=1)
    x = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(model.run(None, {"x": x, "pads": INT64([-3, 1])})[0], [3, 0])
    assert model.run(None, {"x": x, "pads": INT64([-3, -1])})[0].shape == (0,)
    with pytest.raises(tvm.error.ShapeError, match=r"node 'it' \(Pad\): a dimension of the result is negative: .*: -1 and 0"):
        model.run(None, {"x": x, "pads": INT64([-3, -2])})


def test_windows_that_fit_nowhere_give_nothing():
    """As without names of sizes: less than a stride too short is no window, not an error."""
    for shape in (STATIC, DYNAMIC):
        compiled = tvm.compile(model_of("MaxPool", shape, kernel_shape=[5, 2], strides=[2, 1]), threads=1)
        assert compiled.run(None, {"x": np.ones((1, 3, 4, 4), "float32")})[0].shape == (1, 3, 0, 3)


SIZES = INT64([1, 3, 8, 8])


@pytest.mark.parametrize("shape", [STATIC, DYNAMIC], ids=["static", "dynamic"])
@pytest.mark.parametrize("attribute", ["mode", "coordinate_transformation_mode", "nearest_mode", "keep_aspect_ratio_policy"])
def test_resize_has_no_other_modes(attribute, shape):
    model = model_of("Resize", shape, [SIZES], names=["x", "", "", "c"], **{attribute: "reflect"})
    assert f"node 'it' (Resize): '{attribute}' is 'reflect'" in str(refusal(model))


@pytest.mark.parametrize("shape", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_sizes_of_resize_are_a_vector(shape):
    model = model_of("Resize", shape, [INT64(8)], names=["x", "", "", "c"])
    assert "node 'it' (Resize): input 3 has rank 0, expected a vector" in str(refusal(model))


@pytest.mark.parametrize("shape", [STATIC, DYNAMIC], ids=["static", "dynamic"])
@pytest.mark.parametrize("known", [True, False])
def test_pad_has_no_other_modes(shape, known):
    model = model_of("Pad", shape, [INT64([0, 0, 1, 1, 0, 0, 1, 1])], mode="mirror")
    if not known:
        model.graph.input.append(helper.make_tensor_value_info("c0", TensorProto.INT64, [8]))
        del model.graph.initializer[:]
    with pytest.raises(tvm.error.ModelFormatError, match=re.escape("node 'it' (Pad): 'mode' is 'mirror'")):
        tvm.compile(model)


def test_pads_value_is_of_the_operands_type():
    model = model_of("Pad", [1, 2, "n"], [INT64([0, 0, 1, 0, 0, 1]), np.int32(1)])
    assert "node 'it' (Pad): the constant value is int32, the operand float32" in str(refusal(model, (1, 2, 3)))


@pytest.mark.skipif(not hasattr(TensorProto, "FLOAT8E8M0"), reason="needs a newer onnx")
def test_powers_of_two_have_three_roundings():
    model = model_of("Cast", [4], opset=24, to=TensorProto.FLOAT8E8M0, round_mode="away")
    assert "node 'it' (Cast): 'round_mode' is 'away'" in str(refusal(model, (4,)))


@pytest.mark.parametrize("op, constants, names", [
    ("Conv", [np.ones((2, 3, 1, 1), "float32"), np.ones((2, 1), "float32")], None),
    ("Conv", [np.ones((2, 3, 1, 1), "float32"), np.int8([1, 2])], None),
    ("InstanceNormalization", [np.ones((3, 1), "float32"), np.ones(3, "float32")], None),
    ("BatchNormalization", [np.ones((3, 1), "float32"), *[np.ones(3, "float32")] * 3], None),
])
def test_operands_that_contradict_the_others(op, constants, names):
    error = refusal(model_of(op, STATIC, constants, names=names))
    assert str(error).startswith(f"node 'it' ({op}): "), error


def test_conditions_of_loops_are_bool():
    body = helper.make_graph([helper.make_node("Identity", ["go"], ["next"]), helper.make_node("Neg", ["v"], ["w"])], "body",
                             [helper.make_tensor_value_info("i", TensorProto.INT64, []),
                              helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                              helper.make_tensor_value_info("v", TensorProto.FLOAT, ["n"])],
                             [helper.make_tensor_value_info("next", TensorProto.BOOL, []),
                              helper.make_tensor_value_info("w", TensorProto.FLOAT, ["n"])])
    graph = helper.make_graph([helper.make_node("Loop", ["", "c", "x"], ["y"], name="it", body=body)], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
                               helper.make_tensor_value_info("c", TensorProto.INT32, [])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    message = re.escape("node 'it' (Loop): the condition (input 1) is int32, expected bool")
    with pytest.raises(tvm.error.ModelFormatError, match=message):
        tvm.compile(model)


def test_samples_have_positions():
    model = model_of("GridSample", [], [np.float32(1)])
    assert "node 'it' (GridSample): X has rank 0, expected at least 3" in str(refusal(model, ()))


@pytest.mark.parametrize("size", [2**48 + 1, 2**63 - 1])
def test_inputs_have_sizes_that_a_tensor_can_have(size):
    with pytest.raises(tvm.error.ShapeError, match=f"input 'x' can't have a dimension of {size} \\(the limit is 2\\^48\\)"):
        tvm.compile(model_of("Identity", [0, size]))
    with pytest.raises(tvm.error.ShapeError, match=f"input 'x' can't have a dimension of {size} \\(the limit is 2\\^48\\)"):
        tvm.compile(model_of("Identity", ["n", "m"]), shapes={"x": (0, size)})


@pytest.mark.parametrize("op, regions, attributes", [
    ("RoiAlign", [np.ones((2, 4), "float32"), INT64([0, 0])], {}),
    ("MaxRoiPool", [np.ones((2, 5), "float32")], {"pooled_shape": [2, 2]}),
])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_images_have_four_axes(op, regions, attributes, shape):
    """The size of an axis that there isn't was an internal error."""
    assert f"node 'it' ({op}): " in str(refusal(model_of(op, shape, regions, **attributes), shape))


def test_results_that_are_too_large():
    """Which node asks for memory that there isn't: its size follows from numbers of a run."""
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Tile", ["r", "n"], ["y"], name="it")],
                              "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
                                    helper.make_tensor_value_info("n", TensorProto.INT64, [1])],
                              [helper.make_empty_tensor_value_info("y")])
    model = tvm.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), threads=1)
    feeds = {"x": np.ones(4, "float32")}
    assert model.run(None, {**feeds, "n": INT64([2])})[0].shape == (8,)
    with pytest.raises(tvm.error.RuntimeError, match=r"^node 'it' \(Tile\): a buffer of \d+ bytes was asked for; the limit is"):
        model.run(None, {**feeds, "n": INT64([1 << 42])})


def test_refusals_quote_attributes_that_are_not_utf8():
    """The error's list of nodes couldn't be made: a UnicodeDecodeError came in its place."""
    node = helper.make_node("CDist", ["x", "x"], ["y"], domain="com.microsoft", metric=b"\xff\xfe")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    with pytest.raises(tvm.UnsupportedOpError, match="the metric \ufffd\ufffd isn't implemented") as caught:
        tvm.compile(model)
    assert "\ufffd\ufffd" in caught.value.nodes[0]


@pytest.mark.parametrize("op", ["Loop", "Scan"])
@pytest.mark.parametrize("length", [3, "n"])
def test_states_keep_their_type(op, length):
    """An unrolled loop took the type that the state has after a trip."""
    value = helper.make_tensor_value_info
    cast = helper.make_node("Cast", ["v"], ["next"], to=TensorProto.INT64)
    keep = helper.make_node("Identity", ["k"], ["kept"])
    if op == "Loop":
        body = helper.make_graph([keep, cast], "b", [value("i", TensorProto.INT64, []), value("k", TensorProto.BOOL, []),
                                                     value("v", TensorProto.FLOAT, [2])],
                                 [value("kept", TensorProto.BOOL, []), value("next", TensorProto.INT64, [2])])
        trips = np.int64(3) if length == 3 else None
        node = helper.make_node(op, ["m", "t", "x"], ["y"], name="it", body=body)
    else:
        body = helper.make_graph([keep, cast], "b", [value("v", TensorProto.FLOAT, [2]), value("k", TensorProto.FLOAT, [2])],
                                 [value("next", TensorProto.INT64, [2]), value("kept", TensorProto.FLOAT, [2])])
        trips = None
        node = helper.make_node(op, ["x", "s"], ["y", "z"], name="it", body=body, num_scan_inputs=1)
    inputs = [value("x", TensorProto.FLOAT, [2])]
    if op == "Scan":
        inputs.append(value("s", TensorProto.FLOAT, [length, 2]))
    elif trips is None:
        inputs.append(value("m", TensorProto.INT64, []))
    constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in (("t", np.True_), ("m", trips)) if v is not None]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    with pytest.raises(tvm.Error, match="it.*" + op):
        tvm.compile(model)
