# SPDX-License-Identifier: Apache-2.0
"""What tutorials of tensor expressions do, beyond matrix products: functions called by name, several outputs,
recurrences of several stages, intermediates that are asked for, operators as tensors, passes of one's own."""
import numpy as np
import pytest

import treadle as tvm
from treadle import te, tir, topi

TARGETS = ["llvm", "c", "stackvm"]
targets = pytest.mark.parametrize("target", TARGETS)
K = te.reduce_axis((0, 3), name="k")


def run(s, args, arrays, target):
    """Results of all arguments, given arrays for them."""
    function = tvm.build(s, args, target=target)
    arrays = [tvm.nd.array(a) for a in arrays]
    function(*arrays)
    return [a.numpy() for a in arrays]


def random(*shape):
    return np.random.default_rng(0).random(shape, "float32")


@targets
def test_registered_functions_get_tensors(target):
    @tvm.register_func("test.matmul_" + target, override=True)
    def matmul(a, b, c, scale):
        tvm.nd.array(a.numpy() @ b.numpy() * scale).copyto(c)

    n, m, k = te.var("n"), te.var("m"), te.var("k")
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    c = te.extern((n, m), [a, b], lambda ins, outs: tir.call_packed("test.matmul_" + target, *ins, outs[0], 2), name="C")
    d = te.compute((n, m), lambda i, j: c[i, j] + 1, name="D")
    x, y = random(3, 4), random(4, 5)
    result = run(te.create_schedule(d.op), [a, b, d], [x, y, np.zeros((3, 5), "float32")], target)[2]
    np.testing.assert_allclose(result, x @ y * 2 + 1, rtol=1e-5)


@targets
def test_errors_of_registered_functions_come_through(target):
    @tvm.register_func("test.failing", override=True)
    def failing(a):
        raise ValueError("not today")

    a = te.placeholder((4,), name="A")
    b = te.extern((4,), [a], lambda ins, outs: tir.call_packed("test.failing", ins[0]), name="B")
    with pytest.raises(Exception, match="not today"):
        run(te.create_schedule(b.op), [a, b], [random(4), random(4)], target)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_functions_of_the_c_library(target):
    a = te.placeholder((9,), name="A")
    b = te.compute((9,), lambda i: tir.call_pure_extern("float32", "expf", a[i]), name="B")
    x = random(9)
    np.testing.assert_allclose(run(te.create_schedule(b.op), [a, b], [x, x * 0], target)[1], np.exp(x), rtol=1e-5)


def test_functions_given_as_c_text():
    a = te.placeholder((6,), name="A")
    b = te.compute((6,), lambda i: tir.call_extern("float32", "twice", a[i]), name="B")
    s = te.create_schedule(b.op)
    s[b].pragma(b.op.axis[0], "import_c", "static float twice(float x) { return 2 * x; }")
    x = random(6)
    np.testing.assert_allclose(run(s, [a, b], [x, x * 0], "c")[1], 2 * x)
    with pytest.raises(tvm.TargetError, match="import_c"):
        tvm.build(s, [a, b], "llvm")


@targets
def test_several_outputs_are_cached_together(target):
    a = te.placeholder((8, 16), name="A")
    b0, b1 = te.compute((8, 16), lambda i, j: (a[i, j] + 2, a[i, j] * 3), name="B")
    s = te.create_schedule(b0.op)
    c0, c1 = s.cache_write([b0, b1], "local")
    s[c0].compute_at(s[b0], b0.op.axis[0])
    assert c0.op.same_as(c1.op)
    x = random(8, 16)
    _, plus, times = run(s, [a, b0, b1], [x, x * 0, x * 0], target)
    np.testing.assert_allclose(plus, x + 2)
    np.testing.assert_allclose(times, x * 3)


def test_one_of_several_outputs_is_not_cached_alone():
    a = te.placeholder((8,), name="A")
    b0, _ = te.compute((8,), lambda i: (a[i] + 2, a[i] * 3), name="B")
    with pytest.raises(tvm.Error, match="stage 'B' has 2 outputs"):
        te.create_schedule(b0.op).cache_write(b0, "local")


