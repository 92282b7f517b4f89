# SPDX-License-Identifier: Apache-2.0
"""Rows 13 to 20: from a graph to a library. See conftest.py."""
import json
import os
import pathlib
import re
import subprocess
import sys

import memory_plans
import numpy as np
import onnx
import pytest

import treadle as tvm
from treadle import relay, te
from treadle.contrib import graph_executor

BIN = pathlib.Path(tvm.__file__).parent / "bin" / "treadle"


def small_network():
    """conv2d, bias_add, relu twice, with constants; (module, input, result)."""
    rng = np.random.default_rng(0)
    data = relay.var("data", shape=(1, 8, 16, 16))
    value = data
    for _ in range(2):
        weight = relay.const(rng.standard_normal((8, 8, 3, 3)).astype("float32"))
        value = relay.nn.conv2d(value, weight, padding=(1, 1), channels=8, kernel_size=(3, 3))
        value = relay.nn.relu(relay.nn.bias_add(value, relay.const(rng.standard_normal(8).astype("float32"))))
    mod = tvm.IRModule.from_expr(relay.Function([data], value))
    image = rng.standard_normal((1, 8, 16, 16)).astype("float32")
    return mod, image, relay.create_executor("debug", mod=mod).evaluate()(image).numpy()


def run(lib, **values):
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(**values)
    return module.get_output(0).numpy()


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_row_13_memory_plan(row):
    """GraphPlanMemory: what is stored where."""
    x = relay.var("x", shape=(64, 64))
    chain = x
    for _ in range(6):
        chain = relay.annotation.stop_fusion(relay.exp(chain))
    with tvm.transform.PassContext(opt_level=3):
        mod = relay.transform.InferType()(relay.transform.FuseOps()(relay.transform.InferType()(
            tvm.IRModule.from_expr(relay.Function([x], chain)))))
    info = tvm.get_global_func("relay.backend.GraphPlanMemory")(mod["main"])
    storage = [list(map(int, info[e].storage_ids)) for e in info.keys()]
    assert len(storage) >= 7 and len({i for ids in storage for i in ids}) <= 4
    row.works("seven values in a row share storage")
    mod, image, expected = small_network()
    lib = relay.build(mod, "llvm")
    close(run(lib, data=image), expected)
    assert "bytes" in lib.get_memory_report()
    for name, shape in (("mobilenet", (3, 64, 64)), ("squeezenet", (3, 64, 64)), ("mlp", None)):
        kind = getattr(relay.testing, name)
        network, params = kind.get_workload(**({"image_shape": shape} if shape else {}))
        main = relay.optimize(network, "llvm", params)[0]["main"]
        codegen = tvm.get_global_func("relay.build_module._GraphExecutorCodegen")()
        codegen["init"](None, "llvm")
        (original, _), (own, bound) = (memory_plans.peak(codegen, main, planner) for planner in ("relay", "arena"))
        assert 0 < own <= original and own <= 1.25 * bound, name
    row.better("the report of a build says what is stored where; results stay right where operators work in place; on "
               "MobileNet, SqueezeNet and an MLP the default plan is no larger than the original's")


def test_row_14_graph_json(row):
    """The executor's graph as JSON."""
    mod, _, _ = small_network()
    lib = relay.build(mod, "llvm")
    graph = json.loads(lib.get_graph_json())
    assert {"nodes", "arg_nodes", "heads", "attrs", "node_row_ptr"} <= set(graph)
    entries = graph["node_row_ptr"][-1]
    assert all(len(graph["attrs"][key][1]) == entries for key in ("storage_id", "shape", "dltype"))
    assert [graph["nodes"][i]["op"] for i in graph["arg_nodes"]] == ["null"] * len(graph["arg_nodes"])
    row.works("the five parts, and attributes for every entry")
    names = [node["name"] for node in graph["nodes"]]
    assert len(names) == len(set(names)) and lib.get_graph_json() == relay.build(mod, "llvm").get_graph_json()
    weight = relay.var("layer1.weight", shape=(6, 4))
    x = relay.var("x", shape=(2, 4))
    named = relay.build(relay.Function([x, weight], relay.nn.dense(x, weight)), "llvm",
                        params={"layer1.weight": np.ones((6, 4), "float32")})
    assert named.param_names == {"p0": "layer1.weight"} and list(named.params) == ["p0"]
    row.better("names are unique, two builds give the same text, and the model's names of parameters are in it, also of "
               "those that were brought into another layout")


