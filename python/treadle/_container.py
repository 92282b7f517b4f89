# SPDX-License-Identifier: Apache-2.0
"""Containers of the run time under the original's names."""
from ._ffi import Array, Map
from .runtime import ShapeTuple, String
from ._values import TupleValue

__all__ = ["Array", "Map", "ShapeTuple", "String", "tuple_object"]


def tuple_object(fields=None):
    """A tuple of tensors and tuples."""
    return TupleValue(*(fields or []))
