# SPDX-License-Identifier: Apache-2.0
"""Tensors and the operations that produce them."""
from .._core import Object
from .._ffi import Api, register_object
from ..error import ShapeError
from ..ir import Node
from ..tir.expr import as_expr

_api = Api("te")


@register_object("te.Operation")
class Operation(Node):
    """What produces tensors."""

    def output(self, index):
        """The tensor of that output."""
        return _api.OpGetOutput(self, index)

    @property
    def num_outputs(self):
        return _api.OpNumOutputs(self)

    @property
    def input_tensors(self):
        return list(_api.OpInputTensors(self))

    def __str__(self):
        return f"{self._type_key().split('.')[-1]}({self.name})"

    __repr__ = __str__


def _kind(name, doc):
    return register_object(f"te.{name}")(type(name, (Operation,), {"__doc__": doc}))


PlaceholderOp = _kind("PlaceholderOp", "An input.")
ComputeOp = _kind("ComputeOp", "Tensors of which each element is an expression of its indices.")
ScanOp = _kind("ScanOp", "A recurrence.")
ExternOp = _kind("ExternOp", "Tensors that a statement computes.")


# What arithmetic of tensors stands for, by name: topi puts it here, which is made of tensors.
operators = None


def _topi(name, *args):
    return operators(name)(*args)


class TensorSlice:
    """A tensor with some of its indices: A[i] of a matrix A, to be indexed on."""

    def __init__(self, tensor, indices):
        self.tensor, self.indices = tensor, indices

    def __getitem__(self, indices):
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
    def dtype(self):
        return self.tensor.dtype

    def as_expr(self):
        """Not possible: an element takes all indices."""
        raise ShapeError(f"tensor {self.tensor.name} has {self.tensor.ndim} dimensions but {len(self.indices)} "
                         f"ind{'ex' if len(self.indices) == 1 else 'ices'}")

    def _operand(self, *_):
        return self.as_expr()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _operand
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __lt__ = __le__ = __gt__ = __ge__ = _operand


@register_object("te.Tensor")
class Tensor(Node):
    """One output of an operation; indexing gives an element, for use in a compute body."""

    def __getitem__(self, indices):
        return TensorSlice(self, ())[indices]

    def __call__(self, *indices):
        return _api.TensorGetItem(self, [as_expr(i) for i in indices])

    def __iter__(self):
        raise TypeError("a tensor can't be iterated over: the elements aren't known")

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def name(self):
        return _api.TensorName(self)

    def __eq__(self, other):
        return isinstance(other, Tensor) and bool(_api.TensorEqual(self, other))

    __hash__ = Object.__hash__

    # Arithmetic is element by element, with broadcasting.
    def __add__(self, other):
        return _topi("add", self, other)

    def __radd__(self, other):
        return _topi("add", other, self)

    def __sub__(self, other):
        return _topi("subtract", self, other)

    def __rsub__(self, other):
        return _topi("subtract", other, self)

    def __mul__(self, other):
        return _topi("multiply", self, other)

    def __rmul__(self, other):
        return _topi("multiply", other, self)

    def __truediv__(self, other):
        return _topi("divide", self, other)

    def __rtruediv__(self, other):
        return _topi("divide", other, self)

    def __neg__(self):
        return _topi("negative", self)

    def __str__(self):
        return f"Tensor(shape={list(self.shape)}, op.name={self.op.name})"

    __repr__ = __str__
