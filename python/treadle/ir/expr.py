# SPDX-License-Identifier: Apache-2.0
"""Expressions: scalar constants, and what the expressions of the graph IR share."""
from .._ffi import convert, get_global_func, register_object
from .base import Node, _api


@register_object("Span")
class Span(Node):
    """Where a node comes from."""


@register_object("Range")
class Range(Node):
    """From `begin` up to but not including `end`; Range(n) from 0 up to n."""

    def __init__(self, begin, end=None):
        begin, end = (0, begin) if end is None else (begin, end)
        super().__init__(_api.Range(begin, end))

    @staticmethod
    def from_min_extent(min_value, extent, span=None):
        """That many from `min_value`."""
        return _api.Range_from_min_extent(min_value, extent)


@register_object("BaseExpr")
class BaseExpr(Node):
    """Base of all expressions."""


@register_object("PrimExpr")
class PrimExpr(BaseExpr):
    """A scalar expression."""


class _Immediate(PrimExpr):
    def _number(self, other):
        return other.value if isinstance(other, (IntImm, FloatImm)) else other

    def __bool__(self):
        return bool(self.value)

    def __int__(self):
        return int(self.value)

    def __float__(self):
        return float(self.value)

    def __eq__(self, other):
        return self.value == self._number(other)

    def __ne__(self, other):
        return not self == other

    def __lt__(self, other):
        return self.value < self._number(other)

    def __le__(self, other):
        return self.value <= self._number(other)

    def __gt__(self, other):
        return self.value > self._number(other)

    def __ge__(self, other):
        return self.value >= self._number(other)

    def __hash__(self):
        return hash(self.value)

    def __str__(self):
        return str(self.value)

    __repr__ = __str__


@register_object("IntImm")
class IntImm(_Immediate):
    """An integer constant; converts to and compares with Python's int."""

    def __init__(self, dtype, value):
        super().__init__(_api.IntImm(str(dtype), int(value)))

    def __index__(self):
        return self.value


@register_object("FloatImm")
class FloatImm(_Immediate):
    """A floating-point constant."""

    def __init__(self, dtype, value):
        super().__init__(_api.FloatImm(str(dtype), float(value)))


@register_object("RelayExpr")
class RelayExpr(BaseExpr):
    """An expression of the graph IR; arithmetic makes calls of the operators."""

    # What makes the calls: relay puts it here, which is made of the classes of this package.
    _operators = None

    def _call(self, name, *args):
        return self._operators.call(name, args)

    def __add__(self, other):
        return self._call("add", self, other)

    def __radd__(self, other):
        return self._call("add", other, self)

    def __sub__(self, other):
        return self._call("subtract", self, other)

    def __rsub__(self, other):
        return self._call("subtract", other, self)

    def __mul__(self, other):
        return self._call("multiply", self, other)

    def __rmul__(self, other):
        return self._call("multiply", other, self)

    def __truediv__(self, other):
        return self._call("divide", self, other)

    def __rtruediv__(self, other):
        return self._call("divide", other, self)

    def __neg__(self):
        return self._call("negative", self)

    def __lt__(self, other):
        return self._call("less", self, other)

    def __gt__(self, other):
        return self._call("greater", self, other)

    def __le__(self, other):
        return self._call("less_equal", self, other)

    def __ge__(self, other):
        return self._call("greater_equal", self, other)

    def astype(self, dtype):
        return self._operators.cast(self, str(dtype))

    def __call__(self, *args):
        return self._operators.apply(self, args)

    @property
    def checked_type(self):
        """The type that inference found; an error before it ran."""
        found = self._checked_type_
        if found is None:
            raise ValueError("the type of the expression isn't known yet: run relay.transform.InferType() first")
        return found

    @property
    def type_annotation_or_checked(self):
        return self._checked_type_


@register_object("GlobalVar")
class GlobalVar(RelayExpr):
    """The name of a function of a module."""

    def __init__(self, name_hint):
        super().__init__(_api.GlobalVar(name_hint))


@register_object("BaseFunc")
class BaseFunc(RelayExpr):
    """A function."""

    def with_attr(self, key, value):
        """A copy with one attribute set."""
        return get_global_func("relay.ir.FunctionWithAttr")(self, key, convert(value))


@register_object("relay.Constructor")
class Constructor(RelayExpr):
    """A constructor of an algebraic data type."""

    def __init__(self, name_hint, inputs, belong_to):
        super().__init__(_api.Constructor(name_hint, list(inputs), belong_to))
