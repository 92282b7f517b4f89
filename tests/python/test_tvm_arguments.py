# SPDX-License-Identifier: Apache-2.0
"""Arguments and hooks under TVM's names have their effect, or are refused by name."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle as tvm
from treadle import relay, te
from treadle.contrib import cc, graph_executor


@pytest.fixture
def onnx_model():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    nodes = [helper.make_node("Relu", ["x"], ["t"]), helper.make_node("Exp", ["t"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_from_onnx_writes_the_renamed_model(onnx_model, tmp_path):
    path = tmp_path / "renamed.onnx"
    relay.frontend.from_onnx(onnx_model, export_node_renamed_model_path=str(path))
    assert [node.name for node in onnx.load(path).graph.node] == ["Relu_0", "Exp_1"]


def test_from_onnx_takes_another_opset(onnx_model):
    softmax = helper.make_node("Softmax", ["x"], ["y"])
    onnx_model.graph.ClearField("node")
    onnx_model.graph.node.append(softmax)
    old = relay.frontend.from_onnx(onnx_model, opset=11)[0]  # Softmax-11 flattens from axis 1
    new = relay.frontend.from_onnx(onnx_model)[0]
    assert not tvm.ir.structural_equal(old["main"], new["main"]) or "axis=1" in old.astext()


@pytest.mark.parametrize("arguments, message", [
    ({"dtype": {"x": "int8"}}, "input 'x' is float32 in the model, not int8"),
    ({"dtype": "nonsense"}, "there is no element type 'nonsense'"),
    ({"dtype": "int8"}, "no input of the model is int8; there are inputs of float32"),
    ({"dtype": {"z": "float32"}}, "the model has no input 'z'; its inputs are: x"),
    ({"convert_config": {"use_nt_batch_matmul": True}}, "unknown option 'use_nt_batch_matmul'"),
])
def test_from_onnx_refuses_what_has_no_effect(onnx_model, arguments, message):
    with pytest.raises(tvm.Error, match=message):
        relay.frontend.from_onnx(onnx_model, **arguments)


def small_module():
    x = relay.var("x", shape=(1, 4, 8, 8), dtype="float32")
    return tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))


def test_layout_hooks_have_four_arguments_and_are_asked_by_build():
    asked = []

    def hook(attrs, inputs, tinfos, out_type):
        asked.append((len(inputs), tuple(tinfos[0].shape), tuple(out_type.shape)))
        return relay.layout_transform(relay.exp(relay.layout_transform(inputs[0], "NCHW", "NHWC")), "NHWC", "NCHW")

    with relay.testing.TempOpAttr("exp", "FTVMAlterOpLayout", hook), tvm.transform.PassContext(opt_level=3):
        lib = relay.build(small_module(), "llvm")
    assert asked == [(1, (1, 4, 8, 8), (1, 4, 8, 8))]
    runner = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
    value = np.random.default_rng(0).standard_normal((1, 4, 8, 8)).astype("float32")
    runner.run(x=value)
    np.testing.assert_allclose(runner.get_output(0).numpy(), np.exp(value), rtol=1e-5)


@tvm.instrument.pass_instrument
class Counter:
    def __init__(self):
        self.passes = 0

    def run_before_pass(self, mod, info):
        self.passes += 1


def test_instruments_of_the_context_outside_of_with_stay():
    counter = Counter()
    tvm.transform.PassContext.current().override_instruments([counter])
    try:
        relay.transform.InferType()(small_module())
        assert counter.passes == 1
    finally:
        tvm.transform.PassContext.current().override_instruments([])
    relay.transform.InferType()(small_module())
    assert counter.passes == 1


def test_graph_plan_memory_takes_the_function_alone():
    mod = relay.transform.FuseOps(2)(relay.transform.InferType()(small_module()))
    plan = tvm.get_global_func("relay.backend.GraphPlanMemory")(relay.transform.InferType()(mod)["main"])
    assert len(plan) > 0


def test_the_last_annotation_of_an_axis_wins():
    a = te.placeholder((16, 8), name="a")
    b = te.compute((16, 8), lambda i, j: a[i, j] + 1, name="b")
    s = te.create_schedule(b.op)
    s[b].vectorize(b.op.axis[1])
    s[b].unroll(b.op.axis[1])
    text = str(tvm.lower(s, [a, b], simple_mode=True))
    assert "ramp" not in text and "*8) + 7)" in text
    sch = tvm.tir.Schedule(te.create_prim_func([a, b]))
    i, j = sch.get_loops(sch.get_block("b"))
    sch.parallel(i)
    sch.unroll(i)
    assert "unroll" in str(sch.mod)


def test_export_library_links_with_the_compiler_that_is_asked_for(tmp_path):
    lib = relay.build(small_module(), "llvm")
    seen = []

    def link(output, objects, **options):
        seen.append((output, len(objects), options))
        cc.create_shared(output, objects, **options)

    path = str(tmp_path / "m.so")
    lib.export_library(path, fcompile=link, workspace_dir=str(tmp_path / "objects"), options=["-s"])
    assert seen[0][0] == path and seen[0][1] >= 2 and seen[0][2] == {"options": ["-s"]}
    module = tvm.runtime.load_module(path)
    runner = tvm.contrib.graph_executor.GraphModule(module["default"](tvm.cpu()))
    value = np.ones((1, 4, 8, 8), "float32")
    runner.run(x=value)
    np.testing.assert_allclose(runner.get_output(0).numpy(), np.exp(value), rtol=1e-5)
    with pytest.raises(tvm.Error, match="no-such-compiler"):
        lib.export_library(path, cc="no-such-compiler")


def test_bind_params_by_name():
    x, w = relay.var("x", shape=(2,)), relay.var("w", shape=(2,))
    func = relay.Function([x, w], x + w)
    bound = relay.build_module.bind_params_by_name(func, {"w": np.ones(2, "float32")})
    assert [var.name_hint for var in bound.params] == ["x"]
    with pytest.warns(UserWarning, match="the function has no parameters v: 1 of params aren't used"):
        same = relay.build_module.bind_params_by_name(func, {"v": np.ones(2, "float32")})
    assert [var.name_hint for var in same.params] == ["x", "w"]


def test_libraries_of_the_target_take_parts_of_the_model():
    if "dnnl" not in relay.external.list_codegens():
        pytest.skip("this build has no oneDNN")
    x, y = relay.var("x", shape=(4, 8)), relay.var("y", shape=(6, 8))
    mod = tvm.IRModule.from_expr(relay.Function([x, y], relay.nn.dense(x, y)))
    assert "1 regions" in relay.build(mod, "llvm -libs=mkldnn").get_source("partition")
    assert relay.build(mod, "llvm").get_source("partition") == ""
    with pytest.raises(tvm.TargetError, match="unknown external code generator 'mkl'"):
        relay.build(mod, "llvm -libs=mkl")


@pytest.mark.parametrize("target", ["llvm -runtime=c", "llvm -executor=aot"])
def test_options_of_targets_without_effect_are_refused(target):
    with pytest.raises(tvm.TargetError, match="expected"):
        tvm.target.Target(target)


def test_the_graph_executor_that_is_asked_for_refuses_control_flow_when_building():
    x, c = relay.var("x", shape=(2,)), relay.var("c", shape=(), dtype="bool")
    mod = tvm.IRModule.from_expr(relay.Function([x, c], relay.If(c, x, x + x)))
    for executor in ("graph", relay.backend.Executor("graph")):
        with pytest.raises(tvm.Error, match="it holds a relay.If"):
            relay.build(mod, "llvm", executor=executor)
    with pytest.raises(tvm.Error, match="it holds a relay.If"):
        relay.build(mod, "llvm -executor=graph")
    relay.build(mod, "llvm")


def test_the_run_time_takes_system_lib():
    run_time = relay.backend.Runtime("cpp", {"system-lib": True})
    x = relay.var("x", shape=(3,))
    lib = relay.build(relay.Function([x], x + x), "llvm", runtime=run_time)
    with pytest.raises(ValueError, match="system-lib"):
        relay.backend.Runtime("cpp", {"aot": True})
    with pytest.raises(ValueError, match="there is 'cpp'"):
        relay.backend.Runtime("crt")


def test_targets_as_json():
    target = tvm.target.Target('{"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}')
    assert (str(target.kind), target.mcpu, target.attrs["num-cores"]) == ("llvm", "x86-64-v3", "2")
    with pytest.raises(tvm.TargetError, match="given as JSON"):
        tvm.target.Target('{"kind": ')


def test_concatenations_of_many_tensors_are_split():
    parts = [relay.var(f"x{i}", shape=(2, 1 + i % 3)) for i in range(70)]
    mod = tvm.IRModule.from_expr(relay.Function(parts, relay.exp(relay.concatenate(parts, -1))))
    split = relay.transform.SplitArgs(32)(mod)
    calls = []
    relay.analysis.post_order_visit(split["main"].body, lambda e: calls.append(e) if isinstance(e, relay.Tuple) else None)
    assert sorted(len(call.fields) for call in calls) == [3, 6, 32, 32]
    lib = relay.build(mod, "llvm")
    values = {f"x{i}": np.random.default_rng(i).random((2, 1 + i % 3)).astype("float32") for i in range(70)}
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(**values)
    expected = np.exp(np.concatenate(list(values.values()), -1))
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-5)
    with pytest.raises(tvm.Error, match="at least 2"):
        relay.transform.SplitArgs(1)


def test_wrong_arguments_are_named_once():
    a = te.placeholder((8,), name="A")
    c = te.compute((8,), lambda i: a[i] + 1, name="C")
    function = tvm.build(te.create_schedule(c.op), [a, c], name="ff")
    with pytest.raises(tvm.Error) as error:
        function(tvm.nd.array(np.zeros(3, "float32")), tvm.nd.array(np.zeros(8, "float32")))
    assert str(error.value).startswith("ff: arg0.shape[0] is expected to equal 8")


def test_numbers_that_differ_by_rounding_are_equal():
    def norm(epsilon):
        x = relay.var("x", shape=(1, 2, 3, 3))
        return relay.nn.batch_norm(x, *(relay.var(name, shape=(2,)) for name in "gbmv"), epsilon=epsilon)[0]

    near = norm(float(np.float32(1e-5)))
    assert tvm.ir.structural_equal(norm(1e-5), near, map_free_vars=True)
    assert not tvm.ir.structural_equal(norm(1e-5), near, map_free_vars=True, tolerance=0)
    assert not tvm.ir.structural_equal(norm(1e-5), norm(1e-4), map_free_vars=True)
    tvm.ir.assert_structural_equal(norm(1e-5), near, map_free_vars=True)
