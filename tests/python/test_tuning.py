# SPDX-License-Identifier: Apache-2.0
"""Records of measured plans: builds take them, and only where they fit. Times are simulated; what is measured isn't
checked for how long it took."""
import json
import pathlib
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle import tuning
from treadle.relay.frontend import from_onnx

NATIVE = "llvm -mcpu=native"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A convolution of 5 x 5 (the direct kernel) and ReLU."""
    rng = np.random.default_rng(0)
    w = (rng.standard_normal((32, 16, 5, 5)) * 0.1).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[2] * 4), helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(nodes, "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 16, 12, 12))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(w, "w")])
    path = tmp_path_factory.mktemp("tuning") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def task(model):
    (task,) = tuning.tasks(model)
    return task


def other_plan(task):
    """A plan of other code than the default one's."""
    plan = json.loads(json.loads(task)["plan"])
    plan["tile_ow"] = 5
    return json.dumps(plan, separators=(",", ":"))


def kernels(model, tmp_path, **options):
    """What the build says about the plans it took."""
    treadle.compile(model, **options)  # fills the cache, from which the dump mustn't come
    folder = tmp_path / "dump"
    treadle.model._api.CompileOnnx(model.read_bytes(), "", {
        "target": NATIVE, "dump": ["kernels"], "dump_dir": str(folder),
        "config": {k: str(v) for k, v in options.get("pass_config", {}).items()}})
    return (folder / "kernels.txt").read_text()


def test_tasks_say_what_can_be_tuned(model, task):
    data = json.loads(task)
    assert data["kernel"] == "conv2d.direct" and [a["constant"] for a in data["arguments"]] == [False, True, False]
    report = treadle.tune(model, dry_run=True)
    assert [t["state"] for t in report.tasks] == ["default"] and "conv2d.direct" in str(report)


def test_builds_take_confirmed_plans_from_the_file_that_is_named(model, task, tmp_path, monkeypatch):
    plan = other_plan(task)
    records = tmp_path / "records.jsonl"
    tuning.append_records(records, [tuning.record_line(task, plan=plan, state="confirmed", ratio=0.9, lo=0.89, hi=0.91)])
    assert plan not in kernels(model, tmp_path / "a")
    config = {"schedule.records": records}
    assert plan in kernels(model, tmp_path / "b", pass_config=config)
    x = np.random.default_rng(1).standard_normal((1, 16, 12, 12)).astype(np.float32)
    (plain,), (tuned,) = (treadle.compile(model, pass_config=c).run(None, {"x": x}) for c in ({}, config))
    np.testing.assert_allclose(tuned, plain, rtol=1e-4, atol=1e-4)
    monkeypatch.setenv("TREADLE_RECORDS", str(records))
    assert plan in kernels(model, tmp_path / "c")


def test_relay_builds_take_them_too(model, task, tmp_path):
    plan = other_plan(task)
    records = tmp_path / "records.jsonl"
    tuning.append_records(records, [tuning.record_line(task, plan=plan, state="confirmed", ratio=0.9, lo=0.89, hi=0.91)])
    mod, params = from_onnx(onnx.load(model))
    sources = []
    for config in ({}, {"schedule.records": str(records)}):
        with treadle.transform.PassContext(opt_level=3, config=config):
            sources.append(treadle.relay.build(mod, target=NATIVE, params=params).get_lib().get_source("tir"))
    assert sources[0] != sources[1]


@pytest.mark.parametrize("fields", [{"state": "raced"}, {"state": "confirmed", "machine": "elsewhere"}])
def test_others_are_left_alone(model, task, tmp_path, fields):
    records = tmp_path / "records.jsonl"
    plan = other_plan(task)
    tuning.append_records(records, [tuning.record_line(task, plan=plan, ratio=0.5, lo=0.5, hi=0.5, **fields)])
    assert plan not in kernels(model, tmp_path, pass_config={"schedule.records": records})


def test_a_missing_file_is_an_error(model, tmp_path):
    with pytest.raises(treadle.Error, match="nowhere.jsonl"):
        treadle.compile(model, pass_config={"schedule.records": tmp_path / "nowhere.jsonl"})


def measurements(records):
    """Candidates of the search: without what confirmation and the whole model said about them."""
    return [r for r in records if r["state"] in ("raced", "rejected", "error")
            and r["err"] not in ("not confirmed", "the whole model wasn't faster")]


