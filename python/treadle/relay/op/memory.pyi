# SPDX-License-Identifier: Apache-2.0
# Written by tools/docs/op_stubs.py.
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from treadle._typing import DTypeLike, ExprLike
from treadle.relay.expr import Expr, TupleWrapper

Sizes = int | Expr | Sequence[int | Expr]


def alloc_storage(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: graphs don't say where values are stored; compilers of executors plan that."""

def alloc_tensor(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: graphs don't say where values are stored; compilers of executors plan that."""

def flatten_tuple_type(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: graphs don't say where values are stored; compilers of executors plan that."""

def from_tuple_type(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: graphs don't say where values are stored; compilers of executors plan that."""

def to_tuple_type(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: graphs don't say where values are stored; compilers of executors plan that."""
