# SPDX-License-Identifier: Apache-2.0
"""Instructions, or kernels written by hand, that stand for a nest of loops."""
from __future__ import annotations

from .._ffi import Api, register_object
from ..ir import Node
from .function import PrimFunc

_api = Api("tir")


@register_object("tir.TensorIntrin")
class TensorIntrin(Node):
    """What an instruction computes (`desc`), and functions that do it: `body` all, `update` adding to a result."""

    def __init__(self, name: str, desc: PrimFunc, body: PrimFunc | None = None, update: PrimFunc | None = None) -> None:
        super().__init__(_api.TensorIntrin(name, desc, body, update))

    _known: dict = {}

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> None:
        """Makes `Schedule.tensorize` know an intrinsic by name."""
        if name in TensorIntrin._known and not override:
            raise ValueError(f"intrinsic {name} is registered already; override=True replaces it")
        for what, function in (("desc", desc), ("impl", impl)):
            if not isinstance(function, PrimFunc):
                raise TypeError(f"intrinsic {name}: {what} must be a loop-level function, not {function!r}")
        TensorIntrin._known[name] = TensorIntrin(name, desc, impl)

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic registered under that name."""
        if name not in TensorIntrin._known and not allow_missing:
            known = ", ".join(TensorIntrin._known) or "none"
            raise ValueError(f"there is no intrinsic {name}; registered (TensorIntrin.register) are {known}")
        return TensorIntrin._known.get(name)
