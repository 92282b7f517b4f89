# SPDX-License-Identifier: Apache-2.0
"""The opencl target, on whatever device the machine has."""
import pathlib
import struct
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import treadle
from treadle import relay, te, tir
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


@pytest.mark.parametrize("n", [1, 64, 1000])
def test_kernel_runs(n):
    dev = device()
    module = add_one(n, bound)
    x = np.arange(n, dtype="float32")
    a, b = treadle.nd.array(x, dev), treadle.nd.empty((n,), "float32", dev)
    module(a, b)
    np.testing.assert_array_equal(b.numpy(), x + 1)


def test_source_names_the_grid():
    module = add_one(1000, bound)
    source = module.imported_modules[0].get_source()
    assert "void add_one_kernel0(" in source and "get_group_id(0)" in source and "get_local_id(0)" in source


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


def test_loops_that_are_not_bound_are_refused():
    with pytest.raises(treadle.Error, match="buffer B is computed in loop i.*Did you forget to bind"):
        add_one(1000, lambda s, b: None)


def check_product(schedule, n=32):
    dev = device()
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    schedule(s, a, b, c)
    module = treadle.build(s, [a, b, c], target="opencl")
    rng = np.random.default_rng(0)
    x, y = rng.integers(-9, 9, (2, n, n)).astype("float32")
    result = treadle.nd.array(np.zeros((n, n), "float32"), dev)
    module(treadle.nd.array(x, dev), treadle.nd.array(y, dev), result)
    np.testing.assert_array_equal(result.numpy(), x @ y)
    return module.imported_modules[0].get_source()


def tiles(s, a, b, c, fetch):
    """Each thread sums up four elements, of tiles that all threads of the block fetch together."""
    shared = [s.cache_read(t, "shared", [c]) for t in (a, b)]
    local = s.cache_write(c, "local")
    threads = [te.thread_axis((0, 4), f"threadIdx.{d}") for d in "yx"]
    blocks = [te.thread_axis(f"blockIdx.{d}") for d in "yx"]
    outer, inner, own = [], [], []
    for axis, block, thread in zip(s[c].op.axis, blocks, threads):
        o, i = s[c].split(axis, factor=8)
        t, i = s[c].split(i, nparts=4)
        s[c].bind(o, block)
        s[c].bind(t, thread)
        outer, inner, own = outer + [o], inner + [t], own + [i]
    s[c].reorder(*outer, *inner, *own)
    s[local].compute_at(s[c], inner[1])
    ko, ki = s[local].split(s[local].op.reduce_axis[0], factor=8)
    s[local].reorder(ko, ki, *s[local].op.axis)
    for stage in shared:
        s[stage].compute_at(s[local], ko)
        fetch(s, stage, threads)


def test_threads_fetch_tiles_together():
    def fetch(s, stage, threads):
        for axis, thread in zip(s[stage].op.axis, threads):
            outer, _ = s[stage].split(axis, nparts=4)
            s[stage].bind(outer, thread)

    source = check_product(lambda *args: tiles(*args, fetch))
    assert "__local float" in source and source.count("barrier(") >= 2


def test_fused_axes_of_tiles_are_fetched_together():
    def fetch(s, stage, threads):
        fused = s[stage].fuse(*s[stage].op.axis)
        fused, x = s[stage].split(fused, factor=4)
        _, y = s[stage].split(fused, factor=4)
        s[stage].bind(y, threads[0])
        s[stage].bind(x, threads[1])

    check_product(lambda *args: tiles(*args, fetch))


def test_tiles_have_room_for_the_next_one():
    def fetch(s, stage, threads):
        for axis, thread in zip(s[stage].op.axis, threads):
            outer, _ = s[stage].split(axis, nparts=4)
            s[stage].bind(outer, thread)
        s[stage].double_buffer()

    check_product(lambda *args: tiles(*args, fetch))


