# SPDX-License-Identifier: Apache-2.0
"""From an optimised function to the graph executor's graph, parameters and kernels."""
from typing import Any

from ..._ffi import get_global_func
from ...target import Target


class GraphExecutorCodegen:
    """Generates graphs. target: a target, or a dict from device types to targets."""

    _init: Any
    _codegen: Any
    _get_graph_json: Any
    _list_params_name: Any
    _get_param_by_name: Any
    _get_params: Any
    _get_irmodule: Any
    _get_external_modules: Any
    _get_function_metadata: Any

    def __init__(self, mod: Any, target: Any) -> None:
        from ..build_module import _targets

        self._mod = get_global_func("relay.build_module._GraphExecutorCodegen")()
        for name in ("init", "codegen", "get_graph_json", "list_params_name", "get_param_by_name", "get_param_id",
                     "get_params", "get_irmodule", "get_external_modules", "get_metadata", "get_function_metadata",
                     "get_memory_report"):
            setattr(self, f"_{name}", self._mod[name])
        self._init(mod, _targets(target))

    def codegen(self, ir_module: Any, func: Any = None) -> tuple[Any, Any, Any]:
        """(graph JSON, lowered functions by target, parameters) of a function whose operators are fused."""
        self._codegen(ir_module if func is None else func)
        params = {name: self._get_param_by_name(name) for name in self._list_params_name()}
        return self._get_graph_json(), dict(self._get_irmodule().items()), params

    def get_graph_json(self) -> str:
        return self._get_graph_json()

    def get_params(self) -> dict[str, Any]:
        return dict(self._get_params().items())

    def get_irmodule(self) -> dict[Any, Any]:
        """The lowered functions, by target."""
        return dict(self._get_irmodule().items())

    def get_external_modules(self) -> list[Any]:
        return list(self._get_external_modules())

    def get_function_metadata(self) -> dict[Any, Any]:
        return dict(self._get_function_metadata().items())


__all__ = ["GraphExecutorCodegen", "Target"]
