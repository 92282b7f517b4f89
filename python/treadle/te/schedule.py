# SPDX-License-Identifier: Apache-2.0
"""The schedule of tensor expressions: stages with axes."""
from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .._core import Object
from .._ffi import Api, Array, Map, register_object
from ..ir import IntImm, PrimExpr
from ..tir.checks import ScheduleError, check_factor, check_scope, check_thread
from ..tir.expr import IterVar, as_expr
from .tensor import Operation, Tensor

if TYPE_CHECKING:
    from .._typing import Scalar, TensorOrOp
    from ..tir import TensorIntrin
    from ..tir.stmt import Stmt

_api = Api("te")


def _operation(what, value):
    value = value.op if isinstance(value, Tensor) else value
    if not isinstance(value, Operation):
        raise ScheduleError(f"{what}: expected an operation or a tensor, not {value!r}")
    return value


_UNROLLING = ("auto_unroll_max_step", "auto_unroll_max_depth", "auto_unroll_max_extent", "unroll_explicit")


class Split:
    """An axis became two: `factor` is the extent of the inner one, or `nparts` that of the outer one."""

    def __init__(self, parent: IterVar, outer: IterVar, inner: IterVar, factor: PrimExpr | None,
                 nparts: PrimExpr | None) -> None:
        self.parent, self.outer, self.inner, self.factor, self.nparts = parent, outer, inner, factor, nparts

    def __repr__(self):
        size = f"factor={self.factor}" if self.factor is not None else f"nparts={self.nparts}"
        return f"Split({self.parent.var.name} -> {self.outer.var.name}, {self.inner.var.name}, {size})"


class Fuse:
    """Axes next to each other became one; `outer` and `inner` are the first and the last."""

    def __init__(self, axes: Sequence[IterVar], fused: IterVar) -> None:
        self.axes, self.outer, self.inner, self.fused = axes, axes[0], axes[-1], fused

    def __repr__(self):
        return f"Fuse({', '.join(a.var.name for a in self.axes)} -> {self.fused.var.name})"


class Singleton:
    """A computation of one element got an axis of one step."""

    def __init__(self, iter_var: IterVar) -> None:
        self.iter = iter_var

    def __repr__(self):
        return f"Singleton({self.iter.var.name})"


class IterVarAttr:
    """How the loop of one axis runs."""

    _KINDS = {"parallel": IterVar.Parallelized, "vectorize": IterVar.Vectorized, "unroll": IterVar.Unrolled,
              "tensorize": IterVar.Tensorized}

    def __init__(self, iter_type: int) -> None:
        self.iter_type = iter_type
        self.bind_thread = None  # name of the thread axis
        self.tensor_intrin = None
        self.pragma_keys, self.pragma_values = [], []
        self.prefetch_data = []  # names of tensors
        self.prefetch_offset = []

    def _add(self, key, text, value):
        self.iter_type = self._KINDS.get(key, self.iter_type)
        if key == "bind":
            self.bind_thread = text
        elif key == "tensorize":
            self.tensor_intrin = value
        elif key == "pragma":
            self.pragma_keys.append(text)
            self.pragma_values.append(value)
        elif key == "prefetch":
            self.prefetch_data.append(text)
            self.prefetch_offset.append(value)


