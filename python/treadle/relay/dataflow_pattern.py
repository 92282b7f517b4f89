# SPDX-License-Identifier: Apache-2.0
"""Patterns of data flow: is_op("add")(wildcard(), is_constant()) and the like; matching, rewriting, partitioning."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._arguments import sequence
from .._ffi import Api, register_object
from ..ir import Node
from .expr import as_expr

if TYPE_CHECKING:
    from .._typing import Dims, DTypeLike
    from ..ir import IRModule, Type
    from .expr import Expr

_api = Api("relay.dataflow_pattern")


@register_object("relay.dataflow_pattern.DFPattern")
class DFPattern(Node):
    """Base of patterns. The same object in several places of a pattern stands for one expression."""

    def __call__(self, *args: Any) -> CallPattern:
        """A call of what matches this pattern; `None` alone stands for any arguments."""
        if len(args) == 1 and args[0] is None:
            return CallPattern(self, None)
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = tuple(args[0])
        return CallPattern(self, list(args))

    def __or__(self, other: DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other: DFPattern) -> CallPattern:
        return is_op("add")(self, other)

    def __sub__(self, other: DFPattern) -> CallPattern:
        return is_op("subtract")(self, other)

    def __mul__(self, other: DFPattern) -> CallPattern:
        return is_op("multiply")(self, other)

    def __truediv__(self, other: DFPattern) -> CallPattern:
        return is_op("divide")(self, other)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """Attributes of a call or function, or properties of an operator."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> TypePattern:
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: DTypeLike) -> DataTypePattern:
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Dims) -> ShapePattern:
        return ShapePattern(self, shape)

    def match(self, expr: Expr) -> bool:
        """Whether the whole expression matches."""
        return match(self, expr)

    def partition(self, expr: Expr, attrs: Mapping[str, Any] | None = None,
                  check: Callable[[Expr], bool] = lambda x: True) -> Expr:
        """Each match becomes the call of a function."""
        return partition(self, expr, attrs, check)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """This, with one `parent` above such that all that is between them matches `path`."""
        return DominatorPattern(parent, wildcard() if path is None else path, self)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> AltPattern:
        """`option_constructor(self)`, or this alone."""
        return self | option_constructor(self)


def _pattern_class(key):
    """Class decorator: the constructor's arguments go to the function of that name."""
    return register_object(f"relay.dataflow_pattern.{key}")


@_pattern_class("ExprPattern")
class ExprPattern(DFPattern):
    """An expression that is structurally equal."""

    def __init__(self, expr: Any) -> None:
        super().__init__(_api.ExprPattern(as_expr(expr)))


@_pattern_class("VarPattern")
class VarPattern(DFPattern):
    """A variable."""

    def __init__(self, name_hint: str = "") -> None:
        super().__init__(_api.VarPattern(name_hint))


@_pattern_class("ConstantPattern")
class ConstantPattern(DFPattern):
    """Any constant."""

    def __init__(self) -> None:
        super().__init__(_api.ConstantPattern())


@_pattern_class("WildcardPattern")
class WildcardPattern(DFPattern):
    """Anything."""

    def __init__(self) -> None:
        super().__init__(_api.WildcardPattern())


@_pattern_class("CallPattern")
class CallPattern(DFPattern):
    """A call; args None stands for any arguments."""

    def __init__(self, op: DFPattern, args: Iterable[DFPattern] | None) -> None:
        super().__init__(_api.CallOfAny(op) if args is None else _api.CallPattern(op, list(args)))


@_pattern_class("FunctionPattern")
class FunctionPattern(DFPattern):
    """A function; params None stands for any parameters."""

    def __init__(self, params: Iterable[DFPattern] | None, body: DFPattern) -> None:
        super().__init__(_api.FunctionOfAny(body) if params is None else _api.FunctionPattern(list(params), body))


@_pattern_class("LetPattern")
class LetPattern(DFPattern):
    """A let."""

    def __init__(self, var: DFPattern, value: DFPattern, body: DFPattern) -> None:
        super().__init__(_api.LetPattern(var, value, body))


