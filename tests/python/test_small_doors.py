# SPDX-License-Identifier: Apache-2.0
"""Small functions that scripts for TVM call."""
import _ctypes
import ctypes
import json
import subprocess
import sys
import warnings

import numpy as np
import pytest

import treadle as tvm
from treadle import relay, te, topi
from treadle.contrib import cc, graph_executor


def test_parameters_that_main_does_not_have_are_left_out_with_a_warning():
    x, w = relay.var("x", shape=(2,)), relay.var("w", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], x + w))
    params = {"w": np.ones(2, "float32")}
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
    with pytest.warns(UserWarning, match="main has no parameters w"):
        lib = relay.build(mod, "llvm", params=params)
    assert list(lib.params) == ["p0"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relay.build(tvm.IRModule.from_expr(relay.Function([x, w], x + w)), "llvm", params=params)


def test_remainders_and_linear_forms():
    x, y = te.var("x"), te.var("y")
    m = tvm.arith.Analyzer().modular_set(x * 6 + y * 4 + 3)
    assert (m.coeff, m.base) == (2, 1)
    coefficients = tvm.arith.detect_linear_equation(x * 3 + y + 5, [x, y])
    assert [int(c) for c in coefficients] == [3, 1, 5]
    assert tvm.arith.detect_linear_equation(x * y, [x, y]) == []


def test_tensors_of_nothing():
    for tensor, expected in [(topi.full((2, 3), "int32", 7), np.full((2, 3), 7)),
                             (topi.arange(1, 9, 2, "int32"), [1, 3, 5, 7])]:
        out = tvm.nd.array(np.zeros(np.shape(expected), "int32"))
        tvm.build(te.create_schedule(tensor.op), [tensor], "llvm")(out)
        np.testing.assert_array_equal(out.numpy(), expected)


def test_capsules():
    a = tvm.nd.array(np.arange(3.0))
    capsule = a.to_dlpack()
    assert type(capsule).__name__ == "PyCapsule"


def test_kernels_of_programs():
    x = relay.var("x", shape=(2,))
    program = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x))), "llvm")
    assert [name for name in program.primitive_ops if name.endswith("fused_exp")]


def test_derivatives_are_compared_with_differences():
    x = np.array([1.0, 2.0])
    tvm.testing.check_numerical_grads(lambda v: (v * v).sum(), [x], [2 * x])
    with pytest.raises(AssertionError, match="derivatives by a are .* element 1: 2, expected about 4"):
        tvm.testing.check_numerical_grads(lambda a: (a * a).sum(), {"a": x}, {"a": x})


def test_equal_expressions():
    n = te.var("n")
    tvm.testing.assert_prim_expr_equal(n * 2 + n, n * 3)
    with pytest.raises(AssertionError, match="aren't provably equal"):
        tvm.testing.assert_prim_expr_equal(n, n + 1)


def test_what_a_build_has():
    info = tvm.support.libinfo()
    assert info["USE_LLVM"] == "ON" and info["USE_ROCM"] == "OFF"


