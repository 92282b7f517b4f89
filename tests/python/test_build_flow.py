# SPDX-License-Identifier: Apache-2.0
"""The build flow from Python: TVM's scripts, its parts one by one, memory, devices, modules, the cache."""
import json
import os
import re
import subprocess
import sys
import tarfile
import threading

import numpy as np
import pytest

import treadle as tvm
from treadle import relay
from treadle.contrib import graph_executor
from treadle.contrib.debugger import debug_executor
from treadle.relay import testing


def run(lib, device=None, **inputs):
    module = graph_executor.GraphModule(lib["default"](device or tvm.cpu()))
    module.set_input(**inputs)
    module.run()
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


@pytest.fixture(scope="module")
def mlp():
    return testing.mlp.get_workload(batch_size=1)


@pytest.fixture(scope="module")
def image():
    return np.random.default_rng(0).random((1, 1, 28, 28), dtype="float32")


@pytest.fixture(scope="module")
def built(mlp):
    mod, params = mlp
    with tvm.transform.PassContext(opt_level=3):
        return relay.build(mod, target="llvm", params=params)


def chain(*ops, shape=(4, 8)):
    """A module of one parameter and operators applied one after the other."""
    x = value = relay.var("x", shape=shape)
    for op in ops:
        value = op(value)
    return tvm.IRModule.from_expr(relay.Function([x], value))


# Scripts.


def test_generated_code_of_a_network_is_shown(capsys):
    mod, params = testing.mlp.get_workload()
    with relay.build_config(opt_level=0):
        graph, lib, params = relay.build_module.build(mod, "llvm", params=params)
    print(mod.astext(show_meta_data=False))
    print(lib.get_source())
    assert "nn.dense" in capsys.readouterr().out
    assert json.loads(graph)["nodes"][0]["name"] == "data"


def test_model_in_three_files_is_deployed(tmp_path, mlp, image):
    mod, params = mlp
    target = tvm.target.Target(target="llvm", host="llvm")
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target=target, params=params)
    lib.get_lib().export_library(str(tmp_path / "mod.so"))
    with open(tmp_path / "mod.params", "wb") as param_file:
        param_file.write(relay.save_param_dict(lib.get_params()))
    with open(tmp_path / "mod.json", "w") as json_file:
        json_file.write(lib.get_executor_config())
    dev = tvm.device(str(target), 0)
    expected = run(lib, dev, data=image)[0]
    loaded = tvm.runtime.load_module(str(tmp_path / "mod.so"))
    module = graph_executor.create((tmp_path / "mod.json").read_text(), loaded, dev)
    module.load_params((tmp_path / "mod.params").read_bytes())
    module.run(data=image)
    np.testing.assert_array_equal(module.get_output(0, tvm.nd.empty((1, 10))).numpy(), expected)
    assert os.path.getsize(tmp_path / "mod.so") < os.path.getsize(tmp_path / "mod.params")


