# SPDX-License-Identifier: Apache-2.0
"""Parts of the compiler that can be called on their own."""
from typing import Any

from ..._ffi import Api, get_global_func
from . import compile_engine, executor_factory, graph_executor_codegen, te_compiler
from .executor import Executor, Runtime


def graph_plan_memory(func: Any, planner: str = "") -> Any:
    """The storage of each expression of a fused function."""
    return get_global_func("relay.backend.GraphPlanMemory")(func, planner)


GraphPlanMemory = graph_plan_memory
_backend = Api("relay.backend")  # the original's registered functions: _backend.GraphPlanMemory(func)
