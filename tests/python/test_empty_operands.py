# SPDX-License-Identifier: Apache-2.0
"""Operands without elements: what ONNX Runtime computes is computed, what it refuses is refused before anything is read,
with sizes known when compiling and with sizes of a run."""
import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

KINDS = {np.dtype("float32"): TensorProto.FLOAT, np.dtype("int64"): TensorProto.INT64, np.dtype("uint8"): TensorProto.UINT8}
FORMS = [(dynamic, target, level) for dynamic in (False, True) for target, level in
         (("stackvm", 0), ("llvm -mcpu=native", 3))]


def model(nodes, inputs, constants, dynamic, opset=20):
    values = [helper.make_tensor_value_info(name, KINDS[array.dtype],
                                            [f"{name}{i}" for i in range(array.ndim)] if dynamic else array.shape)
              for name, array in inputs.items()]
    graph = helper.make_graph(nodes, "g", values, [onnx.ValueInfoProto(name="y")],
                              [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def run(made, inputs, target, level):
    compiled = treadle.compile(made, target=target, opt_level=level, threads=1)
    return np.asarray(compiled.run(None, inputs)[0])


def floats(*shape):
    return np.ones(shape, "float32")


def padded(mode, shape, **other):
    return [helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)], {"x": floats(*shape), **other}


def resized(mode, shape, **attributes):
    return [helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=mode, **attributes)], {"x": floats(*shape)}


