# SPDX-License-Identifier: Apache-2.0
"""From schedules to functions that run."""
from ._ffi import Api
from .ir import IRModule
from .target import Target

_api = Api("driver")
_te = Api("te")


def lower(inputs, args=None, name="main", simple_mode=False, target="llvm"):
    """The module of loops that a schedule (with its tensors), a function or a module of blocks stands for."""
    from . import te, tir

    if isinstance(inputs, te.Schedule):
        if args is None:
            raise ValueError("lowering a schedule needs the list of tensors that are its parameters")
        inputs = _te.ScheduleApply(inputs, list(args), name)
    if isinstance(inputs, tir.PrimFunc):
        inputs = tir.Schedule(inputs).mod
    return _api.LowerModule(inputs, str(target), simple_mode)


def build(inputs, args=None, target=None, target_host=None, name="main"):
    """Compiles a schedule, function or module; the result's functions can be called."""
    target = str(Target(target or "llvm"))
    if not isinstance(inputs, IRModule):
        inputs = lower(inputs, args, name=name, target=target)
    return _api.BuildModule(inputs, target)
