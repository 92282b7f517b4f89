# SPDX-License-Identifier: Apache-2.0
"""Shapes and axes of tensors as Python values."""
from collections.abc import Callable, Iterable
from typing import Any

from ..arith import simplify
from ..ir import IntImm


def _constant(expr):
    return expr if isinstance(expr, (int, IntImm)) else simplify(expr)


def get_const_int(expr: Any) -> int:
    """The value of a constant expression."""
    value = _constant(expr)
    if not isinstance(value, (int, IntImm)):
        raise ValueError(f"expected a constant, not {expr}")
    return int(value)


def get_const_float(expr: Any) -> float:
    """The value of a constant expression, as a float."""
    return float(expr)


def get_const_tuple(in_tuple: Iterable[Any]) -> tuple[Any, ...]:
    """The integers of a shape; what isn't constant stays an expression."""
    values = map(_constant, in_tuple)
    return tuple(int(v) if isinstance(v, (int, IntImm)) else v for v in values)


def prod(x: Iterable[Any]) -> Any:
    """The product of the items, 1 of none."""
    result = 1
    for item in x:
        result = item * result
    return result


def equal_const_int(expr: Any, value: int) -> bool:
    """Whether the expression is that constant."""
    expr = _constant(expr)
    return isinstance(expr, (int, IntImm)) and int(expr) == value


def simplify_shape(shape: Iterable[Any]) -> tuple[Any, ...]:
    """A shape with simplified dimensions."""
    return tuple(simplify(d) for d in shape)


def traverse_inline(s: Any, final_op: Any, callback: Callable[[Any], object]) -> None:
    """Calls `callback` with each operation before `final_op`, and inlines those that only rearrange elements."""
    visited = set()

    def visit(op):
        if op in visited:
            return
        visited.add(op)
        if op.tag in ("elemwise", "broadcast", "injective"):
            if op not in s.outputs:
                s[op].compute_inline()
            for tensor in op.input_tensors:
                if tensor.op.input_tensors:
                    visit(tensor.op)
        callback(op)

    visit(final_op)
