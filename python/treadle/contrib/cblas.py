# SPDX-License-Identifier: Apache-2.0
"""Matrix products by a library: NumPy's, which code compiled in this process calls by name."""
from typing import Any

import numpy as np

from .._ffi import register_func
from ..te import extern
from ..tir import call_packed


def _product(name):
    def compute(a, b, c, transa=False, transb=False, *_):
        a, b = a.numpy(), b.numpy()
        a = np.swapaxes(a, -1, -2) if transa else a
        b = np.swapaxes(b, -1, -2) if transb else b
        c.copyfrom(np.matmul(a, b).astype(str(c.dtype), copy=False))

    register_func(name, compute, override=True)
    return name


_MATMUL = _product("tvm.contrib.cblas.matmul")
_BATCH_MATMUL = _product("tvm.contrib.cblas.batch_matmul")


def matmul(lhs: Any, rhs: Any, transa: bool = False, transb: bool = False, **kwargs: Any) -> Any:
    """The product of two matrices (tensors), computed by the library."""
    shape = (lhs.shape[1] if transa else lhs.shape[0], rhs.shape[0] if transb else rhs.shape[1])
    return extern(shape, [lhs, rhs], lambda ins, outs: call_packed(_MATMUL, ins[0], ins[1], outs[0], transa, transb),
                  name="C", **kwargs)


def batch_matmul(lhs: Any, rhs: Any, transa: bool = False, transb: bool = False, **kwargs: Any) -> Any:
    """Products of stacks of matrices."""
    shape = (lhs.shape[0], lhs.shape[2] if transa else lhs.shape[1], rhs.shape[1] if transb else rhs.shape[2])
    return extern(shape, [lhs, rhs],
                  lambda ins, outs: call_packed(_BATCH_MATMUL, ins[0], ins[1], outs[0], transa, transb), name="C",
                  **kwargs)