PADS = np.array([0, 0, 1, 1, 0, 0, 1, 1])
SIZES = np.array([1, 2, 3, 3])
GRID = np.zeros((1, 2, 2, 2), "float32")
BOX = np.array([[0, 0, 2, 2]], "float32")
REFUSED = {
    "edge": (*padded("edge", (1, 2, 0, 4)), {"p": PADS}),
    "edge of run-time pads": (*padded("edge", (1, 2, 0, 4), p=PADS), {}),
    "reflect": (*padded("reflect", (1, 2, 4, 0)), {"p": PADS}),
    "reflect of run-time pads": (*padded("reflect", (1, 2, 4, 0), p=PADS), {}),
    "edge that cuts the other side": (*padded("edge", (1, 2, 0, 4)), {"p": np.array([0, 0, 2, 0, 0, 0, -1, 0])}),
    "nearest": (*resized("nearest", (1, 2, 0, 4)), {"s": SIZES}),
    "linear": (*resized("linear", (1, 2, 4, 0)), {"s": SIZES}),
    "cubic": (*resized("cubic", (1, 2, 0, 0)), {"s": SIZES}),
    "antialiased": (*resized("linear", (1, 2, 0, 4), antialias=1), {"s": SIZES}),
    "rank 3": (*resized("linear", (2, 0, 4)), {"s": SIZES[1:]}),
    "sample": ([helper.make_node("GridSample", ["x", "g"], ["y"])], {"x": floats(1, 2, 0, 3), "g": GRID}, {}),
    "sample of a border": ([helper.make_node("GridSample", ["x", "g"], ["y"], padding_mode="border")],
                           {"x": floats(1, 2, 3, 0), "g": GRID}, {}),
    "convolution": ([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": floats(1, 2, 0, 3)}, {"w": floats(2, 2, 1, 1)}),
}


@pytest.mark.parametrize("dynamic, target, level", FORMS)
@pytest.mark.parametrize("name", REFUSED)
def test_elements_that_are_not_there_are_not_read(name, dynamic, target, level):
    nodes, inputs, constants = REFUSED[name]
    with pytest.raises(treadle.Error, match=nodes[0].op_type) as caught:
        run(model(nodes, inputs, constants, dynamic), inputs, target, level)
    assert "outside of" not in str(caught.value) and "must be" not in str(caught.value)


RESULTS = {
    "resized batch": (*resized("linear", (0, 2, 4, 4)), {"s": np.array([0, 2, 3, 3])}, (0, 2, 3, 3)),
    "resized channels": (*resized("nearest", (1, 0, 4, 4)), {"s": np.array([1, 0, 3, 3])}, (1, 0, 3, 3)),
    "padded batch": (*padded("reflect", (0, 2, 4, 4)), {"p": PADS}, (0, 2, 6, 6)),
    "blocks": ([helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2)], {"x": floats(0, 1, 4, 4)}, {}, (0, 4, 2, 2)),
    "product": ([helper.make_node("Mul", ["x", "w"], ["y"])], {"x": floats(0, 3), "w": floats(1, 3)}, {}, (0, 3)),
    "regions": ([helper.make_node("RoiAlign", ["x", "r", "b"], ["y"])],
                {"x": floats(1, 2, 0, 3), "r": BOX, "b": np.zeros(1, "int64")}, {}, (1, 2, 1, 1)),
    "quantised": ([helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
                   helper.make_node("DequantizeLinear", ["w", "s", "z"], ["e"]),
                   helper.make_node("Conv", ["d", "e"], ["c"], pads=[1, 1, 1, 1]),
                   helper.make_node("QuantizeLinear", ["c", "s", "z"], ["y"])],
                  {"x": np.zeros((0, 4, 4, 4), "uint8")},
                  {"w": np.ones((8, 4, 3, 3), "uint8"), "s": np.float32(0.1), "z": np.uint8(3)}, (0, 8, 4, 4)),
}


@pytest.mark.parametrize("dynamic, target, level", FORMS)
@pytest.mark.parametrize("first, second, axis", [((0, 4), (2, 3), 0), ((2, 3), (0, 4), 0), ((5, 0), (2, 3), 0), ((0, 0), (2, 3), 1),
                                                 ((1, 2, 0, 4), (1, 2, 3, 8), 2)])
def test_parts_without_elements_fit_the_others(first, second, axis, dynamic, target, level):
    """ONNX asks for it. ONNX Runtime does where it knows the shapes before a run; in a run it skips such parts, but counts
    the rows of (5, 0) and leaves them as the memory was."""
    inputs = {"a": floats(*first), "b": floats(*second)}
    made = model([helper.make_node("Concat", ["a", "b"], ["y"], axis=axis, name="it")], inputs, {}, dynamic)
    with pytest.raises(treadle.ShapeError, match=r"node 'it' \(Concat\): "):
        run(made, inputs, target, level)


@pytest.mark.parametrize("dynamic, target, level", FORMS)
@pytest.mark.parametrize("shapes, axis", [([(0, 3), (2, 3)], 0), ([(0,), (3,)], 0), ([(1, 2, 0, 4), (1, 2, 3, 4)], 2), ([(0, 4), (0, 4)], 0)])
def test_parts_without_elements_add_nothing(shapes, axis, dynamic, target, level):
    inputs = {f"x{chr(97 + i)}": np.arange(np.prod(shape), dtype="float32").reshape(shape) for i, shape in enumerate(shapes)}
    made = model([helper.make_node("Concat", list(inputs), ["y"], axis=axis)], inputs, {}, dynamic)
    np.testing.assert_array_equal(run(made, inputs, target, level), np.concatenate(list(inputs.values()), axis))


@pytest.mark.parametrize("dynamic, target, level", FORMS)
def test_bias_of_products_of_no_terms_is_scaled(dynamic, target, level):
    node = helper.make_node("Gemm", ["x", "w", "c"], ["y"], beta=2.0, transB=1)
    inputs = {"x": floats(3, 0), "w": floats(2, 0), "c": np.array([-1.5, 4], "float32")}
    np.testing.assert_array_equal(run(model([node], inputs, {}, dynamic), inputs, target, level), [[-3, 8]] * 3)


@pytest.mark.parametrize("dynamic, target, level", FORMS)
@pytest.mark.parametrize("name", RESULTS)
def test_results_are_empty_or_zero(name, dynamic, target, level):
    nodes, inputs, constants, shape = RESULTS[name]
    result = run(model(nodes, inputs, constants, dynamic), inputs, target, level)
    assert result.shape == shape and not result.any()


@pytest.mark.parametrize("shape, sizes, allowzero, expected", [
    ((0, 3), (0, -1), 0, (0, 3)), ((2, 0, 4), (0, 0, -1), 0, (2, 0, 4)), ((2, 0, 4), (0, -1, 4), 0, (2, 0, 4)), ((0, 6), (2, -1), 0, (2, 0)),
    ((2, 0, 6), (0, -1, 0), 0, (2, 0, 6)), ((0, 3), (0, -1), 1, None), ((2, 0), (-1, 0), 1, None), ((0, 3), (5, 0), 1, (5, 0))])
def test_sizes_beside_copied_ones_are_inferred(shape, sizes, allowzero, expected):
    x, s = floats(*shape), np.array(sizes)
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=allowzero)]
    of_run = [helper.make_node("Reshape", ["s", "n"], ["t"]), helper.make_node("Reshape", ["x", "t"], ["y"], allowzero=allowzero)]
    for dynamic, target, level in FORMS:
        for used, inputs, constants in ((nodes, {"x": x}, {"s": s}), (of_run, {"x": x, "s": s}, {"n": np.array([len(sizes)])})):
            made = model(used, inputs, constants, dynamic)
            if expected is not None:
                assert run(made, inputs, target, level).shape == expected
                continue
            with pytest.raises(treadle.Error):
                run(made, inputs, target, level)