def test_a_session_writes_records_and_continues(model, tmp_path):
    """For real, but short: that it works, not what it finds."""
    records = tmp_path / "records.jsonl"
    lines = []
    first = treadle.tune(model, records, time=60, trials=6, graph=False, progress=lines.append)
    read = tuning.read_records(records)
    assert not read["faults"] and lines
    assert first.data["measured"] == len(measurements(read["records"])) > 0
    tried = {r["plan"] for r in measurements(read["records"]) if r["state"] != "raced"}
    treadle.tune(model, records, time=60, trials=4, graph=False)
    again = tuning.read_records(records)["records"][len(read["records"]):]
    assert not [r for r in measurements(again) if r["plan"] in tried]


def test_a_new_process_measures_what_another_one_extracted(task, tmp_path):
    """A worker's first call: nothing was imported, parsed or compiled there before."""
    script = ("import json, sys; from treadle import tuning; task = sys.stdin.read(); plan = json.loads(task)['plan']; "
              "print(tuning.measure_batch(task, plan, [plan])[0]['err'])")
    result = subprocess.run([sys.executable, "-c", script], input=task, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "the same code as the incumbent's"


def test_a_session_that_is_killed_loses_what_it_was_measuring(model, tmp_path):
    """The file has whole lines of all that was said to be measured, and the next session goes on from them."""
    records = tmp_path / "records.jsonl"
    command = [str(pathlib.Path(treadle.__file__).parent / "bin" / "treadle"), "tune", str(model), "-o", str(records),
               "--time", "60s", "--no-graph"]
    session = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while time.monotonic() < until and (not records.exists() or records.read_text().count("\n") < 4):
        time.sleep(0.02)
    session.kill()
    session.wait()
    killed = tuning.read_records(records)
    assert not killed["faults"] and len(killed["records"]) >= 3
    treadle.tune(model, records, time=60, graph=False, trials=2)
    assert [r["plan"] for r in tuning.read_records(records)["records"][:len(killed["records"])]] == [
        r["plan"] for r in killed["records"]]


def graph_model(path):
    """Two convolutions of 3 x 3, of 24 and of 40 channels, and a sum beside them: blocks of 8 and of 16 channels meet."""
    rng = np.random.default_rng(1)
    weights = {"a": (24, 16, 3, 3), "b": (40, 24, 3, 3), "c": (40, 24, 1, 1)}
    nodes = [helper.make_node("Conv", ["x", "a"], ["t"], pads=[1] * 4), helper.make_node("Relu", ["t"], ["u"]),
             helper.make_node("Conv", ["u", "b"], ["v"], pads=[1] * 4), helper.make_node("Conv", ["u", "c"], ["w"]),
             helper.make_node("Add", ["v", "w"], ["y"])]
    graph = helper.make_graph(nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 16, 12, 12))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array((rng.standard_normal(s) * 0.1).astype(np.float32), n) for n, s in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def graph_problems(path, target, tmp_path, plans=""):
    """(problem, kernel) of the convolutions of the graph, as the build chose them."""
    folder = tmp_path / "dump"
    treadle.model._api.CompileOnnx(path.read_bytes(), "", {
        "target": target, "dump": ["kernels"], "dump_dir": str(folder), "config": {"schedule.plans": plans}})
    graph = (folder / "kernels.txt").read_text().split("# Loops of its kernels.")[0]
    assert "left out" not in graph
    lines = [json.loads(line) for line in graph.splitlines() if line.startswith("{")]
    return [(line["problem"], line["kernel"]) for line in lines]


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64-v3", "llvm -mcpu=znver4"])
def test_records_state_algorithms_and_blocks_of_channels(target, tmp_path):
    path = graph_model(tmp_path / "graph.onnx")
    x = {"x": np.random.default_rng(2).standard_normal((1, 16, 12, 12)).astype(np.float32)}
    usual = graph_problems(path, target, tmp_path)
    expected = treadle.compile(path, target="llvm").run(None, x)[0]
    for problem, kernel in usual:
        for block in {8, 16} - {problem["oc_block"]}:
            plan = {"type": "schedule.ConvBlockPlan", "block": block}
            line = json.dumps({"problem": problem, "kernel": "conv2d.block", "plan": plan})
            blocks = [p["oc_block"] for p, _ in graph_problems(path, target, tmp_path, line)]
            assert blocks != [p["oc_block"] for p, _ in usual] and block in blocks
            runs_here = "v3" in target
            if runs_here:
                result = treadle.compile(path, target=target, pass_config={"schedule.plans": line}).run(None, x)[0]
                np.testing.assert_allclose(result, expected, atol=1e-4)
        line = json.dumps({"problem": problem, "kernel": "conv2d.plain", "plan": None})
        kernels = [k for p, k in graph_problems(path, target, tmp_path, line) if p == problem]
        assert kernels == ["conv2d.plain"]


