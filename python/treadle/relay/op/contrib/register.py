# SPDX-License-Identifier: Apache-2.0
"""Pattern tables by name of the code generator."""
from typing import Any

from ...._ffi import get_global_func, register_func

_TABLES: dict = {}


def register_pattern_table(compiler: str, table: Any = None) -> Any:
    """Registers a list of (name, pattern) or (name, pattern, check), or decorates the function that makes it."""

    def register(value):
        patterns = value() if callable(value) else value
        _TABLES[compiler] = patterns

        def group(mod):
            from ... import transform

            return transform.MergeComposite(patterns)(mod)

        register_func(f"relay.ext.{compiler}.patterns", group, override=True)
        return value

    return register if table is None else register(table)


def get_pattern_table(compiler: str) -> Any:
    """The table of a code generator, registered here or in C++, as a list of (name, pattern, check); or None."""
    if compiler in _TABLES:
        return _TABLES[compiler]
    table = get_global_func(f"relay.ext.{compiler}.pattern_table", allow_missing=True)
    return None if table is None else [(str(name), pattern, check) for name, pattern, check in table()]