@pytest.mark.parametrize("op, gates, more", [("RNN", 1, {}), ("GRU", 3, {}), ("GRU", 3, dict(linear_before_reset=1)), ("LSTM", 4, {}),
                                             ("LSTM", 4, dict(clip=0.5)), ("LSTM", 4, dict(layout=1))])
@pytest.mark.parametrize("steps, batch", [(0, 2), (5, 0), (0, 0)])
def test_recurrent_layers_without_elements(op, gates, more, steps, batch):
    first, second = (batch, steps) if more.get("layout") else (steps, batch)
    constants = {"w": floats(2, 4 * gates, 3), "r": floats(2, 4 * gates, 4)}
    shape = (batch, steps, 2, 4) if more.get("layout") else (steps, 2, batch, 4)
    h = np.full((batch, 2, 4) if more.get("layout") else (2, batch, 4), 0.5, "float32")
    for inputs in ({"x": floats(first, second, 3)}, {"x": floats(first, second, 3), "h": h}):
        names = ["x", "w", "r", "", "", *("h" for _ in list(inputs)[1:])]
        nodes = [helper.make_node(op, names, ["y", "last"], hidden_size=4, direction="bidirectional", **more)]
        for dynamic, target, level in FORMS:
            made = model(nodes, inputs, constants, dynamic)
            made.graph.output.append(onnx.ValueInfoProto(name="last"))
            y, last = treadle.compile(made, target=target, opt_level=level, threads=1).run(None, inputs)
            assert np.asarray(y).shape == shape
            np.testing.assert_array_equal(last, h if len(inputs) == 2 and steps == 0 else np.zeros_like(h))


@pytest.mark.parametrize("dynamic, target, level", FORMS)
@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_pads_of_a_run(mode, dynamic, target, level):
    x = np.arange(24, dtype="float32").reshape(1, 2, 3, 4)
    inputs = {"x": x, "p": np.array([0, 1, 2, 1, 0, 0, 1, 2])}
    nodes = [helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)]
    expected = np.pad(x, [(0, 0), (1, 0), (2, 1), (1, 2)], mode)
    np.testing.assert_array_equal(run(model(nodes, inputs, {}, dynamic), inputs, target, level), expected)


@pytest.mark.parametrize("shape, other, expected", [((2, 3), (4, 3), None), ((2, 3), (2, 0), None), ((2, 1), (3, 4), None),
                                                    ((0, 3), (2, 3), None), ((2, 1), (1, 4), (2, 4)),
                                                    ((1, 3), (0, 3), (0, 3)), ((2, 3), (1, 1), (2, 3))])
def test_operands_are_expanded_to_sizes_that_fit(shape, other, expected):
    inputs = {"x": floats(*shape), "w": floats(*other)}
    nodes = [helper.make_node("Shape", ["w"], ["s"]), helper.make_node("Expand", ["x", "s"], ["y"])]
    for dynamic, target, level in FORMS:
        made = model(nodes, inputs, {}, dynamic)
        if expected is not None:
            assert run(made, inputs, target, level).shape == expected
            continue
        with pytest.raises(treadle.Error, match="Expand"):
            run(made, inputs, target, level)


