# SPDX-License-Identifier: Apache-2.0
"""Small helpers."""
from __future__ import annotations

import random
import sys as _sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from .._refused import refuse_names as _refuse_names
from ..error import Error
from ..topi.utils import get_const_int, get_const_tuple

__all__ = ["EmptyContext", "format_si_prefix", "get_const_int", "get_const_tuple", "get_func_name", "get_rank", "sample_ints"]


class EmptyContext(nullcontext[None]):
    """A context that does nothing."""


def get_rank(values: Sequence[Any]) -> list[int]:
    """The place of each value where the largest is first."""
    order = sorted(range(len(values)), key=lambda i: -values[i])
    ranks = [0] * len(values)
    for place, i in enumerate(order):
        ranks[i] = place
    return ranks


def sample_ints(low: int, high: int, m: int) -> list[int]:
    """m different numbers of range(low, high)."""
    return random.sample(range(low, high), m)


def get_func_name(func: Callable[..., Any]) -> str:
    """The name that a function was registered by, else its own."""
    return str(getattr(func, "func_name", None) or getattr(func, "__qualname__", func))


def format_si_prefix(x: float, si_prefix: str) -> float:
    """In units of a prefix: format_si_prefix(2e9, "G") is 2."""
    powers = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12}
    if si_prefix not in powers:
        raise Error(f"format_si_prefix: expected a prefix of {', '.join(map(repr, powers))}, not {si_prefix!r}")
    return x / 10 ** powers[si_prefix]


_refuse_names(_sys.modules[__name__], "autotvm.utils", {"pool_map": "map of a concurrent.futures executor does it"})
