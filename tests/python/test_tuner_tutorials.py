# SPDX-License-Identifier: Apache-2.0
"""What tutorials of the original's tuners do, call by call, with few trials. Written anew from their APIs."""
import importlib
import json

import numpy as np
import pytest

import treadle as tvm
from treadle import auto_scheduler, autotvm, relay, te
from treadle import meta_schedule as ms

TARGET = "llvm -mcpu=native"


@pytest.fixture(scope="module")
def network():
    """A small image network: (module, parameters)."""
    data = relay.var("data", shape=(1, 16, 12, 12))
    body = relay.nn.relu(relay.nn.conv2d(data, relay.var("a", shape=(32, 16, 3, 3)), padding=(1, 1), channels=32, kernel_size=(3, 3)))
    body = relay.nn.dense(relay.nn.batch_flatten(body), relay.var("b", shape=(10, 32 * 144)))
    rng = np.random.default_rng(0)
    params = {"a": tvm.nd.array((rng.standard_normal((32, 16, 3, 3)) * 0.1).astype("float32")),
              "b": tvm.nd.array((rng.standard_normal((10, 32 * 144)) * 0.1).astype("float32"))}
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body)), params


def outputs(library):
    executor = tvm.graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.set_input("data", np.ones((1, 16, 12, 12), "float32"))
    executor.run()
    return executor.get_output(0).numpy()


def test_tuning_a_network_by_autotvm(network, tmp_path):
    mod, params = network
    log, graph_log = str(tmp_path / "kernels.log"), str(tmp_path / "graph.log")
    option = autotvm.measure_option(
        builder=autotvm.LocalBuilder(),
        runner=autotvm.LocalRunner(number=1, repeat=10, min_repeat_ms=0, enable_cpu_cache_flush=True))
    tasks = autotvm.task.extract_from_program(mod["main"], target=TARGET, params=params, ops=(relay.op.get("nn.conv2d"),))
    assert {task.name.split(".")[0] for task in tasks} == {"conv2d"}
    assert [task.flop for task in tasks] == [2 * 32 * 12 * 12 * 16 * 3 * 3]
    for i, task in enumerate(tasks):
        tuner = autotvm.tuner.XGBTuner(task, loss_type="rank")
        tuner.tune(n_trial=2, early_stopping=None, measure_option=option,
                   callbacks=[autotvm.callback.progress_bar(2, prefix=f"[Task {i + 1}]"), autotvm.callback.log_to_file(log)])
    for tuner_class in (autotvm.graph_tuner.DPTuner, autotvm.graph_tuner.PBQPTuner):
        executor = tuner_class(mod["main"], {"data": (1, 16, 12, 12)}, log, [relay.op.get("nn.conv2d")], TARGET)
        executor.benchmark_layout_transform(min_exec_num=2000)
        executor.run()
        executor.write_opt_sch2record_file(graph_log)
    with autotvm.apply_graph_best(graph_log), tvm.transform.PassContext(opt_level=3):
        tuned = relay.build(mod, target=TARGET, params=params)
    np.testing.assert_allclose(outputs(tuned), outputs(relay.build(mod, target=TARGET, params=params)), rtol=1e-4, atol=1e-4)


def test_operations_of_products():
    x, w = relay.var("x", shape=(64, 512)), relay.const(np.ones((256, 512), "float32"))
    tasks = autotvm.task.extract_from_program(relay.Function([x], relay.nn.dense(x, w)), target=TARGET, params={})
    assert [task.flop for task in tasks] == [2 * 64 * 256 * 512]


def test_kernels_of_operators_without_any_are_refused(network):
    mod, params = network
    with pytest.raises(tvm.Error, match="no kernels are for nn.softmax; there are kernels for .*nn.conv2d"):
        autotvm.task.extract_from_program(mod["main"], target=TARGET, params=params, ops=(relay.op.get("nn.softmax"),))


def test_tuning_a_network_by_the_auto_scheduler(network, tmp_path):
    mod, params = network
    log = str(tmp_path / "network.json")
    tasks, weights = auto_scheduler.extract_tasks(mod["main"], params, TARGET)
    for task in tasks:
        assert task.workload_key and "nn." in str(task.compute_dag)
    tuner = auto_scheduler.TaskScheduler(tasks, weights)
    tuner.tune(auto_scheduler.TuningOptions(
        num_measure_trials=2, runner=auto_scheduler.LocalRunner(repeat=10, enable_cpu_cache_flush=True),
        measure_callbacks=[auto_scheduler.RecordToFile(log)]))
    assert not auto_scheduler.is_auto_scheduler_enabled()
    with auto_scheduler.ApplyHistoryBest(log):
        with tvm.transform.PassContext(opt_level=3, config={"relay.backend.use_auto_scheduler": True}):
            assert auto_scheduler.is_auto_scheduler_enabled()
            assert np.isfinite(outputs(relay.build(mod, target=TARGET, params=params))).all()


