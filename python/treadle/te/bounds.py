# SPDX-License-Identifier: Apache-2.0
"""What part of each axis of a schedule is computed at a time: of stages within loops of others, less than the whole."""
from collections.abc import Sequence
from typing import Any

from ..arith.intervals import IntervalSet, interval_of
from ..arith import simplify
from ..ir import Range
from ..tir.checks import ScheduleError
from ..tir.stmt import BlockRealize, For, SeqStmt
from ..tir.stmt_functor import substitute


def _nests(stmt, loops=(), found=None):
    """For each block by its name: the loops around it, from outside, and its realisation."""
    found = {} if found is None else found
    if isinstance(stmt, SeqStmt):
        for each in stmt.seq:
            _nests(each, loops, found)
    elif isinstance(stmt, BlockRealize):
        block = stmt.block
        if block.name_hint in found:
            raise ScheduleError(f"InferBound: two stages are called '{block.name_hint}'; names tell them apart")
        found[block.name_hint] = (loops, stmt)
        _nests(block.body, loops, found)
    elif isinstance(stmt, For):
        _nests(stmt.body, (*loops, stmt), found)
    else:
        for field in ("body", "then_case", "else_case"):
            if field in stmt._field_names() and getattr(stmt, field) is not None:
                _nests(getattr(stmt, field), loops, found)
    return found


def _axes_of_loops(loops, stage):
    """The schedule's variable for each loop around a stage, where its name is found in the stages that it is within."""
    found, at = {}, stage
    for loop in reversed(loops):
        while at is not None:
            axis = next((a for a in at.leaf_iter_vars if a.var.name == loop.loop_var.name), None)
            if axis is not None:
                found[loop.loop_var] = axis.var
                break
            at = at.attach_stage
    return found


def bounds_within(stage: Any, nests: Sequence[Any]) -> Any:
    """The ranges of the axes of a stage that is computed within a loop of another."""
    missing = next((s.op.name for s in (stage, stage.attach_stage) if s.op.name not in nests), None)
    if missing is not None:
        raise ScheduleError(f"InferBound: stage '{missing}' has no loops of its own in the lowered schedule")
    loops, realize = nests[stage.op.name]
    around = nests[stage.attach_stage.op.name][0]
    shared = 0
    while shared < min(len(loops), len(around)) and loops[shared].same_as(around[shared]):
        shared += 1
    names = _axes_of_loops(loops[:shared], stage.attach_stage)
    inner = {loop.loop_var: IntervalSet(loop.min, loop.min + loop.extent - 1) for loop in loops[shared:]}
    found = {}
    for axis, value in zip([*stage.op.axis, *stage.op.reduce_axis], realize.iter_values):
        part = interval_of(value, inner)
        if part.min_value is None or part.max_value is None:
            continue  # all of it
        low, high = (substitute(e, names) for e in (part.min_value, part.max_value))
        found[axis] = Range.from_min_extent(simplify(low), simplify(high - low + 1))
    by_name = {loop.loop_var.name: loop for loop in loops[shared:]}
    for axis in stage.leaf_iter_vars:
        loop = by_name.get(axis.var.name)
        if axis not in found and loop is not None:
            found[axis] = Range.from_min_extent(loop.min, loop.extent)
    return found


def infer_bound(schedule: Any, body: Any) -> Any:
    """The range of each axis of the stages; `body` is what ScheduleOps makes of the schedule."""
    found, nests = {}, None
    for stage in schedule.stages:
        found.update({axis: axis.dom for axis in stage.all_iter_vars if axis.dom is not None})
        if stage.attach_type == stage.SCOPE and type(stage.op).__name__ == "ComputeOp":
            nests = _nests(body()) if nests is None else nests
            found.update(bounds_within(stage, nests))
    return found
