# SPDX-License-Identifier: Apache-2.0
# Written by tools/docs/op_stubs.py.
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from treadle._typing import DTypeLike, ExprLike
from treadle.relay.expr import Expr, TupleWrapper

Sizes = int | Expr | Sequence[int | Expr]


def add(lhs: ExprLike, rhs: ExprLike, lhs_scale: ExprLike, lhs_zero_point: ExprLike, rhs_scale: ExprLike,
        rhs_zero_point: ExprLike, output_scale: ExprLike, output_zero_point: ExprLike) -> Expr:
    """Sum of quantised tensors."""

def batch_matmul(data: ExprLike, weight: ExprLike, input_zero_point: ExprLike, kernel_zero_point: ExprLike,
        input_scale: ExprLike, kernel_scale: ExprLike, out_dtype: DTypeLike = 'void', transpose_a: bool = False,
        transpose_b: bool = True) -> Expr:
    """Quantised matrix product of each batch, in int32."""

def concatenate(data: ExprLike, input_scales: ExprLike, input_zero_points: ExprLike, output_scale: ExprLike,
        output_zero_point: ExprLike, axis: int = 0) -> Expr:
    """Joins quantised tensors, each with its own scale and zero point."""

def contrib_block_dense(data: ExprLike, low: ExprLike, scales: ExprLike, sums: ExprLike, weight: ExprLike,
        units: int = 0, bits: int = 4, digits: int = 1, symmetric: bool = False) -> Expr:
    """Data of 8 or 16 bits times weights of 4 or 8 bits, both with scales per block, in float32."""

def contrib_block_product(data: ExprLike, weight: ExprLike, units: int = 0, bits: int = 4, digits: int = 1,
        symmetric: bool = False, zero_point: float = ...) -> Expr:
    """Rows times weights of 4 or 8 bits that have a scale per block, as qnn.contrib_block_dense has them."""

def contrib_block_tiles(data: ExprLike, weight: ExprLike, units: int = 0, bits: int = 4, digits: int = 1,
        symmetric: bool = False, zero_point: float = ...) -> Expr:
    """Rows times weights of 4 or 8 bits that have a scale per block, in products of bfloat16."""

def contrib_conv2d(data: ExprLike, weight: ExprLike, pad_value: ExprLike, strides: Sizes = (1, 1),
        padding: Sizes = (0, 0), dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None,
        kernel_size: Sizes | None = None, data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '',
        out_dtype: DTypeLike = 'void') -> Expr:
    """Convolution of bytes as they are, in int32. Padding holds pad_value."""

def contrib_conv2d_NCHWc(data: ExprLike, weight: ExprLike, pad_value: ExprLike, strides: Sizes = (1, 1),
        padding: Sizes = (0, 0), dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None,
        kernel_size: Sizes | None = None, data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '',
        out_dtype: DTypeLike = 'void') -> Expr:
    """Convolution of channel-blocked bytes, in int32."""

def contrib_conv2d_winograd_NCHWc(data: ExprLike, weight: ExprLike, pad_value: ExprLike, strides: Sizes = (1, 1),
        padding: Sizes = (0, 0), dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None,
        kernel_size: Sizes | None = None, data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '',
        out_dtype: DTypeLike = 'void') -> Expr:
    """Convolution of a 3 x 3 window on channel-blocked integers from 0 to 255, by Winograd's minimal filtering,
    in int32, exact."""

def contrib_depthwise_conv2d_NCHWc(data: ExprLike, weight: ExprLike, pad_value: ExprLike, strides: Sizes = (1, 1),
        padding: Sizes = (0, 0), dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None,
        kernel_size: Sizes | None = None, data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '',
        out_dtype: DTypeLike = 'void') -> Expr:
    """Convolution of each channel of blocked bytes, in int32."""

def contrib_divide_by_scale(data: ExprLike, scale: ExprLike) -> Expr:
    """data / scale, where no more is known of the scale than that it is between 2^-100 and 2^100."""

