# SPDX-License-Identifier: Apache-2.0
"""Tensor expressions without a schedule: `treadle.build([inputs and results])` makes one that computes the same."""
import re

import numpy as np
import pytest

import treadle
from treadle import te, tir

V3 = "llvm -mcpu=x86-64-v3 -num-cores=2"


def check(tensors, reference, loops=()):
    """Builds and compares with `reference` in float64; `loops`: words that the scheduled function has."""
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal([int(d) for d in t.shape]).astype(np.float32) for t in tensors[:-1]]
    text = str(te.auto_schedule(tensors, V3))
    for word in loops:
        assert word in text
    out = treadle.nd.array(np.zeros([int(d) for d in tensors[-1].shape], np.float32))
    treadle.build(tensors, target=V3)(*[treadle.nd.array(a) for a in arrays], out)
    expected = reference(*[a.astype(np.float64) for a in arrays])
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    return text


@pytest.mark.parametrize("m,n,k", [(32, 48, 40), (33, 37, 19), (8, 8, 8), (64, 100, 64)])
@pytest.mark.parametrize("transposed", [False, True])
def test_matrix_products_are_the_kernels(m, n, k, transposed):
    a = te.placeholder((m, k), name="a")
    b = te.placeholder((n, k) if transposed else (k, n), name="b")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * (b[j, r] if transposed else b[r, j]), axis=r), "c")
    check([a, b, c], lambda x, y: x @ (y.T if transposed else y), ["packed_columns"])


def test_packed_rows_are_indexed_as_the_computation_is():
    a, b = te.placeholder((1024, 1024), name="a"), te.placeholder((1024, 1024), name="b")
    r = te.reduce_axis((0, 1024), "r")
    c = te.compute((1024, 1024), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), "c")
    text = str(te.auto_schedule([a, b, c], "llvm -mcpu=x86-64-v4 -num-cores=1"))
    assert "a.global" in text and "cast(int64" not in text  # casts keep addresses apart: each row a pointer of its own


def test_a_product_between_other_computations():
    x, w, bias = te.placeholder((24, 40), name="x"), te.placeholder((40, 36), name="w"), te.placeholder((36,), name="bias")
    twice = te.compute((24, 40), lambda i, j: x[i, j] * 2.0, "twice")
    r = te.reduce_axis((0, 40), "r")
    c = te.compute((24, 36), lambda i, j: te.sum(twice[i, r] * w[r, j], axis=r), "c")
    y = te.compute((24, 36), lambda i, j: te.max(c[i, j] + bias[j], te.const(0.0)), "y")
    check([x, w, bias, y], lambda p, q, s: np.maximum(2 * p @ q + s, 0), ["packed_columns", "vectorized"])


def test_batches():
    x, y, shared = (te.placeholder(s) for s in ((3, 16, 24), (3, 24, 32), (24, 32)))
    r, s = te.reduce_axis((0, 24)), te.reduce_axis((0, 24))
    check([x, y, te.compute((3, 16, 32), lambda h, i, j: te.sum(x[h, i, r] * y[h, r, j], axis=r))],
          lambda p, q: p @ q, ["packed_columns"])
    check([x, shared, te.compute((3, 16, 32), lambda h, i, j: te.sum(x[h, i, s] * shared[s, j], axis=s))],
          lambda p, q: p @ q, ["packed_columns"])


def test_products_of_other_axes_are_tiled():
    a, b = te.placeholder((40, 48), name="a"), te.placeholder((40, 32), name="b")
    r = te.reduce_axis((0, 40))
    check([a, b, te.compute((48, 32), lambda i, j: te.sum(a[r, i] * b[r, j], axis=r))], lambda p, q: p.T @ q,
          ["vectorized", "unroll", "local"])


def exact(tensors, reference, target=V3):
    """As `check`, of small whole numbers of any dtype; gives the scheduled function and its lowered loops."""
    rng = np.random.default_rng(2)
    arrays = [rng.integers(0, 5, [int(d) for d in t.shape]).astype(str(t.dtype)) for t in tensors[:-1]]
    out = treadle.nd.array(np.zeros([int(d) for d in tensors[-1].shape], str(tensors[-1].dtype)))
    treadle.build(tensors, target=target)(*[treadle.nd.array(a) for a in arrays], out)
    np.testing.assert_array_equal(out.numpy(), reference(*[a.astype(np.float64) for a in arrays]))
    function = te.auto_schedule(tensors, target)
    return str(function), str(treadle.lower(function, simple_mode=False))


