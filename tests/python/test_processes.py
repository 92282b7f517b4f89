# SPDX-License-Identifier: Apache-2.0
"""Models in forked processes, several of them side by side in one, and what compiling takes of its memory."""
import multiprocessing
import subprocess
import sys
import threading

import numpy as np
import onnx
import pytest
import treadle
from treadle import relay
from treadle.contrib import graph_executor


def product(n, threads=None):
    """A product of matrices that has work for several threads, what it computes, and how to run it."""
    x = relay.var("x", shape=(n, n))
    weight = np.random.default_rng(n).standard_normal((n, n)).astype("float32")
    built = relay.build(relay.Function([x], relay.tanh(relay.nn.dense(x, relay.const(weight)))), "llvm")
    model = graph_executor.GraphModule(built["default"](treadle.cpu()))
    if threads is not None:
        model.module["set_num_threads"](threads)
    data = np.random.default_rng(1).standard_normal((n, n)).astype("float32")

    def run():
        model.set_input("x", data)
        model.run()
        np.testing.assert_allclose(model.get_output(0).numpy(), np.tanh(data @ weight.T), rtol=1e-3, atol=1e-4)

    return run


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_runs_and_builds():
    run = product(192)
    run()

    def child():
        run()
        product(160)()

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(120)
    assert process.exitcode == 0
    run()


def test_models_of_different_numbers_of_threads_run_side_by_side():
    runs = [product(96 + 32 * i, threads) for i, threads in enumerate((1, 2, 3, 8))]
    failures = []

    def repeat(run):
        try:
            for _ in range(30):
                run()
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = [threading.Thread(target=repeat, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


PEAK = """
import pathlib, sys, treadle
def status(field):
    return next(int(line.split()[1]) for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
pathlib.Path("/proc/self/clear_refs").write_text("5")
before = status("VmRSS")
treadle.compile(sys.argv[1])
print(status("VmHWM") - before)
"""


def test_weights_in_a_model_file_are_in_memory_twice_at_most_while_it_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("TREADLE_CACHE", "0")
    size, layers = 2048, 6
    weight = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    names = [f"v{i}" for i in range(layers + 1)]
    model = onnx.helper.make_model(onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(layers)], "g",
        [onnx.helper.make_tensor_value_info("v0", onnx.TensorProto.FLOAT, [8, size])],
        [onnx.helper.make_tensor_value_info(names[-1], onnx.TensorProto.FLOAT, [8, size])],
        [onnx.numpy_helper.from_array(weight + i, f"w{i}") for i in range(layers)]),
        opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    peak = int(subprocess.run([sys.executable, "-c", PEAK, path], check=True, capture_output=True, text=True).stdout)
    assert peak * 1024 < 2.2 * layers * weight.nbytes + (80 << 20)
