# SPDX-License-Identifier: Apache-2.0
"""AutoTVM's names, as its tutorials use them. Times come from a simulated runner, but for one test that runs a few."""
import json

import numpy as np
import pytest

import treadle as tvm
from treadle import autotvm, relay, te

TARGET = "llvm -mcpu=x86-64-v3"


@autotvm.template("test/matmul")
def matmul(n, l, m):  # noqa: E741
    a, b = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B")
    k = te.reduce_axis((0, l), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    y, x = s[c].op.axis
    k = s[c].op.reduce_axis[0]
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2, filter=lambda e: e.size[-1] <= 16)
    cfg.define_knob("vectorize", [False, True])
    cfg.add_flop(2 * n * l * m)
    yo, yi = cfg["tile_y"].apply(s, c, y)
    xo, xi = cfg["tile_x"].apply(s, c, x)
    s[c].reorder(yo, xo, k, yi, xi)
    if cfg["vectorize"].val:
        s[c].vectorize(xi)
    return s, [a, b, c]


@autotvm.template("test/knobs")
def knobs(n):
    x = te.placeholder((n,))
    cfg = autotvm.get_config()
    for i in range(3):
        cfg.define_knob(f"k{i}", list(range(6)))
    y = te.compute((n,), lambda i: x[i] + 1.0)
    return te.create_schedule(y.op), [x, y]


class Clock:
    """Stands for LocalRunner: the time is what the configuration says, or it crashes."""

    def __init__(self, crash=()):
        self.crash = crash


@pytest.fixture
def simulated(monkeypatch):
    """Tuners' measurements without compiling: least where all knobs are 3."""

    def measure(task, config, option):
        values = [config[f"k{i}"].val for i in range(3)]
        if values in option.runner.crash:
            return autotvm.MeasureResult((1e9,), 4, 0.0, 0.0, "crashed: signal 11")
        return autotvm.MeasureResult((1 + sum((v - 3) ** 2 for v in values),), 0, 0.0, 0.0)

    monkeypatch.setattr(autotvm.tuner, "measure", measure)


def option(crash=()):
    return autotvm.measure_option(builder="local", runner=Clock([list(c) for c in crash]))


def test_a_task_has_the_space_of_its_template():
    task = autotvm.task.create("test/matmul", args=(16, 8, 32), target=TARGET)
    assert len(task.config_space) == 5 * 5 * 2 and task.flop == 2 * 16 * 8 * 32
    assert task.config_space.get(7)["tile_y"].size == [-1, 4]
    data = task.config_space.get(7).to_json_dict()
    assert autotvm.ConfigEntity.from_json_dict(json.loads(json.dumps(data))).to_json_dict() == data


@pytest.mark.parametrize("name", ["XGBTuner", "GATuner", "DropletTuner"])
def test_walks_find_the_best_of_a_space(simulated, name):
    task = autotvm.task.create("test/knobs", args=(8,), target=TARGET)
    tuner = getattr(autotvm.tuner, name)(task)
    tuner.tune(n_trial=100, measure_option=option())
    assert [tuner.best_config[f"k{i}"].val for i in range(3)] == [3, 3, 3]


def test_grid_and_random_measure_everything_once(simulated, tmp_path):
    for name in ("GridSearchTuner", "RandomTuner"):
        task, log = autotvm.task.create("test/knobs", args=(8,), target=TARGET), tmp_path / name
        tuner = getattr(autotvm.tuner, name)(task)
        tuner.tune(n_trial=1000, measure_option=option(), callbacks=[autotvm.callback.log_to_file(str(log))])
        indices = [i.config.index for i, _ in autotvm.record.load_from_file(log)]
        assert sorted(indices) == list(range(216))


def test_errors_are_results_and_early_stopping_stops(simulated, tmp_path, caplog):
    task = autotvm.task.create("test/knobs", args=(8,), target=TARGET)
    tuner = autotvm.tuner.GridSearchTuner(task)
    tuner.tune(n_trial=216, measure_option=option(crash=[(1, 0, 0)]), early_stopping=20)
    assert tuner.best_config is not None and len(tuner.seen) < 216
    assert "crashed: signal 11" in caplog.text


