# SPDX-License-Identifier: Apache-2.0
"""Modules that scripts for TVM import beside the compiler: tvmc, pools of processes, random and sparse tensors, names."""
import operator

import numpy as np
import onnx
import pytest
from onnx import helper

import treadle as tvm
from treadle import relay, te, tir


@pytest.fixture
def model_file(tmp_path):
    weight = onnx.numpy_helper.from_array(np.full((3, 2), 2, "float32"), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", 1, [4, 3])],
                              [helper.make_tensor_value_info("y", 1, [4, 2])], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_tvmc_loads_saves_compiles_and_runs(model_file, tmp_path):
    from treadle.driver import tvmc

    model = tvmc.load(model_file)
    again = tvmc.TVMCModel(model_path=model.save(tmp_path / "saved"))
    x = np.arange(12, dtype="float32").reshape(4, 3)
    for each, name in ((model, "m.tar"), (again, "m.so")):
        package = tvmc.compile(each, target="llvm", package_path=tmp_path / name)
        result = tvmc.run(package, device="cpu", inputs={"x": x}, repeat=1, number=1)
        np.testing.assert_allclose(result.get_output("output_0"), x @ np.full((3, 2), 2))
        assert len(result.times.results) == 1
    zeros = tvmc.run(package, "cpu", fill_mode="zeros", repeat=1, number=1).get_output("output_0")
    np.testing.assert_array_equal(zeros, np.zeros((4, 2)))  # weights stay
    with pytest.raises(tvmc.TVMCException, match="no inputs y; its inputs are: x"):
        tvmc.run(package, "cpu", inputs={"y": x})
    with pytest.raises(tvmc.TVMCException, match="there is no file"):
        tvmc.load(tmp_path / "absent.onnx")
    with pytest.raises(tvmc.TVMCException, match="format keras"):
        tvmc.load(model_file, model_format="keras")


def test_calls_in_other_processes():
    from treadle.contrib import popen_pool

    pool = popen_pool.PopenPoolExecutor(max_workers=1, timeout=60)
    assert pool.submit(operator.add, 1, 2).result() == 3
    statuses = [result.status for result in pool.map_with_error_catching(operator.inv, [1, "x"])]
    assert statuses == [popen_pool.StatusKind.COMPLETE, popen_pool.StatusKind.EXCEPTION]
    worker = popen_pool.PopenWorker()
    import time

    worker.send(time.sleep, (60,), timeout=0.2)
    with pytest.raises(TimeoutError):
        worker.recv()
    assert not worker.is_alive()


def test_random_tensors():
    from treadle.contrib import random

    for tensor, low, high in [(random.uniform(2, 3, (50,)), 2, 3), (random.randint(5, 9, (50,)), 5, 8)]:
        out = tvm.nd.empty((50,), str(tensor.dtype))
        tvm.build(te.create_schedule(tensor.op), [tensor], "llvm")(out)
        assert out.numpy().min() >= low and out.numpy().max() <= high and len(set(out.numpy().tolist())) > 1


def test_sparse_matrices():
    from treadle.contrib import sparse

    dense = np.array([[0, 1, 0], [0, 0, 0], [2, 0, 3]], "float32")
    matrix = sparse.array(dense)
    assert matrix.indptr.numpy().tolist() == [0, 1, 1, 3] and matrix.indices.numpy().tolist() == [1, 0, 2]
    np.testing.assert_array_equal(matrix.numpy(), dense)
    given = sparse.csr((matrix.data, matrix.indices, matrix.indptr), shape=(3, 3))
    np.testing.assert_array_equal(given.numpy(), dense)
    symbol = sparse.placeholder((3, 3), nonzeros=3, name="A")
    doubled = te.compute((3,), lambda i: symbol.data[i] * 2.0)
    out = tvm.nd.empty((3,))
    tvm.build(te.create_schedule(doubled.op), [symbol.data, doubled], "llvm")(matrix.data, out)
    np.testing.assert_array_equal(out.numpy(), [2, 4, 6])


def test_machines_that_are_not_there_are_refused_by_name():
    from treadle.contrib import mkl, ndk, nvcc

    assert nvcc.have_tensorcore("8.0") is False
    for call in (nvcc.find_cuda_path, ndk.create_shared, mkl.matmul):
        with pytest.raises(tvm.TargetError, match=r"contrib\.(nvcc|ndk|mkl)\."):
            call()


def test_nodes_by_the_names_of_their_classes():
    assert int(tvm.ir.make_node("IntImm", dtype="int32", value=10, span=None)) == 10
    attrs = tvm.ir.make_node("DictAttrs", a=1)
    assert attrs["a"] == 1
    conv = tvm.ir.make_node("relay.attrs.Conv2DAttrs", strides=[2, 2])
    assert [int(s) for s in conv.strides] == [2, 2]
    with pytest.raises(ValueError, match="te.Tensor"):
        tvm.ir.make_node("te.Tensor", shape=[1])

    @tvm.register_func("test.script_doors.twice", override=True)
    def twice(x):
        return x * 2

    assert tvm.ir.EnvFunc.get("test.script_doors.twice")(4) == 8


def test_types_are_added_to_modules_by_their_names():
    mod, name, kind = tvm.IRModule(), relay.GlobalTypeVar("Box"), relay.TypeVar("a")
    box = relay.Constructor("box", [kind], name)
    mod[name] = relay.TypeData(name, [kind], [box])
    assert "box" in str(mod) and "Box[Tensor[(2), float32]]" in str(name(relay.TensorType((2,))))


def test_values_of_programs_step_by_step():
    from treadle.relay.testing import run_as_python, to_python

    assert int(run_as_python(relay.add(relay.const(1), relay.const(2))).numpy()) == 3
    with pytest.raises(tvm.UnsupportedOpError, match="run_as_python"):
        to_python(relay.const(1))


def test_parts_of_buffers_that_blocks_use():
    from treadle.script import tir as T

    @T.prim_func
    def scaled(a: T.handle, b: T.handle) -> None:
        A = T.match_buffer(a, (16, 16))
        B = T.match_buffer(b, (16, 16))
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vj, vi] * 2.0

    block = tir.Schedule(scaled).get(tir.Schedule(scaled).get_block("B"))
    reads, writes, opaque = tir.analysis.get_block_access_region(block)
    assert [r.buffer.name for r in reads] == ["A"] and [w.buffer.name for w in writes] == ["B"] and not list(opaque)
    places = {buffer.name: place for buffer, place in tir.analysis.detect_buffer_access_lca(scaled).items()}
    assert places["A"].name_hint == "B"
    a = te.placeholder((8,), name="a")
    c = te.compute((8,), lambda i: te.exp(a[i]), name="c")
    d = te.compute((8,), lambda i: c[i] + c[7 - i], name="d")
    func = tvm.lower(te.create_schedule(d.op), [a, d])["main"]
    assert tir.analysis.calculate_workspace_bytes(func, 1) == 32
    assert tir.analysis.calculate_workspace_bytes(func, 64) == 64


