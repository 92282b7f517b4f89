# SPDX-License-Identifier: Apache-2.0
"""The names that scripts written for TVM 0.8 import: each is there, or says what to use instead."""
import importlib
import pathlib

import numpy as np
import pytest

import treadle as tvm
from treadle import autotvm, relay, rpc, te, tir, topi
from treadle.contrib import dlpack, pickle_memoize, sparse, utils

NAMES = pathlib.Path(__file__).with_name("familiar_names.txt")


def names():
    """(package, its names)"""
    package, found = "", {}
    for line in NAMES.read_text(encoding="ascii").splitlines()[1:]:
        if not line.startswith(" "):
            package, _, line = line.partition(":")
        found.setdefault(package, []).extend(line.split())
    return found


def member(path):
    """What is at a dotted path: a module, or what an attribute holds."""
    found = tvm
    for i, part in enumerate(parts := path.split(".")):
        found = getattr(found, part, None) or importlib.import_module(".".join(["treadle", *parts[:i + 1]]))
    return found


@pytest.mark.parametrize("package", names())
def test_names_are_there(package):
    holder = member(package)
    missing = [name for name in names()[package] if not hasattr(holder, name)]
    assert not missing


@pytest.mark.parametrize("refused, reason", [
    (lambda: tir.Load("float32", tir.Var("p", "handle"), 0), "tir.Load: .*tir.BufferLoad"),
    (lambda: tvm.ir.CallingConv.DEFAULT, "ir.CallingConv.DEFAULT: "),
    (lambda: te.HybridOp(), "te.HybridOp: te.hybrid.script"),
    (lambda: tir.Schedule(te.create_prim_func([te.placeholder((3,))])).state, "tir.Schedule.state: .*Schedule.get"),
    (lambda: tvm.cpu().warp_size, "Device.warp_size: devices say exist"),
    (lambda: tvm.cpu().create_raw_stream(), "one stream"),
    (lambda: relay.quantize.annotate(), "relay.quantize.quantize"),
    (lambda: relay.op.register_gradient("add"), "relay.transform.gradient"),
    (lambda: tvm.target.riscv_cpu(), "no target for RISC-V"),
    (lambda: rpc.PopenSession("server"), "rpc.Server"),
    (lambda: autotvm.LocalRunner().set_task(None), "tuner.tune"),
    (lambda: topi.nn.bitserial_conv2d_nchw(), "bit-serial"),
    (lambda: importlib.import_module("treadle.contrib.cuda_graph.cuda_graph_executor").create(), "no target for CUDA"),
    (lambda: tvm.contrib.tf_op.OpModule(), "exported to ONNX"),
    (lambda: tvm.contrib.relay_viz.RelayVisualizer(None), "Model.report draws"),
])
def test_what_has_no_counterpart_says_what_to_use(refused, reason):
    with pytest.raises(tvm.Error, match=reason):
        refused()


def test_refused_classes_have_no_instances():
    assert not isinstance(te.var("n"), tir.Load) and not hasattr(tvm.ir.CallingConv, "DEFAULT")


def test_values_are_traced():
    x = te.placeholder((3,), name="x")
    seen = []

    @tvm.register_func("test.trace", override=True)
    def trace(first, second):
        seen.append((first, second))
        return first + second

    y = te.compute((3,), lambda i: te.trace([x[i], x[i] * 2], "test.trace"), name="y")
    result = tvm.nd.array(np.zeros(3, "float32"))
    tvm.build(te.create_schedule(y.op), [x, y], "llvm")(tvm.nd.array(np.arange(3, dtype="float32")), result)
    assert result.numpy().tolist() == [0, 3, 6] and seen == [(0, 0), (1, 2), (2, 4)]
    assert len(te.create_prim_func_from_outputs(y).params) == 2
    with pytest.raises(TypeError, match="expected a list of values"):
        te.trace(x)


def test_sparse_products():
    rng = np.random.default_rng(0)
    matrix = np.zeros((5, 6), "float32")
    matrix.flat[rng.choice(30, 8, replace=False)] = np.arange(1, 9)
    value = sparse.array(matrix, tvm.cpu())
    a = sparse.placeholder((5, 6), nonzeros=8, name="a")

    def check(result, operands, arrays, expected):
        out = tvm.nd.array(np.zeros(expected.shape, "float32"))
        function = tvm.build(te.create_schedule(result.op), [a.data, a.indices, a.indptr, *operands, result], "llvm")
        function(value.data, value.indices, value.indptr, *map(tvm.nd.array, arrays), out)
        np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5)

    def tensor(*shape):
        return te.placeholder(shape, name="t"), rng.standard_normal(shape).astype("float32")

    (b, b_value), (rows, rows_value), (columns, columns_value) = tensor(6, 3), tensor(5), tensor(3)
    check(topi.sparse.csrmm(a, b, rows), [b, rows], [b_value, rows_value], matrix @ b_value + rows_value[:, None])
    x, x_value = tensor(6, 1)
    check(topi.sparse.csrmv(a, x), [x], [x_value], matrix @ x_value)
    w, w_value = tensor(3, 6)
    check(topi.sparse.dense(a, w, columns), [w, columns], [w_value, columns_value], matrix @ w_value.T + columns_value)
    d, d_value = tensor(4, 6)
    check(topi.sparse.dense(d, a, rows), [d, rows], [d_value, rows_value], d_value @ matrix.T + rows_value)
    with pytest.raises(ValueError, match="one sparse operand"):
        topi.sparse.dense(d, w)