@pytest.mark.parametrize("dynamic, target, level", FORMS)
def test_regions_are_pooled(dynamic, target, level):
    inputs = {"x": np.arange(18, dtype="float32").reshape(1, 2, 3, 3), "r": np.array([[0, 0, 0, 1, 2]], "float32")}
    made = model([helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[1, 1])], inputs, {}, dynamic)
    np.testing.assert_array_equal(run(made, inputs, target, level).ravel(), [7, 16])
    inputs["r"][0, 0] = np.nan
    with pytest.raises(treadle.Error, match="MaxRoiPool#0.*batch index -1 is out of range"):
        run(made, inputs, target, level)


#: nodes, operands that don't fit but make no elements, constants
MISFITS = {
    "removed dimension": ([helper.make_node("Squeeze", ["x", "a"], ["y"])], {"x": floats(3, 0)}, {"a": np.array([0])}),
    "comparison": ([helper.make_node("Equal", ["x", "k"], ["y"])], {"x": floats(2, 2, 3)}, {"k": floats(2, 0, 3)}),
    "integers": ([helper.make_node("Add", ["x", "k"], ["y"])], {"x": np.ones((2, 3), "int64")},
                 {"k": np.zeros((0, 3), "int64")}),
    "zero point": ([helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], axis=0)],
                   {"x": floats(0), "z": np.zeros(1, "uint8")}, {"s": floats(0)}),
    "blocks of pixels": ([helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2)], {"x": floats(0, 3, 4, 7)}, {}),
    "blocks of channels": ([helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=2, mode="CRD")],
                           {"x": floats(0, 6, 4, 7)}, {}),
    "groups": ([helper.make_node("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=2)], {"x": floats(0, 5, 4)},
               {"s": floats(2)}),
    "heads": ([helper.make_node("Attention", ["x", "x", "x"], ["y"], q_num_heads=2, kv_num_heads=2)],
              {"x": floats(0, 4, 7)}, {}),
    "groups of a convolution": ([helper.make_node("Conv", ["x", "w"], ["y"], group=2)],
                                {"x": floats(0, 5, 4, 4), "w": floats(4, 2, 1, 1)}, {}),
    "channels of offsets": ([helper.make_node("DeformConv", ["x", "w", "o"], ["y"], offset_group=2)],
                            {"x": floats(0, 3, 4, 4), "o": floats(0, 16, 3, 3)}, {"w": floats(4, 3, 2, 2)}),
    "channels of weights": ([helper.make_node("DeformConv", ["x", "w", "o"], ["y"])],
                            {"x": floats(0, 3, 4, 4), "o": floats(0, 8, 3, 3)}, {"w": floats(4, 4, 2, 2)}),
    "coordinates": ([helper.make_node("GridSample", ["x", "g"], ["y"])], {"x": floats(2, 1, 5, 1), "g": floats(2, 0, 1, 1)}, {}),
    "heads of a rotation": ([helper.make_node("RotaryEmbedding", ["x", "c", "c"], ["y"], num_heads=2)],
                            {"x": floats(0, 4, 7), "c": floats(0, 4, 1)}, {}),
    "columns of regions": ([helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[1, 1])],
                           {"x": floats(1, 2, 3, 3), "r": floats(0, 4)}, {}),
    "offsets": ([helper.make_node("DeformConv", ["x", "w", "o"], ["y"])],
                {"x": floats(1, 3, 0, 4), "o": floats(1, 8, 3, 3)}, {"w": floats(4, 3, 2, 2)}),
}


@pytest.mark.parametrize("dynamic, target, level", FORMS)
@pytest.mark.parametrize("name", MISFITS)
def test_sizes_that_do_not_fit_are_refused_where_nothing_is_computed(name, dynamic, target, level):
    nodes, inputs, constants = MISFITS[name]
    opset = {"Attention": 23, "RotaryEmbedding": 23}.get(nodes[0].op_type, 20)
    with pytest.raises(treadle.Error, match=nodes[0].op_type):
        run(model(nodes, inputs, constants, dynamic, opset), inputs, target, level)


