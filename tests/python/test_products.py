# SPDX-License-Identifier: Apache-2.0
"""Matrix products of many shapes, beside NumPy's in float64: each way in which they are cut has tails."""
import pathlib
import re
import subprocess

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"


def _model(shape_a, shape_b, constant, op="MatMul", **attributes):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in (shape_a, shape_b))
    inputs = {"a": a} if constant else {"a": a, "b": b}
    graph = helper.make_graph(
        [helper.make_node(op, ["a", "b"], ["y"], **attributes)], "product",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(b, "b")] if constant else [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), inputs, a, b


def _close(y, a, b):
    np.testing.assert_allclose(y, a.astype(np.float64) @ b, rtol=0, atol=3e-6 * np.sqrt(a.shape[-1]) * 8)


# Rows packed; sums in chunks (also where rows, columns and chunks have tails); rows in parts.
PACKED = [((128, 768), (768, 512)), ((127, 750), (750, 528)), ((25, 1000), (1000, 520)), ((50, 513), (513, 512)),
          ((2, 30, 768), (768, 512)), ((3, 30, 640), (3, 640, 512)), ((800, 400), (400, 512)), ((23, 64), (64, 512))]


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("shape_a, shape_b", PACKED)
def test_packed_rows(shape_a, shape_b, constant):
    model, inputs, a, b = _model(shape_a, shape_b, constant)
    _close(treadle.compile(model)(**inputs)["y"], a, b)


def test_packed_rows_with_what_follows():
    """The epilogue of a product whose sum is made in chunks."""
    rng = np.random.default_rng(4)
    a, b, c = (rng.standard_normal(shape, dtype=np.float32) for shape in ((100, 768), (768, 512), (512,)))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "b"], ["p"]), helper.make_node("Add", ["p", "c"], ["s"]),
         helper.make_node("Relu", ["s"], ["r"]), helper.make_node("Add", ["r", "d"], ["y"])], "layer",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, a.shape),
         helper.make_tensor_value_info("d", TensorProto.FLOAT, (100, 512))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(b, "b"), numpy_helper.from_array(c, "c")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    d = rng.standard_normal((100, 512), dtype=np.float32)
    y = treadle.compile(model, threads=2)(a=a, d=d)["y"]
    np.testing.assert_allclose(y, np.maximum(a.astype(np.float64) @ b + c, 0) + d, rtol=0, atol=1e-3)


@pytest.mark.parametrize("columns, inner", [(1024, 1024), (1000, 1000), (4096, 256), (520, 1022), (8200, 264), (512, 257)])
@pytest.mark.parametrize("transposed", [0, 1])
def test_one_row_of_inputs(columns, inner, transposed):
    """Both operands are inputs, as stored or transposed: memory is read in several streams."""
    shape = (columns, inner) if transposed else (inner, columns)
    model, inputs, a, b = _model((1, inner), shape, False, "Gemm", transB=transposed)
    _close(treadle.compile(model, threads=2)(**inputs)["y"], a, b.T if transposed else b)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("rows, inner, columns", [(30, 100, 77), (9, 2048, 130), (40, 640, 512), (100, 33, 1000)])
def test_columns_are_packed_as_they_are_used(rows, inner, columns, transposed, threads):
    """The right operand is an input: full and partial groups of columns, as stored or transposed."""
    model, inputs, a, b = _model((rows, inner), (columns, inner) if transposed else (inner, columns), False, "Gemm",
                                 transB=transposed)
    _close(treadle.compile(model, threads=threads)(**inputs)["y"], a, b.T if transposed else b)


@pytest.mark.parametrize("rows, columns, transposed", [(300, 2, 0), (300, 6, 0), (300, 7, 1), (3, 5, 0)])
def test_few_columns_are_packed(rows, columns, transposed):
    """Columns that don't fill a vector: one by one, each row would read them far apart."""
    model, inputs, a, b = _model((rows, 512), (columns, 512) if transposed else (512, columns), False, "Gemm",
                                 transB=transposed)
    compiled = treadle.compile(model)
    assert re.search(r'"kernel":"(\w+)\.packed"', compiled.explain())
    _close(compiled(**inputs)["y"], a, b.T if transposed else b)


