# SPDX-License-Identifier: Apache-2.0
"""Norms as one kernel: those that reduce rows are fused with those that read them."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle as tvm
from treadle import relay
from treadle.contrib import graph_executor

TARGETS = ["llvm -mcpu=native -num-cores=2", "llvm -mcpu=x86-64-v3 -num-cores=1", "c", "stackvm"]


def standardised(x, axes, epsilon=1e-5):
    mean = x.mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + epsilon)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


MEANS = "%0 = mean(%x, axis=AXES, keepdims=True); %1 = subtract(%x, %0); %2 = multiply(%1, %1); " \
        "%3 = mean(%2, axis=AXES, keepdims=True); %4 = add(%3, 1e-5f); %5 = sqrt(%4); "
# Shape, body, float64 reference, kernels.
CASES = {
    "layer": ((6, 5, 37), MEANS.replace("AXES", "[2]") + "divide(%1, %5)", lambda x: standardised(x, (2,)), 1),
    "layer_of_vectors": ((40, 64), MEANS.replace("AXES", "[1]") + "divide(%1, %5)", lambda x: standardised(x, (1,)), 1),
    "instance": ((2, 3, 9, 11), MEANS.replace("AXES", "[2, 3]") + "divide(%1, %5)",
                 lambda x: standardised(x, (2, 3)), 1),
    "one_row": ((1, 3, 50), MEANS.replace("AXES", "[1, 2]") + "divide(%1, %5)", lambda x: standardised(x, (1, 2)), 1),
    "rms": ((7, 100), "%0 = multiply(%x, %x); %1 = mean(%0, axis=[1], keepdims=True); %2 = sqrt(%1); divide(%x, %2)",
            lambda x: x / np.sqrt((x * x).mean(1, keepdims=True)), 1),
    "softmax": ((4, 9, 196), "%0 = max(%x, axis=[-1], keepdims=True); %1 = subtract(%x, %0); %2 = exp(%1); "
                "%3 = sum(%2, axis=[-1], keepdims=True); divide(%2, %3)", softmax, 1),
    "moved": ((5, 8, 12), MEANS.replace("AXES", "[2]") + "%6 = divide(%1, %5); transpose(%6, axes=[0, 2, 1])",
              lambda x: standardised(x, (2,)).transpose(0, 2, 1), 2),
    "variance": ((9, 33), "%0 = mean(%x, axis=[1], keepdims=True); %1 = subtract(%x, %0); %2 = multiply(%1, %1); "
                 "mean(%2, axis=[1])", lambda x: x.var(1), 1),
    "columns": ((33, 9), MEANS.replace("AXES", "[0]") + "divide(%1, %5)", lambda x: standardised(x, (0,)), None),
    "long_rows": ((2, 40000), MEANS.replace("AXES", "[1]") + "divide(%1, %5)", lambda x: standardised(x, (1,)), None),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name, target):
    shape, body, reference, kernels = CASES[name]
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[{shape}, float32]) {{ {body} }}\n'
    x = np.random.default_rng(0).standard_normal(shape).astype("f4") * 3 + 1
    lib = relay.build(relay.fromtext(text), target)
    executor = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    executor.run(x=x)
    np.testing.assert_allclose(executor.get_output(0).numpy(), reference(x.astype("f8")), rtol=3e-5, atol=3e-6)
    if kernels is not None:
        assert lib.get_graph_json().count('"tvm_op"') == kernels


def test_can_be_left_out():
    shape, body, *_ = CASES["layer"]
    mod = relay.fromtext(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[{shape}, float32]) {{ {body} }}\n')
    with tvm.transform.PassContext(opt_level=3, config={"relay.FuseRows": False}):
        assert relay.build(mod, "llvm").get_graph_json().count('"tvm_op"') > 1


def onnx_norm(op, rank, width, **attributes):
    """`op` of an operand of `rank` dimensions, the last of which is `width`, those before are known when it runs."""
    shape = [f"d{i}" for i in range(rank - 1)] + [width]
    size = width if op == "LayerNormalization" else 3
    nodes = [helper.make_node(op, ["x", "scale", "bias"], ["y"], **attributes)]
    initializers = [numpy_helper.from_array(np.linspace(0.5, 2, size, dtype="f4"), "scale"),
                    numpy_helper.from_array(np.linspace(-1, 1, size, dtype="f4"), "bias")]
    graph = helper.make_graph(nodes, "norm", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("rows", [(0, 5), (1, 1), (3, 7), (2, 64)])
def test_number_of_rows_is_dynamic(rows, tmp_path):
    import onnx

    onnx.save(onnx_norm("LayerNormalization", 3, 37), tmp_path / "m.onnx")
    x = np.random.default_rng(1).standard_normal((*rows, 37)).astype("f4")
    got, = tvm.compile(tmp_path / "m.onnx").run(None, {"x": x})
    expected = standardised(x.astype("f8"), (2,)) * np.linspace(0.5, 2, 37) + np.linspace(-1, 1, 37)
    assert got.shape == x.shape
    np.testing.assert_allclose(got, expected, rtol=3e-5, atol=3e-6)