def normalised_skip(x, skip, dynamic):
    node = helper.make_node("SkipLayerNormalization", ["x", "s", "g"], ["y"], domain="com.microsoft")
    made = model([node], {"x": x, "s": skip}, {"g": floats(4)}, dynamic)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made


@pytest.mark.parametrize("dynamic, target, level", FORMS)
@pytest.mark.parametrize("of_x, of_skip", [((2, 1, 4), (2, 0, 4)), ((2, 1, 4), (2, 3, 4)), ((0, 2, 4), (2, 2, 4))])
def test_skips_without_elements_fit_no_row(of_x, of_skip, dynamic, target, level):
    x, skip = floats(*of_x), floats(*of_skip)
    with pytest.raises(treadle.Error, match="SkipLayerNormalization"):
        run(normalised_skip(x, skip, dynamic), {"x": x, "s": skip}, target, level)


@pytest.mark.parametrize("dynamic, target, level", FORMS)
@pytest.mark.parametrize("of_x, of_skip", [((0, 2, 4), (1, 2, 4)), ((0, 2, 4), (0, 2, 4)), ((0, 2, 4), (2, 4)), ((2, 0, 4), (1, 1, 4))])
def test_skips_of_one_row_fit_none(of_x, of_skip, dynamic, target, level):
    """Where only the run knew the sizes, one row was refused."""
    x, skip = floats(*of_x), floats(*of_skip)
    assert run(normalised_skip(x, skip, dynamic), {"x": x, "s": skip}, target, level).shape == of_x


@pytest.mark.parametrize("dynamic, target, level", FORMS)
@pytest.mark.parametrize("op, attributes, shape", [
    ("SpaceToDepth", {}, (2, 3, 4, 6)), ("DepthToSpace", {"mode": "DCR"}, (2, 8, 2, 3)), ("DepthToSpace", {"mode": "CRD"}, (2, 8, 2, 3))])
def test_blocks_are_moved(op, attributes, shape, dynamic, target, level):
    inputs = {"x": np.arange(np.prod(shape), dtype="float32").reshape(shape)}
    made = model([helper.make_node(op, ["x"], ["y"], blocksize=2, **attributes)], inputs, {}, False)
    expected = onnx.reference.ReferenceEvaluator(made).run(None, inputs)[0]
    made = model([helper.make_node(op, ["x"], ["y"], blocksize=2, **attributes)], inputs, {}, dynamic)
    np.testing.assert_array_equal(run(made, inputs, target, level), expected)


