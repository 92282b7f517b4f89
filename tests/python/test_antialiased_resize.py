# SPDX-License-Identifier: Apache-2.0
"""Antialiased Resize: places and weights of windows are tables, whose sums stay in registers, along rows and columns."""
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
FLOAT = onnx.TensorProto.FLOAT


def model(shape, size, mode, dtype=FLOAT, **attributes):
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=mode, antialias=1, axes=[2, 3], **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", dtype, shape)], [onnx.ValueInfoProto(name="y")],
                              [numpy_helper.from_array(np.array(size), "s")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=x86-64-v3"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("sizes", [("n", "c", "h", "w"), None])
def test_images(sizes, mode, target):
    """Rows of whole vectors, of a part of one and with tails; larger, smaller and the same."""
    rng = np.random.default_rng(0)
    for shape, size in (((1, 2, 19, 37), (7, 17)), ((2, 1, 8, 16), (4, 33)), ((1, 1, 5, 3), (9, 2)), ((1, 3, 6, 70), (6, 16))):
        onnx_model = model(sizes or shape, size, mode, exclude_outside=1)
        x = rng.standard_normal(shape).astype("f4")
        expected = ReferenceEvaluator(onnx_model).run(None, {"x": x})[0]
        np.testing.assert_allclose(treadle.compile(onnx_model, target=target)(x=x)["y"], expected, rtol=0, atol=2e-5)


def test_doubles():
    onnx_model = model(("n", 2, "h", "w"), (5, 9), "linear", onnx.TensorProto.DOUBLE)
    x = np.random.default_rng(0).standard_normal((1, 2, 11, 23))
    expected = ReferenceEvaluator(onnx_model).run(None, {"x": x})[0]
    np.testing.assert_allclose(treadle.compile(onnx_model)(x=x)["y"], expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("shape", [(1, 8, 35, 37), ("n", "c", "h", "w")])
def test_windows_are_tables(shape, tmp_path):
    """Each step computed places and loaded and stored its sums."""
    onnx.save(model(shape, (17, 19), "linear"), tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--target",
               "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4", "--dump", "tir", "--dump-dir", tmp_path / "d"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    text = (tmp_path / "d/tir.tir").read_text()
    sums = re.findall(r"resize_sum\w*\[ramp\(0i64, 1i64, 16\)\] = .* \+ .*", text)
    assert any("masked" not in line for line in sums), text
    assert not any("floor(" in line for line in sums)
