# SPDX-License-Identifier: Apache-2.0
"""What parameters of functions of tensors can be."""
from collections.abc import Sequence
from typing import Any

from ..error import Error
from ..tir import Buffer, Var
from .tensor import Tensor


def parameters(args: Sequence[Any], binds: Any = None) -> tuple[Any, Any]:
    """(tensors and variables, buffers of the tensors or None) for a list of what parameters of functions can be:
    tensors, buffers that `binds` gives tensors, and variables."""
    if not isinstance(args, (list, tuple)) and not hasattr(args, "__len__"):
        raise TypeError(f"the parameters of a function are given as a list, not as {type(args).__name__}")
    pairs = list((binds or {}).items())
    params, buffers = [], []
    for i, arg in enumerate(args):
        buffer = None
        if isinstance(arg, Buffer):
            buffer = arg
            arg = next((tensor for tensor, bound in pairs if bound.same_as(buffer)), None)
            if arg is None:
                raise Error(f"argument {i}: buffer {buffer.name} belongs to no tensor; say which in binds={{tensor: buffer}}")
        elif isinstance(arg, Tensor):
            buffer = next((bound for tensor, bound in pairs if tensor == arg), None)
        elif not isinstance(arg, Var):
            raise TypeError(f"argument {i} of the function: expected a tensor, buffer or variable, not {arg!r}")
        params.append(arg)
        buffers.append(buffer)
    return params, buffers
