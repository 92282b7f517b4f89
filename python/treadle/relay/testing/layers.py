# SPDX-License-Identifier: Apache-2.0
"""Layers with parameters of their own, called after the layer's `name`."""
from typing import Any

from .. import nn
from ..expr import Expr, var


def _parameter(value, name, ending, **kwargs):
    return value if value is not None else var(f"{name}_{ending}", **kwargs)


def conv2d(data: Expr, weight: Expr | None = None, **kwargs: Any) -> Expr:
    """nn.conv2d with a weight `<name>_weight`."""
    name = kwargs.pop("name")
    return nn.conv2d(data, _parameter(weight, name, "weight"), **kwargs)


def conv3d(data: Expr, weight: Expr | None = None, **kwargs: Any) -> Expr:
    """nn.conv3d with a weight `<name>_weight`."""
    name = kwargs.pop("name")
    return nn.conv3d(data, _parameter(weight, name, "weight"), **kwargs)


def conv2d_transpose(data: Expr, weight: Expr | None = None, **kwargs: Any) -> Expr:
    """nn.conv2d_transpose with a weight `<name>_weight`."""
    name = kwargs.pop("name")
    return nn.conv2d_transpose(data, _parameter(weight, name, "weight"), **kwargs)


def dense_without_bias(data: Expr, weight: Expr | None = None, **kwargs: Any) -> Expr:
    """nn.dense with a weight `<name>_weight`."""
    name = kwargs.pop("name")
    return nn.dense(data, _parameter(weight, name, "weight"), **kwargs)


def dense_add_bias(data: Expr, weight: Expr | None = None, bias: Expr | None = None, units: Any = None,
                   **kwargs: Any) -> Expr:
    """nn.dense and nn.bias_add with `<name>_weight` and `<name>_bias`."""
    name = kwargs.pop("name")
    product = nn.dense(data, _parameter(weight, name, "weight"), units=units, **kwargs)
    return nn.bias_add(product, _parameter(bias, name, "bias"), axis=-1)


def batch_norm_infer(data: Expr, gamma: Expr | None = None, beta: Expr | None = None, moving_mean: Expr | None = None,
                     moving_var: Expr | None = None, **kwargs: Any) -> Expr:
    """The first result of nn.batch_norm with `<name>_gamma`, `_beta`, `_moving_mean` and `_moving_var`."""
    name = kwargs.pop("name")
    return nn.batch_norm(data, _parameter(gamma, name, "gamma"), _parameter(beta, name, "beta"),
                         _parameter(moving_mean, name, "moving_mean"), _parameter(moving_var, name, "moving_var"),
                         **kwargs)[0]


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """The layout of weights that goes with a layout of data."""
    layouts = {"NCHW": ("OIHW", "OIHW"), "NHWC": ("HWIO", "HWOI"), "NCDHW": ("OIDHW", "OIDHW"),
               "NDHWC": ("DHWIO", "DHWOI")}
    if data_layout not in layouts:
        raise ValueError(f"no kernel layout for {data_layout}; there are: {', '.join(layouts)}")
    return layouts[data_layout][1 if is_depthwise else 0]
