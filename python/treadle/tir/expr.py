# SPDX-License-Identifier: Apache-2.0
"""Scalar expressions, with Python's operators."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .._core import Object
from .._dtype import DataType
from .._ffi import Api, Array, get_global_func, register_func, register_object
from ..error import DTypeError
from ..ir import FloatImm, IntImm, Node, PrimExpr, Range, Type

_api = Api("tir")

if TYPE_CHECKING:
    from .._typing import DTypeLike, Scalar
    from .function import Buffer


class EqualOp:
    """What `a == b` of two expressions gives: whether they are the same object, or in an expression a comparison."""

    def __init__(self, a: PrimExpr, b: Scalar, negated: bool = False) -> None:
        self.a, self.b, self.negated = a, b, negated

    def __bool__(self) -> bool:
        same = isinstance(self.b, PrimExpr) and self.a.same_as(self.b)
        return same != self.negated

    def as_expr(self) -> PrimExpr:
        """The comparison."""
        return (_api._OpNE if self.negated else _api._OpEQ)(self.a, as_expr(self.b))


_COMPARABLE = (PrimExpr, EqualOp, int, float)


class _Operators:
    """What arithmetic of expressions (ir.PrimExpr) makes."""

    @staticmethod
    def binary(name: str, left: PrimExpr, right: Any) -> Any:
        right = _Operators._operand(right)
        return right if right is NotImplemented else getattr(_api, name)(left, right)

    @staticmethod
    def swapped(name: str, right: PrimExpr, left: Any) -> Any:
        left = _Operators._operand(left)
        return left if left is NotImplemented else getattr(_api, name)(left, right)

    @staticmethod
    def _operand(value: Any) -> Any:
        if hasattr(value, "item") and not isinstance(value, PrimExpr):
            value = value.item()
        return as_expr(value) if isinstance(value, _COMPARABLE) else NotImplemented

    @staticmethod
    def equal(a: PrimExpr, b: Any, negated: bool = False) -> Any:
        return EqualOp(a, b, negated) if isinstance(b, _COMPARABLE) else NotImplemented

    @staticmethod
    def compared(a: PrimExpr, b: Any) -> PrimExpr:
        return _api._OpEQ(a, as_expr(b))

    @staticmethod
    def negative(value: PrimExpr) -> PrimExpr:
        return _api._OpNeg(value)

    @staticmethod
    def inverted(value: PrimExpr) -> PrimExpr:
        return _api.bitwise_not(value)

    @staticmethod
    def cast(value: PrimExpr, dtype: str) -> PrimExpr:
        return _api._cast(dtype, value)


PrimExpr._operators = _Operators


def as_expr(value: Any) -> PrimExpr:
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
    """A variable; equal only to itself. Of a pointer, `dtype` is its type: ir.PointerType(ir.PrimType("float32"))."""

    name_hint: str

    def __init__(self, name: str, dtype: DTypeLike | Type = "int32") -> None:
        kind = dtype._type_key() if isinstance(dtype, Type) else ""
        if kind == "PointerType":
            super().__init__(_api.PointerVar(name, dtype.element_type.dtype, dtype.storage_scope))
        else:
            super().__init__(_api.Var(name, str(dtype.dtype if kind == "PrimType" else dtype)))

    @property
    def name(self) -> str:
        """The name; other variables may have the same."""
        return self.name_hint


SizeVar = Var


@register_object("tir.IterVar")
class IterVar(PrimExpr):
    """An axis."""

    dom: Range | None
    var: Var
    iter_type: int
    thread_tag: str

    DataPar, ThreadIndex, CommReduce, Ordered, Opaque, Unrolled, Vectorized, Parallelized, Tensorized = range(9)

    def __init__(self, dom: Range | Sequence[Scalar] | None, var: Var | str, iter_type: int, thread_tag: str = "",
                 span: Any = None) -> None:
        if isinstance(dom, (tuple, list)):
            dom = get_global_func("ir.Range")(as_expr(dom[0]), as_expr(dom[1]))
        if isinstance(var, str):
            var = Var(var, str(dom.extent.dtype) if dom is not None else "int32")
        super().__init__(_api.IterVar(dom, var, iter_type, thread_tag))


@register_object("tir.CommReducer")
class CommReducer(Node):
    """An associative, commutative reduction."""

    lhs: Array
    rhs: Array
    result: Array
    identity_element: Array


class _Binary(PrimExpr):
    """Base of expressions of two operands."""

    a: PrimExpr
    b: PrimExpr

    def __init__(self, a: Scalar, b: Scalar) -> None:
        super().__init__(getattr(_api, f"_Op{type(self).__name__}")(as_expr(a), as_expr(b)))


class _Truth:
    """What conditions share: they aren't known before they run."""

    def __bool__(self) -> bool:
        raise ValueError("an expression's value isn't known before it runs: use te.all, te.any, tir.Not and "
                         "te.if_then_else instead of and, or, not and if")