@pytest.mark.parametrize("rows, inner", [(768, 768), (70, 96), (5, 1000), (1, 512)])
def test_one_column(rows, inner):
    model, inputs, a, b = _model((rows, inner), (inner, 1), False)
    _close(treadle.compile(model)(**inputs)["y"], a, b)


@pytest.mark.parametrize("shape, perm", [((130, 70), (1, 0)), ((512, 512), (1, 0)), ((3, 64, 50), (0, 2, 1)),
                                         ((3, 64, 50), (2, 0, 1)), ((2, 33, 4, 24), (0, 3, 2, 1)),
                                         ((17, 5, 16), (2, 1, 0))])
def test_transpositions(shape, perm):
    """Tiles of matrices that are transposed, and their tails."""
    x = np.random.default_rng(5).standard_normal(shape, dtype=np.float32)
    graph = helper.make_graph([helper.make_node("Transpose", ["x"], ["y"], perm=perm)], "transposition",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    np.testing.assert_array_equal(treadle.compile(model)(x=x)["y"], x.transpose(perm))


@pytest.mark.parametrize("columns", [16, 40, 80, 112, 128, 1000])
def test_one_row_of_a_constant(columns):
    model, inputs, a, b = _model((1, 300), (300, columns), True)
    _close(treadle.compile(model)(**inputs)["y"], a, b)


@pytest.mark.parametrize("shape_a, shape_b", [((128, 768), (768, 512)), ((1, 300), (300, 1024)), ((900, 300), (300, 544))])
def test_compiles_for_wide_vectors(shape_a, shape_b):
    model, _, _, _ = _model(shape_a, shape_b, True)
    mod, params = treadle.relay.frontend.from_onnx(model, {})
    with treadle.transform.PassContext(opt_level=3):
        library = treadle.relay.build(mod, target="llvm -mcpu=x86-64-v4", params=params)
    assert "<16 x float>" in library.get_lib().get_source()


@pytest.mark.parametrize("kind, gates", [("LSTM", 4), ("GRU", 3)])
def test_steps_share_weights(kind, gates, tmp_path):
    """However many steps, a recurrent network's weights are stored once."""
    hidden, steps, rng = 128, 24, np.random.default_rng(5)
    w, r = (rng.standard_normal((1, gates * hidden, hidden), dtype=np.float32) * 0.1 for _ in range(2))
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=hidden)], "recurrent",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (steps, 1, hidden))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(r, "r")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "recurrent.so"
    treadle.compile(model).export_library(path)
    assert path.stat().st_size < 4 * (w.nbytes + r.nbytes)
    x = rng.standard_normal((steps, 1, hidden), dtype=np.float32)
    expected = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})[0]
    np.testing.assert_allclose(treadle.load(path)(x=x)["y"], expected, atol=1e-5)


def _of_operands(kind, transposed, open_dims):
    """A product of two inputs (2, 3, m, k) and (2, 3, k, n) of which the named dimensions are open."""
    known = {"b": 2, "m": 5, "k": 10, "n": 24}

    def shape(*dims):
        first, *others = (dim if dim in open_dims else known[dim] for dim in ("b", *dims))
        return [first, 3, *others]

    types = {"float32": (TensorProto.FLOAT,) * 2, "uint8": (TensorProto.UINT8,) * 2}[kind]
    right, nodes = "right", []
    if transposed:
        nodes, right = [helper.make_node("Transpose", ["right"], ["turned"], perm=[0, 1, 3, 2])], "turned"
    is_float = kind == "float32"
    nodes.append(helper.make_node("MatMul", ["left", right], ["y"]) if is_float
                 else helper.make_node("MatMulInteger", ["left", right, "left_zero", "right_zero"], ["y"]))
    graph = helper.make_graph(
        nodes, "product", [helper.make_tensor_value_info("left", types[0], shape("m", "k")),
                           helper.make_tensor_value_info("right", types[1], shape("n", "k") if transposed else shape("k", "n"))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT if is_float else TensorProto.INT32, None)],
        [] if is_float else [helper.make_tensor("left_zero", types[0], [], [3]), helper.make_tensor("right_zero", types[1], [], [7])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), known