def test_helpers_of_shapes():
    assert topi.nn.get_pad_tuple("SAME", (3, 4)) == (1, 2, 1, 1) and topi.nn.get_pad_tuple((1, 2), (3, 3)) == (1, 2, 1, 2)
    assert topi.nn.get_pad_tuple1d("VALID", 3) == (0, 0) and topi.nn.get_pad_tuple3d(1, (3, 3, 3)) == (1,) * 6
    assert topi.utils.ravel_index([1, 2, 3], [4, 5, 6]) == np.ravel_multi_index((1, 2, 3), (4, 5, 6))
    assert topi.utils.unravel_index(45, [4, 5, 6]) == [int(i) for i in np.unravel_index(45, (4, 5, 6))]
    assert topi.utils.get_max_power2_factor(48) == 16 and topi.utils.get_max_power2_factor(48, 8) == 8
    matrix = topi.utils.const_matrix(np.array([[1, 2, 3], [4, 5, 6]], "float32"))
    result = tvm.nd.array(np.zeros((2, 3), "float32"))
    tvm.build(te.create_schedule(matrix.op), [matrix], "llvm")(result)
    assert result.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]


def test_results_are_kept_in_files(tmp_path, monkeypatch):
    monkeypatch.setenv("TREADLE_MEMOIZE_DIR", str(tmp_path))
    calls = []

    def make():
        @pickle_memoize.memoize("squares")
        def square(x):
            calls.append(x)
            return x * x

        return square

    assert [make()(3), make()(3)] == [9, 9] and calls == [3]
    for cache in list(pickle_memoize.Cache.cache_by_key.values()):
        cache.save()
    pickle_memoize.Cache.cache_by_key.clear()
    assert make()(3) == 9 and calls == [3] and len(list(tmp_path.glob("*.pkl"))) == 1
    pickle_memoize.Cache.cache_by_key.clear()
    next(tmp_path.glob("*.pkl")).write_bytes(b"no pickle")
    with pytest.raises(tvm.ModelFormatError, match="can't be read, remove it"):
        make()(3)


def test_functions_of_tensors_of_other_libraries():
    def add_one(x, y):
        y.copyfrom(x.numpy() + 1)

    class Tensor:
        """Memory that is given away by DLPack."""

        def __init__(self, array):
            self.array = array

    function = dlpack.convert_func(add_one, Tensor, lambda tensor: tensor.array)
    result = np.zeros(3, "float32")
    function(Tensor(np.arange(3, dtype="float32")), Tensor(result))
    assert result.tolist() == [1, 2, 3]


def test_files_are_locked(tmp_path):
    import subprocess
    import sys

    path = tmp_path / "lock"
    probe = f"import fcntl; fcntl.flock(open({str(path)!r}, 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with utils.filelock(str(path)):
        assert subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False).returncode != 0
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
    assert utils.which("sh") and utils.which("no-such-program") is None


def test_small_names():
    target = tvm.target.Target("llvm -device=arm_cpu").with_host("c")
    assert target.device_name == "arm_cpu" and target.host.kind.name == "c"
    assert dict(tvm.ir.DictAttrs({"a": "b"}).items()) == {"a": "b"}
    assert relay.backend.Executor.list_executors() == ["graph"]
    assert relay.backend.Runtime.list_runtime_options("cpp") == {"system-lib": "bool"}
    with pytest.raises(ValueError, match="unknown executor 'aot'"):
        relay.backend.Executor.list_executor_options("aot")
    assert tvm.DataType("bfloat16").type_code == tvm.DataTypeCode.BFLOAT and relay.ShapeVar("s").kind == relay.TypeKind.ShapeVar
    assert rpc.RPCError is tvm.error.RPCError
    first, second = (tir.Schedule(te.create_prim_func([te.placeholder((3,))]), seed=seed) for seed in (1, 2))
    second.seed(1)
    assert first.fork_seed() == second.fork_seed()
