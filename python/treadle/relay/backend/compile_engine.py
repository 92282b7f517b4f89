# SPDX-License-Identifier: Apache-2.0
"""The cache of lowered functions: equal functions for equal targets are lowered once."""
from typing import Any

from ..._ffi import Api, get_global_func, register_object
from ...ir import Node
from ...target import Target

_api = Api("relay.backend")


@register_object("relay.CCacheKey")
class CCacheKey(Node):
    """What makes two kernels one: a function of fused operators, and a target."""

    def __init__(self, source_func: Any, target: Any) -> None:
        super().__init__(_api._make_CCacheKey(source_func, _target(target)))


@register_object("relay.CCacheValue")
class CCacheValue(Node):
    """A lowered function and how often it was asked for."""


@register_object("relay.CachedFunc")
class CachedFunc(Node):
    """A lowered function: target, func_name, inputs and outputs (tensors), funcs (a module)."""


def _target(target):
    return target if isinstance(target, Target) else Target(target)


def _key(source_func, target=None):
    if isinstance(source_func, CCacheKey):
        return source_func
    if target is None:
        raise ValueError("lowering a function needs a target")
    return CCacheKey(source_func, target)


class CompileEngine:
    """The engine of this process. What relay.build compiles isn't kept in it."""

    def lower(self, source_func: Any, target: Any = None, mod_name: str = "default") -> Any:
        """The CachedFunc of a function, lowered now or before."""
        return _api._CompileEngineLower(_key(source_func, target))

    def jit(self, source_func: Any, target: Any = None) -> Any:
        """The function, compiled for this process."""
        return _api._CompileEngineJIT(_key(source_func, target))

    def clear(self) -> None:
        """Forgets what was lowered."""
        _api._CompileEngineClear()

    def items(self) -> list[Any]:
        """Pairs of CCacheKey and CCacheValue."""
        flat = list(_api._CompileEngineListItems())
        return list(zip(flat[::2], flat[1::2]))

    def get_current_ccache_key(self) -> Any:
        raise NotImplementedError("lowering has no current function here; the hook gets it as an argument")

    def dump(self) -> str:
        """What is in the engine, as text; printed too."""
        lines = [f"{len(self.items())} items cached"]
        for key, value in self.items():
            lines += ["-" * 36, f"target={key.target}", f"use_count={value.use_count}",
                      f"func_name={value.cached_func.func_name}", "-" * 36, str(key.source_func)]
        text = "\n".join(lines)
        print(text)
        return text


def get() -> "CompileEngine":
    """The compile engine of this process."""
    return CompileEngine()


def explain(source_func: Any, target: Any) -> str:
    """Implementations of each operator of a fused function: which one was chosen, and why, as text."""
    return get_global_func("relay.backend.ExplainImplementations")(source_func, _target(target))


__all__ = ["CCacheKey", "CCacheValue", "CachedFunc", "CompileEngine", "explain", "get"]
