# SPDX-License-Identifier: Apache-2.0
"""Gradients of operators, against differences of values in float64."""
import numpy as np
import pytest

import treadle
from treadle import relay
from treadle.relay.testing import check_grad


def param(name, *shape):
    return relay.var(name, shape=shape, dtype="float64")


X, Y, Z = param("x", 2, 3), param("y", 2, 3), param("z", 3)
P = param("p", 1, 2, 4, 4)
W = param("w", 3, 2, 3, 3)
B = param("b", 3)
W2 = param("w2", 3, 2)
DW = param("dw", 4, 1, 3, 3)
C, D = param("c", 2), param("d", 2)
V = relay.var("v")


@pytest.mark.parametrize("params, body", [
    ([X, Y], lambda: X + Y), ([X, Z], lambda: X + Z), ([X, Y], lambda: X - Y), ([X, Z], lambda: X * Z),
    ([X, Y], lambda: X / (Y + relay.const(3.0, "float64"))), ([X], lambda: relay.negative(X)),
    ([X], lambda: relay.exp(X)), ([X], lambda: relay.log(X * X + relay.const(1.0, "float64"))),
    ([X], lambda: relay.sqrt(X * X + relay.const(1.0, "float64"))), ([X], lambda: relay.sigmoid(X)),
    ([X], lambda: relay.tanh(X)), ([X], lambda: relay.nn.relu(X)), ([X], lambda: relay.nn.leaky_relu(X, 0.1)),
    ([X], lambda: relay.sum(X * X, axis=1)), ([X], lambda: relay.mean(X * X, axis=0, keepdims=True)),
    ([X], lambda: relay.reshape(X * X, (3, 2))), ([X], lambda: relay.transpose(X * X)),
    ([X], lambda: relay.nn.softmax(X) * X), ([X], lambda: relay.nn.log_softmax(X) * X),
    ([X, Y], lambda: relay.nn.dense(X, Y)), ([X, Z], lambda: relay.nn.bias_add(X, Z) * X),
    ([X, Y], lambda: relay.maximum(X, Y)), ([X, Y], lambda: relay.minimum(X, Y)),
    ([X, Y], lambda: relay.concatenate((X, Y), axis=0) * relay.concatenate((Y, X), axis=0)),
    ([X], lambda: relay.expand_dims(X * X, 1)), ([X], lambda: relay.clip(X, -0.5, 0.5)),
    ([X], lambda: relay.cast(relay.cast(X * X, "float64"), "float64")),
    ([X, Y], lambda: relay.nn.cross_entropy_with_logits(X, Y)),
    ([P, W], lambda: relay.nn.conv2d(P, W, padding=(1, 1))),
    ([P, W], lambda: relay.nn.conv2d(P, W, strides=(2, 2), padding=(1, 1))),
    ([P], lambda: relay.nn.max_pool2d(P, (2, 2), strides=(2, 2))),
    ([P], lambda: relay.nn.avg_pool2d(P, (2, 2), strides=(2, 2))),
    ([X], lambda: relay.sin(X) * relay.cos(X)), ([X], lambda: relay.abs(X)),
    ([X], lambda: relay.power(relay.exp(X), relay.const(3.0, "float64"))),
    ([X, Y], lambda: relay.where(relay.greater(X, Y), X * X, Y)),
    ([X, Y], lambda: relay.nn.cross_entropy(relay.exp(X), Y)),
    ([P], lambda: relay.nn.global_avg_pool2d(P * P)), ([P], lambda: relay.nn.batch_flatten(P * P)),
    ([X], lambda: relay.tan(X) + relay.atan(X)), ([X], lambda: relay.erf(X)), ([X], lambda: relay.sinh(X) * relay.cosh(X)),
    ([X], lambda: relay.rsqrt(relay.exp(X))), ([X], lambda: relay.log2(relay.exp(X)) * relay.log10(relay.exp(X))),
    ([X], lambda: relay.max(X, axis=1) * relay.min(X, axis=1)), ([X], lambda: relay.max(X, axis=0, exclude=True)),
    ([X], lambda: relay.variance(X, axis=1)), ([X, W2], lambda: relay.nn.matmul(X, W2)),
    ([X, W2], lambda: relay.nn.matmul(W2, X, transpose_a=True, transpose_b=True)),
    ([P, DW], lambda: relay.nn.conv2d(P, DW, groups=2, padding=(1, 1), strides=(2, 2))),
    ([P], lambda: relay.nn.max_pool2d(P, (3, 3), strides=(2, 2), padding=(1, 1))),
    ([P], lambda: relay.nn.max_pool2d(P, (3, 2), strides=(1, 2), padding=(0, 1, 1, 0), ceil_mode=True)),
    ([P], lambda: relay.nn.avg_pool2d(P, (3, 3), strides=(2, 2), padding=(1, 1))),
    ([P], lambda: relay.nn.avg_pool2d(P, (3, 3), strides=(2, 2), padding=(1, 1), count_include_pad=True)),
    ([P], lambda: relay.nn.avg_pool2d(P, (3, 3), strides=(2, 2), ceil_mode=True)),
    ([P], lambda: relay.nn.global_max_pool2d(P)), ([P], lambda: relay.nn.upsampling(P * P, 2, 2)),
    ([P, C, D], lambda: relay.nn.batch_norm(P, C, D, D * D, C * C + relay.const(1.0, "float64"))[0]),
    ([X, Z], lambda: relay.nn.layer_norm(X, Z, Z)), ([P, C], lambda: relay.nn.prelu(P, C)),
    ([X], lambda: relay.nn.dropout(X, 0.5)),
    ([X], lambda: relay.split(X * X, 3, axis=1)[0] * relay.split(X, 3, axis=1)[2]),
    ([X], lambda: relay.sum(relay.split(X * X, [1], axis=1)[1])),
    ([X], lambda: relay.strided_slice(X * X, [0, -2], [2, 3]) + relay.strided_slice(X * X, [0, 0], [2, 3], [1, 2])),
    ([X, Y], lambda: relay.stack([X, Y * X], axis=1)), ([X], lambda: relay.tile(X * X, (2, 1, 2))),
    ([X], lambda: relay.repeat(X * X, 2, axis=1)),
    ([X], lambda: relay.take(X * X, relay.const(np.array([[0, 2], [2, 1]])), axis=1)),
    ([X], lambda: relay.take(X * X, relay.const(np.array([0, 5, 5])))),
    ([X], lambda: relay.gather(X * X, 1, relay.const(np.array([[0, 1], [2, 2]])))),
    ([X], lambda: relay.nn.pad(X * X, ((1, 0), (0, 2)), relay.const(0.0, "float64"))),
    ([X], lambda: relay.Let(V, X * X, V * V)),
    ([X], lambda: relay.TupleGetItem(relay.Tuple([relay.exp(X), relay.Tuple([X])]), 0)),
], ids=lambda value: None if isinstance(value, list) else "op")
def test_operators(params, body):
    np.random.seed(3)
    check_grad(relay.Function(params, body()))


