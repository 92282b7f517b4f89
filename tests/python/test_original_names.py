# SPDX-License-Identifier: Apache-2.0
"""Functions and classes under the original's names, each with its effect."""
import copy
import pickle

import numpy as np
import pytest

import treadle as tvm
from treadle import relay, te, tir, topi


def test_modules_of_operators_can_be_imported():
    from treadle.relay.op.annotation import on_device
    from treadle.relay.op.nn import relu
    import treadle.relay.op.nn

    x = relay.var("x", shape=(2,))
    assert relu(x).op.name == "nn.relu" and "on_device" in on_device(x, 1).op.name
    assert treadle.relay.op.nn is relay.op.nn


def test_attributes_and_copies_of_modules(tmp_path):
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x], x))
    marked = mod.with_attr("owner", "me")
    assert marked.get_attr("owner") == "me" and mod.get_attr("owner") is None
    copy = mod.shallow_copy()
    copy["other"] = relay.Function([x], relay.exp(x))
    assert "other" in copy and "other" not in mod
    copy.import_from_std("prelude.rly")
    assert copy.get_type("List")
    with pytest.raises(tvm.Error, match="prelude.rly"):
        mod.import_from_std("nothing.rly")
    (tmp_path / "f.rly").write_text('#[version = "0.0.5"]\ndef @f(%y: Tensor[(3), float32]) { tanh(%y) }\n')
    mod.import_(tmp_path / "f.rly")
    assert "f" in mod


def copied():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    return a, b, te.create_schedule(b.op)


def test_analysis_of_loops():
    a, b, s = copied()
    func = tvm.lower(s, [a, b])["main"]
    assert tir.analysis.verify_ssa(func) and tir.analysis.verify_memory(func)
    x = te.var("x")
    assert [v.name for v in tir.analysis.undefined_vars(x + 1)] == ["x"]
    assert tir.analysis.expr_deep_equal(x + 1, x + 1) and not tir.analysis.expr_deep_equal(x + 1, x + 2)
    outer, inner = s[b].split(b.op.axis[0], factor=4)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    bound = tvm.lower(s, [a, b], target="opencl")["main"].with_attr("target", "opencl")
    assert tir.analysis.verify_gpu_code(bound, {"max_threads_per_block": 4})
    assert not tir.analysis.verify_gpu_code(bound, {"max_threads_per_block": 2})
    host = func.with_attr("target", "opencl")
    assert not tir.analysis.verify_memory(host)
    with pytest.raises(tvm.Error, match="thread axes"):
        tir.transform.VerifyMemory()(tvm.IRModule({"f": host}))


def test_passes_over_loops():
    a, b, s = copied()
    mod = tvm.lower(s, [a, b])
    assert len(tir.transform.Filter(lambda f: False)(mod).functions) == 0
    named = tir.transform.Apply(lambda f: f.with_attr("mark", 1))(mod)
    assert "mark" in named["main"].attrs
    for name in ("StorageFlatten", "LowerInitBlock", "BF16Legalize", "InstrumentBoundCheckers", "Simplify", "SkipAssert"):
        assert getattr(tir.transform, name)()(mod)["main"]
    with pytest.raises(AttributeError):
        tir.transform.NoSuchPass  # noqa: B018


def test_names_of_targets():
    assert str(tvm.target.mali().kind) == "opencl" and tvm.target.intel_graphics().keys[0] == "intel_graphics"
    assert tvm.target.arm_cpu("pixel2").model == "pixel2"
    for absent in (tvm.target.cuda, tvm.target.rocm):
        with pytest.raises(tvm.TargetError, match="there is no target"):
            absent()
    with pytest.raises(tvm.TargetError, match="32-bit"):
        tvm.target.arm_cpu("rasp3b")
    made = tvm.target.register_tag("lab/desk", {"kind": "llvm", "num-cores": 2}, override=True)
    assert str(tvm.target.Target("lab/desk")) == str(made) and "lab/desk" in tvm.target.list_tags()
    assert tvm.target.Target("lab/desk -opt-level=1").attrs["opt-level"] == "1"
    assert tvm.target.Target("llvm -num-cores=2").export()["num-cores"] == "2"
    assert str(tvm.target.Target.from_device(tvm.cpu()).kind) == "llvm"


def test_importers_of_other_formats_name_a_way():
    with pytest.raises(tvm.UnsupportedOpError, match="no relay.frontend.from_keras: tf2onnx writes such models as ONNX"):
        relay.frontend.from_keras(None)


def test_attributes_of_modules():
    mod = tvm.IRModule().with_attr("runs", 3).with_attr("name", "small")
    assert int(mod.get_attr("runs")) == 3 and mod.get_attr("name") == "small"


