# SPDX-License-Identifier: Apache-2.0
"""run, verify and bench take shapes from the inputs given, assume a batch of 1 aloud, and guess nothing else."""
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"


def run(*args):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """y = x * mask, for images of any size and batches of any number."""
    path = tmp_path_factory.mktemp("dynamic") / "m.onnx"
    shape = ["batch", 3, "height", "width"]
    x, mask = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "mask"))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph([helper.make_node("Mul", ["x", "mask"], ["y"])], "g", [x, mask], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_file_gives_the_sizes(model, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3, 4, 5), np.float32))
    result = run("run", model, "-i", tmp_path / "in.npz", "-i", "mask=ones", "-o", tmp_path / "out.npz")
    assert result.returncode == 0, result.stderr
    assert np.load(tmp_path / "out.npz")["y"].shape == (2, 3, 4, 5)


def test_the_batch_is_assumed_aloud(model):
    result = run("verify", model, "--reference", "interp", "--dim", "height=6", "--dim", "width=7")
    assert result.returncode == 0, result.stderr
    assert "note: input 'x': batch = 1 (assumed)" in result.stderr


@pytest.mark.parametrize("verb", ["verify", "bench"])
def test_other_sizes_are_asked_for(model, verb):
    result = run(verb, model)
    assert result.returncode == 2
    assert "dimension 2 (height) of input x:[batch,3,height,width]" in result.stderr
    assert "help: give values (-i x=file.npy), sizes by name (--dim height=480 --dim width=640)" in result.stderr


def test_missing_values_are_asked_for_before_compiling(model, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((1, 3, 4, 5), np.float32))
    result = run("run", model, "-i", f"x={tmp_path / 'x.npy'}")
    assert result.returncode == 2
    assert result.stderr.startswith("error: no value for input mask:[batch,3,height,width]\nhelp: ")


@pytest.mark.parametrize("arguments, message", [
    (["-i", "maks=ones"], "the model has no input 'maks'; its inputs are: x, mask; did you mean 'mask'?"),
    (["--dim", "height=6", "--dim", "height=7"], "--dim: 'height' is given twice"),
    (["--input-shapes", "x:[1,3,4,4]", "--input-shapes", "x:[1,3,5,5]"], "--input-shapes: input 'x' is given twice"),
    (["--dim", "batch=1", "height=320"], "unexpected argument 'height=320' for run"),
    (["--traget", "llvm"], "run has no option '--traget'; did you mean '--target'?"),
    (["-i", "random", "--dim", "batch=1", "--dim", "height=4", "--dim", "width=4", "--disabled-pass", "FuseOpps"],
     "disabled pass 'FuseOpps' doesn't exist; did you mean 'FuseOps'?"),
])
def test_what_is_mistyped_is_refused(model, arguments, message):
    result = run("run", model, *arguments)
    assert result.returncode == 2
    assert result.stderr.splitlines()[0].startswith("error: ") and message in result.stderr, result.stderr


def test_unknown_verbs():
    result = run("compil", "m.onnx")
    assert result.returncode == 2
    assert result.stderr.startswith("error: unknown verb 'compil'; did you mean 'compile'?\nhelp: there are: ")


def test_python_refuses_unknown_levels_and_passes(model):
    with pytest.raises(treadle.Error, match="opt_level is 9; expected 0 to 4"):
        treadle.compile(model, opt_level=9)
    with pytest.raises(treadle.Error, match="disabled pass 'FuseOpps' doesn't exist; did you mean 'FuseOps'"):
        treadle.compile(model, disabled_pass=["FuseOpps"])


def test_help_is_a_verb_too():
    assert run("help", "bench").stdout == run("bench", "--help").stdout
    assert "compile" in run("help").stdout
    assert run("help", "bnech").stderr.startswith("error: unknown verb 'bnech'; did you mean 'bench'?")


def test_flags_of_compiling_need_a_source(model, tmp_path):
    assert run("compile", model, "-o", tmp_path / "m.so").returncode == 0
    result = run("run", tmp_path / "m.so", "-i", "ones", "--target", "llvm")
    assert result.returncode == 2
    assert result.stderr.startswith("error: --target says how to compile, but ")


def test_thread_counts_have_a_limit(model):
    result = run("bench", model, "--threads", "100000")
    assert result.returncode == 2 and "--threads" in result.stderr


def test_bench_says_what_it_measured(model):
    sizes = ["--dim", "height=4", "--dim", "width=5"]
    result = run("bench", model, *sizes, "--repeat", "4", "--threads", "1")
    assert result.returncode == 0, result.stderr
    assert "x float32 (1, 3, 4, 5); 1 thread; llvm" in result.stdout and "4 runs" in result.stdout, result.stdout


RANGES = {"batch": "1..8", "height": "32k", "width": "16..64:8k"}


@pytest.mark.parametrize("shape, message", [
    ((9, 3, 32, 16), '"batch" of "x" has to be 1..8; given, and the nearest that fits: 9 and 8'),
    ((0, 3, 32, 16), '"batch" of "x" has to be 1..8; given, and the nearest that fits: 0 and 1'),
    ((1, 3, 33, 16), '"height" of "x" has to be a multiple of 32; given, and the nearest that fits: 33 and 32'),
    ((1, 3, 32, 20), '"width" of "x" has to be 16..64, a multiple of 8; given, and the nearest that fits: 20 and 16'),
])
def test_sizes_beyond_what_was_promised_stop_the_run(model, shape, message):
    compiled = treadle.compile(model, dims=RANGES)
    x = np.ones((8, 3, 64, 64), np.float32)
    np.testing.assert_array_equal(compiled(x=x, mask=x)["y"], x)
    x = np.ones(shape, np.float32)
    with pytest.raises(treadle.error.ShapeError, match=re.escape(message)):
        compiled(x=x, mask=x)


@pytest.mark.parametrize("text", ["8..1", "x", "0k", "-3k", "32K", "99999999999999999999k", "1..2:4k", "32k:1..64", "", "..", "1..2..3", "3.", "k"])
def test_ranges_that_hold_no_size_are_refused(model, text):
    with pytest.raises(treadle.error.Error, match="dimension 'batch'"):
        treadle.compile(model, dims={"batch": text})


def test_ranges_are_named_and_shown(model, tmp_path):
    result = run("compile", model, "--dim", "batch=1..8,height=32k", "--dim", "width=8", "-o", tmp_path / "m.so")
    assert result.returncode == 0, result.stderr
    assert "batch=1..8, height=32k" in run("inspect", tmp_path / "m.so").stdout
    assert treadle.load(tmp_path / "m.so").inputs[0].shape == ("batch", 3, "height", 8)
    result = run("compile", model, "--dim", "depth=1..8", "-o", tmp_path / "m.so")
    assert result.returncode != 0 and "no input has a dimension called 'depth'" in result.stderr
    result = run("run", model, "-i", "x=ones", "-i", "mask=ones", "--input-shapes", "x:[9,3,4,4] mask:[9,3,4,4]",
                 "--dim", "batch=1..8")
    assert result.returncode != 0
