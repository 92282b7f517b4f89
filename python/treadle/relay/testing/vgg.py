# SPDX-License-Identifier: Apache-2.0
"""VGG (Simonyan and Zisserman 2014)."""
from collections.abc import Sequence

from ..._nd import NDArray
from ...ir import IRModule
from .. import nn
from ..analysis import free_vars
from ..expr import Expr, Function, var
from . import layers
from .init import create_workload

_LAYERS = {11: [1, 1, 2, 2, 2], 13: [2, 2, 2, 2, 2], 16: [2, 2, 3, 3, 3], 19: [2, 2, 4, 4, 4]}
_FILTERS = [64, 128, 256, 512, 512]


def get_feature(internal_layer: Expr, layers_in_stages: Sequence[int], filters: Sequence[int],
                batch_norm: bool = False) -> Expr:
    """The stages of 3x3 convolutions, each followed by a pooling."""
    for i, count in enumerate(layers_in_stages):
        for j in range(count):
            name = f"conv{i + 1}_{j + 1}"
            internal_layer = layers.conv2d(internal_layer, kernel_size=(3, 3), padding=(1, 1), channels=filters[i],
                                           name=name)
            internal_layer = nn.bias_add(internal_layer, var(f"{name}_bias"))
            if batch_norm:
                internal_layer = layers.batch_norm_infer(internal_layer, name=f"bn{i + 1}_{j + 1}")
            internal_layer = nn.relu(internal_layer)
        internal_layer = nn.max_pool2d(internal_layer, pool_size=(2, 2), strides=(2, 2))
    return internal_layer


def get_classifier(input_data: Expr, num_classes: int) -> Expr:
    """Two layers of 4096 units with dropout, and the last."""
    x = nn.batch_flatten(input_data)
    for i in (6, 7):
        x = nn.relu(layers.dense_add_bias(x, units=4096, name=f"fc{i}"))
        x = nn.dropout(x, rate=0.5)
    return layers.dense_add_bias(x, units=num_classes, name="fc8")


def get_net(batch_size: int, image_shape: Sequence[int], num_classes: int, dtype: str, num_layers: int = 11,
            batch_norm: bool = False) -> Function:
    """The network of 11, 13, 16 or 19 layers."""
    if num_layers not in _LAYERS:
        raise ValueError(f"there is no VGG of {num_layers} layers; there are: {list(_LAYERS)}")
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    net = nn.softmax(get_classifier(get_feature(data, _LAYERS[num_layers], _FILTERS, batch_norm), num_classes))
    return Function(free_vars(net), net)


def get_workload(batch_size: int, num_classes: int = 1000, image_shape: Sequence[int] = (3, 224, 224),
                 dtype: str = "float32", num_layers: int = 11,
                 batch_norm: bool = False) -> tuple[IRModule, dict[str, NDArray]]:
    """(module, params) of get_net."""
    return create_workload(get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm))
