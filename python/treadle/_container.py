# SPDX-License-Identifier: Apache-2.0
"""Containers of the run time under the original's names."""
import abc

from ._ffi import Array, Map
from .runtime import ShapeTuple, String
from ._values import ConstructorValue, TupleValue

__all__ = ["ADT", "Array", "Map", "ShapeTuple", "String", "tuple_object"]


class ADT(abc.ABC):
    """What tuples and values of data types are instances of."""


ADT.register(TupleValue)
ADT.register(ConstructorValue)


def tuple_object(fields=None):
    """A tuple of tensors and tuples."""
    return TupleValue(*(fields or []))
