# SPDX-License-Identifier: Apache-2.0
"""Scalar expressions, with Python's operators."""
from .._ffi import Api, register_object
from ..ir import FloatImm, IntImm, Node, PrimExpr

_api = Api("tir")


def _install_operators():
    def binary(name, swapped=False):
        def apply(self, other):
            if not isinstance(other, (PrimExpr, int, float)):
                return NotImplemented
            other = as_expr(other)
            function = getattr(_api, name)
            return function(other, self) if swapped else function(self, other)

        return apply

    for method, name in (("add", "_OpAdd"), ("sub", "_OpSub"), ("mul", "_OpMul"), ("floordiv", "_OpFloorDiv"),
                         ("mod", "_OpFloorMod"), ("truediv", "_OpDiv"), ("pow", "_OpPow"), ("lshift", "left_shift"),
                         ("rshift", "right_shift"), ("and", "bitwise_and"), ("or", "bitwise_or"),
                         ("xor", "bitwise_xor")):
        setattr(PrimExpr, f"__{method}__", binary(name))
        setattr(PrimExpr, f"__r{method}__", binary(name, swapped=True))
    for method, name in (("lt", "_OpLT"), ("le", "_OpLE"), ("gt", "_OpGT"), ("ge", "_OpGE")):
        if f"__{method}__" not in PrimExpr.__dict__:
            setattr(PrimExpr, f"__{method}__", binary(name))
    PrimExpr.__neg__ = lambda self: _api._OpNeg(self)
    PrimExpr.__invert__ = lambda self: _api.bitwise_not(self)
    PrimExpr.astype = lambda self, dtype: _api._cast(str(dtype), self)
    PrimExpr.equal = lambda self, other: _api._OpEQ(self, as_expr(other))


def as_expr(value):
    """A Python number as a constant (int32, float32), or the expression itself."""
    if isinstance(value, bool):
        return IntImm("bool", value)
    if isinstance(value, int):
        return IntImm("int32" if -2**31 <= value < 2**31 else "int64", value)
    if isinstance(value, float):
        return FloatImm("float32", value)
    return value


_install_operators()


@register_object("tir.Var")
class Var(PrimExpr):
    """A variable; equal only to itself."""

    def __init__(self, name, dtype="int32"):
        super().__init__(_api.Var(name, str(dtype)))


@register_object("tir.IterVar")
class IterVar(PrimExpr):
    """An axis."""


@register_object("tir.CommReducer")
class CommReducer(Node):
    """An associative, commutative reduction."""


for _name in ("StringImm", "Cast", "Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max", "EQ", "NE",
              "LT", "LE", "GT", "GE", "And", "Or", "Not", "Select", "Ramp", "Broadcast", "Shuffle", "Let", "Call",
              "BufferLoad", "ProducerLoad", "Reduce"):
    globals()[_name] = register_object(f"tir.{_name}")(type(_name, (PrimExpr,), {"__doc__": f"Expression {_name}."}))


def const(value, dtype=None):
    """A constant."""
    value = as_expr(value)
    return value if dtype is None else _api._const(value, str(dtype))


def _unary(name):
    def apply(x):
        return getattr(_api, name)(as_expr(x))

    apply.__name__ = name
    apply.__doc__ = f"{name} of a scalar."
    return apply


for _name in ("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin",
              "acos", "atan", "sinh", "cosh", "tanh", "erf", "sigmoid", "floor", "ceil", "trunc", "round", "nearbyint",
              "abs", "isnan", "likely"):
    globals()[_name] = _unary(_name)


def _binary(name, doc):
    def apply(a, b):
        return getattr(_api, name)(as_expr(a), as_expr(b))

    apply.__doc__ = doc
    return apply


div = _binary("_OpDiv", "Quotient; truncating on integers.")
truncdiv = _binary("_OpTruncDiv", "Quotient rounded toward zero.")
truncmod = _binary("_OpTruncMod", "Remainder of truncdiv.")
floordiv = _binary("_OpFloorDiv", "Quotient rounded down.")
floormod = _binary("_OpFloorMod", "Remainder of floordiv.")
power = _binary("_OpPow", "Power.")


def if_then_else(condition, true_value, false_value):
    """One of two values; the other isn't computed."""
    return _api._OpIfThenElse(as_expr(condition), as_expr(true_value), as_expr(false_value))


def select(condition, true_value, false_value):
    """One of two values; both are computed."""
    return _api.Select(as_expr(condition), as_expr(true_value), as_expr(false_value))


def all(*conditions):
    """Whether every condition holds."""
    result = as_expr(conditions[0])
    for condition in conditions[1:]:
        result = _api._OpAnd(result, as_expr(condition))
    return result


def any(*conditions):
    """Whether some condition holds."""
    result = as_expr(conditions[0])
    for condition in conditions[1:]:
        result = _api._OpOr(result, as_expr(condition))
    return result


def min_value(dtype):
    """The least finite value."""
    return _api.min_value(str(dtype))


def max_value(dtype):
    """The greatest finite value."""
    return _api.max_value(str(dtype))


def infinity(dtype):
    """Infinity, or the greatest value where there is none."""
    return _api.infinity(str(dtype))


