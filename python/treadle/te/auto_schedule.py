# SPDX-License-Identifier: Apache-2.0
"""Schedules for tensor expressions that come without one."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._ffi import Api
from ..target import Target
from .operation import create_prim_func
from .tensor import Tensor

if TYPE_CHECKING:
    from .._typing import TargetLike
    from ..tir import PrimFunc, Var

_api = Api("te")


def auto_schedule(args: Tensor | Sequence[Tensor | Var], target: TargetLike | None = None, name: str = "main") -> PrimFunc:
    """The function of tensors (and scalar variables), scheduled for the target: matrix products by its kernels, other
    sums in register tiles, all of it in vectors and threads. Sums may be in another order than written."""
    target = Target(target or Target.current() or "llvm")
    args = [args] if isinstance(args, Tensor) else list(args)
    if all(isinstance(arg, Tensor) for arg in args):
        args = list(_api.WithKernels(args, target))
    return _api.AutoSchedule(create_prim_func(args, name), target)
