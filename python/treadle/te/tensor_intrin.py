# SPDX-License-Identifier: Apache-2.0
"""Intrinsics (tir.TensorIntrin) that compute the tensors of an operation."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .._ffi import Api
from ..tir import PrimFunc, TensorIntrin, decl_buffer
from ..tir.expr import PrimExpr
from ..tir.stmt import Evaluate, Stmt

if TYPE_CHECKING:
    from ..tir import Buffer
    from .tensor import Operation, Tensor

_api = Api("te")


def decl_tensor_intrin(op: Operation, fcompute: Callable[[list[Buffer], list[Buffer]], Any],
                       name: str = "tensor_intrin", binds: Mapping[Tensor, Buffer] | None = None,
                       scalar_params: Any = None,
                       default_buffer_params: Mapping[str, Any] | None = None) -> TensorIntrin:
    """An intrinsic that computes the tensors of `op`. `fcompute(ins, outs)` takes buffers and gives a statement, or
    (body, reset, update) of a reduction: all of it, its initialisation, and the step that adds to a result."""
    if scalar_params:
        raise ValueError(f"intrinsic {name}: scalar parameters aren't supported")
    if not hasattr(op, "input_tensors"):
        raise TypeError(f"intrinsic {name}: expected the operation of a tensor (tensor.op), not {op!r}")
    inputs = list(op.input_tensors)
    outputs = [op.output(i) for i in range(op.num_outputs)]
    if len(outputs) != 1:
        raise ValueError(f"intrinsic {name}: operation {op.name} has {len(outputs)} outputs; expected one")
    binds = dict(binds or {})
    params = dict(default_buffer_params or {})
    buffers = []
    for tensor in inputs + outputs:
        bound = next((buffer for key, buffer in binds.items() if key == tensor), None)
        buffers.append(bound if bound is not None else decl_buffer(list(tensor.shape), tensor.dtype, tensor.name,
                                                                   **params))
    result = fcompute(buffers[:len(inputs)], buffers[len(inputs):])
    if isinstance(result, (Stmt, PrimExpr)):
        result = (result, None, None)
    body, _, update = (tuple(result) + (None, None))[:3]

    def function(stmt):
        if stmt is None:
            return None
        return PrimFunc(buffers, stmt if isinstance(stmt, Stmt) else Evaluate(stmt))

    desc = _api.CreatePrimFunc(inputs + outputs, [], name)
    return TensorIntrin(name, desc, function(body), function(update))
