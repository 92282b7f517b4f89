# SPDX-License-Identifier: Apache-2.0
"""Instructions, or kernels written by hand, that stand for a nest of loops."""
from .._ffi import Api, register_object
from ..ir import Node
from ..tir import PrimFunc, decl_buffer
from ..tir.expr import PrimExpr
from ..tir.stmt import Evaluate, Stmt

_api = Api("te")
_tir = Api("tir")


@register_object("tir.TensorIntrin")
class TensorIntrin(Node):
    """What an instruction computes (`desc`), and functions that do it: `body` all, `update` adding to a result."""

    def __init__(self, name, desc, body=None, update=None):
        super().__init__(_tir.TensorIntrin(name, desc, body, update))

    _known = {}

    @staticmethod
    def register(name, desc, impl, override=False):
        """Makes `Schedule.tensorize` know an intrinsic by name."""
        if name in TensorIntrin._known and not override:
            raise ValueError(f"intrinsic {name} is registered already; override=True replaces it")
        for what, function in (("desc", desc), ("impl", impl)):
            if not isinstance(function, PrimFunc):
                raise TypeError(f"intrinsic {name}: {what} must be a loop-level function, not {function!r}")
        TensorIntrin._known[name] = TensorIntrin(name, desc, impl)

    @staticmethod
    def get(name, allow_missing=False):
        """The intrinsic registered under that name."""
        if name not in TensorIntrin._known and not allow_missing:
            known = ", ".join(TensorIntrin._known) or "none"
            raise ValueError(f"there is no intrinsic {name}; registered (TensorIntrin.register) are {known}")
        return TensorIntrin._known.get(name)


def decl_tensor_intrin(op, fcompute, name="tensor_intrin", binds=None, scalar_params=None, default_buffer_params=None):
    """An intrinsic that computes the tensors of `op`. `fcompute(ins, outs)` takes buffers and gives a statement, or
    (body, reset, update) of a reduction: all of it, its initialisation, and the step that adds to a result."""
    if scalar_params:
        raise ValueError(f"intrinsic {name}: scalar parameters aren't supported")
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
