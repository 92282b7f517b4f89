# SPDX-License-Identifier: Apache-2.0
"""The generator of a DCGAN (Radford et al. 2015)."""
from collections.abc import Sequence
from typing import Any

from ..._nd import NDArray
from ...ir import IRModule
from .. import nn, reshape, tanh
from ..analysis import free_vars
from ..expr import Expr, Function, var
from . import layers
from .init import create_workload


def deconv2d(data: Expr, ishape: Sequence[int], oshape: Sequence[int], kshape: Sequence[int], layout: str, name: str,
             stride: Any = (2, 2)) -> Expr:
    """A transposed convolution from (channels, height, width) `ishape` to `oshape`."""
    if layout == "NHWC":
        kernel_layout, out_height, out_width = "HWOI", oshape[0], oshape[1]
        channels, in_height, in_width = oshape[2], ishape[0], ishape[1]
    else:
        kernel_layout, (channels, out_height, out_width) = "IOHW", oshape
        _, in_height, in_width = ishape
    pads = []
    adjust = []
    for out, size, kernel, step in ((out_height, in_height, kshape[0], stride[0]),
                                    (out_width, in_width, kshape[1], stride[1])):
        adjust.append((out + 2 * ((kernel - 1) // 2) - kernel) % step)
        pads.append((kernel - 1) // 2)
        if (size - 1) * step - 2 * pads[-1] + kernel + adjust[-1] != out:
            raise ValueError(f"a transposed convolution of {kshape}, stride {stride} doesn't lead from {size} to {out}")
    return layers.conv2d_transpose(data, kernel_size=kshape, strides=stride, channels=channels, padding=tuple(pads),
                                   output_padding=tuple(adjust), data_layout=layout, kernel_layout=kernel_layout,
                                   name=name)


def deconv2d_bn_relu(data: Expr, prefix: str, **kwargs: Any) -> Expr:
    """deconv2d, batch norm, rectifier."""
    epsilon = 1e-5 + 1e-12
    net = deconv2d(data, name=f"{prefix}_deconv", **kwargs)
    axis = kwargs.get("layout", "NCHW").index("C")
    return nn.relu(layers.batch_norm_infer(net, epsilon=epsilon, scale=False, axis=axis, name=f"{prefix}_batch_norm"))


def get_net(batch_size: int, random_len: int = 100, oshape: Sequence[int] = (3, 64, 64), ngf: int = 128, code: Any = None,
            layout: str = "NCHW", dtype: str = "float32") -> Function:
    """From `random_len` numbers per picture to pictures of 64 by 64."""
    data = var("data", shape=(batch_size, random_len), dtype=dtype)
    first = nn.relu(layers.dense_add_bias(data, units=4 * 4 * ngf * 8, name="dense"))
    nchw = layout == "NCHW"

    def shape(channels, size):
        return (channels, size, size) if nchw else (size, size, channels)

    net = reshape(first, (-1, *shape(ngf * 8, 4)))
    for i, (factor, size) in enumerate(((4, 8), (2, 16), (1, 32)), 2):
        net = deconv2d_bn_relu(net, f"g{i}", ishape=shape(ngf * factor * 2, size // 2), oshape=shape(ngf * factor, size),
                               kshape=(4, 4), layout=layout)
    out = oshape if nchw else (oshape[1], oshape[2], oshape[0]) if oshape[0] == 3 else oshape
    net = tanh(deconv2d(net, ishape=shape(ngf, 32), oshape=out, kshape=(4, 4), layout=layout, name="g5_deconv"))
    return Function(free_vars(net), net)


def get_workload(batch_size: int, oshape: Sequence[int] = (3, 64, 64), ngf: int = 128, random_len: int = 100,
                 layout: str = "NCHW", dtype: str = "float32") -> tuple[IRModule, dict[str, NDArray]]:
    """(module, params) of get_net."""
    return create_workload(get_net(batch_size, random_len, oshape, ngf, None, layout, dtype))
