# SPDX-License-Identifier: Apache-2.0
"""Products with sparse matrices as tensor expressions: `topi.nn.sparse_dense` with data, indices and indptr apart, in CSR
(data of one dimension) or BSR (blocks)."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import te
from . import utils

_NAMES = ("W_data", "W_indices", "W_indptr")


def _rows(indptr, index):
    """(first element, axis over the elements) of a row of a sparse matrix."""
    first = indptr[index]
    return first, te.reduce_axis((0, indptr[index + 1] - first), name="elem_idx")


def _blocks(matrix, data, indices, indptr, at, side):
    """Products of block rows with the matrix: (the stage by blocks, number of block rows, rows of a block)."""
    rows, (_, height, width) = int(indptr.shape[0]) - 1, (int(d) for d in data.shape)

    def element(*index):
        i, block_row, row = at(*index)
        first, e = _rows(indptr, block_row)
        c = te.reduce_axis((0, width), name="c")
        return te.sum(data[first + e, row, c] * matrix[i, width * indices[first + e] + c], axis=[e, c])

    lines = int(matrix.shape[0])
    shape = (lines, rows, height) if side == "rhs" else (rows, height, lines)
    return te.compute(shape, element, name=f"sparse_{side}_block", tag=f"sparse_dense_sp_{side}_bsrmm_block"), rows, height


def sparse_dense(dense_data: te.Tensor, sparse_data: Any, sparse_indices: te.Tensor | None = None,
                 sparse_indptr: te.Tensor | None = None, sparse_lhs: bool = False) -> te.Tensor:
    """dense_data (M, K) times the transpose of a sparse matrix (N, K): (M, N). sparse_lhs: the transpose of that. The
    sparse matrix is three tensors, or a tuple of them."""
    if sparse_indices is None or sparse_indptr is None:
        data, indices, indptr = sparse_data
    else:
        data, indices, indptr = sparse_data, sparse_indices, sparse_indptr
    lines, rows = int(dense_data.shape[0]), int(indptr.shape[0]) - 1
    side = "lhs" if sparse_lhs else "rhs"
    if len(data.shape) == 1:
        def element(*index):
            i, row = reversed(index) if sparse_lhs else index
            first, e = _rows(indptr, row)
            return te.sum(data[first + e] * dense_data[i, indices[first + e]], axis=e)

        shape = (rows, lines) if sparse_lhs else (lines, rows)
        return te.compute(shape, element, name=f"sparse_{side}", tag=f"sparse_dense_sp_{side}_csrmm")
    if len(data.shape) != 3:
        raise ValueError(f"sparse_dense: data of {len(data.shape)} dimensions; expected 1 (CSR) or 3 (BSR)")
    tag = f"sparse_dense_sp_{side}_bsrmm"
    if sparse_lhs:
        block, rows, height = _blocks(dense_data, data, indices, indptr, lambda row, j, i: (i, row, j), side)
        return te.compute((rows * height, lines), lambda m, n: block[m // height, m % height, n], name=f"sparse_{side}",
                          tag=tag)
    block, rows, height = _blocks(dense_data, data, indices, indptr, lambda i, row, j: (i, row, j), side)
    return te.compute((lines, rows * height), lambda m, n: block[m, n // height, n % height], name=f"sparse_{side}", tag=tag)


def csrmm(a: Any, b: te.Tensor, c: te.Tensor | None = None) -> te.Tensor:
    """a (M, K), of contrib.sparse.placeholder, times b (K, N), plus c (M) in each column."""
    def element(i, j):
        first, e = _rows(a.indptr, i)
        return te.sum(a.data[first + e] * b[a.indices[first + e], j], axis=e)

    product = te.compute((int(a.indptr.shape[0]) - 1, b.shape[1]), element, name="csrmm", tag="csrmm")
    if c is None:
        return product
    return te.compute(product.shape, lambda i, j: product[i, j] + c[i], name="csrmm_bias", tag="broadcast")


def csrmv(a: Any, x: te.Tensor, y: te.Tensor | None = None) -> te.Tensor:
    """a (M, K), of contrib.sparse.placeholder, times x (K, 1), plus y (M)."""
    return csrmm(a, x, y)


def dense(data: Any, weight: Any, bias: te.Tensor | None = None) -> te.Tensor:
    """data (M, K) times the transpose of weight (N, K), plus bias (N). One of the two is sparse, of
    contrib.sparse.placeholder."""
    if hasattr(data, "indptr") == hasattr(weight, "indptr"):
        raise ValueError("sparse.dense: expected one sparse operand, data or weight")
    if hasattr(weight, "indptr"):
        product = sparse_dense(data, weight.data, weight.indices, weight.indptr)
    else:
        def element(i, j):
            first, e = _rows(data.indptr, i)
            return te.sum(data.data[first + e] * weight[j, data.indices[first + e]], axis=e)

        product = te.compute((int(data.indptr.shape[0]) - 1, weight.shape[0]), element, name="sparse_lhs", tag="csrmm")
    if bias is None:
        return product
    return te.compute(product.shape, lambda i, j: product[i, j] + bias[j], name="dense_bias", tag="broadcast")


def inputs_of_sparse_products(args: Sequence[te.Tensor]) -> dict[te.Tensor, str]:
    """The tensors of a computation that make up the sparse side of a `sparse_dense`, with the names that tuning tasks give
    their values by: sparse_dense_bsr_N_K_rows_columns_blocks_indptr_W_data, .. (`read`: the tensors that an operation
    reads)."""
    found: dict[te.Tensor, str] = {}
    work, met = [tensor.op for tensor in args], []
    while work:
        op = work.pop()
        if any(op.same_as(other) for other in met):
            continue
        met.append(op)
        sources = list(getattr(op, "input_tensors", []))
        work += [tensor.op for tensor in sources]
        tag = str(getattr(op, "tag", ""))
        if not tag.startswith("sparse_dense_sp_") or not tag.endswith(("bsrmm_block", "csrmm")):
            continue
        is_int = [str(tensor.dtype).startswith("int") for tensor in sources]
        rank = 3 if tag.endswith("block") else 1
        (data,) = [t for t, i in zip(sources, is_int) if not i and len(t.shape) == rank]
        (matrix,) = [t for t, i in zip(sources, is_int) if not i and len(t.shape) == 2]
        indices = next(t for t, i in zip(sources, is_int) if i and int(t.shape[0]) == int(data.shape[0]))
        indptr = next(t for t, i in zip(sources, is_int) if i and not t.same_as(indices))
        rows = int(indptr.shape[0]) - 1
        block = [int(d) for d in data.shape[1:]] or [1, 1]
        prefix = "_".join(map(str, ["sparse_dense", "bsr" if rank == 3 else "csr", rows * block[0], int(matrix.shape[1]),
                                    *(block if rank == 3 else []), int(indices.shape[0]), int(indptr.shape[0])]))
        found.update({tensor: f"{prefix}_{name}" for tensor, name in zip((data, indices, indptr), _NAMES)})
    return found


__all__ = ["csrmm", "csrmv", "dense", "inputs_of_sparse_products", "sparse_dense", "utils"]
