# SPDX-License-Identifier: Apache-2.0
"""Search within sketches that rules of one's own make: from the last stage to the first, each rule says whether it
applies to a stage and gives states with the stage to go on with. What the rules leave open is drawn: lengths of splits
among the divisors of extents; outermost axes run parallel, innermost ones as vectors."""
from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from .. import te
from ..error import Error
from ..tir.expr import IterVar
from .compute_dag import ComputeDAG, get_consumers, is_elementwise
from .loop_state import State, StateObject

_MOST_SKETCHES, _MOST_VECTOR = 64, 64


class PreloadCustomSketchRule:
    """A rule: meet_condition_func(policy, state object, stage) -> PASS, APPLY or APPLY_AND_SKIP_REST;
    apply_func(policy, state object, stage) -> a list of [state object, next stage]."""

    PASS, APPLY, APPLY_AND_SKIP_REST = 0, 1, 2

    def __init__(self, meet_condition_func: Callable[..., int], apply_func: Callable[..., Any],
                 rule_name: str = "CustomSketchRule") -> None:
        self.meet_condition, self.apply, self.name = meet_condition_func, apply_func, rule_name


def _by_default(dag, state, stage_id):
    """Elementwise stages that others read are computed in line."""
    stage = state.stages[stage_id]
    if stage.compute_at == "root" and is_elementwise(stage.op) and get_consumers(dag, state, stage_id):
        state = state.copy()
        state.compute_inline(stage_id)
    return state


def sketches(policy: Any, rules: list[PreloadCustomSketchRule]) -> list[StateObject]:
    """All sketches that the rules make."""
    dag = policy.search_task.compute_dag
    found: list[StateObject] = []
    work = [(StateObject(), len(ComputeDAG.get_init_state(dag).stages) - 1)]
    while work and len(found) < _MOST_SKETCHES:
        state, stage_id = work.pop()
        if stage_id < 0:
            found.append(state)
            continue
        applied = False
        for rule in rules:
            verdict = int(rule.meet_condition(policy, state, stage_id))
            if verdict == PreloadCustomSketchRule.PASS:
                continue
            for made, next_stage in rule.apply(policy, state, stage_id):
                if not isinstance(made, StateObject) or int(next_stage) >= stage_id:
                    raise Error(f"sketch rule {rule.name}: expected a state object and an earlier stage than {stage_id}, got "
                                f"{type(made).__name__} and {next_stage}")
                work.append((made, int(next_stage)))
            applied = True
            if verdict == PreloadCustomSketchRule.APPLY_AND_SKIP_REST:
                break
        if not applied:
            work.append((_by_default(dag, State(state, dag), stage_id).state_object, stage_id - 1))
    return found


def _extent(axis):
    dom = getattr(axis, "dom", None)
    return int(dom.extent) if dom is not None and type(dom.extent).__name__ == "IntImm" else None


def _with_lengths(dag, state, rng):
    """The lengths that a sketch leaves open, drawn among the divisors of what is left of the extents."""
    steps: list[tuple[Any, ...]] = []
    for step in state.steps:
        if step[0] == "split" and None in step[3]:
            axis = State(StateObject(steps), dag).stages[step[1]].iters[step[2]]
            left, lengths = _extent(axis) or 1, []
            for length in reversed(step[3]):
                if length is None:
                    length = rng.choice([d for d in range(1, left + 1) if left % d == 0])
                left = max(1, left // length)
                lengths.insert(0, length)
            step = (*step[:3], tuple(lengths))
        steps.append(step)
    return StateObject(steps)


def _annotated(dag, state, rng):
    made = State(state, dag)
    for index, stage in enumerate(made.stages):
        if not isinstance(stage.op, te.ComputeOp) or stage.compute_at == "inlined" or not stage.iters:
            continue
        if any(step[0] in ("parallel", "vectorize") and step[1] == index for step in state.steps):
            continue
        first, last = stage.iters[0], stage.iters[-1]
        if stage.compute_at == "root" and first.iter_type == IterVar.DataPar:
            made.parallel(index, first)
        extent = _extent(last)
        if last.iter_type == IterVar.DataPar and len(stage.iters) > 1 and 1 < (extent or 0) <= _MOST_VECTOR:
            made.vectorize(index, last)
        if rng.random() < 0.5:
            made.pragma(index, first, f"auto_unroll_max_step${rng.choice((16, 64, 512))}")
    return made.state_object


def candidates(policy: Any, rules: list[PreloadCustomSketchRule], seed: int) -> Iterator[StateObject]:
    """Different states, as long as drawing finds any."""
    rng, known, dag = random.Random(seed), set(), policy.search_task.compute_dag
    found, misses = sketches(policy, rules), 0
    while found and misses < 200:
        state = _annotated(dag, _with_lengths(dag, rng.choice(found), rng), rng)
        if state in known:
            misses += 1
            continue
        known.add(state)
        yield state