@pytest.mark.parametrize("dtype,sums", [("float32", "float32"), ("float64", "float64"), ("int8", "int32"), ("uint8", "int32")])
@pytest.mark.parametrize("transpose_a,transpose_b", [(True, True), (False, True)])
def test_operands_that_are_stored_transposed_are_packed(dtype, sums, transpose_a, transpose_b):
    m, n, k = 33, 40, 24
    a = te.placeholder((k, m) if transpose_a else (m, k), dtype=dtype, name="a")
    b = te.placeholder((n, k) if transpose_b else (k, n), dtype=dtype, name="b")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((m, n), lambda i, j: te.sum((a[r, i] if transpose_a else a[i, r]).astype(sums) *
                                               (b[j, r] if transpose_b else b[r, j]).astype(sums), axis=r), "c")
    text, _ = exact([a, b, c], lambda p, q: (p.T if transpose_a else p) @ (q.T if transpose_b else q))
    assert "vectorized" in text


@pytest.mark.parametrize("target", [V3, "llvm -mcpu=native -num-cores=2"])
@pytest.mark.parametrize("width", [17, 20, 28, 31, 33, 65])
def test_ends_of_rows_are_shorter_vectors(width, target):
    """No condition is left that lanes would be computed one by one for."""
    d, w = te.placeholder((4, width + 2), name="d"), te.placeholder((24, 4, 3), name="w")
    rc, rx = te.reduce_axis((0, 4), "rc"), te.reduce_axis((0, 3), "rx")
    c = te.compute((24, width), lambda f, x: te.sum(d[rc, x + rx] * w[f, rc, rx], axis=[rc, rx]), "c")

    def reference(x, y):
        return np.einsum("cxa,fca->fx", np.lib.stride_tricks.sliding_window_view(x, 3, 1), y)
    _, lowered = exact([d, w, c], reference, target)
    assert "if " not in lowered
    if target == V3 and width % 8 > 1:
        assert f"float32x{width % 8}" in lowered


