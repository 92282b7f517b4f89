# SPDX-License-Identifier: Apache-2.0
"""Compiling modules for the virtual machine."""
from .._ffi import Api
from .._vm import Executable, VirtualMachine
from ..target import Target
from .build_module import _flags, _module_of, _tensors, optimize

_api = Api("relay.vm")

__all__ = ["Executable", "VMCompiler", "VirtualMachine", "compile"]


def compile(mod, target=None, target_host=None, params=None):  # noqa: A001 - TVM's name
    """An Executable of all functions of the module. target: a target, or a dict from devices to targets; values are
    then where annotations (relay.annotation.on_device) say, and copied where they move."""
    flags = _flags(target or Target.current() or "llvm", target_host, "default")
    return _api.Compile(_module_of(mod, params), _tensors(params), flags)


class VMCompiler:
    """The same in steps: set_params, lower, codegen, get_exec."""

    def __init__(self):
        self._params, self._exec = {}, None

    def set_params(self, params):
        """Values of parameters of main."""
        self._params = dict(params)

    def get_params(self):
        return _tensors(self._params)

    def lower(self, mod, target=None, target_host=None):
        """Compiles the module."""
        self._exec = compile(mod, target, target_host, self._params)

    def codegen(self):
        """Nothing is left to do: kernels are compiled by `lower`."""
        self.get_exec()

    def optimize(self, mod, target=None, target_host=None, params=None):
        """(module, params) after the passes that run before code is generated."""
        if params:
            self.set_params(params)
        target = target or Target.current() or "llvm"
        return optimize(mod, Target(target, host=target_host) if target_host else target, self._params)

    def get_exec(self):
        """The Executable."""
        if self._exec is None:
            raise RuntimeError("VMCompiler: there is no program yet; call lower(module, target) first")
        return self._exec
