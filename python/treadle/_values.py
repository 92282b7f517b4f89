# SPDX-License-Identifier: Apache-2.0
"""Values that programs of graph IR take and give besides tensors."""
import numpy as np

from . import nd
from ._core import Object
from ._ffi import Api, register_object

_api = Api("relay.interpreter")


@register_object("relay.TupleValue")
class TupleValue(Object):
    """Several values."""

    def __init__(self, *fields):
        super().__init__(_api.Tuple([to_value(field) for field in fields]))

    def __getitem__(self, index):
        return self.fields[index]

    def __len__(self):
        return len(self.fields)

    def __iter__(self):
        return iter(self.fields)

    def __repr__(self):
        return f"({', '.join(repr(field) for field in self.fields)})"


@register_object("relay.ConstructorValue")
class ConstructorValue(Object):
    """A value of an algebraic data type: tag, fields, constructor."""

    def __init__(self, constructor, *fields):
        super().__init__(_api.Constructor(constructor, [to_value(field) for field in fields]))

    def __getitem__(self, index):
        return self.fields[index]

    def __len__(self):
        return len(self.fields)


@register_object("relay.RefValue")
class RefValue(Object):
    """A mutable cell."""

    def __init__(self, value):
        super().__init__(_api.Ref(to_value(value)))


@register_object("relay.Closure")
class Closure(Object):
    """A function with what it captured; the executor that made it calls it."""


def to_value(value):
    """Numbers and arrays as tensors (int32, float32, bool; arrays as they are), tuples and lists as tuples."""
    if isinstance(value, Object):
        return value
    if isinstance(value, (tuple, list)):
        return TupleValue(*value)
    if isinstance(value, (bool, np.bool_)):
        return nd.array(np.array(value, "bool"))
    if isinstance(value, int):
        return nd.array(np.array(value, "int32"))
    if isinstance(value, float):
        return nd.array(np.array(value, "float32"))
    return nd.array(np.asarray(value))