@register_object("te.Stage")
class Stage(Object):
    """One operation and what is wanted of its loops."""

    op: Operation
    leaf_iter_vars: Array

    GROUPROOT, INLINE, _, SCOPE = 1, 2, 3, 4

    @property
    def group(self) -> Group | None:
        """The group that Schedule.create_group put the stage into last."""
        group = _GROUPS.get(self)
        return group and group()

    def _axis(self, primitive, axis, stage=None):
        if not isinstance(axis, IterVar):
            raise ScheduleError(f"{primitive}: {axis!r} isn't an axis of stage '{(stage or self).op.name}'; expected "
                                f"one of its axes ({', '.join(a.var.name for a in (stage or self).leaf_iter_vars)})")
        return axis

    def _axes(self, primitive, axes):
        if len(axes) == 1 and isinstance(axes[0], (list, tuple)):
            axes = axes[0]
        return [self._axis(primitive, axis) for axis in axes]

    def _stage(self, primitive, value):
        if not isinstance(value, Stage):
            raise ScheduleError(f"{primitive}: stage '{self.op.name}' can't be put into {value!r}; expected a stage, "
                                "such as s[C]")
        return value

    @property
    def all_iter_vars(self) -> list[IterVar]:
        """The axes of the operation and those that they became."""
        axes = list(getattr(self.op, "axis", [])) + list(getattr(self.op, "reduce_axis", []))
        made = [axis for _, after, _, _ in _api.StageSteps(self) for axis in after]
        for axis in made + list(self.leaf_iter_vars):
            if not any(axis.same_as(known) for known in axes):
                axes.append(axis)
        return axes

    @property
    def iter_var_attrs(self) -> dict[IterVar, IterVarAttr]:
        """How axes run, for those of which something was said: a dict from axes to IterVarAttr."""
        found = {}
        for key, axis, text, value in _api.StageMarks(self):
            if axis is not None:
                found.setdefault(axis, IterVarAttr(axis.iter_type))._add(key, text, value)
        return found

    @property
    def attach_type(self) -> int:
        """Where the stage is computed: GROUPROOT (by itself), INLINE, or SCOPE (inside a loop of another stage)."""
        return {1: Stage.INLINE, 2: Stage.SCOPE, 3: Stage.INLINE, 4: Stage.SCOPE}.get(_api.StageAttachment(self)[0],
                                                                                     Stage.GROUPROOT)

    @property
    def attach_stage(self) -> Stage | None:
        """The stage that this one is computed in; None: none."""
        return _api.StageAttachment(self)[1]

    @property
    def attach_ivar(self) -> IterVar | None:
        """The axis of attach_stage that this stage is computed in."""
        return _api.StageAttachment(self)[2]

    @property
    def relations(self) -> list[Split | Fuse | Singleton]:
        """How axes became others, in order: te.schedule.Split and Fuse."""
        return [Split(*before, *after, factor, nparts) if len(after) == 2 else
                Fuse(list(before), *after) if len(before) else Singleton(*after)
                for before, after, factor, nparts in _api.StageSteps(self)]

    def split(self, parent: IterVar, factor: Scalar | None = None,
              nparts: Scalar | None = None) -> tuple[IterVar, IterVar]:
        """(outer, inner) axis: `factor` is the extent of the inner one, `nparts` that of the outer one."""
        axis = self._axis("split", parent)
        if (factor is None) == (nparts is None):
            raise ValueError(f"split: axis '{axis.var.name}' of stage '{self.op.name}' needs either factor or nparts")
        what = f"the {'factor' if nparts is None else 'nparts'} of axis '{axis.var.name}' of stage '{self.op.name}'"
        value = check_factor("split", what, factor if nparts is None else nparts)
        return tuple((_api.StageSplitByFactor if nparts is None else _api.StageSplitByNParts)(self, axis, value))

    def fuse(self, *axes: IterVar | Sequence[IterVar]) -> IterVar:
        return _api.StageFuse(self, self._axes("fuse", axes))

    def reorder(self, *axes: IterVar | Sequence[IterVar]) -> None:
        _api.StageReorder(self, self._axes("reorder", axes))

    def tile(self, x_parent: IterVar, y_parent: IterVar, x_factor: Scalar,
             y_factor: Scalar) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """(x outer, y outer, x inner, y inner)"""
        x, y = self._axis("tile", x_parent), self._axis("tile", y_parent)
        if x.same_as(y):
            raise ScheduleError(f"tile: axis '{x.var.name}' of stage '{self.op.name}' is given twice; expected two axes")
        factors = [check_factor("tile", f"the factor of axis '{axis.var.name}' of stage '{self.op.name}'", factor)
                   for axis, factor in ((x, x_factor), (y, y_factor))]
        return tuple(_api.StageTile(self, x, y, *factors))

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Computes what one iteration of `scope`, an axis of the consuming stage, needs, there."""
        parent = self._stage("compute_at", parent)
        _api.StageComputeAt(self, parent, self._axis("compute_at", scope, parent))

    def compute_inline(self) -> None:
        _api.StageComputeInline(self)

    def compute_root(self) -> None:
        _api.StageComputeRoot(self)

    def reverse_compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Runs right after its producer `parent` under `scope`, an axis of that stage."""
        parent = self._stage("reverse_compute_at", parent)
        _api.StageReverseComputeAt(self, parent, self._axis("reverse_compute_at", scope, parent))

    def reverse_compute_inline(self) -> None:
        """Done where its only producer stores."""
        _api.StageReverseComputeInline(self)

    def set_scope(self, scope: str) -> None:
        _api.StageSetScope(self, check_scope(f"set_scope of stage '{self.op.name}'", scope))

    def vectorize(self, axis: IterVar) -> None:
        _api.StageVectorize(self, self._axis("vectorize", axis))

    def parallel(self, axis: IterVar) -> None:
        _api.StageParallel(self, self._axis("parallel", axis))

    def unroll(self, axis: IterVar) -> None:
        _api.StageUnroll(self, self._axis("unroll", axis))

    def tensorize(self, axis: IterVar, intrin: TensorIntrin) -> None:
        """The loops from `axis` inwards are replaced by an intrinsic (te.decl_tensor_intrin) that computes the same."""
        from .tensor_intrin import TensorIntrin

        if not isinstance(intrin, TensorIntrin):
            raise ScheduleError(f"tensorize: stage '{self.op.name}': expected an intrinsic (te.decl_tensor_intrin), "
                                f"not {intrin!r}")
        _api.StageTensorize(self, self._axis("tensorize", axis), intrin)

    def bind(self, axis: IterVar, thread: IterVar | str) -> None:
        axis = self._axis("bind", axis)
        if isinstance(thread, IterVar):
            dom = thread.dom
            if dom is not None and isinstance(dom.extent, IntImm) and isinstance(axis.dom.extent, IntImm) and (
                    int(dom.extent) != int(axis.dom.extent)):
                raise ScheduleError(f"bind: axis '{axis.var.name}' of stage '{self.op.name}' has extent "
                                    f"{axis.dom.extent}, the thread axis {thread.thread_tag} {dom.extent}")
            thread = thread.thread_tag
        check_thread(f"bind of axis '{axis.var.name}' of stage '{self.op.name}'", thread)
        _api.StageBind(self, axis, str(thread))

    def env_threads(self, threads: IterVar | Sequence[IterVar]) -> None:
        """Threads that run around the stage; axes are bound to them."""
        threads = list(threads) if isinstance(threads, (list, tuple)) else [threads]
        for thread in threads:
            if not isinstance(thread, IterVar) or not thread.thread_tag:
                raise ScheduleError(f"env_threads of stage '{self.op.name}': expected thread axes, not {thread!r}")
        _api.StageEnvThreads(self, threads)

    def set_store_predicate(self, predicate: Scalar) -> None:
        """The stage stores only where `predicate` holds, in terms of its axes and threads they are bound to."""
        predicate = as_expr(predicate)
        if not isinstance(predicate, PrimExpr) or str(predicate.dtype) != "bool":
            raise ScheduleError(f"set_store_predicate of stage '{self.op.name}': expected a bool, not {predicate!r}")
        _api.StageSetStorePredicate(self, predicate)

    def pragma(self, axis: IterVar, pragma_type: str, pragma_value: Scalar | str = 1) -> None:
        axis = self._axis("pragma", axis)
        value = pragma_value if isinstance(pragma_value, str) else as_expr(pragma_value)
        number = isinstance(value, PrimExpr)
        if not (number or isinstance(value, str)) or (pragma_type in _UNROLLING and not number):
            raise ScheduleError(f"pragma {pragma_type} of axis '{axis.var.name}' of stage '{self.op.name}': expected "
                                f"{'a number' if pragma_type in _UNROLLING else 'a number or text'}, not {value!r}")
        _api.StagePragma(self, axis, pragma_type, value)

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        _api.StageStorageAlign(self, self._axis("storage_align", axis), factor, offset)

    def double_buffer(self) -> None:
        _api.StageDoubleBuffer(self)

    def prefetch(self, tensor: Tensor, axis: IterVar, offset: Scalar) -> None:
        if not isinstance(tensor, Tensor):
            raise ScheduleError(f"prefetch: stage '{self.op.name}': expected a tensor, not {tensor!r}")
        _api.StagePrefetch(self, tensor, self._axis("prefetch", axis),
                           check_factor("prefetch", f"the offset of tensor {tensor.name}", offset))


