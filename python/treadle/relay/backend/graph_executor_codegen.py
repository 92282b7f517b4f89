# SPDX-License-Identifier: Apache-2.0
"""From an optimised function to the graph executor's graph, parameters and kernels."""
from ..._ffi import get_global_func
from ...target import Target


class GraphExecutorCodegen:
    """Generates graphs. target: a target, or a dict from device types to targets."""

    def __init__(self, mod, target):
        from ..build_module import _targets

        self._mod = get_global_func("relay.build_module._GraphExecutorCodegen")()
        for name in ("init", "codegen", "get_graph_json", "list_params_name", "get_param_by_name", "get_param_id",
                     "get_params", "get_irmodule", "get_external_modules", "get_metadata", "get_function_metadata",
                     "get_memory_report"):
            setattr(self, f"_{name}", self._mod[name])
        self._init(mod, _targets(target))

    def codegen(self, ir_module, func=None):
        """(graph JSON, lowered functions by target, parameters) of a function whose operators are fused."""
        self._codegen(ir_module if func is None else func)
        params = {name: self._get_param_by_name(name) for name in self._list_params_name()}
        return self._get_graph_json(), dict(self._get_irmodule().items()), params

    def get_graph_json(self):
        return self._get_graph_json()

    def get_params(self):
        return dict(self._get_params().items())

    def get_irmodule(self):
        """The lowered functions, by target."""
        return dict(self._get_irmodule().items())

    def get_external_modules(self):
        return list(self._get_external_modules())

    def get_function_metadata(self):
        return dict(self._get_function_metadata().items())


__all__ = ["GraphExecutorCodegen", "Target"]