def test_row_15_codegen_module(row):
    """GraphExecutorCodegen as a module."""
    mod, _, _ = small_network()
    optimized, _ = relay.optimize(mod, "llvm")
    codegen = tvm.get_global_func("relay.build_module._GraphExecutorCodegen")()
    codegen["init"](None, {1: tvm.target.Target("llvm")})
    codegen["codegen"](optimized["main"])
    names = list(codegen["list_params_name"]())
    assert names and codegen["get_param_by_name"](names[0]).shape and codegen["get_param_id"](names[0]) >= 0
    assert json.loads(codegen["get_graph_json"]())["heads"] and len(codegen["get_irmodule"]()) == 1
    row.works("init, codegen, get_graph_json, list_params_name, get_param_by_name, get_param_id, get_irmodule")
    with pytest.raises(AttributeError):
        codegen["no_such_function"]
    row.better("a function that isn't there is an error when it is looked up")


def test_row_16_cache(row, tmp_path, monkeypatch):
    """The cache of kernels."""
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    engine = relay.backend.compile_engine
    first, second = (engine.CCacheKey(relay.Function([v], relay.exp(v)), "llvm") for v in (x, y))
    assert engine.get().lower(first).same_as(engine.get().lower(second))
    assert not engine.get().lower(first).same_as(engine.get().lower(engine.CCacheKey(first.source_func, "llvm -opt-level=1")))
    row.works("equal functions for equal targets are lowered once; another target is another entry")
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    mod, image, expected = small_network()
    counts = [relay.build(mod, "llvm").kernel_counts for _ in range(2)]
    assert counts[0][1] == 0 and counts[1][1] == counts[1][0] > 0
    row.better("kernels are kept on disk: a second build compiles none")


