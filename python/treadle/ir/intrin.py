# SPDX-License-Identifier: Apache-2.0
"""Intrinsics of one's own, and how targets compute them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._ffi import Api

_api = Api("ir")
_rules: dict = {}  # (intrinsic, kind of target) -> (level, function)


def register_intrin_lowering(op_name: str, target: str, *, f: Callable[..., Any] | None = None, level: int = 10) -> Any:
    """What target `target` ("default": all) computes for calls of the intrinsic: `f(call)` gives the expression, or
    the call itself to leave it. Of several rules the one of highest level holds. Without `f`: a decorator."""

    def register(rule):
        _api.RegisterIntrinsic(op_name, True)
        known = _rules.get((op_name, target))
        if known is None or level >= known[0]:
            _rules[op_name, target] = (level, rule)
        return rule

    return register if f is None else register(f)


def intrin_rules(kind: str) -> dict[str, Callable[..., Any]]:
    """The rules that hold for a kind of target, by intrinsic."""
    return {name: rule for (name, own), (_, rule) in _rules.items()
            if own == kind or (own == "default" and (name, kind) not in _rules)}
