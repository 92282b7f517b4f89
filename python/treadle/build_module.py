# SPDX-License-Identifier: Apache-2.0
"""From schedules to functions that run."""
from collections.abc import Mapping, Sequence
from typing import Any

from . import te, tir
from ._ffi import Api
from .error import Error
from .ir import IRModule
from .runtime import Module
from .target import Target
from .te.parameters import parameters
from .tir.intrin_lowering import lower_intrinsics

_api = Api("driver")
_te = Api("te")
_tir = Api("tir")


def functions(inputs: Any, args: Any = None, name: str = "main", binds: Any = None, target: Any = None) -> IRModule:
    """The module of functions that a schedule (with its parameters), a function or a module stands for; tensors without
    a schedule get one for the target."""
    if isinstance(inputs, (list, tuple)) and inputs and all(isinstance(part, IRModule) for part in inputs):
        inputs = _joined(inputs)
    if isinstance(inputs, (list, tuple, te.Tensor)):
        if args is not None or binds:
            raise ValueError("tensors without a schedule are given as one list of parameters; args and binds belong to a "
                             "schedule")
        inputs = te.auto_schedule(inputs, target, name)
    if isinstance(inputs, te.Schedule):
        if args is None:
            raise ValueError("lowering a schedule needs the list of tensors that are its parameters")
        inputs = _te.ScheduleApply(inputs, *parameters(args, binds), name)
    elif binds:
        raise ValueError("binds belong to the tensors of a schedule")
    if isinstance(inputs, tir.PrimFunc):
        inputs = IRModule({str(inputs.attrs["global_symbol"]) if "global_symbol" in inputs.attrs else name: inputs})
    if not isinstance(inputs, IRModule):
        raise TypeError(f"lower takes a schedule, a loop-level function or a module, not {type(inputs).__name__}")
    return inputs


def _joined(modules):
    """The functions of several modules in one; of two with one name Error."""
    functions = {}
    for module in modules:
        for var, function in module.functions.items():
            if var.name_hint in functions:
                raise Error(f"two of the modules have a function {var.name_hint}; lower() takes a name")
            functions[var.name_hint] = function
    return IRModule(functions)


def schedule_to_module(schedule: Any, args: Sequence[Any] | None = None, name: str = "main",
                       binds: Mapping[Any, Any] | None = None) -> IRModule:
    """The module of blocks that a schedule stands for, before any pass."""
    return functions(schedule, args, name, binds)


def lower(inputs: Any, args: Sequence[Any] | None = None, name: str = "main", binds: Mapping[Any, Any] | None = None,
          simple_mode: bool = False, target: Any = None) -> IRModule:
    """The module of loops that a schedule (with its parameters), a function or a module of blocks stands for; a list of
    tensors is scheduled for the target. `binds`: a dict from tensors to buffers (tir.decl_buffer) that they live in."""
    target = Target(target or Target.current() or "llvm")
    return _api.LowerModule(lower_intrinsics(functions(inputs, args, name, binds, target), target), str(target), simple_mode)


def build(inputs: Any, args: Sequence[Any] | None = None, target: Any = None, target_host: Any = None,
          runtime: Any = None, name: str | None = None, binds: Mapping[Any, Any] | None = None) -> Module:
    """Compiles a schedule, function or module; the result's functions can be called. A list of tensors, inputs and
    results, is scheduled for the target (te.auto_schedule). A dict from targets to modules gives a module for the first
    that imports the others. name: of the function that a schedule becomes ("main"; "default_function" in C, whose main
    is another)."""
    if isinstance(inputs, dict):
        modules = [build(module, target=key, target_host=target_host) for key, module in inputs.items()]
        if not modules:
            raise ValueError("build: the dict from targets to modules is empty")
        for other in modules[1:]:
            modules[0].import_module(other)
        return modules[0]
    target = Target(target or Target.current() or "llvm")
    if target_host is not None and target.host is None:
        target = Target(target, host=target_host)
    name = name or ("default_function" if str(target.kind) == "c" else "main")
    inputs = functions(inputs, args, name, binds, target)
    for var, function in inputs.functions.items():
        fault = _tir.FindFault(function) if function._type_key() == "tir.PrimFunc" else ""
        if fault:
            raise Error(f"function {var.name_hint} isn't well formed: {fault}; expected axes of the stage itself (those "
                        "that are reduced in `axis` of the reduction), sizes of parameters, and parameters")
    _api.CheckBound(inputs, str(target))
    return _api.BuildModule(lower(inputs, target=target), str(target))
