# SPDX-License-Identifier: Apache-2.0
"""What scripts call `T`: the words of loop-level functions. Those that make statements mean something only within a
function that `prim_func` decorates; the others make expressions anywhere."""
import sys
from typing import Any

from ..error import Error
from ..ir import FloatImm, IntImm, PrimExpr
from .. import tir as _tir
from ..tir import (Broadcast, Cast, Div, FloorDiv, FloorMod, Mul, Not, Ramp, Select, Shuffle, Sub, Add, abs, acos, asin,  # noqa: A004
                   atan, atan2, call_extern, call_intrin, call_packed, call_pure_extern, ceil, cos, cosh, erf, exp, exp2,
                   exp10, floor, floordiv, floormod, fmod, if_then_else, infinity, isfinite, isinf, isnan, likely, log,
                   log1p, log2, log10, max_value, min_value, nearbyint, power, round, rsqrt, sigmoid, sin, sinh, sqrt, tan,
                   tanh, trunc, truncdiv, truncmod)
from ..tir.expr import as_expr
from ..tir.expr import all as _all, any as _any
from .parser import ScriptError, parse_decorated

pow = power  # noqa: A001 - the familiar name
cast, ramp, broadcast = Cast, Ramp, Broadcast


def min(a: Any, b: Any) -> Any:  # noqa: A001
    """The lesser value."""
    return _tir.Min(a, b)


def max(a: Any, b: Any) -> Any:  # noqa: A001
    """The greater value."""
    return _tir.Max(a, b)


def And(*conditions: Any) -> Any:  # pylint: disable=invalid-name
    """Whether all conditions hold."""
    return _all(*conditions)


def Or(*conditions: Any) -> Any:  # pylint: disable=invalid-name
    """Whether one of the conditions holds."""
    return _any(*conditions)


def ceildiv(a: Any, b: Any) -> Any:
    """The quotient of integers, rounded up."""
    return floordiv(as_expr(a) + (as_expr(b) - 1), b)


def reinterpret(dtype: Any, value: Any) -> Any:
    """The bits of a value as another type. The older order (value, dtype) is understood, too."""
    return _tir.reinterpret(value, dtype) if isinstance(value, str) else _tir.reinterpret(dtype, value)


def address_of(element: Any) -> Any:
    """The address of an element of a buffer."""
    return _tir.function._api.AddressOf(element)


class DTypeWord:
    """T.float32 and the like: the dtype of a parameter, and a conversion to it."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def __call__(self, value: Any = None) -> Any:
        if value is None:
            return _tir.Var("v", self.dtype)
        if isinstance(value, str):
            if self.dtype.startswith(("float", "bfloat")) and value in ("inf", "-inf", "nan"):
                return FloatImm(self.dtype, float(value))
            raise Error(f"T.{self.dtype} takes a number, \"inf\", \"-inf\" or \"nan\", not {value!r}")
        if isinstance(value, PrimExpr) and not isinstance(value, (IntImm, FloatImm)):
            return Cast(self.dtype, value)
        if isinstance(value, (IntImm, FloatImm)):
            value = value.value
        if self.dtype.startswith(("float", "bfloat")):
            return FloatImm(self.dtype, float(value))
        return _tir.const(bool(value) if self.dtype == "bool" else int(value), self.dtype)


_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
           "bfloat16", "bool", "handle")
for _name in _DTYPES:
    globals()[_name] = DTypeWord(_name)
boolean = globals()["bool"]


class BufferSpec:
    """The type of a parameter that is a buffer: T.Buffer((128, 128), "float32")."""

    def __init__(self, shape: Any, dtype: Any = "float32", **layout: Any) -> None:
        self.shape, self.dtype, self.layout = shape, dtype, layout


class _BufferWord:
    def __call__(self, shape, dtype="float32", data=None, strides=None, elem_offset=None, scope="global", align=-1,
                 offset_factor=0, type="default"):  # noqa: A002 - the word of scripts
        if type not in ("default", ""):
            raise ValueError(f"buffers of type {type!r} aren't there, only of 'default'")
        return BufferSpec(shape, dtype, data=data, strides=strides, elem_offset=elem_offset, scope=scope, align=align,
                          offset_factor=offset_factor)

    def __getitem__(self, arguments):
        return self(*arguments) if isinstance(arguments, tuple) and isinstance(arguments[0], (tuple, list)) else self(
            arguments)


Buffer = _BufferWord()


class _Statement:
    """A word that only the parser understands."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return _Statement(f"{self._name}.{name}")

    def __call__(self, *args, **kwargs):
        raise Error(f"{self._name} is for functions that T.prim_func decorates")


STATEMENTS = ("block", "init", "axis", "grid", "serial", "parallel", "vectorized", "unroll", "thread_binding", "reads",
              "writes", "where", "block_attr", "func_attr", "alloc_buffer", "match_buffer", "allocate", "decl_buffer",
              "buffer_decl", "evaluate", "attr", "LetStmt", "Assert", "launch_thread", "env_thread",
              "Let", "load", "store", "var")
for _name in STATEMENTS:
    globals()[_name] = _Statement(f"T.{_name}")


def prim_func(func: Any = None, private: bool = False) -> Any:
    """Decorator: the loop-level function that a Python function writes down. Its name is the "global_symbol", unless it
    is private. Names of the places around it stand for their values. A mistake is a ScriptError, with line and column."""
    if func is None:
        return lambda function: parse_decorated(function, private, sys.modules[__name__])
    return parse_decorated(func, private, sys.modules[__name__])


__all__ = [name for name in dir() if not name.startswith("_") and name not in (
    "Error", "FloatImm", "IntImm", "PrimExpr", "ScriptError", "parse_decorated", "as_expr", "STATEMENTS", "BufferSpec",
    "DTypeWord", "sys")]
