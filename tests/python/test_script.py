# SPDX-License-Identifier: Apache-2.0
"""TVMScript: functions written in Python, built, scheduled, printed and read again; mistakes with their place."""
import numpy as np
import pytest

import treadle as tvm
from treadle import relay, te, tir
from treadle.script import ScriptError, from_source
from treadle.script import ir as I
from treadle.script import tir as T

N = 16


@T.prim_func
def matmul(A: T.Buffer((N, N), "float32"), B: T.Buffer((N, N), "float32"), C: T.Buffer((N, N), "float32")):
    for i, j, k in T.grid(N, N, N):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] += A[vi, vk] * B[vk, vj]


@T.prim_func
def relu(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 8), "float32")
    B = T.match_buffer(b, (n, 8), "float32")
    for i in T.serial(n):
        for j in T.vectorized(8):
            B[i, j] = T.max(A[i, j], T.float32(0))


@T.prim_func
def softmax(A: T.Buffer((4, N), "float32"), B: T.Buffer((4, N), "float32")):
    T.func_attr({"tir.noalias": True})
    top = T.alloc_buffer((4,), "float32")
    total = T.alloc_buffer((4,), "float32")
    for i, k in T.grid(4, N):
        with T.block("top"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(top[vi])
            with T.init():
                top[vi] = T.min_value("float32")
            top[vi] = T.max(top[vi], A[vi, vk])
    for i, k in T.grid(4, N):
        with T.block("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + T.exp(A[vi, vk] - top[vi])
    for i, j in T.grid(4, N):
        with T.block("softmax"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.exp(A[vi, vj] - top[vi]) / total[vi]


@T.prim_func
def conv(X: T.Buffer((1, 3, 8, 8), "float32"), W: T.Buffer((4, 3, 3, 3), "float32"), Y: T.Buffer((1, 4, 8, 8), "float32")):
    P = T.alloc_buffer((1, 3, 10, 10), "float32")
    for n, c, h, w in T.grid(1, 3, 10, 10):
        with T.block("pad"):
            vn, vc, vh, vw = T.axis.remap("SSSS", [n, c, h, w])
            P[vn, vc, vh, vw] = T.if_then_else(1 <= vh < 9 and 1 <= vw < 9, X[vn, vc, vh - 1, vw - 1], 0.0)
    for n, o, h, w, c, y, x in T.grid(1, 4, 8, 8, 3, 3, 3):
        with T.block("conv"):
            vn, vo, vh, vw, vc, vy, vx = T.axis.remap("SSSSRRR", [n, o, h, w, c, y, x])
            with T.init():
                Y[vn, vo, vh, vw] = T.float32(0)
            Y[vn, vo, vh, vw] = Y[vn, vo, vh, vw] + P[vn, vc, vh + vy, vw + vx] * W[vo, vc, vy, vx]


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s, "float32") for s in shapes]


def run(func, out, *inputs):
    """What the function writes, the same by two code generators."""
    results = []
    for target in ("llvm", "stackvm"):
        values = [tvm.nd.array(x) for x in (*inputs, np.zeros(out, "float32"))]
        tvm.build(func, target=target)(*values)
        results.append(values[-1].numpy())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)
    return results[0]


def round_trip(func):
    text = func.script()
    back = from_source(text)
    tvm.ir.assert_structural_equal(func, back)
    assert back.script() == text


def test_matmul():
    a, b = arrays((N, N), (N, N))
    np.testing.assert_allclose(run(matmul, (N, N), a, b), a @ b, rtol=1e-4, atol=1e-5)


def test_relu_of_a_size_known_at_run_time():
    a, = arrays((5, 8))
    np.testing.assert_array_equal(run(relu, (5, 8), a), np.maximum(a, 0))


def test_softmax():
    a, = arrays((4, N))
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(run(softmax, (4, N), a), e / e.sum(1, keepdims=True), rtol=1e-5)


