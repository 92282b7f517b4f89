# SPDX-License-Identifier: Apache-2.0
"""Expressions of the graph IR."""
from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from .. import nd
from .._arguments import listed
from .._dtype import to_numpy
from .._ffi import Api, Array, Map, register_object
from ..error import DTypeError
from ..ir import Attrs, BaseFunc, Constructor, Node, RelayExpr, Span, TensorType, Type, TypeVar, as_text

if typing.TYPE_CHECKING:
    from .._typing import ExprLike

_api = Api("relay.ir")


def as_expr(value: typing.Any) -> RelayExpr:
    """Numbers and arrays as constants; sequences of expressions as tuples."""
    if isinstance(value, RelayExpr):
        return value
    if isinstance(value, TupleWrapper):
        return value.astuple()
    if isinstance(value, (list, tuple)) and any(isinstance(item, RelayExpr) for item in value):
        return Tuple([as_expr(item) for item in value])
    if value is None or isinstance(value, (str, bytes, Mapping)):
        raise DTypeError(f"expected an expression, a number or an array but got {value!r}")
    return const(value)


Expr = RelayExpr


class TupleWrapper:
    """A call that returns several values: indexable, iterable, and usable as the tuple."""

    def __init__(self, tuple_value: Expr | TupleWrapper, size: int) -> None:
        self.tuple_value: Expr = tuple_value.astuple() if isinstance(tuple_value, TupleWrapper) else tuple_value
        self.size = size

    def astuple(self) -> Expr:
        """The call itself, whose value is a tuple."""
        return self.tuple_value

    def astext(self, show_meta_data: bool = True) -> str:
        return self.tuple_value.astext(show_meta_data)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> TupleGetItem:
        if not -self.size <= index < self.size:
            raise IndexError(f"result {index} of {self.size}")
        return TupleGetItem(self.tuple_value, index % self.size)

    def __iter__(self) -> Iterator[TupleGetItem]:
        return (self[i] for i in range(self.size))

    def __str__(self) -> str:
        return str(self.tuple_value)

    def __repr__(self) -> str:
        return f"TupleWrapper({self.tuple_value}, {self.size})"


@register_object("relay.Constant")
class Constant(Expr):
    """A tensor that is known."""

    data: nd.NDArray

    def __init__(self, data: nd.NDArray) -> None:
        super().__init__(_api.Constant(data))


@register_object("relay.Id")
class Id(Node):
    """What makes two variables the same."""

    name_hint: str


@register_object("relay.Var")
class Var(Expr):
    """A variable."""

    vid: Id
    type_annotation: Type | None

    def __init__(self, name_hint: str, type_annotation: Type | None = None) -> None:
        super().__init__(_api.Var(name_hint, type_annotation))

    @property
    def name_hint(self) -> str:
        return self.vid.name_hint


@register_object("relay.Tuple")
class Tuple(Expr):
    """Several values."""

    fields: Array

    def __init__(self, fields: Iterable[ExprLike], span: Span | None = None) -> None:
        fields = listed("relay.Tuple", fields, "a list of expressions")
        super().__init__(_api.Tuple([as_expr(field) for field in fields], span))

    def __getitem__(self, index: int) -> Expr:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)


@register_object("relay.TupleGetItem")
class TupleGetItem(Expr):
    """One value of several."""

    tuple_value: Expr
    index: int

    def __init__(self, tuple_value: ExprLike, index: int, span: Span | None = None) -> None:
        super().__init__(_api.TupleGetItem(as_expr(tuple_value), index, span))


@register_object("relay.Call")
class Call(Expr):
    """An operator or function applied to arguments."""

    op: RelayExpr
    args: Array
    attrs: Attrs
    type_args: Array
    span: Span | None

    def __init__(self, op: RelayExpr, args: Iterable[ExprLike], attrs: Attrs | None = None,
                 type_args: Iterable[Type] | None = None, span: Span | None = None) -> None:
        super().__init__(_api.Call(op, [as_expr(arg) for arg in args], attrs, list(type_args or []), span))


@register_object("relay.Let")
class Let(Expr):
    """A value bound to a variable in a body."""

    var: Var
    value: Expr
    body: Expr

    def __init__(self, variable: Var, value: ExprLike, body: ExprLike, span: Span | None = None) -> None:
        super().__init__(_api.Let(variable, as_expr(value), as_expr(body), span))


@register_object("relay.If")
class If(Expr):
    """A choice."""

    cond: Expr
    true_branch: Expr
    false_branch: Expr

    def __init__(self, cond: ExprLike, true_branch: ExprLike, false_branch: ExprLike, span: Span | None = None) -> None:
        super().__init__(_api.If(as_expr(cond), as_expr(true_branch), as_expr(false_branch), span))


@register_object("relay.TempExpr")
class TempExpr(Expr):
    """An expression that only stands for another while a pass runs."""

    def realize(self) -> Expr:
        """The expression that it stands for."""
        return _api.TempExprRealize(self)


@register_object("relay.RefCreate")
class RefCreate(Expr):
    """A new mutable cell."""

    value: Expr

    def __init__(self, value: ExprLike) -> None:
        super().__init__(_api.RefCreate(as_expr(value)))


@register_object("relay.RefRead")
class RefRead(Expr):
    """The value in a cell."""

    ref: Expr

    def __init__(self, ref: ExprLike) -> None:
        super().__init__(_api.RefRead(ref))