# Groups belong to schedules, their stages to them: no entry outlives its schedule.
_GROUPS: weakref.WeakKeyDictionary[Stage, weakref.ref[Group]] = weakref.WeakKeyDictionary()


class Group:
    """Stages that Schedule.create_group put together."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = stages
        _GROUPS.update(dict.fromkeys(stages, weakref.ref(self)))

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Computes all of them inside one axis of another stage."""
        for stage in self.stages:
            stage.compute_at(parent, scope)

    def compute_root(self) -> None:
        for stage in self.stages:
            stage.compute_root()


@register_object("te.Schedule")
class Schedule(Object):
    """Stages by tensor or operation: s[C]."""

    stages: Array
    outputs: Array

    def __getitem__(self, key: TensorOrOp) -> Stage:
        return _api.ScheduleGetStage(self, _operation("a stage of the schedule", key))

    def cache_read(self, tensor: Tensor, scope: str, readers: TensorOrOp | Sequence[TensorOrOp]) -> Tensor:
        readers = readers if isinstance(readers, (list, tuple)) else [readers]
        if not isinstance(tensor, Tensor):
            raise ScheduleError(f"cache_read: expected a tensor, not {tensor!r}")
        if not readers:
            raise ScheduleError(f"cache_read of tensor {tensor.name}: no readers; expected operations that read it")
        return _api.ScheduleCacheRead(self, tensor, check_scope(f"cache_read of tensor {tensor.name}", scope),
                                      [_operation("cache_read: a reader", r) for r in readers])

    def cache_write(self, tensor: Tensor | Sequence[Tensor], scope: str) -> Any:
        """The computation in `scope`, from where the tensor's stage copies. Of a computation of several outputs, all
        are given as a list, and a list is returned."""
        several = isinstance(tensor, (list, tuple))
        for each in tensor if several else [tensor]:
            if not isinstance(each, Tensor):
                raise ScheduleError(f"cache_write: expected a tensor, not {each!r}")
            check_scope(f"cache_write of tensor {each.name}", scope)
        cached = list(_api.ScheduleCacheWrite(self, list(tensor) if several else [tensor], scope))
        return cached if several else cached[0]

    def rfactor(self, tensor: Tensor, axis: IterVar, factor_axis: int = 0) -> Any:
        """Partial results along `axis` as a stage of its own, whose tensor (or list of several) is returned."""
        if not isinstance(tensor, Tensor) or not isinstance(axis, IterVar):
            raise ScheduleError(f"rfactor: expected a tensor and one of its reduction axes, not {tensor!r} and {axis!r}")
        partials = list(_api.ScheduleRFactor(self, tensor, axis, factor_axis))
        return partials[0] if len(partials) == 1 else partials

    def create_group(self, outputs: TensorOrOp | Sequence[TensorOrOp], inputs: TensorOrOp | Sequence[TensorOrOp],
                     include_inputs: bool = False) -> Group:
        """The stages between inputs and outputs, which are placed together."""
        outputs, inputs = ([_operation("create_group", t) for t in (ts if isinstance(ts, (list, tuple)) else [ts])]
                           for ts in (outputs, inputs))
        members, waiting = [], list(outputs)
        while waiting:
            op = waiting.pop()
            if any(op.same_as(known) for known in members):
                continue
            stop = any(op.same_as(known) for known in inputs)
            if not stop or include_inputs:
                members.append(op)
            if not stop:
                waiting += [t.op for t in op.input_tensors if type(t.op).__name__ != "PlaceholderOp"]
        group = Group([self[op] for op in members if type(op).__name__ != "PlaceholderOp"])
        self.groups.append(group)
        return group

    @property
    def groups(self) -> list[Group]:
        """What create_group made."""
        return self.__dict__.setdefault("_groups", [])

    def normalize(self) -> Schedule:
        """The schedule itself: it is always in normal form."""
        return self