def test_convolution():
    x, w = arrays((1, 3, 8, 8), (4, 3, 3, 3))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    np.testing.assert_allclose(run(conv, (1, 4, 8, 8), x, w), np.einsum("nchwyx,ocyx->nohw", windows, w), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("func", [matmul, relu, softmax, conv], ids=["matmul", "relu", "softmax", "conv"])
def test_round_trip(func):
    round_trip(func)


def test_schedules_of_scripts():
    sch = tir.Schedule(matmul)
    i, j, k = sch.get_loops(sch.get_block("C"))
    outer, inner = sch.split(i, [None, 5])
    sch.parallel(outer)
    sch.vectorize(j)
    sch.reorder(outer, inner, k, j)
    sch.annotate(k, "pragma_auto_unroll_max_step", 16)
    sch.decompose_reduction("C", k)
    round_trip(sch.func)
    text = sch.func.script()
    assert "for i_0 in T.parallel(4):" in text and "T.where(i_0 * 5 + i_1 < 16)" in text
    a, b = arrays((N, N), (N, N))
    np.testing.assert_allclose(run(from_source(text), (N, N), a, b), a @ b, rtol=1e-4, atol=1e-5)


def test_vectors_added_then_scheduled_step_by_step():
    @I.ir_module
    class Module:
        @T.prim_func
        def main(a: T.handle, b: T.handle):
            T.func_attr({"global_symbol": "main", "tir.noalias": True})
            A = T.match_buffer(a, (64,), dtype="float32")
            B = T.match_buffer(b, (64,), dtype="float32")
            for i in range(64):
                with T.block("B"):
                    vi = T.axis.spatial(64, i)
                    B[vi] = A[vi] + 1.0

    sch = tir.Schedule(Module)
    i, = sch.get_loops(sch.get_block("B"))
    outer, middle, inner = sch.split(i, factors=[2, 4, 8])
    sch.reorder(outer, inner, middle)
    round_trip(sch.mod)
    assert "for i_0, i_2, i_1 in T.grid(2, 8, 4):" in sch.mod.script()
    a, = arrays(64)
    np.testing.assert_array_equal(run(sch.mod, 64, a), a + 1)


def test_threads():
    sch = tir.Schedule(matmul)
    i, j, _ = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    round_trip(sch.func)
    assert "T.thread_binding(0, 16, thread=\"threadIdx.x\")" in sch.func.script()


def test_lowered_functions():
    module = tvm.lower(matmul)
    text = module.script()
    back = from_source(text)
    assert back.script() == text
    a, b = arrays((N, N), (N, N))
    np.testing.assert_allclose(run(back, (N, N), a, b), a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_lowered_kernels_round_trip(target):
    """Loops that partition and unrolling copied bind variables of their own, vectors have names."""
    data, weight = relay.var("data", shape=(1, 3, 35, 35)), relay.const(np.ones((16, 3, 3, 3), "float32"))
    deep = relay.const(np.ones((16, 1, 5, 5), "float32"))
    conv = relay.nn.relu(relay.nn.conv2d(data, weight, padding=(1, 1), strides=(2, 2)))
    conv = relay.nn.conv2d(conv, deep, padding=(2, 2), groups=16, channels=16, kernel_size=(5, 5))
    flat = relay.nn.batch_flatten(relay.transpose(relay.sigmoid(conv), (0, 2, 3, 1)))
    lib = relay.build(tvm.IRModule.from_expr(relay.nn.softmax(flat)), target)
    lowered, = lib.lowered_ir_mods.values()
    assert len(lowered.functions) >= 3
    for func in lowered.functions.values():
        assert tir.analysis.verify_ssa(func)
        round_trip(func)


@T.prim_func
def scaled_rows(a: T.handle, b: T.handle, times: T.int32):
    m = T.int32()
    n = T.int32()
    A = T.match_buffer(a, (m, n), "float32")
    B = T.match_buffer(b, (m, n * 2), "float32")
    for i, j in T.grid(m, n * 2):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj // 2] * T.float32(times)


def test_specialized_functions():
    a, _, times = scaled_rows.params
    made = scaled_rows.specialize({a: tir.decl_buffer((4, 8)), times: 3})
    assert len(made.params) == 2 and "(4, 16)" in made.script() and "T.grid(4, 16)" in made.script()
    value, out = np.random.default_rng(0).random((4, 8)).astype("float32"), tvm.nd.empty((4, 16))
    tvm.build(made)(tvm.nd.array(value), out)
    np.testing.assert_allclose(out.numpy(), np.repeat(value, 2, 1) * 3, rtol=1e-6)
    part = scaled_rows.specialize({a: tir.decl_buffer((tvm.tir.Var("rows", "int32"), 8))})
    assert [str(d) for d in part.buffer_map[part.params[1]].shape][1] == "16" and len(part.params) == 3
    assert len(scaled_rows.params) == 3


@pytest.mark.parametrize("which, value, message", [
    (0, tir.decl_buffer((4,)), "has 2 numbers, not 1"), (0, tir.decl_buffer((4, 8), "int8"), "is of float32, not int8"),
    (0, 3, "is a tensor: expected a buffer"), (2, tir.decl_buffer((4,)), "is a scalar, not a tensor"),
    (2, 0.5, "is of int32, not float32"), (1, tir.decl_buffer((4, 8)), "dimension 1 is .n.*, not 8"),
    (None, 3, "is no parameter of the function")])
def test_mistakes_of_specialize(which, value, message):
    param = tir.Var("other", "int32") if which is None else scaled_rows.params[which]
    with pytest.raises(tvm.Error, match=message):
        scaled_rows.specialize({param: value})


def test_literals_and_operators():
    x = te.placeholder((4,), "int64", name="x")
    y = te.compute((4,), lambda i: te.if_then_else(te.any(x[i] // 3 > 1, te.all(x[i] % 5 == 2, tir.Not(x[i] < 0))),
                                                    x[i].astype("float64") * 0.1, -(x[i] - (x[i] - 2) * 3).astype("float64")))
    z = te.compute((4,), lambda i: tir.Select(x[i] != 7, te.power(y[i], 2.0), tvm.tir.infinity("float64")))
    small = te.compute((4,), lambda i: y[i].astype("float32") + 1e-45 + 0.1 + 16777216.0 + 3.4028234e38)
    round_trip(te.create_prim_func([x, z, small]))


def test_statements():
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), n: T.int32):
        assert n <= 8, "too \"many\""
        part = T.allocate([4], "int32", "global")
        half: T.int32 = n // 2
        for i in range(4):
            part[i] = half * i
        for i in T.unroll(2, 6):
            if i < n:
                A[i] = part[i % 4]
            else:
                A[i] = -1
        T.evaluate(0)

    round_trip(func)
    values = tvm.nd.array(np.zeros(8, "int32"))
    tvm.build(func)(values, 5)
    np.testing.assert_array_equal(values.numpy(), [0, 0, 4, 6, 0, -1, 0, 0])


def test_views():
    @T.prim_func
    def func(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 4), "float32")):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                offset = T.var("int32")
                stride = T.var("int32")
                row = T.match_buffer(A[vi, 2:6], (1, 4), "float32", strides=[stride, 1], elem_offset=offset)
                for j in range(4):
                    B[vi, j] = row[0, j]

    a, = arrays((4, 8))
    np.testing.assert_array_equal(run(func, (4, 4), a), a[:, 2:6])
    round_trip(func)


