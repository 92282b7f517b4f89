# SPDX-License-Identifier: Apache-2.0
"""The schedule of tensor expressions: stages with axes."""
from .._core import Object
from .._ffi import Api, register_object
from ..error import Error as ScheduleError
from ..ir import IntImm
from ..tir.expr import IterVar, as_expr
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

    def reverse_compute_at(self, parent, scope):
        """Runs right after its producer `parent` under `scope`, an axis of that stage."""
        _api.StageReverseComputeAt(self, parent, scope)

    def reverse_compute_inline(self):
        """Done where its only producer stores."""
        _api.StageReverseComputeInline(self)

    def set_scope(self, scope):
        _api.StageSetScope(self, scope)

    def vectorize(self, axis):
        _api.StageVectorize(self, axis)

    def parallel(self, axis):
        _api.StageParallel(self, axis)

    def unroll(self, axis):
        _api.StageUnroll(self, axis)

    def tensorize(self, axis, intrin):
        """The loops from `axis` inwards are replaced by an intrinsic (te.decl_tensor_intrin) that computes the same."""
        _api.StageTensorize(self, axis, intrin)

    def bind(self, axis, thread):
        if isinstance(thread, IterVar):
            dom = thread.dom
            if dom is not None and isinstance(dom.extent, IntImm) and isinstance(axis.dom.extent, IntImm) and (
                    int(dom.extent) != int(axis.dom.extent)):
                raise ScheduleError(f"bind: axis '{axis.var.name}' of stage '{self.op.name}' has extent "
                                    f"{axis.dom.extent}, the thread axis {thread.thread_tag} {dom.extent}")
            thread = thread.thread_tag
        _api.StageBind(self, axis, str(thread))

    def env_threads(self, threads):
        """Threads that run around the stage; axes are bound to them."""
        _api.StageEnvThreads(self, list(threads) if isinstance(threads, (list, tuple)) else [threads])

    def set_store_predicate(self, predicate):
        """The stage stores only where `predicate` holds, in terms of its axes and threads they are bound to."""
        _api.StageSetStorePredicate(self, as_expr(predicate))

    def pragma(self, axis, pragma_type, pragma_value=1):
        value = pragma_value if isinstance(pragma_value, str) else as_expr(pragma_value)
        _api.StagePragma(self, axis, pragma_type, value)

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
        """The computation in `scope`, from where the tensor's stage copies. Of a computation of several outputs, all
        are given as a list, and a list is returned."""
        several = isinstance(tensor, (list, tuple))
        cached = list(_api.ScheduleCacheWrite(self, list(tensor) if several else [tensor], scope))
        return cached if several else cached[0]

    def rfactor(self, tensor, axis, factor_axis=0):
        """Partial results along `axis` as a stage of its own, whose tensor (or list of several) is returned."""
        partials = list(_api.ScheduleRFactor(self, tensor, axis, factor_axis))
        return partials[0] if len(partials) == 1 else partials

    def normalize(self):
        """The schedule itself: it is always in normal form."""
        return self


def create_schedule(ops):
    """The default schedule of operations: nested loops in the order of the axes."""
    ops = ops if isinstance(ops, (list, tuple)) else [ops]
    return _api.CreateSchedule([_op(op) for op in ops])