def test_what_threads_fetch_together_must_be_the_same_for_all():
    def schedule(s, a, b, c):
        shared = s.cache_read(a, "local", [c])
        thread = te.thread_axis((0, 32), "threadIdx.x")
        s[c].bind(s[c].op.axis[0], thread)
        s[shared].compute_at(s[c], s[c].op.axis[0])
        s[shared].bind(s[shared].op.axis[1], thread)

    with pytest.raises(treadle.Error, match="bound to threadIdx.x within loop i.*differs from thread to thread"):
        check_product(schedule)


def reduce_rows(schedule, rows=37, columns=129, reduce=te.sum):
    dev = device()
    n, m = te.var("n"), te.var("m")
    a, k = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: reduce(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    schedule(s, b)
    module = treadle.build(s, [a, b], target="opencl")
    x = np.random.default_rng(0).integers(-9, 9, (rows, columns)).astype("float32")
    result = treadle.nd.array(np.zeros(rows, "float32"), dev)
    module(treadle.nd.array(x, dev), result)
    np.testing.assert_array_equal(result.numpy(), x.max(1) if reduce is te.max else x.sum(1))


@pytest.mark.parametrize("reduce", [te.sum, te.max])
@pytest.mark.parametrize("threads", [1, 12, 16])
def test_rows_are_reduced_by_threads(threads, reduce):
    def schedule(s, b):
        _, inner = s[b].split(s[b].op.reduce_axis[0], factor=threads)
        part = s.rfactor(b, inner)
        outer, row = s[b].split(s[b].op.axis[0], factor=8)
        s[b].bind(outer, te.thread_axis("blockIdx.x"))
        s[b].bind(row, te.thread_axis("threadIdx.y"))
        thread = te.thread_axis("threadIdx.x")
        s[b].bind(s[b].op.reduce_axis[0], thread)
        s[part].compute_at(s[b], s[b].op.reduce_axis[0])
        s[b].set_store_predicate(thread.var.equal(0))

    reduce_rows(schedule, reduce=reduce)


def test_positions_of_maxima_are_found_by_threads():
    dev = device()
    rows, columns = 8, 64
    value = te.placeholder((rows, columns), name="value", dtype="int32")
    k = te.reduce_axis((0, columns), "k")
    argmax = te.comm_reducer(lambda x, y: (treadle.tir.Select(x[1] >= y[1], x[0], y[0]),
                                           treadle.tir.Select(x[1] >= y[1], x[1], y[1])),
                             lambda t0, t1: (treadle.tir.const(-1, t0), te.min_value(t1)), name="argmax")
    where, top = te.compute((rows,), lambda i: argmax((k.var, value[i, k]), axis=k), name="T")
    s = te.create_schedule(where.op)
    _, inner = s[where].split(s[where].op.reduce_axis[0], factor=16)
    s[where].bind(where.op.axis[0], te.thread_axis("blockIdx.x"))
    s[where].bind(inner, te.thread_axis("threadIdx.x"))
    module = treadle.build(s, [value, where, top], target="opencl")
    x = np.random.default_rng(0).permutation(rows * columns).reshape(rows, columns).astype("int32")
    results = [treadle.nd.array(np.zeros(rows, "int32"), dev) for _ in range(2)]
    module(treadle.nd.array(x, dev), *results)
    np.testing.assert_array_equal(results[0].numpy(), x.argmax(1))
    np.testing.assert_array_equal(results[1].numpy(), x.max(1))


@pytest.mark.parametrize("inside", [True, False])
def test_threads_take_turns_in_a_sum(inside):
    def schedule(s, b):
        outer, inner = s[b].split(s[b].op.reduce_axis[0], factor=16)
        if not inside:
            s[b].reorder(inner, outer)
        s[b].bind(s[b].op.axis[0], te.thread_axis("blockIdx.x"))
        s[b].bind(inner, te.thread_axis("threadIdx.x"))

    reduce_rows(schedule)


def graph():
    x = relay.var("x", shape=(1, 3, 12, 12))
    w = relay.var("w", shape=(8, 3, 3, 3))
    v = relay.var("v", shape=(10, 8))
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1), channels=8, kernel_size=(3, 3)))
    y = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y))
    return relay.Function([x, w, v], relay.nn.softmax(relay.nn.dense(y, v)))


