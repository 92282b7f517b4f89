# SPDX-License-Identifier: Apache-2.0
# Written by tools/docs/op_stubs.py.
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from treadle._typing import DTypeLike, ExprLike
from treadle.relay.expr import Expr, TupleWrapper

Sizes = int | Expr | Sequence[int | Expr]


def adaptive_avg_pool1d(data: ExprLike, output_size: Sizes = (), layout: str = 'NCW', out_layout: str = '') -> Expr:
    """Pooling to a given size: windows follow from input and output size."""

def adaptive_avg_pool2d(data: ExprLike, output_size: Sizes = (), layout: str = 'NCHW', out_layout: str = '') -> Expr:
    """Pooling to a given size: windows follow from input and output size."""

def adaptive_avg_pool3d(data: ExprLike, output_size: Sizes = (), layout: str = 'NCDHW', out_layout: str = '') -> Expr:
    """Pooling to a given size: windows follow from input and output size."""

def adaptive_max_pool1d(data: ExprLike, output_size: Sizes = (), layout: str = 'NCW', out_layout: str = '') -> Expr:
    """Pooling to a given size: windows follow from input and output size."""

def adaptive_max_pool2d(data: ExprLike, output_size: Sizes = (), layout: str = 'NCHW', out_layout: str = '') -> Expr:
    """Pooling to a given size: windows follow from input and output size."""

def adaptive_max_pool3d(data: ExprLike, output_size: Sizes = (), layout: str = 'NCDHW', out_layout: str = '') -> Expr:
    """Pooling to a given size: windows follow from input and output size."""

def attention(query: ExprLike, key: ExprLike, value: ExprLike, mask: ExprLike, scale: float = ...,
        zero_masked_rows: bool = False, key_block: int = 0) -> Expr:
    """softmax(scale * query key^T + mask) value, in float32; of float32 or bfloat16."""

def avg_pool1d(data: ExprLike, pool_size: Sizes, strides: Sizes = (1,), dilation: Sizes = (1,), padding: Sizes = (0,),
        layout: str = 'NCW', out_layout: str = '', ceil_mode: bool = False, count_include_pad: bool = False) -> Expr:
    """Mean of a window."""

def avg_pool2d(data: ExprLike, pool_size: Sizes, strides: Sizes = (1, 1), dilation: Sizes = (1, 1),
        padding: Sizes = (0, 0), layout: str = 'NCHW', out_layout: str = '', ceil_mode: bool = False,
        count_include_pad: bool = False) -> Expr:
    """Mean of a window."""

def avg_pool2d_grad(out_grad: ExprLike, data: ExprLike, pool_size: Sizes = (1, 1), strides: Sizes = (1, 1),
        padding: Sizes = (0, 0), layout: str = 'NCHW', out_layout: str = '', ceil_mode: bool = False,
        count_include_pad: bool = False) -> Expr:
    """The gradient of the operand of avg_pool2d."""

def avg_pool3d(data: ExprLike, pool_size: Sizes, strides: Sizes = (1, 1, 1), dilation: Sizes = (1, 1, 1),
        padding: Sizes = (0, 0, 0), layout: str = 'NCDHW', out_layout: str = '', ceil_mode: bool = False,
        count_include_pad: bool = False) -> Expr:
    """Mean of a window."""

def batch_flatten(data: ExprLike) -> Expr:
    """All dimensions but the first become one."""

def batch_matmul(tensor_a: ExprLike, tensor_b: ExprLike, out_dtype: DTypeLike = 'void', transpose_a: bool = False,
        transpose_b: bool = True) -> Expr:
    """Matrix product of each batch."""

def batch_norm(data: ExprLike, gamma: ExprLike, beta: ExprLike, moving_mean: ExprLike, moving_var: ExprLike,
        axis: int = 1, epsilon: float = ..., center: bool = True, scale: bool = True) -> TupleWrapper:
    """(data - mean) / sqrt(variance + epsilon) * gamma + beta with the moving statistics. Gives a tuple: the
    result, and the statistics as they are."""

def batch_to_space_nd(data: ExprLike, block_shape: Sizes, crops: Any) -> Expr:
    """Batches become blocks of pixels."""

def bias_add(data: ExprLike, bias: ExprLike, axis: int = 1) -> Expr:
    """data + bias, the bias running along one dimension."""

