# SPDX-License-Identifier: Apache-2.0
"""What is damaged: random graphs, single operators, pieces of given models, artefacts. Made in a process of its own: ONNX's
and ONNX Runtime's code takes part, which may hang or die."""
import pathlib
import random
import struct

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LARGE = 60  # nodes; models with more are cut to pieces, which compile in a fraction of their time
ARTEFACTS = ("library", "program", "params", "graph", "bytecode", "objects")


def piece(chooser, model):
    """Some consecutive nodes of a model: what they read from elsewhere becomes inputs of the inferred types. The whole
    model where it is small."""
    graph = model.graph
    if len(graph.node) <= LARGE:
        return model
    types = {v.name: v for v in [*graph.input, *graph.value_info, *graph.output]}
    count = chooser.randint(2, 24)
    start = chooser.randrange(len(graph.node) - count)
    nodes = graph.node[start:start + count]
    made = {name for node in nodes for name in node.output if name}
    read = {name for node in graph.node for name in _reads(node) if name}
    weights = {t.name for t in graph.initializer}
    wanted = {name for node in nodes for name in _reads(node) if name} - made
    inputs = [types[n] if n in types else helper.make_tensor_value_info(n, TensorProto.FLOAT, None)
              for n in sorted(wanted - weights)]
    last = {name for node in nodes for name in node.output if name and name not in
            {r for other in nodes for r in _reads(other)}} or made & read or made
    outputs = [types.get(n) or helper.make_empty_tensor_value_info(n) for n in sorted(last)]
    cut = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    cut.graph.CopyFrom(helper.make_graph(nodes, "piece", inputs, outputs,
                                         [t for t in graph.initializer if t.name in wanted]))
    return cut


def _reads(node):
    inner = [name for a in node.attribute for g in [a.g, *a.graphs] for n in g.node for name in _reads(n)]
    return [*node.input, *inner]


def typed(model):
    """The model with the types that ONNX infers."""
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # noqa: BLE001 - then pieces say less of their inputs
        return model


def _models():
    value = lambda name, shape, kind=TensorProto.FLOAT: helper.make_tensor_value_info(name, kind, shape)  # noqa: E731
    weight = numpy_helper.from_array(np.arange(144, dtype="float32").reshape(4, 4, 3, 3) / 50, "w")
    node = helper.make_node
    opset = [helper.make_opsetid("", 18)]
    nodes = [node("Conv", ["x", "w"], ["c"], pads=[1] * 4), node("Relu", ["c"], ["r"]), node("Add", ["r", "x"], ["a"]),
             node("GlobalAveragePool", ["a"], ["p"]), node("Softmax", ["p"], ["y"], axis=1)]
    yield "library", helper.make_model(helper.make_graph(nodes, "g", [value("x", [2, 4, 9, 9])], [value("y", None)], [weight]),
                                       opset_imports=opset, ir_version=9)
    branch = lambda op: helper.make_graph([node(op, ["x"], ["r"])], op, [], [value("r", None)])  # noqa: E731
    nodes = [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Greater", ["s", "z"], ["c"]),
             node("If", ["c"], ["t"], then_branch=branch("Neg"), else_branch=branch("Abs")), node("NonZero", ["t"], ["y"])]
    zero = numpy_helper.from_array(np.float32(0), "z")
    yield "program", helper.make_model(helper.make_graph(nodes, "g", [value("x", ["n", 3])],
                                                         [value("y", None, TensorProto.INT64)], [zero]),
                                       opset_imports=opset, ir_version=9)


def write_artefacts(folder):
    """One file of each of ARTEFACTS, named so; graph.so is the library that "graph" is of."""
    import treadle as tvm
    from treadle import relay, te

    folder = pathlib.Path(folder)
    for name, model in _models():
        tvm.compile(model, threads=1).save(str(folder / name))
    x = relay.var("x", shape=(3, 8), dtype="float32")
    w = relay.const(np.ones((4, 8), "float32"))
    built = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, w)))), target="llvm")
    (folder / "params").write_bytes(bytes(relay.save_param_dict({"w": tvm.nd.array(np.ones((4, 8), "float32"))})))
    (folder / "graph").write_text(built.get_graph_json())
    built.get_lib().export_library(str(folder / "graph.so"))
    built.export_library(str(folder / "objects.tar"))
    (folder / "objects.tar").rename(folder / "objects")
    a = te.placeholder((4, 5), name="A")
    b = te.compute((5, 4), lambda i, j: te.exp(a[j, i]) + 1, name="B")
    path = folder / "f.stackvm"
    tvm.build(te.create_schedule(b.op), [a, b], target="stackvm", name="f").save(str(path))
    path.rename(folder / "bytecode")


def make(task):
    """A worker's answer: what `task` asks for is at task["path"]."""
    from differential import edges, graphs, sizes

    if "artefacts" in task:
        write_artefacts(task["artefacts"])
        return {"kind": "made"}
    chooser = random.Random(task["seed"])
    try:
        if "model" in task:
            made = piece(chooser, _loaded(task["model"]))
        else:  # operators of every domain, as they are or in sizes that a run tells, are a small part of graphs
            source = chooser.choices([graphs, edges, sizes], [4, 4, 2])[0]
            made = source.generate(task["seed"]).model
        pathlib.Path(task["path"]).write_bytes(made.SerializeToString())
        return {"kind": "made"}
    except (graphs.Refused, ValueError, struct.error) as error:
        return {"kind": "invalid", "text": str(error)}


_MODELS = {}


def _loaded(path):
    if path not in _MODELS:
        _MODELS[path] = typed(onnx.load(path))
    return _MODELS[path]
