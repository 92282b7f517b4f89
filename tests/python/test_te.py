# SPDX-License-Identifier: Apache-2.0
"""Tensor expressions and their schedules, as operator tutorials write them."""
import numpy as np
import pytest

import treadle as tvm
from treadle import te, topi

TARGETS = ["llvm", "c", "stackvm"]


def run(s, args, arrays, target="llvm"):
    """Results of all arguments, given arrays for them."""
    function = tvm.build(s, args, target=target)
    arrays = [tvm.nd.array(np.array(a)) for a in arrays]
    function(*arrays)
    return [a.numpy() for a in arrays]


def matmul(m, k, n):
    axis = te.reduce_axis((0, k), "k")
    a = te.placeholder((m, k), name="A")
    b = te.placeholder((k, n), name="B")
    c = te.compute((m, n), lambda x, y: te.sum(a[x, axis] * b[axis, y], axis=axis), name="C")
    return a, b, c


def check_matmul(s, a, b, c, target):
    (m, k), n = (int(d) for d in a.shape), int(b.shape[1])
    rng = np.random.default_rng(0)
    x, y = rng.random((m, k), "float32"), rng.random((k, n), "float32")
    result = run(s, [a, b, c], [x, y, np.zeros((m, n), "float32")], target)[2]
    tvm.testing.assert_allclose(result, x @ y, rtol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_the_familiar_script(target):
    n = 1024 if target != "stackvm" else 32
    a, b, c = matmul(n, n, n)
    s = te.create_schedule(c.op)
    lowered = tvm.lower(s, [a, b, c], simple_mode=True, name="mmult")
    text = lowered.astext(show_meta_data=False)
    assert "primfn" in text and "for (k: int32, 0, " in text
    built = tvm.build(lowered, [a, b, c], target=target, name="mmult")
    assert built.get_source()
    if target == "llvm":  # a small one runs
        a, b, c = matmul(64, 64, 64)
        built = tvm.build(te.create_schedule(c.op), [a, b, c], target=target, name="mmult")
        arrays = [tvm.nd.array(np.ones((64, 64), "float32")) for _ in range(3)]
        assert built.time_evaluator(built.entry_name, tvm.cpu(), number=1)(*arrays).mean > 0
        assert (arrays[2].numpy() == 64).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", ["blocked", "vectorized", "permuted"])
def test_tiled_matmul(target, steps):
    a, b, c = matmul(48, 40, 56)
    s = te.create_schedule(c.op)
    xo, yo, xi, yi = s[c].tile(c.op.axis[0], c.op.axis[1], 16, 16)
    (k,) = s[c].op.reduce_axis
    ko, ki = s[c].split(k, factor=4)
    s[c].reorder(*((xo, yo, ko, xi, ki, yi) if steps == "permuted" else (xo, yo, ko, ki, xi, yi)))
    if steps != "blocked":
        s[c].vectorize(yi)
    check_matmul(s, a, b, c, target)


@pytest.mark.parametrize("target", TARGETS)
def test_matmul_with_packing_and_write_cache(target):
    m = k = n = 64
    block = 16
    a, b, _ = matmul(m, k, n)
    axis = te.reduce_axis((0, k), "k")
    packed = te.compute((n / block, k, block), lambda big, z, little: b[z, big * block + little], name="packed")
    c = te.compute((m, n), lambda x, y: te.sum(
        a[x, axis] * packed[y // block, axis, tvm.tir.indexmod(y, block)], axis=axis), name="C")
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "global")
    xo, yo, _, _ = s[c].tile(c.op.axis[0], c.op.axis[1], block, block)
    s[cache].compute_at(s[c], yo)
    xc, yc = s[cache].op.axis
    (kaxis,) = s[cache].op.reduce_axis
    ko, ki = s[cache].split(kaxis, factor=4)
    s[cache].reorder(ko, xc, ki, yc)
    s[cache].vectorize(yc)
    s[cache].unroll(ki)
    big, _, little = s[packed].op.axis
    s[packed].vectorize(little)
    s[packed].parallel(big)
    s[c].parallel(xo)
    check_matmul(s, a, b, c, target)


def prefix_sum():
    m, n = te.var("m"), te.var("n")
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: x[0, i], name="init")
    double = te.compute((m, n), lambda t, i: state[t - 1, i] * 2, name="double")
    update = te.compute((m, n), lambda t, i: double[t, i] + x[t, i], name="update")
    return x, init, double, update, te.scan(init, update, state, inputs=[x])


@pytest.mark.parametrize("target", TARGETS)
def test_scan(target):
    x, _, double, update, result = prefix_sum()
    s = te.create_schedule(result.op)
    _, inner = s[update].split(update.op.axis[1], factor=8)
    s[update].vectorize(inner)
    s[double].compute_at(s[update], update.op.axis[0])
    value = np.arange(35, dtype="float32").reshape(5, 7)
    expected = value.copy()
    for t in range(1, 5):
        expected[t] += 2 * expected[t - 1]
    np.testing.assert_array_equal(run(s, [x, result], [value, value * 0], target)[1], expected)


def test_steps_of_a_scan_run_in_order():
    x, _, _, update, result = prefix_sum()
    s = te.create_schedule(result.op)
    s[update].parallel(update.op.axis[0])
    with pytest.raises(tvm.Error, match="parallel: .*'vt' of block 'update'"):
        tvm.lower(s, [x, result])
    s = te.create_schedule(result.op)
    s[update].split(update.op.axis[0], factor=2)
    with pytest.raises(tvm.Error, match="axis 't' of stage 'update' is the steps of a scan"):
        tvm.lower(s, [x, result])


def test_a_scan_reads_earlier_rows_only():
    state = te.placeholder((5, 3), name="state")
    init = te.compute((1, 3), lambda _, i: 0.0)
    with pytest.raises(tvm.Error, match="reads state state .*earlier rows"):
        te.scan(init, te.compute((5, 3), lambda t, i: state[t, i] + 1), state)
    with pytest.raises(tvm.Error, match="2 rows back"):
        te.scan(init, te.compute((5, 3), lambda t, i: state[t - 2, i] + 1), state)


def test_factored_reduction():
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], factor=16)
    partial = s.rfactor(b, inner)
    outer, _ = s[b].split(s[b].op.axis[0], factor=8)
    s[b].parallel(outer)
    s[partial].compute_at(s[b], s[b].op.reduce_axis[0])
    value = np.random.default_rng(0).random((13, 53), "float32")
    result = run(s, [a, b], [value, np.zeros(13, "float32")])[1]
    np.testing.assert_allclose(result, value.sum(1), rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_reduction_of_pairs(target):
    a = te.placeholder((6, 9), name="A", dtype="int32")
    k = te.reduce_axis((0, 9), "k")
    index, value = te.compute((6,), lambda i: te.argmax((k.var, a[i, k]), axis=k), name="best")
    s = te.create_schedule(index.op)
    _, inner = s[index].split(s[index].op.reduce_axis[0], factor=4)
    s.rfactor(index, inner)
    data = np.random.default_rng(0).integers(0, 5, (6, 9)).astype("int32")
    result = run(s, [a, index, value], [data, np.zeros(6, "int32"), np.zeros(6, "int32")], target)
    np.testing.assert_array_equal(result[1], data.argmax(1))
    np.testing.assert_array_equal(result[2], data.max(1))


def test_custom_reducer_and_condition():
    a = te.placeholder((12,), name="A", dtype="int32")
    k = te.reduce_axis((0, 12), "k")
    bits = te.comm_reducer(lambda x, y: x | y, lambda t: tvm.tir.const(0, t), name="or")
    c = te.compute((1,), lambda i: bits(a[k], axis=k, where=te.all(k > 2, k != 5)), name="C")
    data = (1 << np.arange(12)).astype("int32")
    assert run(te.create_schedule(c.op), [a, c], [data, np.zeros(1, "int32")])[1][0] == data[3:].sum() - data[5]


@pytest.mark.parametrize("target", TARGETS)
def test_statements_written_in_python(target):
    def body(ins, outs):
        ib = tvm.tir.ir_builder.create()
        source, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 10, name="i") as i:
            with ib.if_scope(i < 5):
                out[i] = source[i] + 1
            with ib.else_scope():
                out[i] = source[i] * 2
        return ib.get()

    a = te.placeholder((10,), name="A")
    middle = te.extern((10,), [a], body, name="middle")
    c = te.compute((10,), lambda i: middle[i] + 1, name="C")
    x = np.arange(10, dtype="float32")
    result = run(te.create_schedule(c.op), [a, c], [x, x * 0], target)[1]
    np.testing.assert_array_equal(result, np.where(x < 5, x + 2, x * 2 + 1))


