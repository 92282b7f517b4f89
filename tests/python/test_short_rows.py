# SPDX-License-Identifier: Apache-2.0
"""Rows of a length that only a run knows and that turn out to have a few elements, which would fill little of a vector: kernels have other loops for them."""
import pathlib
import subprocess

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
FLOAT = onnx.TensorProto.FLOAT
WIDTHS = (1, 2, 3, 4, 5, 8, 9, 17)
ROWS = (0, 1, 15, 16, 17, 300)


def _model(op, ranks, outputs=1, constants=(), **attributes):
    """All dimensions are open."""
    names = [f"x{i}" for i in range(len(ranks))]
    values = [helper.make_tensor_value_info(name, FLOAT, [f"{name}_{d}" for d in range(rank)]) for name, rank in zip(names, ranks)]
    results = [f"y{i}" for i in range(outputs)]
    tensors = [numpy_helper.from_array(np.array(value), f"c{i}") for i, value in enumerate(constants)]
    node = helper.make_node(op, names + [tensor.name for tensor in tensors], results, **attributes)
    graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name=name) for name in results], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _check(model, shapes, target="llvm", **tolerance):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled = treadle.compile(model, target=target, threads=2)
    rng = np.random.default_rng(0)
    for of_run in shapes:
        feeds = {f"x{i}": rng.standard_normal(shape).astype("f4") for i, shape in enumerate(of_run)}
        actual = compiled(**feeds)
        for name, expected in zip([y.name for y in session.get_outputs()], session.run(None, feeds)):
            assert actual[name].shape == expected.shape
            np.testing.assert_allclose(actual[name], expected, **tolerance)


@pytest.mark.parametrize("target", ["llvm", "c", "llvm -mcpu=x86-64-v3"])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2"])
def test_reductions(op, target):
    for keepdims in (0, 1):
        model = _model(op, [2], constants=[[-1]], keepdims=keepdims)
        _check(model, [[(rows, width)] for rows in ROWS[1:] for width in WIDTHS], target, rtol=1e-5, atol=1e-6)


def test_places_of_maxima():
    _check(_model("ArgMax", [3], axis=-1), [[(3, rows, width)] for rows in ROWS[1:] for width in WIDTHS])


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax(op, axis):
    shapes = [[(2, rows, width)] for rows in ROWS[1:] for width in WIDTHS] + [[(300, 5, 2)], [(1, 1, 1)], [(40, 1, 1)]]
    _check(_model(op, [3], axis=axis), shapes, rtol=1e-5, atol=1e-6)


def test_parts():
    _check(_model("Split", [2], outputs=3, axis=-1, num_outputs=3), [[(rows, 3 * width)] for rows in ROWS for width in WIDTHS])


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_joined_rows(target):
    widths = [(1, 1, 1), (1, 2, 1), (0, 3, 1), (2, 2, 2), (4, 0, 0), (1, 20, 3)]
    _check(_model("Concat", [2, 2, 2], axis=-1), [[(rows, width) for width in of_run] for rows in ROWS for of_run in widths], target)


@pytest.mark.parametrize("perm", [[0, 2, 3, 1], [0, 3, 1, 2], [3, 2, 1, 0]])
def test_transposed_images(perm):
    shapes = [(2, 3, 20, 17), (2, 20, 17, 3), (1, 1, 5, 5), (1, 4, 1, 300), (3, 300, 1, 4), (0, 3, 4, 5), (2, 9, 20, 8)]
    _check(_model("Transpose", [4], perm=perm), [[shape] for shape in shapes])


def test_products_with_one_column():
    shapes = [[(rows, k), (k, columns)] for rows in (1, 3, 40) for k in (1, 7, 64) for columns in (1, 2, 16)]
    _check(_model("MatMul", [2, 2]), shapes, rtol=1e-5, atol=1e-5)
    batches = [[(2, rows, 24), (2, 24, columns)] for rows in (1, 5) for columns in (1, 3)]
    _check(_model("MatMul", [3, 3]), batches, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op, attributes, test", [("ReduceSum", {}, "<= 8i64"), ("Transpose", {"perm": [1, 0]}, "<= 4i64"),
                                                  ("Softmax", {"axis": 1}, "<= 8i64"), ("Softmax", {"axis": 0}, "<= 4i64")])
def test_a_run_decides(op, attributes, test, tmp_path):
    onnx.save(_model(op, [2], constants=[[-1]] if op == "ReduceSum" else (), **attributes), tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--dump", "tir", "--dump-dir", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    assert f"{test})" in (tmp_path / "tir.tir").read_text()
