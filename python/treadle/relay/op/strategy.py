# SPDX-License-Identifier: Apache-2.0
"""Several implementations of one operator: a strategy gives, for a call and a target, pairs of a compute and a schedule
with levels, of which the highest is taken. Treadle's own compute of an operator, with the schedules of its targets, is one
of them, of level 10; of equal levels those of a strategy come first."""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..._ffi import get_global_func, register_func
from ...arith import Analyzer
from ...ir import Op
from ...ir.op import AttributeKeeper, attribute_keepers
from ...target import Target
from ...te.specialized_condition import SpecializedCondition

_chosen = threading.local()
_strategies: dict = {}  # operator -> (level, function, schedules by level)


class OpImplementation:
    """A compute (attrs, inputs, out_type) -> tensors, a schedule (attrs, outs, target) -> te.Schedule or None for
    Treadle's own, a name and a level."""

    def __init__(self, compute: Callable[..., Any], schedule: Callable[..., Any], name: str = "default",
                 plevel: int = 10) -> None:
        self._compute, self._schedule, self.name, self.plevel = compute, schedule, name, int(plevel)

    def compute(self, attrs: Any, inputs: Any, out_type: Any) -> list[Any]:
        """The results as tensor expressions, a list."""
        result = self._compute(attrs, list(inputs), out_type)
        return list(result) if isinstance(result, (list, tuple)) or type(result).__name__ == "Array" else [result]

    def schedule(self, attrs: Any, outs: Any, target: Any) -> Any:
        with Target(target):
            return self._schedule(attrs, list(outs), Target(target))

    has_schedule = property(lambda self: self._schedule is not None)


class OpSpecialization:
    """Implementations for when a condition holds (None: always)."""

    def __init__(self, condition: SpecializedCondition | None = None) -> None:
        self.condition = condition
        self.implementations: list[OpImplementation] = []

    def add_implementation(self, compute: Callable[..., Any], schedule: Callable[..., Any], name: str = "default",
                           plevel: int = 10) -> None:
        self.implementations.append(OpImplementation(compute, schedule, name, plevel))


class OpStrategy:
    """All implementations for a call."""

    def __init__(self) -> None:
        self.specializations: list[OpSpecialization] = []

    def add_implementation(self, compute: Callable[..., Any], schedule: Callable[..., Any], name: str = "default",
                           plevel: int = 10) -> None:
        """Adds one; inside `with te.SpecializedCondition(..)`, for when that holds."""
        condition = SpecializedCondition.current()
        for known in self.specializations:
            if known.condition is condition:
                return known.add_implementation(compute, schedule, name, plevel)
        self.specializations.append(OpSpecialization(condition))
        return self.specializations[-1].add_implementation(compute, schedule, name, plevel)


def wrap_compute(compute: Callable[..., Any], need_out_dtype: bool = False) -> Callable[..., Any]:
    """A compute of the tensors alone (topi.add) as one of (attrs, inputs, out_type)."""

    def wrapped(_attrs, inputs, out_type):
        return [compute(*inputs, out_type.dtype)] if need_out_dtype else [compute(*inputs)]

    return wrapped


def wrap_topi_schedule(schedule: Callable[..., Any]) -> Callable[..., Any]:
    """A schedule of the outputs alone as one of (attrs, outs, target)."""
    return lambda _attrs, outs, _target: schedule(outs)


def naive_schedule(_attrs: Any, outs: Any, _target: Any) -> Any:
    """The default loops."""
    from ... import te

    return te.create_schedule([out.op for out in outs])


def _why_not(condition):
    """Why an implementation for a condition can't be used, or "": it must hold for all sizes that there are."""
    if condition is None or all(Analyzer().can_prove(clause) for clause in condition.clauses):
        return ""
    return f"it is for {condition}, which isn't known to hold"


def _rows(op_name, attrs, inputs, out_type, target):
    """What C++ chooses from: (name, level, why not, compute); the compute remembers which one was taken."""
    target = Target(target) if target is not None else Target("llvm")
    with target:
        strategy = _strategies[op_name][1](attrs, list(inputs), out_type, target)
    if not isinstance(strategy, OpStrategy):
        raise TypeError(f"the strategy of {op_name} returned {strategy!r}; expected an OpStrategy")
    rows = []
    for specialization in strategy.specializations:
        why_not = _why_not(specialization.condition)
        for implementation in specialization.implementations:
            rows.append([implementation.name, implementation.plevel, why_not, _recording(op_name, implementation)])
    return rows