def test_functions_are_modules(image):
    x = relay.var("x", shape=(2, 3))
    lib = relay.build(tvm.IRModule.from_expr(x + x), target="llvm")
    np.testing.assert_array_equal(run(lib, x=np.ones((2, 3), "float32"))[0], np.full((2, 3), 2, "float32"))


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v2", "stackvm", "c"])
def test_targets_agree(target, mlp, image, built):
    mod, params = mlp
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target=target, params=params)
    np.testing.assert_allclose(run(lib, data=image)[0], run(built, data=image)[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("target", [{"cpu": "llvm"}, {tvm.cpu(): "llvm"}, {1: tvm.target.Target("llvm")}, ["llvm"]])
def test_targets_by_device(target, image, mlp):
    mod, params = mlp
    assert len(run(relay.build(mod, target=target, params=params), data=image)) == 1


def test_host_of_its_own_is_part_of_the_target():
    lib = relay.build(chain(relay.exp), target="stackvm", target_host="llvm")
    assert "exp" in lib.get_source()
    with pytest.raises(tvm.TargetError, match="host"):
        relay.build(chain(relay.exp), target="llvm -host='llvm -mcpu=x86-64'", target_host="llvm -mcpu=x86-64-v3")


def test_module_without_kernels():
    x = relay.var("x", shape=(2, 3))
    module = tvm.IRModule.from_expr(relay.Function([x], x))
    lib = relay.build(module, target="llvm")
    graph = json.loads(lib.get_graph_json())
    assert [node["op"] for node in graph["nodes"]] == ["null"]
    assert graph["heads"] == [[0, 0, 0]]
    assert "empty_module" in lib.get_lib().get_source()
    value = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(run(lib, x=value)[0], value)
    assert relay.build(module, target="stackvm").get_lib().get_source() == ";"


def test_module_name_is_part_of_symbols():
    lib = relay.build(chain(relay.exp), target="llvm", mod_name="my_net")
    assert "treadle_my_net_fused_exp" in lib.get_graph_json()
    module = graph_executor.GraphModule(lib["my_net"](tvm.cpu()))
    module.run(x=np.zeros((4, 8), "float32"))


# The graph.


def test_equal_kernels_are_shared_and_constants_renamed():
    x = relay.var("x", shape=(1, 8, 8, 8))
    weights = [relay.var(f"w{i}", shape=(8, 8, 3, 3)) for i in range(2)]
    value = x
    for weight in weights:
        value = relay.nn.relu(relay.nn.conv2d(value, weight, padding=(1, 1), channels=8, kernel_size=(3, 3)))
    rng = np.random.default_rng(0)
    params = {f"w{i}": rng.random((8, 8, 3, 3), dtype="float32") for i in range(2)}
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["PlanLayout"]):
        lib = relay.build(tvm.IRModule.from_expr(relay.Function([x, *weights], value)), target="llvm", params=params)
    nodes = json.loads(lib.get_graph_json())["nodes"]
    kernel = "treadle_default_fused_nn_conv2d_nn_relu"
    assert [node["name"] for node in nodes] == ["x", "p0", kernel, "p1", kernel + "1"]
    assert {node["attrs"]["func_name"] for node in nodes if node["op"] == "tvm_op"} == {kernel}
    assert set(lib.get_params()) == {"p0", "p1"}
    assert lib.kernel_counts[0] == 1


def test_reshapes_are_nops():
    x = relay.var("x", shape=(10, 4))
    a = relay.expand_dims(relay.cumsum(x, axis=0), axis=0)
    z0 = relay.reshape(relay.reshape(a, (2, 20)), (40,))
    b = relay.cumsum(a, axis=1)
    out = relay.Tuple([z0, relay.cumsum(b, axis=2), relay.reshape(b, (40,))])
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([x], out)), target="llvm")
    names = [node["attrs"]["func_name"] for node in json.loads(lib.get_graph_json())["nodes"] if node["op"] == "tvm_op"]
    assert names.count("__nop") >= 2
    value = np.random.default_rng(0).random((10, 4), dtype="float32")
    results = run(lib, x=value)
    np.testing.assert_allclose(results[0], value.cumsum(0).reshape(40), rtol=1e-5)


# The parts of the flow.


def test_codegen_module_has_the_functions_of_the_original(mlp):
    mod, params = mlp
    optimized, _ = relay.optimize(mod, "llvm", params)
    codegen = tvm.get_global_func("relay.build_module._GraphExecutorCodegen")()
    assert codegen.type_key == "RelayGraphExecutorCodegenModule"
    with pytest.raises(tvm.Error, match="init"):
        codegen["codegen"](optimized["main"])
    codegen["init"](None, {1: tvm.target.Target("llvm")})
    with pytest.raises(tvm.Error, match="codegen"):
        codegen["get_graph_json"]()
    codegen["codegen"](optimized["main"])
    graph = json.loads(codegen["get_graph_json"]())
    names = list(codegen["list_params_name"]())
    assert set(names) == {node["name"] for node in graph["nodes"] if node["name"].startswith("p")}
    storage = graph["attrs"]["storage_id"][1]
    for name in names:
        node = [node["name"] for node in graph["nodes"]].index(name)
        assert codegen["get_param_id"](name) == storage[graph["node_row_ptr"][node]]
        assert codegen["get_param_by_name"](name).shape
    (functions,) = dict(codegen["get_irmodule"]().items()).values()
    assert len(functions.functions) > 1
    assert list(codegen["get_external_modules"]()) == []
    metadata = dict(codegen["get_function_metadata"]().items())
    assert "__tvm_main__" in metadata
    assert all(int(size) >= 0 for info in metadata.values() for size in dict(info.io_sizes.items()).values())
    with pytest.raises(AttributeError):
        codegen["no_such_function"]


def test_codegen_class(mlp):
    mod, params = mlp
    optimized, _ = relay.optimize(mod, "llvm", params)
    codegen = relay.backend.graph_executor_codegen.GraphExecutorCodegen(None, {1: tvm.target.Target("llvm")})
    graph, functions, constants = codegen.codegen(optimized["main"])
    assert json.loads(graph)["heads"]
    assert functions and constants


def test_operators_that_were_not_fused_are_refused():
    codegen = relay.backend.graph_executor_codegen.GraphExecutorCodegen(None, {1: tvm.target.Target("llvm")})
    with pytest.raises(tvm.Error, match="fuse"):
        codegen.codegen(relay.transform.InferType()(chain(relay.exp))["main"])


