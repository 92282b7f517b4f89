# SPDX-License-Identifier: Apache-2.0
"""Statements of loop-level code."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._ffi import Api, Array, Map, register_object
from ..ir import Node, PrimExpr, Range
from .expr import IterVar, Var, as_expr

if TYPE_CHECKING:
    from .._typing import DTypeLike, Scalar
    from .function import Buffer

_api = Api("tir")


class Printed:
    """Nodes that the loop-level printer prints."""

    def __str__(self) -> str:
        return _api.AsText(self, False)

    __repr__ = __str__

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """The text form."""
        return _api.AsText(self, True)


@register_object("tir.Stmt")
class Stmt(Printed, Node):
    """A statement."""


def _exprs(values):
    values = values if isinstance(values, (list, tuple)) else [values]
    return [as_expr(v) for v in values]


class ForKind:
    """How the iterations of a loop run."""

    SERIAL, PARALLEL, VECTORIZED, UNROLLED, THREAD_BINDING = range(5)


@register_object("tir.Block")
class Block(Stmt):
    """A unit of computation that schedules move. Where reads and writes are None, the body tells."""

    iter_vars: Array
    reads: Array
    writes: Array
    name_hint: str
    body: Stmt
    init: Stmt | None
    alloc_buffers: Array
    match_buffers: Array
    annotations: Map

    def __init__(self, iter_vars: Iterable[IterVar], reads: Iterable[BufferRegion] | None,
                 writes: Iterable[BufferRegion] | None, name_hint: str, body: Stmt, init: Stmt | None = None,
                 alloc_buffers: Iterable[Buffer] | None = None, match_buffers: Iterable[MatchBufferRegion] | None = None,
                 annotations: Mapping[str, Any] | None = None, span: Any = None) -> None:
        super().__init__(_api.Block(list(iter_vars), reads, writes, name_hint, body, init, list(alloc_buffers or []),
                                    list(match_buffers or []), dict(annotations or {})))


@register_object("tir.BlockRealize")
class BlockRealize(Stmt):
    """A block with what its axes are bound to."""

    iter_values: Array
    predicate: PrimExpr
    block: Block

    def __init__(self, iter_values: Scalar | Sequence[Scalar], predicate: Scalar, block: Block,
                 span: Any = None) -> None:
        super().__init__(_api.BlockRealize(_exprs(iter_values), as_expr(predicate), block))


@register_object("tir.BufferRegion")
class BufferRegion(Node):
    """A part of a buffer: a range in each dimension."""

    buffer: Buffer
    region: Array

    def __init__(self, buffer: Buffer, region: Iterable[Range]) -> None:
        super().__init__(_api.BufferRegion(buffer, list(region)))


@register_object("tir.MatchBufferRegion")
class MatchBufferRegion(Node):
    """A buffer that shows a part of another."""

    buffer: Buffer
    source: BufferRegion

    def __init__(self, buffer: Buffer, source: BufferRegion) -> None:
        super().__init__(_api.MatchBufferRegion(buffer, source))


@register_object("tir.For")
class For(Stmt):
    """A loop: For(var, min, extent, kind, body)."""

    loop_var: Var
    min: PrimExpr
    extent: PrimExpr
    kind: int
    body: Stmt

    def __init__(self, loop_var: Var, min_val: Scalar, extent: Scalar, kind: int, body: Stmt, span: Any = None) -> None:
        super().__init__(_api.For(loop_var, as_expr(min_val), as_expr(extent), kind, body))


@register_object("tir.While")
class While(Stmt):
    """A loop while a condition holds."""

    condition: PrimExpr
    body: Stmt

    def __init__(self, condition: Scalar, body: Stmt, span: Any = None) -> None:
        super().__init__(_api.While(as_expr(condition), body))


@register_object("tir.IfThenElse")
class IfThenElse(Stmt):
    """A conditional."""

    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None

    def __init__(self, condition: Scalar, then_case: Stmt, else_case: Stmt | None = None, span: Any = None) -> None:
        super().__init__(_api.IfThenElse(as_expr(condition), then_case, else_case))


@register_object("tir.LetStmt")
class LetStmt(Stmt):
    """A variable bound in a statement."""

    var: Var
    value: PrimExpr
    body: Stmt

    def __init__(self, var: Var, value: Scalar, body: Stmt, span: Any = None) -> None:
        super().__init__(_api.LetStmt(var, as_expr(value), body))


@register_object("tir.AttrStmt")
class AttrStmt(Stmt):
    """An attribute of a node within a statement."""

    node: Any
    attr_key: str
    value: PrimExpr
    body: Stmt

    def __init__(self, node: Any, attr_key: str, value: Scalar, body: Stmt, span: Any = None) -> None:
        super().__init__(_api.AttrStmt(node, attr_key, as_expr(value), body))


@register_object("tir.AssertStmt")
class AssertStmt(Stmt):
    """A check at run time, then a statement."""

    condition: PrimExpr
    message: Any
    body: Stmt

    def __init__(self, condition: Scalar, message: object, body: Stmt, span: Any = None) -> None:
        super().__init__(_api.AssertStmt(as_expr(condition), str(message), body))


@register_object("tir.Allocate")
class Allocate(Stmt):
    """Memory of a buffer within a statement."""

    buffer: Buffer
    body: Stmt

    def __init__(self, buffer: Buffer, body: Stmt, span: Any = None) -> None:
        super().__init__(_api.Allocate(buffer, body))


@register_object("tir.BufferStore")
class BufferStore(Stmt):
    """A store of an element."""

    buffer: Buffer
    value: PrimExpr
    indices: Array

    def __init__(self, buffer: Buffer, value: Scalar, indices: Scalar | Sequence[Scalar], span: Any = None) -> None:
        super().__init__(_api.BufferStore(buffer, cast_to(buffer.dtype, value), _exprs(indices)))


@register_object("tir.SeqStmt")
class SeqStmt(Stmt):
    """Statements in order."""

    seq: Array

    def __init__(self, seq: Iterable[Stmt], span: Any = None) -> None:
        super().__init__(_api.SeqStmt(list(seq)))

    def __getitem__(self, i: int) -> Stmt:
        return self.seq[i]

    def __len__(self) -> int:
        return len(self.seq)


@register_object("tir.Evaluate")
class Evaluate(Stmt):
    """An expression for its effect."""

    value: PrimExpr

    def __init__(self, value: Scalar, span: Any = None) -> None:
        super().__init__(_api.Evaluate(as_expr(value)))


def cast_to(dtype: DTypeLike, value: Any) -> PrimExpr:
    """A Python number in that dtype; expressions as they are."""
    return value if isinstance(value, PrimExpr) else _api._const(as_expr(value), str(dtype))


def stmt_seq(*args: Stmt | Sequence[Stmt]) -> SeqStmt:
    """Statements in order."""
    return SeqStmt([a for arg in args for a in (arg if isinstance(arg, (list, tuple)) else [arg])])


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements that run one after the other, as a list."""
    if stmt._type_key() != "tir.SeqStmt":
        return [stmt]
    return [inner for each in stmt.seq for inner in stmt_list(each)]
