# SPDX-License-Identifier: Apache-2.0
"""Sketches of loop-level functions, and MetaSchedule's names. Times are simulated, but where a test says so."""
import json
import random

import numpy as np
import pytest

import treadle as tvm
from treadle import auto_scheduler, relay, te, tir
from treadle import meta_schedule as ms
from treadle.meta_schedule.runner import Timed

TARGET = "llvm -mcpu=x86-64-v3 -num-cores=2"


def product():
    a, b = te.placeholder((24, 40), name="A"), te.placeholder((40, 32), name="B")
    k = te.reduce_axis((0, 40), name="k")
    c = te.compute((24, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return [a, b, te.compute((24, 32), lambda i, j: c[i, j] * 2.0 + 1.0, name="D")]


def batched():
    a, b = te.placeholder((3, 8, 20), name="A"), te.placeholder((3, 20, 16), name="B")
    k = te.reduce_axis((0, 20), name="k")
    return [a, b, te.compute((3, 8, 16), lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k), name="C")]


def convolution():
    x, w = te.placeholder((1, 8, 14, 14), name="X"), te.placeholder((16, 8, 3, 3), name="W")
    padded = te.compute((1, 8, 16, 16), lambda n, c, h, i: tvm.tir.if_then_else(
        tir.all(h >= 1, h < 15, i >= 1, i < 15), x[n, c, h - 1, i - 1], tir.const(0.0, "float32")), name="pad")
    c, r, s = (te.reduce_axis((0, e), name=n) for e, n in ((8, "c"), (3, "r"), (3, "s")))
    y = te.compute((1, 16, 14, 14), lambda n, o, h, i: te.sum(padded[n, c, h + r, i + s] * w[o, c, r, s], axis=[c, r, s]), name="Y")
    return [x, w, y]


def softmax():
    x = te.placeholder((12, 30), name="X")
    k, l = te.reduce_axis((0, 30), name="k"), te.reduce_axis((0, 30), name="l")
    top = te.compute((12,), lambda i: te.max(x[i, k], axis=k), name="top")
    e = te.compute((12, 30), lambda i, j: te.exp(x[i, j] - top[i]), name="e")
    total = te.compute((12,), lambda i: te.sum(e[i, l], axis=l), name="total")
    return [x, te.compute((12, 30), lambda i, j: e[i, j] / total[i], name="Y")]


def stencil():
    x = te.placeholder((18, 34), name="X")
    s = te.compute((18, 34), lambda i, j: x[i, j] * 3.0, name="S")
    return [x, te.compute((16, 32), lambda i, j: s[i, j] + s[i + 1, j] + s[i + 2, j + 2], name="Y")]


def run(function, tensors, target=TARGET):
    rng = np.random.default_rng(0)
    values = [rng.standard_normal([int(d) for d in t.shape]).astype("float32") for t in tensors]
    arrays = [tvm.nd.array(v) for v in values]
    tvm.build(function, target=target)(*arrays)
    return arrays[-1].numpy()


@pytest.mark.parametrize("make", [product, batched, convolution, softmax, stencil])
def test_decisions_of_sketches_compute_the_same(make):
    tensors = make()
    function = te.create_prim_func(tensors)
    expected = run(function, tensors, "llvm")
    sketch, rng = ms.Sketch(function), random.Random(3)
    assert sketch.parts
    decision = sketch.sample(rng)
    for _ in range(5):
        again = json.loads(json.dumps(decision))
        np.testing.assert_allclose(run(sketch.apply(again).func, tensors), expected, rtol=1e-4, atol=1e-4)
        decision = sketch.mutate(decision, rng)


def test_a_decision_of_another_function_is_refused():
    sketch = ms.Sketch(te.create_prim_func(product()))
    with pytest.raises(tvm.tir.ScheduleError, match="blocks"):
        sketch.apply([])


class Simulated(ms.LocalRunner):
    """Faster with longer vectors of the innermost tile; the schedule that functions get anyway takes a second."""

    def __init__(self):
        super().__init__()
        self.timed, self.real = 0, {}

    def time(self, function, target):
        self.timed += 1
        seconds = 1.0 if self.timed == 1 else 2.0 / str(function).count("vectorized")
        self.real[str(function)] = seconds
        return Timed((seconds,))

    def ratios(self, incumbent, candidate, target, pairs=20, block=0.002):
        return [self.real[str(candidate)] / self.real[str(incumbent)]] * pairs


def test_tune_tir_finds_the_best_of_what_it_measures_and_goes_on(tmp_path):
    function, runner = te.create_prim_func(product()), Simulated()
    database = ms.tune_tir(function, TARGET, tmp_path, 20, runner=runner, seed=5)
    assert runner.timed == len(database) == 20
    best = database.best(function, tvm.target.Target(TARGET))
    assert best["run_secs"] == [min(runner.real.values())]
    again = ms.Database(tmp_path)
    schedule = ms.compile_tir(again, function, TARGET)
    np.testing.assert_allclose(run(schedule.func, product()), run(function, product(), "llvm"), rtol=1e-4)
    assert ms.compile_tir(again, te.create_prim_func(batched()), TARGET) is None


def test_what_isnt_faster_in_turns_isnt_taken(tmp_path):
    class Lucky(Simulated):
        def ratios(self, *_args, **_options):
            return [1.01] * 20

    function = te.create_prim_func(product())
    database = ms.tune_tir(function, TARGET, tmp_path, 12, runner=Lucky())
    assert database.best(function, tvm.target.Target(TARGET))["decision"] is None


def test_proposals_are_a_function_of_seed_and_outcomes():
    def session(seed):
        search = ms.tir_integration.Search(ms.Sketch(te.create_prim_func(product())), seed)
        proposed = []
        for _ in range(3):
            for decision in search.propose(8):
                proposed.append(decision)
                search.tell(decision, float(len(str(decision))))
        return proposed

    assert session(1) == session(1) != session(2)


def test_databases_are_queried():
    database, function = ms.database.MemoryDatabase(), te.create_prim_func(product())
    mod = tvm.IRModule({"main": function})
    assert not database.has_workload(mod) and database.query_schedule(mod, TARGET) is None
    assert database.query_ir_module(mod, TARGET) is None and database.get_all_tuning_records() == []
    database.commit(function, tvm.target.Target(TARGET), None, (2.0, 4.0))
    assert database.has_workload(mod) and database.query_tuning_record(mod, TARGET)["run_secs"] == [2.0, 4.0]
    assert database.query(mod, TARGET, kind="record") == database.get_all_tuning_records()[0]
    assert "vectorized" in str(database.query_ir_module(mod, TARGET)["main"])
    assert isinstance(database.query(mod, TARGET), tir.Schedule)
    with pytest.raises(tvm.error.Error, match="schedule, record, ir_module"):
        database.query(mod, TARGET, kind="trace")


def test_torn_lines_of_a_database_are_left_out(tmp_path):
    function = te.create_prim_func(product())
    ms.tune_tir(function, TARGET, tmp_path, 4, runner=Simulated())
    path = tmp_path / "database_tuning_record.json"
    path.write_text(path.read_text() + '{"workload": "x", "tar\n[1]\n{"v": 7}\n')
    assert len(ms.Database(tmp_path)) == 4


def test_tune_tir_for_real(tmp_path):
    """Short: that it works, not what it finds."""
    function = te.create_prim_func(batched())
    database = ms.tune_tir(function, "llvm -mcpu=native", tmp_path, 3, runner=ms.LocalRunner(number=1, min_repeat_ms=0))
    assert len(database) >= 3 and ms.compile_tir(database, function, "llvm -mcpu=native") is not None


def test_search_tasks_of_what_no_kernel_is_for(monkeypatch, tmp_path):
    auto_scheduler.register_workload("test_meta_schedule.stencil", stencil, override=True)
    monkeypatch.setattr(auto_scheduler.SearchTask, "measure", lambda task, plans, runner: auto_scheduler.records.MeasureResult(
        (1.0 / (1 + len(str(plans))),), 0, 0.0, 0.0))
    monkeypatch.setattr(auto_scheduler.SearchTask, "ratios", lambda *_: [0.9] * 20)
    log = str(tmp_path / "log.json")
    task = auto_scheduler.SearchTask(func="test_meta_schedule.stencil", args=(), target=TARGET)
    task.tune(auto_scheduler.TuningOptions(num_measure_trials=10, measure_callbacks=[auto_scheduler.RecordToFile(log)]))
    assert len(auto_scheduler.RecordReader(log).read_lines()[0]) == 11
    function, tensors = task.apply_best(log)
    np.testing.assert_allclose(run(function, tensors), run(te.create_prim_func(stencil()), tensors, "llvm"), rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def network():
    data = relay.var("data", shape=(1, 16, 12, 12))
    weight = relay.var("weight", shape=(32, 16, 3, 3))
    body = relay.nn.relu(relay.nn.conv2d(data, weight, padding=(1, 1), channels=32, kernel_size=(3, 3)))
    module = tvm.IRModule.from_expr(relay.Function([data, weight], body))
    return module, {"weight": tvm.nd.array((np.random.default_rng(0).standard_normal((32, 16, 3, 3)) * 0.1).astype("float32"))}


def outputs(library):
    executor = tvm.graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.set_input("data", np.ones((1, 16, 12, 12), "float32"))
    executor.run()
    return executor.get_output(0).numpy()


def test_networks_by_meta_schedules_names(network, tmp_path):
    """For real, but short."""
    module, params = network
    tasks = ms.extract_tasks(module, "llvm -mcpu=native", params)
    assert [task.weight for task in tasks] == [1] and "conv2d" in tasks[0].desc
    database = ms.tune_relay(module, params, "llvm -mcpu=native", tmp_path, 4)
    library = ms.compile_relay(database, module, "llvm -mcpu=native", params)
    np.testing.assert_allclose(outputs(library), outputs(relay.build(module, "llvm", params=params)), atol=1e-4)


def test_networks_by_the_auto_schedulers_names(network, tmp_path):
    """For real, but short."""
    module, params = network
    tasks, weights = auto_scheduler.extract_tasks(module["main"], params, "llvm -mcpu=native")
    log = str(tmp_path / "log.json")
    options = auto_scheduler.TuningOptions(num_measure_trials=4, runner=auto_scheduler.LocalRunner(repeat=1),
                                           measure_callbacks=[auto_scheduler.RecordToFile(log)])
    auto_scheduler.TaskScheduler(tasks, weights).tune(options)
    with auto_scheduler.ApplyHistoryBest(log):
        with tvm.transform.PassContext(opt_level=3, config={"relay.backend.use_auto_scheduler": True}):
            library = relay.build(module, target="llvm -mcpu=native", params=params)
    np.testing.assert_allclose(outputs(library), outputs(relay.build(module, "llvm", params=params)), atol=1e-4)
    with pytest.raises(tvm.Error, match="RecordToFile"):
        auto_scheduler.TaskScheduler(tasks, weights).tune(auto_scheduler.TuningOptions(num_measure_trials=1))
