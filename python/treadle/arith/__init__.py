# SPDX-License-Identifier: Apache-2.0
"""What can be known about integer expressions."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._ffi import Api
from ..ir import IntImm, Range
from ..tir.expr import Var, as_expr
from .intervals import (IntervalSet, IntSet, conditions_on, deduce_bound, detect_clip_bound, detect_iter_map,
                        estimate_region_lower_bound, interval_of, inverse_affine_iter_map, normalize_iter_map_to_expr,
                        solve_linear_equations, solve_linear_inequalities, subspace_divide)
from ..ir import PrimExpr

if TYPE_CHECKING:
    from .._typing import Scalar

_api = Api("arith")
_tir = Api("tir")


def simplify(expr: Scalar) -> PrimExpr:
    """An equal expression in normal form."""
    return _api.Simplify(as_expr(expr), {})


def can_prove(condition: Scalar, ranges: Mapping[Var, Range] | None = None) -> bool:
    """Whether the condition holds for all values of the variables in their ranges."""
    return bool(_api.CanProve(condition, ranges or {}))


def const_int_bound(expr: Scalar, ranges: Mapping[Var, Range] | None = None) -> tuple[int, int]:
    """(least, greatest) value."""
    low, high = _api.ConstIntBound(as_expr(expr), ranges or {})
    return low.value, high.value


class ConstIntBound:
    """The least and greatest value of an expression; POS_INF and NEG_INF where there is none."""

    POS_INF = (1 << 63) - 1
    NEG_INF = -(1 << 63)

    def __init__(self, min_value: int, max_value: int) -> None:
        self.min_value, self.max_value = min_value, max_value

    def __repr__(self):
        return f"ConstIntBound[{self.min_value}, {self.max_value}]"


class ModularSet:
    """The values coeff * n + base for integers n."""

    def __init__(self, coeff: int, base: int) -> None:
        self.coeff, self.base = coeff, base

    def __repr__(self):
        return f"ModularSet({self.coeff}, {self.base})"


def detect_linear_equation(expr: Scalar, var_list: Sequence[Var]) -> list[PrimExpr]:
    """[coefficient of each variable..., the rest]; an empty list where the expression isn't linear in them."""
    return list(_api.DetectLinearEquation(as_expr(expr), list(var_list)))


def _variables(expr):
    from ..tir.analysis import undefined_vars

    return undefined_vars(as_expr(expr))


class Analyzer:
    """What can be known of expressions, given ranges of their variables."""

    def __init__(self) -> None:
        self._ranges: dict[Var, Range] = {}
        self._values: dict[Var, PrimExpr] = {}

    def bind(self, var: Var, expr: Scalar | Range) -> None:
        """The variable lies in the range, or equals the expression."""
        if not isinstance(var, Var):
            raise TypeError(f"Analyzer.bind: expected a variable, not {var!r}")
        if isinstance(expr, Range):
            self._ranges[var] = expr
        else:
            self._values[var] = as_expr(expr)

    def update(self, var: Var, info: ConstIntBound, override: bool = False) -> None:
        """The variable lies between the ends of a ConstIntBound."""
        if not isinstance(info, ConstIntBound):
            raise TypeError(f"Analyzer.update: expected a ConstIntBound, not {info!r}")
        if not override and var in self._ranges:
            known = self.const_int_bound(var)
            if (known.min_value, known.max_value) != (info.min_value, info.max_value):
                raise ValueError(f"Analyzer.update: {var} is {known} already; say override=True to change it")
        limit = 1 << 30
        low, high = max(int(info.min_value), -limit), min(int(info.max_value), limit)
        self._ranges[var] = Range.from_min_extent(low, high - low + 1)

    @contextlib.contextmanager
    def constraint_scope(self, constraint: PrimExpr) -> Iterator[Analyzer]:
        """Within it the condition is known to hold, as far as it compares variables with numbers."""
        saved = dict(self._ranges)
        for var in _variables(constraint):
            known = self.const_int_bound(var)
            lowers, uppers = conditions_on(var, constraint)
            low = max([known.min_value, *(int(v) for v in lowers if isinstance(v, IntImm))])
            high = min([known.max_value, *(int(v) for v in uppers if isinstance(v, IntImm))])
            self.update(var, ConstIntBound(low, high), override=True)
        try:
            yield self
        finally:
            self._ranges = saved

    def int_set(self, expr: Scalar, dom_map: Mapping[Var, IntervalSet]) -> IntervalSet:
        """The interval of an expression, given those of variables."""
        return interval_of(self._known(expr), dict(dom_map.items()))

    def _known(self, expr):
        expr = as_expr(expr)
        return _tir.Substitute(expr, self._values) if self._values else expr

    def simplify(self, expr: Scalar, steps: int = 2) -> PrimExpr:
        """An equal expression in normal form."""
        return _api.Simplify(self._known(expr), self._ranges)

    canonical_simplify = rewrite_simplify = simplify

    def can_prove(self, condition: Scalar) -> bool:
        """Whether the condition holds for all values of the variables."""
        return bool(_api.CanProve(self._known(condition), self._ranges))

    def can_prove_equal(self, lhs: Scalar, rhs: Scalar) -> bool:
        return self.can_prove(as_expr(lhs).equal(rhs))

    def modular_set(self, expr: Scalar) -> ModularSet:
        """What is known of the expression's remainders."""
        coeff, base = _api.ModularSet(self._known(expr), self._ranges)
        return ModularSet(int(coeff), int(base))

    def const_int_bound(self, expr: Scalar) -> ConstIntBound:
        return ConstIntBound(*const_int_bound(self._known(expr), self._ranges))
