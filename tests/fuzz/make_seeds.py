# SPDX-License-Identifier: Apache-2.0
"""Writes first inputs of the fuzzers, a folder for each: make_seeds.py FOLDER. Needs the package and onnx.

    PYTHONPATH=build/python .venv/bin/python tests/fuzz/make_seeds.py seeds
    build-fuzz/bin/treadle_onnx_reader_fuzz -max_total_time=120 -rss_limit_mb=4096 seeds/onnx_reader
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import treadle as tvm
from treadle import relay, te


def onnx_models():
    """Small models: every kind of field, control flow, functions, low precision, symbolic dimensions."""
    value = lambda name, shape, kind=TensorProto.FLOAT: helper.make_tensor_value_info(name, kind, shape)  # noqa: E731
    weight = numpy_helper.from_array(np.ones((4, 3, 3, 3), "float32"), "w")

    def model(nodes, inputs, outputs, initializers=(), functions=(), opset=17):
        graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
        return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9)

    node = helper.make_node
    yield "conv", model([node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], strides=[1, 1]), node("Relu", ["y"], ["z"])],
                        [value("x", ["n", 3, 8, 8])], [value("z", ["n", 4, 8, 8])], [weight])
    branch = lambda op: helper.make_graph([node(op, ["x"], ["r"])], op, [], [value("r", [2])])  # noqa: E731
    yield "if", model([node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs"))],
                      [value("c", [], TensorProto.BOOL), value("x", [2])], [value("y", [2])])
    twice = helper.make_function("local", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])],
                                 [helper.make_opsetid("", 17)])
    yield "function", model([node("Twice", ["x"], ["y"], domain="local")], [value("x", [3])], [value("y", [3])],
                            functions=[twice])
    shape = numpy_helper.from_array(np.array([2, -1], "int64"), "s")
    yield "reshape", model([node("Reshape", ["x", "s"], ["y"]), node("Gather", ["y", "i"], ["z"], axis=0)],
                           [value("x", [2, 3, 4]), value("i", [2], TensorProto.INT64)], [value("z", [2, 12])], [shape])
    scale = numpy_helper.from_array(np.array(0.1, "float32"), "q")
    zero = numpy_helper.from_array(np.array(3, "uint8"), "o")
    yield "quantize", model([node("QuantizeLinear", ["x", "q", "o"], ["y"])], [value("x", [8])],
                            [value("y", [8], TensorProto.UINT8)], [scale, zero])
    rows = [numpy_helper.from_array(np.ones(dims, "float32"), name) for name, dims in
            (("W", (1, 8, 3)), ("R", (1, 8, 2)), ("B", (1, 16)))]
    yield "lstm", model([node("LSTM", ["x", "W", "R", "B"], ["y"], hidden_size=2)], [value("x", [4, 1, 3])],
                        [value("y", [4, 1, 1, 2])], rows)


def main(folder):
    def write(fuzzer, name, data):
        path = pathlib.Path(folder) / fuzzer
        path.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data if isinstance(data, bytes) else data.encode())

    for name, proto in onnx_models():
        for fuzzer in ("onnx_reader", "onnx_model"):
            write(fuzzer, name, proto.SerializeToString())

    x = relay.var("x", shape=(1, 3, 8, 8), dtype="float32")
    w = relay.const(np.ones((4, 3, 3, 3), "float32"))
    module = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1)))))
    write("relay_parser", "conv", module.astext())
    with tvm.transform.PassContext(opt_level=3):
        built = relay.build(module, target="llvm")
    # The first byte of the runtime's inputs chooses the reader.
    write("runtime", "json", b"\x00" + b'{"a": [1, 2.5e3, "\\u00e9", null, true]}')
    write("runtime", "graph", b"\x01" + built.get_graph_json().encode())
    write("runtime", "params", b"\x02" + bytes(relay.save_param_dict(built.get_params())))

    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: te.exp(a[i]) + 1, name="b")
    func = te.create_prim_func([a, b])
    write("tir_text", "exp", func.script() if hasattr(func, "script") else str(func))
    write("runtime_examplejson", "add", "g\ninput 0 shape: 2 3\ninput 1 shape: 2 3\nadd 2 inputs: 0 1 shape: 2 3\n")


if __name__ == "__main__":
    onnx.__version__  # needed to be there
    main(sys.argv[1])