@register_object("tir.Add")
class Add(_Binary):
    """The sum."""


@register_object("tir.Sub")
class Sub(_Binary):
    """The difference."""


@register_object("tir.Mul")
class Mul(_Binary):
    """The product."""


@register_object("tir.Div")
class Div(_Binary):
    """The quotient, truncated on integers."""


@register_object("tir.Mod")
class Mod(_Binary):
    """The remainder of Div."""


@register_object("tir.FloorDiv")
class FloorDiv(_Binary):
    """The quotient rounded down."""


@register_object("tir.FloorMod")
class FloorMod(_Binary):
    """The remainder of FloorDiv."""


@register_object("tir.Min")
class Min(_Binary):
    """The smaller one."""


@register_object("tir.Max")
class Max(_Binary):
    """The greater one."""


@register_object("tir.EQ")
class EQ(_Truth, _Binary):
    """Whether two values are equal."""


@register_object("tir.NE")
class NE(_Truth, _Binary):
    """Whether two values differ."""


@register_object("tir.LT")
class LT(_Truth, _Binary):
    """Whether the first is less."""


@register_object("tir.LE")
class LE(_Truth, _Binary):
    """Whether the first is at most the second."""


@register_object("tir.GT")
class GT(_Truth, _Binary):
    """Whether the first is greater."""


@register_object("tir.GE")
class GE(_Truth, _Binary):
    """Whether the first is at least the second."""


@register_object("tir.And")
class And(_Truth, _Binary):
    """Whether both hold."""


@register_object("tir.Or")
class Or(_Truth, _Binary):
    """Whether one of two holds."""


@register_object("tir.Not")
class Not(_Truth, PrimExpr):
    """Whether something doesn't hold."""

    a: PrimExpr

    def __init__(self, a: Scalar) -> None:
        super().__init__(_api._OpNot(as_expr(a)))


@register_object("tir.Cast")
class Cast(PrimExpr):
    """A value as another type."""

    value: PrimExpr

    def __init__(self, dtype: DTypeLike, value: Scalar) -> None:
        super().__init__(_api._cast(str(dtype), as_expr(value)))


@register_object("tir.Select")
class Select(PrimExpr):
    """One of two values; both are computed."""

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr

    def __init__(self, condition: Scalar, true_value: Scalar, false_value: Scalar) -> None:
        super().__init__(_api.Select(_condition("Select", condition), as_expr(true_value), as_expr(false_value)))


@register_object("tir.BufferLoad")
class BufferLoad(PrimExpr):
    """An element of a buffer."""

    buffer: Buffer
    indices: Array

    def __init__(self, buffer: Buffer, indices: Iterable[Scalar]) -> None:
        super().__init__(_api.BufferLoad(buffer, [as_expr(i) for i in indices]))


@register_object("tir.StringImm")
class StringImm(PrimExpr):
    """A text."""

    value: str

    def __init__(self, value: object) -> None:
        super().__init__(_api.StringImm(str(value)))


@register_object("tir.Ramp")
class Ramp(PrimExpr):
    """`lanes` numbers in a row, `stride` apart."""

    base: PrimExpr
    stride: PrimExpr
    lanes: int

    def __init__(self, base: Scalar, stride: Scalar, lanes: int) -> None:
        super().__init__(_api.Ramp(as_expr(base), as_expr(stride), int(lanes)))


@register_object("tir.Broadcast")
class Broadcast(PrimExpr):
    """The same number in `lanes` lanes."""

    value: PrimExpr
    lanes: int

    def __init__(self, value: Scalar, lanes: int) -> None:
        super().__init__(_api.Broadcast(as_expr(value), int(lanes)))


@register_object("tir.Shuffle")
class Shuffle(PrimExpr):
    """Elements of vectors in another order."""

    vectors: Array
    indices: Array

    def __init__(self, vectors: Iterable[Scalar], indices: Iterable[Scalar]) -> None:
        super().__init__(_api.Shuffle([as_expr(v) for v in vectors], [as_expr(i) for i in indices]))


@register_object("tir.Let")
class Let(PrimExpr):
    """A variable bound in an expression."""

    var: Var
    value: PrimExpr
    body: PrimExpr

    def __init__(self, var: Var, value: Scalar, body: Scalar) -> None:
        super().__init__(_api.Let(var, as_expr(value), as_expr(body)))


@register_object("tir.Call")
class Call(PrimExpr):
    """A call of an intrinsic or a function."""

    op: Any
    args: Array

    def __init__(self, dtype: DTypeLike, op: Any, args: Sequence[Scalar | str]) -> None:
        super().__init__(call_intrin(dtype, op if isinstance(op, str) else op.name, *args))


