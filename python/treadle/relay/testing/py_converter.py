# SPDX-License-Identifier: Apache-2.0
"""Values of programs of the graph IR, computed step by step."""
from typing import Any

from ...error import UnsupportedOpError
from ...ir import IRModule
from ..expr import Function


def run_as_python(expr: Any, mod: IRModule | None = None, target: str = "llvm") -> Any:
    """The value of an expression, computed step by step in this process."""
    from .. import create_executor

    module = IRModule() if mod is None else mod.shallow_copy()
    module["main"] = expr if isinstance(expr, Function) else Function([], expr)
    executor = create_executor("debug", mod=module, target=target)
    return executor.evaluate() if isinstance(expr, Function) else executor.evaluate()()


def to_python(expr: Any, mod: IRModule | None = None, target: str = "llvm") -> Any:
    """Not there: programs aren't translated to Python."""
    raise UnsupportedOpError("to_python: programs aren't translated to Python; run_as_python gives their values")
