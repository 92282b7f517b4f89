# SPDX-License-Identifier: Apache-2.0
"""Statements of loop-level code."""
from .._ffi import Api, register_object
from ..ir import Node, PrimExpr
from .expr import as_expr

_api = Api("tir")


class Printed:
    """Nodes that the loop-level printer prints."""

    def __str__(self):
        return _api.AsText(self, False)

    __repr__ = __str__

    def astext(self, show_meta_data=True, annotate=None):
        """The text form."""
        return _api.AsText(self, True)


@register_object("tir.Stmt")
class Stmt(Printed, Node):
    """A statement."""


def _kind(name, doc, make=None):
    def init(self, *args, **kwargs):
        kwargs.pop("span", None)
        super(cls, self).__init__(make(*args, **kwargs))

    members = {"__doc__": doc}
    if make is not None:
        members["__init__"] = init
    cls = register_object(f"tir.{name}")(type(name, (Stmt,), members))
    return cls


def _exprs(values):
    values = values if isinstance(values, (list, tuple)) else [values]
    return [as_expr(v) for v in values]


class ForKind:
    """How the iterations of a loop run."""

    SERIAL, PARALLEL, VECTORIZED, UNROLLED, THREAD_BINDING = range(5)


def _make_block(iter_vars, reads, writes, name_hint, body, init=None, alloc_buffers=None, match_buffers=None,
                annotations=None):
    return _api.Block(list(iter_vars), reads, writes, name_hint, body, init, list(alloc_buffers or []),
                      list(match_buffers or []), dict(annotations or {}))


Block = _kind("Block", "A unit of computation that schedules move. Where reads and writes are None, the body tells.",
              _make_block)
BlockRealize = _kind("BlockRealize", "A block with what its axes are bound to.",
                     lambda iter_values, predicate, block: _api.BlockRealize(_exprs(iter_values), as_expr(predicate), block))


@register_object("tir.BufferRegion")
class BufferRegion(Node):
    """A part of a buffer: a range in each dimension."""

    def __init__(self, buffer, region):
        super().__init__(_api.BufferRegion(buffer, list(region)))


@register_object("tir.MatchBufferRegion")
class MatchBufferRegion(Node):
    """A buffer that shows a part of another."""

    def __init__(self, buffer, source):
        super().__init__(_api.MatchBufferRegion(buffer, source))
For = _kind("For", "A loop: For(var, min, extent, kind, body).",
            lambda loop_var, min_val, extent, kind, body: _api.For(loop_var, as_expr(min_val), as_expr(extent), kind, body))
While = _kind("While", "A loop while a condition holds.", lambda condition, body: _api.While(as_expr(condition), body))
IfThenElse = _kind("IfThenElse", "A conditional.",
                   lambda condition, then_case, else_case=None: _api.IfThenElse(as_expr(condition), then_case, else_case))
LetStmt = _kind("LetStmt", "A variable bound in a statement.",
                lambda var, value, body: _api.LetStmt(var, as_expr(value), body))
AttrStmt = _kind("AttrStmt", "An attribute of a node within a statement.",
                 lambda node, attr_key, value, body: _api.AttrStmt(node, attr_key, as_expr(value), body))
AssertStmt = _kind("AssertStmt", "A check at run time, then a statement.",
                   lambda condition, message, body: _api.AssertStmt(as_expr(condition), str(message), body))
Allocate = _kind("Allocate", "Memory of a buffer within a statement.", lambda buffer, body: _api.Allocate(buffer, body))
BufferStore = _kind("BufferStore", "A store of an element.",
                    lambda buffer, value, indices: _api.BufferStore(buffer, cast_to(buffer.dtype, value),
                                                                    _exprs(indices)))
SeqStmt = _kind("SeqStmt", "Statements in order.", lambda seq: _api.SeqStmt(list(seq)))
SeqStmt.__getitem__ = lambda self, i: self.seq[i]  # type: ignore[attr-defined]
SeqStmt.__len__ = lambda self: len(self.seq)  # type: ignore[attr-defined]
Evaluate = _kind("Evaluate", "An expression for its effect.", lambda value: _api.Evaluate(as_expr(value)))


def cast_to(dtype, value):
    """A Python number in that dtype; expressions as they are."""
    return value if isinstance(value, PrimExpr) else _api._const(as_expr(value), str(dtype))


def stmt_seq(*args):
    """Statements in order."""
    return SeqStmt([a for arg in args for a in (arg if isinstance(arg, (list, tuple)) else [arg])])


def stmt_list(stmt):
    """The statements that run one after the other, as a list."""
    if stmt._type_key() != "tir.SeqStmt":
        return [stmt]
    return [inner for each in stmt.seq for inner in stmt_list(each)]
