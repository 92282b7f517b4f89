# SPDX-License-Identifier: Apache-2.0
"""C sources of a model: a directory that needs nothing but a C99 compiler."""
import ctypes
import platform
import shutil
import subprocess

import numpy as np
import pytest

import treadle
from treadle import relay
from treadle.contrib import graph_executor

CC = shutil.which("cc")
FLAGS = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fPIC", "-shared"]


def model():
    x = relay.var("x", shape=(1, 3, 8, 8))
    w = relay.var("w", shape=(4, 3, 3, 3))
    v = relay.var("v", shape=(5, 256))
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1), channels=4, kernel_size=(3, 3)))
    y = relay.nn.softmax(relay.nn.dense(relay.nn.batch_flatten(y), v))
    rng = np.random.default_rng(3)
    params = {"w": rng.standard_normal((4, 3, 3, 3)).astype("float32"),
              "v": rng.standard_normal((5, 256)).astype("float32")}
    return relay.Function([x, w, v], y), params, rng.standard_normal((1, 3, 8, 8)).astype("float32")


@pytest.fixture(scope="module")
def built():
    function, params, x = model()
    llvm = graph_executor.GraphModule(relay.build(function, target="llvm", params=params)["default"](treadle.cpu()))
    llvm.set_input("x", x)
    llvm.run()
    return relay.build(function, target="c", params=params), x, llvm.get_output(0).numpy()


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_sources_run_without_a_runtime(built, tmp_path):
    lib, x, expected = built
    lib.export_library(f"{tmp_path}/model/")
    sources = [str(tmp_path / "model" / name) for name in ("model.c", "kernels.c", "weights.c")]
    library = str(tmp_path / "libmodel.so")
    subprocess.run([CC, *FLAGS, *sources, "-o", library, "-lm"], check=True)
    code = ctypes.CDLL(library)
    header = (tmp_path / "model" / "model.h").read_text()
    size = int(header.split("#define MODEL_MEMORY_BYTES ")[1].split()[0])
    y, memory = np.zeros((1, 5), "float32"), ctypes.create_string_buffer(size)
    inputs = (ctypes.c_void_p * 1)(x.ctypes.data)
    outputs = (ctypes.c_void_p * 1)(y.ctypes.data)
    assert code.model_run(inputs, outputs, memory) == 0
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_library_agrees_with_llvm(built, tmp_path):
    lib, x, expected = built
    lib.export_library(tmp_path / "m.so")
    module = graph_executor.GraphModule(treadle.runtime.load_module(tmp_path / "m.so")["default"](treadle.cpu()))
    module.set_input("x", x)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-6)


def test_source_of_the_library_is_c(built):
    assert "int32_t" in built[0].get_lib().get_source() and "__compute(" in built[0].get_lib().get_source()


def test_sources_of_another_target_are_refused(tmp_path):
    function, params, _ = model()
    with pytest.raises(treadle.TargetError, match="C sources are made by target c"):
        relay.build(function, target="llvm", params=params).export_library(f"{tmp_path}/model/")


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_parallel_loops_of_libraries_run_on_threads(built, tmp_path):
    te, n = treadle.te, 64
    a = te.placeholder((n, n), name="a")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((n, n), lambda i, j: te.sum(a[i, k] * a[k, j], axis=k), name="b")
    s = te.create_schedule(b.op)
    s[b].parallel(b.op.axis[0])
    func = treadle.build(s, [a, b], target="c", name="square")
    assert "treadle_parallel(square__loop0_task" in func.get_source()
    x = np.random.default_rng(4).standard_normal((n, n)).astype("float32")
    y = treadle.nd.array(np.zeros((n, n), "float32"))
    func(treadle.nd.array(x), y)
    np.testing.assert_allclose(y.numpy(), x @ x, rtol=1e-3, atol=1e-4)
    # Sources that need no runtime have one thread.
    built[0].export_library(f"{tmp_path}/model/")
    assert "treadle_parallel" not in (tmp_path / "model" / "kernels.c").read_text()


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_bytes_agree_with_llvm(tmp_path):
    x = relay.var("x", shape=(1, 16, 10, 10), dtype="uint8")
    w = relay.var("w", shape=(24, 16, 3, 3), dtype="int8")
    y = relay.qnn.op.conv2d(x, w, relay.const(7), relay.const(0), relay.const(0.1), relay.const(0.02),
                            kernel_size=(3, 3), channels=24, padding=(1, 1))
    rng = np.random.default_rng(5)
    params = {"w": rng.integers(-128, 128, (24, 16, 3, 3)).astype("int8")}
    data = rng.integers(0, 256, (1, 16, 10, 10)).astype("uint8")
    results = []
    for target in ("c", "llvm"):
        relay.build(relay.Function([x, w], y), target=target, params=params).export_library(tmp_path / f"{target}.so")
        loaded = treadle.runtime.load_module(tmp_path / f"{target}.so")
        module = graph_executor.GraphModule(loaded["default"](treadle.cpu()))
        module.set_input("x", data)
        module.run()
        results.append(module.get_output(0).numpy())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("k", [8, 16, 24, 64])
def test_sums_of_bytes(k):
    """GCC 12.2 at -O3 gave half of the sum for 16 products of uint8 and int8."""
    rng = np.random.default_rng(k)
    x, w = rng.integers(0, 256, (1, k)).astype("uint8"), rng.integers(-128, 128, (1, k)).astype("int8")
    a, b = relay.var("x", shape=x.shape, dtype="uint8"), relay.var("w", shape=w.shape, dtype="int8")
    function = relay.Function([a, b], relay.nn.dense(a, b, out_dtype="int32"))
    for level in (0, 3):
        with treadle.transform.PassContext(opt_level=level):
            library = relay.build(function, target="c")
        module = graph_executor.GraphModule(library["default"](treadle.cpu()))
        module.set_input("x", x)
        module.set_input("w", w)
        module.run()
        np.testing.assert_array_equal(module.get_output(0).numpy(), x.astype("int32") @ w.astype("int32").T)


@pytest.mark.parametrize("target", ["c"] + ["c -mcpu=sapphirerapids"] * (platform.machine() == "x86_64"))
def test_instructions_that_c_lacks(target):
    """Products of tiles and of pairs of bfloat16 aren't in the language, whatever processor it is compiled on."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((32, 64), "float32"), rng.standard_normal((64, 64), "float32")
    data = relay.var("x", shape=x.shape)
    function = relay.Function([data], relay.nn.dense(data, relay.const(w)))
    with treadle.transform.PassContext(opt_level=3, config={"relay.precision": "bf16"}):
        library = relay.build(function, target=target)
    module = graph_executor.GraphModule(library["default"](treadle.cpu()))
    module.set_input("x", x)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), x @ w.T, rtol=0.02, atol=0.1)
