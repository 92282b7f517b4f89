# SPDX-License-Identifier: Apache-2.0
"""What runs a compiled module, and with which options."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

class Executor:
    """"graph", with options: "link-params": the library of kernels carries the parameters."""

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        options = dict(options or {})
        unknown = set(options) - {"link-params"} if name == "graph" else set(options)
        if name != "graph" or unknown:
            what = f"option '{unknown.pop()}' of executor '{name}'" if name == "graph" else f"executor '{name}'"
            raise ValueError(f"unknown {what}; there is the executor 'graph' with the option 'link-params'")
        self.name, self.options = name, options

    def __getitem__(self, key: str) -> Any:
        return self.options.get(key)

    def __str__(self):
        return self.name

    @staticmethod
    def list_executors() -> list[str]:
        """Names of all executors."""
        return ["graph"]

    @staticmethod
    def list_executor_options(executor: str) -> dict[str, str]:
        """The options of an executor, each with the type of its value."""
        Executor(executor)
        return {"link-params": "bool"}


class Runtime:
    """The run-time library: "cpp", with options: "system-lib": compiled code calls the run time's functions by name."""

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        options = dict(options or {})
        if name != "cpp":
            raise ValueError(f"unknown run time '{name}'; there is 'cpp'")
        unknown = set(options) - {"system-lib"}
        if unknown:
            raise ValueError(f"unknown option '{unknown.pop()}' of run time 'cpp'; there is 'system-lib'")
        self.name, self.options = name, options

    def __getitem__(self, key: str) -> Any:
        return self.options.get(key)

    def __str__(self):
        return self.name

    @staticmethod
    def list_runtimes() -> list[str]:
        """Names of all run-time libraries."""
        return ["cpp"]

    @staticmethod
    def list_runtime_options(runtime: str) -> dict[str, str]:
        """The options of a run-time library, each with the type of its value."""
        Runtime(runtime)
        return {"system-lib": "bool"}


__all__ = ["Executor", "Runtime"]
