# SPDX-License-Identifier: Apache-2.0
"""Networks for tests, written with the graph IR's operators; weights are random but seeded."""
import types

import numpy as np

from .. import nd
from ..ir import IRModule
from .expr import Function, var


def create_workload(net, seed=0):
    """(module, params): the function as `main` with seeded weights for all parameters but the first."""
    from . import transform

    module = transform.InferType()(IRModule.from_expr(net))
    rng = np.random.default_rng(seed)
    params = {}
    for param in list(module["main"].params)[1:]:
        shape = param.checked_type.concrete_shape
        name = param.name_hint
        if name.endswith(("gamma", "var")):
            value = 0.5 + rng.random(shape)
        elif name.endswith(("beta", "mean", "bias")):
            value = 0.1 * rng.standard_normal(shape)
        else:
            value = rng.standard_normal(shape) * (2 / max(1, int(np.prod(shape[1:])))) ** 0.5
        params[name] = nd.array(value.astype(str(param.checked_type.dtype)))
    return module, params


class _Network:
    """Collects the parameters of a network that is being built."""

    def __init__(self, dtype):
        self.dtype, self.params = dtype, []

    def param(self, name, shape):
        self.params.append(var(name, shape=shape, dtype=self.dtype))
        return self.params[-1]

    def conv(self, name, x, inputs, outputs, kernel, stride=1):
        from . import nn

        weight = self.param(f"{name}_weight", (outputs, inputs, kernel, kernel))
        return nn.conv2d(x, weight, strides=(stride, stride), padding=(kernel // 2,) * 2, channels=outputs,
                         kernel_size=(kernel, kernel))

    def batch_norm(self, name, x, channels):
        from . import nn

        args = [self.param(f"{name}_{kind}", (channels,)) for kind in ("gamma", "beta", "moving_mean", "moving_var")]
        return nn.batch_norm(x, *args)[0]


def _resnet(batch_size=1, num_classes=1000, num_layers=18, image_shape=(3, 224, 224), dtype="float32", **_):
    from . import nn

    units = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}[num_layers]
    net = _Network(dtype)
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    x = nn.relu(net.batch_norm("bn0", net.conv("conv0", data, image_shape[0], 64, 7, 2), 64))
    x = nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    channels = 64
    for stage, (count, width) in enumerate(zip(units, (64, 128, 256, 512)), 1):
        for unit in range(count):
            name = f"stage{stage}_unit{unit + 1}"
            stride = 2 if stage > 1 and unit == 0 else 1
            shortcut = x
            if stride != 1 or channels != width:
                shortcut = net.batch_norm(f"{name}_sc_bn", net.conv(f"{name}_sc", x, channels, width, 1, stride), width)
            y = nn.relu(net.batch_norm(f"{name}_bn1", net.conv(f"{name}_conv1", x, channels, width, 3, stride), width))
            y = net.batch_norm(f"{name}_bn2", net.conv(f"{name}_conv2", y, width, width, 3), width)
            x = nn.relu(y + shortcut)
            channels = width
    x = nn.batch_flatten(nn.global_avg_pool2d(x))
    x = nn.bias_add(nn.dense(x, net.param("fc1_weight", (num_classes, 512)), units=num_classes),
                    net.param("fc1_bias", (num_classes,)))
    return Function([data, *net.params], nn.softmax(x))


def _mlp(batch_size=1, num_classes=10, image_shape=(1, 28, 28), dtype="float32", **_):
    from . import nn

    net = _Network(dtype)
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    x, width = nn.batch_flatten(data), int(np.prod(image_shape))
    for i, units in enumerate((128, 64, num_classes), 1):
        x = nn.bias_add(nn.dense(x, net.param(f"fc{i}_weight", (units, width)), units=units),
                        net.param(f"fc{i}_bias", (units,)))
        x, width = nn.relu(x) if i < 3 else nn.softmax(x), units
    return Function([data, *net.params], x)


def _namespace(build):
    return types.SimpleNamespace(get_net=build, get_workload=lambda **kwargs: create_workload(build(**kwargs)))


resnet = _namespace(_resnet)
mlp = _namespace(_mlp)