def test_build_module_in_steps(mlp, image, built):
    mod, params = mlp
    builder = relay.build_module.BuildModule()
    graph, lib, constants = builder.build(mod, "llvm", params=params)
    module = graph_executor.create(graph, lib, tvm.cpu())
    module.load_params(relay.save_param_dict(constants))
    module.run(data=image)
    np.testing.assert_allclose(module.get_output(0).numpy(), run(built, data=image)[0], rtol=1e-5)
    assert "__tvm_main__" in builder.get_function_metadata()


# The compile engine.


def test_equal_functions_are_lowered_once():
    engine = relay.backend.compile_engine.get()
    engine.clear()

    def function(name):
        x = relay.var(name, shape=(4, 4))
        func = relay.Function([x], relay.exp(relay.sqrt(x)))
        return func.with_attr("Primitive", 1)

    first, second = engine.lower(function("x"), "llvm"), engine.lower(function("other"), "llvm")
    assert first.same_as(second)
    assert engine.lower(function("x"), "llvm -mcpu=x86-64-v2").target != first.target
    (key, value), _ = engine.items()
    assert value.use_count == 2
    assert len(first.inputs) == len(first.outputs) == 1
    compiled = engine.jit(function("x"), "llvm")
    out = tvm.nd.empty((4, 4))
    compiled(tvm.nd.array(np.full((4, 4), 4.0, "float32")), out)
    np.testing.assert_allclose(out.numpy(), np.full((4, 4), np.exp(2.0)), rtol=1e-6)
    assert "use_count=3" in engine.dump()
    engine.clear()
    assert engine.items() == []


def test_users_may_lower_themselves():
    calls = []

    @tvm.register_func("relay.backend.lower", override=True)
    def lower(schedule, args, name, source_func):
        calls.append((name, len(args), type(source_func).__name__))
        return tvm.lower(schedule, args, name)

    try:
        lib = relay.build(chain(relay.exp, relay.sqrt), target="llvm")
    finally:
        tvm._ffi.remove_global_func("relay.backend.lower")
    assert calls == [("treadle_default_fused_exp_sqrt", 2, "Function")]
    value = np.ones((4, 8), "float32")
    np.testing.assert_allclose(run(lib, x=value)[0], np.sqrt(np.exp(value)), rtol=1e-6)


def test_users_may_add_implementations():
    te = tvm.te
    add = tvm.get_global_func("relay.backend.AddImplementation")

    def shifted(attrs, inputs, out_type):
        return te.compute(inputs[0].shape, lambda *i: inputs[0](*i) + 100.0, name="shifted")

    def only_wide(attrs, inputs, out_type, target):
        return None if int(inputs[0].shape[1]) > 4 else "needs more than 4 columns"

    add("exp", "exp.shifted", 20, only_wide, shifted)
    try:
        wide, narrow = (run(relay.build(chain(relay.exp, shape=shape), target="llvm"), x=np.zeros(shape, "float32"))[0]
                        for shape in ((2, 8), (2, 4)))
        x = relay.var("x", shape=(2, 4))
        text = relay.backend.compile_engine.explain(relay.Function([x], relay.exp(x)), "llvm")
    finally:
        tvm.get_global_func("relay.backend.RemoveImplementation")("exp", "exp.shifted")
    np.testing.assert_array_equal(wide, np.full((2, 8), 100, "float32"))
    np.testing.assert_array_equal(narrow, np.ones((2, 4), "float32"))
    assert "exp.shifted, level 20: needs more than 4 columns" in text
    assert "* exp.generic, level 10" in text