def test_generic_functions():
    @tvm.target.generic_func
    def which(x):
        return "any", x

    @which.register("cpu")
    def of_cpus(x):
        return "cpu", x

    assert which(1) == ("any", 1)
    with tvm.target.Target("llvm"):
        assert which(1) == ("cpu", 1)
    with tvm.target.Target("opencl"):
        assert which(1) == ("any", 1)
    with pytest.raises(tvm.TargetError, match="has a function for 'cpu' already"):
        which.register("cpu", of_cpus)

    @tvm.target.override_native_generic_func("test.names.which")
    def named(x, y=0):
        return x + y

    same = tvm.target.get_native_generic_func("test.names.which")
    same.register(lambda x: -x, ["cpu", "gpu"])
    assert named(1, y=2) == 3
    with tvm.target.Target("llvm"):
        assert same(1) == named(1) == -1
    with pytest.raises(tvm.TargetError, match="no function for no target, and no default"):
        tvm.target.get_native_generic_func("test.names.other")(1)


def test_groups_and_bounds_of_schedules():
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((8, 8), lambda i, j: c[i, j] - 3.0, name="D")
    s = te.create_schedule(d.op)
    group = s.create_group(outputs=c, inputs=a)
    assert sorted(stage.op.name for stage in group.stages) == ["B", "C"]
    assert s[b].group is group and s[d].group is None and s.groups == [group]
    group.compute_at(s[d], d.op.axis[0])
    value, out = np.random.default_rng(0).random((8, 8), "float32"), tvm.nd.empty((8, 8))
    tvm.build(s, [a, d], "llvm")(tvm.nd.array(value), out)
    np.testing.assert_allclose(out.numpy(), (value + 1) * 2 - 3, rtol=1e-5)
    bounds = te.schedule.InferBound(s)
    assert [int(bounds[axis].extent) for op in (b.op, c.op, d.op) for axis in op.axis] == [1, 8, 1, 8, 8, 8]
    assert te.schedule.ScheduleOps(s, bounds)._type_key().startswith("tir.")


def test_bounds_of_stages_within_loops():
    a = te.placeholder((32, 40), name="A")
    b = te.compute((32, 40), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((30, 40), lambda i, j: b[i, j] * b[i + 2, j], name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], 10)
    _, inner = s[b].split(b.op.axis[1], 8)
    s[b].compute_at(s[c], outer)
    bounds = te.schedule.InferBound(s)
    rows, columns = (bounds[axis] for axis in b.op.axis)
    tvm.ir.assert_structural_equal(rows.min, outer.var * 10)
    assert (int(rows.extent), int(columns.min), int(columns.extent)) == (12, 0, 40)
    assert (int(bounds[inner].extent), int(bounds[outer].extent)) == (8, 3)


def test_programs_of_the_virtual_machine_as_bytes(tmp_path):
    x, c = relay.var("x", shape=(2,)), relay.var("c", shape=(), dtype="bool")
    mod = tvm.IRModule.from_expr(relay.Function([x, c], relay.If(c, relay.exp(x), x)))
    code, lib = relay.vm.compile(mod, "llvm").save()
    lib.export_library(tmp_path / "lib.so")
    loaded = tvm.runtime.vm.Executable.load_exec(code, lib)
    machine = tvm.runtime.vm.VirtualMachine(loaded, tvm.cpu())
    np.testing.assert_allclose(machine.run(np.zeros(2, "float32"), np.array(True)).numpy(), np.ones(2))


@tvm.testing.parametrize_targets("llvm", "opencl")
def test_schedules_by_kind_of_operator(target, dev):
    a, b = te.placeholder((32, 48), name="A"), te.placeholder((48,), name="B")
    total = tvm.topi.sum(tvm.topi.nn.relu(tvm.topi.add(a, b)), axis=1)
    both = tvm.topi.exp(tvm.topi.add(a, b))
    for out, door in ((total, tvm.topi.x86.schedule_reduce), (both, tvm.topi.generic.schedule_injective)):
        with tvm.target.Target(target):
            s = door([out])
        values = [np.random.default_rng(i).standard_normal(shape).astype("float32") for i, shape in
                  enumerate(((32, 48), (48,)))]
        result = tvm.nd.empty([int(d) for d in out.shape], "float32", dev)
        tvm.build(s, [a, b, out], target)(*(tvm.nd.array(v, dev) for v in values), result)
        sums = values[0] + values[1]
        expected = np.maximum(sums, 0).sum(1) if out is total else np.exp(sums)
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4)