@pytest.mark.parametrize("target", ["llvm", "stackvm"])
def test_computations_of_one_element_are_scheduled_as_others(target):
    a, k = te.placeholder((8, 8), name="A"), te.reduce_axis((0, 8), "k")
    j = te.reduce_axis((0, 8), "j")
    total = te.compute((), lambda: te.sum(a[k, j], axis=[k, j]), name="total")
    twice = te.compute((), lambda: total() * 2.0, name="twice")
    s = te.create_schedule(twice.op)
    fused = s[twice].fuse(*twice.op.axis)
    assert repr(s[twice].relations) == "[Singleton(singleton)]"
    s[total].compute_at(s[twice], fused)
    s[total].fuse()
    value, out = np.random.default_rng(0).random((8, 8), "float32"), tvm.nd.empty(())
    tvm.build(s, [a, twice], target)(tvm.nd.array(value), out)
    np.testing.assert_allclose(out.numpy(), value.sum() * 2, rtol=1e-5)


def test_tagged_stages_are_inlined_together():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B", tag=tvm.topi.tag.ELEMWISE)
    c = te.compute((8,), lambda i: b[i] * 2.0, name="C", tag="elemwise")
    s = te.create_schedule(c.op)
    te.schedule.AutoInlineElemWise(s)
    assert s[b].attach_type == te.schedule.Stage.INLINE
    assert tvm.topi.tag.is_injective("elemwise") and not tvm.topi.tag.is_broadcast("comm_reduce")


def test_results_and_times_of_programs():
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x, y], relay.Tuple([x + y, relay.exp(x)])))
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
    one = np.ones(2, "float32")
    machine.invoke_stateful("main", one, one)
    np.testing.assert_array_equal(machine.get_outputs()[0].numpy(), [2, 2])
    assert machine.get_input_index("y") == 1 and machine.get_input_index("z") == -1
    times = machine.benchmark(tvm.cpu(), one, one, repeat=3, number=2)
    assert len(times.results) == 3 and times.min > 0
    with pytest.raises(TypeError, match="give arguments"):
        tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu()).benchmark(tvm.cpu())


def test_questions_of_importers():
    from treadle.relay.frontend import common

    x = common.new_var("x", shape=(2, relay.Any()))
    assert common.infer_shape(relay.var("w", shape=(8, 3, 5, 5))) == (8, 3, 5, 5)
    assert common.infer_shape(relay.exp(x))[0] == 2 and not isinstance(common.infer_shape(relay.exp(x))[1], int)
    assert common.infer_channels(relay.var("w", shape=(8, 3, 5, 5)), transpose=True) == 3
    y = relay.var("y", shape=(2,))
    value = common.infer_value(y + relay.const(1.0), {"y": np.ones(2, "float32")})
    np.testing.assert_array_equal(value.numpy(), [2, 2])
    assert common.get_relay_op("conv2d") is relay.nn.conv2d and common.get_relay_op("exp")(x).op.name == "exp"
    with pytest.raises(AttributeError, match="no operator nothing"):
        common.get_relay_op("nothing")
    with pytest.raises(tvm.ShapeError, match="expected a tensor"):
        common.infer_shape(relay.Tuple([x]))


