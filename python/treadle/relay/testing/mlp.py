# SPDX-License-Identifier: Apache-2.0
"""A perceptron of three layers."""
from collections.abc import Sequence
import numpy as np

from ..._nd import NDArray
from ...ir import IRModule
from .. import nn
from ..analysis import free_vars
from ..expr import Function, var
from .init import create_workload


def get_net(batch_size: int, num_classes: int = 10, image_shape: Sequence[int] = (1, 28, 28),
            dtype: str = "float32") -> Function:
    """Layers of 128, 64 and `num_classes` units on flattened pictures, rectified; softmax."""
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    fc = nn.batch_flatten(data)
    width = int(np.prod(image_shape))
    for i, units in enumerate((128, 64, num_classes), 1):
        weight = var(f"fc{i}_weight", shape=(units, width), dtype=dtype)
        fc = nn.dense(fc, weight, units=units)
        fc = nn.bias_add(fc, var(f"fc{i}_bias", dtype=dtype), axis=-1)
        if i < 3:
            fc = nn.relu(fc)
        width = units
    net = nn.softmax(fc)
    return Function(free_vars(net), net)


def get_workload(batch_size: int = 1, num_classes: int = 10, image_shape: Sequence[int] = (1, 28, 28),
                 dtype: str = "float32") -> tuple[IRModule, dict[str, NDArray]]:
    """(module, params) of get_net."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
