# SPDX-License-Identifier: Apache-2.0
"""Tuning on many devices with Ray (extra treadle[tune]). Ray only transports batches; all state is in the records file,
from which a restarted driver continues. docs/tuning.md."""
import collections
import dataclasses
import json
import os
import time as clock
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import tuning
from ._fleet_page import Page
from .error import Error


@dataclasses.dataclass
class Batch:
    """Plans of a task for one worker, which races each against the incumbent."""

    id: int
    task: int
    incumbent: str
    plans: list
    attempt: int = 0


class _Session:
    """The search of one task: a round at a time, whose batches may come back in any order."""

    def __init__(self, task, search):
        self.task, self.search = task, search
        self.rounds, self.open, self.results = 0, 0, []

    def start_round(self, batch_size):
        """The plans of the next round, in batches; none: the search is over."""
        plans = self.search.propose()
        self.rounds += 1
        self.results = [None] * len(plans)
        parts = [(start, plans[start:start + batch_size]) for start in range(0, len(plans), batch_size)]
        self.open = len(parts)
        return parts


class Coordinator:
    """Which worker measures what, without knowing how work travels. Results count in the order of proposals, so that
    the number of workers changes the time and nothing else. A batch that is lost is given again, `retries` times; then
    its plans are errors: one of them may be what ends workers."""

    def __init__(self, tasks: Any, seed: int = 0, batch: int = 8, round_size: int = 32, max_rounds: int = 8, retries: int = 2,
                 tried: Any = None, seeds: Any = None, now: Callable[..., Any] = lambda: 0,
                 make_search: Callable[..., Any] = tuning.Search) -> None:
        self.batch_size, self.max_rounds, self.retries, self.now = batch, max_rounds, retries, now
        self.sessions = [_Session(task, make_search(task, seed=seed, batch=round_size, seeds=(seeds or {}).get(i, ()),
                                                    tried=(tried or {}).get(i, ()))) for i, task in enumerate(tasks)]
        self.waiting: collections.deque[Any] = collections.deque()
        self.running: dict[Any, Any] = {}
        self._places: dict[Any, Any] = {}
        self._next_id, self.measured_again = 0, 0
        self.lines: list[Any] = []
        for index in range(len(self.sessions)):
            self._advance(index)

    def _advance(self, index):
        session = self.sessions[index]
        if session.rounds >= self.max_rounds:
            return
        incumbent = session.search.incumbent
        for start, plans in session.start_round(self.batch_size):
            self._places[self._next_id] = start
            self.waiting.append(Batch(self._next_id, index, incumbent, plans))
            self._next_id += 1

    def next_batch(self) -> "Batch | None":
        """A batch to measure now; None: all are running or done."""
        if not self.waiting:
            return None
        batch = self.waiting.popleft()
        self.running[batch.id] = batch
        return batch

    @property
    def finished(self) -> bool:
        return not self.waiting and not self.running

    def failed(self, batch_id: int, why: object) -> None:
        """A batch that ends with an error each time: its plans are errors with that text."""
        batch = self.running[batch_id]
        self.done(batch_id, [{"plan": plan, "state": "error", "err": why, "ratio": 1.0, "lo": 1.0, "hi": 1.0, "pairs": 0,
                              "us": 0.0} for plan in batch.plans])

    def lost(self, batch_id: int, begun: bool = True) -> None:
        """The worker that had it is gone; `begun`: with the batch under way, not in line."""
        batch = self.running.pop(batch_id, None)
        if batch is None:
            return
        if not begun:
            self.waiting.appendleft(batch)
            return
        if batch.attempt >= self.retries:
            self.running[batch_id] = batch
            self.failed(batch_id, "the worker was lost each time")
            return
        batch.attempt += 1
        self.measured_again += 1
        self.waiting.appendleft(batch)

    def done(self, batch_id: int, results: Any) -> None:
        """What became of a batch; a second answer is ignored."""
        batch = self.running.pop(batch_id, None)
        if batch is None:
            return
        session, start = self.sessions[batch.task], self._places.pop(batch_id)
        session.results[start:start + len(results)] = results
        session.open -= 1
        if session.open:
            return
        before = session.search.ratio
        session.search.tell([(r["state"] == "raced" or r["pairs"] > 0, r["state"] == "raced", before * r["ratio"])
                             for r in session.results])
        for result in session.results:
            fields = {**result, **{key: result[key] * before for key in ("ratio", "lo", "hi")}}
            self.lines.append(tuning.record_line(session.task, t=int(self.now()), **fields))
        self._advance(batch.task)

    def take_lines(self) -> list[str]:
        """Records since the last call, in the order in which rounds ended."""
        lines, self.lines = self.lines, []
        return lines

    def winners(self) -> Any:
        """(task, plan) of those that are faster than their default."""
        return [(s.task, s.search.incumbent) for s in self.sessions if s.search.ratio < 1]


