# SPDX-License-Identifier: Apache-2.0
"""Scalar expressions, with Python's operators."""
import re
from typing import TYPE_CHECKING, Any

from .._core import Object
from .._ffi import Api, get_global_func, register_object
from ..error import DTypeError
from ..ir import FloatImm, IntImm, Node, PrimExpr

_api = Api("tir")

if TYPE_CHECKING:  # classes and functions that are made from tables below
    def __getattr__(name: str) -> Any: ...


class EqualOp:
    """What `a == b` of two expressions gives: whether they are the same object, or in an expression a comparison."""

    def __init__(self, a, b, negated=False):
        self.a, self.b, self.negated = a, b, negated

    def __bool__(self):
        same = isinstance(self.b, PrimExpr) and self.a.same_as(self.b)
        return same != self.negated

    def as_expr(self):
        """The comparison."""
        return (_api._OpNE if self.negated else _api._OpEQ)(self.a, as_expr(self.b))


def _install_operators():
    def binary(name, swapped=False):
        def apply(self, other):
            if hasattr(other, "item") and not isinstance(other, PrimExpr):
                other = other.item()
            if not isinstance(other, (PrimExpr, EqualOp, int, float)):
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
    comparable = (PrimExpr, EqualOp, int, float)
    PrimExpr.__eq__ = lambda self, other: EqualOp(self, other) if isinstance(other, comparable) else NotImplemented
    PrimExpr.__ne__ = lambda self, other: (EqualOp(self, other, True) if isinstance(other, comparable) else
                                           NotImplemented)
    PrimExpr.__hash__ = Object.__hash__

    def no_bool(self):
        raise ValueError("an expression's value isn't known before it runs: use te.all, te.any, tir.Not and "
                         "te.if_then_else instead of and, or, not and if")

    for name in ("LT", "LE", "GT", "GE", "And", "Or", "Not", "EQ", "NE"):
        globals()[name].__bool__ = no_bool


def as_expr(value):
    """A Python number as a constant (int32, float32), or the expression itself."""
    if isinstance(value, bool):
        return IntImm("bool", value)
    if isinstance(value, int):
        return IntImm("int32" if -2**31 <= value < 2**31 else "int64", value)
    if isinstance(value, float):
        return FloatImm("float32", value)
    if isinstance(value, str):
        return _api.StringImm(value)
    if isinstance(value, EqualOp) or (not isinstance(value, Object) and hasattr(value, "as_expr")):
        return value.as_expr()
    if hasattr(value, "item") and hasattr(value, "dtype") and not isinstance(value, Object):  # NumPy's numbers
        return _api._const(as_expr(value.item()), str(value.dtype))
    return value


@register_object("tir.Var")
class Var(PrimExpr):
    """A variable; equal only to itself."""

    def __init__(self, name, dtype="int32"):
        super().__init__(_api.Var(name, str(dtype)))

    @property
    def name(self):
        """The name; other variables may have the same."""
        return self.name_hint


SizeVar = Var


@register_object("tir.IterVar")
class IterVar(PrimExpr):
    """An axis."""

    DataPar, ThreadIndex, CommReduce, Ordered, Opaque, Unrolled, Vectorized, Parallelized, Tensorized = range(9)

    def __init__(self, dom, var, iter_type, thread_tag="", span=None):
        if isinstance(dom, (tuple, list)):
            dom = get_global_func("ir.Range")(as_expr(dom[0]), as_expr(dom[1]))
        if isinstance(var, str):
            var = Var(var, str(dom.extent.dtype) if dom is not None else "int32")
        super().__init__(_api.IterVar(dom, var, iter_type, thread_tag))


@register_object("tir.CommReducer")
class CommReducer(Node):
    """An associative, commutative reduction."""


def _node_class(name, make=None):
    def init(self, *args):
        super(cls, self).__init__(make(*args))

    members = {"__doc__": f"Expression {name}."}
    if make is not None:
        members["__init__"] = init
    cls = register_object(f"tir.{name}")(type(name, (PrimExpr,), members))
    globals()[name] = cls


def _binary_maker(name):
    return lambda a, b: getattr(_api, name)(as_expr(a), as_expr(b))


