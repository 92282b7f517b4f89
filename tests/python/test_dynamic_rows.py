# SPDX-License-Identifier: Apache-2.0
"""Reductions along contiguous memory, and elements, whose numbers only a run knows: vectors with a tail, over several axes as one row."""
import pathlib
import re
import subprocess

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
FLOAT = onnx.TensorProto.FLOAT
SIZES = ((1, 1, 1), (2, 3, 1), (1, 2, 7), (3, 4, 8), (2, 5, 13), (1, 9, 31), (2, 8, 4), (1, 3, 33), (2, 1, 257), (1, 40, 41))


def _model(nodes, inputs, constants=(), opset=18):
    values = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs]
    graph = helper.make_graph(nodes, "g", values, [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(v, n) for n, v in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def _compare(model, feeds_of_each, reference=False, **tolerance):
    """With ONNX Runtime, or with ONNX's reference."""
    session = ReferenceEvaluator(model) if reference else ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled = treadle.compile(model, threads=2)
    for feeds in feeds_of_each:
        expected, actual = session.run(None, feeds)[0], compiled(**feeds)["y"]
        assert actual.shape == expected.shape and actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, **tolerance)


def _loops(model, tmp_path):
    """The loops of the model's kernels as text."""
    onnx.save(model, tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--dump", "tir", "--dump-dir", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    return (tmp_path / "tir.tir").read_text()


@pytest.mark.parametrize("axes", [[2], [1, 2], [0, 1, 2]])
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceLogSumExp"])
def test_reductions_of_rows_of_any_length(kind, axes):
    """Such rows were reduced one element after another: 3 to 7 times ONNX Runtime's time."""
    for dtype in ("float32", "float64", "int32") if kind in ("ReduceSum", "ReduceMax") else ("float32",):
        model = _model([helper.make_node(kind, ["x", "axes"], ["y"])], [("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["n", "h", "w"])],
                       [("axes", np.array(axes))])
        rng = np.random.default_rng(0)
        _compare(model, [{"x": (rng.standard_normal(s) * (9 if dtype == "int32" else 1)).astype(dtype)} for s in SIZES], rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("dims", [["n", "h", "w"], None])
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMax", "ReduceProd", "Softmax"])
def test_rows_of_results_that_are_not_whole_vectors(kind, dims, tmp_path):
    """Each vector of results was stored after every step, and what is left of a row under a mask: 2 to 4 times ONNX Runtime's time."""
    node = helper.make_node(kind, ["x"], ["y"], axis=1) if kind == "Softmax" else helper.make_node(kind, ["x", "axes"], ["y"])
    constants = [] if kind == "Softmax" else [("axes", np.array([1]))]
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64", "int32") if kind == "ReduceMax" else ("float32",):
        feeds = [{"x": (rng.standard_normal(s) * (9 if dtype == "int32" else 1)).astype(dtype)} for s in ((2, 3, 37), (3, 70, 3), (1, 9, 131), (40, 5, 1))]
        for of_model in [feeds] if dims else [[feed] for feed in feeds]:
            shape = dims or of_model[0]["x"].shape
            model = _model([node], [("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)], constants)
            _compare(model, of_model, rtol=2e-5, atol=1e-5)
            if shape[-1] not in (1, 3) and kind != "Softmax":
                assert 'storage_scope = "local"' in _loops(model, tmp_path)


@pytest.mark.parametrize("steps", [2, 4, 49])
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMax"])
def test_rows_of_any_length_reduced_over_known_axes(kind, steps, tmp_path):
    """Rows that few others are added to were left to LLVM, which made no vectors of them: 6 to 10 times ONNX Runtime's time for 49."""
    rng = np.random.default_rng(0)
    model = _model([helper.make_node(kind, ["x", "axes"], ["y"])], [("x", FLOAT, ["n", steps, "w"])], [("axes", np.array([1]))])
    _compare(model, [{"x": rng.standard_normal((n, steps, w)).astype("f4")} for n, w in ((2, 37), (3, 3), (1, 131), (40, 1))], rtol=2e-5, atol=1e-5)
    assert steps < 4 or 'storage_scope = "local"' in _loops(model, tmp_path)


def test_long_rows_of_bytes_are_copied_in_whole_registers(tmp_path):
    kind, shapes = onnx.TensorProto.UINT8, [(1, 3, 57, 55), (1, 5, 57, 55)]
    model = _model([helper.make_node("Concat", ["x", "z"], ["y"], axis=1)], [("x", kind, shapes[0]), ("z", kind, shapes[1])])
    rng = np.random.default_rng(0)
    _compare(model, [{name: rng.integers(0, 256, shape, np.uint8) for name, shape in zip("xz", shapes)}])
    assert "uint8x64" in _loops(model, tmp_path)


@pytest.mark.parametrize("kind", ["GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization"])
def test_images_of_any_size(kind):
    names = ["x", "scale", "bias"] if kind == "InstanceNormalization" else ["x"]
    rng = np.random.default_rng(0)
    constants = [(name, rng.standard_normal(5).astype("f4")) for name in names[1:]]
    model = _model([helper.make_node(kind, names, ["y"])], [("x", FLOAT, ["n", 5, "h", "w"])], constants)
    _compare(model, [{"x": rng.standard_normal((n, 5, h, w)).astype("f4")} for n, h, w in SIZES], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
def test_places_of_extrema_of_rows_of_any_length(kind):
    model = _model([helper.make_node(kind, ["x"], ["y"], axis=2)], [("x", FLOAT, ["n", "h", "w"])])
    rng = np.random.default_rng(0)
    _compare(model, [{"x": rng.integers(0, 4, s).astype("f4")} for s in SIZES])


@pytest.mark.parametrize("other", [["n", "h", "w"], [], ["w"], ["h", 1], ["n", 1, 1]])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_elements_of_any_number(other, dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node("Equal", ["x", "b"], ["c"]), helper.make_node("Not", ["c"], ["d"]), helper.make_node("Where", ["d", "x", "b"], ["e"]),
             helper.make_node("Cast", ["e"], ["y"], to=FLOAT)]
    compiled = treadle.compile(_model(nodes, [("x", kind, ["n", "h", "w"]), ("b", kind, other)]), threads=2)
    rng = np.random.default_rng(0)
    for shape in (*SIZES, (0, 3, 4), (3, 100, 47)):
        sizes = dict(zip("nhw", shape))
        x, b = rng.integers(-2, 3, shape).astype(dtype), rng.integers(-2, 3, [sizes.get(d, d) for d in other]).astype(dtype)
        np.testing.assert_array_equal(compiled(x=x, b=b)["y"], np.where(x != b, x, b).astype("f4"))


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64", "c", "stackvm"])
def test_softmax_of_rows_of_any_length(target):
    """Maximum, exponentials and sum each went over all rows, and lanes were combined one after another."""
    model = _model([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], [("x", FLOAT, ["n", "h", "w"])])
    compiled, rng = treadle.compile(model, target=target), np.random.default_rng(0)
    for shape in (*SIZES, (0, 2, 3), (2, 0, 3), (2, 3, 0)):
        x = rng.standard_normal(shape).astype("f4") * 5
        e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
        np.testing.assert_allclose(compiled(x=x)["y"], e / e.sum(-1, keepdims=True), rtol=1e-5, atol=1e-7)


def test_rows_of_any_length_are_read_in_vectors(tmp_path):
    for node in (helper.make_node("GlobalAveragePool", ["x"], ["y"]), helper.make_node("Relu", ["x"], ["y"]),
                 helper.make_node("InstanceNormalization", ["x", "s", "s"], ["y"])):
        model = _model([node], [("x", FLOAT, ["n", 3, "h", "w"])], [("s", np.ones(3, "f4"))] if node.op_type[0] == "I" else [])
        assert "float32x" in _loops(model, tmp_path)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("fixed", [False, True])
def test_as_many_greatest_elements_as_a_run_says(axis, fixed):
    """All were sorted, and so many taken: 50 times ONNX Runtime's time for 5 of 500."""
    values = [helper.make_tensor_value_info("x", FLOAT, [4, 6] if fixed else ["h", "w"]), helper.make_tensor_value_info("k", onnx.TensorProto.INT64, [1])]
    graph = helper.make_graph([helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=axis)], "g", values, [onnx.ValueInfoProto(name="v"), onnx.ValueInfoProto(name="i")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    constant = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), constants={"k": np.array([0])})
    for shape in ((4, 6),) if fixed else ((4, 6), (1, 40), (33, 2), (3, 0)):
        x = np.random.default_rng(0).integers(0, 9, shape).astype("f4")
        assert constant(x=x)["v"].shape[axis] == 0
        for k in {0, 1, shape[axis] // 2, shape[axis]}:
            if k > shape[axis]:
                continue
            results = model(x=x, k=np.array([k]))
            order = np.argsort(-x, axis=axis, kind="stable").take(range(k), axis)
            np.testing.assert_array_equal(results["i"], order)
            np.testing.assert_array_equal(results["v"], np.take_along_axis(x, order, axis))
        for k in (-1, shape[axis] + 1):
            with pytest.raises(treadle.Error, match="K .*out of range"):
                model(x=x, k=np.array([k]))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("given", ["scales", "sizes"])
def test_images_of_any_size_resized(mode, coordinates, given):
    """Each element was interpolated for itself, with places and weights of its own: 3 times ONNX Runtime's time."""
    values = [("x", FLOAT, ["n", 3, "h", "w"])] + ([("s", onnx.TensorProto.INT64, [4])] if given == "sizes" else [])
    inputs = ["x", "", "", "s"] if given == "sizes" else ["x", "", "s"]
    constants = [("s", np.array([1, 1, 2, 3], "f4"))] if given == "scales" else []
    model = _model([helper.make_node("Resize", inputs, ["y"], mode=mode, coordinate_transformation_mode=coordinates)], values, constants)
    rng = np.random.default_rng(0)
    shapes = ((1, 3, 2, 2), (2, 3, 5, 8), (1, 3, 9, 31), (1, 3, 33, 16))
    feeds = [{"x": rng.standard_normal(s).astype("f4")} for s in shapes]
    if given == "sizes":
        feeds = [{**f, "s": np.array([*f["x"].shape[:2], *size])} for f in feeds for size in ((7, 40), (1, 3), (16, 16))]
    _compare(model, feeds, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("factor", [2, 3, 4, 8])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_images_of_any_size_enlarged_by_whole_factors(factor, dtype):
    """Each lane gathered its element: 1.6 times ONNX Runtime's time."""
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    kind, scales = helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), np.array([1, 1, 2, factor], "f4")
    model = _model([node], [("x", kind, ["n", 3, "h", "w"])], [("s", scales)])
    rng = np.random.default_rng(0)
    _compare(model, [{"x": (rng.standard_normal(s) * 99).astype(dtype)} for s in ((1, 3, 2, 2), (2, 3, 5, 8), (1, 3, 9, 31), (1, 3, 1, 1), (1, 3, 3, 16))])


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [0, 1])
def test_images_sampled_along_a_grid_of_any_size(mode, padding, aligned):
    """Where to read was computed for each channel: 3.7 times ONNX Runtime's time for 32."""
    model = _model([helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding, align_corners=aligned)],
                   [("x", FLOAT, ["n", "c", "h", "w"]), ("g", FLOAT, ["n", "p", "q", 2])], opset=20)
    rng, feeds = np.random.default_rng(0), []
    for n, c, h, w, p, q in ((1, 1, 1, 1, 2, 2), (2, 3, 5, 9, 4, 21), (1, 5, 16, 7, 9, 16)):
        grid = rng.uniform(-1.6, 1.6, (n, p, q, 2)).astype("f4")
        grid[0, 0, 0] = -1
        feeds.append({"x": rng.standard_normal((n, c, h, w)).astype("f4"), "g": grid})
    # ONNX Runtime moves the centre of such taps elsewhere than the reference does (test_onnx_rules.py).
    _compare(model, feeds, reference=(mode, padding) == ("cubic", "border"), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize("window, strides", [((16, 20), (16, 20)), ((2, 9), (1, 5)), ((1, 8), (2, 2)), ((4, 4), (4, 4)), ((7, 7), (7, 7)), ((5, 5), (3, 3))])
def test_long_windows_far_apart(kind, window, strides):
    """Adaptive pooling as PyTorch exports it: each element was read by itself, 14 times ONNX Runtime's time."""
    attributes = {"p": 2} if kind == "LpPool" else {}
    node, rng = helper.make_node(kind, ["x"], ["y"], kernel_shape=window, strides=strides, **attributes), np.random.default_rng(0)
    for shape in ((1, 3, 48, 60), (2, 1, 28, 35)):
        _compare(_model([node], [("x", FLOAT, shape)]), [{"x": rng.standard_normal(shape).astype("f4")}], rtol=1e-5, atol=1e-5)
    model = _model([node], [("x", FLOAT, ["n", "c", "h", "w"])])
    _compare(model, [{"x": rng.standard_normal(s).astype("f4")} for s in ((1, 3, 48, 60), (2, 1, 16, 20), (1, 2, 35, 47))], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 3, 2), (3, 1, 2, 0), (0, 2, 1, 3), (2, 3, 0, 1)])
@pytest.mark.parametrize("joined", [[0, -1], [-1], [-1, 5], ["n", -1]])
def test_joined_dimensions_of_any_size(order, joined):
    """A reshape that joins dynamic dimensions after a transpose: each element's index was divided by each of them."""
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=order), helper.make_node("Mul", ["t", "t"], ["s"])]
    if joined[0] == "n":  # a size that only a run knows
        nodes += [helper.make_node("Shape", ["t"], ["sizes"]), helper.make_node("Slice", ["sizes", "two", "three"], ["n"]),
                  helper.make_node("Concat", ["n", "rest"], ["r"], axis=0)]
    nodes.append(helper.make_node("Reshape", ["s", "r"], ["y"]))
    constants = [("two", np.array([2])), ("three", np.array([3])), ("rest", np.array([-1]))]
    if joined[0] != "n":
        constants.append(("r", np.array(joined)))
    model = _model(nodes, [("x", FLOAT, ["a", "b", "c", "d"])], constants)
    rng = np.random.default_rng(0)
    _compare(model, [{"x": rng.standard_normal(s).astype("f4")} for s in ((2, 3, 5, 7), (5, 1, 10, 1), (1, 5, 3, 33), (4, 15, 2, 5)) if joined[-1] != 5 or np.prod(s) % 5 == 0])


@pytest.mark.parametrize("dims", [["n", "s"], ["n", "h", "w"], [None, None, None], ["n", 1], [2, "s"], ["n", "n"]])
@pytest.mark.parametrize("units", [32, 20])
def test_rows_of_batches_of_any_size_are_those_of_a_matrix(dims, units, tmp_path):
    """Each batch read the whole weight again: 5 times ONNX Runtime's time for 8 batches of a row."""
    rng = np.random.default_rng(0)
    constants = [(name, rng.standard_normal(shape).astype("f4")) for name, shape in (("v", (24, units)), ("b", units), ("w", (units, 24)), ("c", 24))]
    nodes = [helper.make_node("MatMul", ["x", "v"], ["p"]), helper.make_node("Add", ["p", "b"], ["q"]), helper.make_node("Tanh", ["q"], ["r"]),
             helper.make_node("MatMul", ["r", "w"], ["s"]), helper.make_node("Add", ["c", "s"], ["t"]), helper.make_node("Add", ["x", "t"], ["y"])]
    model = _model(nodes, [("x", FLOAT, [*dims, 24])], constants)
    sizes = [[dim if isinstance(dim, int) else size for dim in dims] for size in (1, 0, 3, 7)]
    if dims[0] != dims[1]:
        sizes += [[dim if isinstance(dim, int) else i for i, dim in enumerate(dims, start)] for start in (0, 1, 4)]
    _compare(model, [{"x": rng.standard_normal([*s, 24]).astype("f4")} for s in sizes], rtol=1e-4, atol=1e-4)
    onnx.save(model, tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--dump", "relay-opt", "--dump-dir", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    text = (tmp_path / "relay-opt.relay").read_text()
    matrix = r".*ty=Tensor\[\([^,]*, \d+\), float32\] \*/"
    assert len(re.findall(r"nn\.packed_dense\(" + matrix, text)) == 2
    # What follows a product is computed with it.
    assert re.search(r" tanh\(" + matrix, text) or re.search(r" fast_tanh\(" + matrix, text)


def test_sums_of_reshaped_products_of_unknown_sizes():
    """They may be broadcast against each other, so that they aren't sums of matrices."""
    rng = np.random.default_rng(0)
    constants = [(name, rng.standard_normal((8, 16)).astype("f4")) for name in "vw"]
    nodes = [node for x, w, s, r in ("xvsp", "zwtq") for node in (helper.make_node("MatMul", [x, w], ["m" + r]), helper.make_node("Reshape", ["m" + r, s], [r]))]
    nodes.append(helper.make_node("Add", ["p", "q"], ["y"]))
    integer = onnx.TensorProto.INT64
    model = _model(nodes, [("x", FLOAT, ["n", 8]), ("z", FLOAT, ["n", 8]), ("s", integer, [3]), ("t", integer, [3])], constants)
    rows = {name: rng.standard_normal((5, 8)).astype("f4") for name in "xz"}
    shapes = [((1, 5, 16), (5, 1, 16)), ((1, 5, 16), (1, 5, 16)), ((5, 1, 16), (1, 5, 16))]
    _compare(model, [{**rows, "s": np.array(s), "t": np.array(t)} for s, t in shapes], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_one_long_row_of_positions(op):
    """Threads can't share what is reduced, as they do of sums: the first of equal elements is asked for, or a NaN."""
    node = helper.make_node(op, ["x"], ["y"], axis=0, keepdims=0)
    x = np.random.default_rng(6).integers(0, 50, (1000, 1000)).astype("float32")
    _compare(_model([node], [("x", FLOAT, x.shape)]), [{"x": x}])
