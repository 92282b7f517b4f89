# SPDX-License-Identifier: Apache-2.0
"""Intrinsics of one's own, and how targets compute them."""
from .._ffi import Api

_api = Api("ir")
_rules = {}  # (intrinsic, kind of target) -> (level, function)


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


def lower_intrinsics(module, target):
    """The module with the calls replaced for which there are rules."""
    from .. import tir

    rules = {}
    for (name, kind), (_, rule) in _rules.items():
        if kind == str(target.kind) or (kind == "default" and (name, str(target.kind)) not in _rules):
            rules[name] = rule
    if not rules:
        return module

    def replace(call):
        rule = rules.get(getattr(call.op, "name", None))
        result = None if rule is None else rule(call)
        return None if result is None or call.same_as(result) else result

    functions = {}
    for var, function in module.functions.items():
        if isinstance(function, tir.PrimFunc):
            body = tir.stmt_functor.ir_transform(function.body, None, replace, ["tir.Call"])
            function = function.with_body(body)
        functions[var] = function
    return type(module)(functions, dict(module.type_definitions.items()))
