# SPDX-License-Identifier: Apache-2.0
"""What scripts call `I`: modules."""
from typing import Any

from ..error import Error
from ..ir import IRModule
from ..tir import PrimFunc

__all__ = ["ir_module"]


def ir_module(cls: Any) -> Any:
    """Decorator: the module of the functions of a class."""
    if not isinstance(cls, type):
        raise Error(f"ir_module decorates a class, not {cls!r}")
    functions = {name: value for name, value in vars(cls).items() if isinstance(value, PrimFunc)}
    for name, value in vars(cls).items():
        if not name.startswith("__") and name not in functions:
            raise Error(f"ir_module: {cls.__name__}.{name} isn't a loop-level function: decorate it with T.prim_func")
    return IRModule(functions)
