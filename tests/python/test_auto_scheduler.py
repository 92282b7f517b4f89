# SPDX-License-Identifier: Apache-2.0
"""The auto-scheduler's names, as its tutorials use them. Times are simulated, but in one test that runs a few."""
import json

import numpy as np
import pytest

import treadle as tvm
from treadle import auto_scheduler, te

TARGET = "llvm -mcpu=x86-64-v3 -num-cores=2"


@auto_scheduler.register_workload
def matmul_add(n, l, m):  # noqa: E741
    a, b, c = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B"), te.placeholder((n, m), name="C")
    k = te.reduce_axis((0, l), name="k")
    product = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="matmul")
    return [a, b, c, te.compute((n, m), lambda i, j: product[i, j] + c[i, j], name="out")]


def simulated(task, plans, runner):
    """Faster with more rows in a register tile."""
    rows = json.loads(plans[0])["plan"]["mr"] if plans else 1
    return auto_scheduler.records.MeasureResult((1.0 / rows,), 0, 0.0, 0.0)


def test_the_best_of_a_log_is_applied(monkeypatch, tmp_path):
    monkeypatch.setattr(auto_scheduler.SearchTask, "measure", simulated)
    monkeypatch.setattr(auto_scheduler.SearchTask, "ratios", lambda *_: [0.9] * 20)
    task, log = auto_scheduler.SearchTask(func=matmul_add, args=(64, 64, 64), target=TARGET), tmp_path / "log.json"
    task.tune(auto_scheduler.TuningOptions(num_measure_trials=60, num_measures_per_round=16,
                                           measure_callbacks=[auto_scheduler.RecordToFile(str(log))]))
    inputs, results = auto_scheduler.RecordReader(log).read_lines()
    assert len(inputs) <= 61 and len({i.plans for i in inputs}) == len(inputs)
    best, result = auto_scheduler.load_best_record(log, task.workload_key, task.target)
    assert min(min(r.costs) for r in results) == min(result.costs) and best.plans
    function, tensors = task.apply_best(str(log))
    a, b, c = (np.random.default_rng(i).random((64, 64), np.float32) for i in range(3))
    out = tvm.nd.array(np.zeros((64, 64), np.float32))
    tvm.build(function, tensors, target=TARGET)(*[tvm.nd.array(x) for x in (a, b, c)], out)
    np.testing.assert_allclose(out.numpy(), a @ b + c, rtol=1e-4)
    assert "packed_columns" in task.print_best(str(log))


def test_what_is_not_faster_in_turns_is_not_the_best(monkeypatch, tmp_path):
    """The least of many times of different moments often is luck."""
    monkeypatch.setattr(auto_scheduler.SearchTask, "measure", simulated)
    asked = []

    def ratios(task, plans, runner):
        asked.append(plans)
        return [0.9] * 20 if len(asked) == 3 else [0.9] * 10 + [1.1] * 10

    monkeypatch.setattr(auto_scheduler.SearchTask, "ratios", ratios)
    task, log = auto_scheduler.SearchTask(func=matmul_add, args=(64, 64, 64), target=TARGET), tmp_path / "log.json"
    options = auto_scheduler.TuningOptions(num_measure_trials=8, measure_callbacks=[auto_scheduler.RecordToFile(str(log))])
    task.tune(options)
    assert len(asked) == 3 == len(set(asked))
    assert auto_scheduler.load_best_record(log, task.workload_key, task.target)[0].plans == asked[2]
    withdrawn = [i.plans for i, r in auto_scheduler.RecordReader(log) if r.error_no]
    assert withdrawn == asked[:2]
    monkeypatch.setattr(auto_scheduler.SearchTask, "ratios", lambda *_: [])
    task.tune(options)
    assert [r.error_no for _, r in auto_scheduler.RecordReader(log)][-1] == 5
    assert auto_scheduler.load_best_record(log, task.workload_key, task.target)[0].plans == ()


def test_the_tutorial(tmp_path):
    log = str(tmp_path / "matmul.json")
    task = auto_scheduler.SearchTask(func=matmul_add, args=(32, 32, 32), target=TARGET)
    assert "matmul" in str(task.compute_dag)
    task.tune(auto_scheduler.TuningOptions(num_measure_trials=2, measure_callbacks=[auto_scheduler.RecordToFile(log)],
                                           runner=auto_scheduler.LocalRunner(number=1, min_repeat_ms=0)))
    results = [r for _, r in auto_scheduler.RecordReader(log) if r.error_msg != auto_scheduler.records.NOT_FASTER]
    assert len(results) == 3 and all(r.error_no == 0 for r in results)
    task.apply_best(log)


def test_logs_of_others_and_torn_lines_are_left_out(tmp_path):
    log = tmp_path / "log.json"
    log.write_text('{"i": [["[]", "llvm"], []], "r": [[1.0], 0, 0, 0], "v": "v0.6"}\n{"i": [[')
    assert list(auto_scheduler.RecordReader(log)) == []
    task = auto_scheduler.SearchTask(func=matmul_add, args=(8, 8, 8), target=TARGET)
    with pytest.raises(tvm.Error, match="no measurement"):
        task.apply_best(log)


@pytest.mark.parametrize("name", ["ApplyHistoryBestOrSample", "HardwareParams", "PythonBasedModel", "RPCRunner"])
def test_what_has_no_counterpart_is_refused_by_name(name):
    with pytest.raises(tvm.Error, match=f"auto_scheduler.{name}: "):
        getattr(auto_scheduler, name)()
