# SPDX-License-Identifier: Apache-2.0
"""Models in forked processes, and several of them side by side in one."""
import multiprocessing
import threading

import numpy as np
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