def test_the_cache_of_kernels_can_be_switched_off(tmp_path, monkeypatch):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    x = relay.var("x", shape=(3,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    with tvm.transform.PassContext(config={"relay.backend.disable_compile_engine_cache": True}):
        assert [relay.build(mod, "llvm").kernel_counts[1] for _ in range(2)] == [0, 0]


def test_what_this_build_has():
    assert tvm.runtime.enabled("llvm") and tvm.runtime.enabled("cpu") and not tvm.runtime.enabled("cuda")


def test_kernels_of_the_virtual_machine_are_timed():
    from treadle.runtime import profiler_vm

    x, c = relay.var("x", shape=(2,)), relay.var("c", shape=(), dtype="bool")
    mod = tvm.IRModule.from_expr(relay.Function([x, c], relay.If(c, relay.exp(x), relay.tanh(x) + x)))
    machine = profiler_vm.VirtualMachineProfiler(relay.vm.compile(mod, "llvm"), tvm.cpu())
    for flag, name in ((True, "exp"), (False, "tanh")):
        report = machine.profile(np.zeros(2, "float32"), np.array(flag))
        (row,) = report.calls
        assert name in row["Name"] and int(row["Count"]) == 1 and float(row["Duration (us)"]) > 0
        assert "float32 (2,)" in row["Argument Shapes"]
    np.testing.assert_allclose(machine.run(np.zeros(2, "float32"), np.array(True)).numpy(), np.ones(2))


def test_machines_by_their_names(tmp_path):
    tags = tvm.target.list_tags()
    assert {"aws/cpu/c5.large", "aws/cpu/c7g.xlarge", "raspberry-pi/4b-aarch64"} <= set(tags)
    for name, target in tags.items():
        assert str(tvm.target.Target(name)) == str(target) or name == "host", name
    board = tvm.target.Target("raspberry-pi/4b-aarch64")
    assert board.mcpu == "cortex-a72" and int(board.attrs["num-cores"]) == 4 and board.tag == "raspberry-pi/4b-aarch64"
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] * 2.0, name="b")
    for name in ("raspberry-pi/4b-aarch64", "aws/cpu/c5.9xlarge", "aws/cpu/c8g.large"):  # objects for another machine
        path = tmp_path / "twice.o"
        tvm.build(te.create_schedule(b.op), [a, b], target=name, name="twice").save(str(path))
        machine = int.from_bytes(path.read_bytes()[18:20], "little")  # of the ELF header: 62 is x86-64, 183 AArch64
        assert machine == (62 if name == "aws/cpu/c5.9xlarge" else 183)
    with pytest.raises(tvm.error.TargetError, match="no target called .*c5.larg.*did you mean 'aws/cpu/c5.large'"):
        tvm.target.Target("aws/cpu/c5.larg")
    with pytest.raises(tvm.error.TargetError, match="no target called .nvidia/jetson-nano.; target.list_tags"):
        tvm.target.Target("nvidia/jetson-nano")
    with pytest.raises(tvm.error.TargetError, match="there is a target called 'aws/cpu/c5.large' already"):
        tvm.target.register_tag("aws/cpu/c5.large", "llvm")


def test_topi_resizes_take_the_region_before_the_size():
    a = te.placeholder((1, 2, 4, 4), name="A")
    b = topi.image.resize2d(a, [0.0] * 4, (8, 8), "NCHW", "nearest_neighbor", "asymmetric", "floor")
    value, out = np.random.default_rng(0).random((1, 2, 4, 4), "float32"), tvm.nd.empty((1, 2, 8, 8))
    tvm.build([a, b], target="llvm")(tvm.nd.array(value), out)
    np.testing.assert_array_equal(out.numpy(), value.repeat(2, 2).repeat(2, 3))


def test_nodes_are_pickled_and_copied():
    x = relay.var("x", shape=(2, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    for again in (pickle.loads(pickle.dumps(mod)), copy.deepcopy(mod)):
        tvm.ir.assert_structural_equal(mod, again)
    with pytest.raises(tvm.Error, match="nodes of class transform.ModulePass can't be read"):
        copy.deepcopy(relay.transform.InferType())


def test_steps_of_lowering_one_by_one():
    a = te.placeholder((8, 4), name="a")
    b = te.compute((8, 4), lambda i, j: a[i, j] * 2, name="b")
    c = te.compute((8, 4), lambda i, j: b[i, j] + 1, name="c")
    schedule = te.create_schedule(c.op)
    schedule[b].compute_at(schedule[c], c.op.axis[0])
    body = te.schedule.ScheduleOps(schedule, te.schedule.InferBound(schedule))
    assert not te.schedule.VerifyCompactBuffer(body)
    value = np.arange(32, dtype="float32").reshape(8, 4)
    buffers = [tvm.tir.decl_buffer((8, 4), name="first"), tvm.tir.decl_buffer((8, 4), name="second")]
    for args, bound in (([a, c], None), (buffers, dict(zip((a, c), buffers)))):
        function = te.schedule.SchedulePostProcToPrimFunc(args, body, bound)
        assert len(function.params) == 2
        result = tvm.nd.empty((8, 4))
        tvm.build(tvm.IRModule.from_expr(function), "llvm")(tvm.nd.array(value), result)
        np.testing.assert_allclose(result.numpy(), value * 2 + 1)
    strided = tvm.tir.decl_buffer((8, 4), name="s", strides=[8, 1])
    with pytest.raises(tvm.Error, match="buffer s has strides"):
        te.schedule.SchedulePostProcToPrimFunc([strided, c], body, {a: strided})

    graph = te.schedule.CreateReadGraph([c.op])
    assert [op.name for op in te.schedule.PostDFSOrder([c.op], graph)] == ["a", "b", "c"]
    path = te.schedule.CreateAttachPath(schedule)
    assert [axis.var.name for axis in path[b.op]] == ["i"] and path[c.op] == []
    for wrong in (lambda: te.schedule.CreateAttachPath(None), lambda: te.schedule.PostDFSOrder([c.op], None)):
        with pytest.raises(tvm.Error, match="expected a"):
            wrong()