def contrib_listed_conv2d_NCHWc(data: ExprLike, weight: ExprLike, words: ExprLike, correction: ExprLike,
        pad_value: ExprLike, strides: Sizes = (1, 1), padding: Sizes = (0, 0), dilation: Sizes = (1, 1),
        groups: int = 1, channels: int | None = None, kernel_size: Sizes | None = None, data_layout: str = 'NCHW',
        kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: DTypeLike = 'void') -> Expr:
    """Convolution of bytes with lists of the words of a window that weights meet, in int32."""

def contrib_listed_dense(data: ExprLike, weight: ExprLike, words: ExprLike, correction: ExprLike, units: int = 0,
        forms: int = 1) -> Expr:
    """Matrix product of bytes with lists of the words of a row that weights meet, in int32."""

def contrib_listed_lstm(x: ExprLike, weight: ExprLike, words: ExprLike, scale: ExprLike, zero_point: ExprLike,
        offset: ExprLike, lengths: ExprLike, h: ExprLike, c: ExprLike, reverse: bool = False,
        share_panels: bool = False, complements: bool = False) -> Expr:
    """qnn.contrib_lstm with lists of words of the weight."""

def contrib_lookup(data: ExprLike, table: ExprLike) -> Expr:
    """The table's entry for each byte, in the order of their bits."""

def contrib_lstm(x: ExprLike, weight: ExprLike, scale: ExprLike, zero_point: ExprLike, lengths: ExprLike, h: ExprLike,
        c: ExprLike, reverse: bool = False, resets_state: bool = False) -> Expr:
    """A long short-term memory layer, gates in the order i, o, f, c, with a recurrent weight of bytes: the
    states of all samples are quantised to uint8 before each step, as by DynamicQuantizeLinear."""

def contrib_pack_tiles(weight: ExprLike, units: int | None = None, out_dtype: DTypeLike = 'void',
        transpose_a: bool = False, transpose_b: bool = False) -> Expr:
    """The right operand of a matrix product of bytes, packed in words along k."""

def contrib_pack_words(weight: ExprLike, units: int | None = None, out_dtype: DTypeLike = 'void',
        transpose_a: bool = False, transpose_b: bool = False) -> Expr:
    """The right operand of a matrix product of bytes or int16, packed in words along k."""