def test_references_agree_with_operators():
    from treadle.topi import testing

    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 4, 9, 9)).astype("float32"), rng.standard_normal((6, 2, 3, 3)).astype("float32")

    def graph(function, *values):
        params = [relay.var(f"x{i}", shape=v.shape) for i, v in enumerate(values)]
        mod = tvm.IRModule.from_expr(relay.Function(params, function(*params)))
        return relay.create_executor("graph", mod=mod).evaluate()(*values).numpy()

    np.testing.assert_allclose(
        testing.conv2d_nchw_python(x, w, 2, (1, 1), groups=2),
        graph(lambda a, b: relay.nn.conv2d(a, b, strides=(2, 2), padding=(1, 1), groups=2), x, w), rtol=1e-4, atol=1e-4)
    same = testing.conv2d_nchw_python(x, rng.standard_normal((3, 4, 4, 4)).astype("float32"), 2, "SAME")
    assert same.shape == (2, 3, 5, 5)
    np.testing.assert_allclose(testing.softmax_python(x), graph(lambda a: relay.nn.softmax(a, axis=1), x), rtol=1e-4)
    np.testing.assert_allclose(testing.log_softmax_python(x), graph(lambda a: relay.nn.log_softmax(a, axis=1), x),
                               rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(testing.l2_normalize_python(x, 1e-3, 1),
                               graph(lambda a: relay.nn.l2_normalize(a, eps=1e-3, axis=[1]), x), rtol=1e-4)


def test_more_references_agree_with_operators():
    from treadle.topi import testing

    rng = np.random.default_rng(0)
    indices = rng.integers(0, 5, (3, 4)).astype("int32")
    series, lengths = rng.random((5, 3, 2), "float32"), np.array([1, 5, 3], "int32")
    matrix, band = rng.random((2, 4, 5), "float32"), rng.random((2, 3, 4), "float32")
    image, scores = rng.random((1, 2, 7, 9), "float32"), rng.random((4, 5), "float32")
    classes, weights = np.array([0, 1, -100, 4], "int32"), rng.random(5, "float32")
    cases = [
        (testing.one_hot(indices, 2.0, -1.0, 5, 1, "float32"),
         lambda a: relay.one_hot(a, relay.const(2.0), relay.const(-1.0), 5, 1, "float32"), indices),
        (testing.sequence_mask(series, lengths, 0.5, 0),
         lambda a, b: relay.sequence_mask(a, b, mask_value=0.5, axis=0), series, lengths),
        (testing.matrix_set_diag(matrix, band, (-1, 1)), lambda a, b: relay.matrix_set_diag(a, b, k=(-1, 1)), matrix, band),
        (testing.adaptive_pool(image, (3, 4), "avg", "NCHW"), lambda a: relay.nn.adaptive_avg_pool2d(a, (3, 4)), image),
        (testing.nll_loss(scores, classes, weights), relay.nn.nll_loss, scores, classes, weights),
        (testing.dilate_python(image, (1, 1, 2, 3)), lambda a: relay.nn.dilate(a, (1, 1, 2, 3)), image),
        (testing.strided_slice_python(image, [0, 3], [1, -1], [1, 1], "size", [0, 2]),
         lambda a: relay.strided_slice(a, [0, 3], [1, -1], axes=[0, 2], slice_mode="size"), image)]
    for expected, function, *values in cases:
        params = [relay.var(f"x{i}", shape=v.shape, dtype=str(v.dtype)) for i, v in enumerate(values)]
        mod = tvm.IRModule.from_expr(relay.Function(params, function(*params)))
        got = relay.create_executor("graph", mod=mod).evaluate()(*values).numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_loops_of_the_graph_ir():
    from treadle.relay import loops

    first = relay.var("first", shape=(2,))
    values = loops.for_loop(0, 5, 2, [first, relay.const(1.0)], lambda i, v, n: [v * relay.const(2.0), n + relay.const(1.0)])
    mod = tvm.IRModule.from_expr(relay.Function([first], values))
    for kind in ("debug", "vm"):
        doubled, count = relay.create_executor(kind, mod=mod).evaluate()(np.array([1, 2], "float32"))
        np.testing.assert_array_equal(doubled.numpy(), [8, 16])
        assert float(count.numpy()) == 4


def test_partition_for_dnnl():
    from treadle.relay.op.contrib import dnnl

    if "dnnl" not in relay.external.list_codegens():
        pytest.skip("this build has no code generator dnnl")
    assert "dnnl.gelu" in [entry[0] for entry in dnnl.pattern_table()]
    x, w = relay.var("x", shape=(4, 8)), relay.var("w", shape=(6, 8))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))))
    divided = dnnl.partition_for_dnnl(mod, {"w": np.ones((6, 8), "float32")})
    assert 'Compiler="dnnl"' in divided.astext(False) and len(divided["main"].params) == 1