@register_object("relay.RefWrite")
class RefWrite(Expr):
    """Replaces the value in a cell."""

    ref: Expr
    value: Expr

    def __init__(self, ref: ExprLike, value: ExprLike) -> None:
        super().__init__(_api.RefWrite(ref, as_expr(value)))


@register_object("relay.Function")
class Function(BaseFunc):
    """A function."""

    params: Array
    body: Expr
    ret_type: Type | None
    type_params: Array

    def __init__(self, params: Iterable[Var], body: ExprLike, ret_type: Type | None = None,
                 type_params: Iterable[TypeVar] | None = None, attrs: Mapping[str, typing.Any] | Attrs | None = None,
                 span: Span | None = None) -> None:
        if isinstance(params, Var) or not hasattr(params, "__iter__"):
            raise TypeError(f"the parameters of a function are a list of relay.Var, not a {type(params).__name__}")
        given: typing.Any = getattr(attrs, "dict", attrs) or {}
        super().__init__(_api.Function(list(params), as_expr(body), ret_type, list(type_params or []), dict(given.items()),
                                       span))


@register_object("relay.Pattern")
class Pattern(Node):
    """What a clause of a match looks for."""


@register_object("relay.PatternWildcard")
class PatternWildcard(Pattern):
    """Matches anything."""

    def __init__(self) -> None:
        super().__init__(_api.PatternWildcard())


@register_object("relay.PatternVar")
class PatternVar(Pattern):
    """Matches anything and binds it."""

    def __init__(self, variable: Var) -> None:
        super().__init__(_api.PatternVar(variable))


@register_object("relay.PatternConstructor")
class PatternConstructor(Pattern):
    """Matches what a constructor made."""

    def __init__(self, constructor: Constructor, patterns: Iterable[Pattern] = ()) -> None:
        super().__init__(_api.PatternConstructor(constructor, list(patterns)))


@register_object("relay.PatternTuple")
class PatternTuple(Pattern):
    """Matches a tuple."""

    def __init__(self, patterns: Iterable[Pattern] = ()) -> None:
        super().__init__(_api.PatternTuple(list(patterns)))


@register_object("relay.Clause")
class Clause(Node):
    """One case of a match."""

    def __init__(self, lhs: Pattern, rhs: Expr) -> None:
        super().__init__(_api.Clause(lhs, rhs))


@register_object("relay.Match")
class Match(Expr):
    """A choice by the form of a value."""

    def __init__(self, data: Expr, clauses: Iterable[Clause], complete: bool = True) -> None:
        super().__init__(_api.Match(data, list(clauses), complete))


def var(name_hint: str, type_annotation: typing.Any = None, shape: typing.Any = None,
        dtype: typing.Any = "float32") -> Var:
    """A variable; its type is given, or that of a tensor of `shape` and `dtype`."""
    if isinstance(type_annotation, (list, tuple)):
        shape, type_annotation = type_annotation, None
    if shape is not None:
        if type_annotation is not None:
            raise ValueError("give either a type or a shape")
        if isinstance(shape, str) or not hasattr(shape, "__iter__"):
            raise TypeError(f"the shape of '{name_hint}' is {shape!r}; expected a tuple such as (1, 3, 224, 224)")
        shape = tuple(shape)
        for dim in shape:
            if isinstance(dim, str):
                raise TypeError(f"the shape of '{name_hint}' is {shape!r}: {dim!r} can't be a dimension; expected an integer, "
                                f"relay.Any() or tir.Var({dim!r}, 'int64')")
        type_annotation = TensorType(() if shape == () else shape, dtype)
    elif isinstance(type_annotation, str):
        type_annotation = TensorType((), type_annotation)
    if type_annotation is not None and not isinstance(type_annotation, Type):
        raise TypeError(f"not a type: {type_annotation!r}")
    return Var(name_hint, type_annotation)


def const(value: typing.Any, dtype: typing.Any = None) -> Constant:
    """A constant. Python's float becomes float32, its int becomes int32 where it fits."""
    if isinstance(value, nd.NDArray):
        return Constant(value)
    if dtype is not None:
        value = _array(value, to_numpy(dtype))
    elif not isinstance(value, (np.ndarray, np.generic)):
        value = _array(value, None)
        narrow = {"float64": np.float32, "int64": np.int32}.get(value.dtype.name)
        if narrow is not None and (narrow is np.float32 or np.all(np.abs(value) < 2**31)):
            value = value.astype(narrow)
    return Constant(nd.array(value))


def _array(value, dtype):
    try:
        return np.asarray(value, dtype=dtype)
    except (TypeError, ValueError):
        raise DTypeError(f"const: expected numbers in rows of one length, got {value!r}") from None


def bind(expr: typing.Any, binds: typing.Any) -> typing.Any:
    """Replaces variables by expressions."""
    from .._ffi import get_global_func

    return get_global_func("relay.ir.Bind")(expr, {key: as_expr(value) for key, value in _binds(binds).items()})


def _binds(binds):
    if not isinstance(binds, (Mapping, Map)) or not all(isinstance(key, Var) for key in binds):
        raise DTypeError(f"bind: expected a dict from variables to expressions, got {binds!r}")
    return binds


def astext(expr: typing.Any, show_meta_data: bool = True) -> str:
    """The text of an expression or module, which `treadle.relay.parse` reads."""
    return as_text(expr, show_meta_data)
