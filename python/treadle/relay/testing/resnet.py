# SPDX-License-Identifier: Apache-2.0
"""Residual networks with activation before convolution (He et al. 2016, "Identity Mappings in Deep Residual Networks").
"""
from collections.abc import Sequence
from typing import Any

from ..._nd import NDArray
from ...ir import IRModule
from .. import nn
from ..analysis import free_vars
from ..expr import Expr, Function, var
from . import layers
from .init import create_workload


class _Builder:
    """Layers in one layout."""

    def __init__(self, layout):
        self.layout = layout
        self.axis = layout.index("C")
        self.kernel_layout = layers.conv_kernel_layout(layout)

    def conv(self, data, name, channels, kernel, stride=1, padding=None):
        padding = kernel // 2 if padding is None else padding
        return layers.conv2d(data, channels=channels, kernel_size=(kernel, kernel), strides=(stride, stride),
                             padding=(padding, padding), data_layout=self.layout, kernel_layout=self.kernel_layout,
                             name=name)

    def bn(self, data, name, **kwargs):
        return layers.batch_norm_infer(data, epsilon=2e-5, axis=self.axis, name=name, **kwargs)


def residual_unit(data: Expr, num_filter: int, stride: Any, dim_match: bool, name: str, bottle_neck: bool = True,
                  data_layout: str = "NCHW",
                  kernel_layout: str = "OIHW") -> Expr:
    """Two convolutions, or three with a bottleneck, beside an identity (or a 1x1 convolution where sizes change)."""
    build = _Builder(data_layout)
    act1 = nn.relu(build.bn(data, f"{name}_bn1"))
    step = stride[0] if isinstance(stride, (tuple, list)) else stride
    if bottle_neck:
        conv1 = build.conv(act1, f"{name}_conv1", num_filter // 4, 1, step)
        conv2 = build.conv(nn.relu(build.bn(conv1, f"{name}_bn2")), f"{name}_conv2", num_filter // 4, 3)
        last = build.conv(nn.relu(build.bn(conv2, f"{name}_bn3")), f"{name}_conv3", num_filter, 1)
    else:
        conv1 = build.conv(act1, f"{name}_conv1", num_filter, 3, step)
        last = build.conv(nn.relu(build.bn(conv1, f"{name}_bn2")), f"{name}_conv2", num_filter, 3)
    shortcut = data if dim_match else build.conv(act1, f"{name}_sc", num_filter, 1, step)
    return last + shortcut


def resnet(units: Any, num_stages: int, filter_list: Sequence[int], num_classes: int, data_shape: Sequence[int],
           bottle_neck: bool = True, layout: str = "NCHW", dtype: str = "float32") -> Function:
    """The network of `num_stages` stages of `units` residual units with the widths of `filter_list`."""
    build = _Builder(layout)
    data = var("data", shape=data_shape, dtype=dtype)
    x = build.bn(data, "bn_data", scale=False)
    if data_shape[layout.index("H")] <= 32:
        x = build.conv(x, "conv0", filter_list[0], 3)
    else:
        x = nn.relu(build.bn(build.conv(x, "conv0", filter_list[0], 7, 2), "bn0"))
        x = nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)
    for i in range(num_stages):
        for j in range(units[i]):
            stride = 1 if i == 0 or j > 0 else 2
            x = residual_unit(x, filter_list[i + 1], (stride, stride), j > 0, f"stage{i + 1}_unit{j + 1}", bottle_neck,
                              layout)
    x = nn.relu(build.bn(x, "bn1"))
    x = nn.batch_flatten(nn.global_avg_pool2d(x, layout=layout))
    net = nn.softmax(layers.dense_add_bias(x, units=num_classes, name="fc1"))
    return Function(free_vars(net), net)


_UNITS = {18: [2, 2, 2, 2], 34: [3, 4, 6, 3], 50: [3, 4, 6, 3], 101: [3, 4, 23, 3], 152: [3, 8, 36, 3],
          200: [3, 24, 36, 3], 269: [3, 30, 48, 8]}


def get_net(batch_size: int, num_classes: int, num_layers: int = 50, image_shape: Sequence[int] = (3, 224, 224),
            layout: str = "NCHW", dtype: str = "float32", **_: Any) -> Function:
    """The network of `num_layers` layers: 18, 34, 50, 101, 152, 200 or 269; for pictures up to 28 pixels wide 6n+2
    or (from 164) 9n+2."""
    height = image_shape[layout.index("H") - 1]
    if height <= 28:
        if (num_layers - 2) % 9 == 0 and num_layers >= 164:
            bottle_neck, units, filters = True, [(num_layers - 2) // 9] * 3, [16, 64, 128, 256]
        elif (num_layers - 2) % 6 == 0 and num_layers < 164:
            bottle_neck, units, filters = False, [(num_layers - 2) // 6] * 3, [16, 16, 32, 64]
        else:
            raise ValueError(f"there is no residual network of {num_layers} layers for small pictures")
    else:
        if num_layers not in _UNITS:
            raise ValueError(f"there is no residual network of {num_layers} layers; there are: {list(_UNITS)}")
        bottle_neck, units = num_layers >= 50, _UNITS[num_layers]
        filters = [64, 256, 512, 1024, 2048] if bottle_neck else [64, 64, 128, 256, 512]
    return resnet(units, len(units), filters, num_classes, (batch_size, *image_shape), bottle_neck, layout, dtype)


def get_workload(batch_size: int = 1, num_classes: int = 1000, num_layers: int = 18,
                 image_shape: Sequence[int] = (3, 224, 224), layout: str = "NCHW",
                 dtype: str = "float32", **kwargs: Any) -> tuple[IRModule, dict[str, NDArray]]:
    """(module, params) of get_net."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs))
