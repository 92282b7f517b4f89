# SPDX-License-Identifier: Apache-2.0
"""Schedules as lists of steps, which sketch rules of one's own write: a State has the stages of a computation with their
iterators, its methods add steps, `state_object` is what rules hand on. Steps are plain data, as logs keep them."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import te
from ..error import Error


class StateObject:
    """Steps of a state: tuples (name, stage, ...), where stages and iterators are numbers."""

    def __init__(self, steps: Sequence[tuple[Any, ...]] = ()) -> None:
        self.steps = [tuple(step) for step in steps]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateObject) and self.steps == other.steps

    def __hash__(self) -> int:
        return hash(repr(self.steps))


class Stage:
    """A stage: its operation, iterators (outermost first) and where it is computed: "root", "inlined" or "iter"."""

    def __init__(self, op: Any, iters: Sequence[Any], compute_at: str = "root") -> None:
        self.op, self.iters, self.compute_at = op, list(iters), compute_at


class Replayed:
    """A te.Schedule with the steps applied. Factors that a step leaves open are 1 here."""

    def __init__(self, tensors: Sequence[Any], steps: Sequence[tuple[Any, ...]]) -> None:
        self.schedule = te.create_schedule([t.op for t in tensors if not isinstance(t.op, te.PlaceholderOp)])
        self.where = {index: "root" for index, _ in enumerate(self.schedule.stages)}
        self.steps: list[tuple[Any, ...]] = []
        for step in steps:
            self.apply(step)

    def stages(self) -> list[Stage]:
        return [Stage(stage.op, () if self.where[index] == "inlined" else stage.leaf_iter_vars, self.where[index])
                for index, stage in enumerate(self.schedule.stages)]

    def _factors(self, step):
        if step[0] == "split":
            return [1 if length is None else int(length) for length in step[3]]
        source, parts = self.steps[step[3]], int(step[4])
        if source[0] != "split":
            raise Error(f"follow_split: step {step[3]} is {source[0]}, expected a split")
        lengths = [1 if length is None else int(length) for length in source[3]]
        if not 0 < parts <= len(lengths):
            raise Error(f"follow_split: {parts} of {len(lengths)} lengths")
        return lengths[:parts - 1] + [math.prod(lengths[parts - 1:])]

    def apply(self, step: tuple[Any, ...]) -> Any:
        """The iterators that the step makes."""
        name, index = step[0], step[1]
        stage = self.schedule.stages[index]
        axes = list(stage.leaf_iter_vars)
        made: Any = None
        if name in ("split", "follow_split"):
            made, outer = [], axes[step[2]]
            for factor in reversed(self._factors(step)):
                outer, inner = stage.split(outer, factor=factor)
                made.insert(0, inner)
            made.insert(0, outer)
        elif name == "fuse":
            made = stage.fuse(*(axes[i] for i in step[2]))
        elif name == "reorder":
            stage.reorder(*(axes[i] for i in step[2]))
        elif name in ("parallel", "vectorize", "unroll"):
            getattr(stage, name)(axes[step[2]])
            made = axes[step[2]]
        elif name == "pragma":
            stage.pragma(axes[step[2]], *step[3])
        elif name == "compute_at":
            target = self.schedule.stages[step[2]]
            stage.compute_at(target, list(target.leaf_iter_vars)[step[3]])
            self.where[index] = "iter"
        elif name in ("compute_inline", "compute_root"):
            getattr(stage, name)()
            self.where[index] = "inlined" if name == "compute_inline" else "root"
        else:
            raise Error(f"a state has no step {name!r}")
        self.steps.append(tuple(step))
        return made


class State:
    """A state of the computation `dag` (a ComputeDAG, or what a SearchTask has)."""

    def __init__(self, state_object: StateObject, dag: Any) -> None:
        self._tensors = list(dag.tensors if hasattr(dag, "tensors") else dag)
        self._dag = dag
        self._replayed = Replayed(self._tensors, state_object.steps)

    @property
    def state_object(self) -> StateObject:
        """The steps, to hand on."""
        return StateObject(self._replayed.steps)

    @property
    def transform_steps(self) -> list[tuple[Any, ...]]:
        return list(self._replayed.steps)

    @property
    def stages(self) -> list[Stage]:
        return self._replayed.stages()

    @property
    def stage_ops(self) -> list[Any]:
        return [stage.op for stage in self.stages]

    def _index(self, stage):
        if isinstance(stage, int):
            return stage
        wanted = getattr(stage, "op", stage)
        for index, op in enumerate(self.stage_ops):
            if op.same_as(wanted):
                return index
        raise Error(f"the state has no stage {wanted}; it has: {', '.join(op.name for op in self.stage_ops)}")

    def __getitem__(self, stage: Any) -> Stage:
        return self.stages[self._index(stage)]

    def _position(self, index, iterator):
        for position, axis in enumerate(self._replayed.schedule.stages[index].leaf_iter_vars):
            if axis.same_as(iterator):
                return position
        raise Error(f"stage {self.stage_ops[index].name} has no iterator {iterator}")

    def _add(self, name, stage, *rest):
        return self._replayed.apply((name, stage, *rest))

    def split(self, stage: Any, iterator: Any, lengths: Sequence[int | None], inner_to_outer: bool = True) -> list[Any]:
        """Iterators from the outermost in; `lengths` of all but the first (None: for the search to choose)."""
        if not inner_to_outer:
            raise Error("State.split: inner_to_outer=False has no counterpart: lengths are those of the inner iterators")
        index = self._index(stage)
        return self._add("split", index, self._position(index, iterator), tuple(lengths))

    def follow_split(self, stage: Any, iterator: Any, src_step_id: int, n_split: int) -> list[Any]:
        """Splits as another step did: its first n_split - 1 lengths, then the product of the others."""
        index = self._index(stage)
        return self._add("follow_split", index, self._position(index, iterator), int(src_step_id), int(n_split))

    def fuse(self, stage: Any, iters: Sequence[Any]) -> Any:
        """One iterator of several neighbours."""
        index = self._index(stage)
        return self._add("fuse", index, tuple(self._position(index, i) for i in iters))

    def reorder(self, stage: Any, order: Sequence[Any]) -> None:
        """Iterators in another order, outermost first."""
        index = self._index(stage)
        self._add("reorder", index, tuple(self._position(index, i) for i in order))

    def parallel(self, stage: Any, iterator: Any) -> Any:
        """An iterator whose iterations threads share."""
        index = self._index(stage)
        return self._add("parallel", index, self._position(index, iterator))

    def vectorize(self, stage: Any, iterator: Any) -> Any:
        """An iterator whose iterations are lanes of vectors."""
        index = self._index(stage)
        return self._add("vectorize", index, self._position(index, iterator))

    def unroll(self, stage: Any, iterator: Any, max_unroll: int | None = None) -> Any:
        """An iterator whose iterations are written one after the other."""
        index = self._index(stage)
        return self._add("unroll", index, self._position(index, iterator))

    def pragma(self, stage: Any, iterator: Any, pragma_type: str) -> None:
        """"name" or "name$value", such as auto_unroll_max_step$16."""
        index = self._index(stage)
        name, _, value = pragma_type.partition("$")
        self._add("pragma", index, self._position(index, iterator), (name, int(value)) if value else (name,))

    def compute_at(self, stage: Any, target_stage: Any, target_iter: Any) -> None:
        """Computes a stage within an iterator of another."""
        target = self._index(target_stage)
        self._add("compute_at", self._index(stage), target, self._position(target, target_iter))

    def compute_inline(self, stage: Any) -> None:
        """Computes a stage where it is read."""
        self._add("compute_inline", self._index(stage))

    def compute_root(self, stage: Any) -> None:
        """Computes a stage on its own."""
        self._add("compute_root", self._index(stage))

    def copy(self) -> State:
        """A state of its own with the same steps."""
        return State(self.state_object, self._dag)

    def __str__(self) -> str:
        lines = []
        for stage in self.stages:
            lines.append(f"{stage.op.name}: {stage.compute_at}")
            lines += [f"{'  ' * (depth + 1)}for {axis.var.name}" for depth, axis in enumerate(stage.iters)]
        return "\n".join(lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.state_object == other.state_object

    def __hash__(self) -> int:
        return hash(self.state_object)