@pytest.mark.parametrize("axis", [None, "blockIdx.y"])
def test_blocks_do_not_fetch_for_each_other(axis):
    dev = device()
    a = te.placeholder((4, 8), name="A", dtype="int32")
    b = te.compute((4, 8), lambda i, j: a[i, 7 - j] + 1, name="B")
    s = tir.Schedule(te.create_prim_func([a, b]))
    fetch = s.cache_read("B", 0, "shared")
    i, j = s.get_loops("B")
    s.bind(i, "blockIdx.x")
    s.compute_at(fetch, i)
    s.bind(j, "threadIdx.x")
    outer, inner = s.split(s.get_loops(fetch)[-1], [None, 4])
    s.bind(inner, "threadIdx.x")
    if axis is not None:
        s.bind(outer, axis)
        with pytest.raises(treadle.Error, match="blockIdx.y would make blocks wait for each other"):
            treadle.build(s.mod, target="opencl")
        return
    x = np.arange(32, dtype="int32").reshape(4, 8)
    arrays = [treadle.nd.array(x, dev), treadle.nd.array(np.zeros_like(x), dev)]
    treadle.build(s.mod, target="opencl")(*arrays)
    np.testing.assert_array_equal(arrays[1].numpy(), x[:, ::-1] + 1)


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


def indexed(op, inputs, **attributes):
    """An ONNX operator with indices on the device; its inputs are those of the model."""
    graph = helper.make_graph(
        [helper.make_node(op, list(inputs), ["y"], **attributes)], "g",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
         for name, value in inputs.items()], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return treadle.compile(model, target="opencl").run(None, inputs)[0]


@pytest.mark.parametrize("op, indices, attributes", [
    ("Gather", [1, -5], {"axis": 0}), ("GatherElements", [[0, 4, 1]], {"axis": 0}), ("GatherND", [[0], [4]], {}),
    ("ScatterElements", [[0, 4, 1]], {"axis": 0}), ("ScatterND", [[0], [-5]], {})])
def test_indices_out_of_range_are_refused(op, indices, attributes):
    device()
    x, wrong = np.arange(12, dtype="float32").reshape(4, 3), np.array(indices, "int64")
    right = np.where(wrong == -5, -1, wrong % 4)
    more = {}
    if op.startswith("Scatter"):
        more["u"] = -np.ones((1, 3) if op == "ScatterElements" else (2, 3), "float32")
    expected = ReferenceEvaluator(helper.make_model(helper.make_graph(
        [helper.make_node(op, ["x", "i", *more], ["y"], **attributes)], "g",
        [onnx.ValueInfoProto(name=name) for name in ("x", "i", *more)], [onnx.ValueInfoProto(name="y")]),
        opset_imports=[helper.make_opsetid("", 18)])).run(None, {"x": x, "i": right, **more})[0]
    np.testing.assert_array_equal(indexed(op, {"x": x, "i": right, **more}, **attributes), expected)
    with pytest.raises(treadle.Error, match=r"index (4|-5) is out of range for 4 elements"):
        indexed(op, {"x": x, "i": wrong, **more}, **attributes)


def test_pads_that_a_run_knows():
    """The grid depends on what is in the device's memory."""
    device()
    x = np.arange(6, dtype="float32").reshape(2, 3)
    padded = indexed("Pad", {"x": x, "pads": np.array([1, 0, 0, 2], "int64"), "value": np.array(7, "float32")})
    np.testing.assert_array_equal(padded, np.pad(x, [(1, 0), (0, 2)], constant_values=7))


