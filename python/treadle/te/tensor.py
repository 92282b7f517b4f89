# SPDX-License-Identifier: Apache-2.0
"""Tensors and the operations that produce them."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, overload

from .._core import Object
from .._ffi import Api, register_object
from ..error import ShapeError
from ..ir import Node
from ..tir.expr import as_expr
from .._ffi import Array
from ..ir import PrimExpr

if TYPE_CHECKING:
    from .._typing import Scalar

_api = Api("te")


@register_object("te.Operation")
class Operation(Node):
    """What produces tensors."""

    name: str
    tag: str
    attrs: Any

    def output(self, index: int) -> Tensor:
        """The tensor of that output."""
        return _api.OpGetOutput(self, index)

    @property
    def num_outputs(self) -> int:
        return _api.OpNumOutputs(self)

    @property
    def input_tensors(self) -> list[Tensor]:
        return list(_api.OpInputTensors(self))

    def __str__(self) -> str:
        return f"{self._type_key().split('.')[-1]}({self.name})"

    __repr__ = __str__


@register_object("te.PlaceholderOp")
class PlaceholderOp(Operation):
    """An input."""

    shape: Array
    dtype: str


@register_object("te.ComputeOp")
class ComputeOp(Operation):
    """Tensors of which each element is an expression of its indices."""

    axis: Array
    reduce_axis: Array
    body: Array


@register_object("te.ScanOp")
class ScanOp(Operation):
    """A recurrence."""


@register_object("te.ExternOp")
class ExternOp(Operation):
    """Tensors that a statement computes."""


# What arithmetic of tensors stands for, by name: topi puts it here, which is made of tensors.
operators: Callable[[str], Callable[..., Any]] | None = None


def _topi(name: str, *args: Any) -> Tensor:
    return operators(name)(*args)


class TensorSlice:
    """A tensor with some of its indices: A[i] of a matrix A, to be indexed on."""

    def __init__(self, tensor: Tensor, indices: tuple) -> None:
        self.tensor, self.indices = tensor, indices

    def __getitem__(self, indices: Any) -> Any:
        indices = self.indices + (indices if isinstance(indices, tuple) else (indices,))
        for i in indices:
            if isinstance(i, slice):
                raise TypeError(f"tensor {self.tensor.name}: a range can't be an index")
            if i is None or isinstance(i, (str, Tensor)):
                raise TypeError(f"tensor {self.tensor.name}: {i!r} can't be an index; expected an integer expression")
        if len(indices) < self.tensor.ndim:
            return TensorSlice(self.tensor, indices)
        return _api.TensorGetItem(self.tensor, [as_expr(i) for i in indices])

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    def as_expr(self) -> NoReturn:
        """Not possible: an element takes all indices."""
        raise ShapeError(f"tensor {self.tensor.name} has {self.tensor.ndim} dimensions but {len(self.indices)} "
                         f"ind{'ex' if len(self.indices) == 1 else 'ices'}")

    def _operand(self, *_: object) -> PrimExpr:
        return self.as_expr()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _operand
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __lt__ = __le__ = __gt__ = __ge__ = _operand


@register_object("te.Tensor")
class Tensor(Node):
    """One output of an operation; indexing gives an element, for use in a compute body."""

    op: Operation
    shape: Array
    dtype: str
    value_index: int

    @overload
    def __getitem__(self, indices: tuple[Scalar, ...]) -> PrimExpr: ...

    @overload
    def __getitem__(self, indices: Scalar) -> Any: ...  # of several dimensions' first a TensorSlice

    def __getitem__(self, indices: Any) -> Any:
        return TensorSlice(self, ())[indices]

    def __call__(self, *indices: Scalar) -> PrimExpr:
        return _api.TensorGetItem(self, [as_expr(i) for i in indices])

    def __iter__(self) -> Iterator[PrimExpr]:
        raise TypeError("a tensor can't be iterated over: the elements aren't known")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def name(self) -> str:
        return _api.TensorName(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and bool(_api.TensorEqual(self, other))

    __hash__ = Object.__hash__

    # Arithmetic is element by element, with broadcasting.
    def __add__(self, other: Tensor | Scalar) -> Tensor:
        return _topi("add", self, other)

    def __radd__(self, other: Tensor | Scalar) -> Tensor:
        return _topi("add", other, self)

    def __sub__(self, other: Tensor | Scalar) -> Tensor:
        return _topi("subtract", self, other)

    def __rsub__(self, other: Tensor | Scalar) -> Tensor:
        return _topi("subtract", other, self)

    def __mul__(self, other: Tensor | Scalar) -> Tensor:
        return _topi("multiply", self, other)

    def __rmul__(self, other: Tensor | Scalar) -> Tensor:
        return _topi("multiply", other, self)

    def __truediv__(self, other: Tensor | Scalar) -> Tensor:
        return _topi("divide", self, other)

    def __rtruediv__(self, other: Tensor | Scalar) -> Tensor:
        return _topi("divide", other, self)

    def __neg__(self) -> Tensor:
        return _topi("negative", self)

    def __str__(self) -> str:
        return f"Tensor(shape={list(self.shape)}, op.name={self.op.name})"

    __repr__ = __str__
