# SPDX-License-Identifier: Apache-2.0
"""Compiling modules for the virtual machine."""
from .. import nd
from .._ffi import Api
from .._vm import Executable, VirtualMachine
from ..ir import IRModule
from ..target import Target

_api = Api("relay.vm")

__all__ = ["Executable", "VirtualMachine", "compile"]


def compile(mod, target=None, target_host=None, params=None):  # noqa: A001 - TVM's name
    """An Executable of all functions of the module."""
    module = mod if isinstance(mod, IRModule) else IRModule.from_expr(mod)
    tensors = {name: value if isinstance(value, nd.NDArray) else nd.array(value)
               for name, value in (params or {}).items()}
    return _api.Compile(module, tensors, str(Target(target or "llvm", host=target_host)))