@pytest.mark.parametrize("target, level", [("llvm", 3), ("stackvm", 3), ("c", 3)])
def test_nothing_is_cut_out_of_blocks_of_channels(target, level):
    """Loops without iterations are fused with others: nothing is divided by their extent."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Slice", ["c", "at", "at", "at"], ["s"]),
             helper.make_node("Mul", ["s", "s"], ["y"])]
    made = model(nodes, {"x": floats(1, 7, 5)}, {"w": floats(20, 7, 1), "at": np.array([-1])}, True)
    assert run(made, {"x": floats(1, 7, 5)}, target, level).shape == (1, 20, 0)


@pytest.mark.parametrize("dynamic, target, level", FORMS)
@pytest.mark.parametrize("heads, size, of_values", [(2, 0, 3), (4, 0, 3), (2, 2, 0)])
def test_heads_without_elements(heads, size, of_values, dynamic, target, level):
    """Scores without terms are all 0: results are means of the values."""
    inputs = {"q": floats(1, 3, heads * size), "k": floats(1, 4, 2 * size), "v": np.arange(8 * of_values, dtype="f4").reshape(1, 4, -1)}
    node = helper.make_node("Attention", list(inputs), ["y"], q_num_heads=heads, kv_num_heads=2)
    with np.errstate(divide="ignore"):  # 1 / sqrt(size)
        expected = onnx.reference.ReferenceEvaluator(model([node], inputs, {}, False, opset=23)).run(None, inputs)[0]
    result = run(model([node], inputs, {}, dynamic, opset=23), inputs, target, level)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_batches_are_resampled_beside_what_stays():
    """Four dimensions from the first to the last one that changes its size."""
    nodes, inputs = resized("linear", (2, 1, 1, 1))
    for dynamic, target, level in FORMS:
        made = model(nodes, inputs, {"s": np.array([1, 1, 4, 3])}, dynamic)
        np.testing.assert_array_equal(run(made, inputs, target, level), floats(1, 1, 4, 3))


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("sizes", [[2**45, 0], [0, 2**45], [2**40, 0, 2**40]])
def test_other_sizes_of_empty_tensors_are_limited(sizes, level):
    """Loops over them took days, though there was nothing to do."""
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["t"]), helper.make_node("Abs", ["t"], ["y"])]
    value = helper.make_tensor_value_info("s", TensorProto.INT64, [len(sizes)])
    graph = helper.make_graph(nodes, "g", [value], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(sizes))])
    compiled = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
                               opt_level=level, threads=1)
    with pytest.raises(treadle.ShapeError, match="has no elements, but other dimensions that are too large"):
        compiled.run(None, {"s": np.array(sizes)})
    few = [min(size, 3) for size in sizes]
    assert compiled.run(None, {"s": np.array(few)})[0].shape == tuple(few)


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("dynamic", [False, True])
def test_results_without_elements_take_no_time(dynamic, level):
    """Loops over the other dimensions, which are within the limit, took minutes."""
    rows = 2**28
    sizes = ["n", "m"] if dynamic else [rows, 0]
    nodes = [helper.make_node("Softmax", ["x"], ["s"]), helper.make_node("Exp", ["s"], ["e"]),
             helper.make_node("CumSum", ["e", "axis"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)],
                              [helper.make_tensor("axis", TensorProto.INT64, [], [0])])
    compiled = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9),
                               opt_level=level, threads=1)
    assert compiled.run(None, {"x": np.zeros((rows, 0), np.float32)})[0].shape == (rows, 0)


@pytest.mark.parametrize("dynamic, target, level", FORMS)
@pytest.mark.parametrize("op, weights, group", [("Conv", (4, 0, 3, 3), 1), ("Conv", (4, 0, 3, 3), 2), ("Conv", (4, 0, 3), 1),
                                                ("ConvTranspose", (0, 4, 3, 3), 1)])
def test_convolutions_without_input_channels_are_their_bias(op, weights, group, dynamic, target, level):
    x, bias = np.zeros((2, 0, *[5] * (len(weights) - 2)), "float32"), np.array([1, -2, 3, 0.5], "float32")
    made = model([helper.make_node(op, ["x", "w", "b"], ["y"], group=group)], {"x": x},
                 {"w": np.zeros(weights, "float32"), "b": bias}, dynamic)
    size = 3 if op == "Conv" else 7
    expected = np.broadcast_to(bias.reshape(4, *[1] * (x.ndim - 2)), (2, 4, *[size] * (x.ndim - 2)))
    np.testing.assert_array_equal(run(made, {"x": x}, target, level), expected)


@pytest.mark.parametrize("dynamic, target, level", FORMS)
@pytest.mark.parametrize("shape", [(2, 0, 3), (2, 0, 3, 3), (2, 0, 3, 3, 3)])
def test_convolutions_of_bytes_without_input_channels_are_their_bias(shape, dynamic, target, level):
    """As ONNX Runtime computes them: 40 * 0.1 * 0.2 / 0.3 + 7 is 9.67, rounded to 10."""
    window = len(shape) - 2
    constants = {"w": np.zeros(shape, "int8"), "xs": np.float32(0.1), "xz": np.uint8(3), "ws": np.float32(0.2),
                 "wz": np.int8(0), "ys": np.float32(0.3), "yz": np.uint8(7), "b": np.array([40, -9], "int32")}
    x = np.zeros((1, 0, *[4] * window), "uint8")
    node = helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"])
    expected = np.broadcast_to(np.array([10, 6], "uint8").reshape(1, 2, *[1] * window), (1, 2, *[2] * window))
    np.testing.assert_array_equal(run(model([node], {"x": x}, constants, dynamic), {"x": x}, target, level), expected)
    node = helper.make_node("ConvInteger", ["x", "w"], ["y"])
    made = model([node], {"x": x}, {"w": constants["w"]}, dynamic)
    np.testing.assert_array_equal(run(made, {"x": x}, target, level), np.zeros(expected.shape, "int32"))
