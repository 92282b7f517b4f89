# SPDX-License-Identifier: Apache-2.0
"""Runs and compilations that are ended: by a token, by a time limit, by a limit of memory."""
import subprocess
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

ROOT_BIN = __import__("pathlib").Path(treadle.__file__).parent / "bin" / "treadle"


def endless(trips=2**40):
    """Counts up to x: an hour or more for large ones, in kernels that take no time."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["going"], ["still"]), helper.make_node("Add", ["v", "one"], ["w"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("going", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("still", TensorProto.BOOL, []),
         helper.make_tensor_value_info("w", TensorProto.FLOAT, [4])])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], "g",
        [helper.make_tensor_value_info("n", TensorProto.INT64, []),
         helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(np.ones(4, np.float32), "one")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)


def chain(length=400, size=400):
    """Products, one after the other: about 50 ms of a graph of kernels."""
    nodes = [helper.make_node("MatMul", [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(length)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [size, size])],
                              [helper.make_tensor_value_info(f"v{length}", TensorProto.FLOAT, [size, size])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)


X = {"n": np.array(2**40), "x": np.zeros(4, np.float32)}
FEW = {"n": np.array(3), "x": np.zeros(4, np.float32)}


@pytest.fixture(scope="module")
def loop():
    return treadle.compile(endless(), threads=1)


@pytest.fixture(scope="module")
def products():
    return treadle.compile(chain())


def test_a_loop_ends_after_its_time(loop):
    with pytest.raises(treadle.error.RunTimeout, match="longer than its time limit of 0.05 s"):
        loop.run(None, X, timeout=0.05)
    with pytest.raises(TimeoutError):
        loop.run(None, X, timeout=0.05)
    np.testing.assert_array_equal(loop.run(None, FEW, timeout=1000)[0], np.full(4, 3, np.float32))


def test_another_thread_ends_a_loop(loop):
    token = treadle.CancelToken()
    threading.Timer(0.05, token.cancel).start()
    with pytest.raises(treadle.error.RunCancelled):
        loop.run(None, X, cancel=token)
    with pytest.raises(treadle.error.RunCancelled):
        loop.run(None, FEW, cancel=token)
    token.reset()
    np.testing.assert_array_equal(loop.run(None, FEW, cancel=token)[0], np.full(4, 3, np.float32))


def test_a_token_ends_runs_of_many_threads(loop):
    token, ended = treadle.CancelToken(), []

    def work():
        try:
            loop.run(None, X, cancel=token)
        except treadle.error.RunCancelled:
            ended.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    token.cancel()
    for thread in threads:
        thread.join(60)
    assert len(ended) == 8


def test_a_graph_ends_between_its_kernels(products):
    x = np.eye(400, dtype=np.float32)
    context = products.create_context()
    with pytest.raises(treadle.error.RunTimeout):
        context.run({"v0": x}, timeout=1e-4)
    np.testing.assert_array_equal(context.run({"v0": x}, timeout=1000)["v400"], x)
    np.testing.assert_array_equal(context(v0=x)["v400"], x)


def test_an_interpreted_kernel_ends_while_it_runs():
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8),
                            target="stackvm")
    with pytest.raises(treadle.error.RunTimeout):
        model.run(None, {"x": np.zeros((500, 500), np.float32)}, timeout=0.1)  # half a minute's work
    x = np.array([[1, 2], [3, 4]], np.float32)
    np.testing.assert_array_equal(model.run(None, {"x": x}, timeout=1000)[0], x @ x)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "1", True])
def test_wrong_time_limits(loop, timeout):
    with pytest.raises(treadle.Error, match="timeout is"):
        loop.run(None, FEW, timeout=timeout)


def test_run_options_terminate():
    session = treadle.onnxruntime.InferenceSession(endless().SerializeToString())
    options = treadle.onnxruntime.RunOptions()
    assert options.terminate is False
    threading.Timer(0.1, lambda: setattr(options, "terminate", True)).start()
    with pytest.raises(Exception, match="cancelled"):
        session.run(None, X, options)


def test_the_command_ends_a_run(tmp_path):
    onnx.save(endless(), tmp_path / "loop.onnx")
    np.savez(tmp_path / "in.npz", **X)
    command = [str(ROOT_BIN), "run", str(tmp_path / "loop.onnx"), "-i", str(tmp_path / "in.npz"), "--timeout"]
    ended = subprocess.run([*command, "0.1"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 5 and "time limit of 0.1 s" in ended.stderr
    assert subprocess.run([*command, "-1"], capture_output=True, timeout=60).returncode == 2


def test_compiling_ends_after_its_time():
    with pytest.raises(treadle.error.RunTimeout, match="compiling took more than 0.01 seconds"):
        treadle.compile(chain(20), max_seconds=0.01)


def test_compiling_in_a_child(tmp_path):
    bounded = treadle.compile(endless(), max_seconds=600, max_memory=4 << 30, threads=1)
    np.testing.assert_array_equal(bounded.run(None, FEW)[0], np.full(4, 3, np.float32))
    bounded.save(tmp_path / "kept.so")
    np.testing.assert_array_equal(treadle.load(tmp_path / "kept.so").run(None, FEW)[0], np.full(4, 3, np.float32))


def test_compiling_ends_at_its_memory():
    with pytest.raises(treadle.error.RuntimeError, match="memory"):
        treadle.compile(chain(2), max_memory=60 << 20)


def test_errors_of_the_child_are_those_of_compiling():
    with pytest.raises(treadle.ModelFormatError):
        treadle.compile(b"no model", max_seconds=600)


def test_functions_of_modules_end_after_their_time():
    """Bytecode that counts for hours, called without a model around it."""
    n, x = treadle.te.var("n", "int64"), treadle.te.placeholder((1,), "int64", "x")
    k = treadle.te.reduce_axis((0, n), "k")
    y = treadle.te.compute((1,), lambda i: treadle.te.max(x[i] + k, k), "y")
    module = treadle.build(treadle.te.create_schedule(y.op), [n, x, y], "stackvm")
    count = lambda times, **how: treadle.limited(  # noqa: E731
        module, times, treadle.nd.array(np.zeros(1, np.int64)), result, **how)
    result = treadle.nd.array(np.zeros(1, np.int64))
    with pytest.raises(treadle.error.RunTimeout, match="longer than its time limit of 0.05 s"):
        count(2**40, timeout=0.05)
    token = treadle.CancelToken()
    threading.Timer(0.05, token.cancel).start()
    with pytest.raises(treadle.error.RunCancelled):
        count(2**40, cancel=token)
    count(5, timeout=60)
    assert result.numpy()[0] == 4
    with pytest.raises(treadle.Error, match="timeout is -1; expected seconds above 0"):
        treadle.limited(max, 1, 2, timeout=-1)


@pytest.mark.parametrize("repeats", [[2**62, 1], [2**29, 2**10], [3, 2]])
def test_tensors_that_kernels_never_store_are_limited(repeats):
    """A tensor that is repeated without end and reduced in one kernel: the run had no end, as nothing was allocated."""
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["x", "one"], ["s"], keepdims=0), helper.make_node("Tile", ["s", "r"], ["t"]),
         helper.make_node("ReduceMax", ["t"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.INT32, [None, "n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [1, 1])],
        [numpy_helper.from_array(np.array([1], "i8"), "one"), numpy_helper.from_array(np.array(repeats, "i8"), "r")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    x = np.ones((4, 2, 3), "i4")
    if repeats == [3, 2]:
        np.testing.assert_array_equal(model.run(None, {"x": x})[0], [[2]])
        return
    with pytest.raises(treadle.ShapeError, match="'Tile#1'.*a tensor is larger than --max-tensor-bytes allows"):
        model.run(None, {"x": x}, timeout=60)


@pytest.mark.parametrize("repeats", [2**62, 2**62 + 1, 2**48 + 1])
def test_repeats_of_a_size_of_the_run_that_overflow_are_refused(repeats):
    """4 times 2^62 is 0 in 64 bits: the result was empty. Of one more, the kernel had no end."""
    graph = helper.make_graph([helper.make_node("Tile", ["x", "r"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m"])],
                              [numpy_helper.from_array(np.array([repeats], "i8"), "r")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    with pytest.raises(treadle.error.ShapeError, match=r"\(Tile\): a tensor is larger than --max-tensor-bytes allows"):
        model(x=np.ones(4, np.float32))
    assert model(x=np.ones(0, np.float32))["y"].shape == (0,)
