# SPDX-License-Identifier: Apache-2.0
"""What can be known about integer expressions."""
from .._ffi import Api
from ..tir.expr import as_expr

_api = Api("arith")


def simplify(expr):
    """An equal expression in normal form."""
    return _api.Simplify(as_expr(expr))


def can_prove(condition, ranges=None):
    """Whether the condition holds for all values of the variables in their ranges."""
    return bool(_api.CanProve(condition, ranges or {}))


def const_int_bound(expr, ranges=None):
    """(least, greatest) value."""
    low, high = _api.ConstIntBound(as_expr(expr), ranges or {})
    return low.value, high.value
