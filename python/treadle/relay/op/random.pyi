# SPDX-License-Identifier: Apache-2.0
# Written by tools/docs/op_stubs.py.
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from treadle._typing import DTypeLike, ExprLike
from treadle.relay.expr import Expr, TupleWrapper

Sizes = int | Expr | Sequence[int | Expr]


def threefry_generate(key: Any, shape: int | Sequence[int]) -> Any:
    """(the next key, uint64 numbers of that shape): all 64 bits are random."""

def threefry_key(seed: int) -> Any:
    """The first key of a seed, an integer of up to 256 bits, as a constant."""

def threefry_split(key: Any) -> Any:
    """Two keys whose numbers have nothing in common, for use in two places."""

def uniform(key: Any, shape: int | Sequence[int], dtype: str = 'float32', low: Any = ..., high: Any = ...) -> Any:
    """(the next key, numbers in [low, high) of that shape). dtype: float32 or float64."""

def uniform_like(like: ExprLike, seed: int = 0) -> Expr:
    """Numbers in [0, 1) of the shape of the operand: a hash of the seed and of the position."""