def test_the_best_of_a_log_is_what_calls_get(simulated, tmp_path):
    task, log = autotvm.task.create("test/knobs", args=(8,), target=TARGET), tmp_path / "log.json"
    autotvm.tuner.GridSearchTuner(task).tune(216, option(), callbacks=[autotvm.callback.log_to_file(str(log))])
    with open(log, "a") as file:
        file.write('{"torn')
    best = tmp_path / "best.json"
    autotvm.record.pick_best(log, best)
    assert len(best.read_text().splitlines()) == 1
    with autotvm.apply_history_best(str(best)), tvm.target.Target(TARGET):
        context = autotvm.env.DispatchContext.current.query(tvm.target.Target.current(), ("test/knobs", 8))
        assert [context[f"k{i}"].val for i in range(3)] == [3, 3, 3]
    with autotvm.apply_history_best(str(best)), tvm.target.Target("llvm"):  # another target
        assert autotvm.env.DispatchContext.current.query(tvm.target.Target.current(), ("test/knobs", 8)).is_fallback


def test_the_tutorial(tmp_path):
    """Tunes a small product for real: a few runs each, in processes of their own."""
    log = str(tmp_path / "matmul.log")
    task = autotvm.task.create("test/matmul", args=(32, 32, 32), target=TARGET)
    tuner = autotvm.tuner.RandomTuner(task)
    tuner.tune(n_trial=4, measure_option=autotvm.measure_option(builder="local", runner=autotvm.LocalRunner(number=1, repeat=1)),
               callbacks=[autotvm.callback.log_to_file(log)])
    assert all(result.error_no == 0 for _, result in autotvm.record.load_from_file(log))
    with autotvm.apply_history_best(log):
        with tvm.target.Target(TARGET):
            s, arg_bufs = matmul(32, 32, 32)
            func = tvm.build(s, arg_bufs)
    a, b = (np.random.default_rng(i).random((32, 32), np.float32) for i in range(2))
    c = tvm.nd.array(np.zeros((32, 32), np.float32))
    func(tvm.nd.array(a), tvm.nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)


def test_a_context_tells_its_configurations_without_being_entered(simulated, tmp_path):
    log = str(tmp_path / "log.json")
    task = autotvm.task.create("test/knobs", args=(8,), target=TARGET)
    monitor = autotvm.callback.Monitor()
    autotvm.tuner.GridSearchTuner(task).tune(12, option(), callbacks=[autotvm.callback.log_to_file(log), monitor])
    best = autotvm.apply_history_best(log).query(task.target, task.workload)
    assert [best[f"k{i}"].val for i in range(3)] == min(
        ([i.config[f"k{n}"].val for n in range(3)] for i, _ in autotvm.record.load_from_file(log)),
        key=lambda values: sum((v - 3) ** 2 for v in values))
    assert len(monitor.trial_scores()) == 12 and max(monitor.trial_scores()) < 8 and monitor.trial_timestamps()[0] > 0
    assert isinstance(autotvm.DispatchContext.current, autotvm.FallbackContext)
    with autotvm.task.ApplyConfig(best) as context:
        assert autotvm.DispatchContext.current is context and context.query(None, ("any",)) is best


@pytest.mark.parametrize("name, flop", [("test/matmul", 2 * 16 * 8 * 32), ("test/knobs", 16)])
def test_operations_are_counted_where_the_template_does_not_say(name, flop):
    assert autotvm.task.create(name, args=(16, 8, 32) if "matmul" in name else (16,), target=TARGET).flop == flop


def test_what_has_no_counterpart_is_refused_by_name():
    with pytest.raises(tvm.Error, match="register_topi_compute: .*strategy"):
        autotvm.register_topi_compute("conv2d.x86")
    with pytest.raises(tvm.Error, match="RPCRunner"):
        autotvm.RPCRunner("key", "host", 9190)
    with pytest.raises(tvm.Error, match="no template 'test/unheard'"):
        autotvm.task.create("test/unheard", args=(), target=TARGET)