@pytest.mark.parametrize("groups,dtype", [(1, "float32"), (2, "float32"), (1, "float64"), (4, "int32")])
def test_padded_convolutions_of_groups(groups, dtype):
    """The number of a channel's group is constant within it: channels share what is loaded."""
    ci, co, size = 8, 16, 13
    d, w = te.placeholder((1, ci, size, size), dtype=dtype, name="d"), te.placeholder((co, ci // groups, 3, 3), dtype=dtype, name="w")
    padded = te.compute((1, ci, size + 2, size + 2), lambda n, c, y, x: te.if_then_else(
        te.all(y >= 1, y < size + 1, x >= 1, x < size + 1), d[n, c, y - 1, x - 1], te.const(0, dtype)), "padded")
    rc, ry, rx = te.reduce_axis((0, ci // groups)), te.reduce_axis((0, 3)), te.reduce_axis((0, 3))
    c = te.compute((1, co, size, size), lambda n, f, y, x: te.sum(
        padded[n, te.indexdiv(f, co // groups) * (ci // groups) + rc, y + ry, x + rx] * w[f, rc, ry, rx], axis=[rc, ry, rx]), "c")

    def reference(x, y):
        x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        views = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)).reshape(1, groups, ci // groups, size, size, 3, 3)
        y = y.reshape(groups, co // groups, ci // groups, 3, 3)
        return np.einsum("ngcyxab,gfcab->ngfyx", views, y).reshape(1, co, size, size)
    text, _ = exact([d, w, c], reference)
    assert "vectorized" in text


@pytest.mark.parametrize("groups,dtype", [(2, "float32"), (4, "float32"), (4, "int32")])
def test_channels_of_a_group_are_a_tile(groups, dtype):
    """Several channels of a group are summed in registers at once: they read the same."""
    ci, co, size = 8, 24, 13
    d, w = te.placeholder((1, ci, size, size), dtype=dtype, name="d"), te.placeholder((co, ci // groups, 3, 3), dtype=dtype, name="w")
    rc, ry, rx = te.reduce_axis((0, ci // groups)), te.reduce_axis((0, 3)), te.reduce_axis((0, 3))
    c = te.compute((1, co, size - 2, size - 2), lambda n, f, y, x: te.sum(
        d[n, f // (co // groups) * (ci // groups) + rc, y + ry, x + rx] * w[f, rc, ry, rx], axis=[rc, ry, rx]), "c")

    def reference(x, y):
        views = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)).reshape(1, groups, ci // groups, size - 2, size - 2, 3, 3)
        return np.einsum("ngcyxab,gfcab->ngfyx", views, y.reshape(groups, co // groups, ci // groups, 3, 3)).reshape(1, co, size - 2, size - 2)
    text, _ = exact([d, w, c], reference)
    assert re.search(r"for \(ax1_1: int32, 0, (2|3|4|6|12)\) unroll", text), text


@pytest.mark.parametrize("stride,width", [(1, 18), (2, 19), (1, 9)])
def test_convolutions(stride, width):
    out = (width - 3) // stride + 1
    d, w = te.placeholder((2, 5, width, width), name="d"), te.placeholder((7, 5, 3, 3), name="w")
    rc, ry, rx = te.reduce_axis((0, 5)), te.reduce_axis((0, 3)), te.reduce_axis((0, 3))
    c = te.compute((2, 7, out, out), lambda n, f, y, x: te.sum(
        d[n, rc, y * stride + ry, x * stride + rx] * w[f, rc, ry, rx], axis=[rc, ry, rx]), "c")

    def reference(x, y):
        views = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::stride, ::stride]
        return np.einsum("ncyxab,fcab->nfyx", views, y)

    check([d, w, c], reference, ["vectorized"])


def test_softmax_and_scan():
    x, state = te.placeholder((20, 50), name="x"), te.placeholder((20, 50), name="state")
    r, s = te.reduce_axis((0, 50)), te.reduce_axis((0, 50))
    most = te.compute((20,), lambda i: te.max(x[i, r], axis=r), "most")
    e = te.compute((20, 50), lambda i, j: te.exp(x[i, j] - most[i]), "e")
    total = te.compute((20,), lambda i: te.sum(e[i, s], axis=s), "total")

    def softmax(v):
        v = np.exp(v - v.max(axis=1, keepdims=True))
        return v / v.sum(axis=1, keepdims=True)

    check([x, te.compute((20, 50), lambda i, j: e[i, j] / total[i], "y")], softmax)
    first = te.compute((1, 50), lambda _, j: x[0, j], "first")
    update = te.compute((20, 50), lambda t, j: state[t - 1, j] + x[t, j], "update")
    check([x, te.scan(first, update, state, inputs=[x])], lambda v: v.cumsum(axis=0))


def rows_of(kind, n, m):
    """Chains of computations of rows, and what they are in NumPy."""
    x, g = te.placeholder((n, m), name="x"), te.placeholder((m,), name="g")
    r, s = te.reduce_axis((0, m), "r"), te.reduce_axis((0, m), "s")
    if kind == "softmax":
        most = te.compute((n,), lambda i: te.max(x[i, r], axis=r), "most")
        e = te.compute((n, m), lambda i, j: te.exp(x[i, j] - most[i]), "e")
        total = te.compute((n,), lambda i: te.sum(e[i, s], axis=s), "total")
        return [x, te.compute((n, m), lambda i, j: e[i, j] / total[i], "y")], lambda v: (
            np.exp(v - v.max(1, keepdims=True)) / np.exp(v - v.max(1, keepdims=True)).sum(1, keepdims=True))
    if kind == "log of sum":  # one result of each row
        most = te.compute((n,), lambda i: te.max(x[i, r], axis=r), "most")
        total = te.compute((n,), lambda i: te.sum(te.exp(x[i, s] - most[i]), axis=s), "total")
        return [x, te.compute((n,), lambda i: te.log(total[i]) + most[i], "y")], lambda v: np.log(np.exp(v).sum(1))
    if kind == "variance":  # ends in a reduction
        total = te.compute((n,), lambda i: te.sum(x[i, r], axis=r), "total")
        return [x, te.compute((n,), lambda i: te.sum((x[i, s] - total[i] / m) * (x[i, s] - total[i] / m), axis=s), "y")], (
            lambda v: v.var(1) * m)
    # With dimensions that are kept.
    square = te.compute((n, 1), lambda i, _: te.sum(x[i, r] * x[i, r], axis=r), "square")
    return [x, g, te.compute((n, m), lambda i, j: x[i, j] * te.rsqrt(square[i, 0] / m + 1e-6) * g[j], "y")], (
        lambda v, w: v / np.sqrt((v * v).mean(1, keepdims=True) + 1e-6) * w)


@pytest.mark.parametrize("n,m", [(70, 1024), (96, 771), (64, 1000)])
@pytest.mark.parametrize("kind", ["softmax", "log of sum", "variance", "norm"])
def test_what_is_computed_of_a_row_is_computed_at_once(kind, n, m):
    text = check(*rows_of(kind, n, m), ["vectorized"])
    assert text.count(" parallel {") == 1


@pytest.mark.parametrize("kind", ["softmax", "log of sum", "variance", "norm"])
@pytest.mark.parametrize("n,m", [(1, 4096), (3, 5), (600, 1), (2, 70000)])
def test_rows_of_all_sizes(kind, n, m):
    """Of few, short or long rows, too; threads share parts of two rows of 70000."""
    check(*rows_of(kind, n, m))


def test_groups_of_channels_are_rows():
    n, groups, channels, size = 2, 8, 4, 15
    x, w = te.placeholder((n, groups, channels, size, size), name="x"), te.placeholder((groups, channels), name="w")
    count = channels * size * size

    def axes():
        return [te.reduce_axis((0, e)) for e in (channels, size, size)]
    a, b = axes(), axes()
    total = te.compute((n, groups), lambda i, g: te.sum(x[i, g, a[0], a[1], a[2]], axis=a), "total")
    square = te.compute((n, groups), lambda i, g: te.sum(x[i, g, b[0], b[1], b[2]] * x[i, g, b[0], b[1], b[2]], axis=b), "square")
    y = te.compute(x.shape, lambda i, g, c, p, q: (x[i, g, c, p, q] - total[i, g] / count) * te.rsqrt(
        square[i, g] / count - total[i, g] * total[i, g] / (count * count) + 1e-5) * w[g, c], "y")

    def reference(v, u):
        return (v - v.mean((2, 3, 4), keepdims=True)) / np.sqrt(v.var((2, 3, 4), keepdims=True) + 1e-5) * u[None, :, :, None, None]
    assert check([x, w, y], reference).count(" parallel {") == 1


def test_products_are_not_computed_row_by_row():
    """Softmax of the results of a product: the product stays one."""
    n, m, k = 64, 256, 32
    a, b = te.placeholder((n, k), name="a"), te.placeholder((k, m), name="b")
    t, r, s = te.reduce_axis((0, k)), te.reduce_axis((0, m)), te.reduce_axis((0, m))
    c = te.compute((n, m), lambda i, j: te.sum(a[i, t] * b[t, j], axis=t), "c")
    most = te.compute((n,), lambda i: te.max(c[i, r], axis=r), "most")
    e = te.compute((n, m), lambda i, j: te.exp(c[i, j] - most[i]), "e")
    total = te.compute((n,), lambda i: te.sum(e[i, s], axis=s), "total")

    def reference(x, y):
        v = x @ y
        v = np.exp(v - v.max(1, keepdims=True))
        return v / v.sum(1, keepdims=True)
    check([a, b, te.compute((n, m), lambda i, j: e[i, j] / total[i], "y")], reference, ["packed_columns"])


def test_rows_that_others_read_too_stay():
    """The mean is a result of its own, and what reads another row's isn't a part of the row."""
    n, m = 64, 1024
    x = te.placeholder((n, m), name="x")
    r = te.reduce_axis((0, m), "r")
    total = te.compute((n,), lambda i: te.sum(x[i, r], axis=r), "total")
    y = te.compute((n, m), lambda i, j: x[i, j] - total[n - 1 - i], "y")
    check([x, y], lambda v: v - v.sum(1)[::-1, None])
    z = te.compute((n, m), lambda i, j: x[i, j] - total[i], "z")
    values = np.random.default_rng(5).standard_normal((n, m)).astype(np.float32)
    out = [treadle.nd.array(np.zeros(n, np.float32)), treadle.nd.array(np.zeros((n, m), np.float32))]
    treadle.build([x, total, z], target=V3)(treadle.nd.array(values), *out)
    np.testing.assert_allclose(out[0].numpy(), values.sum(1), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(out[1].numpy(), values - values.sum(1, keepdims=True), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("most", [True, False])
@pytest.mark.parametrize("m", [1, 3, 40, 77, 1024])
def test_extremes_of_rows_with_nan_are_nan(m, most):
    n = 8
    x = te.placeholder((n, m), name="x")
    r = te.reduce_axis((0, m), "r")
    tensors = [x, te.compute((n,), lambda i: (te.max if most else te.min)(x[i, r], axis=r), "s")]
    values = np.random.default_rng(6).standard_normal((n, m)).astype(np.float32)
    for row, place in ((1, 0), (2, m // 2), (5, m - 1)):
        values[row, place] = np.nan
    out = treadle.nd.array(np.zeros(n, np.float32))
    treadle.build(tensors, target=V3)(treadle.nd.array(values), out)
    np.testing.assert_array_equal(out.numpy(), values.max(1) if most else values.min(1))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_larger_of_two_is_nan_where_one_is(dtype):
    a, b = te.placeholder((4, 4), dtype, name="a"), te.placeholder((4, 4), dtype, name="b")
    some = np.array([np.nan, -np.inf, 0, 1.5], dtype)
    left, right = np.repeat(some, 4).reshape(4, 4), np.tile(some, 4).reshape(4, 4)
    for make, numpy in ((te.max, np.maximum), (te.min, np.minimum)):
        out = treadle.nd.array(np.zeros((4, 4), dtype))
        function = treadle.build([a, b, te.compute((4, 4), lambda i, j: make(a[i, j], b[i, j]))], target=V3)
        function(treadle.nd.array(left), treadle.nd.array(right), out)
        np.testing.assert_array_equal(out.numpy(), numpy(left, right))


def test_several_results_and_symbolic_sizes():
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] + 1.0, "y")
    z = te.compute((n,), lambda i: y[i] * 2.0, "z")
    built = te.build([x, y, z], target=V3)
    arrays = [treadle.nd.array(np.arange(5, dtype=np.float32)) for _ in range(3)]
    built(*arrays)
    np.testing.assert_array_equal(arrays[1].numpy(), np.arange(5) + 1)
    np.testing.assert_array_equal(arrays[2].numpy(), (np.arange(5) + 1) * 2)


def test_written_schedules_stay_as_they_are():
    a = te.placeholder((32, 32), name="a")
    r = te.reduce_axis((0, 32))
    c = te.compute((32, 32), lambda i, j: te.sum(a[i, r] * a[r, j], axis=r))
    text = str(treadle.lower(te.create_schedule(c.op), [a, c], target=V3))
    assert "parallel" not in text and "vectorized" not in text and "packed" not in text


def test_arguments_are_one_list():
    x = te.placeholder((4,))
    y = te.compute((4,), lambda i: x[i])
    with pytest.raises(ValueError, match="one list"):
        treadle.build([x, y], [x, y])


def largest(x, n, m, earliest=True):
    """Position and value of the largest element of each row; ties go to the earlier or to the later one."""
    r = te.reduce_axis((0, m), "r")

    def larger(a, b):
        keep = a[1] >= b[1] if earliest else a[1] > b[1]
        return tir.Select(keep, a[0], b[0]), tir.Select(keep, a[1], b[1])
    reducer = te.comm_reducer(larger, lambda t0, t1: (tir.const(-1, t0), te.min_value(t1)), "largest")
    return list(te.compute((n,), lambda i: reducer((r, x[i, r]), axis=r), "largest"))


@pytest.mark.parametrize("earliest", [True, False])
@pytest.mark.parametrize("m", [64, 77, 1024])
def test_ties_of_tuples_go_as_the_order_of_the_axis_says(m, earliest):
    n = 12
    x = te.placeholder((n, m), name="x")
    tensors = [x, *largest(x, n, m, earliest)]
    values = np.random.default_rng(3).integers(0, 4, (n, m)).astype(np.float32)
    values[0] = -np.inf  # nothing is larger than what the search starts from
    out = [treadle.nd.array(np.zeros(n, np.int32)), treadle.nd.array(np.zeros(n, np.float32))]
    treadle.build(tensors, target=V3)(treadle.nd.array(values), *out)
    expected = values.argmax(1) if earliest else m - 1 - values[:, ::-1].argmax(1)
    np.testing.assert_array_equal(out[0].numpy()[1:], expected[1:])
    np.testing.assert_array_equal(out[1].numpy()[1:], values.max(1)[1:])
    assert out[0].numpy()[0] == -1
    assert ("rf" in str(te.auto_schedule(tensors, V3))) == earliest  # parts of rows where their order doesn't matter


def test_sums_of_several_values_are_vectors():
    x = te.placeholder((16, 512), name="x")
    r = te.reduce_axis((0, 512))
    both = te.comm_reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda t0, t1: (tir.const(0, t0), tir.const(0, t1)))
    tensors = [x, *te.compute((16,), lambda i: both((x[i, r], x[i, r] * x[i, r]), axis=r))]
    assert "vectorized" in str(te.auto_schedule(tensors, V3))
    values = np.random.default_rng(4).integers(0, 9, (16, 512)).astype(np.float32)
    out = [treadle.nd.array(np.zeros(16, np.float32)) for _ in range(2)]
    treadle.build(tensors, target=V3)(treadle.nd.array(values), *out)
    np.testing.assert_array_equal(out[0].numpy(), values.sum(1))
    np.testing.assert_array_equal(out[1].numpy(), (values * values).sum(1))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("layout,size,kernel,stride", [("NCHW", 14, 3, 1), ("NCHW", 19, 3, 2), ("NHWC", 15, 2, 2), ("NCHW", 9, 5, 1)])
def test_windows_are_written_out(dtype, layout, size, kernel, stride):
    """Pooling and depthwise convolutions: no loop over the window is left."""
    out = (size - kernel) // stride + 1
    ry, rx = te.reduce_axis((0, kernel)), te.reduce_axis((0, kernel))

    def views(x):
        axes = (2, 3) if layout == "NCHW" else (1, 2)
        return np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axes)[
            (slice(None),) * axes[0] + (slice(None, None, stride),) * 2]
    if layout == "NCHW":
        d, w = te.placeholder((2, 8, size, size), dtype=dtype, name="d"), te.placeholder((8, kernel, kernel), dtype=dtype, name="w")
        most = te.compute((2, 8, out, out), lambda n, c, y, x: te.max(d[n, c, y * stride + ry, x * stride + rx], axis=[ry, rx]))
        summed = te.compute((2, 8, out, out), lambda n, c, y, x: te.sum(
            d[n, c, y * stride + ry, x * stride + rx] * w[c, ry, rx], axis=[ry, rx]))
    else:
        d, w = te.placeholder((2, size, size, 8), dtype=dtype, name="d"), te.placeholder((kernel, kernel, 8), dtype=dtype, name="w")
        most = te.compute((2, out, out, 8), lambda n, y, x, c: te.max(d[n, y * stride + ry, x * stride + rx, c], axis=[ry, rx]))
        summed = te.compute((2, out, out, 8), lambda n, y, x, c: te.sum(
            d[n, y * stride + ry, x * stride + rx, c] * w[ry, rx, c], axis=[ry, rx]))

    def convolved(x, y):
        subscripts = "ncyxab,cab->ncyx" if layout == "NCHW" else "nyxcab,abc->nyxc"
        result = np.einsum(subscripts, views(x), y)
        return result if dtype != "int8" else result.astype(np.int64).astype(np.int8)
    for tensors, reference in (([d, most], lambda x: views(x).max((-1, -2))), ([d, w, summed], convolved)):
        text, _ = exact(tensors, reference)
        assert "vectorized" in text and text.count("reduce (0") >= 2
        for line in text.splitlines():
            assert "for (rx" not in line or "unroll" in line


def test_steps_of_scans_stay_within_stretches_of_a_row():
    n, m = 40, 2048
    x, state = te.placeholder((n, m), name="x"), te.placeholder((n, m), name="state")
    first = te.compute((1, m), lambda _, j: x[0, j], "first")
    update = te.compute((n, m), lambda t, j: te.max(state[t - 1, j], x[t, j]), "update")
    text = check([x, te.scan(first, update, state, inputs=[x])], np.maximum.accumulate, ["parallel", "vectorized"])
    assert text.index("parallel") < text.index("scan.idx")


def test_steps_that_read_their_neighbours_keep_their_order():
    n, m = 9, 64
    x, state = te.placeholder((n, m), name="x"), te.placeholder((n, m), name="state")
    first = te.compute((1, m), lambda _, j: x[0, j], "first")
    update = te.compute((n, m), lambda t, j: state[t - 1, te.indexmod(j + 1, m)] + x[t, j], "update")

    def reference(v):
        v = v.copy()
        for t in range(1, n):
            v[t] += np.roll(v[t - 1], -1)
        return v
    check([x, te.scan(first, update, state, inputs=[x])], reference)


def test_products_in_the_steps_of_a_scan_are_vectors():
    n, b, h = 6, 4, 32
    x, w, state = (te.placeholder(s, name=name) for s, name in (((n, b, h), "x"), ((h, h), "w"), ((n, b, h), "state")))
    r = te.reduce_axis((0, h))
    first = te.compute((1, b, h), lambda _, p, q: x[0, p, q], "first")
    product = te.compute((n, b, h), lambda t, p, q: te.sum(state[t - 1, p, r] * w[r, q], axis=r), "product")
    update = te.compute((n, b, h), lambda t, p, q: te.tanh(product[t, p, q] + x[t, p, q]), "update")

    def reference(v, weights):
        v = v.copy()
        for t in range(1, n):
            v[t] = np.tanh(v[t - 1] @ weights + v[t])
        return v
    text = check([x, w, te.scan(first, update, state, inputs=[x, w])], reference)
    assert "vectorized" in text[text.index("scan.idx"):]


@pytest.mark.parametrize("m,n,k", [(5, 7, 3), (40, 33, 19), (70, 130, 64)])
def test_products_of_symbolic_sizes_are_tiled(m, n, k):
    sizes = [te.var(name) for name in "mnk"]
    a, b = te.placeholder((sizes[0], sizes[2]), name="a"), te.placeholder((sizes[2], sizes[1]), name="b")
    r = te.reduce_axis((0, sizes[2]))
    tensors = [a, b, te.compute(sizes[:2], lambda i, j: te.sum(a[i, r] * b[r, j], axis=r))]
    assert "vectorized" in str(te.auto_schedule(tensors, V3))
    rng = np.random.default_rng(5)
    x, y = (rng.integers(0, 5, s).astype(np.float32) for s in ((m, k), (k, n)))
    out = treadle.nd.array(np.zeros((m, n), np.float32))
    treadle.build(tensors, target=V3)(treadle.nd.array(x), treadle.nd.array(y), out)
    np.testing.assert_array_equal(out.numpy(), x @ y)


def test_what_is_read_from_all_over_is_left_to_the_compiler():
    x = te.placeholder((8, 100), name="x")
    rolled = te.compute((8, 100), lambda i, j: x[i, te.indexmod(j + 37, 100)])
    assert "vectorized" not in check([x, rolled], lambda v: np.roll(v, -37, 1))
    halves = te.compute((8, 96), lambda i, j: x[i, te.indexdiv(j, 32) * 32 + te.indexmod(j, 32)])
    check([x, halves], lambda v: v[:, :96], ["vectorized"])


def test_neighbouring_reduced_axes_are_one():
    x = te.placeholder((4, 6, 7, 9), name="x")
    ry, rx = te.reduce_axis((0, 7)), te.reduce_axis((0, 9))
    check([x, te.compute((4, 6), lambda n, c: te.sum(x[n, c, ry, rx], axis=[ry, rx]))], lambda v: v.sum((2, 3)),
          ["vectorized"])


@pytest.mark.parametrize("n,m", [(64, 64), (45, 101), (7, 3)])
def test_symbolic_matrices_are_transposed_in_tiles(n, m):
    rows, columns = te.var("n"), te.var("m")
    x = te.placeholder((rows, columns), name="x")
    tensors = [x, te.compute((columns, rows), lambda i, j: x[j, i])]
    text = str(te.auto_schedule(tensors, V3))
    assert "vectorized" in text and "fused" not in text  # an index of both would be divided by one of them
    values = np.arange(n * m, dtype=np.float32).reshape(n, m)
    out = treadle.nd.array(np.zeros((m, n), np.float32))
    treadle.build(tensors, target=V3)(treadle.nd.array(values), out)
    np.testing.assert_array_equal(out.numpy(), values.T)
