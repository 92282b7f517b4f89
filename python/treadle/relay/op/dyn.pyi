# SPDX-License-Identifier: Apache-2.0
# Written by tools/docs/op_stubs.py.
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from treadle._typing import DTypeLike, ExprLike
from treadle.relay.expr import Expr, TupleWrapper

Sizes = int | Expr | Sequence[int | Expr]


def append(rows: ExprLike, row: ExprLike) -> Expr:
    """`rows` with one more: what loops collect results with. Rows of size 0 take the shape of the first."""

def broadcast_to(data: ExprLike, shape: ExprLike, dtype: DTypeLike = 'void') -> Expr:
    """As broadcast_to, with the sizes given by an operand."""

def forget_shape(data: ExprLike, axes: Sizes = ()) -> Expr:
    """The operand; nothing is known of these dimensions. Branches of different shapes have one type so."""

def full(fill_value: ExprLike, shape: ExprLike, dtype: DTypeLike = 'void') -> Expr:
    """As full, with the sizes given by an operand."""

def iota(count: ExprLike) -> Expr:
    """0, 1, .., count - 1."""

def one_hot(indices: ExprLike, on_value: ExprLike, off_value: ExprLike, depth: ExprLike, axis: int = -1,
        dtype: DTypeLike = 'void') -> Expr:
    """As one_hot, with the sizes given by an operand."""

def ones(shape: ExprLike, dtype: DTypeLike = 'void') -> Expr:
    """As ones, with the sizes given by an operand."""

def reshape(data: ExprLike, shape: ExprLike, newshape: Any, allowzero: bool = False) -> Expr:
    """As reshape, with the sizes given by an operand."""

def resize_axis(data: ExprLike, size: ExprLike, scale: ExprLike, roi: ExprLike, axis: int = 0, method: str = 'nearest',
        transform: str = 'half_pixel', rounding: str = 'round_prefer_floor', cubic_alpha: float = ...,
        exclude_outside: bool = False, antialias: bool = False, extrapolation_value: float = ..., by_size: bool = False
        ) -> Expr:
    """One dimension resampled to a size, by a factor; both are operands."""

def squeeze(data: ExprLike, axis: ExprLike) -> Expr:
    """As squeeze, with the sizes given by an operand."""

def strided_slice(data: ExprLike, begin: ExprLike, end: ExprLike, strides: ExprLike, slice_mode: str = 'end',
        axes: Sequence[int] | None = None) -> Expr:
    """As strided_slice, with the sizes given by an operand."""

def take_rows(data: ExprLike, count: ExprLike) -> Expr:
    """The first rows, as many as `count` says, in the same memory."""

def tile(data: ExprLike, reps: ExprLike) -> Expr:
    """As tile, with the sizes given by an operand."""

def topk(data: ExprLike, k: ExprLike, axis: int = -1, ret_type: str = 'both', is_ascend: bool = False,
        dtype: DTypeLike = 'int32') -> TupleWrapper:
    """As topk, with the sizes given by an operand."""

def transpose(data: ExprLike, axes: ExprLike) -> Expr:
    """As transpose, with the order of dimensions given by an operand."""

def zeros(shape: ExprLike, dtype: DTypeLike = 'void') -> Expr:
    """As zeros, with the sizes given by an operand."""