def test_a_report_is_a_page_or_data(model, tmp_path):
    report = treadle.tune(model, tmp_path / "records.jsonl", time=60, trials=3)
    page, data = tmp_path / "report.html", tmp_path / "report.json"
    report.save(page)
    report.save(data)
    html = page.read_text()
    assert "conv2d.direct" in html and "<svg" in html and "http" not in html and html.count("<details") == len(report.tasks)
    assert json.loads(data.read_text())["tasks"] == report.tasks


def test_what_the_environment_names_is_no_default(model, task, tmp_path, monkeypatch):
    """While tuning: records are compared with default plans."""
    records = tmp_path / "records.jsonl"
    tuning.append_records(records, [tuning.record_line(task, plan=other_plan(task), state="confirmed", ratio=0.5, lo=0.4, hi=0.6)])
    monkeypatch.setenv("TREADLE_RECORDS", str(records))
    (found,) = treadle.tune(model, dry_run=True).tasks
    assert found["plan"] == json.loads(json.loads(task)["plan"])


def test_batches_are_measured_for_workers(task):
    """What a fleet's slots do: a plan of other code, the incumbent itself, and one that can't be applied."""
    default, other = json.loads(task)["plan"], other_plan(task)
    foreign = other.replace('"tile_ow":5', '"tile_ow":99')
    raced, same, refused = tuning.measure_batch(task, default, [other, default, foreign])
    assert raced["pairs"] > 0 and raced["state"] in ("raced", "rejected")
    assert same["err"] == "the same code as the incumbent's"
    assert refused["state"] == "error" and "tiles of 99 outputs" in refused["err"]


def test_search_is_a_function_of_seed_and_outcomes(task):
    def proposals(workers, seed):
        search = tuning.Search(task, seed=seed, batch=8)
        everything = []
        for _ in range(4):
            plans = search.propose()
            outcomes = [None] * len(plans)
            for first in range(workers):
                for i in range(first, len(plans), workers):
                    ratio = 0.5 + (hash_of(plans[i]) % 1000) / 1000
                    outcomes[i] = (True, ratio < search.ratio, ratio)
            search.tell(outcomes)
            everything += plans
        return everything

    def hash_of(text):
        return sum(ord(c) * (i + 1) for i, c in enumerate(text))

    assert proposals(1, 0) == proposals(3, 0)


@pytest.mark.parametrize("time", ["", "ten", 0, "-3s"])
def test_times_are_checked(model, time):
    with pytest.raises(treadle.Error, match="time"):
        treadle.tune(model, "r.jsonl", time=time)


def test_the_command_line_lists_checks_merges_and_prunes(task, tmp_path):
    program = pathlib.Path(treadle.__file__).parent / "bin" / "treadle"

    def treadle_records(*arguments):
        return subprocess.run([program, "records", *map(str, arguments)], capture_output=True, text=True)

    plan, a, b, both = other_plan(task), tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "both.jsonl"
    tuning.append_records(a, [tuning.record_line(task, plan=plan, state="confirmed", ratio=0.9, lo=0.89, hi=0.91)])
    tuning.append_records(b, [tuning.record_line(task, plan=plan, state="raced", ratio=0.8, lo=0.8, hi=0.8), "torn\n"])
    assert "0.900" in treadle_records("best", a).stdout and treadle_records("best", b).stdout.startswith("left out: line 2")
    assert treadle_records("merge", a, b, "-o", both).returncode == 0
    checked = treadle_records("check", both)
    assert checked.returncode == 4 and "3 lines, 2 records" in checked.stdout and "line 3" in checked.stdout
    small = tmp_path / "small.jsonl"
    assert treadle_records("prune", both, "-o", small).returncode == 0
    assert small.read_text() == a.read_text()
    listed = json.loads(treadle_records("list", both, "--json").stdout)
    assert [r["state"] for r in listed["records"]] == ["confirmed", "raced"]
