# SPDX-License-Identifier: Apache-2.0
"""Programs of lets and branches, written line by line."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..ir import Type
from .expr import If, Let, Var, as_expr, var


class _Scope:
    def __init__(self):
        self.bindings = []
        self.result = None


class ScopeBuilder:
    """Collects lets and branches; get() gives the expression that they form.

        sb = ScopeBuilder()
        with sb.if_scope(cond):
            one = sb.let("one", relay.const(1, "float32"))
            sb.ret(relay.add(one, x))
        with sb.else_scope():
            sb.ret(x)
        sb.get()
    """

    def __init__(self) -> None:
        self._scopes = [_Scope()]
        self._condition: tuple[int, Any, Any] | None = None

    def let(self, var_name: Any, value: Any) -> Any:
        """Binds a value; returns the variable. `var_name`: a name, a pair (name, type), or a variable."""
        if isinstance(var_name, (tuple, list)):
            name, kind = var_name
            bound = Var(name, kind) if isinstance(kind, Type) else var(name, kind)
        elif isinstance(var_name, str):
            bound = Var(var_name)
        else:
            bound = var_name
        self._scopes[-1].bindings.append((bound, as_expr(value)))
        return bound

    def ret(self, value: Any) -> None:
        """The value of the scope."""
        if self._scopes[-1].result is not None:
            raise RuntimeError("ret can only be called once in a scope")
        self._scopes[-1].result = as_expr(value)

    @contextmanager
    def if_scope(self, cond: Any) -> Iterator[None]:
        """The lines that follow are the branch for a true condition."""
        self._scopes.append(_Scope())
        yield
        branch = self._leave()
        if self._scopes[-1].result is not None:
            raise RuntimeError("a branch after ret")
        self._scopes[-1].result = None
        self._condition = (len(self._scopes), cond, branch)

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The lines that follow are the branch for a false condition; goes after an if_scope."""
        if self._condition is None or self._condition[0] != len(self._scopes):
            raise RuntimeError("else_scope must follow an if_scope")
        _, cond, branch = self._condition
        self._condition = None
        self._scopes.append(_Scope())
        yield
        otherwise = self._leave()
        self.ret(If(cond, branch, otherwise))

    def type_of(self, expr: Any) -> Any:
        """The type of a bound variable, or the type that was inferred."""
        annotation = expr.type_annotation if isinstance(expr, Var) else None
        return annotation if annotation is not None else expr.checked_type

    def get(self) -> Any:
        """The expression."""
        if len(self._scopes) != 1:
            raise RuntimeError("get must be called outside of all scopes")
        return self._body(self._scopes[0])

    def _leave(self):
        return self._body(self._scopes.pop())

    @staticmethod
    def _body(scope):
        if scope.result is None:
            raise RuntimeError("no value: every scope must call ret")
        body = scope.result
        for bound, value in reversed(scope.bindings):
            body = Let(bound, value, body)
        return body
