# SPDX-License-Identifier: Apache-2.0
"""Pattern tables by name of the code generator."""
from ...._ffi import register_func

_TABLES = {}


def register_pattern_table(compiler, table=None):
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


def get_pattern_table(compiler):
    """The table of a code generator, or None."""
    return _TABLES.get(compiler)
