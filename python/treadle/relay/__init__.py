# SPDX-License-Identifier: Apache-2.0
"""The graph IR: building, reading, transforming and compiling graphs of operators."""
from ..ir import (FuncType, GlobalTypeVar, GlobalVar, RelayExpr, RelayRefType, TensorType, TupleType, Type, TypeCall,
                  TypeData, TypeKind, TypeVar)
from . import analysis, backend, dataflow_pattern, frontend, testing, transform
from .build_module import build, build_config, optimize
from .build_module import build as build_module_build
from .expr import (Call, Clause, Constant, Expr, Function, If, Let, Match, PatternConstructor, PatternTuple, PatternVar,
                   PatternWildcard, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var, astext, bind, const, var)
from .interpreter import create_executor
from .op import OpNamespace
from .param_dict import load_param_dict, save_param_dict
from .parser import fromtext, parse

from . import build_module  # the module, for relay.build_module.build

_root = OpNamespace("")
nn = OpNamespace("nn.")
image = OpNamespace("image.")
vision = OpNamespace("vision.")
annotation = OpNamespace("annotation.")
qnn = OpNamespace("qnn.")
memory = OpNamespace("memory.")
random = OpNamespace("random.")
dyn = OpNamespace("dyn.")


def __getattr__(name):
    return getattr(_root, name)