def test_sequences_go_to_the_device_and_back():
    device()
    graph = helper.make_graph(
        [helper.make_node("SplitToSequence", ["x", "parts"], ["s"], axis=0), helper.make_node("Abs", ["x"], ["a"]),
         helper.make_node("SequenceInsert", ["s", "a"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3]),
         helper.make_tensor_value_info("parts", TensorProto.INT64, ["k"])],
        [helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
                            target="opencl")
    x = -np.arange(15, dtype="float32").reshape(5, 3)
    got = model.run(None, {"x": x, "parts": np.array([2, 3], "int64")})[0]
    for part, expected in zip(got, [x[:2], x[2:], -x], strict=True):
        np.testing.assert_array_equal(part, expected)


def test_the_library_keeps_llvm_to_itself():
    """The LLVM of PoCL took the default register allocator that ours had set, where no cached kernel spared it."""
    maps = pathlib.Path("/proc/self/maps").read_text().split()
    library = next(path for path in maps if pathlib.Path(path).name.startswith("libtreadle.so"))
    done = subprocess.run(["nm", "-DC", "--defined-only", library], capture_output=True, text=True, check=True)
    shared = [line for line in done.stdout.splitlines() if "llvm::" in line and "Registry" in line and "(" not in line]
    assert not shared, shared


def test_kernels_say_the_size_of_their_blocks():
    """So that compilers give a thread no more registers than a block of that size can have."""
    def symbolic(s, b):
        s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))

    assert "reqd_work_group_size(64, 1, 1)" in add_one(1000, bound).imported_modules[0].get_source()
    assert "reqd_work_group_size" not in add_one(te.var("n"), symbolic).imported_modules[0].get_source()


def reversed_rows(n, columns, target):
    """Each thread of a block reads what another one fetched."""
    a = te.placeholder((n, columns), name="A")
    b = te.compute((n, columns), lambda i, j: a[i, columns - 1 - j], name="B")
    s = te.create_schedule(b.op)
    fetch = s.cache_read(a, "shared", [b])
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    s[fetch].compute_at(s[b], b.op.axis[0])
    for stage, axis in ((b, b.op.axis[1]), (fetch, fetch.op.axis[1])):
        _, inner = s[stage].split(axis, factor=64)
        s[stage].bind(inner, te.thread_axis((0, 64), "threadIdx.x"))
    return treadle.build(s, [a, b], target=target, name="reversed")


def test_limits_of_the_target_are_kept():
    for target in ("opencl -max_num_threads=64 -max_shared_memory_per_block=1024", "opencl"):
        assert "__local float" in reversed_rows(4, 256, target).imported_modules[0].get_source()
    with pytest.raises(treadle.Error, match=r"kernel reversed_kernel0 needs 64 threads of a block; target opencl allows "
                                            r"32 \(-max_num_threads\)"):
        reversed_rows(4, 256, "opencl -max_num_threads=32")
    with pytest.raises(treadle.Error, match=r"needs 1024 bytes of memory that the threads of a block share; target opencl "
                                            r"allows 1000 \(-max_shared_memory_per_block\)"):
        reversed_rows(4, 256, "opencl -max_shared_memory_per_block=1000")


def test_limits_of_the_device_are_kept():
    dev = device()
    n = 64 * (dev.max_shared_memory_per_block // 256 + 1)
    a, b = treadle.nd.empty((1, n), "float32", dev), treadle.nd.empty((1, n), "float32", dev)
    with pytest.raises(treadle.Error, match=f"kernel reversed_kernel0 needs {4 * n} bytes of memory that the threads of a "
                                            f"block share; device .* has {dev.max_shared_memory_per_block}"):
        reversed_rows(1, n, "opencl")(a, b)


def test_modules_without_sizes_of_blocks_still_load():
    """The form that was stored before kernels said how large their blocks are."""
    device()

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    source = "__kernel void f(__global int* a) { a[get_group_id(0)] = get_group_id(0) + 1; }"
    kernels = (text(source) + struct.pack("<Q", 1) + text("f") + struct.pack("<QBB", 1, 3, 64) + struct.pack("<Q", 1) +
               text("blockIdx.x"))
    load = treadle.get_global_func("runtime.module.loadbinary_opencl")
    assert load(struct.pack("<I", 1) + kernels).get_source() == source
    with pytest.raises(treadle.Error, match="format version 3, expected 2"):
        load(struct.pack("<I", 3) + kernels)