@pytest.mark.parametrize("open_dims", ["b", "mk", "mnk", "bmnk"])
@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("kind", ["float32", "uint8"])
def test_open_dims_are_packed(kind, transposed, open_dims):
    model, known = _of_operands(kind, transposed, open_dims)
    compiled = treadle.compile(model)
    if "m" in open_dims or kind == "float32":  # tiles of machines that have them want a known number of rows
        kernel = "batch_matmul.packed" if kind == "float32" else "batch_matmul.bytes"
        assert f'"kernel":"{kernel}"' in compiled.explain()
    rng = np.random.default_rng(5)
    for b, m, k, n in ((2, 5, 10, 24), (1, 1, 7, 33), (4, 70, 64, 16), (2, 13, 33, 50), (3, 2, 1, 1), (2, 4, 5, 0), (2, 3, 0, 4)):
        size = {dim: value if dim in open_dims else known[dim] for dim, value in zip("bmkn", (b, m, k, n))}
        shapes = (size["b"], 3, size["m"], size["k"]), (size["b"], 3, size["k"], size["n"])
        if kind == "float32":
            left, right = (rng.standard_normal(shape, dtype=np.float32) for shape in shapes)
            expected = left.astype(np.float64) @ right
        else:
            left = rng.integers(0, 256, shapes[0]).astype(np.uint8)
            right = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, shapes[1]).astype(kind)
            expected = (left.astype(np.int32) - 3) @ (right.astype(np.int32) - 7)
        y = compiled(left=left, right=np.ascontiguousarray(right.swapaxes(2, 3)) if transposed else right)["y"]
        assert y.shape == expected.shape
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-4 if kind == "float32" else 0)


@pytest.mark.parametrize("rows", [1, 3, "rows"])
@pytest.mark.parametrize("inner", [385, 512, 2048])
def test_one_column_with_what_follows(rows, inner):
    """The last layer of a classifier of two classes, whose sums are too long to be made in one go."""
    rng = np.random.default_rng(6)
    weight, bias = rng.standard_normal((inner, 1), dtype=np.float32), rng.standard_normal(1, dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["s"]), helper.make_node("Relu", ["s"], ["y"])],
        "layer", [helper.make_tensor_value_info("a", TensorProto.FLOAT, (rows, inner))], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")])
    compiled = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    for count in (rows,) if rows != "rows" else (1, 5):
        a = rng.standard_normal((count, inner), dtype=np.float32)
        np.testing.assert_allclose(compiled(a=a)["y"], np.maximum(a.astype(np.float64) @ weight + bias, 0), rtol=0, atol=1e-4 * inner ** 0.5)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", ["none", "known"])
