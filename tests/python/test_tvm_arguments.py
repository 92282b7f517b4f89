# SPDX-License-Identifier: Apache-2.0
"""Arguments and hooks under TVM's names have their effect, or are refused by name."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle as tvm
from treadle import relay, te
from treadle.contrib import cc


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
    ({"dtype": {"z": "float32"}}, "the model has no input 'z'; it has: x"),
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
    with pytest.raises(tvm.Error, match="no parameter 'v'; it has: x, w"):
        relay.build_module.bind_params_by_name(func, {"v": np.ones(2, "float32")})
