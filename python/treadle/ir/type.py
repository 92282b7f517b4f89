# SPDX-License-Identifier: Apache-2.0
"""Types of the graph IR."""
from .._dtype import DataType
from .._ffi import register_object
from .base import Node, _api, structural_equal, structural_hash
from .expr import IntImm


@register_object("Type")
class Type(Node):
    """Base of types."""

    def __eq__(self, other):
        return isinstance(other, Type) and structural_equal(self, other)

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return structural_hash(self)


@register_object("PrimType")
class PrimType(Type):
    """The type of a scalar."""

    def __init__(self, dtype):
        super().__init__(_api.PrimType(str(dtype)))


@register_object("PointerType")
class PointerType(Type):
    """A pointer."""

    def __init__(self, element_type, storage_scope=""):
        super().__init__(_api.PointerType(element_type, storage_scope))


@register_object("relay.TensorType")
class TensorType(Type):
    """The type of a tensor. Dimensions are integers or symbolic expressions."""

    def __init__(self, shape, dtype="float32"):
        super().__init__(_api.TensorType(list(shape), str(DataType(dtype))))

    @property
    def concrete_shape(self):
        """The dimensions as ints; a ValueError when one is symbolic."""
        if not all(isinstance(dim, IntImm) for dim in self.shape):
            raise ValueError(f"{self} has symbolic dimensions")
        return tuple(int(dim) for dim in self.shape)


@register_object("TupleType")
class TupleType(Type):
    """The type of a tuple."""

    def __init__(self, fields):
        super().__init__(_api.TupleType(list(fields)))


@register_object("FuncType")
class FuncType(Type):
    """The type of a function."""

    def __init__(self, arg_types, ret_type, type_params=(), type_constraints=()):
        super().__init__(_api.FuncType(list(arg_types), ret_type, list(type_params), list(type_constraints)))


class TypeKind:
    """Kinds of types."""

    Type = 0
    ShapeVar = 1
    BaseType = 2
    Constraint = 4
    AdtHandle = 5
    TypeData = 6


@register_object("relay.TypeVar")
class TypeVar(Type):
    """A parameter of a polymorphic function."""

    def __init__(self, name_hint, kind=TypeKind.Type):
        super().__init__(_api.TypeVar(name_hint, kind))


@register_object("IncompleteType")
class IncompleteType(Type):
    """A type to be found."""

    def __init__(self, kind=TypeKind.Type):
        super().__init__(_api.IncompleteType(kind))


@register_object("relay.GlobalTypeVar")
class GlobalTypeVar(Type):
    """The name of an algebraic data type."""

    def __init__(self, name_hint, kind=TypeKind.AdtHandle):
        super().__init__(_api.GlobalTypeVar(name_hint, kind))

    def __call__(self, *args):
        """The data type of these types of elements."""
        return TypeCall(self, list(args))


@register_object("relay.TypeCall")
class TypeCall(Type):
    """A type constructor applied to types."""

    def __init__(self, func, args):
        super().__init__(_api.TypeCall(func, list(args)))


@register_object("relay.TypeData")
class TypeData(Type):
    """The definition of an algebraic data type."""

    def __init__(self, header, type_vars, constructors):
        super().__init__(_api.TypeData(header, list(type_vars), list(constructors)))


@register_object("relay.RefType")
class RelayRefType(Type):
    """The type of a mutable cell."""

    def __init__(self, value):
        super().__init__(_api.RelayRefType(value))
