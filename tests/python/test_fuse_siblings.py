# SPDX-License-Identifier: Apache-2.0
"""Kernels of several results: element-wise ones that read one large tensor."""
import numpy as np
import pytest

import treadle as tvm
from treadle import relay
from treadle.contrib import graph_executor

LARGE = (512, 2048)  # 4 MB: more than an L2 cache


def build(params, body, siblings=True):
    mod = tvm.IRModule.from_expr(relay.Function(params, body))
    with tvm.transform.PassContext(opt_level=3, config={"relay.FuseSiblings": siblings}):
        return relay.build(mod, "llvm -num-cores=2")


def kernels(lib):
    return lib.get_graph_json().count('"tvm_op"')


def run(lib, **inputs):
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(**inputs)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


def random(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def test_readers_of_one_large_tensor_become_one_kernel():
    x, y = relay.var("x", shape=LARGE), relay.var("y", shape=(2048,))
    body = relay.Tuple([relay.exp(x) + y, relay.tanh(x), relay.nn.relu(x) * relay.const(2.0)])
    lib = build([x, y], body)
    assert kernels(lib) == 1 and kernels(build([x, y], body, siblings=False)) == 3
    a, b = random(LARGE), random((2048,), 1)
    for got, expected in zip(run(lib, x=a, y=b), (np.exp(a) + b, np.tanh(a), np.maximum(a, 0) * 2)):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_small_tensors_and_dependent_results_stay_apart():
    x = relay.var("x", shape=(8, 16))
    assert kernels(build([x], relay.Tuple([relay.exp(x), relay.tanh(x)]))) == 2
    x = relay.var("x", shape=LARGE)
    total = relay.sum(relay.exp(x), axis=[0])
    lib = build([x], relay.Tuple([total, relay.tanh(x) * total]))
    a = random(LARGE)
    sums = np.exp(a.astype("float64")).sum(0)
    first, second = run(lib, x=a)
    np.testing.assert_allclose(first, sums, rtol=1e-4)
    np.testing.assert_allclose(second, np.tanh(a) * sums, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_keep_their_values(seed):
    rng = np.random.default_rng(seed)
    x = relay.var("x", shape=LARGE)
    unary = [relay.tanh, relay.nn.relu, relay.sigmoid, relay.negative]
    values = [x]
    for step in range(10):
        one, other = (values[int(rng.integers(len(values)))] for _ in range(2))
        made = unary[int(rng.integers(4))](one)
        values.append(relay.maximum(made, other) if rng.random() < 0.5 else made)
        if step % 4 == 3:  # not element-wise: cuts kernels
            values.append(relay.broadcast_to(relay.mean(values[-1], axis=[0], keepdims=True), LARGE) + values[-1])
    body = relay.Tuple(values[-4:])
    a = random(LARGE, seed)
    for got, expected in zip(run(build([x], body), x=a), run(build([x], body, siblings=False), x=a)):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
