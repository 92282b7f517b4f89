# SPDX-License-Identifier: Apache-2.0
"""External code generators: which there are, and what they would take of a graph."""
from collections.abc import Sequence
from typing import Any

from .._ffi import Api
from ..ir import IRModule

_api = Api("external")


def list_codegens() -> dict[str, Any]:
    """Names and descriptions of the code generators of this process."""
    return {str(name): _api.Describe(name) for name in _api.ListCodegens()}


def partition(mod: Any, codegens: str | Sequence[str]) -> tuple[IRModule, str]:
    """(module, report): `mod` with the regions that the code generators take as functions with attribute Compiler, and
    a text that says what went where, and why the rest didn't."""
    module = mod if isinstance(mod, IRModule) else IRModule.from_expr(mod)
    result, report = _api.Partition(module, [codegens] if isinstance(codegens, str) else list(codegens))
    return result, str(report)
