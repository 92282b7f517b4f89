# SPDX-License-Identifier: Apache-2.0
"""Compiling modules for the virtual machine."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._ffi import Api
from .._vm import Executable, VirtualMachine
from ..target import Target
from .build_module import _flags, _module_of, _tensors, optimize

_api = Api("relay.vm")

__all__ = ["Executable", "VMCompiler", "VirtualMachine", "compile"]


def compile(mod: Any, target: Any = None, target_host: Any = None,
            params: Mapping[str, Any] | None = None) -> Executable:  # noqa: A001 - TVM's name
    """An Executable of all functions of the module. target: a target, or a dict from devices to targets; values are
    then where annotations (relay.annotation.on_device) say, and copied where they move."""
    flags = _flags(target or Target.current() or "llvm", target_host, "default")
    return _api.Compile(_module_of(mod, params), _tensors(params), flags)


class VMCompiler:
    """The same in steps: set_params, lower, codegen, get_exec."""

    def __init__(self) -> None:
        self._params: dict[str, Any] = {}
        self._exec: Executable | None = None

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Values of parameters of main."""
        self._params = dict(params)

    def get_params(self) -> dict[str, Any]:
        return _tensors(self._params)

    def lower(self, mod: Any, target: Any = None, target_host: Any = None) -> None:
        """Compiles the module."""
        self._exec = compile(mod, target, target_host, self._params)

    def codegen(self) -> None:
        """Nothing is left to do: kernels are compiled by `lower`."""
        self.get_exec()

    def optimize(self, mod: Any, target: Any = None, target_host: Any = None,
                 params: Mapping[str, Any] | None = None) -> Any:
        """(module, params) after the passes that run before code is generated."""
        if params:
            self.set_params(params)
        target = target or Target.current() or "llvm"
        return optimize(mod, Target(target, host=target_host) if target_host else target, self._params)

    def get_exec(self) -> Executable:
        """The Executable."""
        if self._exec is None:
            raise RuntimeError("VMCompiler: there is no program yet; call lower(module, target) first")
        return self._exec
