# SPDX-License-Identifier: Apache-2.0
# Written by tools/docs/op_stubs.py.
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from treadle._typing import DTypeLike, ExprLike
from treadle.relay.expr import Expr, TupleWrapper

Sizes = int | Expr | Sequence[int | Expr]


def cast_hint(data: ExprLike, dtype: DTypeLike = 'void') -> Expr:
    """The values fit the given type."""

def checkpoint(data: ExprLike) -> Expr:
    """Values that the gradient keeps instead of computing them again."""

def compiler_begin(data: ExprLike, compiler: str = '') -> Expr:
    """An input of a region for an external code generator."""

def compiler_end(data: ExprLike, compiler: str = '') -> Expr:
    """An output of a region for an external code generator."""

def on_device(body: ExprLike, device: Any = None, constrain_result: bool = False, constrain_body: bool = True,
        is_fixed: bool | None = None, device_type: Any = None) -> Expr:
    """Says that `body` is computed on a device; with `constrain_result` that its value is needed there, too."""

def stop_fusion(data: ExprLike) -> Expr:
    """Keeps FuseOps from joining what is before with what is after."""
