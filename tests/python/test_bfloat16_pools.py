# SPDX-License-Identifier: Apache-2.0
"""Maxima of windows of bfloat16, which are compared as integers: special values, on every target, in all layouts."""
import ml_dtypes
import numpy as np
import pytest

import treadle
from treadle import relay

SPECIAL = [np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0, 3.3895e38, -3.3895e38, 9.2e-41, -9.2e-41]


def numbers(shape, nan):
    rng = np.random.default_rng(sum(shape))
    x = (rng.standard_normal(shape) * 4).astype(np.float32)
    special = np.array([v for v in SPECIAL if nan or v == v], np.float32)
    chosen = rng.random(shape) < 0.15
    x[chosen] = rng.choice(special, chosen.sum())
    return x.astype(ml_dtypes.bfloat16)


def maxima(x, window, stride, pad):
    x = np.pad(x.astype(np.float32), [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=-np.inf)
    views = np.lib.stride_tricks.sliding_window_view(x, (window, window), (2, 3))[:, :, ::stride, ::stride]
    return views.max((-1, -2))  # NaN where there is one


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64", "c", "stackvm"])
@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize("layout", ["NCHW", "NCHW8c", "NHWC"])
@pytest.mark.parametrize("window, stride, pad", [(3, 1, 1), (3, 2, 1), (2, 2, 0), (5, 1, 2)])
def test_maxima_of_special_values(target, nan, layout, window, stride, pad):
    x = numbers((1, 8, 9, 11), nan)
    shape = {"NCHW": (1, 8, 9, 11), "NCHW8c": (1, 1, 9, 11, 8), "NHWC": (1, 9, 11, 8)}[layout]
    data = relay.var("x", shape=shape, dtype="bfloat16")
    body = relay.nn.max_pool2d(data, pool_size=(window,) * 2, strides=(stride,) * 2, padding=(pad,) * 2, layout=layout)
    axes = {"NCHW": (0, 1, 2, 3), "NCHW8c": (0, 2, 3, 1), "NHWC": (0, 2, 3, 1)}[layout]
    built = relay.build(treadle.IRModule.from_expr(relay.Function([data], body)), target)
    runner = treadle.contrib.graph_executor.GraphModule(built["default"](treadle.cpu()))
    runner.run(x=np.ascontiguousarray(x.transpose(axes)).reshape(shape))
    y = runner.get_output(0).numpy()
    y = y.astype(np.float32)
    if layout != "NCHW":
        y = y.reshape(1, *y.shape[-3:-1], 8).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(y, maxima(x, window, stride, pad))
