# SPDX-License-Identifier: Apache-2.0
"""Padding with elements of a tensor: what lies between the ends of its rows is copied."""
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"


def model(shape, widths, mode):
    node = helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    pads = numpy_helper.from_array(np.array(widths).T.reshape(-1), "p")
    graph = helper.make_graph([node], "g", [x], [onnx.ValueInfoProto(name="y")], [pads])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=x86-64-v3", "c"])
@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_rows_of_any_width(mode, target):
    widths = [(0, 0), (2, 1), (3, 17)]
    anything = treadle.compile(model(["n", "h", "w"], widths, mode), target=target)
    for shape in ((2, 4, 18), (1, 3, 33), (2, 5, 64), (1, 7, 100)):
        x = np.random.default_rng(0).standard_normal(shape).astype("f4")
        expected = np.pad(x, widths, mode=mode)
        np.testing.assert_array_equal(anything(x=x)["y"], expected)
        np.testing.assert_array_equal(treadle.compile(model(shape, widths, mode), target=target)(x=x)["y"], expected)


@pytest.mark.parametrize("shape", [(2, 5, 100), ("n", "h", "w")])
@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_rows_are_copied(mode, shape, tmp_path):
    """A place was computed for each of their elements."""
    onnx.save(model(shape, [(0, 0), (1, 1), (3, 17)], mode), tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--target",
               "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4", "--dump", "tir", "--dump-dir", tmp_path / "d"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    text = (tmp_path / "d/tir.tir").read_text()
    assert len(re.findall(r"for \(i2\w*: ", text)) == 3, text  # both ends, and between
