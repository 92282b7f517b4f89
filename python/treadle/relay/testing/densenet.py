# SPDX-License-Identifier: Apache-2.0
"""DenseNet (Huang et al. 2016)."""
from collections.abc import Sequence

from ..._nd import NDArray
from ...ir import IRModule
from .. import concatenate, nn
from ..analysis import free_vars
from ..expr import Function, var
from . import layers
from .init import create_workload


def _layer(data, growth_rate, bn_size, name):
    """What one layer adds to the features that all before it made."""
    x = nn.relu(layers.batch_norm_infer(data, name=f"{name}_batch_norm1"))
    x = layers.conv2d(x, channels=bn_size * growth_rate, kernel_size=(1, 1), name=f"{name}_conv1")
    x = nn.relu(layers.batch_norm_infer(x, name=f"{name}_batch_norm2"))
    return layers.conv2d(x, channels=growth_rate, kernel_size=(3, 3), padding=(1, 1), name=f"{name}_conv2")


def _block(data, count, bn_size, growth_rate, index):
    features = [data]
    for i in range(count):
        joined = features[0] if len(features) == 1 else concatenate(features, axis=1)
        features.append(_layer(joined, growth_rate, bn_size, f"block{index}_layer{i + 1}"))
    return concatenate(features, axis=1)


def _transition(data, channels, index):
    x = nn.relu(layers.batch_norm_infer(data, name=f"tran{index}_batch_norm"))
    x = layers.conv2d(x, channels=channels, kernel_size=(1, 1), name=f"tran{index}_conv")
    return nn.avg_pool2d(x, pool_size=(2, 2), strides=(2, 2))


# Layers: features of the first layer, growth, layers of the blocks.
_SPECS = {121: (64, 32, [6, 12, 24, 16]), 161: (96, 48, [6, 12, 36, 24]), 169: (64, 32, [6, 12, 32, 32]),
          201: (64, 32, [6, 12, 48, 32])}


def get_net(densenet_size: int = 121, classes: int = 1000, batch_size: int = 4, image_shape: Sequence[int] = (3, 224, 224),
            dtype: str = "float32", bn_size: int = 4) -> Function:
    """The network of 121, 161, 169 or 201 layers."""
    if densenet_size not in _SPECS:
        raise ValueError(f"there is no DenseNet of {densenet_size} layers; there are: {list(_SPECS)}")
    features, growth, blocks = _SPECS[densenet_size]
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    x = layers.conv2d(data, channels=features, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3), name="conv1")
    x = nn.relu(layers.batch_norm_infer(x, name="batch_norm1"))
    x = nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    for i, count in enumerate(blocks):
        x = _block(x, count, bn_size, growth, i)
        features += count * growth
        if i + 1 < len(blocks):
            features //= 2
            x = _transition(x, features, i)
    x = nn.relu(layers.batch_norm_infer(x, name="batch_norm2"))
    x = nn.batch_flatten(nn.global_avg_pool2d(x))
    net = layers.dense_add_bias(x, units=classes, name="dense")
    return Function(free_vars(net), net)


def get_workload(densenet_size: int = 121, classes: int = 1000, batch_size: int = 4,
                 image_shape: Sequence[int] = (3, 224, 224), dtype: str = "float32") -> tuple[IRModule, dict[str, NDArray]]:
    """(module, params) of get_net."""
    return create_workload(get_net(densenet_size, classes, batch_size, image_shape, dtype))
