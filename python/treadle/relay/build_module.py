# SPDX-License-Identifier: Apache-2.0
"""Compiling a module of the graph IR."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .. import _arguments, nd
from .._arguments import mapping
from .._ffi import Api, get_global_func
from .._nd import Device
from ..ir import IRModule
from ..runtime import link_library
from ..target import Target
from ..transform import PassContext

_api = Api("driver")

create_executor: Any  # of relay.interpreter; relay/__init__.py sets it


class GraphExecutorFactoryModule:
    """A compiled graph: lib["default"](device) gives what runs it; also (graph, lib, params) when unpacked."""

    def __init__(self, model: Any, libmod_name: str = "default") -> None:
        self._model = model
        self.libmod_name = libmod_name
        self._module = None

    def __getitem__(self, name: str) -> Any:
        return self.module[name]

    def get_graph_json(self) -> str:
        """The graph that the executor runs."""
        return _api.CompiledModel_GraphJson(self._model)

    get_executor_config = get_graph_json
    graph_json = property(get_graph_json)

    def get_params(self) -> dict[str, Any]:
        """The parameters by the graph's names for them."""
        return dict(_api.CompiledModel_Params(self._model).items())

    params = property(get_params)

    @property
    def param_names(self) -> list[str]:
        """The model's own names of parameters, by the graph's: {"p0": "layer1.conv.weight"}."""
        import json

        return json.loads(self.get_graph_json()).get("metadata", {}).get("param_names", {})

    def get_lib(self) -> Any:
        """The kernels alone."""
        return _api.CompiledModel_Lib(self._model)

    lib = property(get_lib)

    @property
    def module(self) -> Any:
        """The loaded model: kernels, graph and parameters."""
        if self._module is None:
            self._module = _api.CompiledModel_Module(self._model)
        return self._module

    def export_library(self, file_name: Any, fcompile: Any = None, addons: Any = None, workspace_dir: Any = None,
                       **options: Any) -> Any:
        """Writes one shared library that holds kernels, graph and parameters; a ".tar" gets the objects. See
        `runtime.link_library` for the other arguments."""
        link_library(lambda path: _api.CompiledModel_Export(self._model, path), file_name, fcompile, addons,
                     workspace_dir, **options)

    def get_source(self, fmt: str = "") -> str:
        return _api.CompiledModel_Source(self._model, fmt)

    def get_memory_report(self) -> Any:
        """What is stored where, as text."""
        return _api.CompiledModel_MemoryReport(self._model)

    def get_external_modules(self) -> Any:
        """What external code generators made."""
        return list(_api.CompiledModel_ExternalModules(self._model))

    @property
    def lowered_ir_mods(self) -> Any:
        """The kernels in low-level form, by target."""
        return dict(_api.CompiledModel_Lowered(self._model).items())

    @property
    def kernel_counts(self) -> Any:
        """(distinct kernels, those that came from the cache on disk)."""
        return tuple(int(count) for count in _api.CompiledModel_KernelCounts(self._model))

    @property
    def ir_mod(self) -> Any:
        """The optimised module."""
        return _api.CompiledModel_Optimized(self._model)

    def __iter__(self) -> Any:
        return iter((self.get_graph_json(), self.get_lib(), self.get_params()))


def _device_type(key):
    """A device type as text, of a number, a device, a name such as "cpu", or an IntImm."""
    if isinstance(key, str):
        return key if key.isdigit() else str(nd.device(key).device_type)
    if isinstance(key, Device):
        return str(key.device_type)
    return str(int(key))


def _as_target(target, host=None):
    return Target(target, host=host) if host is not None else Target(target)


def _targets(target):
    """One target as text, or a dict from device types (as text) to targets."""
    if target is None:
        return "llvm"
    if isinstance(target, (list, tuple)):
        return {_device_type(_kind_device(item)): str(Target(item)) for item in target}
    if isinstance(target, dict) or type(target).__name__ == "Map":
        return {_device_type(key): str(Target(value)) for key, value in target.items()}
    return str(Target(target))


def _kind_device(target):
    kind = str(Target(target)).split()[0]
    return nd.device(kind)


def _tensors(params):
    params = mapping("params", params, "{'weight': array}")
    return {name: value if isinstance(value, nd.NDArray) else nd.array(value)
            for name, value in params.items()}


def _known_params(func, params, who, stacklevel=3):
    """The params that a function has. Others, as those that were bound already, are left out with a warning."""
    there = {var.name_hint for var in func.params}
    unknown = [name for name in params if name not in there]
    if unknown:
        import warnings

        warnings.warn(f"{who} has no parameters {', '.join(unknown[:3])}{', ...' if len(unknown) > 3 else ''}: "
                      f"{len(unknown)} of params aren't used", stacklevel=stacklevel)
    return {name: value for name, value in params.items() if name in there}


def _bindable(mod, params):
    """Tensors for the parameters of main."""
    params = mapping("params", params, "{'weight': array}")
    return _tensors(_known_params(mod["main"], params, "main", 5)) if params else {}


def _module_of(mod, params):
    if isinstance(mod, IRModule):
        return mod
    from .expr import Function

    if not isinstance(mod, (Function, IRModule)):
        raise ValueError(f"expected an IRModule or a relay.Function, got {type(mod).__name__}")
    return IRModule.from_expr(mod)