def test_values_and_expressions_of_modules():
    from treadle.runtime.container import ADT, tuple_object

    pair = tuple_object([tvm.nd.array(np.ones(1)), tvm.nd.array(np.zeros(1))])
    assert isinstance(pair, ADT) and len(pair) == 2 and not isinstance(1, ADT)
    mod, x = tvm.IRModule(), relay.var("x", shape=(2,))
    mod["main"] = relay.exp(x)
    assert mod["main"].params[0].same_as(x)


class TestParametersOfClasses:
    size = tvm.testing.parameter(3, 5)

    def test_each(self, size):
        assert size in (3, 5)


first, second = tvm.testing.parameters((1, "one"), (2, "two"))


def test_parameters_change_together(first, second):
    assert {1: "one", 2: "two"}[first] == second


def test_one_of_several_parameters(second):
    assert second in ("one", "two")


def alter(mod, op, hook):
    with relay.testing.TempOpAttr(op, "FTVMAlterOpLayout", hook), tvm.transform.PassContext(opt_level=3):
        return relay.transform.AlterOpLayout()(relay.transform.InferType()(mod))


def test_layout_hooks_may_say_the_layout_alone():
    x, w = relay.var("x", shape=(1, 32, 8, 8)), relay.var("w", shape=(32, 32, 3, 3))
    conv = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1), channels=32, kernel_size=(3, 3)))
    again = relay.nn.conv2d(conv, w, padding=(1, 1), channels=32, kernel_size=(3, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], again))

    def blocked(attrs, inputs, tinfos, out_type):
        named = {key: getattr(attrs, key) for key in attrs.keys()}
        return relay.nn.conv2d(*inputs, **{**named, "data_layout": "NCHW16c", "kernel_layout": "OIHW16i"})

    altered = alter(mod, "nn.conv2d", blocked)
    text = altered.astext(False)
    assert text.count('src_layout="NCHW", dst_layout="NCHW16c"') == 1  # the second convolution reads the first one's
    assert text.count('src_layout="NCHW16c", dst_layout="NCHW"') == 1 and text.count('dst_layout="OIHW16i"') == 2
    values = [np.random.default_rng(i).standard_normal(shape).astype("float32")
              for i, shape in enumerate(((1, 32, 8, 8), (32, 32, 3, 3)))]
    got, expected = (relay.create_executor("debug", mod=m).evaluate()(*values).numpy() for m in (altered, mod))
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-2)

    def wrong(attrs, inputs, tinfos, out_type):
        return relay.nn.conv2d(*inputs, padding=(1, 1), channels=32, kernel_size=(3, 3), data_layout="NCDHW")

    with pytest.raises(tvm.Error, match="can't be brought to NCDHW"):
        alter(mod, "nn.conv2d", wrong)


def test_attributes_of_operators_for_passes_of_ones_own():
    tvm.ir.register_op_attr("nn.relu", "FScriptDoorsCost", 3)
    tvm.ir.register_op_attr("nn.relu", "FScriptDoorsCost", 1, level=5)  # below what is there

    @tvm.ir.register_op_attr("nn.relu", "FScriptDoorsRule")
    def rule(call):
        return "relu"

    relu = relay.op.get("nn.relu")
    assert relu.get_attr("FScriptDoorsCost") == 3 and relu.get_attr("FScriptDoorsRule") is rule
    assert relu.has_attr("FScriptDoorsRule") and not relay.op.get("exp").has_attr("FScriptDoorsRule")
    relu.reset_attr("FScriptDoorsRule")
    assert relu.get_attr("FScriptDoorsRule") is None
    with pytest.raises(tvm.Error, match="FTVMLegalise"):  # near a rule that there is
        tvm.ir.register_op_attr("nn.relu", "FTVMLegalise", lambda attrs, inputs, types: None)


def test_scripts_may_state_types_of_choices_and_buffers():
    from treadle.script import tir as T

    @T.prim_func
    def halves(a: T.handle, b: T.handle) -> None:
        A = T.match_buffer(a, (8,), dtype="float32", type="default")
        B = T.match_buffer(b, (8,))
        for i in T.serial(0, 8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = T.if_then_else(vi < 4, A[vi], T.float32(0), dtype="float32")

    out = tvm.nd.empty((8,))
    tvm.build(halves, target="llvm")(tvm.nd.array(np.ones(8, "float32")), out)
    np.testing.assert_array_equal(out.numpy(), [1] * 4 + [0] * 4)
    with pytest.raises(tvm.Error, match="auto_broadcast"):
        tvm.script.from_source('@T.prim_func\ndef f(a: T.handle) -> None:\n'
                               '    A = T.match_buffer(a, (8,), type="auto_broadcast")\n    T.evaluate(0)\n')
    choice = tir.if_then_else(te.var("x") < 1, 1, 2, dtype="float32")
    assert str(choice.dtype) == "float32"