def test_added_implementations_compete_with_kernels():
    """A product that a kernel packs otherwise: the graph and the loops make one choice."""
    te = tvm.te

    def doubled(attrs, inputs, out_type):
        k = te.reduce_axis((0, inputs[0].shape[1]), name="k")
        return te.compute((inputs[0].shape[0], inputs[1].shape[0]),
                          lambda i, j: te.sum(2.0 * inputs[0][i, k] * inputs[1][j, k], axis=k), name="doubled")

    def few_rows(attrs, inputs, out_type, target):
        return None if int(inputs[0].shape[0]) < 8 else "8 rows and more"

    x, w = np.random.RandomState(0).randn(4, 32).astype("float32"), np.random.RandomState(1).randn(16, 32).astype("float32")

    def product(rows):
        value = np.resize(x, (rows, 32))
        data = relay.var("x", shape=(rows, 32))
        mod = tvm.IRModule.from_expr(relay.Function([data], relay.nn.dense(data, relay.const(w))))
        with tvm.transform.PassContext(opt_level=3):
            return run(relay.build(mod, target="llvm"), x=value)[0], value @ w.T

    tvm.get_global_func("relay.backend.AddImplementation")("nn.dense", "dense.doubled", 15, few_rows, doubled)
    try:
        (mine, expected), (packed, plain) = product(4), product(8)
    finally:
        assert tvm.get_global_func("relay.backend.RemoveImplementation")("nn.dense", "dense.doubled")
    np.testing.assert_allclose(mine, 2 * expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(packed, plain, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(product(4)[0], expected, rtol=1e-4, atol=1e-4)


def test_kernels_are_cached_on_disk(tmp_path, monkeypatch, mlp, image):
    mod, params = mlp
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path / "cache"))
    with tvm.transform.PassContext(opt_level=3):
        first = relay.build(mod, target="llvm", params=params)
        second = relay.build(mod, target="llvm", params=params)
        other = relay.build(mod, target="llvm -mcpu=x86-64-v2", params=params)
    assert first.kernel_counts[1] == 0
    assert second.kernel_counts[1] == second.kernel_counts[0] > 0
    assert other.kernel_counts[1] == 0
    np.testing.assert_array_equal(run(first, data=image)[0], run(second, data=image)[0])
    for entry in (tmp_path / "cache/kernels").iterdir():  # damaged entries are compiled anew
        entry.write_bytes(entry.read_bytes()[:-1] + b"#")
    with tvm.transform.PassContext(opt_level=3):
        third = relay.build(mod, target="llvm", params=params)
    assert third.kernel_counts[1] == 0
    np.testing.assert_array_equal(run(first, data=image)[0], run(third, data=image)[0])
    monkeypatch.setenv("TREADLE_CACHE", "0")
    with tvm.transform.PassContext(opt_level=3):
        assert relay.build(mod, target="llvm", params=params).kernel_counts[1] == 0


# Memory.


def planned(lib, planner=None):
    return lib.get_memory_report()


def test_memory_report_and_planners(mlp, image):
    mod, params = mlp
    results = {}
    for planner in ("arena", "relay"):
        with tvm.transform.PassContext(opt_level=3, config={"relay.memory_planner": planner}):
            lib = relay.build(mod, target="llvm", params=params)
        results[planner] = run(lib, data=image)[0]
        assert "activations (peak):" in lib.get_memory_report()
        assert ("storage_offset" in json.loads(lib.get_graph_json())["attrs"]) == (planner == "arena")
    np.testing.assert_array_equal(results["arena"], results["relay"])
    with pytest.raises(tvm.Error, match="relay.memory_planner"):
        with tvm.transform.PassContext(config={"relay.memory_planner": "none"}):
            relay.build(mod, target="llvm", params=params)


def test_joins_in_place_give_the_same_results():
    x = relay.var("x", shape=(1, 16, 16))
    a = relay.nn.batch_matmul(x, x)
    b = relay.nn.batch_matmul(a, a)
    joined = relay.concatenate([a, b], axis=1)
    parts = relay.split(relay.nn.batch_matmul(joined, joined), 2, axis=1)
    out = relay.nn.batch_matmul(parts[0], parts[1])
    module = tvm.IRModule.from_expr(relay.Function([x], out))
    libs = {}
    for planner in ("arena", "relay"):
        with tvm.transform.PassContext(opt_level=1, config={"relay.memory_planner": planner}):
            libs[planner] = relay.build(module, target="llvm")
    nops = [node["name"] for node in json.loads(libs["arena"].get_graph_json())["nodes"] if node["op"] == "tvm_op"
            and node["attrs"]["func_name"] == "__nop"]
    assert len(nops) == 2
    value = np.random.default_rng(0).standard_normal((1, 16, 16)).astype("float32") / 4
    np.testing.assert_array_equal(run(libs["arena"], x=value)[0], run(libs["relay"], x=value)[0])


# Modules and files.


def test_library_carries_graph_and_parameters(tmp_path, built, image):
    built.export_library(str(tmp_path / "net.so"))
    lib = tvm.runtime.load_module(str(tmp_path / "net.so"))
    assert lib.type_key == "GraphExecutorFactory"
    np.testing.assert_array_equal(run(lib, data=image)[0], run(built, data=image)[0])
    without = lib["remove_params"]()
    module = graph_executor.GraphModule(without["default"](tvm.cpu()))
    module.load_params(relay.save_param_dict(built.get_params()))
    module.run(data=image)
    np.testing.assert_array_equal(module.get_output(0).numpy(), run(built, data=image)[0])


