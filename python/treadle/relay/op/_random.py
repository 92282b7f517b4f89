# SPDX-License-Identifier: Apache-2.0
"""Random numbers from keys: the same key gives the same numbers, and no numbers are drawn twice where each key is used
once. docs of the operators: random.threefry_generate, random.threefry_split, random.uniform."""
from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..expr import Expr, const
from ._make import call_op


def threefry_key(seed: int) -> Any:
    """The first key of a seed, an integer of up to 256 bits, as a constant."""
    words = np.frombuffer(int(seed).to_bytes(32, sys.byteorder), "uint64")
    return const(np.concatenate([words, np.array([0, 0, 0, 0, 1 << 63, 0], "uint64")]))


def threefry_generate(key: Any, shape: int | Sequence[int]) -> Any:
    """(the next key, uint64 numbers of that shape): all 64 bits are random."""
    return call_op("random.threefry_generate", [key], {"out_shape": _dims(shape)})


def threefry_split(key: Any) -> Any:
    """Two keys whose numbers have nothing in common, for use in two places."""
    return call_op("random.threefry_split", [key], {})


def uniform(key: Any, shape: int | Sequence[int], dtype: str = "float32", low: Any = 0.0, high: Any = 1.0) -> Any:
    """(the next key, numbers in [low, high) of that shape). dtype: float32 or float64."""
    low, high = (bound if isinstance(bound, Expr) else const(bound, dtype) for bound in (low, high))
    return call_op("random.uniform", [key, low, high], {"out_shape": _dims(shape), "out_dtype": str(dtype)})


def _dims(shape):
    return [int(dim) for dim in ([shape] if isinstance(shape, int) else shape)]


FUNCTIONS = {function.__name__: function for function in (threefry_key, threefry_generate, threefry_split, uniform)}
