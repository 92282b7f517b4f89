# SPDX-License-Identifier: Apache-2.0
"""What can be known about integer expressions."""
from .._ffi import Api
from ..ir import Range
from ..tir.expr import as_expr

_api = Api("arith")
_tir = Api("tir")


def simplify(expr):
    """An equal expression in normal form."""
    return _api.Simplify(as_expr(expr), {})


def can_prove(condition, ranges=None):
    """Whether the condition holds for all values of the variables in their ranges."""
    return bool(_api.CanProve(condition, ranges or {}))


def const_int_bound(expr, ranges=None):
    """(least, greatest) value."""
    low, high = _api.ConstIntBound(as_expr(expr), ranges or {})
    return low.value, high.value


class ConstIntBound:
    """The least and greatest value of an expression; POS_INF and NEG_INF where there is none."""

    POS_INF = (1 << 63) - 1
    NEG_INF = -(1 << 63)

    def __init__(self, min_value, max_value):
        self.min_value, self.max_value = min_value, max_value

    def __repr__(self):
        return f"ConstIntBound[{self.min_value}, {self.max_value}]"


class ModularSet:
    """The values coeff * n + base for integers n."""

    def __init__(self, coeff, base):
        self.coeff, self.base = coeff, base

    def __repr__(self):
        return f"ModularSet({self.coeff}, {self.base})"


def detect_linear_equation(expr, var_list):
    """[coefficient of each variable..., the rest]; an empty list where the expression isn't linear in them."""
    return list(_api.DetectLinearEquation(as_expr(expr), list(var_list)))


class Analyzer:
    """What can be known of expressions, given ranges of their variables."""

    def __init__(self):
        self._ranges, self._values = {}, {}

    def bind(self, var, expr):
        """The variable lies in the range, or equals the expression."""
        if isinstance(expr, Range):
            self._ranges[var] = expr
        else:
            self._values[var] = as_expr(expr)

    def _known(self, expr):
        expr = as_expr(expr)
        return _tir.Substitute(expr, self._values) if self._values else expr

    def simplify(self, expr, steps=2):
        """An equal expression in normal form."""
        return _api.Simplify(self._known(expr), self._ranges)

    canonical_simplify = rewrite_simplify = simplify

    def can_prove(self, condition):
        """Whether the condition holds for all values of the variables."""
        return bool(_api.CanProve(self._known(condition), self._ranges))

    def can_prove_equal(self, lhs, rhs):
        return self.can_prove(as_expr(lhs).equal(rhs))

    def modular_set(self, expr):
        """What is known of the expression's remainders."""
        coeff, base = _api.ModularSet(self._known(expr), self._ranges)
        return ModularSet(int(coeff), int(base))

    def const_int_bound(self, expr):
        return ConstIntBound(*const_int_bound(self._known(expr), self._ranges))