def test_functions_of_scalars():
    x = te.placeholder((4,), name="x")
    for function, expected in [(tvm.tir.asinh, np.arcsinh), (tvm.tir.atanh, np.arctanh),
                               (lambda v: tvm.tir.max(v, tvm.tir.min(v, 0.2)),
                                lambda v: np.maximum(v, np.minimum(v, 0.2)))]:
        y = te.compute((4,), lambda i, function=function: function(x[i]))
        value, out = tvm.nd.array(np.array([-0.5, 0, 0.25, 0.9], "float32")), tvm.nd.empty((4,))
        tvm.build(te.create_schedule(y.op), [x, y], "llvm")(value, out)
        np.testing.assert_allclose(out.numpy(), expected(value.numpy()), rtol=1e-5, atol=1e-6)


def test_operators_without_a_pattern_stay_by_themselves_when_fused():
    x = relay.var("x", shape=(1, 4, 8, 8))
    w = relay.const(np.ones((4, 4, 1, 1), "float32"))
    vectors = [relay.const(np.full(4, v, "float32")) for v in (1.0, 2.0, 3.0, 4.0)]
    conv = relay.nn.conv2d(x, w, kernel_size=(1, 1), channels=4)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.batch_norm(conv, *vectors)[0])))
    fused = relay.transform.FuseOps()(relay.transform.InferType()(mod))
    assert fused.astext(False).count("Primitive=1") == 3
    value = np.ones((1, 4, 8, 8), "float32")
    expected = relay.create_executor("debug", mod=mod).evaluate()(value).numpy()
    np.testing.assert_allclose(relay.create_executor("graph", mod=fused).evaluate()(value).numpy(), expected, rtol=1e-5)


def test_c_has_no_function_main(tmp_path):
    import shutil
    import subprocess

    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] + 1, name="b")
    s = te.create_schedule(b.op)
    module = tvm.build(s, [a, b], "c")
    x, out = tvm.nd.array(np.arange(8, dtype="float32")), tvm.nd.empty((8,))
    module(x, out)
    np.testing.assert_array_equal(out.numpy(), x.numpy() + 1)
    assert module.get_function("default_function") and tvm.build(s, [a, b], "llvm").get_function("main")
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    (tmp_path / "m.c").write_text(module.get_source())
    subprocess.run(["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-c", "m.c"], cwd=tmp_path, check=True)


def test_parameters_that_nothing_reads():
    a, unused = te.placeholder((4,), name="a"), te.placeholder((3,), name="unused")
    b = te.compute((4,), lambda i: a[i] * 2, name="b")
    f = tvm.build(te.create_schedule(b.op), [a, unused, b], "llvm")
    out = tvm.nd.empty((4,))
    f(tvm.nd.array(np.ones(4, "float32")), tvm.nd.array(np.zeros(3, "float32")), out)
    np.testing.assert_array_equal(out.numpy(), np.full(4, 2))


@pytest.mark.parametrize("function", [lambda a, k: a + k, lambda a, k: k - a, lambda a, k: a * k, lambda a, k: a / k])
def test_tensors_with_scalars_that_are_parameters(function):
    k = te.var("k")
    a = te.placeholder((te.var("n"),), name="a")
    b = function(a, k)
    values, out = np.arange(1, 6, dtype="float32"), tvm.nd.empty((5,))
    tvm.build(te.create_schedule(b.op), [a, b, k], "llvm")(tvm.nd.array(values), out, 3)
    np.testing.assert_allclose(out.numpy(), function(values, 3), rtol=1e-6)


def test_errors_are_runtime_errors():
    with pytest.raises(RuntimeError, match="isn't part of the schedule|no operations"):
        te.create_schedule([])


def test_types_without_a_width_have_32_bits():
    assert [str(te.placeholder((1,), dtype).dtype) for dtype in ("int", "uint", "float")] == ["int32", "uint32", "float32"]
    mod = tvm.parser.fromtext('#[version = "0.0.5"]\ndef @main(%x: int) { %x }')
    assert str(relay.transform.InferType()(mod)["main"].params[0].checked_type.dtype) == "int32"