def _flags(target, target_host, mod_name, options=""):
    targets = _targets(target)
    if options and isinstance(targets, dict):
        targets = {device: f"{text} {options}" for device, text in targets.items()}
    elif options:
        targets = f"{targets} {options}"
    flags = {"targets": targets} if isinstance(targets, dict) else {"target": targets}
    if target_host is not None and target_host != "":
        flags["target_host"] = str(Target(target_host))
    if mod_name:
        flags["mod_name"] = str(mod_name)
    return flags


def _options(target, executor, runtime):
    """Options of targets that stand for what an executor and a run time are given."""
    options = []
    if getattr(executor, "options", {}).get("link-params"):
        options.append("-link-params=1")
    if runtime is not None and str(runtime) != "cpp":
        raise ValueError(f"unknown run time '{runtime}'; there is 'cpp'")
    if getattr(runtime, "options", {}).get("system-lib"):
        options.append("-system-lib=1")
    text = str(_targets(target))
    return " ".join(option for option in options if option not in text)


@_arguments.refuses_unknown
def build(ir_mod: Any = None, target: Any = None, target_host: Any = None, executor: Any = None,
          params: Mapping[str, Any] | None = None, mod_name: str = "default", mod: Any = None, runtime: Any = None,
          external: str | Iterable[str] = ()) -> GraphExecutorFactoryModule:  # noqa: A002
    """Compiles a module (or function) for a target, with the options of the current PassContext.

    target: a target, its text, or a dict from devices (numbers, names or Device) to targets; target_host: the one of
    the code that calls kernels. executor: "graph" or "vm"; None is the graph executor where it can run the module, else
    the virtual machine. params: values of parameters of main, by name. external: names of external code generators that
    may take parts of it, the preferred ones first (default: those of the target's option libs).
    """
    if isinstance(executor, dict):  # build(mod, target, target_host, params), as of older versions
        executor, params = None, executor
    if str(executor) not in ("graph", "vm", "None"):
        raise ValueError(f"unknown executor '{executor}'; there are 'graph' and 'vm'")
    module = _module_of(ir_mod if ir_mod is not None else mod, params)
    flags = _flags(target, target_host, mod_name, _options(target, executor, runtime))
    if executor is not None:
        flags["executor"] = str(executor)
    flags["external"] = [external] if isinstance(external, str) else list(external)
    model = _api.Build(module, _bindable(module, params), flags)
    return GraphExecutorFactoryModule(model, mod_name)


def optimize(mod: Any, target: Any = None, params: Mapping[str, Any] | None = None) -> tuple[IRModule, dict[str, Any]]:
    """(module, params) after the passes that build runs before it generates code."""
    builder = BuildModule()
    return builder.optimize(_module_of(mod, params), target, params)


def build_config(opt_level: int = 2, required_pass: Any = None, disabled_pass: Any = None, trace: Any = None,
                 **_: Any) -> PassContext:
    """A PassContext, by its old name."""
    return PassContext(opt_level, required_pass, disabled_pass)


class BuildModule:
    """The build flow in steps."""

    def __init__(self) -> None:
        self.mod = get_global_func("relay.build_module._BuildModule")()

    def _step(self, name: str, *args: Any) -> Any:
        return self.mod[name](*args)

    def build(self, mod: Any, target: Any = None, target_host: Any = None, params: Mapping[str, Any] | None = None,
              executor: str = "graph", mod_name: str = "default") -> tuple[str, Any, dict[str, Any]]:
        """(graph, library, params) of a module."""
        if params:
            self.set_params(params)
        host = None if target_host in (None, "") else str(Target(target_host))
        self._step("build", _module_of(mod, params), _targets(target), host, str(executor), mod_name or "default")
        return self.get_json(), self.get_module(), self.get_params()

    def optimize(self, mod: Any, target: Any = None,
                 params: Mapping[str, Any] | None = None) -> tuple[IRModule, dict[str, Any]]:
        """(module, params) after the optimisation passes."""
        module = _module_of(mod, params)
        if params:
            self.set_params(_bindable(module, params))
        return self._step("optimize", module, _targets(target)), self.get_params()

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Values of parameters of main, which become constants."""
        self._step("set_params", _tensors(params))

    def get_json(self) -> str:
        return self._step("get_graph_json")

    get_graph_json = get_json

    def get_module(self) -> Any:
        return self._step("get_module")

    def get_params(self) -> dict[str, Any]:
        return dict(self._step("get_params").items())

    def get_function_metadata(self) -> dict[str, Any]:
        return dict(self._step("get_function_metadata").items())

    def get_irmodule(self) -> dict[str, Any]:
        return dict(self._step("get_irmodule").items())


__all__ = ["BuildModule", "GraphExecutorFactoryModule", "build", "build_config", "optimize"]


def bind_params_by_name(func: Any, params: Mapping[str, Any]) -> Any:
    """The function with values bound to its parameters of these names. Names that it doesn't have are left out with a
    warning."""
    from .expr import bind, const

    if not hasattr(func, "params"):
        raise TypeError(f"bind_params_by_name: expected a relay.Function, got {type(func).__name__}")
    by_name = {var.name_hint: var for var in func.params}
    known = _known_params(func, params, "the function")
    return bind(func, {by_name[name]: const(value) for name, value in known.items()})
