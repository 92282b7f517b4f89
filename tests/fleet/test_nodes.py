# SPDX-License-Identifier: Apache-2.0
"""fleet.tune on clusters of several nodes of this machine: needs treadle[tune]. Not a part of `make test`:

    python -m pytest tests/fleet
"""
import functools
import sys
import threading
import time
import zlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ray = pytest.importorskip("ray")
from ray.cluster_utils import Cluster  # noqa: E402
from treadle import fleet, tuning  # noqa: E402

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
BATCH_SECONDS = 0.2
pytestmark = pytest.mark.timeout(3600)  # a busy machine is no failure: rounds end the sessions


def seconds_of(plan):
    return 0.8 + zlib.crc32(plan.encode()) % 1000 / 2500


class Simulated:
    """A slot whose times are a function of the plan."""

    def __init__(self, threads=0, jobs=0):
        pass

    def measure(self, _task, incumbent, plans):
        time.sleep(BATCH_SECONDS)
        ratios = [seconds_of(plan) / seconds_of(incumbent) for plan in plans]
        return [{"plan": plan, "state": "raced" if ratio < 0.985 else "rejected", "err": "", "ratio": ratio, "lo": ratio,
                 "hi": ratio, "pairs": 8, "us": 1.0} for plan, ratio in zip(plans, ratios)]

    def confirm(self, _task, _plan):
        return {"accepted": True, "ratio": 0.9, "lo": 0.9, "hi": 0.9, "pairs": 42}


@pytest.fixture
def model(tmp_path):
    """Three convolutions with plans to choose from."""
    rng = np.random.default_rng(0)
    nodes, weights, name = [], [], "x"
    for i in range(3):
        weights.append(numpy_helper.from_array((rng.standard_normal((32, 32 if i else 16, 5, 5)) * 0.1).astype(np.float32), f"w{i}"))
        nodes.append(helper.make_node("Conv", [name, f"w{i}"], [f"y{i}"], pads=[2] * 4, strides=[1 + (i == 1)] * 2))
        name = f"y{i}"
    graph = helper.make_graph(nodes, "layers", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 16, 24, 24))],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)], weights)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def nodes_of(count):
    """A cluster with a head that measures nothing and `count` nodes of a slot each."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False,
                                                            "object_store_memory": 80 << 20})
    slots = [cluster.add_node(num_cpus=1, resources={"treadle_slot": 1}, object_store_memory=80 << 20) for _ in range(count)]
    cluster.wait_for_nodes()
    return cluster, slots


def tuned(model, output, count, monkeypatch, lose=False):
    """(records without what depends on the moment, batches that were measured again). The rounds end the session, however
    long they take; `lose`: a node goes once records are written, which is while batches are under way on all nodes."""
    monkeypatch.setattr(fleet, "Slot", Simulated)
    cluster, slots = nodes_of(count)
    said, losing = [], []

    def heard(line):
        said.append(line)
        if lose and not losing and output.exists() and output.stat().st_size:
            losing.append(threading.Thread(target=cluster.remove_node, args=(slots[0],), kwargs={"allow_graceful": False}))
            losing[0].start()
    try:
        fleet.tune(model, output, time="24h", target="llvm -mcpu=x86-64-v3 -num-cores=2", ray=cluster.address, batch=4,
                   max_rounds=3, progress=heard)
    finally:
        for thread in losing:
            thread.join()
        ray.shutdown()
        cluster.shutdown()
    again = max([int(line.split(", ")[1].split(" ")[0]) for line in said if "measured again" in line], default=0)
    keep = ("problem", "kernel", "plan", "ratio", "state", "err")
    read = tuning.read_records(output)
    assert not read["faults"]
    return sorted(str([record.get(key) for key in keep]) for record in read["records"]), again


def test_one_and_three_nodes_and_a_lost_one_give_the_same_records(model, tmp_path, monkeypatch):
    one, _ = tuned(model, tmp_path / "one.jsonl", 1, monkeypatch)
    three, again = tuned(model, tmp_path / "three.jsonl", 3, monkeypatch)
    assert one and one == three and again == 0
    lost, again = tuned(model, tmp_path / "lost.jsonl", 3, monkeypatch, lose=True)
    assert lost == one and again <= 1


def test_a_real_slot(model, tmp_path, monkeypatch):
    """With the compiler, the child that measures, and a confirmation where there is a winner. Eight plans of a task."""
    monkeypatch.setattr(fleet, "Coordinator", functools.partial(fleet.Coordinator, round_size=8))
    tasks = tuning.tasks
    monkeypatch.setattr(tuning, "tasks", lambda *arguments: tasks(*arguments)[:1])
    output = tmp_path / "records.jsonl"
    fleet.tune(model, output, time="24h", ray="local", batch=4, max_rounds=1, page=tmp_path / "fleet.html")
    records = tuning.read_records(output)["records"]
    assert "Fleet, ended" in (tmp_path / "fleet.html").read_text()
    assert len(records) >= 8 and not {r["err"] for r in records if r["state"] == "error"}


class Stopped(Exception):
    pass


def test_a_driver_that_is_started_again_continues(model, tmp_path, monkeypatch):
    monkeypatch.setattr(fleet, "Slot", Simulated)
    output, cluster = tmp_path / "records.jsonl", nodes_of(1)[0]

    def stop(_line):
        """After the first records: in the middle of the session."""
        if output.exists() and output.stat().st_size:
            raise Stopped
    try:
        options = dict(target="llvm -mcpu=x86-64-v3 -num-cores=2", ray=cluster.address, batch=4, max_rounds=3, time="24h")
        with pytest.raises(Stopped):
            fleet.tune(model, output, progress=stop, **options)
        before = tuning.read_records(output)["records"]
        fleet.tune(model, output, **options)
        records = tuning.read_records(output)["records"]
    finally:
        ray.shutdown()
        cluster.shutdown()
    measured = [(r["problem"], r["plan"]) for r in records if r["state"] in ("rejected", "error")]
    assert before and len(records) > len(before) and len(measured) == len(set(measured))