@pytest.mark.parametrize("how", ["target", "executor"])
def test_kernels_may_carry_the_parameters(tmp_path, mlp, image, built, how):
    mod, params = mlp
    options = {"target": "llvm -link-params=1"} if how == "target" else {
        "target": "llvm", "executor": relay.backend.Executor("graph", {"link-params": True})}
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, params=params, **options)
    expected = run(built, data=image)[0]
    lib.get_lib().export_library(str(tmp_path / "kernels.so"))
    for library in (lib.get_lib(), tvm.runtime.load_module(str(tmp_path / "kernels.so"))):
        module = graph_executor.create(lib.get_graph_json(), library, tvm.cpu())
        module.run(data=image)
        np.testing.assert_array_equal(module.get_output(0).numpy(), expected)


def test_archive_holds_objects(tmp_path, built, image):
    built.export_library(str(tmp_path / "net.tar"))
    names = tarfile.open(tmp_path / "net.tar").getnames()
    assert "devc.o" in names
    assert all(name.endswith(".o") for name in names)
    lib = tvm.runtime.load_module(str(tmp_path / "net.tar"))
    np.testing.assert_array_equal(run(lib, data=image)[0], run(built, data=image)[0])


def test_bytecode_travels_in_the_library(tmp_path, mlp, image, built):
    mod, params = mlp
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target="stackvm", params=params)
    lib.export_library(str(tmp_path / "net.so"))
    loaded = tvm.runtime.load_module(str(tmp_path / "net.so"))
    np.testing.assert_allclose(run(loaded, data=image)[0], run(built, data=image)[0], rtol=1e-4, atol=1e-6)