def test_comparisons_and_slices():
    eye = te.compute((4, 4), lambda i, j: te.if_then_else(i == j, 1.0, 0.0), name="eye")
    twice = te.compute((4, 4), lambda *i: eye[i[0]][i[1]] * 2, name="twice")
    s = te.create_schedule(twice.op)
    s[eye].compute_inline()
    np.testing.assert_array_equal(run(s, [twice], [np.zeros((4, 4), "float32")])[0], np.eye(4) * 2)


def test_tags():
    with te.tag_scope("injective"):
        assert te.compute((2,), lambda i: i).op.tag == "injective"
    assert te.compute((2,), lambda i: i).op.tag == ""


def test_a_consumer_follows_its_producer():
    a = te.placeholder((32, 32), name="A")
    b = te.compute((32, 32), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((32, 32), lambda i, j: b[i, j] * 2, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[b].split(b.op.axis[0], factor=8)
    s[c].reverse_compute_at(s[b], outer)
    value = np.random.default_rng(0).random((32, 32), "float32")
    np.testing.assert_array_equal(run(s, [a, c], [value, value * 0])[1], (value + 1) * 2)


@pytest.mark.parametrize("mistake,message", [
    (lambda s, a, b, c: s[c].vectorize(c.op.reduce_axis[0]), "vectorize: axis 'k' of stage 'C' is a reduction axis"),
    (lambda s, a, b, c: s[c].split(b.op.output(0), 4), "."),
    (lambda s, a, b, c: s[c].split(c.op.axis[0], factor=0), "split: factor 0 of axis 'x' of stage"),
    (lambda s, a, b, c: s[c].reorder(c.op.axis[0], c.op.axis[0]), "axis 'x' of stage 'C' is listed twice"),
    (lambda s, a, b, c: s[c].fuse(c.op.axis[0], c.op.reduce_axis[0]), "fuse: axis 'k' of stage 'C' isn't next to"),
    (lambda s, a, b, c: (s[c].split(c.op.axis[0], 4), s[c].unroll(c.op.axis[0])), "stage 'C' has no axis 'x'"),
    (lambda s, a, b, c: s[c].compute_inline(), "compute_inline: stage 'C' is an output"),
    (lambda s, a, b, c: s[c].bind(c.op.axis[0], te.thread_axis((0, 3), "threadIdx.x")), "bind: axis 'x' .* extent 8"),
    (lambda s, a, b, c: s.rfactor(c, c.op.axis[0]), "rfactor: 'x' isn't a reduction axis of stage 'C'"),
    (lambda s, a, b, c: s[te.placeholder((2,), name="other")], "operation 'other' isn't part of the schedule"),
])
def test_mistakes_name_stage_and_axis(mistake, message):
    a, b, c = matmul(8, 8, 8)
    s = te.create_schedule(c.op)
    with pytest.raises((tvm.Error, TypeError), match=message):
        mistake(s, a, b, c)


def test_mistakes_of_expressions():
    a = te.placeholder((4, 4), name="A")
    with pytest.raises(tvm.ShapeError, match="tensor A has 2 dimensions but is indexed with 3"):
        te.compute((4,), lambda i: a(i, i, i))
    with pytest.raises(tvm.DTypeError, match="index of tensor A has dtype float32"):
        te.compute((4,), lambda i: a[i, i * 0.5])
    with pytest.raises(ValueError, match="takes 1 indices, the shape has 2 dimensions"):
        te.compute((4, 4), lambda i: a[i, i])
    with pytest.raises(ValueError, match="must not be negative"):
        te.placeholder((-1,))
    with pytest.raises(ValueError, match="te.all"):
        te.compute((4,), lambda i: 1.0 if i > 2 else 0.0)
    c = te.compute((4,), lambda i: a[i, 0] + 1, name="C")
    with pytest.raises(tvm.Error, match="tensor A is an input of the computation but not among the arguments"):
        tvm.lower(te.create_schedule(c.op), [c])


def test_bytecode_runs_after_reload(tmp_path):
    a, b, c = matmul(4, 5, 6)
    tvm.build(te.create_schedule(c.op), [a, b, c], target="stackvm", name="mmult").save(str(tmp_path / "m.stackvm"))
    loaded = tvm.runtime.load_module(str(tmp_path / "m.stackvm"))
    x, y = np.ones((4, 5), "float32"), np.full((5, 6), 2, "float32")
    result = tvm.nd.array(np.zeros((4, 6), "float32"))
    loaded["mmult"](tvm.nd.array(x), tvm.nd.array(y), result)
    assert (result.numpy() == 10).all()
    with pytest.raises(tvm.Error, match="mmult: arg1.shape\\[0\\] is expected to equal 5, not 4"):
        loaded["mmult"](tvm.nd.array(x), tvm.nd.array(x), result)


def test_bytecode_of_a_function_of_numbers_is_refused(tmp_path):
    n = te.var("n")
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + n.astype("float32"), name="B")
    built = tvm.build(te.create_schedule(b.op), [a, b, n], target="stackvm", name="shift")
    with pytest.raises(tvm.Error, match="parameter n is a number"):
        built.save(str(tmp_path / "m.stackvm"))


def test_variables_that_are_not_there_are_named_with_their_stage():
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    q = te.compute((4,), lambda i: a[i, k] * 2.0, name="Q")
    with pytest.raises(tvm.Error, match="block 'Q' uses variable 'k'.*expected axes of the stage"):
        tvm.build(te.create_schedule(q.op), [a, q], "llvm")


def test_data_and_reduction_axes_are_not_fused():
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    q = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="Q")
    s = te.create_schedule(q.op)
    with pytest.raises(tvm.Error, match="stage 'Q': axis 'i' is data-parallel and axis 'k' is reduced"):
        s[q].fuse(*q.op.axis, *q.op.reduce_axis)