def bitpack(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: products of few bits aren't computed bit by bit; qnn.dense and qnn.conv2d compute with bytes."""

def bitserial_conv2d(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: products of few bits aren't computed bit by bit; qnn.dense and qnn.conv2d compute with bytes."""

def bitserial_dense(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: products of few bits aren't computed bit by bit; qnn.dense and qnn.conv2d compute with bytes."""

def contrib_columns_to_image(columns: ExprLike, strides: Sizes = (), dilation: Sizes = (), padding: Sizes = ()
        ) -> Expr:
    """Windows added up where they stand in an image, the reverse of taking them from one."""

def contrib_conv2d_NCHWc(data: ExprLike, weight: ExprLike, strides: Sizes = (1, 1), padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None, kernel_size: Sizes | None = None,
        data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Convolution (cross-correlation): the sum over a window and the channels of a group."""

def contrib_conv2d_NCHWc_pairs(data: ExprLike, weight: ExprLike, strides: Sizes = (1, 1), padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None, kernel_size: Sizes | None = None,
        data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Convolution of channel-blocked bfloat16, in float32."""

def contrib_conv2d_gemm_weight_transform(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: kernels transform weights themselves, where that pays; call nn.conv2d or nn.conv3d."""

def contrib_conv2d_gemm_without_weight_transform(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: kernels transform weights themselves, where that pays; call nn.conv2d or nn.conv3d."""

def contrib_conv2d_nchwc(data: ExprLike, weight: ExprLike, strides: Sizes = (1, 1), padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None, kernel_size: Sizes | None = None,
        data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Convolution (cross-correlation): the sum over a window and the channels of a group."""

def contrib_conv2d_select_NCHWc(data: ExprLike, weight: ExprLike, channels: ExprLike, strides: Sizes = (1, 1),
        padding: Sizes = (0, 0), dilation: Sizes = (1, 1), groups: int = 1, kernel_size: Sizes | None = None,
        data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Convolution whose input channel i is channel channels[i] of the data."""

def contrib_conv2d_select_nchwc(data: ExprLike, weight: ExprLike, channels: ExprLike, strides: Sizes = (1, 1),
        padding: Sizes = (0, 0), dilation: Sizes = (1, 1), groups: int = 1, kernel_size: Sizes | None = None,
        data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Convolution whose input channel i is channel channels[i] of the data."""

def contrib_conv2d_winograd_NCHWc(data: ExprLike, weight: ExprLike, strides: Sizes = (1, 1), padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None, kernel_size: Sizes | None = None,
        data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Convolution of a 3 x 3 window on channel-blocked data, by Winograd's minimal filtering."""

def contrib_conv2d_winograd_nnpack_weight_transform(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: kernels transform weights themselves, where that pays; call nn.conv2d or nn.conv3d."""

def contrib_conv2d_winograd_weight_transform(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: kernels transform weights themselves, where that pays; call nn.conv2d or nn.conv3d."""

def contrib_conv2d_winograd_without_weight_transform(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: kernels transform weights themselves, where that pays; call nn.conv2d or nn.conv3d."""

def contrib_conv3d_winograd_weight_transform(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: kernels transform weights themselves, where that pays; call nn.conv2d or nn.conv3d."""

def contrib_conv3d_winograd_without_weight_transform(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: kernels transform weights themselves, where that pays; call nn.conv2d or nn.conv3d."""

def contrib_dense_pack(data: ExprLike, weight: ExprLike, weight_layout: str = 'NC', units: int | None = None,
        out_dtype: DTypeLike = '') -> Expr:
    """A dense layer whose weight is in a packed layout."""

def contrib_depthwise_conv2d_NCHWc(data: ExprLike, weight: ExprLike, strides: Sizes = (1, 1), padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None, kernel_size: Sizes | None = None,
        data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Convolution (cross-correlation): the sum over a window and the channels of a group."""

def contrib_depthwise_conv2d_NHWC(data: ExprLike, weight: ExprLike, strides: Sizes = (1, 1), padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None, kernel_size: Sizes | None = None,
        data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Convolution (cross-correlation): the sum over a window and the channels of a group."""

def contrib_depthwise_conv2d_nchwc(data: ExprLike, weight: ExprLike, strides: Sizes = (1, 1), padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None, kernel_size: Sizes | None = None,
        data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Convolution (cross-correlation): the sum over a window and the channels of a group."""

def contrib_lrn_NCHWc(data: ExprLike, size: int = 5, axis: int = 1, bias: float = ..., alpha: float = ...,
        beta: float = ...) -> Expr:
    """nn.lrn over the channels of data in layout NCHW[x]c."""

def contrib_pack_pairs(weight: ExprLike, units: int | None = None, out_dtype: DTypeLike = 'void',
        transpose_a: bool = False, transpose_b: bool = False) -> Expr:
    """The right operand of a matrix product of bfloat16, packed in words along k."""

def contrib_pack_tile_pairs(weight: ExprLike, units: int | None = None, out_dtype: DTypeLike = 'void',
        transpose_a: bool = False, transpose_b: bool = False) -> Expr:
    """The right operand of a matrix product of bfloat16, packed in words along k."""

def contrib_packed_attention(query: ExprLike, key: ExprLike, value: ExprLike, mask: ExprLike, scale: float = ...,
        zero_masked_rows: bool = False, key_block: int = 0) -> Expr:
    """Attention with packed keys (.., n / 16, s, 16) and values (.., d / 16, n, 16)."""

def contrib_packed_dense_pairs(data: ExprLike, weight: ExprLike, units: int | None = None,
        out_dtype: DTypeLike = 'void') -> Expr:
    """Matrix product of bfloat16 with a packed right operand, in float32."""

def contrib_packed_gru(x: ExprLike, weight: ExprLike, bias: ExprLike, h: ExprLike, reverse: bool = False,
        resets_state: bool = False, rows: int = 1, share_panels: bool = False) -> Expr:
    """nn.gru with a packed weight."""

def contrib_packed_lstm(x: ExprLike, weight: ExprLike, h: ExprLike, c: ExprLike, reverse: bool = False,
        resets_state: bool = False, rows: int = 1, share_panels: bool = False) -> Expr:
    """nn.lstm with a packed weight."""

def contrib_packing_attention(query: ExprLike, key: ExprLike, value: ExprLike, mask: ExprLike, scale: float = ...,
        zero_masked_rows: bool = False, key_block: int = 0) -> Expr:
    """Attention of dynamic sizes, which packs keys as it goes."""

def contrib_packing_tile_attention(query: ExprLike, key: ExprLike, value: ExprLike, mask: ExprLike, scale: float = ...,
        zero_masked_rows: bool = False, key_block: int = 0) -> Expr:
    """Attention of dynamic sizes in bfloat16, which packs keys and values; operands of float32 are rounded."""

def contrib_pair_cast(data: ExprLike) -> Expr:
    """float32 rounded to bfloat16; numbers below the least normal one may become 0."""

def contrib_tile_attention(query: ExprLike, key: ExprLike, value: ExprLike, mask: ExprLike, scale: float = ...,
        zero_masked_rows: bool = False, key_block: int = 0) -> Expr:
    """Attention of bfloat16 with packed keys (.., n / 16, s / 2, 16) and values (.., d / 16, n / 2, 16), words
    of which fill tiles of 16."""

def contrib_tile_conv2d_pairs(data: ExprLike, weight: ExprLike, strides: Sizes = (1, 1), padding: Sizes = (0, 0),
        dilation: Sizes = (1, 1), groups: int = 1, channels: int | None = None, kernel_size: Sizes | None = None,
        data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: DTypeLike = 'void',
        tile_groups: int = 1, group_inputs: int = 0, group_outputs: int = 0) -> Expr:
    """Convolution of channel-blocked bfloat16 by products of tiles."""

def contrib_tile_dense_pairs(data: ExprLike, weight: ExprLike, units: int | None = None, out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Matrix product of bfloat16 with a packed right operand, in float32."""

def contrib_write_rows(data: ExprLike, update: ExprLike, begin: ExprLike, axis: int = -2, circular: bool = False
        ) -> Expr:
    """data with rows replaced by those of update, from row begin[i] of sample i on."""

def conv1d(data: ExprLike, weight: ExprLike, strides: Sizes = (1,), padding: Sizes = (0,), dilation: Sizes = (1,),
        groups: int = 1, channels: int | None = None, kernel_size: Sizes | None = None, data_layout: str = 'NCW',
        kernel_layout: str = 'OIW', out_layout: str = '', out_dtype: DTypeLike = 'void') -> Expr:
    """Convolution (cross-correlation): the sum over a window and the channels of a group."""

def conv1d_transpose(data: ExprLike, weight: ExprLike, strides: Any = (1,), padding: Any = (0,), dilation: Any = (1,),
        channels: int | None = None, kernel_size: Any = None, groups: int = 1, data_layout: str = 'NCW',
        kernel_layout: str = 'IOW', out_layout: str = '', output_padding: Any = (0,), out_dtype: DTypeLike = ''
        ) -> Expr:
    """The transpose of a convolution."""

def conv2d(data: ExprLike, weight: ExprLike, strides: Sizes = (1, 1), padding: Sizes = (0, 0), dilation: Sizes = (1, 1),
        groups: int = 1, channels: int | None = None, kernel_size: Sizes | None = None, data_layout: str = 'NCHW',
        kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: DTypeLike = 'void') -> Expr:
    """Convolution (cross-correlation): the sum over a window and the channels of a group."""

def conv2d_transpose(data: ExprLike, weight: ExprLike, strides: Any = (1, 1), padding: Any = (0, 0),
        dilation: Any = (1, 1), channels: int | None = None, kernel_size: Any = None, groups: int = 1,
        data_layout: str = 'NCHW', kernel_layout: str = 'IOHW', out_layout: str = '', output_padding: Any = (0, 0),
        out_dtype: DTypeLike = '') -> Expr:
    """The transpose of a convolution."""

def conv3d(data: ExprLike, weight: ExprLike, strides: Sizes = (1, 1, 1), padding: Sizes = (0, 0, 0),
        dilation: Sizes = (1, 1, 1), groups: int = 1, channels: int | None = None, kernel_size: Sizes | None = None,
        data_layout: str = 'NCDHW', kernel_layout: str = 'OIDHW', out_layout: str = '', out_dtype: DTypeLike = 'void'
        ) -> Expr:
    """Convolution (cross-correlation): the sum over a window and the channels of a group."""

def conv3d_transpose(data: ExprLike, weight: ExprLike, strides: Any = (1, 1, 1), padding: Any = (0, 0, 0),
        dilation: Any = (1, 1, 1), channels: int | None = None, kernel_size: Any = None, groups: int = 1,
        data_layout: str = 'NCDHW', kernel_layout: str = 'IODHW', out_layout: str = '', output_padding: Any = (0, 0, 0),
        out_dtype: DTypeLike = '') -> Expr:
    """The transpose of a convolution."""

def correlation(data1: ExprLike, data2: ExprLike, kernel_size: int = 1, max_displacement: int = 1, stride1: int = 1,
        stride2: int = 1, padding: int = 0, is_multiply: bool = True, layout: str = 'NCHW') -> Expr:
    """How alike the patches of two feature maps are, for each displacement up to max_displacement in steps of
    stride2: the mean of products (or of absolute differences), one channel of the result each."""

def cross_entropy(predictions: ExprLike, targets: ExprLike) -> Expr:
    """-sum(targets * log(predictions)) / batch."""

def cross_entropy_with_logits(predictions: ExprLike, targets: ExprLike) -> Expr:
    """-sum(targets * predictions) / batch, the predictions being logarithms."""

def deformable_columns(data: ExprLike, offset: ExprLike, mask: ExprLike, kernel: Sizes = (), strides: Sizes = (),
        dilations: Sizes = (), padding: Sizes = (), groups: int = 1, column_major: bool = False) -> Expr:
    """What each window of a deformable convolution reads: (N, C * taps, height, width)."""

def deformable_conv2d(data: ExprLike, offset: ExprLike, weight: ExprLike, strides: Sizes = (1, 1),
        padding: Sizes = (0, 0), dilation: Sizes = (1, 1), deformable_groups: int = 1, groups: int = 1,
        channels: int | None = None, kernel_size: Sizes | None = None, data_layout: str = 'NCHW',
        kernel_layout: str = 'OIHW', out_layout: str = '', out_dtype: str = '') -> Expr:
    """A convolution that reads at places that `offset`, (N, deformable_groups * kernel * 2, OH, OW), moves."""

def dense(data: ExprLike, weight: ExprLike, units: int | None = None, out_dtype: DTypeLike = 'void') -> Expr:
    """data times the transposed weight."""

def depth_to_space(data: ExprLike, block_size: int = 1, layout: str = 'NCHW', mode: str = 'DCR') -> Expr:
    """Blocks of channels become blocks of pixels."""

def dilate(data: ExprLike, strides: Sizes, dilation_value: float = ...) -> Expr:
    """Puts a value between the elements of a tensor."""

def dropout(data: ExprLike, rate: float = ...) -> Expr:
    """In training a part of the values becomes 0; in inference the values themselves."""

def dropout_raw(data: ExprLike, rate: float = ...) -> Expr:
    """dropout with both results: values and mask."""

def fast_softmax(data: ExprLike, axis: int = -1) -> Expr:
    """Softmax where a relative error of 1e-5 will do."""

def fifo_buffer(data: ExprLike, buffer: ExprLike, axis: ExprLike) -> Expr:
    """The newest elements along an axis: those of the buffer without its first ones, then `data`."""

def gelu(data: ExprLike) -> Expr:
    """x / 2 * (1 + erf(x / sqrt(2)))."""

def global_avg_pool1d(data: ExprLike, layout: str = 'NCW', out_layout: str = '') -> Expr:
    """Pooling over all of the spatial dimensions."""

def global_avg_pool2d(data: ExprLike, layout: str = 'NCHW', out_layout: str = '') -> Expr:
    """Pooling over all of the spatial dimensions."""

def global_avg_pool3d(data: ExprLike, layout: str = 'NCDHW', out_layout: str = '') -> Expr:
    """Pooling over all of the spatial dimensions."""

def global_max_pool1d(data: ExprLike, layout: str = 'NCW', out_layout: str = '') -> Expr:
    """Pooling over all of the spatial dimensions."""

def global_max_pool2d(data: ExprLike, layout: str = 'NCHW', out_layout: str = '') -> Expr:
    """Pooling over all of the spatial dimensions."""

def global_max_pool3d(data: ExprLike, layout: str = 'NCDHW', out_layout: str = '') -> Expr:
    """Pooling over all of the spatial dimensions."""

def group_norm(data: ExprLike, gamma: ExprLike, beta: ExprLike, num_groups: int = 0, axis: int = 1,
        epsilon: float = ..., center: bool = True, scale: bool = True) -> Expr:
    """Normalises each group of channels of each batch by its mean and variance."""

def gru(x: ExprLike, weight: ExprLike, bias: ExprLike, h: ExprLike, reverse: bool = False, resets_state: bool = False
        ) -> Expr:
    """A layer of gated recurrent units, gates in the order z, r, h."""

def instance_norm(data: ExprLike, gamma: ExprLike, beta: ExprLike, axis: int = 1, epsilon: float = ...,
        center: bool = True, scale: bool = True) -> Expr:
    """Normalises each channel of each batch by its mean and variance."""

def l2_normalize(data: ExprLike, eps: float = ..., axis: Sizes = ()) -> Expr:
    """data / sqrt(max(sum(data^2), eps))."""

def layer_norm(data: ExprLike, gamma: ExprLike, beta: ExprLike, axis: int = -1, epsilon: float = ...,
        center: bool = True, scale: bool = True) -> Expr:
    """Normalises along one dimension by its mean and variance."""

def leaky_relu(data: ExprLike, alpha: float = ...) -> Expr:
    """x where positive, else alpha * x."""

def log_softmax(data: ExprLike, axis: int = -1) -> Expr:
    """Logarithm of softmax."""

def lrn(data: ExprLike, size: int = 5, axis: int = 1, bias: float = ..., alpha: float = ..., beta: float = ...
        ) -> Expr:
    """data / (bias + alpha / size * sum of squares over neighbouring channels)^beta."""

def lstm(x: ExprLike, weight: ExprLike, h: ExprLike, c: ExprLike, reverse: bool = False, resets_state: bool = False
        ) -> Expr:
    """A long short-term memory layer, gates in the order i, o, f, c."""

def matmul(tensor_a: ExprLike, tensor_b: ExprLike, units: int | None = None, out_dtype: DTypeLike = 'void',
        transpose_a: bool = False, transpose_b: bool = False) -> Expr:
    """Matrix product."""

def max_pool1d(data: ExprLike, pool_size: Sizes, strides: Sizes = (1,), dilation: Sizes = (1,), padding: Sizes = (0,),
        layout: str = 'NCW', out_layout: str = '', ceil_mode: bool = False) -> Expr:
    """Greatest element of a window; padding never wins. NaN wins."""

def max_pool2d(data: ExprLike, pool_size: Sizes, strides: Sizes = (1, 1), dilation: Sizes = (1, 1),
        padding: Sizes = (0, 0), layout: str = 'NCHW', out_layout: str = '', ceil_mode: bool = False) -> Expr:
    """Greatest element of a window; padding never wins. NaN wins."""

def max_pool2d_grad(out_grad: ExprLike, data: ExprLike, pool_size: Sizes = (1, 1), strides: Sizes = (1, 1),
        padding: Sizes = (0, 0), layout: str = 'NCHW', out_layout: str = '', ceil_mode: bool = False) -> Expr:
    """The gradient of the operand of max_pool2d."""

def max_pool3d(data: ExprLike, pool_size: Sizes, strides: Sizes = (1, 1, 1), dilation: Sizes = (1, 1, 1),
        padding: Sizes = (0, 0, 0), layout: str = 'NCDHW', out_layout: str = '', ceil_mode: bool = False) -> Expr:
    """Greatest element of a window; padding never wins. NaN wins."""

def max_pool_indices(data: ExprLike, pooled: ExprLike, kernel: Sizes = (), strides: Sizes = (), dilations: Sizes = (),
        padding: Sizes = (), groups: int = 1, column_major: bool = False) -> Expr:
    """Where in the flattened input the first maximum of each window stands."""

def mirror_pad(data: ExprLike, pad_width: Any, mode: str = 'SYMMETRIC') -> Expr:
    """Pads with what lies beside the border."""

def mish(data: ExprLike) -> Expr:
    """x * tanh(log(1 + exp(x)))."""

def nll_loss(predictions: ExprLike, targets: ExprLike, weights: ExprLike, reduction: str = 'mean',
        ignore_index: int = -100) -> Expr:
    """Negative log likelihood of the target classes."""

def packed_dense(data: ExprLike, weight: ExprLike, units: int | None = None, out_dtype: DTypeLike = 'void') -> Expr:
    """Matrix product with a packed right operand."""

def packing_matmul(data: ExprLike, weight: ExprLike, units: int | None = None, out_dtype: DTypeLike = 'void',
        transpose_a: bool = False, transpose_b: bool = False) -> Expr:
    """Matrix product that packs its right operand as it goes."""

def pad(data: ExprLike, pad_width: Any, pad_value: ExprLike = 0, pad_mode: str = 'constant') -> Expr:
    """A border of [before, after] elements per dimension."""

def prelu(data: ExprLike, alpha: ExprLike, axis: int = 1) -> Expr:
    """x where positive, else alpha[channel] * x."""

def relu(data: ExprLike) -> Expr:
    """max(x, 0); NaN stays."""

def softmax(data: ExprLike, axis: int = -1) -> Expr:
    """exp(x) / sum(exp(x)) along one dimension."""

def space_to_batch_nd(data: ExprLike, block_shape: Sizes, paddings: Any, pad_value: float = ...) -> Expr:
    """Blocks of pixels become batches."""

def space_to_depth(data: ExprLike, block_size: int = 1, layout: str = 'NCHW', mode: str = 'DCR') -> Expr:
    """Blocks of pixels become channels."""

def sparse_add(dense_mat: ExprLike, sparse_mat: ExprLike) -> Expr:
    """The sum of a dense matrix and one in the form CSR."""

def sparse_dense(dense_mat: ExprLike, sparse_mat: ExprLike, sparse_lhs: bool = False) -> Expr:
    """dense_mat times the transposed sparse matrix; with sparse_lhs the sparse matrix times the transposed
    dense one."""

def sparse_transpose(x: ExprLike) -> Expr:
    """The transposed square matrix in the form CSR: data, indices, indptr."""

def upsampling(data: ExprLike, scale_h: float | Expr = 1, scale_w: float | Expr = 1, layout: str = 'NCHW',
        method: str = 'nearest_neighbor', align_corners: bool = False) -> Expr:
    """A picture enlarged by factors."""

def upsampling3d(data: ExprLike, scale_d: float = ..., scale_h: float = ..., scale_w: float = ...,
        layout: str = 'NCDHW', method: str = 'nearest_neighbor', coordinate_transformation_mode: str = 'half_pixel'
        ) -> Expr:
    """Resampling by a factor."""
