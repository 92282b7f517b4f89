# SPDX-License-Identifier: Apache-2.0
"""Conditions on symbolic sizes under which an implementation is meant."""
from __future__ import annotations

import threading
from collections.abc import Sequence

from ..ir import PrimExpr
from ..tir.expr import as_expr

_scopes = threading.local()


class SpecializedCondition:
    """Clauses that hold together. With `with`, what is added to a strategy inside is for when they hold."""

    def __init__(self, conditions: PrimExpr | Sequence[PrimExpr]) -> None:
        conditions = conditions if isinstance(conditions, (list, tuple)) else [conditions]
        self.clauses = [as_expr(condition) for condition in conditions]
        for clause in self.clauses:
            if not isinstance(clause, PrimExpr) or str(clause.dtype) != "bool":
                raise TypeError(f"SpecializedCondition takes conditions, not {clause!r}")

    def __enter__(self) -> SpecializedCondition:
        if not hasattr(_scopes, "stack"):
            _scopes.stack = []
        _scopes.stack.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _scopes.stack.pop()

    @staticmethod
    def current() -> SpecializedCondition | None:
        """The innermost one, or None."""
        stack = getattr(_scopes, "stack", None)
        return stack[-1] if stack else None

    def __str__(self):
        return " and ".join(map(str, self.clauses))
