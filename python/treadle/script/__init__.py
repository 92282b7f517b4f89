# SPDX-License-Identifier: Apache-2.0
"""TVMScript: loop-level functions written in Python's syntax, and printed in it."""
from typing import Any

from . import ir, tir
from .ir import ir_module
from .parser import ScriptError, parse_text
from .printer import script
from ..ir.base import Node as _Node


def from_source(text: str, name: str = "<script>") -> Any:
    """The function that a text in TVMScript defines, or the module of the class that it defines. Beside T and I, the text
    can name only what it defines itself."""
    if not isinstance(text, str):
        raise TypeError(f"from_source: expected a text in TVMScript, not {text!r}")
    return parse_text(text, name, tir)


def _text(self, *args, **kwargs):
    return script(self)


def _enable():
    """`func.script()` and `module.script()` give this text; modules of graph functions print as they do."""
    from ..ir import IRModule
    from ..tir import PrimFunc

    PrimFunc.script = _text
    IRModule.script = lambda self, *args, **kwargs: script(self) if len(self.functions) > 0 and all(
        isinstance(f, PrimFunc) for f in self.functions.values()) else _Node.script(self)


_enable()