def test_none_stands_for_defaults_of_attributes():
    x, like = relay.var("x", shape=(4, 4)), relay.var("y", shape=(2, 3))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.slice_like(x, like, axes=None)))
    assert list(mod["main"].ret_type.shape) == [2, 3]


def test_statements_take_names():
    i = te.var("i")
    loop = tvm.tir.For(loop_var=i, min_val=0, extent=4, kind=0, body=tvm.tir.Evaluate(value=i), span=None)
    both = tvm.tir.SeqStmt([loop, tvm.tir.Evaluate(tvm.tir.call_extern("int32", "f"))])
    assert len(both) == 2 and both[0].same_as(loop)


def test_graphs_run_on_servers_by_their_parts():
    from treadle import rpc
    from treadle.contrib import graph_executor, utils

    x = relay.var("x", shape=(3,))
    graph, lib, params = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x) + relay.const(1.0))), "llvm")
    folder = utils.tempdir()
    path = folder.relpath("lib.tar")
    lib.export_library(path)
    server = rpc.Server("127.0.0.1", port=0)
    try:
        remote = rpc.connect("127.0.0.1", server.port)
        remote.upload(path)
        module = graph_executor.create(graph, remote.load_module("lib.tar"), remote.cpu(0))
        module.load_params(relay.save_param_dict(params))
        module.run(x=np.zeros(3, "float32"))
        np.testing.assert_array_equal(module.get_output(0).numpy(), np.full(3, 2))
    finally:
        server.terminate()


def test_kernels_for_devices_by_the_builder():
    n = te.var("n")
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")

    def add(x, y, out):
        ib = tvm.tir.ir_builder.create()
        block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
        ib.scope_attr(block, "thread_extent", (n + 31) // 32)
        ib.scope_attr(thread, "thread_extent", 32)
        i = block.var * 32 + thread.var
        x, y, out = (ib.buffer_ptr(t) for t in (x, y, out))
        with ib.if_scope(ib.likely(i < n)):
            out[i] = x[i] + y[i]
        return ib.get()

    c = te.extern(a.shape, [a, b], lambda ins, outs: add(ins[0], ins[1], outs[0]), name="c", dtype="float32")
    with pytest.raises(tvm.TargetError, match="blockIdx.x is bound to a thread"):
        tvm.build(te.create_schedule(c.op), [a, b, c], "llvm")
    for target in [name for name, _ in tvm.testing.enabled_targets() if name == "opencl"]:
        f, dev = tvm.build(te.create_schedule(c.op), [a, b, c], target), tvm.device(target)
        values = [np.random.default_rng(i).random(1000, "float32") for i in range(2)]
        out = tvm.nd.array(np.zeros(1000, "float32"), dev)
        f(*(tvm.nd.array(v, dev) for v in values), out)
        np.testing.assert_array_equal(out.numpy(), values[0] + values[1])


@pytest.mark.parametrize("target, file", [("llvm", "k.o"), ("llvm -system-lib", "k.o"), ("c", "k.c")])
def test_saved_kernels_linked_by_hand(tmp_path, target, file):
    """module.save, cc.create_shared, load_module: sources are C, what calls the runtime by name finds it."""
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].parallel(b.op.axis[0])
    tvm.build(s, [a, b], target, name="add_one").save(str(tmp_path / file))
    cc.create_shared(str(tmp_path / "k.so"), [str(tmp_path / file)])
    out = tvm.nd.empty((64,))
    tvm.runtime.load_module(tmp_path / "k.so")["add_one"](tvm.nd.array(np.arange(64, dtype="float32")), out)
    np.testing.assert_array_equal(out.numpy(), np.arange(64) + 1)


