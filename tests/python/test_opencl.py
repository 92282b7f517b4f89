# SPDX-License-Identifier: Apache-2.0
"""The opencl target, on whatever device the machine has."""
import numpy as np
import pytest

import treadle
from treadle import relay, te
from treadle.contrib import graph_executor


def device():
    dev = treadle.opencl(0)
    if not dev.exist:
        pytest.skip("no OpenCL device")
    return dev


def add_one(n, schedule):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    schedule(s, b)
    return treadle.build(s, [a, b], target="opencl", name="add_one")


def bound(s, b):
    outer, inner = s[b].split(b.op.axis[0], factor=64)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))


@pytest.mark.parametrize("schedule", [bound, lambda s, b: None], ids=["bound", "unscheduled"])
@pytest.mark.parametrize("n", [1, 64, 1000])
def test_kernel_runs(schedule, n):
    dev = device()
    module = add_one(n, schedule)
    x = np.arange(n, dtype="float32")
    a, b = treadle.nd.array(x, dev), treadle.nd.empty((n,), "float32", dev)
    module(a, b)
    np.testing.assert_array_equal(b.numpy(), x + 1)


def test_source_names_the_grid():
    module = add_one(1000, bound)
    source = module.imported_modules[0].get_source()
    assert "__kernel void add_one_kernel0" in source and "get_group_id(0)" in source and "get_local_id(0)" in source


def test_tensor_of_the_wrong_device_is_refused():
    device()
    a, b = treadle.nd.array(np.zeros(64, "float32")), treadle.nd.array(np.zeros(64, "float32"))
    with pytest.raises(treadle.Error, match="arg0.device_type is expected to be 4"):
        add_one(64, bound)(a, b)


def test_block_that_is_too_large_is_refused():
    dev = device()

    def schedule(s, b):
        s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))

    a, b = treadle.nd.empty((1 << 20,), "float32", dev), treadle.nd.empty((1 << 20,), "float32", dev)
    with pytest.raises(treadle.Error, match="threadIdx.x has extent 1048576|a block of 1048576"):
        add_one(1 << 20, schedule)(a, b)


def graph():
    x = relay.var("x", shape=(1, 3, 12, 12))
    w = relay.var("w", shape=(8, 3, 3, 3))
    v = relay.var("v", shape=(10, 8))
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1), channels=8, kernel_size=(3, 3)))
    y = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y))
    return relay.Function([x, w, v], relay.nn.softmax(relay.nn.dense(y, v)))


def test_graph_runs_and_agrees_with_llvm(tmp_path):
    dev = device()
    rng = np.random.default_rng(0)
    params = {"w": rng.standard_normal((8, 3, 3, 3)).astype("float32"),
              "v": rng.standard_normal((10, 8)).astype("float32")}
    x = rng.standard_normal((1, 3, 12, 12)).astype("float32")

    def run(lib, where):
        module = graph_executor.GraphModule(lib["default"](where))
        module.set_input("x", x)
        module.run()
        return module.get_output(0).numpy()

    expected = run(relay.build(graph(), target="llvm", params=params), treadle.cpu())
    lib = relay.build(graph(), target="opencl", params=params)
    np.testing.assert_allclose(run(lib, dev), expected, rtol=1e-5)
    lib.export_library(tmp_path / "m.so")
    np.testing.assert_allclose(run(treadle.runtime.load_module(tmp_path / "m.so"), dev), expected, rtol=1e-5)