def test_two_processes_make_equal_files(tmp_path):
    script = """
import sys, treadle as tvm
from treadle import relay
from treadle.relay import testing
mod, params = testing.mlp.get_workload()
with tvm.transform.PassContext(opt_level=3):
    relay.build(mod, target="llvm", params=params).export_library(sys.argv[1])
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TREADLE_CACHE": "0"}
    for name in ("a.so", "b.so"):
        subprocess.run([sys.executable, "-c", script, str(tmp_path / name)], check=True, env=environment, timeout=300)
    assert (tmp_path / "a.so").read_bytes() == (tmp_path / "b.so").read_bytes()


def _weights_range(path):
    """Where the weights lie: those bytes are checked by samples, all others one by one."""
    data = path.read_bytes()
    at = data.index(b"TRDLBLOB")
    count = int.from_bytes(data[at + 24:at + 32], "little")
    for i in range(count):
        entry = data[at + 64 + 64 * i:at + 128 + 64 * i]
        if entry[:24].rstrip(b"\0") == b"params":
            begin = at + int.from_bytes(entry[24:32], "little")
            return begin, begin + int.from_bytes(entry[32:40], "little")
    raise AssertionError("no weights")


@pytest.mark.parametrize("place", ["header", "code", "before the weights", "their first sample", "after the weights",
                                   "seal"])
def test_damaged_libraries_are_refused(tmp_path, built, place):
    path = tmp_path / "net.so"
    built.export_library(str(path))
    begin, end = _weights_range(path)
    data = bytearray(path.read_bytes())
    position = {"header": 20, "code": 5000, "before the weights": begin - 1, "their first sample": begin + 10,
                "after the weights": end + 1, "seal": len(data) - 10}[place]
    data[position] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(tvm.Error):
        tvm.runtime.load_module(str(path))


def test_all_weights_are_checked_on_request(tmp_path, built, monkeypatch):
    path = tmp_path / "net.so"
    built.export_library(str(path))
    begin, end = _weights_range(path)
    data = bytearray(path.read_bytes())
    data[begin + 3 * (end - begin) // 4] ^= 0x40
    path.write_bytes(data)
    monkeypatch.setenv("TREADLE_VERIFY", "1")
    with pytest.raises(tvm.ModelFormatError, match="params"):
        tvm.runtime.load_module(str(path))


def test_parameters_are_refused_when_they_do_not_fit(built):
    module = graph_executor.GraphModule(built["default"](tvm.cpu()))
    with pytest.raises(tvm.Error):
        module.load_params(relay.save_param_dict({"p0": np.ones((3, 3), "float32")}))
    with pytest.raises(tvm.ModelFormatError):
        module.load_params(relay.save_param_dict(built.get_params())[:-5])
    module.load_params(relay.save_param_dict({"not there": np.ones(3, "float32")}))


def test_messages_say_what_the_model_calls_a_parameter(tmp_path):
    x, w = relay.var("x", shape=(2, 3)), relay.var("layer.weight", shape=(4, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    lib = relay.build(mod, "llvm", params={"layer.weight": np.ones((4, 3), "float32")})
    lib.export_library(tmp_path / "m.so")
    for made in (lib, tvm.runtime.load_module(tmp_path / "m.so")):
        module = graph_executor.GraphModule(made["default"](tvm.cpu()))
        with pytest.raises(tvm.ShapeError, match='input "p0" .parameter "layer.weight" of the model.: expected float32'):
            module.set_input("p0", np.ones(7, "float32"))
        with pytest.raises(tvm.Error, match='no input "layer.weight", which is the parameter "p0"; the inputs are: x'):
            module.set_input("layer.weight", np.ones((4, 3), "float32"))
    for metadata in ('"text"', '{"param_names": 3}', '{"param_names": {"p0": [1]}}'):
        begin = lib.get_graph_json().index('"metadata":')
        text = lib.get_graph_json()[:begin] + '"metadata": ' + metadata + "}"
        module = graph_executor.create(text, lib.get_lib(), tvm.cpu())
        with pytest.raises(tvm.ShapeError, match='input "p0": expected'):
            module.set_input("p0", np.ones(7, "float32"))


# Executors.


def test_inputs_in_place_and_shared_parameters(built, image):
    first = graph_executor.GraphModule(built["default"](tvm.cpu()))
    tensor = tvm.nd.array(image)
    first.set_input_zero_copy("data", tensor)
    first.run()
    expected = first.get_output(0).numpy()
    other = np.random.default_rng(1).random(image.shape, dtype="float32")
    tensor.copyfrom(other)
    first.run()
    np.testing.assert_array_equal(first.get_output(0).numpy(), run(built, data=other)[0])
    second = graph_executor.GraphModule(built.module["remove_params"]()["default"](tvm.cpu()))
    second.share_params(first, relay.save_param_dict(built.get_params()))
    second.run(data=image)
    np.testing.assert_array_equal(second.get_output(0).numpy(), expected)
    np.testing.assert_array_equal(second.run_from_inputs(tvm.cpu(), data=other)[0].numpy(), run(built, data=other)[0])


def test_benchmark(built, image):
    module = graph_executor.GraphModule(built["default"](tvm.cpu()))
    result = module.benchmark(tvm.cpu(), repeat=3, number=4, data=image)
    assert len(result.results) == 3
    assert 0 < result.min <= result.median <= result.max
    assert "mean" in str(result)
    assert module.benchmark(tvm.cpu(), end_to_end=True, repeat=2, number=2, data=image).mean > 0


def test_debug_executor(tmp_path, built, image):
    module = debug_executor.create(built.get_graph_json(), built.get_lib(), tvm.cpu(), dump_root=str(tmp_path))
    module.load_params(relay.save_param_dict(built.get_params()))
    module.set_input("data", image)
    report = module.profile()
    assert {"Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes"} <= set(report.columns)
    assert "dense" in str(report)
    assert len(module.run_individual(2, 1)) == len(module.node_names)
    module.run()
    tensors = relay.load_param_dict((tmp_path / "output_tensors.params").read_bytes())
    last = module.node_names[-1]
    np.testing.assert_array_equal(tensors[f"{last}____0"].numpy(), run(built, data=image)[0])
    out = tvm.nd.empty((1, 10))
    np.testing.assert_array_equal(module.debug_get_output(last, out).numpy(), run(built, data=image)[0])
    module.check_nan()
    module.set_input("data", np.full_like(image, np.nan))
    with pytest.raises(tvm.VerifyError, match="NaN"):
        module.check_nan()


def test_graph_fields_are_checked(built):
    graph = json.loads(built.get_graph_json())
    library = built.get_lib()

    def refused(change):
        changed = json.loads(json.dumps(graph))
        change(changed)
        with pytest.raises(tvm.Error):
            graph_executor.create(json.dumps(changed), library, tvm.cpu())

    refused(lambda g: g.pop("heads"))
    refused(lambda g: g["node_row_ptr"].append(3))
    refused(lambda g: g["heads"][0].__setitem__(0, 10**6))
    refused(lambda g: g["attrs"]["shape"][1].pop())
    refused(lambda g: g["attrs"]["dltype"][1].__setitem__(0, "float33"))
    refused(lambda g: g["nodes"][-1]["inputs"][0].__setitem__(0, len(g["nodes"])))
    refused(lambda g: g["nodes"][-1]["attrs"].__setitem__("func_name", "no_such_function"))
    refused(lambda g: g["attrs"]["storage_offset"][1].__setitem__(-1, 1 << 40))


def test_one_model_many_threads(tmp_path, built):
    built.export_library(str(tmp_path / "net.so"))
    model = tvm.load(str(tmp_path / "net.so"))
    rng = np.random.default_rng(2)
    values = [rng.random((1, 1, 28, 28), dtype="float32") for _ in range(8)]
    expected = [model(data=value)["output0"] for value in values]
    errors = []

    def work(seed):
        for i in range(50):
            which = (seed + i) % len(values)
            if not np.array_equal(model(data=values[which])["output0"], expected[which]):
                errors.append(which)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


# External code generators and devices.


def test_external_functions_become_modules(image):
    x = relay.var("x", shape=(4, 8))
    weight = relay.const(np.full((4, 8), 3.0, "float32"))
    inner = relay.var("i", shape=(4, 8))
    external = relay.Function([inner], relay.multiply(inner, weight))
    external = external.with_attr("Primitive", 1).with_attr("Compiler", "test_add_on").with_attr("global_symbol", "f0")
    module = tvm.IRModule.from_expr(relay.Function([x], relay.exp(relay.Call(external, [x]))))
    with pytest.raises(tvm.Error, match="relay.ext.test_add_on"):
        relay.build(module, target="llvm")
    seen = []

    @tvm.register_func("relay.ext.test_add_on", override=True)
    def generate(func):
        seen.append(func)
        a = tvm.te.placeholder((4, 8), name="a")
        b = tvm.te.compute((4, 8), lambda i, j: a[i, j] * 3.0, name="b")
        return tvm.build(tvm.te.create_schedule(b.op), [a, b], target="llvm", name=str(func.attrs["global_symbol"]))

    try:
        with tvm.transform.PassContext(opt_level=1):
            lib = relay.build(module, target="llvm")
    finally:
        tvm._ffi.remove_global_func("relay.ext.test_add_on")
    assert len(seen) == 1 and "Compiler" not in seen[0].attrs
    assert lib.get_lib().type_key == "metadata"
    assert len(lib.get_external_modules()) == 1
    value = np.random.default_rng(0).random((4, 8), dtype="float32")
    np.testing.assert_allclose(run(lib, x=value)[0], np.exp(3 * value), rtol=1e-5)


def has_opencl():
    try:
        tvm.nd.array(np.zeros(1, "float32"), tvm.opencl(0))
    except tvm.Error:
        return False
    return True


class OnOpenCL(relay.ExprMutator):
    """Annotates some of the convolutions."""

    def __init__(self, which):
        super().__init__()
        self.which, self.seen = which, 0

    def visit_call(self, call):
        new = super().visit_call(call)
        if getattr(call.op, "name", "") != "nn.conv2d":
            return new
        self.seen += 1
        return relay.annotation.on_device(new, tvm.opencl(0)) if self.seen in self.which else new


@pytest.mark.skipif(not has_opencl(), reason="there is no OpenCL device")
def test_network_split_between_cpu_and_opencl(tmp_path):
    mod, params = testing.resnet.get_workload(num_layers=18, batch_size=1, image_shape=(3, 32, 32), num_classes=10)
    value = np.random.default_rng(0).random((1, 3, 32, 32), dtype="float32")
    with tvm.transform.PassContext(opt_level=3):
        expected = run(relay.build(mod, target="llvm", params=params), data=value)[0]
    split = tvm.IRModule.from_expr(OnOpenCL({3, 4, 8}).visit(mod["main"]))
    with tvm.transform.PassContext(opt_level=3, config={"relay.fallback_device_type": 1}):
        lib = relay.build(split, target={"cpu": "llvm", "opencl": "opencl"}, params=params)
    graph = json.loads(lib.get_graph_json())
    assert set(graph["attrs"]["device_index"][1]) == {1, 4}
    copies = [node for node in graph["nodes"] if node["op"] == "tvm_op" and node["attrs"]["func_name"] == "__copy"]
    assert len(copies) >= 4
    names = [node["name"] for node in copies]
    assert names == ["__copy"] + [f"__copy{i}" for i in range(1, len(copies))]
    for module in (lib, None):
        if module is None:
            lib.export_library(str(tmp_path / "net.so"))
            module = tvm.runtime.load_module(str(tmp_path / "net.so"))
        executor = graph_executor.GraphModule(module["default"](tvm.cpu(0), tvm.opencl(0)))
        executor.run(data=value)
        np.testing.assert_allclose(executor.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-6)


def residual_block(channels, size):
    """Convolutions whose last one adds the block's input."""
    x = relay.var("x", shape=(1, channels, size, size))
    params = {}

    def conv(data, name):
        weight = relay.var(name, shape=(channels, channels, 1, 1))
        params[name] = np.random.default_rng(len(params)).standard_normal((channels, channels, 1, 1), dtype="float32")
        return relay.nn.conv2d(data, weight, kernel_size=(1, 1), channels=channels)

    start = relay.nn.relu(conv(x, "w0"))
    last = relay.nn.relu(relay.add(conv(relay.nn.relu(conv(start, "w1")), "w2"), start))
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(last), last)), params


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("size", [8, 9])
def test_convolution_writes_over_its_residual_operand(target, size):
    mod, params = residual_block(32, size)
    value = np.random.default_rng(9).standard_normal((1, 32, size, size), dtype="float32")
    results, peaks = [], []
    for planner in ("relay", "arena"):
        with tvm.transform.PassContext(opt_level=3, config={"relay.memory_planner": planner}):
            lib = relay.build(mod, target=target, params=params)
        results.append(run(lib, x=value)[0])
        peaks.append(int(re.search(r"activations \(peak\): (\d+) bytes", lib.get_memory_report()).group(1)))
    np.testing.assert_array_equal(results[0], results[1])
    tensor = 4 * 32 * size * size
    assert peaks[0] >= 3 * tensor and peaks[1] <= 2 * tensor + 64, peaks


