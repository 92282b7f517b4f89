# SPDX-License-Identifier: Apache-2.0
"""Loop-level functions: random decisions within sketches, then what differs a little from the fastest ones."""
import logging
import random
from typing import Any

from .._arguments import chosen, whole
from ..error import Error
from ..target import Target
from ..tir.checks import ScheduleError
from . import space_generator
from .database import Database, mean_of
from .runner import LocalBuilder, LocalRunner
from .scheduled import compile_tir, function_of, scheduled, usual
from .sketch import Sketch

__all__ = ["Search", "compile_tir", "tune_tir"]

logger = logging.getLogger("meta_schedule")
BEST = 8  # those that new candidates differ a little from
EPSILON = 0.25  # part of a round that is drawn anew


class Search:
    """Rounds of decisions, a function of the seed and of what was measured."""

    def __init__(self, sketch: Any, seed: int = 0, epsilon: float = EPSILON) -> None:
        self.sketch, self._random, self._epsilon = sketch, random.Random(seed), epsilon
        self.best: list[Any] = []
        self._seen: set[Any] = set()

    def propose(self, count: int) -> Any:
        """Decisions that weren't proposed before."""
        tries = 0
        found: list[Any] = []
        while len(found) < count and tries < 20 * count:
            tries += 1
            fresh = not self.best or self._random.random() < self._epsilon
            try:
                decision = (self.sketch.sample(self._random) if fresh
                            else self.sketch.mutate(self._random.choice(self.best)[1], self._random))
            except ScheduleError as error:  # of a space that users write
                logger.debug("a draw that can't be scheduled: %s", error)
                continue
            if str(decision) not in self._seen:
                self._seen.add(str(decision))
                found.append(decision)
        return found

    def tell(self, decision: Any, seconds: float) -> None:
        self._seen.add(str(decision))
        if seconds < float("inf"):
            self.best = sorted([*self.best, (seconds, decision)], key=lambda pair: pair[0])[:BEST]


def tune_tir(mod: Any, target: Any, work_dir: Any = None, max_trials_global: int = 64, *, num_trials_per_iter: int = 64,
             builder: Any = "local", runner: Any = "local", database: Any = None, cost_model: Any = None,
             measure_callbacks: Any = None, task_scheduler: Any = "round-robin", space: Any = "post-order-apply",
             strategy: Any = "evolutionary", task_name: str = "main", num_tuning_cores: Any = "physical",
             seed: int | None = None) -> Any:
    """Measures schedules of a function, `max_trials_global` of them, and gives the database of what they took. The
    schedule that functions without one get is measured first; another one is the best only where it is faster in turns.
    space: "post-order-apply" (sketches), or a space of one's own (space_generator)."""
    for name, value in (("cost_model", cost_model), ("measure_callbacks", measure_callbacks)):
        if value not in (None, "xgb", "default"):
            raise Error(f"tune_tir: {name} has no counterpart: candidates are measured, no model is trained")
    whole("tune_tir: max_trials_global", max_trials_global, 0)
    whole("tune_tir: num_trials_per_iter", num_trials_per_iter, 1)
    if not (builder == "local" or isinstance(builder, LocalBuilder)):
        raise Error(f"tune_tir: the builder is {builder!r}; expected \"local\" or a LocalBuilder")
    if not (runner == "local" or hasattr(runner, "time")):
        raise Error(f"tune_tir: the runner is {runner!r}; expected \"local\" or a LocalRunner")
    if isinstance(strategy, str):
        chosen("tune_tir: strategy", strategy, ("evolutionary", "replay-trace", "replay-func"))
    function, target = function_of(mod), Target(target)
    runner = LocalRunner() if runner == "local" else runner
    database = Database(work_dir) if database in (None, "json") else database
    first = usual(function, target)
    base = runner.time(first, target)
    database.commit(function, target, None, base.seconds, base.error)
    sketch = space_generator.of(space, function) or Sketch(function)
    search, done = Search(sketch, seed or 0), 1
    for record in database.of(function, target):
        own = space_generator.is_replayed(record["decision"]) == isinstance(sketch, space_generator.Space)
        if record["decision"] is not None and record["run_secs"] and own:
            search.tell(record["decision"], mean_of(record))
    while sketch.parts and done < max_trials_global:
        decisions = search.propose(min(num_trials_per_iter, 16, max_trials_global - done))
        if not decisions:
            break
        for decision in decisions:
            done += 1
            try:
                candidate = sketch.apply(decision).func
            except ScheduleError as error:
                database.commit(function, target, decision, (), str(error))
                continue
            timed = runner.time(candidate, target)
            database.commit(function, target, decision, timed.seconds, timed.error)
            if not timed.error:
                search.tell(decision, timed.mean)
    _settle(function, target, first, runner, database)
    return database


def _settle(function, target, first, runner, database):
    """Times of different moments aren't compared: the fastest ones against the usual schedule in turns. One that doesn't
    win is an error in the database, so that it is never used."""
    while (best := database.best(function, target)) is not None and best["decision"] is not None:
        ratios = sorted(runner.ratios(first, scheduled(function, best["decision"]).func, target))
        if ratios and sum(r < 1 for r in ratios) >= 0.75 * len(ratios):
            logger.info("%.3f of the usual schedule's time", ratios[len(ratios) // 2])
            return
        database.commit(function, target, best["decision"], (), "not faster in turns, or another result")
