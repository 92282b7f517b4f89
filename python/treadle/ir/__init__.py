# SPDX-License-Identifier: Apache-2.0
"""What all IRs share: modules, types, constants, operators, structural equality, passes and what watches them."""
from .._core import Object
from .._dtype import DataType
from .._ffi import Array, Map
from .attrs import Attrs, DictAttrs, make_attrs
from .base import (EnvFunc, Node, as_text, assert_structural_equal, load_json, make_node, save_json, structural_difference,
                   structural_equal, structural_hash)
from .expr import (BaseExpr, BaseFunc, Constructor, FloatImm, GlobalVar, IntImm, PrimExpr, Range, RelayExpr, Span)
from .intrin import register_intrin_lowering
from .module import IRModule
from .op import Op, register_op_attr
from .type import (FuncType, GlobalTypeVar, IncompleteType, PointerType, PrimType, RelayRefType, TensorType, TupleType, Type,
                   TypeCall, TypeData, TypeKind, TypeVar)
from . import module, transform
from . import instrument
