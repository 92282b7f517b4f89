# SPDX-License-Identifier: Apache-2.0
"""Rows that a run may broadcast, repeat or cut: which of it is decided once, and neighbours are read as vectors."""
import pathlib
import subprocess

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def model(kind, inputs, constants=(), **attributes):
    values = [helper.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in inputs]
    names = [*(name for name, _, _ in inputs), *(name for name, _ in constants)]
    graph = helper.make_graph([helper.make_node(kind, sorted(names, key="xzbeast".index), ["y"], **attributes)], "g", values,
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(np.array(v), n) for n, v in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


ADD = model("Add", [("x", FLOAT, ["a", "b", "c"]), ("z", FLOAT, ["d", "e", "f"])])
TILE = model("Tile", [("x", FLOAT, ["a", "b"]), ("z", INT64, [2])])
EXPAND = model("Expand", [("x", FLOAT, ["a", "b", "c"]), ("z", INT64, [3])])
SLICE = model("Slice", [("x", FLOAT, ["a", "b"]), ("b", INT64, [1]), ("e", INT64, [1]), ("t", INT64, [1])], [("a", [1])])


def compare(model, feeds):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled = treadle.compile(model, threads=2)
    for feed in feeds:
        np.testing.assert_array_equal(compiled(**feed)["y"], session.run(None, feed)[0])


def floats(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("f4")


@pytest.mark.parametrize("width", [1, 5, 16, 37])
def test_operands_that_a_run_broadcasts(width):
    """Such a kernel read its operands one element after another: twice ONNX Runtime's time and more."""
    shapes = [((3, 4, width), (3, 4, width)), ((3, 4, width), (1, 1, width)), ((3, 4, width), (3, 4, 1)), ((3, 1, 1), (1, 4, width)),
              ((1, 1, 1), (3, 4, width)), ((3, 4, width), (3, 1, width)), ((3, 4, width), (1, 1, 1)), ((0, 4, width), (1, 4, 1))]
    compare(ADD, [{"x": floats(*a), "z": floats(*b)} for a, b in shapes])


@pytest.mark.parametrize("shape", [(3, 40), (1, 7), (5, 1), (2, 16), (7, 33)])
def test_repeated_rows(shape):
    """Rows that are there once took a division per element: eleven times ONNX Runtime's time."""
    compare(TILE, [{"x": floats(*shape), "z": np.array(z)} for z in ((1, 1), (3, 1), (1, 4), (2, 3), (0, 2))])
    for repeats in ((4, 3), (1, 2), (2, 1)):
        compare(model("Tile", [("x", FLOAT, shape)], [("z", np.array(repeats))]), [{"x": floats(*shape)}])
    x = floats(1, *shape)
    compare(EXPAND, [{"x": x, "z": np.array(z)} for z in ((1, 1, 1), (4, *shape), (2, 1, 1))])
    compare(EXPAND, [{"x": floats(1, 3, 1), "z": np.array(shape[::-1] if len(z) == 2 else z)} for z in ((2, 3, 33), (1, 1, 5))])


@pytest.mark.parametrize("step", [1, 2, -1])
def test_parts_of_rows(step):
    x = floats(3, 40)
    bounds = [(0, 40), (3, 39), (5, 5), (38, 100), (-7, -2), (60, 70), (20, 3), (39, -50), (-1, -99)]
    compare(SLICE, [{"x": x, "b": np.array([b]), "e": np.array([e]), "t": np.array([step])} for b, e in bounds])


@pytest.mark.parametrize("of", [ADD, TILE, EXPAND, SLICE], ids=["add", "tile", "expand", "slice"])
def test_neighbours_are_vectors(of, tmp_path):
    onnx.save(of, tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--dump", "tir", "--dump-dir", tmp_path / "d"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    text = (tmp_path / "d/tir.tir").read_text()
    if of is TILE:  # a loop over each copy of a row
        assert "floormod(i1" not in text and "+ i1_1)] = (float32*)p0_2[" in text
    else:
        assert "@tir.if_then_else(" in text and "(float32x16*)p0_2[ramp(" in text


@pytest.mark.parametrize("expanded", [False, True])
def test_sizes_of_repeated_operands(expanded, tmp_path):
    """`probe.repeat(batch, 1, 1)`: sizes that aren't of the batch were unknown, so parts of weights were cut and packed in each run."""
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[n, 7, 16] x) => (float[n, 7, r] y, float[n, 1, 16] t)
      <float[1, 1, 16] probe, float[16, 64] w, int64[1] first = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}> {
      s = Shape (x)  batch = Slice (s, first, one)  repeats = Concat <axis = 0> (batch, one, one)
      count = Shape (repeats)  ones = ConstantOfShape <value = int64[1] {1}> (count)  e = Expand (probe, ones)
      t = Tile (OPERAND, repeats)
      ts = Shape (t)  width = Slice (ts, two, three)  part = Slice (w, first, width, one)  y = MatMul (x, part) }"""
    made = onnx.parser.parse_model(text.replace("OPERAND", "e" if expanded else "probe"))
    made.graph.initializer.extend([numpy_helper.from_array(floats(1, 1, 16), "probe"), numpy_helper.from_array(floats(16, 64), "w")])
    onnx.save(made, tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--dump", "relay-opt", "--dump-dir", tmp_path / "d"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    assert "dyn.strided_slice" not in "".join(path.read_text() for path in (tmp_path / "d").iterdir())
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled = treadle.compile(made)
    for batch in (1, 3):
        expected = session.run(["y", "t"], {"x": floats(batch, 7, 16)})
        actual = compiled(x=floats(batch, 7, 16))
        np.testing.assert_array_equal(actual["t"], expected[1])
        np.testing.assert_allclose(actual["y"], expected[0], rtol=1e-5, atol=1e-5)
