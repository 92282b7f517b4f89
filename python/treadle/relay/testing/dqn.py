# SPDX-License-Identifier: Apache-2.0
"""A deep Q network (Mnih et al. 2015)."""
from collections.abc import Sequence

from ..._nd import NDArray
from ...ir import IRModule
from .. import nn
from ..analysis import free_vars
from ..expr import Expr, Function, var
from . import layers
from .init import create_workload


def get_net(batch_size: int, num_actions: int = 18, image_shape: Sequence[int] = (4, 84, 84), dtype: str = "float32",
            layout: str = "NCHW") -> Function:
    """Three convolutions and two layers of units; a value per action."""
    x: Expr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    axis, kernel_layout = layout.index("C"), layers.conv_kernel_layout(layout)
    for i, (channels, kernel, stride) in enumerate(((32, 8, 4), (64, 4, 2), (64, 3, 1)), 1):
        x = layers.conv2d(x, kernel_size=(kernel, kernel), strides=(stride, stride), padding=(0, 0), channels=channels,
                          data_layout=layout, kernel_layout=kernel_layout, name=f"conv{i}")
        x = nn.relu(nn.bias_add(x, var(f"conv{i}_bias"), axis))
    x = nn.relu(layers.dense_add_bias(nn.batch_flatten(x), units=512, name="dense1"))
    net = layers.dense_add_bias(x, units=num_actions, name="dense2")
    return Function(free_vars(net), net)


def get_workload(batch_size: int, num_actions: int = 18, image_shape: Sequence[int] = (4, 84, 84), dtype: str = "float32",
                 layout: str = "NCHW") -> tuple[IRModule, dict[str, NDArray]]:
    """(module, params) of get_net."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype, layout))