def test_products_of_matrices_and_convolutions_by_the_original_names():
    a, b = te.placeholder((4, 5), name="A"), te.placeholder((5, 6), name="B")
    c = topi.matmul(a, b)
    x, w = te.placeholder((1, 3, 8, 8), name="X"), te.placeholder((4, 3, 3, 3), name="W")
    assert [int(d) for d in c.shape] == [4, 6]
    assert [int(d) for d in topi.nn.conv2d_nchw(x, w, 1, 1, 1).shape] == [1, 4, 8, 8]
    assert [int(d) for d in topi.nn.pad(a, (0, 1), (2, 3)).shape] == [6, 9]


def test_relations_of_axes():
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    i, j = b.op.axis
    outer, inner = s[b].split(i, factor=4)
    s[b].reorder(j, outer, *s[b].split(inner, nparts=2))
    s[b].fuse(j, outer)
    assert list(map(repr, s[b].relations)) == [
        "Split(i -> i.outer, i.inner, factor=4)", "Split(i.inner -> i.inner.outer, i.inner.inner, nparts=2)",
        "Fuse(j, i.outer -> j.i.outer.fused)"]
    assert s[b].relations[0].parent.same_as(i)


@pytest.mark.parametrize("how", ["plain", "split", "reorder", "elsewhere"])
def test_reductions_whose_bounds_depend_on_axes(how):
    """Rows of a sparse matrix (CSR), of which the third is empty, times a matrix; then a triangular sum."""
    starts, columns = np.array([0, 2, 3, 3, 6], "int32"), np.array([1, 4, 0, 2, 3, 4], "int32")
    values, dense = np.random.default_rng(0).random(6, "float32"), np.random.default_rng(1).random((5, 8), "float32")
    S, C = te.placeholder((5,), "int32", name="S"), te.placeholder((6,), "int32", name="C")
    V, D = te.placeholder((6,), name="V"), te.placeholder((5, 8), name="D")

    def row(i, j):
        e = te.reduce_axis((0, S[i + 1] - S[i]), name="e")
        return te.sum(V[S[i] + e] * D[C[S[i] + e], j], axis=e)

    P = te.compute((4, 8), row, name="P")
    T = te.compute((4, 8), lambda i, j: (lambda k: te.sum(P[k, j], axis=k))(te.reduce_axis((0, i + 1), name="k")), name="T")
    s = te.create_schedule(T.op)
    (i, j), (e,) = P.op.axis, P.op.reduce_axis
    if how == "split":
        s[P].split(e, 4)
        s[T].split(T.op.reduce_axis[0], 2)
    elif how == "reorder":
        s[P].split(i, 2)
        s[P].reorder(e, j)
    elif how == "elsewhere":
        outer, _ = s[T].split(T.op.axis[1], 4)
        s[T].reorder(outer, T.op.axis[0])
        s[P].compute_at(s[T], outer)
        s[P].vectorize(j)
    out = tvm.nd.empty((4, 8))
    tvm.build(s, [S, C, V, D, T])(*map(tvm.nd.array, (starts, columns, values, dense)), out)
    rows = [values[a:b] @ dense[columns[a:b]] for a, b in zip(starts, starts[1:])]
    np.testing.assert_allclose(out.numpy(), np.cumsum(rows, axis=0), rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", ["split", "fused", "tiles", "reduction"])
def test_cache_write_takes_the_layout_of_the_axes(layout, target):
    a = te.placeholder((30, 20), name="A")
    k = te.reduce_axis((0, 20), "k")
    if layout == "reduction":
        c = te.compute((30,), lambda i: te.max(a[i, k], k), name="C")
    else:
        c = te.compute((30, 20), lambda i, j: a[i, j] * 2 + 1, name="C")
    s = te.create_schedule(c.op)
    if layout == "split":
        outer, inner = s[c].split(c.op.axis[0], 8)  # 30 isn't a multiple
        s[c].reorder(inner, outer, c.op.axis[1])
        shape = [8, 4, 20]
    elif layout == "fused":
        outer, inner = s[c].split(s[c].fuse(*c.op.axis), nparts=7)
        s[c].reorder(inner, outer)
        shape = [86, 7]
    elif layout == "tiles":
        s[c].tile(*c.op.axis, 5, 5)
        shape = [6, 4, 5, 5]
    else:
        s[c].split(c.op.axis[0], 8)
        shape = [4, 8]
    cache = s.cache_write(c, "global")
    assert [int(d) for d in cache.shape] == shape
    assert [axis.var.name for axis in s[c].leaf_iter_vars] == [axis.var.name for axis in c.op.axis]
    s[cache].vectorize(cache.op.axis[-1])
    values = np.random.default_rng(0).standard_normal((30, 20)).astype("float32")
    expected = values.max(1) if layout == "reduction" else values * 2 + 1
    result = run(s, [a, c], [values, np.zeros_like(expected)], target)[1]
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_cache_write_refuses_what_would_lose_its_axis():
    def schedule():
        a = te.placeholder((32,), name="A")
        b = te.compute((32,), lambda i: a[i] + 1, name="B")
        c = te.compute((32,), lambda i: b[i] * 2, name="C")
        s = te.create_schedule(c.op)
        return s, b, c, s[c].split(c.op.axis[0], 8)

    s, _, c, (_, inner) = schedule()
    s[c].vectorize(inner)
    with pytest.raises(tvm.Error, match="axes of stage 'C' were split.*annotated"):
        s.cache_write(c, "local")
    s, b, c, (outer, _) = schedule()
    s[b].compute_at(s[c], outer)
    with pytest.raises(tvm.Error, match="stage 'B' is computed at an axis of stage 'C'"):
        s.cache_write(c, "local")
    a, b, c = matmul(8, 8, 8)
    s = te.create_schedule(c.op)
    s[c].split(c.op.reduce_axis[0], 4)
    with pytest.raises(tvm.Error, match="reduction axis 'k' of stage 'C' was already split"):
        s.cache_write(c, "local")
