# SPDX-License-Identifier: Apache-2.0
"""Products and sums with sparse matrices, as expressions of gathers and scatters. A sparse matrix is (data, indices,
indptr): in the form CSR data has one dimension, in the form BSR it is (blocks, rows, columns of a block)."""
from ...error import Error
from ..expr import Constant, Expr, TupleWrapper, Tuple, as_expr, const
from ._functions import arange, concatenate, reshape, strided_slice, take, transpose, zeros
from ._make import call_op, make
from ._types import dtype_of, static_shape


def _parts(matrix):
    if hasattr(matrix, "indptr"):
        matrix = (matrix.data, matrix.indices, matrix.indptr)
    if not isinstance(matrix, (tuple, list)) or len(matrix) != 3:
        raise TypeError(f"a sparse matrix is (data, indices, indptr), not {type(matrix).__name__}")
    return [as_expr(part) for part in matrix]


def _rows(indptr, count):
    """The row of each element (or block): int32."""
    ends = strided_slice(indptr, [1], [static_shape(indptr, "a sparse matrix")[0]], axes=[0])
    return make("searchsorted")(ends, arange(0, count, 1, dtype_of(indptr)), right=True, dtype="int32")


def _zero_rows(updates, size):
    """Zeros (size, ..) with the inner dimensions and the type of updates (n, ..)."""
    try:
        return zeros([size, *static_shape(updates, "a sparse product")[1:]], dtype_of(updates))
    except Error:  # types that don't fit yet: annotations of parameters that are bound later
        return make("zeros_like")(take(updates, zeros([size], "int32"), axis=0))


def _sum_rows(updates, count, rows, size):
    """updates (count, ..) summed by row: (size, ..)"""
    return make("scatter_nd")(_zero_rows(updates, size), reshape(rows, [1, count]), updates, mode="add")


def sparse_dense(dense_mat, sparse_mat, sparse_lhs=False):
    """dense_mat times the transposed sparse matrix; with sparse_lhs the sparse matrix times the transposed dense one."""
    data, indices, indptr = _parts(sparse_mat)
    try:
        rows, columns = static_shape(dense_mat, "nn.sparse_dense")
    except Error:  # as in _zero_rows
        rows = columns = 0
    shape = static_shape(data, "nn.sparse_dense")
    outputs = static_shape(indptr, "nn.sparse_dense")[0] - 1
    of_block = _rows(indptr, shape[0])
    if len(shape) == 1:
        terms = take(transpose(dense_mat), indices, axis=0) * reshape(data, [shape[0], 1])
        result = _sum_rows(terms, shape[0], of_block, outputs)  # (outputs, rows)
    elif len(shape) == 3:
        _, height, width = shape
        if columns % width:
            raise ValueError(f"nn.sparse_dense: blocks of {width} columns don't fit {columns}")
        blocks = transpose(reshape(dense_mat, [0, -1, width]), [1, 0, 2])
        terms = make("nn.batch_matmul")(data, take(blocks, indices, axis=0))  # (blocks, height, rows)
        result = reshape(_sum_rows(terms, shape[0], of_block, outputs), [outputs * height, rows or -1])
    else:
        raise ValueError(f"nn.sparse_dense: data has 1 (CSR) or 3 dimensions (BSR), not {len(shape)}")
    return result if sparse_lhs else transpose(result)


def sparse_transpose(x):
    """The transposed square matrix in the form CSR: data, indices, indptr."""
    data, indices, indptr = _parts(x)
    count, size = static_shape(data, "nn.sparse_transpose")[0], static_shape(indptr, "nn.sparse_transpose")[0] - 1
    rows = _rows(indptr, count)
    columns = call_op("cast", [indices], {"dtype": "int32"})
    order = make("argsort")(columns * const(size, "int32") + rows, axis=0, dtype="int32")
    pointers = make("searchsorted")(take(columns, order, axis=0), arange(0, size + 1, 1, "int32"), right=False,
                                    dtype="int32")
    fields = [take(data, order, axis=0), call_op("cast", [take(rows, order, axis=0)], {"dtype": dtype_of(indices)}),
              call_op("cast", [pointers], {"dtype": dtype_of(indptr)})]
    return TupleWrapper(Tuple(fields), 3)


def sparse_add(dense_mat, sparse_mat):
    """The sum of a dense matrix and one in the form CSR."""
    data, indices, indptr = _parts(sparse_mat)
    count = static_shape(data, "nn.sparse_add")[0]
    at = [reshape(call_op("cast", [part], {"dtype": "int32"}), [1, count]) for part in (_rows(indptr, count), indices)]
    return make("scatter_nd")(dense_mat, concatenate(at, 0), data, mode="add")


def segment_sum(data, segment_ids, num_segments=None):
    """Sums of the rows that have the same id. num_segments: rows of the result; None: as many as the largest id + 1
    (known where segment_ids are constant)."""
    if num_segments is None:
        if not isinstance(segment_ids, Constant):
            raise ValueError("segment_sum: num_segments is needed where segment_ids are computed")
        num_segments = int(segment_ids.data.numpy().max()) + 1
    if isinstance(num_segments, Expr):
        if not isinstance(num_segments, Constant):
            raise ValueError("segment_sum: num_segments must be known")
        num_segments = int(num_segments.data.numpy().reshape(-1)[0])
    return _sum_rows(data, static_shape(data, "segment_sum")[0], segment_ids, num_segments)


def sparse_reshape(sparse_indices, prev_shape, new_shape):
    """Where the elements of a sparse tensor are in another shape of it: (indices, shape). The shapes are known."""
    before, after = (_numbers(shape, "sparse_reshape") for shape in (prev_shape, new_shape))
    total = 1
    for dim in before:
        total *= dim
    rest = 1
    for dim in after:
        rest *= dim if dim != -1 else 1
    after = [total // max(rest, 1) if dim == -1 else dim for dim in after]
    wanted = 1
    for dim in after:
        wanted *= dim
    if wanted != total:
        raise ValueError(f"sparse_reshape: {before} has {total} elements, {after} {wanted}")
    dtype = dtype_of(sparse_indices)
    flat = make("sum")(sparse_indices * const([_step(before, i) for i in range(len(before))], dtype), axis=[1])
    columns = []
    for i, dim in enumerate(after):
        at = make("floor_divide")(flat, const(_step(after, i), dtype))
        columns.append(make("floor_mod")(at, const(dim, dtype)))
    return TupleWrapper(Tuple([make("stack")(Tuple(columns), axis=1), const(after, dtype)]), 2)


def _step(shape, i):
    step = 1
    for dim in shape[i + 1:]:
        step *= dim
    return step


def _numbers(value, what):
    if isinstance(value, Constant):
        value = value.data.numpy().tolist()
    if isinstance(value, Expr):
        raise ValueError(f"{what}: the shapes must be known, not computed")
    return [int(v) for v in value]


NN = {function.__name__: function for function in (sparse_dense, sparse_transpose, sparse_add)}
ROOT = {"segment_sum": segment_sum, "sparse_reshape": sparse_reshape}
