# SPDX-License-Identifier: Apache-2.0
"""Writes first inputs of the fuzzers, a folder for each: make_seeds.py FOLDER. Needs the package and onnx.

    PYTHONPATH=build/python .venv/bin/python tests/fuzz/make_seeds.py seeds
    build-fuzz/bin/treadle_onnx_reader_fuzz -max_total_time=120 -rss_limit_mb=4096 seeds/onnx_reader
"""
import io
import json
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import rpc_messages
from differential import edges, graphs
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


def integer_models():
    """What moves, compares and counts: no rounding, so that results are the same whatever computes them."""
    value = lambda name, shape, kind=TensorProto.INT32: helper.make_tensor_value_info(name, kind, shape)  # noqa: E731
    ints = lambda name, *numbers: numpy_helper.from_array(np.array(numbers, "int64"), name)  # noqa: E731
    node = helper.make_node

    def model(nodes, shape, fixed=(), kind=TensorProto.INT32):
        graph = helper.make_graph(nodes, "g", [value("x", shape, kind)], [helper.make_empty_tensor_value_info("y")], fixed)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    pads, axes = ints("p", 1, 0, 2, 1), ints("a", 1)
    yield "pad", model([node("Pad", ["x", "p"], ["t"]), node("Sign", ["t"], ["s"]), node("Mul", ["t", "s"], ["y"])],
                       [3, 4], [pads])
    yield "slice", model([node("Slice", ["x", "b", "e", "a", "s"], ["t"]), node("Concat", ["t", "t"], ["y"], axis=0)],
                         ["n", 7], [ints("b", -2), ints("e", -100), axes, ints("s", -2)])
    yield "sort", model([node("TopK", ["x", "k"], ["t", "i"]), node("CumSum", ["t", "a"], ["y"])], [2, 9],
                        [ints("k", 4), axes])
    yield "bits", model([node("BitwiseNot", ["x"], ["t"]), node("Mod", ["t", "x"], ["u"]), node("Div", ["u", "t"], ["y"])],
                        [5])
    yield "reduce", model([node("ReduceSum", ["x", "a"], ["t"], keepdims=0), node("Tile", ["t", "r"], ["u"]),
                           node("ReduceMax", ["u"], ["y"])], [4, "n", 3], [axes, ints("r", 2, 1)])
    yield "bytes", model([node("Gather", ["x", "i"], ["t"]), node("Where", ["c", "t", "x"], ["u"]),
                          node("Cast", ["u"], ["y"], to=TensorProto.INT64)], [4, 2],
                         [ints("i", 3, -4, 0, 1), numpy_helper.from_array(np.array([True, False]), "c")], TensorProto.UINT8)


def single_operators():
    """One small model of each operator of the differential fuzzer, of every domain."""
    found = {}
    for seed in range(3000):
        try:
            model = edges.generate(seed).model
        except graphs.Refused:
            continue
        node = model.graph.node[0]
        if model.ByteSize() < 2000:
            found.setdefault(f"{node.domain or 'ai.onnx'}.{node.op_type}", model)
    yield from found.items()


RECORD = {"kind": "plan", "id": "0", "problem": {"ic": 3}, "kernel": "conv2d.direct", "rev": 1, "schema": "0",
          "plan": {"ow": 4}, "m": "x86_64", "threads": 2, "ratio": 0.91, "lo": 0.9, "hi": 0.92, "pairs": 36, "procs": 3,
          "us": 412.7, "state": "confirmed", "err": "", "t": 1763800000}


def tensor_files():
    """(first byte, name, bytes)"""
    array = np.arange(6, dtype="float32").reshape(2, 3)
    for name, value in {"array": array, "column_major": np.asfortranarray(array), "bools": array > 2}.items():
        file = io.BytesIO()
        np.save(file, value)
        yield 0, name, file.getvalue()
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, a=array, b=np.int64(3))
        yield 1, save.__name__, file.getvalue()
    yield 2, "tensor", numpy_helper.from_array(array, "a").SerializeToString()


def library_parts(mod, target):
    """What is within a compiled library: (name, bytes from there on)."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.so"
        tvm.compile(mod, target=target).save(path)
        data = path.read_bytes()
    for name, magic in {"artifact": b"TRDLBLOB", "program": b"TVMX", "bytecode": b"TRDLEVM1"}.items():
        if (at := data.find(magic)) >= 0:
            yield name, data[at:]


def main(folder):
    def write(fuzzer, name, data):
        path = pathlib.Path(folder) / fuzzer
        path.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data if isinstance(data, bytes) else data.encode())

    for name, proto in onnx_models():
        for fuzzer in ("onnx_reader", "onnx_model"):
            write(fuzzer, name, proto.SerializeToString())
    for name, proto in integer_models():
        for fuzzer in ("onnx_reader", "onnx_differential"):
            write(fuzzer, name, proto.SerializeToString())
    for name, proto in single_operators():
        for fuzzer in ("onnx_reader", "onnx_model"):
            write(fuzzer, name, proto.SerializeToString())
    for kind, name, data in tensor_files():
        write("tensor_file", name, bytes([kind]) + data)
    write("records", "plan", b"\x01" + json.dumps(RECORD, separators=(",", ":")).encode() + b"\n")
    write("records", "other", b"\x01" + b'{"kind":"session","device":"cpu"}\n')
    write("simplify", "bytes", bytes(range(64)))

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

    models = dict(onnx_models())
    for model, target in (("conv", "llvm"), ("if", "llvm"), ("reshape", "stackvm")):
        for name, data in library_parts(models[model], target):
            if name == "bytecode":
                write("stackvm", model, data)
            else:
                write("runtime", f"{name}_{model}", {"artifact": b"\x04", "program": b"\x07"}[name] + data)

    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: te.exp(a[i]) + 1, name="b")
    func = te.create_prim_func([a, b])
    write("tir_text", "exp", func.script() if hasattr(func, "script") else str(func))
    for name, data in rpc_messages.seeds():
        write("rpc", name, data)
    write("runtime_examplejson", "add", "g\ninput 0 shape: 2 3\ninput 1 shape: 2 3\nadd 2 inputs: 0 1 shape: 2 3\n")


if __name__ == "__main__":
    onnx.__version__  # needed to be there
    main(sys.argv[1])
