# SPDX-License-Identifier: Apache-2.0
"""The virtual machine with times of its kernels."""
import sys
from typing import Any

from . import runtime
from ._ffi import Api
from ._vm import VirtualMachine
from .contrib.debugger.debug_executor import Report

_api = Api("relay.vm")


class VirtualMachineProfiler(VirtualMachine):
    """A virtual machine whose `profile` tells how long each kernel took."""

    def profile(self, *args: Any, func_name: str = "main", **kwargs: Any) -> Any:
        """A report on one call of a function (rows: Name, Duration (us), Percent, Count, Argument Shapes), after one
        that isn't measured."""
        values = self._arguments(func_name, args, kwargs) or self._inputs.get(func_name, [])
        _api.Invoke(self._machine, func_name, values)
        total = 0.0
        rows: dict[Any, Any] = {}
        for name, seconds, shapes in _api.Profile(self._machine, func_name, values):
            row = rows.setdefault(str(name), [0.0, 0, str(shapes)])
            row[0] += float(seconds.value)
            row[1] += 1
            total += float(seconds.value)
        lines = ["Name\tDuration (us)\tPercent\tCount\tArgument Shapes"]
        for name, (seconds, count, shapes) in sorted(rows.items(), key=lambda item: -item[1][0]):
            lines.append(f"{name}\t{seconds * 1e6:g}\t{100 * seconds / total if total else 0:.4g}\t{count}\t{shapes}")
        lines.append(f"Total\t{total * 1e6:g}\t100\t{sum(row[1] for row in rows.values())}\t")
        return Report("\n".join(lines))


def enabled() -> bool:
    """Whether there is a profiler: always."""
    return True


# The original's place: tvm.runtime.profiler_vm.
runtime.profiler_vm = sys.modules[runtime.__name__ + ".profiler_vm"] = sys.modules[__name__]  # type: ignore[attr-defined]
