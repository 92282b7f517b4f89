# SPDX-License-Identifier: Apache-2.0
"""SqueezeNet 1.0 and 1.1 (Iandola et al. 2016)."""
from collections.abc import Sequence

from ..._nd import NDArray
from ...ir import IRModule
from .. import concatenate, nn
from ..analysis import free_vars
from ..expr import Expr, Function, var
from . import layers
from .init import create_workload


def _conv(net, channels, kernel, name, padding=0, stride=1):
    net = layers.conv2d(net, channels=channels, kernel_size=(kernel, kernel), strides=(stride, stride),
                        padding=(padding, padding), name=name)
    return nn.relu(nn.bias_add(net, var(f"{name}_bias")))


def _fire(net, squeeze, expand, prefix):
    """A narrow 1x1 convolution, then wide ones of 1x1 and 3x3 side by side."""
    net = _conv(net, squeeze, 1, f"{prefix}_input")
    left = _conv(net, expand, 1, f"{prefix}_left")
    right = _conv(net, expand, 3, f"{prefix}_right", padding=1)
    return concatenate((left, right), axis=1)


_FIRES = [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]


def get_net(batch_size: int, image_shape: Sequence[int], num_classes: int, version: str, dtype: str) -> Function:
    """Version "1.0" or "1.1": they differ in the first layer and in where they pool."""
    if version not in ("1.0", "1.1"):
        raise ValueError(f"there is no SqueezeNet {version}; there are 1.0 and 1.1")
    net: Expr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    if version == "1.0":
        net, pools = _conv(net, 96, 7, "conv1", padding=3, stride=2), (0, 3, 7)
    else:
        net, pools = _conv(net, 64, 3, "conv1", padding=1, stride=2), (0, 2, 4)
    for i, (squeeze, expand) in enumerate(_FIRES):
        if i in pools:
            net = nn.max_pool2d(net, pool_size=(3, 3), strides=(2, 2))
        net = _fire(net, squeeze, expand, f"fire{i + 1}")
    net = _conv(nn.dropout(net, rate=0.5), num_classes, 1, "conv_final")
    net = nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(net)))
    return Function(free_vars(net), net)


def get_workload(batch_size: int = 1, num_classes: int = 1000, version: str = "1.0",
                 image_shape: Sequence[int] = (3, 224, 224), dtype: str = "float32") -> tuple[IRModule, dict[str, NDArray]]:
    """(module, params) of get_net."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
