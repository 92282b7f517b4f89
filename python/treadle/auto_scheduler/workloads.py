# SPDX-License-Identifier: Apache-2.0
"""Computations by name: functions of sizes, which a log tells apart by a key."""
import json
from collections.abc import Callable, Sequence
from typing import Any

from ..error import Error

WORKLOADS: dict = {}


def register_workload(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Decorator: a function of sizes that returns the list of its inputs and results."""

    def register(function, name=None):
        if not callable(function):
            raise Error(f"register_workload: expected a function of sizes, or its name, not {function!r}")
        name = name or function.__name__
        if name in WORKLOADS and not override:
            raise Error(f"workload {name!r} is registered already; override=True replaces it")
        WORKLOADS[name] = function
        return function

    if not isinstance(func_name, str):
        return register(func_name)
    return register(f, func_name) if f is not None else lambda function: register(function, func_name)


def make_workload_key(func: Any, args: Sequence[Any]) -> str:
    """Text that names a workload with its arguments."""
    name = func if isinstance(func, str) else getattr(func, "__name__", func)
    if name not in WORKLOADS:
        raise Error(f"there is no workload {name!r} (auto_scheduler.register_workload); there are: "
                    f"{', '.join(sorted(WORKLOADS)) or 'none'}")
    return json.dumps([name, *args])


def tensors_of_workload(workload_key: str) -> list[Any]:
    """The tensors of a workload, given its key."""
    name, *arguments = json.loads(workload_key)
    if name not in WORKLOADS:
        raise Error(f"there is no workload {name!r} (auto_scheduler.register_workload)")
    return list(WORKLOADS[name](*arguments))


workload_key_to_tensors = tensors_of_workload