for _name in ("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max", "EQ", "NE", "LT", "LE", "GT", "GE",
              "And", "Or"):
    _node_class(_name, _binary_maker(f"_Op{_name}"))
_node_class("Not", lambda a: _api._OpNot(as_expr(a)))
_node_class("Cast", lambda dtype, value: _api._cast(str(dtype), as_expr(value)))
_node_class("Select", lambda c, t, f: _api.Select(_condition("Select", c), as_expr(t), as_expr(f)))
_node_class("BufferLoad", lambda buffer, indices: _api.BufferLoad(buffer, [as_expr(i) for i in indices]))
_node_class("StringImm", lambda value: _api.StringImm(str(value)))
_node_class("Ramp", lambda base, stride, lanes: _api.Ramp(as_expr(base), as_expr(stride), int(lanes)))
_node_class("Broadcast", lambda value, lanes: _api.Broadcast(as_expr(value), int(lanes)))
_node_class("Shuffle", lambda vectors, indices: _api.Shuffle([as_expr(v) for v in vectors],
                                                             [as_expr(i) for i in indices]))
_node_class("Let", lambda var, value, body: _api.Let(var, as_expr(value), as_expr(body)))
_node_class("Call", lambda dtype, op, args: call_intrin(dtype, op if isinstance(op, str) else op.name, *args))
for _name in ("ProducerLoad", "Reduce"):
    _node_class(_name)

_install_operators()


class CallEffectKind:
    """What a call may do beside giving its result."""

    ExprAnnotation, Pure, ReadState, UpdateState, SpecialCallArg, EmbedInfo, ControlJump, Opaque = (0, 1, 2, 3, 4, 5, 6, 3)


def const(value, dtype=None):
    """A constant."""
    bits = re.fullmatch(r"(u?)int(\d+)", str(dtype))
    if bits and isinstance(value, int) and not isinstance(value, bool):
        size = int(bits[2]) - (bits[1] == "")
        if not (0 if bits[1] else -(1 << size)) <= value < 1 << size:
            raise ValueError(f"const: {value} isn't a number of dtype {dtype}")
    value = as_expr(value)
    return value if dtype is None else _api._const(value, str(dtype))


def _unary(name):
    def apply(x):
        return getattr(_api, name)(as_expr(x))

    apply.__name__ = name
    apply.__doc__ = f"{name} of a scalar."
    return apply


for _name in ("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin",
              "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "floor", "ceil",
              "trunc", "round", "nearbyint", "abs", "isnan", "isinf", "isfinite", "likely"):
    globals()[_name] = _unary(_name)


def _binary(name, doc):
    def apply(a, b):
        return getattr(_api, name)(as_expr(a), as_expr(b))

    apply.__doc__ = doc
    return apply


div = _binary("_OpDiv", "Quotient; truncating on integers.")
indexdiv = _binary("_OpFloorDiv", "Quotient of indices, rounded down.")
indexmod = _binary("_OpFloorMod", "Remainder of indexdiv.")
fmod = _binary("fmod", "Remainder of truncating division of floats.")
atan2 = _binary("atan2", "Angle of a point.")
truncdiv = _binary("_OpTruncDiv", "Quotient rounded toward zero.")
truncmod = _binary("_OpTruncMod", "Remainder of truncdiv.")
floordiv = _binary("_OpFloorDiv", "Quotient rounded down.")


def ceildiv(a, b):
    """Quotient rounded up."""
    a, b = as_expr(a), as_expr(b)
    return floordiv(a + (b - 1), b)


floormod = _binary("_OpFloorMod", "Remainder of floordiv.")
power = _binary("_OpPow", "Power.")


def _condition(what, value):
    value = as_expr(value)
    if not isinstance(value, PrimExpr) or not str(value.dtype).startswith("bool"):
        got = value.dtype if isinstance(value, PrimExpr) else repr(value)
        raise DTypeError(f"{what}: the condition must be bool, not {got}; compare it, or use astype(\"bool\")")
    return value


def if_then_else(condition, true_value, false_value, dtype=None):
    """One of two values; the other isn't computed. dtype: the type of the result."""
    result = _api._OpIfThenElse(_condition("if_then_else", condition), as_expr(true_value), as_expr(false_value))
    return result if dtype is None or str(result.dtype) == str(dtype) else result.astype(dtype)


