# SPDX-License-Identifier: Apache-2.0
"""The graph IR's text form."""
import re
from typing import TYPE_CHECKING

from .._ffi import convert, get_global_func
from ..error import ModelFormatError
from ..ir import IRModule, RelayExpr

if TYPE_CHECKING:
    from ..tir import PrimExpr

_META_MARK = "#[metadata]"
_LOOP_LEVEL = re.compile(r'\s*(#\[version = "[^"]*"\]\s*)?(@\w+ = )?primfn\(')


def parse(source: str, source_name: str = "from_string", init_module: IRModule | None = None,
          init_meta_table: dict | None = None) -> IRModule:
    """The module that a text describes, its types inferred. The text may use the definitions of `init_module`; it may
    be one of loop-level functions.

    `init_meta_table`: what `meta[class][number]` stands for, a dict from class to list, when the text has no metadata
    section of its own.
    Raises an error that shows the line and column of what is wrong.
    """
    if not isinstance(source, str):
        raise TypeError(f"parse: expected a text, not {type(source).__name__} {source!r}")
    if _LOOP_LEVEL.match(source):
        return get_global_func("tir.ParseModule")(source, source_name)
    if init_meta_table:
        if _META_MARK in source:
            raise ModelFormatError("the text has a metadata section of its own; init_meta_table would change it")
        source = f"{source}\n{_META_MARK}\n{get_global_func('node.SaveJSON')(convert(init_meta_table))}"
    if init_module is not None:
        return get_global_func("relay.parser.ParseModuleInto")(source_name, source, init_module)
    return get_global_func("relay.parser.ParseModule")(source_name, source)


def parse_expr(source: str) -> RelayExpr:
    """The expression that a text describes."""
    return get_global_func("relay.parser.ParseExpr")("from_string", source)


def fromtext(source: str, source_name: str = "from_string") -> IRModule:
    """The module of a text, as `parse` gives it."""
    return parse(source, source_name)


def Any() -> "PrimExpr":  # pylint: disable=invalid-name
    """A dimension of a shape that isn't known, another each time."""
    function = parse('#[version = "0.0.5"] def @main(%x: Tensor[(?), bool]) { %x }')["main"]
    return function.params[0].type_annotation.shape[0]