@register_object("tir.ProducerLoad")
class ProducerLoad(PrimExpr):
    """An element of a tensor that isn't a buffer yet."""

    producer: Any
    indices: Array


@register_object("tir.Reduce")
class Reduce(PrimExpr):
    """A reduction over axes."""

    combiner: CommReducer
    source: Array
    axis: Array
    condition: PrimExpr
    value_index: int


class CallEffectKind:
    """What a call may do beside giving its result."""

    ExprAnnotation, Pure, ReadState, UpdateState, SpecialCallArg, EmbedInfo, ControlJump, Opaque = (0, 1, 2, 3, 4, 5, 6, 3)


def const(value: bool | int | float | PrimExpr, dtype: DTypeLike | None = None) -> PrimExpr:
    """A constant."""
    bits = re.fullmatch(r"(u?)int(\d+)", str(dtype))
    if bits and isinstance(value, int) and not isinstance(value, bool):
        size = int(bits[2]) - (bits[1] == "")
        if not (0 if bits[1] else -(1 << size)) <= value < 1 << size:
            raise ValueError(f"const: {value} isn't a number of dtype {dtype}")
        if value >= 1 << 63:  # a constant holds an int64
            return const(value >> 32, dtype) << const(32, dtype) | const(value & 0xffffffff, dtype)
    value = as_expr(value)
    return value if dtype is None else _api._const(value, str(dtype))


def _unary(name: str) -> Callable[[Scalar], PrimExpr]:
    def apply(x):
        return getattr(_api, name)(as_expr(x))

    apply.__name__ = name
    apply.__doc__ = f"{name} of a scalar."
    return apply


exp = _unary("exp")
exp2 = _unary("exp2")
exp10 = _unary("exp10")
log = _unary("log")
log2 = _unary("log2")
log10 = _unary("log10")
log1p = _unary("log1p")
sqrt = _unary("sqrt")
rsqrt = _unary("rsqrt")
sin = _unary("sin")
cos = _unary("cos")
tan = _unary("tan")
asin = _unary("asin")
acos = _unary("acos")
atan = _unary("atan")
sinh = _unary("sinh")
cosh = _unary("cosh")
tanh = _unary("tanh")
asinh = _unary("asinh")
acosh = _unary("acosh")
atanh = _unary("atanh")
erf = _unary("erf")
sigmoid = _unary("sigmoid")
floor = _unary("floor")
ceil = _unary("ceil")
trunc = _unary("trunc")
round = _unary("round")
nearbyint = _unary("nearbyint")
abs = _unary("abs")
isnan = _unary("isnan")
isinf = _unary("isinf")
isfinite = _unary("isfinite")
likely = _unary("likely")


def _binary(name: str, doc: str) -> Callable[[Scalar, Scalar], PrimExpr]:
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


def ceildiv(a: Scalar, b: Scalar) -> PrimExpr:
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


def if_then_else(condition: Scalar, true_value: Scalar, false_value: Scalar,
                 dtype: DTypeLike | None = None) -> PrimExpr:
    """One of two values; the other isn't computed. dtype: the type of the result."""
    result = _api._OpIfThenElse(_condition("if_then_else", condition), as_expr(true_value), as_expr(false_value))
    return result if dtype is None or str(result.dtype) == str(dtype) else result.astype(dtype)


def select(condition: Scalar, true_value: Scalar, false_value: Scalar) -> PrimExpr:
    """One of two values; both are computed."""
    return _api.Select(_condition("Select", condition), as_expr(true_value), as_expr(false_value))


def all(*conditions: Scalar) -> PrimExpr:
    """Whether every condition holds."""
    if not conditions:
        raise TypeError("all: expected at least one condition")
    result = as_expr(conditions[0])
    for condition in conditions[1:]:
        result = _api._OpAnd(result, as_expr(condition))
    return result


def any(*conditions: Scalar) -> PrimExpr:
    """Whether some condition holds."""
    if not conditions:
        raise TypeError("any: expected at least one condition")
    result = as_expr(conditions[0])
    for condition in conditions[1:]:
        result = _api._OpOr(result, as_expr(condition))
    return result


def call_intrin(dtype: DTypeLike, name: str, *args: Scalar | str) -> PrimExpr:
    """A call of an intrinsic."""
    return _api.Call(str(dtype), name, [as_expr(a) for a in args])


def reinterpret(dtype: DTypeLike, value: Scalar) -> PrimExpr:
    """The bits of a value as another type of the same width."""
    value, dtype = as_expr(value), DataType(dtype)
    given = DataType(value.dtype)
    if given.bits * given.lanes != dtype.bits * dtype.lanes:
        raise DTypeError(f"reinterpret of {given} as {dtype}: widths differ")
    return call_intrin(str(dtype), "tir.reinterpret", value)


