# SPDX-License-Identifier: Apache-2.0
"""Loops, which the graph IR writes as recursive functions."""
from collections.abc import Callable, Sequence
from typing import Any

from .expr import Function, If, Let, Tuple, TupleGetItem, Var, const, var


def while_loop(cond: Callable[..., Any], loop_vars: Sequence[Any], loop_bodies: Callable[..., Any]) -> Any:
    """A function of the values of loop_vars (variables with types, or names with types): while cond(*values) holds,
    loop_bodies(*values) gives the next ones. Calling it gives the tuple of the last ones."""
    loop = Var("while_loop")
    state = [var(v.name_hint, v.type_annotation) for v in loop_vars]
    again = loop(*loop_bodies(*state))
    return Let(loop, Function(state, If(cond(*state), again, Tuple(state))), loop)


def for_loop(start: Any, stop: Any, step: Any, loop_vars: Sequence[Any], loop_bodies: Callable[..., Any],
             dtype: str = "int32") -> Any:
    """The tuple of values after loop_bodies(i, *values), which gives the next ones, was asked for each i from start to
    stop in steps. loop_vars: the first values."""
    from ..ir import IRModule
    from .transform import InferType

    def type_of(value):
        return InferType()(IRModule.from_expr(value))["main"].ret_type

    def as_expr(value):
        return const(value, dtype) if isinstance(value, (int, float)) else value

    counter = var("i", shape=(), dtype=dtype)
    state = [var(f"value{k}", type_of(value)) for k, value in enumerate(loop_vars)]
    loop = while_loop(lambda i, *values: i < as_expr(stop), [counter, *state],
                      lambda i, *values: [i + as_expr(step), *loop_bodies(i, *values)])
    result = loop(as_expr(start), *loop_vars)
    return Tuple([TupleGetItem(result, k + 1) for k in range(len(state))])