@targets
def test_steps_of_recurrences_are_computed_at_each_other(target):
    m, n = te.var("m"), te.var("n")
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n))
    init = te.compute((1, n), lambda _, i: x[0, i])
    first = te.compute((m, n), lambda t, i: state[t - 1, i] * 2, name="first")
    second = te.compute((m, n), lambda t, i: first[t, i] + x[t, i], name="second")
    result = te.scan(init, second, state, inputs=[x])
    s = te.create_schedule(result.op)
    outer, _ = s[second].split(second.op.axis[1], factor=32)
    s[first].compute_at(s[second], outer)
    data = random(5, 40)
    expected = data.copy()
    for t in range(1, 5):
        expected[t] += expected[t - 1] * 2
    np.testing.assert_allclose(run(s, [x, result], [data, data * 0], target)[1], expected, rtol=1e-5)


@targets
@pytest.mark.parametrize("how", ["compute_at", "compute_inline"])
def test_intermediates_may_be_asked_for(target, how):
    a = te.placeholder((12,), name="A")
    b = te.compute((12,), lambda i: a[i] + 1, name="B")
    c = te.compute((12,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    if how == "compute_at":
        s[b].compute_at(s[c], c.op.axis[0])
    else:
        s[b].compute_inline()
    x = random(12)
    _, plus, twice = run(s, [a, b, c], [x, x * 0, x * 0], target)
    np.testing.assert_allclose(plus, x + 1)
    np.testing.assert_allclose(twice, (x + 1) * 2, rtol=1e-6)


def test_intermediates_asked_for_are_computed_whole():
    a = te.placeholder((12,), name="A")
    b = te.compute((12,), lambda i: a[i] + 1, name="B")
    c = te.compute((6,), lambda i: b[i * 2], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    with pytest.raises(tvm.Error, match="'B', an output of the function, which must be computed whole"):
        tvm.lower(s, [a, b, c])


@targets
def test_stores_under_a_condition(target):
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    s[b].set_store_predicate(b.op.axis[0] < 4)
    x = random(10)
    result = run(s, [a, b], [x, x * 0], target)[1]
    np.testing.assert_allclose(result, np.where(np.arange(10) < 4, x + 1, 0))


def test_conditions_of_stores_know_axes_only():
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    s[b].set_store_predicate(te.var("q") < 4)
    with pytest.raises(tvm.Error, match="set_store_predicate: .*stage 'B' uses 'q'"):
        tvm.lower(s, [a, b])


@targets
def test_rows_are_aligned(target):
    a = te.placeholder((8, 20), name="A")
    b = te.compute((8, 20), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((20, 8), lambda i, j: b[j, i] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].storage_align(b.op.axis[0], 16, 8)
    assert "*24)" in str(tvm.lower(s, [a, c], simple_mode=True))
    x = random(8, 20)
    np.testing.assert_allclose(run(s, [a, c], [x, np.zeros((20, 8), "float32")], target)[1], (x.T + 1) * 2, rtol=1e-6)


@targets
def test_indices_are_checked_where_asked(target):
    a, index = te.placeholder((10,), name="A"), te.placeholder((10,), "int32", name="I")
    b = te.compute((10,), lambda i: a[index[i]], name="B")
    s = te.create_schedule(b.op)
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        function = tvm.build(s, [a, index, b], target)
    with pytest.raises(tvm.Error, match="A"):
        function(tvm.nd.array(random(10)), tvm.nd.array(np.full(10, 77, "int32")), tvm.nd.array(random(10)))


@targets
def test_operators_of_the_graph_as_tensors(target):
    a, b = te.placeholder((8, 6), name="A"), te.placeholder((6,), name="B")
    total = topi.sum(topi.nn.relu(topi.add(a, b)), axis=1)
    x, y = random(8, 6) - 0.5, random(6) - 0.5
    result = run(te.create_schedule(total.op), [a, b, total], [x, y, np.zeros(8, "float32")], target)[2]
    np.testing.assert_allclose(result, np.maximum(x + y, 0).sum(1), rtol=1e-5)


def test_tensors_have_operators():
    a = te.placeholder((8,), name="A")
    c = a * 2 + a - 1
    x = random(8)
    np.testing.assert_allclose(run(te.create_schedule(c.op), [a, c], [x, x * 0], "llvm")[1], 3 * x - 1, rtol=1e-5)


def test_lowering_takes_passes_of_ones_own():
    seen = []

    @tir.transform.prim_func_pass(opt_level=0)
    def vectorize8(f, mod, ctx):
        def visit(op):
            if isinstance(op, tir.For) and int(op.extent) % 8 == 0:
                seen.append(op)

        def replace(op):
            if not any(op.same_as(loop) for loop in seen):
                return None
            outer, inner = te.var("outer"), te.var("inner")
            body = tir.stmt_functor.substitute(op.body, {op.loop_var: outer * 8 + inner})
            body = tir.For(inner, 0, 8, tir.ForKind.VECTORIZED, body)
            return tir.For(outer, 0, int(op.extent) // 8, tir.ForKind.SERIAL, body)

        tir.stmt_functor.post_order_visit(f.body, visit)
        return f.with_body(tir.stmt_functor.ir_transform(f.body, None, replace, ["tir.For"]))

    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, vectorize8)]}):
        text = str(tvm.lower(s, [a, b]))
        x = random(64)
        np.testing.assert_allclose(run(s, [a, b], [x, x * 0], "llvm")[1], x + 1)
    assert "ramp(" in text


def test_options_of_unrolling():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    with tvm.transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": 8}}):
        assert "for (" not in str(tvm.lower(s, [a, b]))
    assert "for (" in str(tvm.lower(s, [a, b]))


@pytest.mark.parametrize("shape, read, message", [
    ((8,), lambda z, i: z[i + 4], r"stage 'C' reads Z outside of it: index \(i \+ 4\) of dimension 0 is 4 to 11 where 0 to 7"),
    ((8,), lambda z, i: z[6 - i], "is -1 to 6 where 0 to 7"),
    ((7,), lambda z, i: te.sum(z[i + K], axis=K), "is 0 to 8 where 0 to 7"),
])
def test_reads_outside_of_a_tensor_are_refused_by_the_schedule(shape, read, message):
    z = te.placeholder((8,), name="Z")
    with pytest.raises(tvm.Error, match=message):
        te.create_schedule(te.compute(shape, lambda i: read(z, i), name="C").op)


def test_updates_of_a_scan_may_read_what_is_before_their_first_step():
    steps, n = 6, 4
    x = te.placeholder((steps - 1, n), name="X")
    state = te.placeholder((steps, n))
    init = te.compute((1, n), lambda t, i: 0.0, name="init")
    # Of the step that init gives nothing is computed.
    shifted = te.compute((steps, n), lambda t, i: x[t - 1, i] * 2.0, name="shifted")
    update = te.compute((steps, n), lambda t, i: state[t - 1, i] + shifted[t, i], name="update")
    sums = te.scan(init, update, state, inputs=[x])
    value = np.random.default_rng(0).standard_normal((steps - 1, n)).astype("float32")
    result = run(te.create_schedule(sums.op), [x, sums], [value, np.zeros((steps, n), "float32")], "llvm")[1]
    np.testing.assert_allclose(result, np.concatenate([np.zeros((1, n)), np.cumsum(2 * value, 0)]), rtol=1e-5, atol=1e-6)
    # As a result of its own it is computed whole.
    with pytest.raises(tvm.Error, match="stage 'shifted' reads X outside of it"):
        te.create_schedule([sums.op, shifted.op])


def test_reads_under_a_condition_or_that_fit_are_taken():
    z = te.placeholder((8,), name="Z")
    n = te.var("n")
    y = te.placeholder((n,), name="Y")
    for computed in (te.compute((10,), lambda i: te.if_then_else(i < 8, z[i], 0.0)),
                     te.compute((16,), lambda i: z[i // 2]),
                     te.compute((8,), lambda i: z[7 - i]),
                     te.compute((6,), lambda i: te.sum(z[i + K], axis=K)),
                     te.compute((n,), lambda i: y[n - 1 - i])):
        te.create_schedule(computed.op)
    with pytest.raises(tvm.Error, match="1 to n where 0 to"):
        te.create_schedule(te.compute((n,), lambda i: y[i + 1]).op)
