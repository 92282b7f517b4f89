# SPDX-License-Identifier: Apache-2.0
"""Parts of vectors of bytes and half precision, for which AVX2 has no masks."""
import pathlib
import subprocess

import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
TARGETS = ["llvm -mcpu=native", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v2"]


def concat(dtype, shapes):
    inputs = [helper.make_tensor_value_info(f"x{i}", dtype, shape) for i, shape in enumerate(shapes)]
    node = helper.make_node("Concat", [f"x{i}" for i in range(len(shapes))], ["y"], axis=1)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", dtype, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", ["uint8", "int16", "float16"])
def test_rows_of_any_length(element, target):
    """No element beyond the end of a row may be written, so the rows after it tell."""
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(element))
    compiled = treadle.compile(concat(dtype, [["n", "a"], ["n", "b"]]).SerializeToString(), target=target)
    rng = np.random.default_rng(1)
    for a, b in ((1, 1), (5, 3), (17, 30), (31, 33), (64, 7), (100, 129), (257, 2)):
        x = [rng.integers(0, 100, (3, width)).astype(element) for width in (a, b)]
        np.testing.assert_array_equal(compiled.run(None, {"x0": x[0], "x1": x[1]})[0], np.concatenate(x, 1))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", [19, 45, 100])
def test_known_lengths(width, target):
    compiled = treadle.compile(concat(TensorProto.UINT8, [[4, width], [4, 70]]).SerializeToString(), target=target)
    x = [np.random.default_rng(2).integers(0, 256, (4, size), dtype=np.uint8) for size in (width, 70)]
    np.testing.assert_array_equal(compiled.run(None, {"x0": x[0], "x1": x[1]})[0], np.concatenate(x, 1))


def test_lanes_are_not_tested_one_by_one(tmp_path):
    """Rows of bytes took 20 times as long where each lane had a branch of its own."""
    (tmp_path / "m.onnx").write_bytes(concat(TensorProto.UINT8, [[1000, 500], [1000, 500]]).SerializeToString())
    subprocess.run([PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--target",
                    "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3", "--dump", "asm", "--dump-dir", tmp_path],
                   check=True, capture_output=True, timeout=300)
    text = "".join(path.read_text() for path in tmp_path.glob("*.s"))
    assert "vmovdqu" in text and text.count("vpextrb") + text.count("vpinsrb") < 32
