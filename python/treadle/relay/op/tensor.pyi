# SPDX-License-Identifier: Apache-2.0
# Written by tools/docs/op_stubs.py.
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from treadle._typing import DTypeLike, ExprLike
from treadle.relay.expr import Expr, TupleWrapper

Sizes = int | Expr | Sequence[int | Expr]


def abs(data: ExprLike) -> Expr:
    """Absolute value."""

def acos(data: ExprLike) -> Expr:
    """Arc cosine."""

def acosh(data: ExprLike) -> Expr:
    """Inverse hyperbolic cosine."""

def add(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """lhs + rhs."""

def adv_index(inputs: ExprLike) -> Expr:
    """Elements picked by index tensors of the leading dimensions."""

def all(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False,
        **more: Any) -> Expr:
    """Whether all are true."""

def any(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False,
        **more: Any) -> Expr:
    """Whether any is true."""

def arange(start: ExprLike, stop: ExprLike | None = None, step: ExprLike | None = None, dtype: DTypeLike = 'float32'
        ) -> Expr:
    """The numbers from `start` (0 when only one bound is given) to `stop`, which isn't one of them, by
    `step`."""

def argmax(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False,
        **more: Any) -> Expr:
    """Index of the greatest element, counted over the reduced dimensions."""

def argmin(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False,
        **more: Any) -> Expr:
    """Index of the smallest element, counted over the reduced dimensions."""

def argsort(data: ExprLike, axis: int = -1, is_ascend: bool = True, dtype: DTypeLike = 'int32') -> Expr:
    """Indices that sort along a dimension."""

def argwhere(condition: ExprLike) -> Expr:
    """Coordinates of the nonzero elements."""

def asin(data: ExprLike) -> Expr:
    """Arc sine."""

def asinh(data: ExprLike) -> Expr:
    """Inverse hyperbolic sine."""

def atan(data: ExprLike) -> Expr:
    """Arc tangent."""

def atanh(data: ExprLike) -> Expr:
    """Inverse hyperbolic tangent."""

def bitwise_and(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Bits set in both."""

def bitwise_not(data: ExprLike) -> Expr:
    """All bits inverted."""

def bitwise_or(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Bits set in either."""

def bitwise_xor(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Bits set in one of them."""

def broadcast_to(data: ExprLike, shape: Any) -> Expr:
    """`data` repeated along its dimensions of size 1 until it has the shape."""

def broadcast_to_like(data: ExprLike, shape_like: ExprLike) -> Expr:
    """Broadcast to the shape of the other tensor."""

def cast(data: ExprLike, dtype: DTypeLike) -> Expr:
    """The values as another type."""

def cast_like(data: ExprLike, dtype_like: ExprLike) -> Expr:
    """Conversion to the element type of the other tensor."""

def ceil(data: ExprLike) -> Expr:
    """Least integer not below x."""

def check_values(values: ExprLike, limits: ExprLike, rule: str = 'index', where: str = '', what: str = '',
        exempt: Any = None) -> Expr:
    """The values, if they keep a rule; else the model stops with an error."""

def clip(a: ExprLike, a_min: float, a_max: float) -> Expr:
    """The values within bounds."""

def collapse_sum_like(data: ExprLike, collapse_type: ExprLike) -> Expr:
    """Sum over the dimensions that broadcasting would have added or enlarged."""

def collapse_sum_to(data: ExprLike, shape: Any) -> Expr:
    """The sum over the dimensions that broadcasting from the shape (a tensor, or numbers) would add or
    enlarge."""

def concatenate(data: Any, axis: int) -> Expr:
    """Tensors one after another along a dimension."""

def contrib_reverse_reshape(data: ExprLike, newshape: Any, allowzero: bool = False) -> Expr:
    """Reshape whose codes are read from the last dimension on."""

def copy(data: ExprLike) -> Expr:
    """The same values in a tensor of its own."""

def cos(data: ExprLike) -> Expr:
    """Cosine."""

def cosh(data: ExprLike) -> Expr:
    """Hyperbolic cosine."""

def cumprod(data: ExprLike, axis: int | Sequence[int] | None = None, dtype: DTypeLike = 'void', exclusive: bool = False,
        reverse: bool = False) -> Expr:
    """Products of all elements up to each."""

def cumsum(data: ExprLike, axis: int | Sequence[int] | None = None, dtype: DTypeLike = 'void', exclusive: bool = False,
        reverse: bool = False) -> Expr:
    """Sums of all elements up to each."""

def device_copy(data: ExprLike, src_device: Any, dst_device: Any) -> Expr:
    """The value on another device."""

def divide(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """lhs / rhs; integers truncate, a zero divisor gives 0."""

def einsum(data: Any, equation: str) -> Expr:
    """Einstein's sum of products."""

def equal(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """lhs == rhs."""

def erf(data: ExprLike) -> Expr:
    """Error function."""

def exp(data: ExprLike) -> Expr:
    """e to the power of x."""

def expand_dims(data: ExprLike, axis: int, num_newaxis: int = 1) -> Expr:
    """With more dimensions of size 1."""

def fast_erf(data: ExprLike) -> Expr:
    """erf where an error of 1e-5 will do."""

def fast_exp(data: ExprLike) -> Expr:
    """exp where a relative error of 1e-5 will do."""

def fast_tanh(data: ExprLike) -> Expr:
    """tanh where an error of 1e-5 will do."""

def fixed_point_multiply(data: ExprLike, multiplier: int = 0, shift: int = 0) -> Expr:
    """x * multiplier * 2^(shift - 31), rounded half up; int32."""

def floor(data: ExprLike) -> Expr:
    """Greatest integer not above x."""

def floor_divide(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """floor(lhs / rhs); an integer zero divisor gives 0."""

def floor_mod(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Remainder of floor division: has the sign of rhs. An integer zero divisor gives 0."""

def full(fill_value: ExprLike, shape: Any = (), dtype: DTypeLike = '') -> Expr:
    """A tensor filled with a scalar, of the scalar's type unless `dtype` says another."""

def full_like(data: ExprLike, fill_value: ExprLike) -> Expr:
    """A tensor of the shape and type of `data` filled with a scalar."""

def gather(data: ExprLike, axis: int, indices: ExprLike) -> Expr:
    """Elements along an axis, by an index for each element of the result."""

def gather_nd(data: ExprLike, indices: ExprLike, batch_dims: int = 0, index_rank: int | None = None) -> Expr:
    """Slices of `data` at the coordinates along the first dimension of the indices."""

def greater(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """lhs > rhs."""

def greater_equal(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """lhs >= rhs."""

def invert_permutation(data: ExprLike) -> Expr:
    """The inverse of a permutation."""

def isfinite(data: ExprLike) -> Expr:
    """Whether x is neither infinite nor NaN."""

def isinf(data: ExprLike) -> Expr:
    """Whether x is infinite."""

def isnan(data: ExprLike) -> Expr:
    """Whether x is NaN."""

def layout_transform(data: ExprLike, src_layout: str, dst_layout: str) -> Expr:
    """The tensor in another layout: "NCHW" to "NHWC", "NCHW16c", ..."""

def left_shift(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """lhs << rhs; 0 from the width on."""

def less(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """lhs < rhs."""

def less_equal(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """lhs <= rhs."""

def log(data: ExprLike) -> Expr:
    """Natural logarithm."""

def log10(data: ExprLike) -> Expr:
    """Logarithm to base 10."""

def log2(data: ExprLike) -> Expr:
    """Logarithm to base 2."""

def logical_and(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Whether both are nonzero."""

def logical_not(data: ExprLike) -> Expr:
    """True where x is zero."""

def logical_or(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Whether either is nonzero."""

def logical_xor(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Whether one of them is nonzero."""

def logsumexp(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expr:
    """The logarithm of the sum of exponentials, without overflow."""

def matrix_set_diag(data: ExprLike, diagonal: ExprLike, k: int | Sequence[int] = 0, align: str = 'RIGHT_LEFT') -> Expr:
    """A matrix with other diagonals: those from k[0] to k[1], aligned to super- and subdiagonals as `align`
    says."""

def max(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False,
        **more: Any) -> Expr:
    """Greatest element; NaN wins."""

def maximum(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """The greater; NaN if either is."""

def mean(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False,
        **more: Any) -> Expr:
    """Arithmetic mean; integers truncate."""

def mean_std(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False
        ) -> TupleWrapper:
    """Mean and standard deviation."""

def mean_variance(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        exclude: bool = False, unbiased: bool = False) -> TupleWrapper:
    """Mean and variance."""

def meshgrid(data: Any, indexing: str = 'ij') -> TupleWrapper:
    """Coordinates of a grid, one tensor per vector."""

def min(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False,
        **more: Any) -> Expr:
    """Smallest element; NaN wins."""

def minimum(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """The smaller; NaN if either is."""

def mod(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """Remainder of truncating division: has the sign of lhs. An integer zero divisor gives 0."""

def multiply(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """lhs * rhs."""

def ndarray_size(data: ExprLike, dtype: DTypeLike = 'int32') -> Expr:
    """The number of elements of a tensor, as a scalar."""

def negative(data: ExprLike) -> Expr:
    """-x."""

def nms_padded(boxes: ExprLike, scores: ExprLike, most: ExprLike, iou_threshold: ExprLike, score_threshold: ExprLike,
        center_point_box: bool = False) -> Expr:
    """Non-maximum suppression: (batch, class, box) of the boxes that are kept in the first `count` rows."""

def nonzero_padded(data: ExprLike) -> Expr:
    """Coordinates of the nonzero elements (size, rank), of which the first `count` rows are set, and count."""

def not_equal(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """lhs != rhs."""

def on_device(data: ExprLike, device_type: int = 0, is_fixed: bool = False) -> Expr:
    """Computed on the given device."""

def one_hot(indices: ExprLike, on_value: ExprLike, off_value: ExprLike, depth: int | Expr, axis: int, dtype: DTypeLike
        ) -> Expr:
    """`on_value` where the place along a new dimension is the index, else `off_value`."""

def ones(shape: Any, dtype: DTypeLike) -> Expr:
    """A tensor of ones."""

def ones_like(data: ExprLike) -> Expr:
    """1 in the input's shape and type."""

def power(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """lhs to the power of rhs."""

def prod(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False,
        **more: Any) -> Expr:
    """Product; of bool: whether all are true."""

def reinterpret(data: ExprLike, dtype: DTypeLike) -> Expr:
    """The same bits as another element type of equal size."""

def repeat(data: ExprLike, repeats: int, axis: int) -> Expr:
    """Each element `repeats` times along a dimension."""

def reshape(data: ExprLike, newshape: Any, allowzero: bool = False) -> Expr:
    """The same elements in another shape. 0 keeps a dimension, -1 is what is left, -2 keeps all remaining ones,
    -3 joins two, -4 splits one into the two that follow."""

def reshape_like(data: ExprLike, shape_like: ExprLike) -> Expr:
    """The same elements in the shape of the other tensor."""

def reverse(data: ExprLike, axis: int) -> Expr:
    """The elements of a dimension in reverse."""

def reverse_reshape(data: ExprLike, newshape: ExprLike) -> Expr:
    """reshape, its codes read from the last dimension on: 0 keeps the dimension that is as far from the end."""

def reverse_sequence(data: ExprLike, seq_lengths: ExprLike, seq_axis: int = 1, batch_axis: int = 0) -> Expr:
    """The first elements of a dimension in reverse, as many as each batch says."""

def right_shift(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """lhs >> rhs; arithmetic for signed types."""

def round(data: ExprLike) -> Expr:
    """Nearest integer, halves to even."""

def rsqrt(data: ExprLike) -> Expr:
    """One over the square root."""

def scatter(data: ExprLike, indices: ExprLike, updates: ExprLike, axis: int = 0, reduction: str = 'update') -> Expr:
    """Elements written whose index along one dimension is given."""

def scatter_add(data: ExprLike, indices: ExprLike, updates: ExprLike, axis: int = 0, reduction: str = 'update'
        ) -> Expr:
    """Elements added to, whose index along one dimension is given."""

def scatter_nd(data: ExprLike, indices: ExprLike, updates: ExprLike, mode: str = 'update') -> Expr:
    """Slices written at indices of several dimensions."""

def searchsorted(sorted_sequence: ExprLike, values: ExprLike, right: bool = False, dtype: DTypeLike = 'int32') -> Expr:
    """Where values belong in a sorted sequence."""

def segment_sum(data: ExprLike, segment_ids: ExprLike, num_segments: int | None = None) -> Expr:
    """Sums of the rows that have the same id. num_segments: rows of the result; None: as many as the largest id
    + 1 (known where segment_ids are constant)."""

def sequence_mask(data: ExprLike, valid_length: ExprLike, mask_value: float = ..., axis: int = 0) -> Expr:
    """Elements past each batch's length replaced by a value."""

def shape_of(data: ExprLike, dtype: DTypeLike = 'int32') -> Expr:
    """The dimensions of a tensor, as a vector."""

def sigmoid(data: ExprLike) -> Expr:
    """1 / (1 + exp(-x))."""

def sign(data: ExprLike) -> Expr:
    """-1, 0 or 1; NaN stays."""

def sin(data: ExprLike) -> Expr:
    """Sine."""

def sinh(data: ExprLike) -> Expr:
    """Hyperbolic sine."""

def slice_like(data: ExprLike, slice_like: ExprLike, axes: Sizes = ()) -> Expr:
    """The first elements, as many as the other tensor has."""

def sliding_window(data: ExprLike, axis: int = 0, window_shape: Any = None, strides: Any = None) -> Expr:
    """The windows of some elements of each dimension from `axis` on, as dimensions of their own."""

def sort(data: ExprLike, axis: int = -1, is_ascend: bool = True, dtype: DTypeLike = 'int32') -> Expr:
    """Sorted along a dimension."""

def sparse_fill_empty_rows(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: how many rows it gives is only known when it runs; sparse_reshape, segment_sum and
    sparse_to_dense work on rows that are there."""

def sparse_reshape(sparse_indices: ExprLike, prev_shape: ExprLike, new_shape: ExprLike) -> TupleWrapper:
    """Where the elements of a sparse tensor are in another shape of it: (indices, shape). The shapes are
    known."""

def sparse_to_dense(sparse_indices: ExprLike, output_shape: Sequence[int], sparse_values: ExprLike,
        default_value: ExprLike = 0) -> Expr:
    """A tensor of `default_value` with other values at some places."""

def split(data: ExprLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> TupleWrapper:
    """Parts along a dimension: so many equal ones, or cut before the indices."""

def sqrt(data: ExprLike) -> Expr:
    """Square root."""

def squeeze(data: ExprLike, axis: int | Sequence[int] | Expr | None = None) -> Expr:
    """Without the dimensions of size 1 that `axis` names (None: all)."""

def stack(data: Any, axis: int) -> Expr:
    """Tensors along a new dimension."""

def std(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False,
        unbiased: bool = False) -> Expr:
    """The square root of the variance."""

def strided_set(data: ExprLike, v: ExprLike, begin: Any, end: Any, strides: Any = None) -> Expr:
    """`data` with the slice replaced by `v`."""

def strided_slice(data: ExprLike, begin: Any, end: Any, strides: Any = None, axes: Sequence[int] | None = None,
        slice_mode: str = 'end') -> Expr:
    """Elements from `begin` to `end` by `strides` along each dimension (or along `axes`). slice_mode "size":
    `end` says how many elements, -1 all that are left."""

def subtract(lhs: ExprLike, rhs: ExprLike) -> Expr:
    """lhs - rhs."""

def sum(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False,
        **more: Any) -> Expr:
    """Sum; of bool: whether any is true."""

def take(data: ExprLike, indices: ExprLike, axis: int | None = None, batch_dims: int = 0, mode: str = 'clip') -> Expr:
    """The elements of `data` at the indices: along a dimension, or of the flattened tensor."""

def tan(data: ExprLike) -> Expr:
    """Tangent."""

def tanh(data: ExprLike) -> Expr:
    """Hyperbolic tangent."""

def tile(data: ExprLike, reps: Any) -> Expr:
    """`data` repeated as a whole, `reps` times along each dimension."""

def topk(data: ExprLike, k: int | Expr = 1, axis: int = -1, ret_type: str = 'both', is_ascend: bool = False,
        dtype: DTypeLike = 'int32') -> Any:
    """The k largest elements along a dimension: values and indices ("both"), "values" or "indices"."""

def transpose(data: ExprLike, axes: Sequence[int] | None = None) -> Expr:
    """The dimensions in another order; None: reversed."""

def tree_leaves(data: ExprLike, roots: ExprLike, depths: ExprLike, features: ExprLike, splits: ExprLike,
        children: ExprLike, kinds: ExprLike, depth: int = 0, tests: Sizes = (), missing: bool = False) -> Expr:
    """The leaf where each row ends in each tree (rows, trees)."""

def trilu(data: ExprLike, k: ExprLike, upper: bool = True) -> Expr:
    """The upper or lower triangle of a matrix."""

def trunc(data: ExprLike) -> Expr:
    """Integer part."""

def unique(data: ExprLike, is_sorted: bool = True, return_counts: bool = False) -> TupleWrapper:
    """The distinct elements, where they are, and on request how often."""

def unravel_index(indices: ExprLike, shape: ExprLike) -> Expr:
    """Coordinates of flat indices."""

def variance(data: ExprLike, axis: int | Sequence[int] | None = None, keepdims: bool = False, exclude: bool = False,
        unbiased: bool = False, with_mean: ExprLike | None = None) -> Expr:
    """The mean squared distance from the mean."""

def where(condition: ExprLike, x: ExprLike, y: ExprLike) -> Expr:
    """x where the condition is nonzero, else y."""

def zeros(shape: Any, dtype: DTypeLike) -> Expr:
    """A tensor of zeros."""

def zeros_like(data: ExprLike) -> Expr:
    """0 in the input's shape and type."""
