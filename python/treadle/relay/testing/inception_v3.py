# SPDX-License-Identifier: Apache-2.0
"""Inception v3 (Szegedy et al. 2015)."""
from collections.abc import Sequence

from ..._nd import NDArray
from ...ir import IRModule
from .. import concatenate, nn
from ..analysis import free_vars
from ..expr import Expr, Function, var
from . import layers
from .init import create_workload


def _conv(data, channels, name, kernel=(1, 1), stride=(1, 1), pad=(0, 0), suffix=""):
    conv = layers.conv2d(data, channels=channels, kernel_size=kernel, strides=stride, padding=pad,
                         name=f"{name}{suffix}_conv1")
    return nn.relu(layers.batch_norm_infer(conv, epsilon=2e-5, scale=False, name=f"{name}{suffix}_bn"))


def _pool(data, kind, stride=(1, 1), pad=(1, 1), size=(3, 3)):
    if kind == "max":
        return nn.max_pool2d(data, pool_size=size, strides=stride, padding=pad)
    return nn.avg_pool2d(data, pool_size=size, strides=stride, padding=pad, count_include_pad=True)


def _branch(data, steps, name):
    """Convolutions in a row: (channels, kernel, stride, padding) each."""
    for i, (channels, kernel, stride, pad) in enumerate(steps):
        data = _conv(data, channels, name, kernel, stride, pad, "_conv" if i == 0 else f"_conv_{i}")
    return data


_ONE, _NONE = (1, 1), (0, 0)


def _inception7a(data, c1x1, c3x3_reduce, c3x3_1, c3x3_2, c5x5_reduce, c5x5, pool, proj, name):
    one = _conv(data, c1x1, f"{name}_conv")
    five = _branch(data, [(c5x5_reduce, _ONE, _ONE, _NONE), (c5x5, (5, 5), _ONE, (2, 2))], f"{name}_tower")
    three = _branch(data, [(c3x3_reduce, _ONE, _ONE, _NONE), (c3x3_1, (3, 3), _ONE, (1, 1)),
                           (c3x3_2, (3, 3), _ONE, (1, 1))], f"{name}_tower_1")
    pooled = _conv(_pool(data, pool), proj, f"{name}_tower_2", suffix="_conv")
    return concatenate((one, five, three, pooled), axis=1)


def _inception7b(data, c3x3, cd3x3_reduce, cd3x3_1, cd3x3_2, pool, name):
    three = _conv(data, c3x3, f"{name}_conv", (3, 3), (2, 2))
    double = _branch(data, [(cd3x3_reduce, _ONE, _ONE, _NONE), (cd3x3_1, (3, 3), _ONE, (1, 1)),
                            (cd3x3_2, (3, 3), (2, 2), _NONE)], f"{name}_tower")
    return concatenate((three, double, _pool(data, pool, (2, 2), _NONE)), axis=1)


def _inception7c(data, c1x1, reduce, middle, c7, pool, proj, name):
    one = _conv(data, c1x1, f"{name}_conv")
    wide, tall = ((1, 7), _ONE, (0, 3)), ((7, 1), _ONE, (3, 0))
    single = _branch(data, [(reduce, _ONE, _ONE, _NONE), (middle, *wide), (c7, *tall)], f"{name}_tower")
    double = _branch(data, [(reduce, _ONE, _ONE, _NONE), (middle, *tall), (middle, *wide), (middle, *tall),
                            (c7, *wide)], f"{name}_tower_1")
    pooled = _conv(_pool(data, pool), proj, f"{name}_tower_2", suffix="_conv")
    return concatenate((one, single, double, pooled), axis=1)


def _inception7d(data, reduce, c3x3, c7_reduce, c7, pool, name):
    three = _branch(data, [(reduce, _ONE, _ONE, _NONE), (c3x3, (3, 3), (2, 2), _NONE)], f"{name}_tower")
    seven = _branch(data, [(c7_reduce, _ONE, _ONE, _NONE), (c7, (1, 7), _ONE, (0, 3)), (c7, (7, 1), _ONE, (3, 0)),
                           (c7, (3, 3), (2, 2), _NONE)], f"{name}_tower_1")
    return concatenate((three, seven, _pool(data, pool, (2, 2), _NONE)), axis=1)


def _inception7e(data, c1x1, reduce, c3, reduce_double, c3_double, c3_out, pool, proj, name):
    one = _conv(data, c1x1, f"{name}_conv")
    single = _conv(data, reduce, f"{name}_tower", suffix="_conv")
    single_a = _conv(single, c3, f"{name}_tower", (1, 3), pad=(0, 1), suffix="_mixed_conv")
    single_b = _conv(single, c3, f"{name}_tower", (3, 1), pad=(1, 0), suffix="_mixed_conv_1")
    double = _branch(data, [(reduce_double, _ONE, _ONE, _NONE), (c3_double, (3, 3), _ONE, (1, 1))], f"{name}_tower_1")
    double_a = _conv(double, c3_out, f"{name}_tower_1", (1, 3), pad=(0, 1), suffix="_mixed_conv")
    double_b = _conv(double, c3_out, f"{name}_tower_1", (3, 1), pad=(1, 0), suffix="_mixed_conv_1")
    pooled = _conv(_pool(data, pool), proj, f"{name}_tower_2", suffix="_conv")
    return concatenate((one, single_a, single_b, double_a, double_b, pooled), axis=1)


def get_net(batch_size: int, num_classes: int, image_shape: Sequence[int], dtype: str) -> Function:
    """The network for pictures of 299 by 299."""
    x: Expr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    x = _conv(x, 32, "conv", (3, 3), (2, 2))
    x = _conv(x, 32, "conv_1", (3, 3))
    x = _conv(x, 64, "conv_2", (3, 3), pad=(1, 1))
    x = _pool(x, "max", (2, 2), _NONE)
    x = _conv(x, 80, "conv_3")
    x = _conv(x, 192, "conv_4", (3, 3))
    x = _pool(x, "max", (2, 2), _NONE)
    for i, proj in enumerate((32, 64, 64)):
        x = _inception7a(x, 64, 64, 96, 96, 48, 64, "avg", proj, f"mixed{'' if i == 0 else f'_{i}'}")
    x = _inception7b(x, 384, 64, 96, 96, "max", "mixed_3")
    for i, middle in enumerate((128, 160, 160, 192), 4):
        x = _inception7c(x, 192, middle, middle, 192, "avg", 192, f"mixed_{i}")
    x = _inception7d(x, 192, 320, 192, 192, "max", "mixed_8")
    x = _inception7e(x, 320, 384, 384, 448, 384, 384, "avg", 192, "mixed_9")
    x = _inception7e(x, 320, 384, 384, 448, 384, 384, "max", 192, "mixed_10")
    x = nn.batch_flatten(_pool(x, "avg", _ONE, _NONE, (8, 8)))
    net = nn.softmax(layers.dense_add_bias(x, units=num_classes, name="fc1"))
    return Function(free_vars(net), net)


def get_workload(batch_size: int = 1, num_classes: int = 1000, image_shape: Sequence[int] = (3, 299, 299),
                 dtype: str = "float32") -> tuple[IRModule, dict[str, NDArray]]:
    """(module, params) of get_net."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
