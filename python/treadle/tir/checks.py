# SPDX-License-Identifier: Apache-2.0
"""What schedules take: scopes of memory, threads, factors."""
from __future__ import annotations

from typing import Any

from ..error import Error
from ..ir import PrimExpr
from .expr import as_expr

ScheduleError = Error

_SCOPES = ("global", "shared", "local", "warp", "constant", "wmma", "texture")


def check_scope(primitive: str, scope: Any) -> str:
    """The storage scope, if there is one of that name."""
    if not isinstance(scope, str) or scope.split(".")[0] not in _SCOPES:
        raise ScheduleError(f"{primitive}: there is no storage scope {scope!r}; expected one of {', '.join(_SCOPES)}")
    return scope


def check_thread(primitive: str, thread: Any) -> str:
    """The name of a thread axis, if there is such."""
    kind, _, axis = str(thread).partition(".")
    if not isinstance(thread, str) or not (kind in ("blockIdx", "threadIdx") and axis in ("x", "y", "z") or
                                           kind in ("vthread", "cthread") and axis in ("", "x", "y", "z")):
        raise ScheduleError(f"{primitive}: there is no thread axis {thread!r}; expected blockIdx.x, threadIdx.x "
                            "(or .y, .z) or vthread")
    return thread


def check_factor(primitive: str, what: str, value: Any) -> Any:
    """An extent: a positive integer, or an expression of integers."""
    value = as_expr(value)
    dtype = str(value.dtype) if isinstance(value, PrimExpr) else ""
    if not dtype.startswith(("int", "uint")):
        raise ScheduleError(f"{primitive}: {what} is {value!r}; expected an integer")
    return value
