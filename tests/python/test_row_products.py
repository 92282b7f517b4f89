# SPDX-License-Identifier: Apache-2.0
"""Products of one row with a matrix that only the run knows, and attention of one query: kernels of their own, without packing."""
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
FLOAT = onnx.TensorProto.FLOAT


def model(nodes, inputs, constants=(), opset=18):
    values = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs]
    graph = helper.make_graph(nodes, "g", values, [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(np.array(v), n) for n, v in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def floats(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


def compare(compiled, expected, **feeds):
    # Relative to what is added up: rounding errors of products are of its size.
    np.testing.assert_allclose(compiled(**feeds)["y"], expected, rtol=1e-5, atol=2e-5 * np.sqrt(feeds["x"].shape[-1]))


MATMUL = [helper.make_node("MatMul", ["x", "w"], ["y"])]
SHAPES = [(((1, 513)), (513, 513)), ((1, 40), (40, 64)), ((1, 9), (9, 17)), ((1, 7), (7, 300)), ((1, 64), (64, 1)), ((1, 300), (300, 128)),
          ((2, 33), (33, 70)), ((1, 1), (1, 40)), ((1, 8), (8, 1100))]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_matrices(shapes):
    x, w = (floats(*shape) for shape in shapes)
    for sizes in ((("m", "k"), ("k", "n")), shapes):
        compare(treadle.compile(model(MATMUL, zip("xw", sizes)), threads=2), x.astype("f8") @ w, x=x, w=w)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("depth, columns", [(64, 301), (301, 64), (5, 16), (8, 128)])
def test_batches_of_rows(rows, depth, columns):
    x, w = floats(2, 3, rows, depth), floats(2, 3, depth, columns)
    for sizes in ((("b", 3, "m", "k"), ("b", 3, "k", "n")), (("b", 3, "m", depth), ("b", 3, depth, "n")), (x.shape, w.shape)):
        compare(treadle.compile(model(MATMUL, zip("xw", sizes)), threads=2), x.astype("f8") @ w, x=x, w=w)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("rows", [1, 3])
def test_with_a_bias(rows, transposed):
    x, w, b = floats(rows, 37), floats(*((50, 37) if transposed else (37, 50))), floats(50)
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["z"], transB=transposed), helper.make_node("Relu", ["z"], ["y"])]
    sizes = (("m", "k"), ("n", "k") if transposed else ("k", "n"), ("n",))
    expected = np.maximum(x.astype("f8") @ (w.T if transposed else w) + b, 0)
    for dims in (sizes, (x.shape, w.shape, b.shape)):
        compare(treadle.compile(model(nodes, zip("xwb", dims)), threads=2), expected, x=x, w=w, b=b)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_rows_as_many_as_are_added_up(batch):
    """A form for one row has one row in the matrix, too, and isn't compiled where the other operand has two columns."""
    nodes = [helper.make_node("Add", ["x", "c"], ["t"]), helper.make_node("MatMul", ["t", "w"], ["y"])]
    names = [f"b{i}" for i in range(len(batch))]
    c, x, w = np.float32([1, 2]), floats(*batch, 2, 2), floats(*batch, 2, 23)
    compiled = treadle.compile(model(nodes, [("x", (*names, "n", "m")), ("w", (*names, "n", 23))], [("c", c)]), threads=1)
    compare(compiled, (x.astype("f8") + c) @ w, x=x, w=w)
    with pytest.raises(treadle.Error, match="dimensions of operands have to be equal"):
        compiled(x=floats(*batch, 1, 2), w=floats(*batch, 1, 23))


ATTENTION = [helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["x", "t"], ["s"]),
             helper.make_node("Mul", ["s", "c"], ["m"]), helper.make_node("Softmax", ["m"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
HEADS = (("b", 3, "s", 32), ("b", 3, "t", 32), ("b", 3, "t", 32))
NARROW = (("b", 3, "s", 20), ("b", 3, "t", 20), ("b", 3, "t", 40))


@pytest.mark.parametrize("heads", [HEADS, NARROW], ids=["whole_vectors", "other_widths"])
@pytest.mark.parametrize("queries", [1, 2, 7])
def test_attention_of_few_queries(queries, heads):
    compiled = treadle.compile(model(ATTENTION, zip("xkv", heads), [("c", np.float32(0.2))]), threads=2)
    size, width = heads[0][3], heads[2][3]
    for batch, keys in ((1, 1), (2, 5), (1, 64), (3, 75)):
        x, k, v = floats(batch, 3, queries, size), floats(batch, 3, keys, size), floats(batch, 3, keys, width)
        scores = 0.2 * (x.astype("f8") @ k.transpose(0, 1, 3, 2))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        compare(compiled, weights / weights.sum(-1, keepdims=True) @ v, x=x, k=k, v=v)


def lowered(onnx_model, tmp_path, kind="tir"):
    onnx.save(onnx_model, tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--target",
               "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4", "--dump", kind, "--dump-dir", tmp_path / "d"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return next((tmp_path / "d").glob(kind + ".*")).read_text()


def test_one_row_has_a_kernel_that_packs_nothing(tmp_path):
    text = lowered(model(MATMUL, [("x", ["b", 3, "m", "k"]), ("w", ["b", 3, "k", "n"])]), tmp_path)
    kernels = [k for k in text.split("primfn")[1:] if "row_product" in k]
    assert len(kernels) == 2 and all("float32x16" in kernel for kernel in kernels)  # one is of one column
    assert not any("packed_columns" in kernel for kernel in kernels)


def test_keys_are_not_transposed_twice(tmp_path):
    """Between the transposes there were reshapes of dynamic sizes, there and back: the keys were copied for each call."""
    assert "transpose(" not in lowered(model(ATTENTION, zip("xkv", HEADS), [("c", np.float32(0.2))]), tmp_path, "relay-opt")


def test_heads_of_any_width_are_one_kernel(tmp_path):
    """Of 40 values, as in Stable Diffusion, scores were stored: twice the time for 1024 tokens."""
    text = lowered(model(ATTENTION, zip("xkv", NARROW), [("c", np.float32(0.2))]), tmp_path, "relay-opt")
    assert "nn.contrib_packing_attention(" in text and "nn.softmax(" not in text


def transposed(rows, columns, batch=(3,), depth=20):
    rank = len(batch)
    nodes = [helper.make_node("Transpose", ["k"], ["t"], perm=[*range(rank), rank + 1, rank]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    return model(nodes, [("x", [*batch, rows, depth]), ("k", [*batch, columns, depth])])


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 65])
@pytest.mark.parametrize("columns", [1, 7, 40, 64, 77])
def test_few_rows_of_known_sizes(rows, columns):
    x, k = floats(3, rows, 20), floats(3, columns, 20)
    compare(treadle.compile(transposed(rows, columns), threads=2), x.astype("f8") @ k.transpose(0, 2, 1), x=x, k=k)
    heads, keys = floats(2, 3, rows, 20), floats(2, 3, columns, 20)
    compare(treadle.compile(transposed(rows, columns, (2, 3)), threads=2), heads.astype("f8") @ keys.transpose(0, 1, 3, 2), x=heads, k=keys)
    gemm = model([helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], [("x", [rows, 20]), ("w", [columns, 20])])
    compare(treadle.compile(gemm, threads=2), x[0].astype("f8") @ k[0].T, x=x[0], w=k[0])
    product = model(MATMUL, [("x", [rows, 20]), ("w", [20, columns])])
    compare(treadle.compile(product, threads=2), x[0].astype("f8") @ k[0].T, x=x[0], w=np.ascontiguousarray(k[0].T))


@pytest.mark.parametrize("rows", [1, 2, 16])
@pytest.mark.parametrize("batch", [(3,), (2, 3), (1, 12)])
def test_keys_of_known_sizes_are_read_as_they_are(rows, batch, tmp_path):
    """The transposed keys were stored, which took three times as long as the product."""
    assert "transpose(" not in lowered(transposed(rows, 77, batch), tmp_path, "relay-opt")