@auto_scheduler.register_workload("test_tuner_tutorials.product")
def product(n, l, m):  # noqa: E741
    a, b, c = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B"), te.placeholder((n, m), name="C")
    k = te.reduce_axis((0, l), name="k")
    out = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="matmul")
    return [a, b, c, te.compute((n, m), lambda i, j: out[i, j] + c[i, j], name="out")]


@auto_scheduler.register_workload("test_tuner_tutorials.stencil")
def stencil(n):
    x = te.placeholder((n + 2, n), name="x")
    return [x, te.compute((n, n), lambda i, j: x[i, j] + x[i + 1, j] + x[i + 2, j], name="y")]


@pytest.mark.parametrize("name, args", [("product", (64, 64, 64)), ("stencil", (64,))])
def test_resuming_a_search_by_a_policy(name, args, monkeypatch, tmp_path):
    """What a log has isn't measured again."""
    log, measured = str(tmp_path / "log.json"), []

    def simulated(task, plans, runner):
        measured.append(tuple(plans))
        return auto_scheduler.MeasureResult((1.0 + len(str(plans)) * 1e-3,), 0, 0.0, 0.0)

    monkeypatch.setattr(auto_scheduler.SearchTask, "measure", simulated)
    task = auto_scheduler.SearchTask(func=f"test_tuner_tutorials.{name}", args=args, target=TARGET)
    options = auto_scheduler.TuningOptions(num_measure_trials=6, measure_callbacks=[auto_scheduler.RecordToFile(log)])
    task.tune(options, auto_scheduler.SketchPolicy(task, auto_scheduler.RandomModel(), seed=3))
    first = len(measured)
    model = auto_scheduler.XGBModel()
    model.update_from_file(log)
    policy = auto_scheduler.SketchPolicy(task, model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)])
    task.tune(options, search_policy=policy)
    again = set(measured[:first]) & set(measured[first:])
    assert len(measured) > first and len(again) <= 1  # the best one, to compare with
    task.apply_best(log)


def test_parameters_of_an_evolutionary_search_are_refused():
    task = auto_scheduler.SearchTask(func="test_tuner_tutorials.product", args=(8, 8, 8), target=TARGET)
    with pytest.raises(tvm.Error, match="sample_init_min_population"):
        auto_scheduler.SketchPolicy(task, params={"sample_init_min_population": 50})
    with pytest.raises(tvm.Error, match="no such log"):
        auto_scheduler.PreloadMeasuredStates("missing.json")


def test_the_part_of_a_round_that_is_drawn_anew():
    task = auto_scheduler.SearchTask(func="test_tuner_tutorials.stencil", args=(64,), target=TARGET)
    policy = auto_scheduler.SketchPolicy(task, params={"eps_greedy": 0.5})
    assert policy.params == {"eps_greedy": 0.5} and auto_scheduler.SketchPolicy.DEFAULT_PARAMS.keys() == {"eps_greedy"}
    for wrong in (2, "much", True):
        with pytest.raises(tvm.Error, match="eps_greedy is .*; expected a number from 0 to 1"):
            auto_scheduler.SketchPolicy(task, params={"eps_greedy": wrong})
    changed = []

    class Sketch:
        def sample(self, random):
            return random.random()

        def mutate(self, decision, random):
            changed.append(decision)
            return random.random()

    for epsilon, count in ((1.0, 0), (0.0, 20)):
        search = ms.tir_integration.Search(Sketch(), 0, epsilon)
        search.tell(0.5, 1.0)
        search.propose(20)
        assert len(changed) == count


def test_the_best_of_a_log(tmp_path):
    log, short = str(tmp_path / "all.json"), str(tmp_path / "best.json")
    inputs = [auto_scheduler.MeasureInput(f'["w", {i // 3}]', TARGET, (str(i),)) for i in range(6)]
    results = [auto_scheduler.MeasureResult((float(10 - i),), auto_scheduler.MeasureErrorNo.NO_ERROR, 0.0, 0.0) for i in range(6)]
    auto_scheduler.save_records(log, inputs, results)
    auto_scheduler.measure_record.distill_record_file(log, short)
    assert [i.plans for i, _ in auto_scheduler.load_records(short)] == [("2",), ("5",)]
    task = auto_scheduler.SearchTask(func="test_tuner_tutorials.product", args=(8, 8, 8), target=TARGET)
    other = auto_scheduler.SearchTask(func="test_tuner_tutorials.product", args=(8, 8, 9), target=TARGET)
    assert task.compute_dag.hash_key() == task.compute_dag.hash_key() != other.compute_dag.hash_key()
    assert len(auto_scheduler.workload_registry.workload_key_to_tensors(task.workload_key)) == len(task.tensors)


