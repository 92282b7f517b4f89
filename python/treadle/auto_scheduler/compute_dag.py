# SPDX-License-Identifier: Apache-2.0
"""The computation of a task: its tensors, as sketch rules and states take it."""
from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from .. import te
from .._arguments import sequence
from ..error import Error
from .loop_state import Replayed, State, StateObject
from .workloads import tensors_of_workload


class ComputeDAG:
    """A computation given by its tensors (inputs and results), a registered workload's key, or a te.Schedule."""

    def __init__(self, compute: Any) -> None:
        if isinstance(compute, str):
            compute = tensors_of_workload(compute)
        if isinstance(compute, te.Schedule):
            raise Error("ComputeDAG of a te.Schedule has no counterpart: give its tensors")
        self.tensors = sequence("ComputeDAG", compute, te.Tensor, "the tensors of a computation, inputs and results")
        if not self.tensors:
            raise Error("ComputeDAG: there are no tensors; expected those of a computation, inputs and results")

    @property
    def ops(self) -> list[Any]:
        """The operations, inputs first."""
        return [stage.op for stage in te.create_schedule([t.op for t in self._results()]).stages]

    def _results(self):
        return [t for t in self.tensors if not isinstance(t.op, te.PlaceholderOp)]

    def get_init_state(self) -> State:
        """The state without steps."""
        return State(StateObject(), self)

    def apply_steps_from_state(self, state: Any, layout_rewrite: Any = 0) -> tuple[Any, Sequence[Any]]:
        """(te.Schedule, tensors) of a State or StateObject."""
        if layout_rewrite:
            raise Error("apply_steps_from_state: layout_rewrite has no counterpart: packing of operands is part of the kernels")
        if not isinstance(state, (State, StateObject)):
            raise Error(f"apply_steps_from_state: expected a State, not {state!r}")
        steps = state.transform_steps if isinstance(state, State) else state.steps
        return Replayed(self.tensors, steps).schedule, self.tensors

    def infer_bound_from_state(self, state: Any) -> State:
        """The state with its bounds, which stages always have here."""
        return State(state.state_object if isinstance(state, State) else state, self)

    def hash_key(self) -> str:
        """What tells computations apart: a hash of their loops."""
        return hashlib.md5(str(self).encode(), usedforsecurity=False).hexdigest()

    def __str__(self) -> str:
        """The computation as a function of loops."""
        return str(te.create_prim_func(self.tensors))


def get_consumers(dag: ComputeDAG, state: State, stage_id: int) -> list[int]:
    """Stages that read a stage, through those that are computed in line."""
    stages = state.stages
    read_by: dict[int, list[int]] = {index: [] for index in range(len(stages))}
    for index, stage in enumerate(stages):
        for tensor in getattr(stage.op, "input_tensors", []):
            for source, other in enumerate(stages):
                if other.op.same_as(tensor.op) and index not in read_by[source]:
                    read_by[source].append(index)
    found: list[int] = []
    work = list(read_by[stage_id])
    while work:
        index = work.pop(0)
        if stages[index].compute_at == "inlined":
            work += read_by[index]
        elif index not in found:
            found.append(index)
    return sorted(found)


def is_elementwise(op: Any) -> bool:
    """Whether each element of a computation depends on the elements of its inputs at the same indices."""
    if not isinstance(op, te.ComputeOp) or list(op.reduce_axis):
        return False
    from ..tir import ProducerLoad
    from ..tir.stmt_functor import post_order_visit

    same = [True]

    def visit(node):
        if isinstance(node, ProducerLoad):
            indices = list(node.indices)
            same[0] &= len(indices) == len(op.axis) and all(i.same_as(a.var) for i, a in zip(indices, op.axis))

    for value in op.body:
        post_order_visit(value, visit)
    return same[0]


def matches_elementwise(dag: ComputeDAG, state: State, stage_id: int, target_stage_id: int) -> bool:
    """Whether the way from a stage to a later one that reads it is elementwise, through one reader each."""
    stages, current = state.stages, stage_id
    while current != target_stage_id:
        readers = [index for index, stage in enumerate(stages)
                   if any(t.op.same_as(stages[current].op) for t in getattr(stage.op, "input_tensors", []))]
        if len(readers) != 1 or not is_elementwise(stages[readers[0]].op):
            return False
        (current,) = readers
    return True
