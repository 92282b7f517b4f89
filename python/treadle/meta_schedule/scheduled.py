# SPDX-License-Identifier: Apache-2.0
"""Schedules that measurements name."""
from typing import Any

from ..error import Error
from ..ir import IRModule
from ..target import Target
from ..te.auto_schedule import _api as _te
from ..tir import Schedule
from ..tir.function import PrimFunc
from . import space_generator
from .sketch import Sketch


def function_of(mod: Any) -> Any:
    """The one function of a module, or the function itself."""
    if isinstance(mod, PrimFunc):
        return mod
    functions = [f for f in mod.functions.values() if isinstance(f, PrimFunc)] if isinstance(mod, IRModule) else []
    if len(functions) != 1:
        raise Error(f"meta_schedule: expected a function or a module with one, not {len(functions) or type(mod).__name__}")
    return functions[0]


def usual(function: Any, target: Any) -> Any:
    """The schedule that functions without one get."""
    return _te.AutoSchedule(function, Target(target))


def scheduled(function: Any, decision: Any) -> Any:
    """The schedule of a decision, of whichever space."""
    if space_generator.is_replayed(decision):
        return space_generator.replayed(function, decision)
    return Sketch(function).apply(decision)


def compile_tir(database: Any, mod: Any, target: Any) -> Any:
    """The schedule of the fastest measurement; None where there is none of this function and target."""
    function, target = function_of(mod), Target(target)
    best = database.best(function, target)
    if best is None:
        return None
    return Schedule(usual(function, target)) if best["decision"] is None else scheduled(function, best["decision"])
