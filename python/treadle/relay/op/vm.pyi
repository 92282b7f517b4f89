# SPDX-License-Identifier: Apache-2.0
# Written by tools/docs/op_stubs.py.
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from treadle._typing import DTypeLike, ExprLike
from treadle.relay.expr import Expr, TupleWrapper

Sizes = int | Expr | Sequence[int | Expr]


def host_call(values: ExprLike, function: str = '', kind: str = 'tensor', dtype: DTypeLike = 'void', rank: int = -1
        ) -> Expr:
    """Calls a function of the virtual machine, on strings, sequences, optionals and maps."""