def contrib_packed_dense(data: ExprLike, weight: ExprLike, units: int | None = None, out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Matrix product of bytes or int16 with a packed right operand, in int32."""

def contrib_packed_lstm(x: ExprLike, weight: ExprLike, scale: ExprLike, zero_point: ExprLike, offset: ExprLike,
        lengths: ExprLike, h: ExprLike, c: ExprLike, reverse: bool = False, share_panels: bool = False,
        complements: bool = False) -> Expr:
    """qnn.contrib_lstm with a packed weight."""

def contrib_round_clamp(data: ExprLike, low: ExprLike, high: ExprLike) -> Expr:
    """data clamped to [low, high] and rounded half to even, in int32; NaN gives low."""

def contrib_round_clip(data: ExprLike, a_min: float = ..., a_max: float = ..., divisor: float = ...) -> Expr:
    """data / divisor, clamped to [a_min, a_max] and rounded half to even, in int32; NaN gives a_min."""

def contrib_tile_conv2d(data: ExprLike, weight: ExprLike, pad_value: ExprLike, strides: Sizes = (1, 1),
        padding: Sizes = (0, 0), dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None,
        kernel_size: Sizes | None = None, data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '',
        out_dtype: DTypeLike = 'void', tile_groups: int = 1, group_inputs: int = 0, group_outputs: int = 0) -> Expr:
    """Convolution of channel-blocked bytes by products of tiles."""

def contrib_tile_dense(data: ExprLike, weight: ExprLike, units: int | None = None, out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Matrix product of bytes with a packed right operand, in int32."""

def conv2d(data: ExprLike, weight: ExprLike, input_zero_point: ExprLike, kernel_zero_point: ExprLike,
        input_scale: ExprLike, kernel_scale: ExprLike, strides: Sizes = (1, 1), padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None, kernel_size: Sizes | None = None,
        data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Quantised convolution, in int32; padding holds the real number 0."""

def conv2d_transpose(data: ExprLike, weight: ExprLike, input_zero_point: ExprLike, kernel_zero_point: ExprLike,
        input_scale: ExprLike, kernel_scale: ExprLike, strides: Sizes = (1, 1), padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1), channels: int | None = None, kernel_size: Sizes | None = None, groups: int = 1,
        data_layout: str = 'NCHW', kernel_layout: str = 'IOHW', out_layout: str = '', output_padding: Sizes = (0, 0),
        out_dtype: str = 'int32') -> Expr:
    """The transpose of a convolution of quantised numbers: sums of integers, of scale input_scale *
    kernel_scale."""

def dense(data: ExprLike, weight: ExprLike, input_zero_point: ExprLike, kernel_zero_point: ExprLike,
        input_scale: ExprLike, kernel_scale: ExprLike, units: int | None = None, out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Quantised data times the transposed weight, in int32."""

def dequantize(data: ExprLike, input_scale: ExprLike, input_zero_point: ExprLike, axis: int = -1) -> Expr:
    """Real numbers for integers: (data - zero_point) * scale."""

def matmul(data: ExprLike, weight: ExprLike, input_zero_point: ExprLike, kernel_zero_point: ExprLike,
        input_scale: ExprLike, kernel_scale: ExprLike, units: int | None = None, out_dtype: DTypeLike = 'void',
        transpose_a: bool = False, transpose_b: bool = False) -> Expr:
    """Quantised matrix product, in int32."""

def mul(lhs: ExprLike, rhs: ExprLike, lhs_scale: ExprLike, lhs_zero_point: ExprLike, rhs_scale: ExprLike,
        rhs_zero_point: ExprLike, output_scale: ExprLike, output_zero_point: ExprLike) -> Expr:
    """Product of quantised tensors, element by element."""

def quantize(data: ExprLike, output_scale: ExprLike, output_zero_point: ExprLike, axis: int = -1,
        out_dtype: DTypeLike = 'int8') -> Expr:
    """Integers for real numbers: data / scale rounded half to even, plus the zero point, saturated."""

def requantize(data: ExprLike, input_scale: ExprLike, input_zero_point: ExprLike, output_scale: ExprLike,
        output_zero_point: ExprLike, axis: int = -1, rounding: str = 'TONEVEN', compute_dtype: str = 'float32',
        out_dtype: DTypeLike = 'int8') -> Expr:
    """Integers of other scale and zero point: (data - in) * (in_scale / out_scale), rounded half to even."""

def simulated_dequantize(data: ExprLike, input_scale: ExprLike, input_zero_point: ExprLike, axis: int = -1,
        in_dtype: str = 'int8') -> Expr:
    """What dequantize gives of numbers that are float32 already ("disable": data itself)."""

def simulated_quantize(data: ExprLike, output_scale: ExprLike, output_zero_point: ExprLike, axis: int = -1,
        out_dtype: str = 'int8') -> Expr:
    """What quantize gives, as float32: rounded and clipped to the range of out_dtype ("disable": data
    itself)."""

def subtract(lhs: ExprLike, rhs: ExprLike, lhs_scale: ExprLike, lhs_zero_point: ExprLike, rhs_scale: ExprLike,
        rhs_zero_point: ExprLike, output_scale: ExprLike, output_zero_point: ExprLike) -> Expr:
    """Difference of quantised tensors."""

transform: ModuleType

from treadle.relay.op import qnn as op  # noqa: E402, F401 - relay.qnn.op.conv2d