def test_a_small_network_learns():
    """Some steps of gradient descent on a convolutional network make its loss smaller."""
    x, w, d = (relay.var("x", shape=(2, 1, 6, 6)), relay.var("w", shape=(2, 1, 3, 3)), relay.var("d", shape=(3, 8)))
    labels = relay.var("l", shape=(2, 3))
    net = relay.nn.max_pool2d(relay.nn.relu(relay.nn.conv2d(x, w)), (2, 2), strides=(2, 2))
    loss = relay.nn.cross_entropy(relay.nn.softmax(relay.nn.dense(relay.nn.batch_flatten(net), d)), labels)
    backward = relay.transform.gradient(relay.Function([x, w, d, labels], loss))
    run = relay.create_executor("debug", mod=treadle.IRModule.from_expr(backward)).evaluate()
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype("float32") for shape in ((2, 1, 6, 6), (2, 1, 3, 3), (3, 8))]
    target = np.eye(3, dtype="float32")[:2]
    losses = []
    for _ in range(4):
        value, gradients = run(*values, target)
        losses.append(float(value.numpy()))
        for i in (1, 2):
            values[i] = values[i] - 0.1 * gradients[i].numpy()
    assert losses[-1] < losses[0]


def test_checkpoints_are_what_they_hold():
    """annotation.checkpoint: the identity where a program runs, and for gradients."""
    x = relay.var("x", shape=(3,))
    mod = treadle.IRModule.from_expr(relay.Function([x], relay.annotation.checkpoint(relay.exp(x))))
    value = np.array([0.0, 1.0, -2.0], "float32")
    lib = relay.build(mod, "llvm")
    module = treadle.contrib.graph_executor.GraphModule(lib["default"](treadle.cpu()))
    module.run(x=value)
    np.testing.assert_allclose(module.get_output(0).numpy(), np.exp(value), rtol=1e-6)
    backward = relay.transform.gradient(relay.transform.InferType()(mod)["main"])
    _, (gradient,) = relay.create_executor("debug", mod=treadle.IRModule.from_expr(backward)).evaluate()(value)
    np.testing.assert_allclose(gradient.numpy(), np.exp(value), rtol=1e-6)
