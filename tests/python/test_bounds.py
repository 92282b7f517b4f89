# SPDX-License-Identifier: Apache-2.0
"""Limits of compiling and of buffers, as options of the program."""
import os
import subprocess

import pytest

from test_outputs import PROGRAM, leftovers, small_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bounds")
    small_model(folder / "m.onnx")
    return folder / "m.onnx"


def run(*words, **environment):
    return subprocess.run([str(word) for word in (PROGRAM, *words)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "TREADLE_CACHE": "0", **environment})


def test_compiles_within_limits(model, tmp_path):
    result = run("compile", model, "-o", tmp_path / "m.so", "--max-compile-seconds", 100, "--max-compile-memory", "2GiB")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "m.so").exists() and "m.so" in result.stdout


def test_too_little_time_is_an_error(model, tmp_path):
    result = run("compile", model, "-o", tmp_path / "m.so", "--max-compile-seconds", 0.01)
    assert result.returncode == 5 and "took more than 0.01 seconds" in result.stderr
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("memory", ["1KiB", "2MiB", "8MiB", "16MiB", "24MiB", "32MiB", "48MiB"])
def test_too_little_memory_is_an_error(model, tmp_path, memory):
    """Wherever it runs out: LLVM ends its process for want of memory."""
    result = run("compile", model, "-o", tmp_path / "m.so", "--max-compile-memory", memory)
    assert result.returncode in (0, 2, 5), (result.returncode, result.stderr)
    assert result.returncode == 0 or "error: " in result.stderr
    assert "installation" not in result.stderr  # which is as it should be
    assert result.returncode != 0 or (tmp_path / "m.so").exists()


def test_errors_of_the_child_are_the_command_s(tmp_path):
    result = run("compile", tmp_path / "none.onnx", "-o", tmp_path / "m.so", "--max-compile-seconds", 100)
    assert result.returncode == 2 and result.stderr.count("error: ") == 1


def test_largest_buffer(model, tmp_path):
    assert run("compile", model, "-o", tmp_path / "m.so").returncode == 0
    result = run("run", tmp_path / "m.so", "-i", "ones", "--max-tensor-bytes", "16")
    assert result.returncode == 5 and "--max-tensor-bytes" in result.stderr, result.stderr
    result = run("compile", model, "-o", tmp_path / "n.so", "--max-tensor-bytes", "16")
    assert result.returncode in (2, 5) and "--max-tensor-bytes" in result.stderr
    assert run("run", tmp_path / "m.so", "-i", "ones", TREADLE_MAX_TENSOR_BYTES="16").returncode == 5
