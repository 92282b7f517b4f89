# SPDX-License-Identifier: Apache-2.0
"""Applies the rules of ir.register_intrin_lowering."""
from typing import Any

from ..ir.intrin import intrin_rules
from .function import PrimFunc
from .stmt_functor import ir_transform


def lower_intrinsics(module: Any, target: Any) -> Any:
    """The module with the calls replaced for which there are rules."""
    rules = intrin_rules(str(target.kind))
    if not rules:
        return module

    def replace(call):
        rule = rules.get(getattr(call.op, "name", None))
        result = None if rule is None else rule(call)
        return None if result is None or call.same_as(result) else result

    functions = {}
    for var, function in module.functions.items():
        if isinstance(function, PrimFunc):
            body = ir_transform(function.body, None, replace, ["tir.Call"])
            function = function.with_body(body)
        functions[var] = function
    return type(module)(functions, dict(module.type_definitions.items()))
