# SPDX-License-Identifier: Apache-2.0
"""The schedule of tensor expressions: stages with axes."""
from .._core import Object
from .._ffi import Api, register_object
from ..tir.expr import as_expr
from .tensor import Tensor

_api = Api("te")


def _op(value):
    return value.op if isinstance(value, Tensor) else value


@register_object("te.Stage")
class Stage(Object):
    """One operation and what is wanted of its loops."""

    def split(self, parent, factor=None, nparts=None):
        """(outer, inner) axis: `factor` is the extent of the inner one, `nparts` that of the outer one."""
        if (factor is None) == (nparts is None):
            raise ValueError("split needs either factor or nparts")
        if factor is not None:
            return tuple(_api.StageSplitByFactor(self, parent, as_expr(factor)))
        return tuple(_api.StageSplitByNParts(self, parent, as_expr(nparts)))

    def fuse(self, *axes):
        return _api.StageFuse(self, list(axes))

    def reorder(self, *axes):
        _api.StageReorder(self, list(axes))

    def tile(self, x_parent, y_parent, x_factor, y_factor):
        """(x outer, y outer, x inner, y inner)"""
        return tuple(_api.StageTile(self, x_parent, y_parent, as_expr(x_factor), as_expr(y_factor)))

    def compute_at(self, parent, scope):
        """Computes what one iteration of `scope`, an axis of the consuming stage, needs, there."""
        _api.StageComputeAt(self, parent, scope)

    def compute_inline(self):
        _api.StageComputeInline(self)

    def compute_root(self):
        _api.StageComputeRoot(self)

    def set_scope(self, scope):
        _api.StageSetScope(self, scope)

    def vectorize(self, axis):
        _api.StageVectorize(self, axis)

    def parallel(self, axis):
        _api.StageParallel(self, axis)

    def unroll(self, axis):
        _api.StageUnroll(self, axis)

    def bind(self, axis, thread):
        _api.StageBind(self, axis, str(thread))

    def pragma(self, axis, pragma_type, pragma_value=1):
        _api.StagePragma(self, axis, pragma_type, as_expr(pragma_value))

    def storage_align(self, axis, factor, offset):
        _api.StageStorageAlign(self, axis, factor, offset)

    def double_buffer(self):
        _api.StageDoubleBuffer(self)

    def prefetch(self, tensor, axis, offset):
        _api.StagePrefetch(self, tensor, axis, as_expr(offset))


@register_object("te.Schedule")
class Schedule(Object):
    """Stages by tensor or operation: s[C]."""

    def __getitem__(self, key):
        return _api.ScheduleGetStage(self, _op(key))

    def cache_read(self, tensor, scope, readers):
        readers = readers if isinstance(readers, (list, tuple)) else [readers]
        return _api.ScheduleCacheRead(self, tensor, scope, [_op(r) for r in readers])

    def cache_write(self, tensor, scope):
        return _api.ScheduleCacheWrite(self, tensor, scope)


def create_schedule(ops):
    """The default schedule of operations: nested loops in the order of the axes."""
    ops = ops if isinstance(ops, (list, tuple)) else [ops]
    return _api.CreateSchedule([_op(op) for op in ops])


