# SPDX-License-Identifier: Apache-2.0
"""Expressions: scalar constants, and what the expressions of the graph IR share."""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .._core import Object
from .._ffi import Array, convert, get_global_func, register_object
from .base import Node, _api

if TYPE_CHECKING:
    from .._typing import DTypeLike, ExprLike, Scalar
    from .attrs import DictAttrs
    from .type import GlobalTypeVar, Type


@register_object("Span")
class Span(Node):
    """Where a node comes from."""


@register_object("Range")
class Range(Node):
    """From `begin` up to but not including `end`; Range(n) from 0 up to n."""

    min: PrimExpr
    extent: PrimExpr

    def __init__(self, begin: Scalar, end: Scalar | None = None) -> None:
        begin, end = (0, begin) if end is None else (begin, end)
        super().__init__(_api.Range(begin, end))

    @staticmethod
    def from_min_extent(min_value: Scalar, extent: Scalar, span: Span | None = None) -> Range:
        """That many from `min_value`."""
        return _api.Range_from_min_extent(min_value, extent)


@register_object("BaseExpr")
class BaseExpr(Node):
    """Base of all expressions."""


@register_object("PrimExpr")
class PrimExpr(BaseExpr):
    """A scalar expression; arithmetic and comparisons make expressions. `==` is `EqualOp`."""

    dtype: str

    # What makes the operators' results: tir puts it here, whose expressions derive from this class.
    _operators: Any = None

    def __add__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("_OpAdd", self, other)

    def __radd__(self, other: Scalar) -> PrimExpr:
        return self._operators.swapped("_OpAdd", self, other)

    def __sub__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("_OpSub", self, other)

    def __rsub__(self, other: Scalar) -> PrimExpr:
        return self._operators.swapped("_OpSub", self, other)

    def __mul__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("_OpMul", self, other)

    def __rmul__(self, other: Scalar) -> PrimExpr:
        return self._operators.swapped("_OpMul", self, other)

    def __floordiv__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("_OpFloorDiv", self, other)

    def __rfloordiv__(self, other: Scalar) -> PrimExpr:
        return self._operators.swapped("_OpFloorDiv", self, other)

    def __mod__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("_OpFloorMod", self, other)

    def __rmod__(self, other: Scalar) -> PrimExpr:
        return self._operators.swapped("_OpFloorMod", self, other)

    def __truediv__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("_OpDiv", self, other)

    def __rtruediv__(self, other: Scalar) -> PrimExpr:
        return self._operators.swapped("_OpDiv", self, other)

    def __pow__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("_OpPow", self, other)

    def __rpow__(self, other: Scalar) -> PrimExpr:
        return self._operators.swapped("_OpPow", self, other)

    def __lshift__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("left_shift", self, other)

    def __rlshift__(self, other: Scalar) -> PrimExpr:
        return self._operators.swapped("left_shift", self, other)

    def __rshift__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("right_shift", self, other)

    def __rrshift__(self, other: Scalar) -> PrimExpr:
        return self._operators.swapped("right_shift", self, other)

    def __and__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("bitwise_and", self, other)

    def __rand__(self, other: Scalar) -> PrimExpr:
        return self._operators.swapped("bitwise_and", self, other)

    def __or__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("bitwise_or", self, other)

    def __ror__(self, other: Scalar) -> PrimExpr:
        return self._operators.swapped("bitwise_or", self, other)

    def __xor__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("bitwise_xor", self, other)

    def __rxor__(self, other: Scalar) -> PrimExpr:
        return self._operators.swapped("bitwise_xor", self, other)

    def __lt__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("_OpLT", self, other)

    def __le__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("_OpLE", self, other)

    def __gt__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("_OpGT", self, other)

    def __ge__(self, other: Scalar) -> PrimExpr:
        return self._operators.binary("_OpGE", self, other)

    def __eq__(self, other: object) -> Any:
        return self._operators.equal(self, other)

    def __ne__(self, other: object) -> Any:
        return self._operators.equal(self, other, True)

    __hash__ = Object.__hash__

    def __neg__(self) -> PrimExpr:
        return self._operators.negative(self)

    def __invert__(self) -> PrimExpr:
        return self._operators.inverted(self)

    def astype(self, dtype: DTypeLike) -> PrimExpr:
        """The value as another type."""
        return self._operators.cast(self, str(dtype))

    def equal(self, other: Scalar) -> PrimExpr:
        """The comparison as an expression."""
        return self._operators.compared(self, other)