class Slot:
    """What a device does: builds and races batches. An actor of Ray, or used as it is."""

    def __init__(self, threads: int = 0, jobs: int = 0) -> None:
        self.threads, self.jobs = threads, jobs or os.cpu_count() or 1

    def measure(self, task: str, incumbent: str, plans: Iterable[str]) -> list[dict[str, Any]]:
        return tuning.measure_batch(task, incumbent, plans, self.threads, self.jobs)

    def confirm(self, task: str, plan: str) -> dict[str, Any]:
        return tuning.confirm(task, plan, self.threads)


def _ray():
    try:
        import ray  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise Error("tuning on a fleet needs Ray: pip install 'treadle[tune]'") from None
    return ray


def _run(ray, coordinator, actors, until, report, output, page=None):
    """Keeps each actor busy with a batch and one in line behind it. One that was lost gets batches again once it answers:
    that a node needs time to come back isn't counted as a try of a batch. Returns the actors that answer."""
    page = page or Page(None, len(actors))
    credit = dict.fromkeys(range(len(actors)), 2)
    line = {index: [] for index in credit}  # batches of each actor, the one under way first
    away, asked = {}, {}  # lost actors: when they are asked whether they are back; calls that ask
    under_way, pending, answered, silent = {}, {}, False, 0
    while clock.monotonic() < until:
        for index in [i for i, left in credit.items() if left > 0 and i not in away]:
            while credit[index] > 0 and (batch := coordinator.next_batch()) is not None:
                credit[index] -= 1
                call = actors[index].measure.remote(coordinator.sessions[batch.task].task, batch.incumbent, batch.plans)
                pending[call] = (index, batch.id)
                line[index].append(batch.id)
        if not pending and coordinator.finished:
            break
        for index in [i for i, at in away.items() if at <= clock.monotonic() and i not in asked.values()]:
            asked[actors[index].__ray_ready__.remote()] = index
        calls = [*pending, *asked]
        ready, _ = ray.wait(calls, num_returns=1, timeout=1) if calls else (clock.sleep(0.1) or [], [])
        for call in ready:
            if call in asked:
                index = asked.pop(call)
                try:
                    ray.get(call)
                    del away[index]
                except ray.exceptions.RayActorError as error:
                    away[index], silent = clock.monotonic() + 2, silent + 1
                    if not answered and silent > 2 * len(actors):
                        raise Error(f"no slot answers: {error}") from None
                continue
            index, batch_id = pending.pop(call)
            credit[index] += 1
            try:
                results = ray.get(call)
                coordinator.done(batch_id, results)
                page.done(index, len(results), [session.search.ratio for session in coordinator.sessions])
                answered = True
            except ray.exceptions.RayActorError as error:
                report(f"a slot was lost: {error}")
                page.lost(index)
                if index not in away:
                    under_way[index] = line[index][0]
                coordinator.lost(batch_id, begun=under_way[index] == batch_id)
                away[index] = clock.monotonic() + 2
                if not answered and coordinator.measured_again > 2 * len(actors):
                    raise Error(f"no slot answers: {error}") from None
            except ray.exceptions.RayTaskError as error:
                report(f"a batch failed: {error}")
                if not answered:
                    raise Error(f"the first batch failed: {error.cause}") from None
                coordinator.failed(batch_id, str(error.cause))
            line[index].remove(batch_id)
        tuning.append_records(output, coordinator.take_lines())
        report(f"{len(pending)} batches on {len(actors)} slots, {coordinator.measured_again} measured again")
    return [actor for index, actor in enumerate(actors) if index not in away]


def _confirm(ray, coordinator, actors, report):
    """Pairs of (task, plan) and what became of them. Where an actor is lost, another one confirms."""
    actors, waiting = list(actors), list(coordinator.winners())
    while waiting and actors:
        calls = [(pair, actors[i % len(actors)]) for i, pair in enumerate(waiting)]
        calls = [(pair, actor, actor.confirm.remote(*pair)) for pair, actor in calls]
        waiting = []
        for pair, actor, call in calls:
            try:
                yield pair, ray.get(call)
            except ray.exceptions.RayActorError as error:
                report(f"a slot was lost: {error}")
                waiting.append(pair)
                actors = [other for other in actors if other is not actor]
            except ray.exceptions.RayError as error:
                report(f"a plan couldn't be confirmed: {error}")
    for _ in waiting:
        report("a plan couldn't be confirmed: no slot answers")


