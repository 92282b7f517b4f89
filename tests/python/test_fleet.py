# SPDX-License-Identifier: Apache-2.0
"""The coordinator of a fleet with simulated workers: the number of workers, their order and their loss change nothing
but the time. With Ray itself: tests/fleet (needs treadle[tune])."""
import json
import random
import subprocess
import sys

import pytest

import treadle
from treadle import fleet, tuning
from treadle._fleet_page import Page

TARGET = "llvm -mcpu=x86-64-v3 -num-cores=2"


def task(m):
    problem = {"type": "schedule.MatmulProblem", "batch": 1, "m": m, "n": 256, "k": 256, "dtype": "float32",
               "weight_dtype": "float32", "out_dtype": "float32", "transpose_b": False, "constant_b": False, "n_block": 16,
               "packs_b": False, "b_is_parameter": False}
    return json.dumps({"problem": json.dumps(problem, separators=(",", ":")), "kernel": "matmul.packed", "plan": "",
                       "symbol": "f", "source": "", "target": TARGET, "uses": 1, "outputs": 1, "seconds": 0, "arguments": []})


def simulated_time(text):
    plan = json.loads(text)
    return 1 + abs(plan["mr"] - 5) / 10 + abs(plan["nr"] - 2) / 5 + plan["kc"] / 4096


def answer(batch):
    results = []
    for plan in batch.plans:
        ratio = simulated_time(plan) / simulated_time(batch.incumbent)
        results.append({"plan": plan, "state": "raced" if ratio < 0.985 else "rejected", "err": "", "ratio": ratio,
                        "lo": ratio, "hi": ratio, "pairs": 8, "us": 1.0})
    return results


def run(workers, seed=0, loss=0.0, poison=None):
    """`workers` work at once and end in random order; some are lost."""
    rng = random.Random(workers)
    coordinator = fleet.Coordinator([task(m) for m in (64, 96, 512)], seed=seed, batch=4, round_size=16, max_rounds=5)
    busy, lines = [], []
    while not coordinator.finished:
        while len(busy) < workers and (batch := coordinator.next_batch()) is not None:
            busy.append(batch)
        batch = busy.pop(rng.randrange(len(busy)))
        if rng.random() < loss or poison in batch.plans:
            coordinator.lost(batch.id)
        else:
            coordinator.done(batch.id, answer(batch))
            coordinator.done(batch.id, answer(batch))  # a second answer
        lines += coordinator.take_lines()
    return sorted(lines), coordinator


def test_records_dont_depend_on_the_number_of_workers():
    one, _ = run(1)
    assert one and run(3)[0] == one and run(8)[0] == one
    assert run(1, seed=1)[0] != one


def test_losing_workers_costs_measurements_and_nothing_else():
    lines, coordinator = run(3, loss=0.1)
    assert coordinator.measured_again > 0
    assert lines == run(3)[0]


def test_a_plan_that_ends_workers_is_an_error_and_the_session_goes_on():
    poison = tuning.Search(task(64), batch=16).propose()[2]
    lines, coordinator = run(2, poison=poison)
    errors = [json.loads(line) for line in lines if '"state":"error"' in line]
    assert poison in [json.dumps(e["plan"], separators=(",", ":")) for e in errors]
    assert all(e["err"] == "the worker was lost each time" for e in errors)
    assert len(coordinator.winners()) == 3


class FakeRay:
    """Of Ray what the driver of a fleet calls, on a clock of its own. Actor 0 is lost in the middle of its first batch and
    doesn't answer before `back`."""

    class exceptions:
        class RayActorError(Exception):
            pass

        class RayTaskError(Exception):
            pass

    def __init__(self, actors, back):
        self.now, self.back, self.down = 0.0, back, False
        self.batches_while_down = 0
        self.actors = [FakeActor(self, i) for i in range(actors)]

    def monotonic(self):
        return self.now

    time = monotonic

    def sleep(self, seconds):
        self.now += seconds

    def wait(self, calls, num_returns, timeout):
        self.now += 1
        return calls[:1], calls[1:]

    def get(self, call):
        kind, actor, batch = call.kind, call.actor, call.batch
        lost = actor.index == 0 and self.now < self.back
        if lost:
            self.batches_while_down += kind == "measure" and self.down
            raise self.exceptions.RayActorError("it died")
        return answer(batch) if kind == "measure" else None


