# SPDX-License-Identifier: Apache-2.0
"""Graphs for oneDNN."""
from collections.abc import Mapping
from typing import Any

from .register import get_pattern_table


def pattern_table() -> Any:
    """The patterns that the code generator "dnnl" computes at once: (name, pattern, check)."""
    return get_pattern_table("dnnl") or []


def partition_for_dnnl(mod: Any, params: Mapping[str, Any] | None = None) -> Any:
    """The module with the regions that oneDNN is to compute as functions with attribute Compiler; `params` become
    constants first."""
    from ...build_module import bind_params_by_name
    from ...external import partition
    from ....ir import IRModule

    if params:
        mod = IRModule(dict(mod.functions.items()), dict(mod.type_definitions.items()))
        mod["main"] = bind_params_by_name(mod["main"], params)
    return partition(mod, "dnnl")[0]