def test_parameters_are_saved_by_the_run_time_too():
    saved = tvm.runtime.save_param_dict({"a": np.arange(6, dtype="float32").reshape(2, 3), "b": tvm.nd.array(np.int64(3))})
    loaded = tvm.runtime.load_param_dict(saved)
    assert sorted(loaded) == ["a", "b"] and loaded["a"].numpy()[1, 2] == 5 and loaded["b"].shape == ()
    assert bytes(saved) == bytes(relay.save_param_dict(loaded))


def test_kernels_are_saved_as_one_object(tmp_path, built):
    path = tmp_path / "net.o"
    built.get_lib().save(str(path))
    assert path.read_bytes()[:4] == b"\x7fELF" and path.read_bytes()[16] == 1  # ET_REL
    symbols = subprocess.run(["nm", str(path)], check=True, capture_output=True, text=True).stdout
    assert symbols.count(" T treadle_default_fused") >= 3


def test_threads_of_launches_are_limited():
    configure = tvm.get_global_func("runtime.config_threadpool")
    configure(1, 1)
    configure(-1, 0)
    with pytest.raises(tvm.Error):
        configure(1, -3)


@pytest.mark.parametrize("size", [1, 2, 4, 5])
def test_local_response_normalisation_in_blocks(size):
    """Windows reach into other blocks and beyond the first and last channel."""
    x, weight = relay.var("x", shape=(2, 8, 5, 6)), relay.var("w", shape=(32, 8, 3, 3))
    conv = relay.nn.conv2d(x, weight, padding=(1, 1), channels=32, kernel_size=(3, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x, weight], relay.nn.lrn(conv, size=size, alpha=0.3, beta=0.75, bias=1.5)))
    rng = np.random.default_rng(size)
    values = {"x": rng.standard_normal((2, 8, 5, 6), dtype="float32")}
    params = {"w": rng.standard_normal((32, 8, 3, 3), dtype="float32")}
    results = []
    for level in (0, 3):
        with tvm.transform.PassContext(opt_level=level):
            lib = relay.build(mod, target="llvm", params=params)
        results.append(run(lib, **values)[0])
    assert "lrn_NCHWc" in lib.get_graph_json()
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-5)