@_pattern_class("IfPattern")
class IfPattern(DFPattern):
    """An if."""

    def __init__(self, cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> None:
        super().__init__(_api.IfPattern(cond, true_branch, false_branch))


@_pattern_class("TuplePattern")
class TuplePattern(DFPattern):
    """A tuple; fields None stands for any fields."""

    def __init__(self, fields: Iterable[DFPattern] | None) -> None:
        super().__init__(_api.AnyTuplePattern() if fields is None else _api.TuplePattern(list(fields)))


@_pattern_class("TupleGetItemPattern")
class TupleGetItemPattern(DFPattern):
    """A projection; index None stands for any."""

    def __init__(self, tuple_value: DFPattern, index: int | None = None) -> None:
        super().__init__(_api.TupleGetItemPattern(tuple_value, -1 if index is None else index))


@_pattern_class("AltPattern")
class AltPattern(DFPattern):
    """One or the other."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        super().__init__(_api.AltPattern(left, right))


@_pattern_class("TypePattern")
class TypePattern(DFPattern):
    """What has a type."""

    def __init__(self, pattern: DFPattern, ttype: Type) -> None:
        super().__init__(_api.TypePattern(pattern, ttype))


@_pattern_class("DataTypePattern")
class DataTypePattern(DFPattern):
    """Tensors of a dtype."""

    def __init__(self, pattern: DFPattern, dtype: DTypeLike) -> None:
        super().__init__(_api.DataTypePattern(pattern, dtype))


@_pattern_class("ShapePattern")
class ShapePattern(DFPattern):
    """Tensors of a shape."""

    def __init__(self, pattern: DFPattern, shape: Dims) -> None:
        super().__init__(_api.ShapePattern(pattern, list(shape)))


@_pattern_class("AttrPattern")
class AttrPattern(DFPattern):
    """What has attributes of these values."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> None:
        super().__init__(_api.AttrPattern(pattern, dict(attrs)))


@_pattern_class("DominatorPattern")
class DominatorPattern(DFPattern):
    """child.dominates(parent, path)."""

    def __init__(self, parent: DFPattern, path: DFPattern, child: DFPattern) -> None:
        super().__init__(_api.DominatorPattern(parent, path, child))


def is_var(name: str = "") -> VarPattern:
    """A variable, of that name where one is given."""
    return VarPattern(name)


def is_constant() -> ConstantPattern:
    """A constant."""
    return ConstantPattern()


def is_expr(expr: Any) -> ExprPattern:
    """The expression itself, up to names of variables."""
    return ExprPattern(expr)


def is_op(op_name: str) -> DFPattern:
    """The operator of that name; call the pattern to match calls of it."""
    return _api.OpPattern(op_name)


def is_tuple(fields: Iterable[DFPattern] | None) -> TuplePattern:
    """A tuple; fields: patterns, or None for any."""
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """The projection of a tuple on field `index` (None: on any)."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> IfPattern:
    """A conditional of patterns."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> LetPattern:
    """A let binding of patterns."""
    return LetPattern(var, value, body)


def wildcard() -> WildcardPattern:
    """Any expression."""
    return WildcardPattern()


def has_type(ttype: Type, pattern: DFPattern | None = None) -> TypePattern:
    """What has this type, and matches `pattern` where one is given."""
    return TypePattern(wildcard() if pattern is None else pattern, ttype)


def has_dtype(dtype: DTypeLike, pattern: DFPattern | None = None) -> DataTypePattern:
    """What has elements of this type, and matches `pattern` where one is given."""
    return DataTypePattern(wildcard() if pattern is None else pattern, dtype)


def has_shape(shape: Dims, pattern: DFPattern | None = None) -> ShapePattern:
    """What has this shape, and matches `pattern` where one is given."""
    return ShapePattern(wildcard() if pattern is None else pattern, shape)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """What has these attributes (a dict), and matches `pattern` where one is given."""
    return AttrPattern(wildcard() if pattern is None else pattern, attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """`child`, all of whose inputs lead through `path` to `parent`."""
    return DominatorPattern(parent, path, child)


def match(pattern: DFPattern, expr: Expr) -> bool:
    """Whether the whole expression matches."""
    return bool(_api.match(pattern, expr))


class DFPatternCallback:
    """A rewrite rule: subclasses set `pattern` and define `callback(pre, post, node_map)`, which returns what takes
    the place of a match; node_map[p][0] is what the pattern p stands for."""

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.pattern: DFPattern | None = None
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def rewrite(self, expr: Expr) -> Expr:
        return rewrite(self, expr)

    def callback(self, pre: Expr, post: Expr, node_map: Any) -> Expr:
        raise NotImplementedError()


def rewrite(callbacks: DFPatternCallback | Sequence[DFPatternCallback], expr: Expr,
            mod: IRModule | None = None) -> Expr:
    """Applies one or several rules until nothing changes."""
    if isinstance(callbacks, DFPatternCallback):
        callbacks = [callbacks]
    callbacks = sequence("rewrite", callbacks, DFPatternCallback, "a DFPatternCallback, or a list of them")
    for rule in callbacks:
        if rule.pattern is None:
            raise ValueError(f"{type(rule).__name__} has no pattern")
    return _api.rewrite([rule.pattern for rule in callbacks],
                        [lambda pre, post, found, rule=rule: as_expr(rule.callback(pre, post, found))
                         for rule in callbacks],
                        [int(rule.require_type) for rule in callbacks],
                        [int(rule.rewrite_once) for rule in callbacks], expr, mod)


def partition(pattern: DFPattern, expr: Expr, attrs: Mapping[str, Any] | None = None,
              check: Callable[[Expr], bool] = lambda x: True) -> Expr:
    """Each match for whose root `check` holds becomes the call of a function of the match's inputs."""
    return _api.partition(pattern, expr, dict(attrs or {}), check)