def test_products_of_doubles_are_tiles(target, transposed, sizes, tmp_path):
    """No kernel is for float64: loops of one element at a time where sizes were open, 1 GFLOP/s, and vectors of one row of results
    where they weren't. Fourier transforms are such products."""
    rng = np.random.default_rng(8)
    given = [(2, 13, 33, 50), (1, 64, 64, 64), (3, 4, 5, 8)]
    if sizes == "none":
        given += [(1, 1, 7, 33), (2, 70, 1, 1), (1, 5, 9, 2), (2, 3, 5, 0), (2, 3, 0, 4), (1, 30, 40, 17)]
    for b, m, k, n in given[:1] if sizes == "none" else given:
        shapes = ("b", "m", "k"), (("b", "n", "k") if transposed else ("b", "k", "n"))
        if sizes == "known":
            shapes = tuple(tuple({"b": b, "m": m, "k": k, "n": n}[dim] for dim in shape) for shape in shapes)
        nodes = [helper.make_node("Transpose", ["right"], ["t"], perm=[0, 2, 1])] if transposed else []
        nodes += [helper.make_node("MatMul", ["left", "t" if transposed else "right"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
        graph = helper.make_graph(nodes, "product", [helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape)
                                                     for name, shape in zip(("left", "right"), shapes)], [onnx.ValueInfoProto(name="y")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        compiled = treadle.compile(model, target=target)
        for size in given if sizes == "none" else [(b, m, k, n)]:
            left, right = rng.standard_normal((size[0], size[1], size[2])), rng.standard_normal((size[0], size[2], size[3]))
            y = compiled(left=left, right=np.ascontiguousarray(right.swapaxes(1, 2)) if transposed else right)["y"]
            np.testing.assert_allclose(y, np.maximum(left @ right, 0), rtol=0, atol=1e-12 * max(1, size[2]))
    onnx.save(model, tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--target", target, "--dump", "tir", "--dump-dir", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    product = next(text for text in (tmp_path / "tir.tir").read_text().split("primfn") if "matmul" in text.split("\n")[1])
    assert re.search(r"allocate\(\S+: Pointer\(local float64\), float64, \[\d+", product)


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("computed", [False, True])
def test_transposes_of_operands_are_read_as_they_are(rank, computed, tmp_path):
    """x x' with open sizes: x was copied to be transposed, and read once more to be packed. What is computed element by element is
    computed in the transposed order, as before."""
    batch, order = ["b", "h"][:rank - 2], [*range(rank - 2), rank - 1, rank - 2]
    nodes = [helper.make_node("Exp", ["x"], ["e"])] if computed else []
    nodes += [helper.make_node("Transpose", ["e" if computed else "x"], ["t"], perm=order), helper.make_node("MatMul", ["x", "t"], ["y"])]
    graph = helper.make_graph(nodes, "gram", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [*batch, "m", "k"])],
                              [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--dump", "relay-opt", "--dump-dir", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    text = (tmp_path / "relay-opt.relay").read_text()
    assert ("transpose(" in text, "transpose_b=True" in text) == (computed, not computed)
    compiled = treadle.load(tmp_path / "m.so")
    rng = np.random.default_rng(9)
    for shape in ((2, 3, 20, 33), (1, 1, 5, 64), (3, 2, 1, 1), (1, 4, 40, 7), (2, 2, 0, 3)):
        x = rng.standard_normal(shape[4 - rank:], dtype=np.float32)
        right = np.exp(x.astype(np.float64)) if computed else x.astype(np.float64)
        np.testing.assert_allclose(compiled(x=x)["y"], x @ right.swapaxes(-1, -2), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("dims", [["n"], ["b", "n"]])
@pytest.mark.parametrize("inner, columns", [(12544, 256), (8192, 328)])
def test_any_number_of_long_rows(inner, columns, dims, follows):
    """Each block of few rows read all of the weight again: twice the time of known numbers of rows."""
    rng = np.random.default_rng(6)
    w, c = (rng.standard_normal(shape, dtype=np.float32) for shape in ((inner, columns), (columns,)))
    nodes = [helper.make_node("MatMul", ["a", "w"], ["p"]), helper.make_node("Add", ["p", "c"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    if not follows:
        nodes = [helper.make_node("MatMul", ["a", "w"], ["y"])]
    graph = helper.make_graph(nodes, "product", [helper.make_tensor_value_info("a", TensorProto.FLOAT, [*dims, inner])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [*dims, columns])],
                              [numpy_helper.from_array(w, "w"), numpy_helper.from_array(c, "c")][:1 + follows])
    compiled = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), threads=2)
    for rows in (1, 2, 13, 160, 331):
        a = rng.standard_normal((*[1, 1][:len(dims) - 1], rows, inner), dtype=np.float32)
        expected = a.astype(np.float64) @ w + (c if follows else 0)
        np.testing.assert_allclose(compiled(a=a)["y"], np.maximum(expected, 0) if follows else expected, rtol=0, atol=2.4e-5 * np.sqrt(inner))
