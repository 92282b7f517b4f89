# SPDX-License-Identifier: Apache-2.0
"""Templates and their tasks."""
from __future__ import annotations

import functools
import inspect
import math
import threading
from collections.abc import Callable
from typing import Any

from .. import te, tir
from .._arguments import listed
from ..error import Error
from ..ir import IntImm
from ..target import Target
from . import env
from .env import ApplyConfig, ApplyHistoryBest, DispatchContext, FallbackContext  # noqa: F401
from .network import extract_from_multiple_program, extract_from_program  # noqa: F401
from .refused import register_topi_compute, register_topi_schedule  # noqa: F401
from .space import ConfigEntity, ConfigSpace  # noqa: F401

TEMPLATES: dict = {}
_local = threading.local()


def get_config() -> Any:
    """The configuration that the template is run with: to define knobs on, and to read them from."""
    config = getattr(_local, "config", None)
    if config is None:
        raise Error("get_config belongs into a template (autotvm.template) that is run by a task or by a call")
    return config


def _run(name, function, args, kwargs, config):
    before, _local.config = getattr(_local, "config", None), config
    try:
        return function(*args, **kwargs)
    finally:
        _local.config = before


def template(task_name: str, func: Callable[..., Any] | None = None) -> Any:
    """Decorator: the function of sizes returns a schedule and the list of its parameters. Called within
    ApplyHistoryBest, it uses what is recorded for its arguments; else the first value of each knob."""

    def decorate(function):
        if not callable(function):
            raise Error(f"template {task_name!r}: expected a function of sizes, not {function!r}")
        TEMPLATES[task_name] = function

        @functools.wraps(function)
        def call(*args, **kwargs):
            if getattr(_local, "config", None) is not None:
                return function(*args, **kwargs)
            workload = (task_name, *args)
            return _run(task_name, function, args, kwargs, env.query(Target.current(), workload))

        return call

    return decorate if func is None else decorate(func)


_ARITHMETIC = (tir.Add, tir.Sub, tir.Mul, tir.Div, tir.Max, tir.Min, tir.FloorDiv, tir.FloorMod)


def compute_flop(schedule: Any) -> int:
    """Arithmetic operations on floats of what a schedule computes; 0 where sizes are symbolic."""
    total = 0
    for stage in schedule.stages:
        if not isinstance(stage.op, te.ComputeOp):
            continue
        axes = [*stage.op.axis, *stage.op.reduce_axis]
        if not all(isinstance(axis.dom.extent, (int, IntImm)) for axis in axes):
            return 0
        elements = math.prod(int(axis.dom.extent) for axis in axes)
        total += elements * sum(_operations(body) for body in stage.op.body)
    return total


def _operations(body):
    """Of one element."""
    if isinstance(body, tir.Reduce):
        return sum(map(_operations, [*body.source, *body.combiner.result]))
    count = 0

    def visit(node):
        nonlocal count
        count += isinstance(node, _ARITHMETIC) and str(node.dtype).startswith(("float", "bfloat"))
    tir.stmt_functor.post_order_visit(body, visit)
    return count


class Task:
    """A template with its arguments, for a target."""

    def __init__(self, name: str, args: Any, target: Any) -> None:
        if name not in TEMPLATES:
            raise Error(f"there is no template {name!r}; there are: {', '.join(sorted(TEMPLATES)) or 'none'}")
        self.name, self.args = name, tuple(listed("task.create: args", args, "a tuple of the template's arguments"))
        self.kwargs: dict[str, Any] = {}
        self.target = Target(target or Target.current() or "llvm")
        self.workload = (name, *self.args)
        self.config_space = ConfigSpace()
        schedule, _ = self.instantiate(self.config_space)
        self.flop = self.config_space.flop or compute_flop(schedule)

    def instantiate(self, config: Any) -> Any:
        """The schedule and parameters of a configuration."""
        if not isinstance(config, ConfigSpace):
            raise Error(f"Task.instantiate: expected a configuration (config_space.get), not {config!r}")
        try:
            inspect.signature(TEMPLATES[self.name]).bind(*self.args, **self.kwargs)
        except TypeError as error:
            raise Error(f"template {self.name!r} doesn't take the arguments {self.args}: {error}") from None
        with self.target:
            result = _run(self.name, TEMPLATES[self.name], self.args, self.kwargs, config)
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], te.Schedule)):
            raise TypeError(f"template {self.name} must return a schedule and the list of its parameters")
        return result

    def __repr__(self):
        return f"Task(func_name={self.name}, args={self.args}, kwargs={self.kwargs}, workload={self.workload})"


def create(task_name: Any, args: Any, target: Any = None, target_host: Any = None) -> Task:
    """The task of a template with these arguments."""
    if not isinstance(task_name, str) and not hasattr(task_name, "__name__"):
        raise Error(f"task.create: expected the name of a template, or its function, not {task_name!r}")
    return Task(task_name if isinstance(task_name, str) else task_name.__name__, args, target)
