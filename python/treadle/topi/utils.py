# SPDX-License-Identifier: Apache-2.0
"""Shapes and axes of tensors as Python values."""
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..arith import simplify
from ..ir import IntImm
from ..te import Tensor, compute
from ..tir import Select, all as all_of, const


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


def get_float_tuple(in_tuple: Iterable[Any]) -> tuple[float, ...]:
    """The numbers of a sequence of constants as floats."""
    return tuple(map(get_const_float, in_tuple))


def ravel_index(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The place of an element in memory, in elements, from its indices."""
    place = None
    for index, dim in zip(indices, shape, strict=True):
        place = index if place is None else place * dim + index
    return place


def unravel_index(idx: Any, shape: Sequence[Any]) -> list[Any]:
    """The indices of an element from its place in memory."""
    indices: list[Any] = []
    for dim in reversed(shape):
        indices.insert(0, idx % dim)
        idx = idx // dim
    return indices


def const_matrix(matrix: Any, name: str = "const_matrix") -> Tensor:
    """A tensor computed from the constants of a matrix, by selection."""
    rows, columns = matrix.shape
    dtype = str(matrix.dtype)

    def element(i, j):
        value = const(matrix[0, 0].item(), dtype)
        for row in range(rows):
            for column in range(columns):
                value = Select(all_of(i == row, j == column), const(matrix[row, column].item(), dtype), value)
        return value

    return compute((rows, columns), element, name=name)


def const_vector(vector: Any, name: str = "const_vector") -> Tensor:
    """A tensor computed from the constants of a vector, by selection."""
    dtype = str(vector.dtype)

    def element(i):
        value = const(vector[0].item(), dtype)
        for at in range(len(vector)):
            value = Select(i == at, const(vector[at].item(), dtype), value)
        return value

    return compute(vector.shape, element, name=name)


def get_max_power2_factor(n: int, max_value: int | None = None) -> int:
    """The largest power of two that divides n, at most max_value."""
    factor = 1
    while n % (factor * 2) == 0 and (max_value is None or factor * 2 <= max_value):
        factor *= 2
    return factor


def is_empty_shape(shape: Iterable[Any]) -> bool:
    """Whether a tensor of that shape has no element."""
    return any(isinstance(dim, (int, IntImm)) and int(dim) == 0 for dim in shape)


def ceil_div(a: Any, b: Any) -> Any:
    """The quotient, rounded up."""
    return (a + (b - 1)) // b


def swap(arr: Sequence[Any], axis: int) -> list[Any]:
    """The sequence with its last element and that of `axis` exchanged."""
    result = list(arr)
    result[axis], result[-1] = result[-1], result[axis]
    return result