def _recording(op_name, implementation):
    def compute(attrs, inputs, out_type):
        outs = implementation.compute(attrs, inputs, out_type)
        if implementation.has_schedule:
            if not hasattr(_chosen, "found"):
                _chosen.found = []
            _chosen.found.append((Op.get(op_name).get_attr("TOpPattern") or 0, implementation, attrs, outs))
        return outs

    return compute


def _schedule_chosen(outputs, args, name, target):
    """The kernel by the schedule of its anchor: of the operator of the highest pattern that brings one."""
    found, _chosen.found = getattr(_chosen, "found", []), []
    inside = {id_of(op) for op in _operations(outputs)}
    found = [entry for entry in found if all(id_of(out.op) in inside for out in entry[3])]
    if not found:
        return None
    from ...build_module import lower

    _, implementation, attrs, _ = max(found, key=lambda entry: entry[0])
    schedule = implementation.schedule(attrs, list(outputs), target)
    return lower(schedule, list(args), name=name, target=target)


def id_of(operation: Any) -> int:
    """The same number for the same operation."""
    return hash(operation)


def _operations(outputs):
    seen, stack = set(), [out.op for out in outputs]
    while stack:
        op = stack.pop()
        if id_of(op) in seen:
            continue
        seen.add(id_of(op))
        yield op
        stack += [tensor.op for tensor in getattr(op, "input_tensors", [])]


def register_strategy(op_name: str, fstrategy: Callable[..., Any] | None = None, level: int = 10) -> Any:
    """Registers fstrategy(attrs, inputs, out_type, target) -> OpStrategy for an operator; without it a decorator. One of
    a higher level stays."""

    def register(function):
        known = _strategies.get(op_name)
        if known is None or known[0] <= level:
            _strategies[op_name] = (level, function)
            get_global_func("relay.backend.SetStrategy")(
                op_name, lambda attrs, inputs, out_type, target: _rows(op_name, attrs, inputs, out_type, target))
            register_func("relay.backend.schedule_implementation", _schedule_chosen, override=True)
        return function

    return register if fstrategy is None else register(fstrategy)


def remove_strategy(op_name: str) -> None:
    """Takes an operator's strategy away."""
    if _strategies.pop(op_name, None) is not None:
        get_global_func("relay.backend.SetStrategy")(op_name, None)


def _strategy_of(op_name):
    known = _strategies.get(op_name)
    return None if known is None else known[1]


attribute_keepers["FTVMStrategy"] = AttributeKeeper(
    _strategy_of, lambda op_name, value, level: register_strategy(op_name, value, level), remove_strategy)

_computes: dict = {}
_schedules: dict = {}


def _from_parts(op_name, level):
    """A strategy of what register_compute and register_schedule were given."""

    def strategy(_attrs, _inputs, _out_type, _target):
        made = OpStrategy()
        own = _schedules.get(op_name)
        made.add_implementation(_computes[op_name], own, name=f"{op_name}.registered")
        return made

    register_strategy(op_name, strategy, level)


def register_compute(op_name: str, compute: Callable[..., Any] | None = None, level: int = 10) -> Any:
    """Registers the compute (attrs, inputs, out_type) -> tensors of an operator; without it a decorator. It is scheduled
    by Treadle, or by what register_schedule gives."""

    def register(function):
        _computes[op_name] = function
        _from_parts(op_name, level)
        return function

    return register if compute is None else register(compute)


def register_schedule(op_name: str, schedule: Callable[..., Any] | None = None, level: int = 10) -> Any:
    """Registers the schedule (attrs, outs, target) -> te.Schedule of an operator; without it a decorator. For operators
    without a compute of their own, or with a registered one."""

    def register(function):
        _schedules[op_name] = function
        if op_name in _computes:
            _from_parts(op_name, level)
        return function

    return register if schedule is None else register(schedule)


def register_injective_schedule(op_name: str, level: int = 10) -> Any:
    """Schedules as any other injective operator: what Treadle does by itself."""
    Op.get(op_name)
    del level


register_broadcast_schedule = register_injective_schedule
register_reduce_schedule = register_injective_schedule
