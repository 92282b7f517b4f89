# SPDX-License-Identifier: Apache-2.0
"""Schedules of loop-level functions: each primitive keeps the results, or is refused with a reason."""
import numpy as np
import pytest

import treadle as tvm
from treadle import te, tir

TARGETS = ["llvm", "stackvm"]
N = 32


def matmul():
    k = te.reduce_axis((0, N), "k")
    a, b = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    t = te.compute((N, N), lambda i, j: a[i, j] + 1.0, name="T")
    c = te.compute((N, N), lambda i, j: te.sum(t[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])


def check(sch, make=matmul):
    """Results on each target; the trace gives the same function; the text parses back."""
    rng = np.random.default_rng(0)
    a, b = rng.random((N, N), "float32"), rng.random((N, N), "float32")
    for target in TARGETS:
        arrays = [tvm.nd.array(x) for x in (a, b, np.zeros((N, N), "float32"))]
        tvm.build(sch.mod, target=target)(*arrays)
        np.testing.assert_allclose(arrays[2].numpy(), (a + 1) @ b, rtol=1e-4)
    again = tir.Schedule(make())
    again.replay(sch.trace_json())
    tvm.ir.assert_structural_equal(again.func, sch.func)
    tvm.ir.assert_structural_equal(tir.from_text(str(sch.func)), sch.func)


def tiled(sch, factor=8):
    i, j, k = sch.get_loops("C")
    io, ii = sch.split(i, [None, factor])
    jo, ji = sch.split(j, [None, factor])
    ko, ki = sch.split(k, [None, 4])
    sch.reorder(io, jo, ko, ii, ji, ki)
    return io, jo, ko, ii, ji, ki


def test_transform_layout():
    sch = tir.Schedule(matmul())
    sch.transform_layout("T", ("write", 0), lambda i, j: (i // 8, j // 4, i % 8, j % 4))
    check(sch)
    sch.transform_layout("C", "T", lambda a, b, c, d: (a, b, d, c))
    check(sch)


@pytest.mark.parametrize("layout,message", [
    (lambda i, j: (i,), "keep elements|several elements"),
    (lambda i, j: (i + j,), "several elements of buffer 'T' in one place"),
    (lambda i, j: (i - 1, j), "may be negative"),
    (lambda i: (i,), "the map must take 2 indices"),
])
def test_layouts_that_lose_elements(layout, message):
    with pytest.raises(tvm.Error, match=f"transform_layout: .*({message})"):
        tir.Schedule(matmul()).transform_layout("T", ("write", 0), layout)


def test_layout_of_a_parameter():
    with pytest.raises(tvm.Error, match="'B' of block 'C' is a parameter"):
        tir.Schedule(matmul()).transform_layout("C", "B", lambda i, j: (j, i))


def test_blockize():
    sch = tir.Schedule(matmul())
    _, _, _, inner, _, _ = tiled(sch)
    outer = sch.blockize(inner)
    check(sch)
    sch.parallel(sch.get_loops(outer)[0])
    check(sch)
    with pytest.raises(tvm.Error, match="parallel: .*'vko' of block 'C_o'.*reduction"):
        sch.parallel(sch.get_loops(outer)[2])


def test_blockize_of_a_dynamic_axis():
    n = te.var("n", "int64")
    a = te.placeholder((4, n), name="A")
    k = te.reduce_axis((0, n), "k")
    sch = tir.Schedule(te.create_prim_func([a, te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="C")]))
    sch.blockize(sch.get_loops("C")[1])
    x = np.random.default_rng(0).random((4, 5), "float32")
    for target in TARGETS:
        arrays = [tvm.nd.array(x), tvm.nd.array(np.zeros(4, "float32"))]
        tvm.build(sch.mod, target=target)(*arrays)
        np.testing.assert_allclose(arrays[1].numpy(), x.sum(1), rtol=1e-5)


def test_blockize_needs_equal_parts():
    sch = tir.Schedule(matmul())
    _, inner = sch.split(sch.get_loops("C")[0], [None, 5])
    with pytest.raises(tvm.Error, match="blockize: block 'C' has a condition"):
        sch.blockize(inner)


def dot_intrin(rows, length, extra=0.0):
    """Rows of a matrix times a column of another."""
    a, b = te.placeholder((rows, length), name="a"), te.placeholder((length,), name="b")
    k = te.reduce_axis((0, length), "k")
    c = te.compute((rows,), lambda i: te.sum(a[i, k] * (b[k] + extra if extra else b[k]), axis=k), name="c")
    stride = te.var("stride")
    buffers = {a: tir.decl_buffer((rows, length), "float32", "a", strides=[te.var("row"), 1]),
               b: tir.decl_buffer((length,), "float32", "b", strides=[stride]),
               c: tir.decl_buffer((rows,), "float32", "c", strides=[te.var("out")])}

    def kernel(ins, outs):
        def part(clear, add):
            ib = tir.ir_builder.create()
            x, y, z = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
            with ib.for_range(0, rows, name="r") as r:
                if clear:
                    z[r] = 0.0
                if add:
                    with ib.for_range(0, length, name="q") as q:
                        z[r] = z[r] + x[r, q] * y[q]
            return ib.get()

        return part(True, True), part(True, False), part(False, True)

    return te.decl_tensor_intrin(c.op, kernel, name="dot", binds=buffers)


def columns():
    a, b = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    k = te.reduce_axis((0, N), "k")
    c = te.compute((N, N), lambda j, i: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    return a, b, c


@pytest.mark.parametrize("outer_reduction", [False, True])
def test_tensorize(outer_reduction):
    a, b, c = columns()
    s = te.create_schedule(c.op)
    j, i = c.op.axis
    io, ii = s[c].split(i, factor=8)
    length = N
    if outer_reduction:
        ko, ki = s[c].split(c.op.reduce_axis[0], factor=4)
        s[c].reorder(j, io, ko, ii, ki)
        length = 4
    s[c].tensorize(ii, dot_intrin(8, length))
    rng = np.random.default_rng(0)
    x, y = rng.random((N, N), "float32"), rng.random((N, N), "float32")
    for target in TARGETS:
        arrays = [tvm.nd.array(v) for v in (x, y, np.zeros((N, N), "float32"))]
        tvm.build(s, [a, b, c], target=target)(*arrays)
        np.testing.assert_allclose(arrays[2].numpy(), y @ x.T, rtol=1e-4)


@pytest.mark.parametrize("intrin,message", [
    (lambda: dot_intrin(4, N), "axis 'vi' has extent 8, axis 'vi.*' of the intrinsic 4"),
    (lambda: dot_intrin(8, 16), "has extent 32, axis 'vk' of the intrinsic 16"),
    (lambda: dot_intrin(8, N, 1.0), "it computes .*, the intrinsic "),
])
def test_intrinsics_that_compute_something_else(intrin, message):
    a, b, c = columns()
    s = te.create_schedule(c.op)
    _, inner = s[c].split(c.op.axis[1], factor=8)
    s[c].tensorize(inner, intrin())
    with pytest.raises(tvm.Error, match=f"tensorize: block 'C' isn't what intrinsic 'dot' computes: .*{message}"):
        tvm.lower(s, [a, b, c])


def test_pad_einsum():
    def odd():
        k = te.reduce_axis((0, 13), "k")
        a, b = te.placeholder((7, 13), name="A"), te.placeholder((13, 9), name="B")
        c = te.compute((7, 9), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
        return te.create_prim_func([a, b, c])

    sch = tir.Schedule(odd())
    sch.pad_einsum("C", [4, 8, 4])
    i, j, k = sch.get_loops("C")
    sch.vectorize(sch.split(j, [None, 8])[1])
    rng = np.random.default_rng(0)
    x, y = rng.random((7, 13), "float32"), rng.random((13, 9), "float32")
    for target in TARGETS:
        arrays = [tvm.nd.array(v) for v in (x, y, np.zeros((7, 9), "float32"))]
        tvm.build(sch.mod, target=target)(*arrays)
        np.testing.assert_allclose(arrays[2].numpy(), x @ y, rtol=1e-4)
    with pytest.raises(tvm.Error, match="pad_einsum: block 'C' has 3 axes; 2 paddings"):
        tir.Schedule(odd()).pad_einsum("C", [4, 8])


def test_virtual_threads():
    sch = tir.Schedule(matmul())
    outer, _ = sch.split(sch.get_loops("C")[0], [4, None])
    sch.vthread(outer)
    check(sch)
    assert "thread_binding" not in str(tvm.lower(sch.mod))


def test_double_buffer():
    sch = tir.Schedule(matmul())
    sch.compute_at("T", sch.get_loops("C")[0])
    sch.double_buffer("T")
    check(sch)
    assert "[64]" in str(tvm.lower(sch.mod))  # two rows of 32


def test_prefetch_pragma_and_alignment():
    sch = tir.Schedule(matmul())
    i = sch.get_loops("C")[0]
    sch.prefetch("C", 0, i, 2)
    sch.pragma(i, "auto_unroll_max_step", 16)
    sch.storage_align("T", 0, 0, 16, 8)
    check(sch)


def test_prefetch_of_what_is_read_next():
    sch = tir.Schedule(matmul())
    i, j, k = sch.get_loops("C")
    sch.reorder(j, i, k)
    sch.prefetch_next("C", 1, i, k)  # the next column of the right operand, which is the same for all i
    check(sch)
    assert "prefetch" in str(tvm.lower(sch.mod))


def test_prefetch_of_what_is_read_next_in_a_loop_that_may_end_early():
    texts = []
    for within in (0, 2):
        sch = tir.Schedule(matmul())
        i, j, k = sch.get_loops("C")
        sch.reorder(j, i, k)
        sch.prefetch_next("C", 1, i, within=within)
        check(sch)
        texts.append(str(tvm.lower(sch.mod)))
    assert texts[0] != texts[1]


def test_prefetch_of_what_is_read_next_in_a_loop_of_dynamic_extent():
    n = te.size_var("n", "int64")
    a, b = te.placeholder((n, 64), name="A"), te.placeholder((64, 64), name="B")
    k = te.reduce_axis((0, 64), "k")
    c = te.compute((n, 64), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    sch = tir.Schedule(te.create_prim_func([a, b, c]))
    i, j, k = sch.get_loops("C")
    sch.reorder(j, i, k)
    with pytest.raises(tvm.Error, match="extents must be constant"):
        sch.prefetch_next("C", 1, i)
    sch.prefetch_next("C", 1, i, within=2)
    assert "for (line: int32, 0, 2)" in str(tvm.lower(sch.mod))  # of four lines, in each of the first two iterations
    built = tvm.build(sch.mod)
    for rows in (1, 2, 9):
        x, y = np.random.default_rng(0).random((2, 64, 64), "float32")
        out = tvm.nd.array(np.zeros((rows, 64), "float32"))
        built(tvm.nd.array(x[:rows]), tvm.nd.array(y), out)
        np.testing.assert_allclose(out.numpy(), x[:rows] @ y.T, rtol=1e-5)


def test_mistakes_leave_the_schedule_as_it_was():
    sch = tir.Schedule(matmul())
    before = str(sch.mod)
    i, j, k = sch.get_loops("C")
    for mistake in (lambda: sch.vectorize(k), lambda: sch.parallel(k), lambda: sch.fuse(j, i),
                    lambda: sch.split(i, [3, 3]), lambda: sch.compute_inline("C"), lambda: sch.compute_at("C", i),
                    lambda: sch.get_block("none"), lambda: sch.reverse_compute_at("T", i),
                    lambda: sch.set_scope("C", 0, "local"), lambda: sch.rfactor(i), lambda: sch.reorder(i, i)):
        with pytest.raises(tvm.Error):
            mistake()
        assert str(sch.mod) == before


def test_lanes_must_not_share_sums():
    a = te.placeholder((18, N), name="A")
    k = te.reduce_axis((0, N), "k")
    b = te.compute((18,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((16,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=8)
    s[b].compute_at(s[c], outer)
    s[c].vectorize(inner)
    x = np.random.default_rng(0).random((18, N), "float32")
    arrays = [tvm.nd.array(v) for v in (x, np.zeros(16, "float32"))]
    tvm.build(s, [a, c])(*arrays)
    total = x.sum(1)
    np.testing.assert_allclose(arrays[1].numpy(), total[:16] + total[1:17] + total[2:], rtol=1e-5)
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].vectorize(c.op.axis[0])
    with pytest.raises(tvm.Error, match="vectorize: .*sum up elements of 'B'"):
        tvm.lower(s, [a, c])


def best_of(compare):
    """The index and value that `compare` keeps of each row."""
    a = te.placeholder((6, 12), name="A", dtype="int32")
    k = te.reduce_axis((0, 12), "k")
    reducer = te.comm_reducer(
        lambda x, y: tuple(tir.Select(compare(x, y), old, new) for old, new in zip(x, y)),
        lambda t0, t1: (tir.const(-1, t0), tir.const(-100, t1)), name="best")
    index, value = te.compute((6,), lambda i: reducer((k.var, a[i, k]), axis=k), name="best")
    return te.create_prim_func([a, index, value])


@pytest.mark.parametrize("compare", [
    lambda x, y: x[1] >= y[1],
    lambda x, y: tir.any(x[1] > y[1], tir.all(x[1] == y[1], x[0] <= y[0])),
])
def test_rfactor_of_tuples(compare):
    sch = tir.Schedule(best_of(compare))
    _, k = sch.get_loops("best")
    _, inner = sch.split(k, [None, 4])
    sch.rfactor(inner)
    a = np.stack([np.random.default_rng(row).permutation(12) for row in range(6)]).astype("int32")
    for target in TARGETS:
        arrays = [tvm.nd.array(x) for x in (a, np.zeros(6, "int32"), np.zeros(6, "int32"))]
        tvm.build(sch.mod, target=target)(*arrays)
        np.testing.assert_array_equal(arrays[1].numpy(), a.argmax(1))
        np.testing.assert_array_equal(arrays[2].numpy(), a.max(1))


def test_rfactor_needs_an_order_of_tuples():
    sch = tir.Schedule(best_of(lambda x, y: tir.all(x[1] > y[1], x[0] > y[0])))
    with pytest.raises(tvm.Error, match="rfactor: .*block 'best' selects by a condition that isn't an order of tuples"):
        sch.rfactor(sch.get_loops("best")[1])


def test_rfactor_starts_partial_sums_from_zero():
    a, b = te.placeholder((6, 12), name="A", dtype="int32"), te.placeholder((6,), name="B", dtype="int32")
    k = te.reduce_axis((0, 12), "k")
    c = te.compute((6,), lambda i: te.sum(a[i, k], axis=k, init=b[i]), name="C")
    sch = tir.Schedule(te.create_prim_func([a, b, c]))
    sch.rfactor(sch.split(sch.get_loops("C")[1], [None, 4])[1])
    x, y = np.arange(72, dtype="int32").reshape(6, 12), np.arange(6, dtype="int32")
    arrays = [tvm.nd.array(v) for v in (x, y, np.zeros(6, "int32"))]
    tvm.build(sch.mod, target="stackvm")(*arrays)
    np.testing.assert_array_equal(arrays[2].numpy(), x.sum(1) + y)


def chain():
    a = te.placeholder((16, 16), name="A")
    b = te.compute((16, 16), lambda i, j: a[i, j] + 1.0, name="B")
    return te.create_prim_func([a, b])


def test_buffers_and_their_copies_go_by_name():
    s = tir.Schedule(chain())
    copy = s.cache_read("B", "A", "shared")
    assert s.get(s.get_block("A_shared")).name_hint == s.get(copy).name_hint
    s.transform_layout(copy, "A_shared", lambda i, j: (j, i))
    with pytest.raises(tvm.Error, match="block 'B' reads no buffer 'Z'"):
        s.cache_read("B", "Z", "shared")


def test_traces_are_applied_to_other_schedules():
    s = tir.Schedule(chain(), seed=1)
    i, j = s.get_loops("B")
    s.split(i, s.sample_perfect_tile(i, n=2))
    s.split(j, [None, s.sample_categorical([2, 4], [0.5, 0.5])])
    other = tir.Schedule(chain())
    s.trace.apply_to_schedule(other)
    assert tvm.ir.structural_equal(s.mod, other.mod)


def test_loop_level_text_is_read_by_the_parser():
    s = tir.Schedule(chain())
    assert tvm.ir.structural_equal(tvm.parser.fromtext(str(s.mod))["main"], s.func)


@pytest.mark.timeout(120)
def test_deep_sequences_are_rewritten_once_each():
    """Replacing a block went through all statements of each level twice: 2^40 of them here."""
    depth = 40
    stages = [te.placeholder((8,), name="A")]
    for k in range(depth):
        stages.append(te.compute((8,), lambda i, before=stages[-1]: before[i] + 1.0, name=f"B{k}"))
    sch = tir.Schedule(te.create_prim_func([stages[0], stages[-1]]))
    for k in reversed(range(1, depth - 1)):
        sch.compute_at(sch.get_block(f"B{k}"), sch.get_loops(sch.get_block(f"B{k + 1}"))[-1])
    sch.compute_inline(sch.get_block("B0"))
    built = tvm.build(sch.mod, target="llvm")
    x, y = np.arange(8, dtype="float32"), tvm.nd.array(np.zeros(8, "float32"))
    built["main"](tvm.nd.array(x), y)
    np.testing.assert_array_equal(y.numpy(), x + depth)


def test_names_under_the_paths_of_scripts(capsys):
    from treadle.tir.schedule.schedule import Schedule
    from treadle.tir.schedule.testing import verify_trace_roundtrip
    from treadle.tir.schedule.trace import Trace

    a = te.placeholder((64, 64), name="A")
    b = te.compute((64, 64), lambda i, j: a[i, j] * 2.0, name="B")
    func = te.create_prim_func([a, b])
    sch = Schedule(func)
    i, j = sch.get_loops(sch.get_block("B"))
    outer, inner = sch.split(i, [None, 8])
    sch.reorder(outer, j, inner)
    sch.unroll(inner)
    assert isinstance(sch.trace, Trace)
    sch.trace.show()
    assert "unroll" in capsys.readouterr().out
    again = verify_trace_roundtrip(sch, mod=func)
    assert tvm.ir.structural_equal(again.mod, sch.mod) and not tvm.ir.structural_equal(again.mod, Schedule(func).mod)
    with pytest.raises(tvm.Error):
        verify_trace_roundtrip(sch, mod=sch.mod)  # the steps were taken there already


def test_registered_intrinsics_take_the_place_of_blocks():
    def twice(compute):
        x = te.placeholder((8,), name="X")
        return te.create_prim_func([x, te.compute((8,), lambda i: compute(x[i]), name="Y")])

    tvm.tir.TensorIntrin.register("twice8", twice(lambda v: v * 2.0), twice(lambda v: v + v), override=True)
    x = te.placeholder((4, 16), name="X")
    func = te.create_prim_func([x, te.compute((4, 16), lambda i, j: x[i, j] * 2.0, name="Y")])
    value, out = np.random.default_rng(0).random((4, 16), "float32"), tvm.nd.empty((4, 16))
    for as_block in (False, True):
        s = tvm.tir.Schedule(func)
        inner = s.split(s.get_loops("Y")[1], [None, 8])[1]
        s.tensorize(s.blockize(inner) if as_block else inner, "twice8")
        assert "+ X" in str(s.mod)
        tvm.build(s.mod, target="llvm")(tvm.nd.array(value), out)
        np.testing.assert_array_equal(out.numpy(), value * 2)
    s = tvm.tir.Schedule(func)
    with pytest.raises(tvm.Error, match="tensorize: block 'Y' has 0 blocks in it; expected one, as blockize makes it"):
        s.tensorize(s.get_block("Y"), "twice8")
    with pytest.raises(ValueError, match="there is no intrinsic none8"):
        s.tensorize(s.get_loops("Y")[0], "none8")


def test_sequences_within_sequences():
    """All statements of a sequence were rewritten again where one of them changed: 2^30 times in all."""
    stages = [te.placeholder((4,), name="X")]
    for k in range(30):
        stages.append(te.compute((4,), lambda i, x=stages[-1]: x[i] * 2.0, name=f"S{k}"))
    sch = tir.Schedule(te.create_prim_func([stages[0], stages[-1]]))
    for k in range(28, -1, -1):
        sch.compute_at(f"S{k}", sch.get_loops(f"S{k + 1}")[-1])
    sch.annotate(sch.get_loops("S0")[-1], "pragma_note", 1)
    arrays = [tvm.nd.array(np.ones(4, "float32")), tvm.nd.array(np.zeros(4, "float32"))]
    tvm.build(sch.mod, target="stackvm")(*arrays)
    np.testing.assert_array_equal(arrays[1].numpy(), np.full(4, 2.0**30, "float32"))