def test_kernels_of_networks_are_tasks(tmp_path):
    """As the tutorial on networks has it, for real, but short."""
    data, weight = relay.var("data", shape=(1, 16, 12, 12)), relay.var("weight", shape=(32, 16, 3, 3))
    body = relay.nn.relu(relay.nn.conv2d(data, weight, padding=(1, 1), channels=32, kernel_size=(3, 3)))
    mod, target = tvm.IRModule.from_expr(relay.Function([data, weight], body)), "llvm -mcpu=native"
    params = {"weight": tvm.nd.array((np.random.default_rng(0).standard_normal((32, 16, 3, 3)) * 0.1).astype("float32"))}
    log = str(tmp_path / "log.json")
    tasks = autotvm.task.extract_from_program(mod["main"], target=target, params=params)
    assert len(tasks) == 1 and len(tasks[0].config_space) > 1
    for task in tasks:
        tuner = autotvm.tuner.XGBTuner(task, loss_type="rank")
        tuner.tune(n_trial=3, early_stopping=800, measure_option=autotvm.measure_option("local", "local"),
                   callbacks=[autotvm.callback.progress_bar(3), autotvm.callback.log_to_file(log)])
    assert len(autotvm.record.lines_of_networks(log)) >= 3
    with autotvm.apply_history_best(log):
        with tvm.transform.PassContext(opt_level=3):
            library = relay.build(mod, target=target, params=params)
    executor = tvm.graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(data=np.ones((1, 16, 12, 12), "float32"))
    assert np.isfinite(executor.get_output(0).numpy()).all()


def test_confirmed_plans_of_networks_have_a_time(monkeypatch):
    """The result of a confirmation had a cost of 0, by which the progress bar and Monitor divided."""
    data, weight = relay.var("data", shape=(1, 16, 12, 12)), relay.var("weight", shape=(32, 16, 3, 3))
    body = relay.nn.conv2d(data, weight, padding=(1, 1), channels=32, kernel_size=(3, 3))
    params = {"weight": tvm.nd.array(np.ones((32, 16, 3, 3), "float32"))}
    (task,) = autotvm.task.extract_from_program(tvm.IRModule.from_expr(relay.Function([data, weight], body)), params, "llvm")
    raced = {"state": "raced", "pairs": 9, "ratio": 0.5, "lo": 0.4, "hi": 0.6, "us": 12.0}
    monkeypatch.setattr(tvm.tuning, "measure_batch", lambda task, incumbent, plans, threads: [{**raced, "plan": p} for p in plans])
    monkeypatch.setattr(tvm.tuning, "confirm", lambda *_: {"accepted": True, "ratio": 0.5, "lo": 0.4, "hi": 0.6})
    costs, monitor = [], autotvm.callback.Monitor()
    autotvm.tuner.XGBTuner(task).tune(n_trial=2, measure_option=None, callbacks=[
        autotvm.callback.progress_bar(2), monitor, lambda tuner, inputs, results: costs.extend(r.costs[0] for r in results)])
    assert len(costs) == 3 and costs[-1] == pytest.approx(6e-6)
    assert all(score > 0 for score in monitor.trial_scores())


def test_measurements_go_to_a_database(simulated):
    task, db = autotvm.task.create("test/knobs", args=(8,), target=TARGET), autotvm.database.DummyDatabase()
    kept = []
    tuner = autotvm.tuner.GridSearchTuner(task)
    tuner.tune(n_trial=20, measure_option=option(), callbacks=[autotvm.callback.log_to_database(db),
                                                               lambda _tuner, inputs, results: kept.extend(zip(inputs, results))])
    first, result = kept[0]
    assert db.load(first).costs == result.costs and len(db.filter(lambda _input, results: results[0].error_no == 0)) == 20
    db.save(first, result._replace(costs=(0.5,)), extend=True)
    assert [each.costs for each in db.load(first, get_all=True)] == [result.costs, (0.5,)]
    db.flush()
    assert db.load(first) is None
    with pytest.raises(tvm.Error, match="log_to_database: expected a database"):
        autotvm.callback.log_to_database("x.log")