class _Immediate(PrimExpr):
    value: Any

    def _number(self, other: object) -> Any:
        return other._own_number() if isinstance(other, (IntImm, FloatImm)) else other

    def _own_number(self) -> Any:
        return self.value

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self._own_number())

    def __float__(self) -> float:
        return float(self._own_number())

    # Comparisons of constants are Python's: known at once.
    def __eq__(self, other: object) -> bool:
        return self._own_number() == self._number(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: object) -> bool:  # type: ignore[override]
        return self._own_number() < self._number(other)

    def __le__(self, other: object) -> bool:  # type: ignore[override]
        return self._own_number() <= self._number(other)

    def __gt__(self, other: object) -> bool:  # type: ignore[override]
        return self._own_number() > self._number(other)

    def __ge__(self, other: object) -> bool:  # type: ignore[override]
        return self._own_number() >= self._number(other)

    def __hash__(self) -> int:
        return hash(self._own_number())

    def __str__(self) -> str:
        return str(self._own_number())

    __repr__ = __str__


@register_object("IntImm")
class IntImm(_Immediate):
    """An integer constant; converts to and compares with Python's int."""

    value: int

    def __init__(self, dtype: DTypeLike, value: int) -> None:
        if not hasattr(value, "__int__"):
            raise TypeError(f"an integer constant is made of a number, not of {value!r}")
        super().__init__(_api.IntImm(str(dtype), int(value)))

    def _own_number(self) -> int:  # of uint64: its bits as those of an int64
        return self.value + (1 << 64) if self.value < 0 and self.dtype == "uint64" else self.value

    def __index__(self) -> int:
        return self._own_number()


@register_object("FloatImm")
class FloatImm(_Immediate):
    """A floating-point constant."""

    value: float

    def __init__(self, dtype: DTypeLike, value: float) -> None:
        super().__init__(_api.FloatImm(str(dtype), float(value)))


@register_object("RelayExpr")
class RelayExpr(BaseExpr):
    """An expression of the graph IR; arithmetic makes calls of the operators."""

    # What makes the calls: relay puts it here, which is made of the classes of this package.
    _operators: Any = None

    def _call(self, name: str, *args: Any) -> RelayExpr:
        return self._operators.call(name, args)

    def __add__(self, other: ExprLike) -> RelayExpr:
        return self._call("add", self, other)

    def __radd__(self, other: ExprLike) -> RelayExpr:
        return self._call("add", other, self)

    def __sub__(self, other: ExprLike) -> RelayExpr:
        return self._call("subtract", self, other)

    def __rsub__(self, other: ExprLike) -> RelayExpr:
        return self._call("subtract", other, self)

    def __mul__(self, other: ExprLike) -> RelayExpr:
        return self._call("multiply", self, other)

    def __rmul__(self, other: ExprLike) -> RelayExpr:
        return self._call("multiply", other, self)

    def __truediv__(self, other: ExprLike) -> RelayExpr:
        return self._call("divide", self, other)

    def __rtruediv__(self, other: ExprLike) -> RelayExpr:
        return self._call("divide", other, self)

    def __neg__(self) -> RelayExpr:
        return self._call("negative", self)

    def __lt__(self, other: ExprLike) -> RelayExpr:
        return self._call("less", self, other)

    def __gt__(self, other: ExprLike) -> RelayExpr:
        return self._call("greater", self, other)

    def __le__(self, other: ExprLike) -> RelayExpr:
        return self._call("less_equal", self, other)

    def __ge__(self, other: ExprLike) -> RelayExpr:
        return self._call("greater_equal", self, other)

    def astype(self, dtype: DTypeLike) -> RelayExpr:
        """The values as another type."""
        return self._operators.cast(self, str(dtype))

    def __call__(self, *args: ExprLike) -> RelayExpr:
        return self._operators.apply(self, args)

    @property
    def checked_type(self) -> Type:
        """The type that inference found; an error before it ran."""
        found = self._checked_type_
        if found is None:
            raise ValueError("the type of the expression isn't known yet: run relay.transform.InferType() first")
        return found

    @property
    def type_annotation_or_checked(self) -> Type | None:
        return self._checked_type_


@register_object("GlobalVar")
class GlobalVar(RelayExpr):
    """The name of a function of a module."""

    name_hint: str

    def __init__(self, name_hint: str) -> None:
        super().__init__(_api.GlobalVar(name_hint))


@register_object("BaseFunc")
class BaseFunc(RelayExpr):
    """A function."""

    attrs: DictAttrs

    def with_attr(self, key: str, value: Any) -> BaseFunc:
        """A copy with one attribute set."""
        return get_global_func("relay.ir.FunctionWithAttr")(self, key, convert(value))


@register_object("relay.Constructor")
class Constructor(RelayExpr):
    """A constructor of an algebraic data type."""

    name_hint: str
    inputs: Array
    belong_to: GlobalTypeVar
    tag: int

    def __init__(self, name_hint: str, inputs: Iterable[Type], belong_to: GlobalTypeVar) -> None:
        super().__init__(_api.Constructor(name_hint, list(inputs), belong_to))