def test_row_17_strategy(row):
    """The choice among implementations, and the hook of lowering."""
    x = relay.var("x", shape=(4, 8))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    zeros = np.zeros((4, 8), "float32")

    @relay.op.register_strategy("exp", level=11)
    def strategy(attrs, inputs, out_type, target):
        made = relay.op.OpStrategy()
        made.add_implementation(lambda a, i, o: [te.compute(i[0].shape, lambda *at: te.exp(i[0](*at)) + 7.0)], None,
                                name="exp.seven", plevel=12)
        return made

    calls = []
    try:
        np.testing.assert_array_equal(run(relay.build(mod, "llvm"), x=zeros), np.full((4, 8), 8, "float32"))
        assert "* exp.seven, level 12" in relay.backend.compile_engine.explain(mod["main"], "llvm")
        relay.op.remove_strategy("exp")

        @tvm.register_func("relay.backend.lower", override=True)
        def lower(schedule, args, name, source_func):
            calls.append(name)
            return tvm.lower(schedule, args, name)

        run(relay.build(mod, "llvm"), x=zeros)
    finally:
        relay.op.remove_strategy("exp")
        tvm._ffi.remove_global_func("relay.backend.lower")
    assert len(calls) == 1
    row.works("the implementation of the highest level, and a user's lowering, make the kernel")
    text = relay.backend.compile_engine.explain(mod["main"], "llvm")
    assert "exp.generic" in text
    chosen = []
    for side in (1, 3):
        weight = onnx.numpy_helper.from_array(np.ones((64, 64, side, side), "float32"), "w")
        value = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 64, 28, 28]) for n in "xy"]
        conv = onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[side // 2] * 4)
        graph = onnx.helper.make_graph([conv], "g", value[:1], value[1:], [weight])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        text = tvm.compile(model, target="llvm -mcpu=x86-64-v3").explain()
        rows = re.findall(r"# +(\*?) ?(conv2d\.\w+): (\d+) cycles", text)
        assert len(rows) >= 2 and "conv2d.depthwise: not one channel in each group" in text
        best = min(rows, key=lambda r: int(r[2]))
        assert best[0] == "*", rows
        chosen.append(best[1])
    assert chosen == ["conv2d.direct", "conv2d.winograd"]
    row.better("each choice says what was there, at what cost or why not; the kernel of the least modelled cost is taken, "
               "for 1 x 1 another than for 3 x 3")


def test_row_18_hosts_and_empty_modules(row):
    """Hosts, linked parameters and modules without kernels."""
    x = relay.var("x", shape=(2, 3))
    value = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(run(relay.build(relay.Function([x], x), "llvm"), x=value), value)
    mod, image, expected = small_network()
    linked = relay.build(mod, "llvm", executor=relay.backend.Executor("graph", {"link-params": True}))
    module = graph_executor.create(linked.get_graph_json(), linked.get_lib(), tvm.cpu())
    module.run(data=image)
    close(module.get_output(0).numpy(), expected)
    with pytest.raises(tvm.Error, match="host"):
        tvm.target.Target(tvm.target.Target("opencl", host="llvm"), host="c")
    row.works("the identity runs; linked parameters need no loading; two hosts are refused")
    close(run(relay.build(relay.Function([x], relay.exp(x)), "stackvm"), x=value), np.exp(value))
    close(run(relay.build(relay.Function([x], relay.exp(x)), "c"), x=value), np.exp(value))
    row.better("models run without LLVM, on the interpreter or from C, in float32")


def test_row_19_external_functions(row, capfd):
    """Functions of external code generators, with constants."""
    x = relay.var("x", shape=(3, 4))
    constant = np.random.default_rng(0).random((3, 4), "float32")
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp((x + relay.const(constant)) * x)))
    lib = relay.build(mod, "llvm", external=["ccompiler"])
    value = np.random.default_rng(1).random((3, 4), "float32")
    close(run(lib, x=value), np.exp((value + constant) * value))
    assert len(lib.get_external_modules()) == 1
    row.works("a region with a constant is compiled outside and called")
    assert capfd.readouterr().out == "" and not any("const" in name for name in lib.get_params())
    row.better("nothing is printed, and the constant isn't among the parameters")
    regions = []
    for kind in ("ccompiler", "examplejsoncompiler"):
        inner = relay.var("i", shape=(3, 4))
        region = relay.Function([inner], inner + inner)
        for key, each in {"Primitive": 1, "Compiler": kind, "global_symbol": "same"}.items():
            region = region.with_attr(key, each)
        regions.append(region)
    twice = relay.Call(regions[1], [relay.Call(regions[0], [x])])
    with pytest.raises(tvm.Error, match='two external functions are called "same" .for ccompiler and examplejsoncompiler'):
        relay.build(tvm.IRModule.from_expr(relay.Function([x], twice)), "llvm")
    assert lib.get_source("partition") == relay.build(mod, "llvm", external=["ccompiler"]).get_source("partition")
    row.better("a symbol that two regions want is an error that names both; two builds partition alike")


def test_row_20_export(row, tmp_path):
    """One library."""
    mod, image, expected = small_network()
    path = tmp_path / "m.so"
    relay.build(mod, "llvm").export_library(path)
    close(run(tvm.runtime.load_module(path), data=image), expected)
    script = ("import sys, numpy as np, treadle; r = treadle.load(sys.argv[1])(data=np.load(sys.argv[2])); "
              "np.save(sys.argv[3], list(r.values())[0] if isinstance(r, dict) else r[0] if isinstance(r, (list, tuple)) "
              "else r)")
    np.save(tmp_path / "in.npy", image)
    env = dict(os.environ, PYTHONPATH=str(pathlib.Path(tvm.__file__).parents[1]))
    subprocess.run([sys.executable, "-c", script, path, tmp_path / "in.npy", tmp_path / "out.npy"], check=True, env=env)
    close(np.load(tmp_path / "out.npy"), expected)
    row.works("a library gives the same results after loading, in this process and in another")
    shown = subprocess.run([BIN, "inspect", path, "--memory"], check=True, capture_output=True, text=True).stdout
    assert "input        data float32 [1,8,16,16]" in shown and "modules" in shown and "constant     p0 float32" in shown
    broken = tmp_path / "broken.so"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    broken.write_bytes(content)
    with pytest.raises(tvm.Error):
        tvm.runtime.load_module(broken)
    row.better("one file holds kernels, graph and weights; inspect prints the tree of modules and each constant; one other bit is refused")
