# SPDX-License-Identifier: Apache-2.0
"""Intrinsics of one's own, and how targets compute them."""
from .._ffi import Api

_api = Api("ir")
_rules: dict = {}  # (intrinsic, kind of target) -> (level, function)


def register_intrin_lowering(op_name, target, *, f=None, level=10):
    """What target `target` ("default": all) computes for calls of the intrinsic: `f(call)` gives the expression, or
    the call itself to leave it. Of several rules the one of highest level holds. Without `f`: a decorator."""

    def register(rule):
        _api.RegisterIntrinsic(op_name, True)
        known = _rules.get((op_name, target))
        if known is None or level >= known[0]:
            _rules[op_name, target] = (level, rule)
        return rule

    return register if f is None else register(f)


def intrin_rules(kind):
    """The rules that hold for a kind of target, by intrinsic."""
    return {name: rule for (name, own), (_, rule) in _rules.items()
            if own == kind or (own == "default" and (name, kind) not in _rules)}