def call_extern(dtype: DTypeLike, name: str, *args: Scalar | str) -> PrimExpr:
    """A call of a C function; may have effects."""
    return call_intrin(dtype, "tir.call_extern", name, *args)


def call_pure_extern(dtype: DTypeLike, name: str, *args: Scalar | str) -> PrimExpr:
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


def call_packed(name: str, *args: Any) -> PrimExpr:
    """A call of a registered function."""
    if not isinstance(name, str):
        raise TypeError(f"call_packed: expected the name of a function, not {name!r}")
    return call_intrin("int32", "tir.tvm_call_packed", name, *[_handed_on(a) for a in args])


def trace(args: Sequence[Any], trace_action: str = "tvm.default_trace_action") -> PrimExpr:
    """The last of `args`, handed with the others to a registered function each time that it is computed. The function
    gives the value that is used on; the default one prints its arguments and gives back the last."""
    if not isinstance(args, (list, tuple)) or not args:
        raise TypeError(f"trace: expected a list of values, the last of which is traced, not {args!r}")
    values = [_handed_on(as_expr(a) if not isinstance(a, str) else a) for a in args]
    return call_intrin(str(as_expr(args[-1]).dtype), "tir.tvm_call_packed", trace_action, *values)


@register_func("tvm.default_trace_action")
def _print_trace(*values):
    print(list(values))
    return values[-1]


def min_value(dtype: DTypeLike) -> PrimExpr:
    """The least finite value."""
    return _api.min_value(str(dtype))


def max_value(dtype: DTypeLike) -> PrimExpr:
    """The greatest finite value."""
    return _api.max_value(str(dtype))


def infinity(dtype: DTypeLike) -> PrimExpr:
    """Infinity, or the greatest value where there is none."""
    return _api.infinity(str(dtype))


def _of_floats(name: str, doc: str) -> Callable[[Scalar, Scalar], PrimExpr]:
    def apply(a, b):
        a = as_expr(a)
        return call_intrin(str(a.dtype), f"tir.{name}", a, b)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return apply


hypot = _of_floats("hypot", "The length of a vector of two coordinates.")
copysign = _of_floats("copysign", "The first number with the sign of the second.")
nextafter = _of_floats("nextafter", "The number that follows the first in direction of the second.")


def ldexp(x1: Scalar, x2: Scalar) -> PrimExpr:
    """x1 times 2 to the power of x2."""
    x1 = as_expr(x1)
    return x1 * exp2(_api._cast(str(x1.dtype), as_expr(x2)))


def popcount(x: Scalar) -> PrimExpr:
    """The number of bits that are 1."""
    x = as_expr(x)
    return call_intrin(str(x.dtype), "tir.popcount", x)


def clz(x: Scalar) -> PrimExpr:
    """The number of leading bits that are 0: int32."""
    return call_intrin("int32", "tir.clz", x)


def q_multiply_shift(x: Scalar, y: Scalar, q: Scalar, s: Scalar) -> PrimExpr:
    """round(x * y * 2^-s), y a fixed-point number with q bits behind the point: int32, halves upwards."""
    shift = as_expr(q) + as_expr(s)
    wide = _api._cast("int64", as_expr(x)) * _api._cast("int64", as_expr(y))
    shift = _api._cast("int64", shift)
    rounding = _api.left_shift(const(1, "int64"), shift - const(1, "int64"))
    return _api._cast("int32", _api.right_shift(wide + rounding, shift))


def ret(val: Scalar) -> PrimExpr:
    """Ends a function with a value."""
    val = as_expr(val)
    return call_intrin(str(val.dtype), "tir.ret", val)


def _llvm_call(op, dtype, name, args):
    # The original wants the number of overloaded types first, as uint32; it follows from the arguments.
    counted = args and isinstance(args[0], IntImm) and str(args[0].dtype) == "uint32"
    return call_intrin(dtype, op, StringImm(name), *(args[1:] if counted else args))


def call_llvm_intrin(dtype: DTypeLike, name: str, *args: Scalar) -> PrimExpr:
    """A call of an intrinsic of LLVM by name ("llvm.fma"), on target llvm. A leading uint32 constant, the original's
    number of overloaded types, isn't an argument."""
    return _llvm_call("tir.call_llvm_intrin", dtype, name, args)


def call_llvm_pure_intrin(dtype: DTypeLike, name: str, *args: Scalar) -> PrimExpr:
    """call_llvm_intrin of one without effects."""
    return _llvm_call("tir.call_llvm_pure_intrin", dtype, name, args)
