# SPDX-License-Identifier: Apache-2.0
"""Sparse matrices of rows (CSR), as tensors of values, columns and row pointers."""
from typing import Any

import numpy as np

from ..nd import NDArray, array as _dense
from ..te import placeholder as _placeholder


class CSRNDArray:
    """A sparse matrix: `data` are the values that aren't 0 row by row, `indices` their columns (int32), `indptr` where
    each row begins among them, one more than there are rows (int32)."""

    def __init__(self, arg1: Any, device: Any = None, shape: Any = None) -> None:
        if isinstance(arg1, (tuple, list)):
            if shape is None:
                raise ValueError("a matrix of (data, indices, indptr) needs its shape")
            data, indices, indptr = arg1
        else:
            source = arg1.numpy() if isinstance(arg1, NDArray) else np.asarray(arg1)
            if source.ndim != 2:
                raise ValueError(f"sparse matrices have two dimensions, not {source.ndim}")
            rows, columns = source.nonzero()
            data, indices, shape = source[rows, columns], columns, source.shape
            indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
        self.data, self.indices, self.indptr = (
            value if isinstance(value, NDArray) else _dense(np.asarray(value).astype(kind, copy=False), device)
            for value, kind in ((data, np.asarray(data).dtype if not isinstance(data, NDArray) else None),
                                (indices, "int32"), (indptr, "int32")))
        self.shape, self.dtype, self.stype = tuple(shape), str(self.data.dtype), "csr"

    def numpy(self) -> Any:
        """The matrix with its zeros."""
        full = np.zeros(self.shape, self.dtype)
        pointers = self.indptr.numpy()
        rows = np.repeat(np.arange(self.shape[0]), np.diff(pointers))
        full[rows, self.indices.numpy()] = self.data.numpy()
        return full

    asnumpy = numpy


class CSRPlaceholderOp:
    """A sparse matrix among the parameters of a function: placeholders `data`, `indices` and `indptr`."""

    def __init__(self, shape: Any, nonzeros: Any, dtype: Any, name: str) -> None:
        self.shape, self.dtype, self.name, self.stype = shape, dtype, name, "csr"
        self.data = _placeholder((nonzeros,), dtype=dtype, name=name + "_data")
        self.indices = _placeholder((nonzeros,), dtype="int32", name=name + "_indices")
        self.indptr = _placeholder((shape[0] + 1,), dtype="int32", name=name + "_indptr")


def _check(stype):
    if stype not in (None, "csr"):
        raise NotImplementedError(f"sparse matrices of storage {stype!r} aren't there, only of 'csr'")


def placeholder(shape: Any, nonzeros: Any = None, dtype: Any = None, name: str = "placeholder",
                stype: Any = None) -> "CSRPlaceholderOp":
    """A sparse matrix of a shape (rows, columns) and a number of values that aren't 0."""
    _check(stype)
    shape = shape if isinstance(shape, (tuple, list)) else (shape,)
    return CSRPlaceholderOp(shape, 0 if nonzeros is None else nonzeros, dtype or "float32", name)


def array(source_array: Any, device: Any = None, shape: Any = None, stype: str = "csr") -> "CSRNDArray":
    """A sparse matrix of a dense one, or of (data, indices, indptr)."""
    _check(stype)
    return CSRNDArray(source_array, device, shape)


csr = array