class FakeCall:
    def __init__(self, kind, actor, batch=None):
        self.kind, self.actor, self.batch = kind, actor, batch


class FakeActor:
    def __init__(self, ray, index):
        self.ray, self.index = ray, index
        self.measure, self.__ray_ready__ = self, FakeReady(self)

    def remote(self, _task, incumbent, plans):
        self.ray.down |= self.index == 0 and self.ray.now > 3  # its first two batches are lost by then
        return FakeCall("measure", self, fleet.Batch(0, 0, incumbent, plans))


class Confirming:
    """An actor that confirms `count` plans, and is lost then."""

    def __init__(self, ray, count):
        self.ray, self.count, self.confirm = ray, count, self

    def remote(self, task, plan):
        self.count -= 1
        return (self.count >= 0, plan)


def test_plans_are_confirmed_by_slots_that_are_left():
    class Ray:
        class exceptions:
            class RayError(Exception):
                pass

            class RayActorError(RayError):
                pass

        def get(self, call):
            if not call[0]:
                raise self.exceptions.RayActorError("it died")
            return {"accepted": True}

    class Winners:
        def winners(self):
            return [("task", str(i)) for i in range(7)]
    for counts, expected in (((9, 9), 7), ((1, 9, 0), 7), ((0, 2), 2), ((), 0)):
        ray, said = Ray(), []
        found = [pair for pair, _ in fleet._confirm(ray, Winners(), [Confirming(ray, n) for n in counts], said.append)]
        assert len(found) == len(set(found)) == expected
        assert sum("no slot answers" in line for line in said) == 7 - expected


class FakeReady:
    def __init__(self, actor):
        self.actor = actor

    def remote(self):
        return FakeCall("ready", self.actor)


@pytest.mark.parametrize("back", [0, 10, 1000])
def test_a_lost_node_gets_no_batches_before_it_is_back(back, monkeypatch, tmp_path):
    """However long that takes, no batch is given up, and the records are the same."""
    ray = FakeRay(2, back)
    monkeypatch.setattr(fleet, "clock", ray)
    coordinator = fleet.Coordinator([task(m) for m in (64, 96)], batch=4, round_size=16, max_rounds=4, now=lambda: 0)
    fleet._run(ray, coordinator, ray.actors, float("inf"), lambda line: None, str(tmp_path / "records.jsonl"))
    assert coordinator.finished and ray.batches_while_down == 0 and coordinator.measured_again == (1 if back else 0)
    lines = (tmp_path / "records.jsonl").read_text()
    assert lines and '"state":"error"' not in lines


def test_slots_that_never_answer_end_the_session(monkeypatch, tmp_path):
    ray = FakeRay(1, float("inf"))
    monkeypatch.setattr(fleet, "clock", ray)
    coordinator = fleet.Coordinator([task(64)], batch=4, round_size=16, max_rounds=4, now=lambda: 0)
    with pytest.raises(treadle.Error, match="no slot answers"):
        fleet._run(ray, coordinator, ray.actors, float("inf"), lambda line: None, str(tmp_path / "records.jsonl"))


def test_without_ray_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(treadle.Error, match=r"treadle\[tune\]"):
        fleet.tune("m.onnx", "r.jsonl")


def test_the_page_tells_devices_rates_and_gain(tmp_path):
    seconds = iter(range(100))
    page = Page(tmp_path / "fleet.html", 2, now=lambda: next(seconds))
    page.done(0, 8, [1.0, 1.0])
    page.done(1, 4, [0.9, 1.0])
    page.lost(1)
    page.write(last=True)
    text = (tmp_path / "fleet.html").read_text()
    assert "<b>12</b> candidates" in text and "0.949" in text and "<td>slot 1</td><td>4</td>" in text
    assert "http-equiv" in page.text() and "http-equiv" not in text and "//" not in text
    Page(None, 1).write(last=True)  # nobody watches


@pytest.mark.parametrize("arguments, text", [(["missing.onnx", "-o", "r.jsonl"], "can't open missing.onnx"),
                                             (["missing.onnx", "-o", "r.jsonl", "--time", "soon"], "expected seconds"),
                                             (["missing.onnx"], "error: --output is required")])
def test_mistakes_are_told_before_a_cluster_starts(arguments, text):
    result = subprocess.run([sys.executable, "-m", "treadle.fleet", *arguments], capture_output=True, text=True, check=False)
    assert result.returncode != 0 and text in result.stderr and "Traceback" not in result.stderr