def select(condition, true_value, false_value):
    """One of two values; both are computed."""
    return _api.Select(_condition("Select", condition), as_expr(true_value), as_expr(false_value))


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


def call_intrin(dtype, name, *args):
    """A call of an intrinsic."""
    return _api.Call(str(dtype), name, [as_expr(a) for a in args])


def call_extern(dtype, name, *args):
    """A call of a C function; may have effects."""
    return call_intrin(dtype, "tir.call_extern", name, *args)


def call_pure_extern(dtype, name, *args):
    """A call of a C function without effects."""
    return call_intrin(dtype, "tir.call_pure_extern", name, *args)


def _handed_on(value):
    """What a packed function gets: a buffer as a tensor."""
    if not (hasattr(value, "access_ptr") and hasattr(value, "shape")):
        return value
    if len(value.strides) > 0:
        raise ValueError(f"call_packed: buffer {value.name} has strides; only compact buffers are handed on")
    return call_intrin("handle", "tir.tvm_stack_make_array", value.access_ptr("rw"), const(0, str(value.dtype)),
                       *value.shape)


def call_packed(name, *args):
    """A call of a registered function."""
    if not isinstance(name, str):
        raise TypeError(f"call_packed: expected the name of a function, not {name!r}")
    return call_intrin("int32", "tir.tvm_call_packed", name, *[_handed_on(a) for a in args])


def min_value(dtype):
    """The least finite value."""
    return _api.min_value(str(dtype))


def max_value(dtype):
    """The greatest finite value."""
    return _api.max_value(str(dtype))


def infinity(dtype):
    """Infinity, or the greatest value where there is none."""
    return _api.infinity(str(dtype))


def _of_floats(name, doc):
    def apply(a, b):
        a = as_expr(a)
        return call_intrin(str(a.dtype), f"tir.{name}", a, b)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return apply


hypot = _of_floats("hypot", "The length of a vector of two coordinates.")
copysign = _of_floats("copysign", "The first number with the sign of the second.")
nextafter = _of_floats("nextafter", "The number that follows the first in direction of the second.")


def ldexp(x1, x2):
    """x1 times 2 to the power of x2."""
    x1 = as_expr(x1)
    return x1 * exp2(_api._cast(str(x1.dtype), as_expr(x2)))


def popcount(x):
    """The number of bits that are 1."""
    x = as_expr(x)
    return call_intrin(str(x.dtype), "tir.popcount", x)


def clz(x):
    """The number of leading bits that are 0: int32."""
    return call_intrin("int32", "tir.clz", x)


def q_multiply_shift(x, y, q, s):
    """round(x * y * 2^-s), y a fixed-point number with q bits behind the point: int32, halves upwards."""
    shift = as_expr(q) + as_expr(s)
    wide = _api._cast("int64", as_expr(x)) * _api._cast("int64", as_expr(y))
    shift = _api._cast("int64", shift)
    rounding = _api.left_shift(const(1, "int64"), shift - const(1, "int64"))
    return _api._cast("int32", _api.right_shift(wide + rounding, shift))


def ret(val):
    """Ends a function with a value."""
    val = as_expr(val)
    return call_intrin(str(val.dtype), "tir.ret", val)


def _llvm_call(op, dtype, name, args):
    # The original wants the number of overloaded types first, as uint32; it follows from the arguments.
    counted = args and isinstance(args[0], IntImm) and str(args[0].dtype) == "uint32"
    return call_intrin(dtype, op, StringImm(name), *(args[1:] if counted else args))


def call_llvm_intrin(dtype, name, *args):
    """A call of an intrinsic of LLVM by name ("llvm.fma"), on target llvm. A leading uint32 constant, the original's
    number of overloaded types, isn't an argument."""
    return _llvm_call("tir.call_llvm_intrin", dtype, name, args)


def call_llvm_pure_intrin(dtype, name, *args):
    """call_llvm_intrin of one without effects."""
    return _llvm_call("tir.call_llvm_pure_intrin", dtype, name, args)