def test_tuners_of_ones_own_walk_through_a_space():
    space = autotvm.task.create("test/knobs", args=(8,), target=TARGET).config_space
    assert space.range_length == 216 and space.is_index_valid(215) and not space.is_index_valid(216)
    assert all(space.knob2point(space.point2knob(i)) == i for i in range(216))
    neighbour = space.random_walk(7)
    assert sum(a != b for a, b in zip(space.point2knob(7), space.point2knob(neighbour))) == 1
    assert len(set(space.sample_ints(50))) == 50 and len(space.sample_ints(1000)) == 216
    assert space.get_rand_index(3, 6, to_exclude=[3, 5]) == 4 and space.subrange_length(200, 300) == 16
    assert [space.get_next_index(i, 5, 8) for i in (0, 5, 7)] == [5, 6, None]
    with pytest.raises(IndexError):
        space.get_rand_index(3, 4, to_exclude=[3])


def test_splits_of_templates_without_records():
    cfg = autotvm.FallbackConfigEntity()
    cfg.define_split("tile", 48, num_outputs=4)
    cfg.define_knob("unroll", [0, 1])
    cfg.fallback_split("tile", [-1, 2, 9, 4])
    assert cfg["tile"].size == [1, 2, 6, 4]
    for name, constraints, message in (("unroll", [-1, 2], "no split 'unroll'"), ("tile", [-1, 2], "has 4 parts"),
                                       ("tile", [4, 2, 2, 3], "expected one -1")):
        with pytest.raises(tvm.Error, match=message):
            cfg.fallback_split(name, constraints)
    with pytest.raises(tvm.Error, match="ApplyHistoryBest"):
        cfg.fallback_with_reference_log("x")


def test_several_logs_and_configurations_that_are_set(simulated, tmp_path):
    for size in (8, 16):
        task = autotvm.task.create("test/knobs", args=(size,), target=TARGET)
        autotvm.tuner.XGBTuner(task).tune(n_trial=60, measure_option=option(),
                                          callbacks=[autotvm.callback.log_to_file(str(tmp_path / f"{size}.log"))])
    best = autotvm.ApplyHistoryBest([str(tmp_path / "8.log"), tmp_path / "16.log"])
    assert len(best.best) == 2
    one = autotvm.tophub.context(TARGET, [str(tmp_path / "8.log")])
    assert len(one.best) == 1
    one.load(str(tmp_path / "16.log"))
    assert str(one.best) == str(best.best)
    config = task.config_space.get(5)
    one.update(task.target, task.workload, config)
    assert one.query(task.target, task.workload) is config
    with autotvm.tophub.context(TARGET):  # nothing to download
        pass
    with open(tmp_path / "all.log", "w") as both:
        both.write((tmp_path / "8.log").read_text() + (tmp_path / "16.log").read_text())
    with open(tmp_path / "all.log") as file:
        assert str(autotvm.ApplyHistoryBest(file).best) == str(best.best)
    parts = autotvm.record.split_workload(str(tmp_path / "all.log"))
    assert [autotvm.ApplyHistoryBest(part).best.keys() <= best.best.keys() for part in parts] == [True, True]


def test_tuners_begin_again_and_warn_of_errors(simulated, caplog):
    task = autotvm.task.create("test/knobs", args=(8,), target=TARGET)
    tuner = autotvm.tuner.GridSearchTuner(task)
    tuner.set_error_threshold(3)
    crash = [[i % 6, i // 6 % 6, i // 36] for i in range(216)]
    tuner.tune(n_trial=8, measure_option=option(crash))
    assert "3 configurations one after another had errors" in caplog.text
    tuner.reset()
    assert tuner.has_next() and not tuner.seen and tuner.best_config is None
    with pytest.raises(tvm.Error, match="set_error_threshold: threshold"):
        tuner.set_error_threshold(0)


def test_units_of_numbers():
    assert autotvm.utils.format_si_prefix(2e9, "G") == 2
    with pytest.raises(tvm.Error, match="expected a prefix of '', 'k', 'M', 'G', 'T', not 'm'"):
        autotvm.utils.format_si_prefix(1.0, "m")
    with pytest.raises(TypeError, match="abstract"):
        autotvm.database.Database()
