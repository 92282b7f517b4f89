# SPDX-License-Identifier: Apache-2.0
"""Loops and stores written down in Python, one statement after another."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .._ffi import Api
from .expr import IterVar, Var, as_expr
from .function import Buffer, decl_buffer
from .stmt import (Allocate, AssertStmt, AttrStmt, BufferStore, Evaluate, For, ForKind, IfThenElse, LetStmt, SeqStmt, Stmt, While)

if TYPE_CHECKING:
    from ..ir import Node, PrimExpr
    from .._typing import DTypeLike, Scalar, Shape

_api = Api("tir")
_KINDS = {"serial": ForKind.SERIAL, "parallel": ForKind.PARALLEL, "vectorize": ForKind.VECTORIZED,
          "unroll": ForKind.UNROLLED}


class BufferVar:
    """A buffer whose elements are read and assigned: out[i] = a[i] + 1. One index of a buffer with several
    dimensions numbers its elements in row-major order."""

    def __init__(self, builder: IRBuilder, buffer: Buffer) -> None:
        self._builder, self.buffer = builder, buffer

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    def asobject(self) -> Var:
        return self.buffer.data

    def __eq__(self, other):
        return isinstance(other, BufferVar) and self.buffer.same_as(other.buffer)

    __hash__ = None  # type: ignore[assignment]

    def _indices(self, index):
        index = list(index) if isinstance(index, (tuple, list)) else [index]
        shape = list(self.buffer.shape)
        if len(index) == 1 and len(shape) > 1:
            rest, split = as_expr(index[0]), []
            for extent in reversed(shape[1:]):
                split.append(_api._OpFloorMod(rest, extent))
                rest = _api._OpFloorDiv(rest, extent)
            index = [rest] + split[::-1]
        return [as_expr(i) for i in index]

    def __getitem__(self, index: Scalar | tuple[Scalar, ...]) -> PrimExpr:
        return _api.BufferLoad(self.buffer, self._indices(index))

    def __setitem__(self, index: Scalar | tuple[Scalar, ...], value: Scalar) -> None:
        if isinstance(value, (str, bytes)) or value is None:
            raise TypeError(f"an element of buffer {self.buffer.name} must be a number, not {value!r}")
        if not hasattr(value, "astype"):
            value = _api._const(as_expr(value), str(self.buffer.dtype))
        self._builder.emit(BufferStore(self.buffer, value, self._indices(index)))


class IRBuilder:
    """Collects statements; `get` gives them as one."""

    def __init__(self) -> None:
        self._scopes = [[]]

    def emit(self, stmt: Stmt | PrimExpr | Callable[[Stmt], Stmt]) -> None:
        """Appends a statement, a call, or a function from what follows to a statement that holds it."""
        if not isinstance(stmt, Stmt) and not callable(stmt):
            stmt = Evaluate(stmt)
        self._scopes[-1].append(stmt)

    def _pop(self):
        result = None
        for item in reversed(self._scopes.pop()):
            if not isinstance(item, Stmt):
                result = item(result if result is not None else Evaluate(0))
            else:
                result = item if result is None else SeqStmt([item, result])
        return result if result is not None else Evaluate(0)

    def get(self) -> Stmt:
        """All that was emitted."""
        return self._pop()

    @contextmanager
    def for_range(self, begin: Scalar, end: Scalar, name: str = "i", dtype: DTypeLike | None = None,
                  kind: str = "serial", for_type: str | None = None) -> Iterator[Var]:
        """A loop over [begin, end)."""
        begin, end = as_expr(begin), as_expr(end)
        kind = for_type or kind
        if kind not in _KINDS:
            raise ValueError(f"for_range: loop {name}: there is no kind '{kind}'; expected one of {', '.join(_KINDS)}")
        var = Var(name, dtype or str(end.dtype))
        self._scopes.append([])
        yield var
        body = self._pop()
        begin = _api._const(begin, str(var.dtype))
        self.emit(For(var, begin, _api._OpSub(_api._const(end, str(var.dtype)), begin), _KINDS[kind], body))

    @contextmanager
    def while_loop(self, condition: Scalar) -> Iterator[None]:
        """A loop while the condition holds."""
        self._scopes.append([])
        yield
        self.emit(While(condition, self._pop()))

    @contextmanager
    def if_scope(self, condition: Scalar) -> Iterator[None]:
        """Statements done where the condition holds."""
        self._scopes.append([])
        yield
        self.emit(IfThenElse(condition, self._pop()))

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """Statements done where the condition of the if_scope just before doesn't hold."""
        before = self._scopes[-1].pop() if self._scopes[-1] else None
        if not isinstance(before, IfThenElse) or before.else_case is not None:
            raise ValueError("else_scope must follow an if_scope")
        self._scopes.append([])
        yield
        self.emit(IfThenElse(before.condition, before.then_case, self._pop()))

    def allocate(self, dtype: DTypeLike, shape: Shape, name: str = "buf", scope: str = "global") -> BufferVar:
        """A new buffer."""
        buffer = decl_buffer(shape, dtype, name, scope=scope)
        self.emit(lambda body: Allocate(buffer, body))
        return BufferVar(self, buffer)

    def buffer_ptr(self, buffer: Buffer, shape: Shape | None = None) -> BufferVar:
        """A buffer for reading and assigning."""
        if not isinstance(buffer, Buffer):
            raise TypeError("buffer_ptr takes a buffer")
        return BufferVar(self, buffer)

    def pointer(self, content_type: DTypeLike, name: str = "ptr", scope: str = "global") -> BufferVar:
        """Elements behind a pointer of one's own, of which there may be any number: `asobject()` is the pointer."""
        return BufferVar(self, decl_buffer((Var(f"{name}_size", "int32"),), content_type, name, scope=scope))

    def let(self, var_name: str, value: Scalar) -> Var:
        """A variable with that value in what follows."""
        value = as_expr(value)
        var = Var(var_name, str(value.dtype))
        self.emit(lambda body: LetStmt(var, value, body))
        return var

    def scope_attr(self, node: Node | str, key: str, value: Scalar) -> None:
        """An attribute of what follows. "thread_extent" or "virtual_thread" of a thread axis: that many threads run it."""
        if key in ("thread_extent", "virtual_thread") and isinstance(node, IterVar):
            thread_binding = 4
            self.emit(lambda body: _api.AnnotatedFor(node.var, as_expr(0), as_expr(value), thread_binding, body, node, {}))
            return
        self.emit(lambda body: AttrStmt(node, key, value, body))

    def assert_stmt(self, condition: Scalar, message: str) -> None:
        """A check before what follows."""
        self.emit(lambda body: AssertStmt(condition, message, body))

    def likely(self, condition: Scalar) -> PrimExpr:
        """The condition, said to hold mostly."""
        return _api.likely(as_expr(condition))


def create() -> IRBuilder:
    """An empty builder."""
    return IRBuilder()