def test_databases_keep_the_best(tmp_path):
    function = sums()
    all_of_it = ms.Database.create("memory")
    for seconds in (3.0, 1.0, 2.0):
        all_of_it.commit(function, TARGET, {"number": seconds}, [seconds])
    best = ms.Database.create("json", work_dir=tmp_path)
    all_of_it.dump_pruned(best)
    assert [r["run_secs"] for r in ms.database.JSONDatabase(work_dir=tmp_path).records] == [[1.0]]


def tiled(sch):
    """A space of one's own."""
    block = sch.get_block("c")
    i, j, k = sch.get_loops(block)
    rows, columns = sch.sample_perfect_tile(i, n=2, max_innermost_factor=8), sch.sample_perfect_tile(j, n=2, max_innermost_factor=16)
    io, ii = sch.split(i, rows)
    jo, ji = sch.split(j, columns)
    sch.reorder(io, jo, k, ii, ji)
    sch.parallel(io)
    if sch.sample_categorical([0, 1], [0.5, 0.5]):
        sch.unroll(ii)


class Vectors(ms.PyScheduleRule):
    """Vectors, or none."""

    def apply(self, sch, block):
        plain = sch.copy()
        sch.vectorize(sch.get_loops(block)[-1])
        return [plain, sch]


def sums():
    a, b = te.placeholder((32, 32), name="a"), te.placeholder((32, 32), name="b")
    k = te.reduce_axis((0, 32), "k")
    return te.create_prim_func([a, b, te.compute((32, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")])


def moves():
    a = te.placeholder((32, 32), name="a")
    return te.create_prim_func([a, te.compute((32, 32), lambda i, j: a[i, j] * 2.0, name="b")])


class Simulated(ms.LocalRunner):
    """Faster where more is unrolled or in vectors."""

    def time(self, function, target):
        return ms.runner.Timed((1.0 / (1 + str(function).count("vectorized") + str(function).count("unroll")),))

    def ratios(self, *_args, **_options):
        return [0.5] * 20


@pytest.mark.parametrize("make, space, part", [(sums, tiled, "unroll"), (sums, ms.ScheduleFn(tiled), "unroll"),
                                               (moves, ms.PostOrderApply(sch_rules=[Vectors()]), "vectorized")])
def test_spaces_of_ones_own(make, space, part, tmp_path):
    function = make()
    ms.tune_tir(function, TARGET, tmp_path, 12, runner=Simulated(), space=space, seed=1)
    database = ms.Database(tmp_path)
    assert len(database) == len({json.dumps(r["decision"]) for r in database.records})
    schedule = ms.compile_tir(database, function, TARGET)
    assert part in str(schedule.func)
    arrays = [np.random.default_rng(i).random((32, 32), np.float32) for i in range(len(function.params) - 1)]
    out = tvm.nd.array(np.zeros((32, 32), np.float32))
    tvm.build(schedule.func, target=TARGET)(*map(tvm.nd.array, arrays), out)
    np.testing.assert_allclose(out.numpy(), arrays[0] @ arrays[1] if len(arrays) == 2 else arrays[0] * 2, rtol=1e-4)


@pytest.mark.parametrize("make", [lambda: ms.schedule_rule.MultiLevelTiling(structure="SSRSRS"), lambda: ms.postproc.RewriteLayout(),
                                  lambda: ms.mutator.MutateTileSize(), lambda: ms.PostOrderApply(),
                                  lambda: ms.tune_tir(sums(), TARGET, space="thin-air")])
def test_what_sketches_do_anyway_is_refused(make):
    with pytest.raises(tvm.Error):
        make()


def test_cold_runs_take_inputs_from_memory():
    """Copies that take turns: no assertion on times, but that such runs work and give a time."""
    function = sums()
    config = ms.EvaluatorConfig(number=2, repeat=3, min_repeat_ms=0, enable_cpu_cache_flush=True)
    timed = ms.LocalRunner(evaluator_config=config).time(ms.tir_integration.usual(function, tvm.target.Target(TARGET)), TARGET)
    assert len(timed.seconds) == 3 and not timed.error


@pytest.mark.parametrize("module, names", [
    ("autotvm.tuner.xgboost_tuner", "XGBTuner"), ("autotvm.task.space", "ConfigSpace ConfigEntity"),
    ("autotvm.task.dispatcher", "ApplyHistoryBest DispatchContext"), ("autotvm.tuner.callback", "log_to_file Monitor"),
    ("auto_scheduler.measure_record", "load_records RecordToFile"), ("auto_scheduler.search_task", "SearchTask TuningOptions"),
    ("auto_scheduler.workload_registry", "register_workload"), ("auto_scheduler.search_policy", "SketchPolicy"),
    ("auto_scheduler.task_scheduler", "TaskScheduler PrintTableInfo"), ("meta_schedule.utils", "derived_object"),
    ("autotvm.database", "DummyDatabase RedisDatabase"), ("autotvm.tophub", "context check_backend"),
    ("autotvm.utils", "get_rank format_si_prefix"), ("autotvm.measure.measure_methods", "LocalRunner request_remote"),
    ("autotvm.tuner.sa_model_optimizer", "SimulatedAnnealingOptimizer"), ("meta_schedule.arg_info", "TensorInfo"),
    ("meta_schedule.profiler", "Profiler"), ("meta_schedule.extracted_task", "ExtractedTask"),
    ("meta_schedule.tune", "tune_tasks"), ("meta_schedule.search_strategy", "EvolutionarySearch")])
def test_names_under_the_paths_that_scripts_import(module, names):
    found = importlib.import_module(f"treadle.{module}")
    assert all(hasattr(found, name) for name in names.split())


@pytest.mark.parametrize("make", [
    lambda: ms.TuneConfig(max_trials_global=4), lambda: ms.search_strategy.EvolutionarySearch(), lambda: ms.cost_model.XGBModel(),
    lambda: ms.measure_callback.AddToDatabase(), lambda: ms.Profiler(), lambda: ms.database.TuningRecord(),
    lambda: autotvm.tophub.check_backend(None, "llvm"), lambda: autotvm.database.RedisDatabase(),
    lambda: autotvm.measure.request_remote("key"), lambda: autotvm.task.args_to_workload([]),
    lambda: autotvm.task.space.ConfigSpace().multi_filter(None), lambda: auto_scheduler.measure.ProgramMeasurer(),
    lambda: auto_scheduler.PythonBasedMeasureCallback(), lambda: ms.tune_te(), lambda: ms.SpaceGenerator(), lambda: ms.Postproc(),
    lambda: ms.arg_info.TensorInfo("float32", (1,)),
    lambda: auto_scheduler.task_scheduler.LogEstimatedLatency("x"), lambda: auto_scheduler.auto_schedule(None),
    lambda: auto_scheduler.SearchTask(func="test_tuner_tutorials.stencil", args=(8,), task_inputs={"x": None})])
def test_what_has_no_counterpart_says_what_has(make):
    with pytest.raises(tvm.Error, match=": .* "):
        make()


def test_tuning_the_tasks_of_a_network_by_meta_schedule(network, tmp_path):
    mod, params = network
    extracted = ms.relay_integration.extract_tasks(mod, TARGET, params)
    assert all("nn." in task.compute_dag and task.task_name for task in extracted)
    tasks, weights = ms.relay_integration.extracted_tasks_to_tune_contexts(extracted, tmp_path)
    database = ms.tune_tasks(tasks=tasks, task_weights=weights, work_dir=tmp_path, max_trials_global=2)
    with database, tvm.transform.PassContext(opt_level=3):
        assert np.isfinite(outputs(relay.build(mod, target=TARGET, params=params))).all()
    with pytest.raises(tvm.Error, match="tasks of one network"):
        ms.tune_tasks(tasks=[], task_weights=[], work_dir=tmp_path, max_trials_global=2)


def test_databases_of_several_kinds(tmp_path):
    function = sums()
    first, second = ms.database.create("json", work_dir=tmp_path / "a"), ms.database.create("memory")
    first.commit(function, TARGET, {"n": 1}, [2.0])
    second.commit(function, TARGET, {"n": 2}, [1.0])
    again = ms.database.JSONDatabase(path_workload=tmp_path / "a" / "w.json", path_tuning_record=tmp_path / "a" / "r.json")
    assert len(again) == 1
    assert ms.database.create("union", again, second).best(function, TARGET)["decision"] == {"n": 2}
    with pytest.raises(tvm.Error, match="json, memory, union, not 'redis'"):
        ms.database.create("redis")
