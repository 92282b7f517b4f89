# SPDX-License-Identifier: Apache-2.0
"""Compiling a module of the graph IR."""
from .. import nd, runtime
from .._ffi import Api
from ..ir import IRModule
from ..target import Target
from ..transform import PassContext

_api = Api("driver")


class GraphExecutorFactoryModule:
    """A compiled graph: lib["default"](device) gives what runs it; also (graph, lib, params) when unpacked."""

    def __init__(self, model):
        self._model = model

    def __getitem__(self, name):
        return self.module[name]

    def get_graph_json(self):
        return _api.CompiledModel_GraphJson(self._model)

    get_executor_config = get_graph_json
    graph_json = property(get_graph_json)

    def get_params(self):
        return dict(_api.CompiledModel_Params(self._model).items())

    params = property(get_params)

    def get_lib(self):
        """The kernels alone."""
        return _api.CompiledModel_Lib(self._model)

    lib = property(get_lib)

    @property
    def module(self):
        """The loaded model: kernels, graph and parameters."""
        return _api.CompiledModel_Module(self._model)

    def export_library(self, file_name, **options):
        """Writes one shared library that holds kernels, graph and parameters."""
        _api.CompiledModel_Export(self._model, str(file_name))

    def get_source(self, fmt="ll"):
        return _api.CompiledModel_Source(self._model, fmt)

    @property
    def ir_mod(self):
        """The optimised module."""
        return _api.CompiledModel_Optimized(self._model)

    def __iter__(self):
        return iter((self.get_graph_json(), self.get_lib(), self.get_params()))


def _target_text(target, target_host):
    if isinstance(target, dict):
        if len(target) != 1:
            raise NotImplementedError("building for several devices at once isn't supported")
        target = next(iter(target.values()))
    return str(Target(target or "llvm", host=target_host))


def build(mod, target=None, target_host=None, params=None, mod_name="default", **_):
    """Compiles a module (or function) for a target, with the options of the current PassContext."""
    module = mod if isinstance(mod, IRModule) else IRModule.from_expr(mod)
    tensors = {name: value if isinstance(value, nd.NDArray) else nd.array(value)
               for name, value in (params or {}).items()}
    return GraphExecutorFactoryModule(_api.Build(module, tensors, _target_text(target, target_host)))


def optimize(mod, target=None, params=None):
    """(module, params) after the passes that build runs before it generates code."""
    module = mod if isinstance(mod, IRModule) else IRModule.from_expr(mod)
    tensors = {name: value if isinstance(value, nd.NDArray) else nd.array(value)
               for name, value in (params or {}).items()}
    return _api.Optimize(module, tensors, _target_text(target, None)), dict(tensors)


def build_config(opt_level=2, required_pass=None, disabled_pass=None, **_):
    """A PassContext, by its old name."""
    return PassContext(opt_level, required_pass, disabled_pass)


__all__ = ["GraphExecutorFactoryModule", "build", "build_config", "optimize", "runtime"]
