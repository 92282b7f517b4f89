# SPDX-License-Identifier: Apache-2.0
"""MobileNet of depthwise separable convolutions (Howard et al. 2017)."""
from collections.abc import Sequence
from typing import Any

from ..._nd import NDArray
from ...ir import IRModule
from .. import nn
from ..analysis import free_vars
from ..expr import Expr, Function, var
from . import layers
from .init import create_workload


def conv_block(data: Expr, name: str, channels: int, kernel_size: Any = (3, 3), strides: Any = (1, 1),
               padding: Any = (1, 1), epsilon: float = 1e-5, layout: str = "NCHW") -> Expr:
    """Convolution, batch norm, rectifier."""
    conv = layers.conv2d(data, channels=channels, kernel_size=kernel_size, strides=strides, padding=padding,
                         data_layout=layout, kernel_layout=layers.conv_kernel_layout(layout), name=f"{name}_conv")
    bn = layers.batch_norm_infer(conv, epsilon=epsilon, axis=layout.index("C"), name=f"{name}_bn")
    return nn.relu(bn)


def separable_conv_block(data: Expr, name: str, depthwise_channels: int, pointwise_channels: int, kernel_size: Any = (3, 3),
                         downsample: bool = False,
                         padding: Any = (1, 1), epsilon: float = 1e-5, layout: str = "NCHW", dtype: str = "float32") -> Expr:
    """A depthwise convolution and one of 1x1, each with batch norm and rectifier."""
    axis = layout.index("C")
    stride = 2 if downsample else 1
    shape = (depthwise_channels, 1, *kernel_size)
    if layout == "NHWC":
        shape = (*kernel_size, depthwise_channels, 1)
    weight = var(f"{name}_weight", shape=shape, dtype=dtype)
    conv1 = layers.conv2d(data, weight=weight, channels=depthwise_channels, groups=depthwise_channels,
                          kernel_size=kernel_size, strides=(stride, stride), padding=padding, data_layout=layout,
                          kernel_layout=layers.conv_kernel_layout(layout, True), name=f"{name}_depthwise_conv1")
    act1 = nn.relu(layers.batch_norm_infer(conv1, epsilon=epsilon, axis=axis, name=f"{name}_bn1"))
    conv2 = layers.conv2d(act1, channels=pointwise_channels, kernel_size=(1, 1), strides=(1, 1), padding=(0, 0),
                          data_layout=layout, kernel_layout=layers.conv_kernel_layout(layout), name=f"{name}_conv2")
    return nn.relu(layers.batch_norm_infer(conv2, epsilon=epsilon, axis=axis, name=f"{name}_bn2"))


# Output channels at width 1 and whether the block halves the picture.
_BLOCKS = [(64, False), (128, True), (128, False), (256, True), (256, False), (512, True), (512, False), (512, False),
           (512, False), (512, False), (512, False), (1024, True), (1024, False)]


def mobile_net(num_classes: int = 1000, data_shape: Sequence[int] = (1, 3, 224, 224), dtype: str = "float32",
               alpha: float = 1.0, is_shallow: bool = False,
               layout: str = "NCHW") -> Function:
    """The network with all widths multiplied by `alpha`; a shallow one leaves out five equal blocks."""
    data = var("data", shape=data_shape, dtype=dtype)
    width = int(32 * alpha)
    body = conv_block(data, "conv_block_1", width, strides=(2, 2), layout=layout)
    blocks = [block for i, block in enumerate(_BLOCKS) if not (is_shallow and 6 <= i <= 10)]
    for i, (channels, downsample) in enumerate(blocks, 1):
        body = separable_conv_block(body, f"separable_conv_block_{i}", width, int(channels * alpha),
                                    downsample=downsample, layout=layout, dtype=dtype)
        width = int(channels * alpha)
    flatten = nn.batch_flatten(nn.global_avg_pool2d(body, layout=layout))
    weight, bias = var("fc_weight", shape=(num_classes, width), dtype=dtype), var("fc_bias", shape=(num_classes,),
                                                                                  dtype=dtype)
    net = nn.softmax(nn.bias_add(nn.dense(flatten, weight), bias))
    return Function(free_vars(net), net)


def get_workload(batch_size: int = 1, num_classes: int = 1000, image_shape: Sequence[int] = (3, 224, 224),
                 dtype: str = "float32", layout: str = "NCHW") -> tuple[IRModule, dict[str, NDArray]]:
    """(module, params) of mobile_net."""
    return create_workload(mobile_net(num_classes, (batch_size, *image_shape), dtype, layout=layout))
