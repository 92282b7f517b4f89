# SPDX-License-Identifier: Apache-2.0
"""Types of the graph IR."""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .._dtype import DataType
from .._ffi import register_object
from .base import Node, _api, structural_equal, structural_hash
from .expr import IntImm
from .._ffi import Array

if TYPE_CHECKING:
    from .._typing import Dims, DTypeLike
    from .expr import Constructor


@register_object("Type")
class Type(Node):
    """Base of types."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and structural_equal(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return structural_hash(self)


@register_object("PrimType")
class PrimType(Type):
    """The type of a scalar."""

    dtype: str

    def __init__(self, dtype: DTypeLike) -> None:
        super().__init__(_api.PrimType(str(dtype)))


@register_object("PointerType")
class PointerType(Type):
    """A pointer."""

    element_type: Type
    storage_scope: str

    def __init__(self, element_type: Type, storage_scope: str = "") -> None:
        super().__init__(_api.PointerType(element_type, storage_scope))


@register_object("relay.TensorType")
class TensorType(Type):
    """The type of a tensor. Dimensions are integers or symbolic expressions."""

    shape: Array
    dtype: str

    def __init__(self, shape: Dims, dtype: DTypeLike = "float32") -> None:
        super().__init__(_api.TensorType(list(shape), str(DataType(dtype))))

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The dimensions as ints; a ValueError when one is symbolic."""
        if not all(isinstance(dim, IntImm) for dim in self.shape):
            raise ValueError(f"{self} has symbolic dimensions")
        return tuple(int(dim) for dim in self.shape)


@register_object("TupleType")
class TupleType(Type):
    """The type of a tuple."""

    fields: Array

    def __init__(self, fields: Iterable[Type]) -> None:
        super().__init__(_api.TupleType(list(fields)))


@register_object("FuncType")
class FuncType(Type):
    """The type of a function."""

    arg_types: Array
    ret_type: Type
    type_params: Array

    def __init__(self, arg_types: Iterable[Type], ret_type: Type, type_params: Iterable[TypeVar] = (),
                 type_constraints: Iterable[Any] = ()) -> None:
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

    name_hint: str
    kind: int

    def __init__(self, name_hint: str, kind: int = TypeKind.Type) -> None:
        super().__init__(_api.TypeVar(name_hint, kind))


@register_object("IncompleteType")
class IncompleteType(Type):
    """A type to be found."""

    kind: int

    def __init__(self, kind: int = TypeKind.Type) -> None:
        super().__init__(_api.IncompleteType(kind))


@register_object("relay.GlobalTypeVar")
class GlobalTypeVar(Type):
    """The name of an algebraic data type."""

    name_hint: str
    kind: int

    def __init__(self, name_hint: str, kind: int = TypeKind.AdtHandle) -> None:
        super().__init__(_api.GlobalTypeVar(name_hint, kind))

    def __call__(self, *args: Type) -> TypeCall:
        """The data type of these types of elements."""
        return TypeCall(self, list(args))


@register_object("relay.TypeCall")
class TypeCall(Type):
    """A type constructor applied to types."""

    func: Type
    args: Array

    def __init__(self, func: Type, args: Iterable[Type]) -> None:
        super().__init__(_api.TypeCall(func, list(args)))


@register_object("relay.TypeData")
class TypeData(Type):
    """The definition of an algebraic data type."""

    header: GlobalTypeVar
    type_vars: Array
    constructors: Array

    def __init__(self, header: GlobalTypeVar, type_vars: Iterable[TypeVar],
                 constructors: Iterable[Constructor]) -> None:
        super().__init__(_api.TypeData(header, list(type_vars), list(constructors)))


@register_object("relay.RefType")
class RelayRefType(Type):
    """The type of a mutable cell."""

    value: Type

    def __init__(self, value: Type) -> None:
        super().__init__(_api.RelayRefType(value))