def tune(model: Any, output: "str | os.PathLike[str]", time: float | str = "10m", target: str = "llvm -mcpu=native",
         ray: Any = "auto", slots: int | None = None, threads: int = 0, seed: int = 0, batch: int = 8,
         max_rounds: int = 8, runtime_env: dict[str, Any] | None = None, progress: Callable[[str], object] | None = None,
         page: "str | os.PathLike[str] | None" = None) -> Any:
    """Tunes a model on the devices of a Ray cluster, and appends records to `output`. Returns the number of confirmed
    plans.

    ray: "local" starts Ray here, "auto" uses the cluster of this machine, anything else is an address.
    slots: number of actors. Nodes declare their number of slots as resource treadle_slot (`ray start
    --resources='{"treadle_slot": 1}'`). All devices must have the same processor; run one session per target otherwise.
    page: an HTML file that shows the progress of the session.

    Run `treadle tune model -o output` on one of the devices afterwards: it decides whether the whole model is faster.
    """
    report = progress or (lambda line: None)
    module = _ray()
    started = not module.is_initialized()
    if started:
        module.init(address=None if ray == "local" else ray, include_dashboard=False, log_to_driver=False,
                    runtime_env=runtime_env)
    try:
        have = int(module.cluster_resources().get("treadle_slot", 0))
        count = slots or have or 1
        actor = module.remote(num_cpus=0 if have else 1, resources={"treadle_slot": 1} if have else None, max_restarts=-1,
                              max_task_retries=0, max_concurrency=1)(Slot)
        actors = [actor.remote(threads) for _ in range(count)]
        tasks = tuning.tasks(model, target)
        old = tuning.read_records(output)["records"] if os.path.exists(output) else []
        tried = {i: [r["plan"] for r in old if r["problem"] == json.loads(t)["problem"] and not r["why_not"]
                     and r["state"] != "raced"] for i, t in enumerate(tasks)}
        seeds = {i: [r["plan"] for r in old if r["problem"] == json.loads(t)["problem"] and r["state"] == "raced"]
                 for i, t in enumerate(tasks)}
        coordinator = Coordinator(tasks, seed, batch, max_rounds=max_rounds, tried=tried, seeds=seeds, now=clock.time)
        shown = Page(page, count)
        alive = _run(module, coordinator, actors, clock.monotonic() + tuning.seconds_of(time), report, output, shown)
        shown.write(last=True)
        confirmed = 0
        for (task, plan), found in _confirm(module, coordinator, alive, report):
            state = "confirmed" if found.pop("accepted") else "rejected"
            confirmed += state == "confirmed"
            tuning.append_records(output, [tuning.record_line(task, plan=plan, state=state, t=int(clock.time()), **found)])
        return confirmed
    finally:
        if started:
            module.shutdown()


def main(arguments: Sequence[str] | None = None) -> Any:
    """`python -m treadle.fleet model.onnx -o records.jsonl`."""
    from ._command_line import Parser

    parser = Parser("python -m treadle.fleet", description="Tune a model on a Ray cluster.")
    parser.add_argument("model", help="an .onnx file")
    parser.add_argument("-o", "--output", required=True, help="records file to append to")
    parser.add_argument("--time", default="10m", help="time budget, such as 90s, 10m or 1h (default: 10m)")
    parser.add_argument("--ray", default="local", help="local: start Ray on this machine; auto: the cluster that this machine belongs to; else an address")
    parser.add_argument("--slots", type=int, help="number of slots (default: the total of the resource treadle_slot)")
    parser.add_argument("--target", default="llvm -mcpu=native", help="the target to compile for; all devices must be of the same kind")
    parser.add_argument("--threads", type=int, default=0, help="number of threads for running kernels (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="seed for the choice of candidates (default: 0)")
    parser.add_argument("--page", help="write an HTML page about the progress of the session to this file")
    given = parser.parse_args(arguments)
    tuning.seconds_of(given.time)  # said before a cluster starts
    if not os.path.exists(given.model):
        raise Error(f"can't open {given.model}: no such file")
    confirmed = tune(progress=lambda line: print(line, flush=True), **vars(given))
    print(f"{confirmed} plans are confirmed; treadle tune {given.model} -o {given.output} says what the whole model gains")


if __name__ == "__main__":
    # The class of slots must be the one that workers import.
    import sys

    from treadle import fleet
    try:
        fleet.main()
    except Error as error:
        sys.exit(f"error: {error}")