def test_sources_may_have_variables_per_thread(tmp_path):
    source = """
#include <stdint.h>
static __thread int64_t calls;
int32_t count(void* args, int32_t* codes, int32_t n, void* ret, int32_t* ret_code, void* resource) {
  (void)args; (void)codes; (void)n; (void)resource;
  *(int64_t*)ret = ++calls;
  *ret_code = 0;
  return 0;
}
"""
    module = tvm.get_global_func("runtime.CSourceModuleCreate")(source, "c", ["count"], [])
    for name in ("count.so", "count.tar"):
        module.export_library(str(tmp_path / name))
        count = tvm.runtime.load_module(str(tmp_path / name))["count"]
        assert [count(), count()] == [1, 2]
        counts = []
        thread = threading.Thread(target=lambda function=count: counts.append(function()))
        thread.start()
        thread.join()
        assert counts == [1] and count() == 3


def test_constants_inside_of_kernels():
    x = relay.var("x", shape=(2, 3))
    weight = np.arange(12, dtype="float32").reshape(4, 3)
    module = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, relay.const(weight)))))
    with tvm.transform.PassContext(opt_level=0, config={"relay.FuseOps.link_params": True}):
        lib = relay.build(module, "llvm")
    graph = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
    value = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    graph.set_input("x", value)
    graph.run()
    np.testing.assert_allclose(graph.get_output(0).numpy(), np.maximum(value @ weight.T, 0), rtol=1e-5)
