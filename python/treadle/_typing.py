# SPDX-License-Identifier: Apache-2.0
"""Types that annotations of several modules name; imported by type checkers only."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Union

import numpy as np

from ._dtype import DataType
from ._ffi import Array
from ._nd import NDArray
from .ir import PrimExpr, RelayExpr
from .relay.expr import TupleWrapper
from .target import Target
from .te import Operation, Tensor, TensorSlice
from .tir.expr import EqualOp

DTypeLike = Union[str, DataType]
Scalar = Union[PrimExpr, EqualOp, TensorSlice, int, float]  # what stands for a scalar expression
Dim = Union[PrimExpr, int]
Dims = Union[Sequence[Dim], Array]
Shape = Union[Dim, Dims]
ExprLike = Union[RelayExpr, TupleWrapper, NDArray, np.ndarray, np.generic, float, Sequence["ExprLike"]]
TargetLike = Union[str, Target, dict]
TensorOrOp = Union[Tensor, Operation]
