# SPDX-License-Identifier: Apache-2.0
"""A fleet on Ray's local cluster: needs treadle[tune]. Not a part of `make test`:

    python -m pytest tests/fleet
"""
import pathlib
import sys

import pytest

ray = pytest.importorskip("ray")
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))

import test_fleet  # noqa: E402
from test_fleet import answer, task  # noqa: E402
from treadle import fleet  # noqa: E402

ray.cloudpickle.register_pickle_by_value(test_fleet)  # workers don't find tests


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 << 20)
    yield
    ray.shutdown()


@ray.remote(num_cpus=0.1, max_restarts=-1, max_task_retries=0)
class Simulated:
    """A slot whose times are made up; one of them dies once, in the middle of a batch."""

    def __init__(self, dies_once_in=""):
        self.mark = pathlib.Path(dies_once_in) if dies_once_in else None

    def measure(self, _task, incumbent, plans):
        if self.mark is not None and not self.mark.exists():
            import os

            self.mark.write_text("")
            os._exit(1)
        return answer(fleet.Batch(0, 0, incumbent, plans))


def tune(tmp_path, actors):
    output = tmp_path / "records.jsonl"
    coordinator = fleet.Coordinator([task(m) for m in (64, 96)], batch=4, round_size=16, max_rounds=4)
    fleet._run(ray, coordinator, actors, float("inf"), lambda line: None, str(output))
    assert coordinator.finished
    return sorted(output.read_text().splitlines()), coordinator


def test_one_and_three_slots_and_a_lost_one_give_the_same_records(cluster, tmp_path):
    results = []
    for name, count, mark in (("one", 1, ""), ("three", 3, ""), ("lost", 3, str(tmp_path / "mark"))):
        folder = tmp_path / name
        folder.mkdir()
        actors = [Simulated.remote(mark if i == 0 else "") for i in range(count)]
        results.append(tune(folder, actors))
        for actor in actors:
            ray.kill(actor)
    assert results[0][0] and '"state":"error"' not in "".join(results[0][0])
    assert results[0][0] == results[1][0] == results[2][0]
    assert results[0][1].measured_again == 0 and results[2][1].measured_again == 1
