# SPDX-License-Identifier: Apache-2.0
"""Questions about expressions of the graph IR."""
from .._ffi import get_global_func


def __getattr__(name):
    function = get_global_func(f"relay.analysis.{name}", allow_missing=True)
    if function is None:
        raise AttributeError(f"no analysis '{name}'")
    return function


def post_order_visit(expr, fvisit):
    """Calls `fvisit` with each expression once, operands first."""
    return get_global_func("relay.analysis.post_order_visit")(expr, fvisit)
