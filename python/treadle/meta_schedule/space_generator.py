# SPDX-License-Identifier: Apache-2.0
"""Spaces of schedules that users write: functions that take a schedule, and draw what they leave open (sample_categorical,
sample_perfect_tile). A decision is what was drawn and the steps that came of it, so that it is applied without them."""
import math
from collections.abc import Callable, Sequence
from typing import Any

from .._refused import refused
from ..error import Error
from ..ir import IRModule
from ..tir import Schedule
from ..tir.checks import ScheduleError
from ..tir.function import PrimFunc


class Drawn(Schedule):
    """A schedule that notes what is drawn. `given`: what to take instead, as far as it fits; None: to be drawn."""

    def __init__(self, mod: Any, rng: Any, given: Sequence[Any] = ()) -> None:
        super().__init__(mod)
        self._random, self._given = rng, list(given)
        self.draws: list[Any] = []

    def copy(self) -> Any:
        other = super().copy()
        drawn = Drawn.__new__(Drawn)
        drawn.__dict__.update(other.__dict__)
        drawn._random, drawn._given, drawn.draws = self._random, self._given, list(self.draws)
        return drawn

    def draw(self, fits: Callable[..., Any], fresh: Callable[..., Any]) -> Any:
        """The next value: what was given where it fits."""
        at = len(self.draws)
        value = self._given[at] if at < len(self._given) else None
        self.draws.append(value if value is not None and fits(value) else fresh())
        return self.draws[-1]

    def sample_categorical(self, candidates: Sequence[Any], probs: Any, decision: Any = None) -> Any:
        if decision is not None:
            return super().sample_categorical(candidates, probs, decision)
        candidates = [int(c) for c in candidates]
        return self.draw(lambda value: value in candidates, lambda: super(Drawn, self).sample_categorical(candidates, probs))

    def sample_perfect_tile(self, loop: Any, n: int, max_innermost_factor: int = 16, decision: Any = None) -> Any:
        if decision is not None:
            return super().sample_perfect_tile(loop, n, max_innermost_factor, decision)
        extent = int(self.get(loop).extent)
        return list(self.draw(
            lambda value: isinstance(value, list) and len(value) == n and math.prod(value) == extent,
            lambda: super(Drawn, self).sample_perfect_tile(loop, n, max_innermost_factor)))


class SpaceGenerator:
    """Base: `generate` schedules a Drawn, and gives it back."""

    def generate(self, sch: Any) -> Any:
        raise NotImplementedError

    def space(self, function: Any) -> "Space":
        """The space of a function, as the search takes it."""
        return Space(self, function)


class Space:
    """Schedules of one function."""

    parts = ("drawn",)

    def __init__(self, generator: Any, function: Any) -> None:
        self.generator, self.function = generator, function

    def _decision(self, rng, given=()):
        sch = self.generator.generate(Drawn(self.function, rng, given))
        return {"draws": sch.draws, "trace": sch.trace.as_json()}

    def sample(self, rng: Any) -> Any:
        return self._decision(rng)

    def mutate(self, decision: Any, rng: Any) -> Any:
        """One draw anew; those after it stay as far as they fit."""
        draws = list(decision["draws"])
        if draws:
            draws[rng.randrange(len(draws))] = None
        return self._decision(rng, draws)

    def apply(self, decision: Any) -> Any:
        return replayed(self.function, decision)


def is_replayed(decision: Any) -> bool:
    """Whether a decision says its steps."""
    return isinstance(decision, dict) and "trace" in decision


def replayed(function: Any, decision: Any) -> Any:
    """The schedule of `function` that the trace of a decision makes; ScheduleError for one of another space."""
    if not is_replayed(decision):
        raise ScheduleError("a decision of another space")
    sch = Schedule(function)
    sch.replay(decision["trace"])
    return sch


class ScheduleFn(SpaceGenerator):
    """The space of a function of a schedule, which it changes. It may give a schedule, or a list to draw one from."""

    def __init__(self, sch_fn: Callable[..., Any], sch_rules: Sequence[Any] = (), postprocs: Sequence[Any] = (),
                 mutator_probs: Any = None) -> None:
        if sch_rules or postprocs or mutator_probs:
            raise Error("ScheduleFn: sch_rules, postprocs and mutator_probs have no counterpart: the function makes whole "
                        "schedules, whose draws are mutated one by one")
        if not callable(sch_fn):
            raise TypeError("ScheduleFn: expected a function of a schedule")
        self.sch_fn = sch_fn

    def generate(self, sch: Any) -> Any:
        return _one_of(sch, self.sch_fn(sch))


class PostOrderApply(SpaceGenerator):
    """Rules of one's own (schedule_rule.PyScheduleRule), applied to each block in turn."""

    def __init__(self, f_block_filter: Callable[..., Any] | None = None, sch_rules: Sequence[Any] = (),
                 postprocs: Sequence[Any] = (), mutator_probs: Any = None) -> None:
        if postprocs or mutator_probs:
            raise Error("PostOrderApply: postprocs and mutator_probs have no counterpart: draws are mutated one by one")
        if not sch_rules:
            raise Error("PostOrderApply: expected rules; without a space tune_tir has sketches of its own")
        self.filter, self.rules = f_block_filter, list(sch_rules)

    def generate(self, sch: Any) -> Any:
        names = [sch.get(block).name_hint for block in sch.get_blocks()]
        for rule in self.rules:
            for name in names:
                try:
                    block = sch.get_block(name)
                except ScheduleError:  # an earlier rule has inlined it
                    continue
                if self.filter is None or self.filter(sch.get(block)):
                    sch = _one_of(sch, rule.apply(sch, block))
        return sch


def _one_of(sch, result):
    """What a user's function made of a schedule."""
    if result is None:
        return sch
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    if not results or not all(isinstance(each, Drawn) for each in results):
        raise TypeError("a space must give the schedule that it was given, or copies of it")
    if len(results) == 1:
        return results[0]
    at = sch.draw(lambda value: value in range(len(results)), lambda: sch._random.randrange(len(results)))
    chosen = results[at]
    if chosen is not sch:
        chosen.draws.append(at)
    return chosen


def of(space: Any, function: Any) -> Any:
    """What `space=` of tune_tir names; None: sketches."""
    if space in (None, "post-order-apply"):
        return None
    if isinstance(space, SpaceGenerator):
        return space.space(function)
    if callable(space) and not isinstance(space, (PrimFunc, IRModule)):
        return ScheduleFn(space).space(function)
    raise Error(f"tune_tir: space: expected 'post-order-apply', a ScheduleFn, a PostOrderApply or a function, not {space!r}")


SpaceGeneratorUnion = refused("meta_schedule.space_generator.SpaceGeneratorUnion", "a ScheduleFn may give several schedules")
