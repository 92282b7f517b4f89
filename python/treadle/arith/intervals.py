# SPDX-License-Identifier: Apache-2.0
"""Intervals of integers, and what conditions say of a variable."""
from collections.abc import Iterable, Mapping
from typing import Any

from .._ffi import Api
from ..error import UnsupportedOpError
from ..ir import IntImm
from ..tir import And, EQ, GE, GT, LE, LT
from ..tir.expr import as_expr, const, floordiv

_api = Api("arith")
_tir = Api("tir")


class IntSet:
    """A set of integers."""

    def is_nothing(self) -> bool:
        """Whether it is known to be empty."""
        return False

    def is_everything(self) -> bool:
        """Whether nothing is known of it."""
        return False

    @staticmethod
    def vector(vec: Any) -> "IntervalSet":
        """The set of the elements of a Ramp."""
        lanes = int(vec.lanes) if hasattr(vec, "lanes") else 1
        return IntervalSet(vec.base, vec.base + vec.stride * (lanes - 1))

    @staticmethod
    def single_point(point: Any) -> "IntervalSet":
        return IntervalSet(point, point)


class IntervalSet(IntSet):
    """The integers from min_value to max_value, which is one of them. None: no bound."""

    def __init__(self, min_value: Any, max_value: Any) -> None:
        self.min_value = None if min_value is None else _simple(as_expr(min_value))
        self.max_value = None if max_value is None else _simple(as_expr(max_value))

    def is_nothing(self) -> bool:
        low, high = self.min_value, self.max_value
        return isinstance(low, IntImm) and isinstance(high, IntImm) and int(low) > int(high)

    def is_everything(self) -> bool:
        return self.min_value is None and self.max_value is None

    def __repr__(self):
        low, high = ("none" if v is None else v for v in (self.min_value, self.max_value))
        return f"IntervalSet[{low}, {high}]"


def _simple(expr):
    return _api.Simplify(expr, {})


def _coefficients(expr, variables):
    """(integers, the rest) of an expression that is linear in the variables; None: it isn't."""
    terms = list(_api.DetectLinearEquation(as_expr(expr), list(variables)))
    if not terms or not all(isinstance(term, IntImm) for term in terms[:-1]):
        return None
    return [int(term) for term in terms[:-1]], terms[-1]


def interval_of(expr: Any, sets: Mapping[Any, IntervalSet]) -> IntervalSet:
    """The interval of an expression whose variables lie in `sets`, a dict from variables to IntervalSet. Expressions
    that aren't linear in them have no bounds."""
    variables = list(sets)
    found = _coefficients(expr, variables)
    if found is None:
        return IntervalSet(None, None)
    factors, rest = found
    low = high = rest
    for variable, factor in zip(variables, factors):
        ends = [sets[variable].min_value, sets[variable].max_value]
        first, last = ends if factor >= 0 else ends[::-1]
        if factor:
            low = None if low is None or first is None else low + first * factor
            high = None if high is None or last is None else high + last * factor
    return IntervalSet(low, high)


def _comparisons(condition):
    """Pairs (difference, is_equality): the condition is that each difference is at most 0, or is 0."""
    waiting, found = [as_expr(condition)], []
    while waiting:
        each = waiting.pop()
        if isinstance(each, And):
            waiting += [each.a, each.b]
        elif isinstance(each, (LE, GE)):
            found.append((each.a - each.b if isinstance(each, LE) else each.b - each.a, False))
        elif isinstance(each, (LT, GT)):
            found.append(((each.a - each.b if isinstance(each, LT) else each.b - each.a) + 1, False))
        elif isinstance(each, EQ):
            found.append((each.a - each.b, True))
    return found


def _bound(var, difference, is_equality):
    """(lower, upper) bound of the variable where difference <= 0; None: none."""
    found = _coefficients(difference, [var])
    if found is None or found[0][0] == 0:
        return None, None
    factor, rest = found[0][0], found[1]
    if abs(factor) != 1 and is_equality:
        return None, None
    # factor * var <= -rest
    if factor > 0:
        upper = floordiv(const(0, "int32") - rest, factor) if factor != 1 else const(0, "int32") - rest
        return (upper, upper) if is_equality else (None, upper)
    lower = const(0, "int32") - floordiv(const(0, "int32") - rest, -factor) if factor != -1 else rest
    return (lower, lower) if is_equality else (lower, None)


def conditions_on(var: Any, condition: Any) -> tuple[list[Any], list[Any]]:
    """(lower bounds, upper bounds) of a variable that a condition states."""
    lowers, uppers = [], []
    for difference, is_equality in _comparisons(condition):
        low, high = _bound(var, difference, is_equality)
        lowers += [] if low is None else [_simple(low)]
        uppers += [] if high is None else [_simple(high)]
    return lowers, uppers


def deduce_bound(var: Any, cond: Any, hint_map: Any = None,
                 relax_map: Mapping[Any, IntervalSet] | None = None) -> IntervalSet:
    """The interval of a variable for which a comparison holds whatever values the variables of relax_map have (a dict
    to IntervalSet)."""
    del hint_map
    low = high = None
    for difference, is_equality in _comparisons(cond):
        found = _coefficients(difference, [var])
        if found is None:
            continue
        if found[0][0] == 0:
            continue
        worst = interval_of(found[1], relax_map or {}).max_value
        if worst is None:
            return IntervalSet(None, None)
        lower, upper = _bound(var, var * found[0][0] + worst, is_equality)
        low = lower if low is None else low
        high = upper if high is None else high
    return IntervalSet(low, high)


def detect_clip_bound(expr: Any, var_list: Iterable[Any]) -> list[Any]:
    """[least, greatest] value of each variable that a conjunction of comparisons allows; None where it doesn't say."""
    result = []
    for var in var_list:
        lowers, uppers = conditions_on(var, expr)
        result += [lowers[0] if lowers else None, uppers[0] if uppers else None]
    return result


def _refused(name):
    def refuse(*args, **kwargs):
        raise UnsupportedOpError(f"there is no arith.{name}: schedules are analysed by the compiler itself; "
                                 "detect_linear_equation, deduce_bound and Analyzer are there")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Isn't there: an UnsupportedOpError says what is."
    return refuse


(solve_linear_equations, solve_linear_inequalities, detect_iter_map, normalize_iter_map_to_expr, subspace_divide,
 inverse_affine_iter_map, estimate_region_lower_bound) = map(_refused, (
     "solve_linear_equations", "solve_linear_inequalities", "detect_iter_map", "normalize_iter_map_to_expr",
     "subspace_divide", "inverse_affine_iter_map", "estimate_region_lower_bound"))
