# SPDX-License-Identifier: Apache-2.0
"""Functions of bytes as tables of 256 entries, read by vectors of bytes."""
import pathlib
import subprocess

import numpy as np
import pytest

import treadle
from treadle import relay
from treadle.contrib import graph_executor

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"


def module(shape, dtype="uint8"):
    data = relay.var("x", shape=shape, dtype=dtype)
    real = relay.qnn.op.dequantize(data, relay.const(np.float32(0.05)), relay.const(np.int32(3)))
    result = relay.qnn.op.quantize(relay.tanh(real), relay.const(np.float32(1 / 127)), relay.const(np.int32(1)),
                                   out_dtype=dtype)
    return treadle.IRModule.from_expr(relay.Function([data], result))


def expected(x):
    real = np.tanh((x.astype("float64") - 3) * np.float32(0.05))
    info = np.iinfo(x.dtype)
    return np.clip(np.round(real / np.float32(1 / 127)) + 1, info.min, info.max)


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64", "c", "stackvm"])
@pytest.mark.parametrize("shape", [(5, 7, 11), (3, 1000), (64, 7, 7), (13,), (2, 4096)])
def test_results_are_those_of_numpy(target, shape):
    x = np.resize(np.random.default_rng(1).permutation(256), shape).astype("uint8")
    lib = relay.build(module(shape), target)
    executor = graph_executor.GraphModule(lib["default"](treadle.cpu()))
    executor.run(x=x)
    # Halves may be rounded to either side where float32 and float64 differ.
    assert np.abs(executor.get_output(0).numpy() - expected(x)).max() <= 1


def test_tables_are_read_by_vectors(tmp_path):
    """They were read byte by byte, in 13 times the time."""
    (tmp_path / "m.relay").write_text(str(module((64, 56, 56))))
    subprocess.run([PROGRAM, "compile", tmp_path / "m.relay", "-o", tmp_path / "m.so", "--target",
                    "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4", "--dump", "tir", "--dump", "asm", "--dump-dir",
                    tmp_path / "d"], check=True, capture_output=True, timeout=300)
    assert "1i64, 64)] = p1[cast(int32x64" in (tmp_path / "d/tir.tir").read_text()
    assert "vpermi2b" in (tmp_path / "d/asm.s").read_text() or "vpermt2b" in (tmp_path / "d/asm.s").read_text()
