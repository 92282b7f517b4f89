# SPDX-License-Identifier: Apache-2.0
"""Compiling graphs from Python and running them with the graph executor, as deployment scripts do."""
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle import relay
from treadle.contrib import graph_executor


@pytest.fixture(scope="module")
def built():
    x = relay.var("x", shape=(2, 3))
    w = relay.var("w", shape=(4, 3))
    function = relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)) + relay.const(1.0))
    weight = np.arange(12, dtype="float32").reshape(4, 3) - 5
    with treadle.transform.PassContext(opt_level=3):
        lib = relay.build(treadle.IRModule.from_expr(function), target="llvm", params={"w": weight})
    return lib, weight


def expected(value, weight):
    return np.maximum(value @ weight.T, 0) + 1


def test_a_graph_runs_in_memory(built):
    lib, weight = built
    module = graph_executor.GraphModule(lib["default"](treadle.cpu()))
    value = np.ones((2, 3), "float32")
    module.set_input("x", value)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), expected(value, weight), rtol=1e-6)
    out = module.get_output(0, treadle.nd.empty((2, 4)))
    np.testing.assert_allclose(out.numpy(), expected(value, weight), rtol=1e-6)


def test_inputs_of_other_types_are_converted(built):
    lib, weight = built
    module = graph_executor.GraphModule(lib["default"](treadle.cpu()))
    value = np.full((2, 3), 0.5)  # float64
    module.run(x=value)
    np.testing.assert_allclose(module.get_output(0).numpy(), expected(value, weight), rtol=1e-6)


def test_unknown_inputs_are_errors(built):
    module = graph_executor.GraphModule(built[0]["default"](treadle.cpu()))
    with pytest.raises(treadle.Error, match="y"):
        module.set_input("y", np.ones((2, 3), "float32"))
    with pytest.raises(treadle.ShapeError):
        module.set_input("x", np.ones((3, 2), "float32"))


def test_code_graph_and_parameters_as_files(built, tmp_path):
    lib, weight = built
    lib.get_lib().export_library(tmp_path / "mod.so")
    params = relay.save_param_dict(lib.get_params())
    graph = json.loads(lib.get_graph_json())
    assert {"nodes", "arg_nodes", "heads", "node_row_ptr", "attrs"} <= set(graph)
    loaded = treadle.runtime.load_module(tmp_path / "mod.so")
    module = graph_executor.create(lib.get_graph_json(), loaded, treadle.cpu(0))
    module.load_params(params)
    value = np.ones((2, 3), "float32")
    module.set_input("x", value)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), expected(value, weight), rtol=1e-6)


def test_parameters_round_trip():
    params = {"a": np.arange(3, dtype="int64"), "b": np.ones((2, 2), "float16")}
    back = relay.load_param_dict(relay.save_param_dict(params))
    assert set(back) == set(params)
    for name, value in params.items():
        np.testing.assert_array_equal(back[name].numpy(), value)


def test_a_build_unpacks_into_three(built):
    graph, lib, params = built[0]
    assert json.loads(graph)["nodes"]
    assert "define" in lib.get_source()
    assert all(isinstance(value, treadle.nd.NDArray) for value in params.values())


def test_the_deployment_script_of_the_original(tmp_path):
    """The usual script for an ONNX model, but for the package's name."""
    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.standard_normal((4, 3, 3, 3)).astype("float32"), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["data", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"])], "g",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8, 8])], [weight])
    onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    img_data = rng.standard_normal((1, 3, 8, 8))
    tvm = treadle
    target = tvm.target.Target(target="llvm", host="llvm")
    mod, params = relay.frontend.from_onnx(onnx_model, {"data": img_data.shape})
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target=target, params=params)
    (tmp_path / "mod.json").write_text(lib.get_executor_config())
    dev = tvm.device(str(target), 0)
    module = graph_executor.GraphModule(lib["default"](dev))
    module.set_input("data", img_data)
    module.run()
    output = module.get_output(0, tvm.nd.empty((1, 4, 8, 8))).numpy()
    import onnxruntime

    session = onnxruntime.InferenceSession(onnx_model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(output, session.run(None, {"data": img_data.astype("float32")})[0], rtol=1e-4, atol=1e-5)


def matmul(n, target):
    """A matrix product of te, built for a target."""
    from treadle import te

    k = te.reduce_axis((0, n), "k")
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    c = te.compute((n, n), lambda x, y: te.sum(a[x, k] * b[k, y], axis=k), name="C")
    return treadle.build(te.create_schedule(c.op), [a, b, c], target=target, name="mmult")


@pytest.mark.parametrize("target", ["llvm", "c", "stackvm"])
def test_module_is_called_as_its_entry_function(target):
    module = matmul(8, target)
    a, b = (np.random.default_rng(seed).random((8, 8), dtype="float32") for seed in (1, 2))
    c = treadle.nd.array(np.zeros((8, 8), "float32"))
    module(treadle.nd.array(a), treadle.nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_exported_kernel_is_called_as_its_entry_function(target, tmp_path):
    matmul(8, target).export_library(tmp_path / "m.so")
    module = treadle.runtime.load_module(tmp_path / "m.so")
    ones, c = treadle.nd.array(np.ones((8, 8), "float32")), treadle.nd.array(np.zeros((8, 8), "float32"))
    module(ones, ones, c)
    assert (c.numpy() == 8).all()


def test_missing_c_compiler_is_named(monkeypatch):
    monkeypatch.setenv("TREADLE_CC", "no-such-compiler")
    with pytest.raises(treadle.TargetError, match=r"\$TREADLE_CC is \"no-such-compiler\""):
        matmul(8, "c").get_function("mmult")


def test_fused_code_shares_its_subexpressions():
    x = relay.var("x", shape=(16,))
    square, activated = x, x
    for _ in range(40):  # as a tree: 2 to the power of 40 factors
        square = square * square
    for _ in range(12):
        activated = relay.tanh(activated) * relay.sigmoid(activated)
    with treadle.transform.PassContext(opt_level=3):
        lib = relay.build(treadle.IRModule.from_expr(relay.Function([x], square + activated)), target="llvm")
    module = graph_executor.GraphModule(lib["default"](treadle.cpu()))
    value = np.linspace(-1, 1, 16).astype("float32")
    module.run(x=value)
    expected = value.astype("float64")
    for _ in range(12):
        expected = np.tanh(expected) / (1 + np.exp(-expected))
    expected += np.where(np.abs(value) == 1, 1, 0)
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-6)