def test_conditions_around_a_function():
    @T.prim_func
    def func(A: T.Buffer((4,), "float32")):
        T.where(False)
        for i in range(4):
            A[i] = 1.0

    np.testing.assert_array_equal(run(func, 4), np.zeros(4))


def test_buffers_over_pointers():
    text = ("# from treadle.script import tir as T\n\n@T.prim_func\ndef f():\n    p = T.var(\"handle\", \"float32\", \"shared\")\n"
            "    A = T.Buffer((4,), \"float32\", data=p)\n    A[0] = T.float32(1.0)\n")
    assert from_source(text).script() == text
    with pytest.raises(ScriptError, match="<script>:6:5: .*expected a pointer"):
        from_source(text.replace(', "float32", "shared"', ""))


def test_modules():
    @I.ir_module
    class Module:
        @T.prim_func
        def one(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = A[i] + T.float32(1)

        @T.prim_func
        def two(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = A[i] * T.float32(2)

    assert isinstance(Module, tvm.IRModule)
    round_trip(Module)
    values = tvm.nd.array(np.ones(4, "float32"))
    built = tvm.build(Module)
    built["one"](values)
    built["two"](values)
    np.testing.assert_array_equal(values.numpy(), np.full(4, 4, "float32"))


HEAD = "@T.prim_func\ndef f(A: T.Buffer((4, 4), \"float32\"), n: T.int32):\n"


@pytest.mark.parametrize("body,line,column,message", [
    ("A[0] = T.float32(1)", 3, 3, "2 dimensions"),
    ("for i in range(4):\n    A[i, 0] = B[i]", 4, 17, "there is no 'B'"),
    ("A[0, 0] = n", 3, 13, "holds float32, not int32"),
    ("A[0, 0] = A", 3, 13, "expected a scalar expression, not buffer A"),
    ("A[0, 0] = T.nothing(n)", 3, 13, "there is no expression T.nothing"),
    ("for i in T.grid(2, 3):\n    pass", 3, 7, "as many variables"),
    ("for i in [1, 2]:\n    pass", 3, 3, "a loop runs over"),
    ("with T.block(\"b\"):\n    v = T.axis.remap(\"S\", [n])", 4, 11, "'v' is to be S or R of a loop variable"),
    ("with open(\"f\"):\n    pass", 3, 8, "there is no with open"),
    ("A[0, 0] = n.__class__", 3, 13, "'__class__' can't be reached"),
    ("A[0, 0] = T.tir.const(1)", 3, 13, "there is no expression T.tir.const"),
    ("A[0, 0] = lambda: 1", 3, 13, "TVMScript has no Lambda"),
    ("return n", 3, 3, "returns nothing"),
    ("if n:\n    A[0, 0] = 1.0", 3, 3, "expected bool"),
    ("A[0, 0] = (1", 3, 13, "syntax error"),
    ("A[0, 0] = 10 ** 10 ** 10", 3, 19, "of two numbers"),
    ("T.reads(A[0:2])", 3, 11, "2 dimensions, the region 1"),
])
def test_mistakes_name_their_place(body, line, column, message):
    text = HEAD + "".join(f"  {row}\n" for row in body.splitlines())
    with pytest.raises(ScriptError, match=f"^<script>:{line}:{column}: .*{message}") as caught:
        from_source(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_mistakes_in_decorated_functions_name_the_file():
    with pytest.raises(ScriptError, match=r"test_script.py:\d+:\d+: there is no 'missing'"):
        @T.prim_func
        def func(A: T.Buffer((4,), "float32")):
            for i in range(4):
                A[i] = missing[i]  # noqa: F821


def test_deep_nesting_is_refused():
    deep = "(" * 3000 + "n" + ")" * 3000
    with pytest.raises(ScriptError):
        from_source(HEAD + f"  A[0, 0] = {deep}\n")
    with pytest.raises(ScriptError):
        from_source(HEAD + f"  A[0, 0] = {' + '.join(['A[0, 0]'] * 5000)}\n")


def test_older_loads_and_stores():
    @T.prim_func
    def func(a: T.handle, b: T.handle, n: T.int32) -> None:
        A = T.match_buffer(a, (4, 8), "float32")
        B = T.match_buffer(b, (32,), "float32")
        copy = T.allocate([32], "float32", "global")
        for i in T.serial(0, 8):
            T.store(copy.data, T.ramp(i * 4, 1, 4), T.load("float32x4", A.data, T.ramp(i * 4, 1, 4)), T.broadcast(True, 4))
        for i in range(32):
            T.store(B.data, i, T.load("float32", copy, i, i < n) * T.float32(2), i < n + 2)
            A.data[i] = A.data[i] + T.float32(1)

    assert tvm.ir.structural_equal(from_source(func.script()), func)
    before = np.arange(32, dtype="float32")
    a, b = tvm.nd.array(before.reshape(4, 8)), tvm.nd.array(np.full(32, -1, "float32"))
    tvm.build(func, target="llvm")(a, b, 5)
    np.testing.assert_array_equal(a.numpy().ravel(), before + 1)
    np.testing.assert_array_equal(b.numpy(), [0, 2, 4, 6, 8, 0, 0] + [-1] * 25)


def test_buffers_over_the_data_of_others():
    @T.prim_func
    def func(A: T.Buffer((4, 4), "float32"), B: T.Buffer((16,), "float32")):
        flat = T.decl_buffer((16,), "float32", data=A.data)
        local = T.allocate([16], "float32", "global")
        tile = T.decl_buffer((4, 4), "float32", data=local.data)
        for i, j in T.grid(4, 4):
            tile[i, j] = flat[j * 4 + i]
        for i in range(16):
            B[i] = local[i]

    assert tvm.ir.structural_equal(from_source(func.script()), func)
    values = np.arange(16, dtype="float32").reshape(4, 4)
    result = tvm.nd.array(np.zeros(16, "float32"))
    tvm.build(func, target="llvm")(tvm.nd.array(values), result)
    np.testing.assert_array_equal(result.numpy(), values.T.ravel())


@pytest.mark.parametrize("line, message", [
    ("T.store(A.data, 0)", "expected T.store"),
    ("T.store(n, 0, 1.0)", "isn't the data of a buffer"),
    ("A[0, 0] = T.load(\"float32\", A.data)", "expected T.load"),
    ("A[0, 0] = T.load(\"int32\", A.data, 0)", "holds float32"),
    ("T.store(A.data, T.ramp(0, 1, 4), T.broadcast(T.float32(1), 4), T.ramp(0, 1, 4) < T.broadcast(3, 4))", "masks of vectors"),
])
def test_mistakes_in_older_loads_and_stores(line, message):
    with pytest.raises(ScriptError, match=message):
        from_source(HEAD + f"  {line}\n")


def launched():
    """B[i] = A[i] + 1 by 8 blocks of 128 threads, in the three ways to say so."""
    @T.prim_func
    def env(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
        bx = T.env_thread("blockIdx.x")
        tx = T.env_thread("threadIdx.x")
        T.launch_thread(bx, 8)
        T.launch_thread(tx, 128)
        B[bx * 128 + tx] = A[bx * 128 + tx] + T.float32(1)

    @T.prim_func
    def around(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
        with T.launch_thread("blockIdx.x", 8) as bx:
            with T.launch_thread("threadIdx.x", 128) as tx:
                B[bx * 128 + tx] = A[bx * 128 + tx] + T.float32(1)

    @T.prim_func
    def named(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
        bx = T.launch_thread("blockIdx.x", 8)
        tx = T.launch_thread("threadIdx.x", 128)
        B[bx * 128 + tx] = A[bx * 128 + tx] + T.float32(1)

    return [env, around, named]


@pytest.mark.parametrize("index", range(3))
def test_threads_that_a_function_launches(index):
    func = launched()[index]
    tvm.ir.assert_structural_equal(from_source(func.script()), func, True)
    lowered = str(tvm.lower(func, target="opencl"))
    assert '(bx: int32, 0, 8) thread_binding("blockIdx.x")' in lowered and "thread_extent" not in lowered
    with pytest.raises(tvm.TargetError, match="loop bx is bound to a thread of a device, which the llvm backend doesn't have"):
        tvm.build(func, target="llvm")
    if not tvm.opencl().exist:
        pytest.skip("no OpenCL device")
    a = np.random.default_rng(0).random(1024, "float32")
    out = tvm.nd.empty((1024,), device=tvm.opencl())
    tvm.build(func, target="opencl")(tvm.nd.array(a, tvm.opencl()), out)
    np.testing.assert_array_equal(out.numpy(), a + np.float32(1))


def test_mistakes_with_threads():
    for text, message in (('T.launch_thread("threadIdx.q", 3)', "there is no thread axis 'threadIdx.q'"),
                          ('T.launch_thread("threadIdx.x")', "expected T.launch_thread"),
                          ("x = T.env_thread()", "expected T.env_thread")):
        with pytest.raises(tvm.Error, match=message):
            from_source(f"@T.prim_func\ndef f(A: T.Buffer((4,), \"float32\")):\n    {text}\n    A[0] = T.float32(1)\n")


def test_reinterpreted_bits():
    @T.prim_func
    def bits(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            B[i] = T.reinterpret("int32", A[i]) + T.reinterpret(A[i], "int32") * 0

    tvm.ir.assert_structural_equal(from_source(bits.script()), bits, True)
    a, out = np.linspace(-3, 3, 8).astype("float32"), tvm.nd.empty((8,), "int32")
    for target in ("llvm", "c", "stackvm"):
        tvm.build(bits, target=target)(tvm.nd.array(a), out)
        np.testing.assert_array_equal(out.numpy(), a.view("int32"))
    with pytest.raises(tvm.DTypeError, match="reinterpret of float32 as int64: widths differ"):
        tir.reinterpret("int64", tir.const(1.0, "float32"))


def test_sizes_may_be_parameters_after_the_buffers():
    @T.prim_func
    def last(a: T.handle, b: T.handle, n: T.int32):
        A = T.match_buffer(a, (4, n), "float32")
        B = T.match_buffer(b, (4,), "float32")
        for i in T.parallel(4):
            B[i] = A[i, n - 1]

    text = last.script()
    assert "T.var" not in text
    again = from_source(text)
    assert tvm.ir.structural_equal(last, again) and again.script() == text
    a, b = np.arange(12, dtype="float32").reshape(4, 3), tvm.nd.empty((4,))
    tvm.build(again, target="llvm")(tvm.nd.array(a), b, 3)
    np.testing.assert_array_equal(b.numpy(), a[:, 2])


def test_intrinsics_may_end_with_their_dtype():
    @T.prim_func
    def older(a: T.handle):
        A = T.match_buffer(a, (4,), "float32")
        for i in range(4):
            A[i] = T.exp(A[i], dtype="float32") + T.if_then_else(i < 2, T.float32(1), T.float32(2), dtype="float32")
            A[i] = A[i] + T.call_pure_extern("sqrtf", A[i], dtype="float32")

    value = tvm.nd.array(np.zeros(4, "float32"))
    tvm.build(older, target="llvm")(value)
    np.testing.assert_allclose(value.numpy(), np.array([2, 2, 3, 3]) + np.sqrt([2, 2, 3, 3]), rtol=1e-6)
    with pytest.raises(ScriptError, match="dtype is int32, but the result of exp is float32"):
        from_source("@T.prim_func\ndef f(x: T.float32):\n    T.evaluate(T.exp(x, dtype=\"int32\"))\n")
