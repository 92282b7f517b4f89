# SPDX-License-Identifier: Apache-2.0
"""The graph IR: building, reading, transforming and compiling graphs of operators."""
import types as _types
import typing as _typing

from ..ir import (FuncType, GlobalTypeVar, GlobalVar, RelayExpr, RelayRefType, TensorType, TupleType, Type, TypeCall,
                  TypeData, TypeKind, TypeVar)
from . import op
from .op import annotation, dyn, image, memory, nn, qnn, random, vision
from . import analysis, backend, dataflow_pattern, external, frontend, prelude, transform
from .build_module import build, build_config, optimize
from .build_module import build as build_module_build
from .expr import (Call, Clause, Constant, Expr, Function, If, Let, Match, Pattern, PatternConstructor, PatternTuple,
                   PatternVar, PatternWildcard, RefCreate, RefRead, RefWrite, TempExpr, Tuple, TupleGetItem, TupleWrapper, Var, astext,
                   bind, const, var)
from .expr_functor import ExprFunctor, ExprMutator, ExprVisitor, MixedModeMutator, MixedModeVisitor
from .interpreter import VMExecutor as _VMExecutor, create_executor
from .param_dict import load_param_dict, save_param_dict
from .parser import Any, fromtext, parse, parse_expr
from .scope_builder import ScopeBuilder
from .transform import gradient
from .type_functor import TypeFunctor, TypeMutator, TypeVisitor
from ..ir import Constructor, Span

from . import vm  # noqa: F401
from . import build_module  # the module, for relay.build_module.build

from . import loops  # noqa: F401
from .passes import analyses as _analyses, data_dep_optimization, rewrites as _rewrites  # noqa: F401
from ..ir import IncompleteType
from .prelude import Prelude

if _typing.TYPE_CHECKING:
    from .op.tensor import *  # noqa: F403 - what __getattr__ finds

transform._PYTHON_PASSES.update(_rewrites.PASSES)
vars(analysis).update(_analyses.NAMES)
RefType = RelayRefType


def ShapeVar(name: str) -> TypeVar:  # pylint: disable=invalid-name
    """A variable of types that stands for a shape."""
    return TypeVar(name, TypeKind.ShapeVar)


def scalar_type(dtype: str) -> TensorType:
    """The type of a tensor without dimensions."""
    return TensorType((), dtype)


__all__ = [
    "Any", "Call", "Clause", "Constant", "Constructor", "Expr", "ExprFunctor", "ExprMutator", "ExprVisitor",
    "FuncType", "Function", "GlobalTypeVar", "GlobalVar", "If", "Let", "Match", "MixedModeMutator",
    "MixedModeVisitor", "Pattern", "PatternConstructor", "PatternTuple", "PatternVar", "PatternWildcard", "RefCreate",
    "RefRead", "RefType", "RefWrite", "RelayExpr", "RelayRefType", "ScopeBuilder", "ShapeVar", "Span", "TensorType", "Tuple",
    "TupleGetItem", "TupleType", "TupleWrapper", "Type", "TypeCall", "TypeData", "TypeFunctor", "TypeKind",
    "TypeMutator", "TypeVar", "TypeVisitor", "Var", "analysis", "annotation", "astext", "backend", "bind", "build",
    "build_config", "build_module", "build_module_build", "const", "create_executor", "dataflow_pattern", "dyn",
    "external", "fromtext", "frontend", "gradient", "image", "load_param_dict", "memory", "nn", "op", "optimize",
    "parse", "parse_expr", "prelude", "qnn", "quantize", "random", "save_param_dict", "transform", "var", "vision",
    "vm"]
quantize: _types.ModuleType  # treadle/__init__.py sets it


def __getattr__(name: str) -> _typing.Any:
    if name == "testing":  # uses the operators, which are functions of this module
        import importlib

        return importlib.import_module(".testing", __name__)
    return getattr(op.root, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(op.root), "testing"})

# TVM has it in both places.
build_module.create_executor = create_executor
vm.VMExecutor = _VMExecutor  # type: ignore[attr-defined]
