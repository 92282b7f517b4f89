# SPDX-License-Identifier: Apache-2.0
"""Functions of tensors as functions of other libraries' tensors, which share their memory by DLPack."""
import functools
import importlib
from collections.abc import Callable
from typing import Any

from .. import nd


def convert_func(function: Callable[..., Any], tensor_type: type, to_dlpack_func: Callable[[Any], Any]) -> Callable[..., Any]:
    """The function with arguments of type `tensor_type`, each of which `to_dlpack_func` makes a DLPack capsule of; other
    arguments are handed on."""

    @functools.wraps(function, assigned=())
    def called(*args):
        return function(*(nd.from_dlpack(to_dlpack_func(a)) if isinstance(a, tensor_type) else a for a in args))

    return called


def to_pytorch_func(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with PyTorch's tensors as arguments, in whose memory it writes."""
    torch = importlib.import_module("torch")
    return convert_func(function, torch.Tensor, importlib.import_module("torch.utils.dlpack").to_dlpack)
