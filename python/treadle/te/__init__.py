# SPDX-License-Identifier: Apache-2.0
"""Tensor expressions: what to compute, and schedules for how."""
from collections.abc import Callable
from typing import Any

from ..tir import (abs, acos, all, any, asin, atan, ceil, const, cos, cosh, div, erf, exp, floor, floordiv, floormod,
                   if_then_else, indexdiv, indexmod, infinity, isfinite, isinf, isnan, likely, log, log1p, log2, log10, max_value, min_value, power, round, rsqrt,
                   sigmoid, sin, sinh, sqrt, tan, tanh, trunc, truncdiv, truncmod)
from ..tir.expr import (acosh, asinh, atanh, exp2, exp10, popcount, fmod, nearbyint, power as pow, select,  # noqa: A004
                        trace)
from . import hybrid
from .auto_schedule import auto_schedule
from ..tir.reduction import argmax, argmin, comm_reducer, max, min, prod, sum  # noqa: A004
from .gradient import gradient
from .operation import (compute, create_prim_func, create_prim_func_from_outputs, extern, placeholder, reduce_axis, scan, size_var, thread_axis, var)
from .schedule import Schedule, Stage, create_schedule
from .specialized_condition import SpecializedCondition
from .tag import tag_scope
from .tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, ScanOp, Tensor, TensorSlice
from ..tir import TensorIntrin
from .tensor_intrin import decl_tensor_intrin
from . import schedule as _schedule, steps as _steps

for _step in (*_steps.NAMES, SpecializedCondition):
    setattr(_schedule, _step.__name__, _step)

build: Callable[..., Any]  # treadle.build; treadle/__init__.py sets it
