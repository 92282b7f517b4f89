# SPDX-License-Identifier: Apache-2.0
"""Many threads, many models: the same bits as alone, in memory and descriptors that don't grow.

TREADLE_STRESS=n does everything n times as often (nightly: 10)."""
import os
import random
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from soak import resident

TIMES = int(os.environ.get("TREADLE_STRESS", "1"))


def mapped():
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        return sum(1 for _ in file)


def network(n, dynamic=False):
    """Two products and a softmax of width n: a graph, or a program of the virtual machine."""
    rng = np.random.default_rng(n)
    weights = [numpy_helper.from_array(rng.standard_normal((n, n)).astype("float32") / n, f"w{i}") for i in range(2)]
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("MatMul", ["b", "w1"], ["c"]), helper.make_node("Softmax", ["c"], ["y"])]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows" if dynamic else 24, n])  # noqa: E731
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


@pytest.fixture(scope="module")
def models():
    return [treadle.compile(network(n, dynamic)) for n in (16, 48, 160) for dynamic in (False, True)]


def operands(model, rows=24):
    width = model.inputs[0].shape[1]
    return np.random.default_rng(width).standard_normal((rows, width)).astype("float32")


def in_threads(count, work):
    failures = []

    def guarded(index):
        try:
            work(index)
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not failures, failures[0]
    assert not any(thread.is_alive() for thread in threads)


def test_sixteen_threads_run_many_models_to_the_same_bits(models):
    inputs = [operands(model) for model in models]
    alone = [model.run(None, {"x": x})[0] for model, x in zip(models, inputs)]

    def work(index):
        choose = random.Random(index)
        for _ in range(60 * TIMES):
            k = choose.randrange(len(models))
            np.testing.assert_array_equal(models[k].run(None, {"x": inputs[k]})[0], alone[k])

    in_threads(16, work)


@pytest.mark.parametrize("rows", [1, 7, 24, 300])
def test_any_number_of_threads_gives_the_same_bits(models, rows):
    for model in models:
        if rows != 24 and isinstance(model.inputs[0].shape[0], int):
            continue
        x, results = operands(model, rows), []
        for threads in (1, 2, 3, 5, 8):
            context = model.create_context(threads)
            results += [context(x=x)["y"] for _ in range(3)]
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0])


def test_any_number_of_compiling_threads_gives_the_same_bytes(tmp_path):
    data = network(160)
    files = []
    for cores in ({0}, os.sched_getaffinity(0)):
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores & allowed or allowed)
        try:
            treadle.compile(data, target="llvm -mcpu=x86-64-v3 -num-cores=2").save(tmp_path / f"{len(files)}.so")
        finally:
            os.sched_setaffinity(0, allowed)
        files.append((tmp_path / f"{len(files)}.so").read_bytes())
    assert files[0] == files[1]


def test_loading_and_unloading_leaves_nothing(models, tmp_path):
    """1,000 times, from four threads; TREADLE_STRESS=10: 10,000 times."""
    paths = [tmp_path / f"{i}.so" for i in range(4)]
    for model, path in zip(models, paths):
        model.save(path)
    x = [operands(model) for model in models]
    expected = [model.run(None, {"x": x[i]})[0] for i, model in enumerate(models)]

    def work(index):
        for i in range(250 * TIMES):
            k = (index + i) % len(paths)
            loaded = treadle.load(paths[k])
            if i % 10 == 0:
                np.testing.assert_array_equal(loaded.run(None, {"x": x[k]})[0], expected[k])

    in_threads(4, work)
    before = resident(), mapped(), len(os.listdir("/proc/self/fd"))
    in_threads(4, work)
    after = resident(), mapped(), len(os.listdir("/proc/self/fd"))
    assert after[0] - before[0] < 4 << 20 and after[1] - before[1] < 20 and after[2] == before[2], (before, after)


def test_threads_change_the_number_of_threads_while_others_run(models):
    model = models[4]
    x = operands(model)
    alone = model.run(None, {"x": x})[0]

    def work(index):
        choose, context = random.Random(index), model.create_context()
        for _ in range(40 * TIMES):
            context._context.set_threads(choose.choice([0, 1, 2, 3, 4, 8, 16]))
            np.testing.assert_array_equal(context(x=x)["y"], alone)

    in_threads(8, work)


def test_runs_are_cancelled_while_others_go_on(models):
    model = models[5]
    x = operands(model, 300)
    alone = model.run(None, {"x": x})[0]
    counts = {"ended": 0, "done": 0}

    def work(index):
        choose, token = random.Random(index), treadle.CancelToken()
        for _ in range(40 * TIMES):
            token.reset()
            timer = threading.Timer(choose.random() * 2e-3, token.cancel)
            timer.start()
            try:
                np.testing.assert_array_equal(model.run(None, {"x": x}, cancel=token)[0], alone)
                counts["done"] += 1
            except treadle.error.RunCancelled:
                counts["ended"] += 1
            timer.join()
            np.testing.assert_array_equal(model.run(None, {"x": x})[0], alone)

    in_threads(4, work)
    assert counts["done"] + counts["ended"] == 160 * TIMES


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_children_forked_while_other_threads_run(models):
    model, stop = models[4], threading.Event()
    x = operands(model)
    alone = model.run(None, {"x": x})[0]

    def busy():
        while not stop.is_set():
            model.run(None, {"x": x})

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20 * TIMES):
            child = os.fork()
            if child == 0:
                # Contexts that the model keeps may be in use by threads that don't exist here: one of its own.
                os._exit(0 if np.array_equal(model.create_context()(x=x)["y"], alone) else 1)
            _, status = os.waitpid(child, 0)
            assert status == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