def test_functions_that_are_linked_into_the_program(tmp_path):
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] * 3.0, name="B")
    s = te.create_schedule(b.op)
    s[b].parallel(b.op.axis[0])
    built = tvm.build(s, [a, b], "llvm -system-lib", name="system_triple")
    x, out = tvm.nd.array(np.arange(64, dtype="float32")), tvm.nd.empty((64,))
    built(x, out)  # by name in this process, too
    np.testing.assert_array_equal(out.numpy(), np.arange(64) * 3)
    library = tvm.runtime.system_lib()
    with pytest.raises(AttributeError):
        library["system_triple"]
    built.save(str(tmp_path / "k.o"))
    cc.create_shared(str(tmp_path / "k.so"), [str(tmp_path / "k.o")])
    loaded = ctypes.CDLL(str(tmp_path / "k.so"))
    for module, name in ((library, "system_triple"), (tvm.runtime.system_lib("system_"), "triple")):
        out = tvm.nd.empty((64,))
        module[name](x, out)
        np.testing.assert_array_equal(out.numpy(), np.arange(64) * 3)
    _ctypes.dlclose(loaded._handle)
    with pytest.raises(AttributeError):
        tvm.runtime.system_lib()["system_triple"]


def test_models_of_a_system_library(tmp_path):
    """They run where they are compiled, from a file, and by the functions of the program."""
    x, w = relay.var("x", shape=(4, 8)), relay.const(np.random.default_rng(0).random((6, 8), "float32"))
    value = np.random.default_rng(1).random((4, 8), "float32")
    script = "import sys, numpy as np, treadle as tvm\nfrom treadle.contrib import graph_executor\n" + (
        "lib = tvm.runtime.load_module('m.so')\nmodule = graph_executor.GraphModule(lib['default'](tvm.cpu()))\n"
        "module.run(x=np.load('x.npy'))\nnp.save('y.npy', module.get_output(0).numpy())\n"
        "assert tvm.runtime.system_lib()[sys.argv[1]]")
    lib = relay.build(relay.Function([x], relay.nn.softmax(relay.nn.dense(x, w))), "llvm",
                      runtime=relay.backend.Runtime("cpp", {"system-lib": True}))
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(x=value)
    lib.export_library(tmp_path / "m.so")
    np.save(tmp_path / "x.npy", value)
    kernel = [node["attrs"]["func_name"] for node in json.loads(lib.get_graph_json())["nodes"] if "attrs" in node][0]
    subprocess.run([sys.executable, "-c", script, kernel], cwd=tmp_path, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), module.get_output(0).numpy())


def test_pytest_plugin(tmp_path):
    (tmp_path / "test_targets.py").write_text("""
import treadle as tvm
import treadle.testing

size = tvm.testing.parameter(by_dict={"small": 1, "large": 9})

def test_each(target, dev, size):
    assert dev.exist and tvm.target.Target(target) and size in (1, 9)

@tvm.testing.exclude_targets("c", "opencl")
def test_not_c(target):
    assert target in ("llvm", "stackvm")

@tvm.testing.parametrize_targets("llvm -mcpu=x86-64", "cuda")
def test_listed(target, dev):
    assert target == "llvm" and dev == tvm.cpu()

@tvm.testing.known_failing_targets("llvm")
def test_fails(target, dev):
    assert target != "llvm"
""")
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "treadle.testing.plugin", "-p", "no:cacheprovider",
                          "-rA", str(tmp_path)], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "test_each[llvm-small]" in run.stdout or "test_each[small-llvm]" in run.stdout, run.stdout
    assert "test_listed[llvm]" in run.stdout and "XFAIL" in run.stdout, run.stdout


def test_conditions_over_ranges():
    x, y = te.var("x"), te.var("y")
    ranges = {x: tvm.ir.Range(0, 10), y: tvm.ir.Range(0, 10)}
    tvm.testing.check_bool_expr_is_true(x > 2 * y, ranges, cond=2 * x > 4 * y)
    with pytest.raises(AssertionError, match="x = 0, y = 0"):
        tvm.testing.check_bool_expr_is_true(x > y, ranges)