def create_schedule(ops: TensorOrOp | Iterable[TensorOrOp]) -> Schedule:
    """The default schedule of operations: nested loops in the order of the axes."""
    ops = ops if isinstance(ops, (list, tuple)) or type(ops).__name__ == "Array" else [ops]
    if not len(ops):
        raise ScheduleError("create_schedule: no operations; expected those whose results are wanted")
    return _api.CreateSchedule([_operation("create_schedule", op) for op in ops])


def _inline(schedule, kinds):
    for stage in schedule.stages:
        if str(getattr(stage.op, "tag", "")).startswith(kinds) and type(stage.op).__name__ == "ComputeOp" and \
                not any(stage.op.same_as(output) for output in schedule.outputs):
            stage.compute_inline()


def AutoInlineElemWise(schedule: Schedule) -> None:  # pylint: disable=invalid-name
    """Computes what is element-wise (tag.ELEMWISE), but results, where it is read."""
    _inline(schedule, ("elemwise",))


def AutoInlineBroadcast(schedule: Schedule) -> None:  # pylint: disable=invalid-name
    """Computes what is tagged as a broadcast, but results, where it is read."""
    _inline(schedule, ("broadcast",))


def AutoInlineInjective(schedule: Schedule) -> None:  # pylint: disable=invalid-name
    """Computes what is tagged as injective, but results, where it is read."""
    _inline(schedule, ("elemwise", "broadcast", "injective"))


def InferBound(schedule: Schedule) -> Map:  # pylint: disable=invalid-name
    """The range of each axis of the stages: a mapping. Stages computed within loops of others have the part that is
    computed at a time, in terms of the axes of these loops."""
    from .bounds import infer_bound

    if not isinstance(schedule, Schedule):
        raise ScheduleError(f"InferBound: expected a schedule, not {schedule!r}")
    return Map(infer_bound(schedule, lambda: ScheduleOps(schedule)))


def ScheduleOps(schedule: Schedule, bounds: Map | None = None,
                debug_keep_trivial_loop: bool = False) -> Stmt:  # pylint: disable=invalid-name
    """The loops that a schedule stands for, as a statement over its placeholders and outputs. `bounds`, as InferBound
    gives them, follow from the schedule."""
    del bounds, debug_keep_trivial_loop
    from .parameters import parameters

    args = [stage.op.output(0) for stage in schedule.stages if type(stage.op).__name__ == "PlaceholderOp"]
    args += [op.output(i) for op in schedule.outputs for i in range(op.num_outputs)]
    return _api.ScheduleApply(schedule, *parameters(args, None), "main").body
