# SPDX-License-Identifier: Apache-2.0
"""The graph IR's operators as tensor expressions: topi.add(A, B), topi.nn.relu(A), topi.sum(A, axis=1).

Arguments are those of the operator of the same name in `treadle.relay`, with tensors (treadle.te) for expressions.
"""
from __future__ import annotations

from collections.abc import Sequence as _Sequence
from typing import Any as _Any

from .. import relay, te, tir
from ._operators import Namespace, operator_of
from . import nn, sparse


def elemwise_sum(xs: _Sequence[te.Tensor]) -> te.Tensor:
    """The sum of tensors of one shape."""
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total


def full(shape: _Sequence[_Any], dtype: str, fill_value: float) -> te.Tensor:
    """A tensor whose elements are all fill_value."""
    return operator_of("full")(relay.const(fill_value, dtype), list(shape), dtype)


def arange(start: _Any, stop: _Any = None, step: _Any = 1, dtype: str = "float32") -> te.Tensor:
    """Numbers from start (0, if only one is given) up to stop, which isn't included."""
    start, stop = (0, start) if stop is None else (start, stop)
    return operator_of("arange")(*(relay.const(v, dtype) for v in (start, stop, step)), dtype=dtype)


def matmul(a: te.Tensor, b: te.Tensor, transp_a: bool = False, transp_b: bool = False) -> te.Tensor:
    """The product of two matrices."""
    return operator_of("nn.matmul")(a, b, None, transpose_a=transp_a, transpose_b=transp_b)


def flip(a: te.Tensor, axis: int = 0) -> te.Tensor:
    """The elements along an axis in reverse."""
    return operator_of("reverse")(a, axis=axis)


def tensordot(a: te.Tensor, b: te.Tensor, axes: int | _Sequence[_Any]) -> te.Tensor:
    """Sums of products over `axes`: so many last ones of a and first ones of b, or a list of each."""
    if isinstance(axes, int):
        axes = (list(range(len(a.shape) - axes, len(a.shape))), list(range(axes)))
    left, right = ([part] if isinstance(part, int) else list(part) for part in axes)
    free_a = [i for i in range(len(a.shape)) if i not in left]
    free_b = [i for i in range(len(b.shape)) if i not in right]
    rest = [te.reduce_axis((0, a.shape[i]), name=f"k{n}") for n, i in enumerate(left)]

    def element(*index):
        of_a, of_b = dict(zip(free_a, index)), dict(zip(free_b, index[len(free_a):]))
        of_a.update(zip(left, rest))
        of_b.update(zip(right, rest))
        return te.sum(a(*(of_a[i] for i in range(len(a.shape)))) * b(*(of_b[i] for i in range(len(b.shape)))), axis=rest)

    return te.compute([a.shape[i] for i in free_a] + [b.shape[i] for i in free_b], element, name="T_tensordot",
                      tag="matmul")


def shape(array: te.Tensor, dtype: str = "int32") -> te.Tensor:
    """The dimensions of a tensor as a tensor."""
    def element(i):
        value = array.shape[-1]
        for k in range(len(array.shape) - 2, -1, -1):
            value = tir.if_then_else(i == k, array.shape[k], value)
        return tir.Cast(dtype, value)

    return te.compute([len(array.shape)], element, name="T_shape", tag="injective")


class _Image(Namespace):
    def __getattr__(self, name):
        operator = super().__getattr__(name)
        if not name.startswith("resize"):
            return operator

        def resize(data: te.Tensor, roi: _Any, size: _Sequence[_Any], layout: str | None = None, method: str = "linear",
                   coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "",
                   bicubic_alpha: float = -0.5, bicubic_exclude: int = 0, extrapolation_value: float = 0.0,
                   out_dtype: str | None = None) -> te.Tensor:
            named = {} if layout is None else {"layout": layout}
            return operator(data, size, roi, method=method, coordinate_transformation_mode=coordinate_transformation_mode,
                            rounding_method=rounding_method, cubic_alpha=bicubic_alpha, cubic_exclude=bicubic_exclude,
                            extrapolation_value=extrapolation_value, out_dtype=out_dtype, **named)

        resize.__name__, resize.__doc__ = name, operator.__doc__
        return resize


image = _Image("image.")
vision = Namespace("vision.")


def __getattr__(name: str) -> _Any:
    if name.startswith("__") or name in ("random", "testing"):  # modules, also of the graph IR
        raise AttributeError(name)
    return operator_of(name)


from . import generic, random, testing, utils  # noqa: E402 - uses what is above

# The original's modules by machine: the schedule asks the current target.
x86 = arm_cpu = cuda = gpu = mali = bifrost = intel_graphics = generic
