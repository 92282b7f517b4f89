# SPDX-License-Identifier: Apache-2.0
"""Dimensions that only a run knows, and that may be 1 beside another operand's: against ONNX Runtime."""
import itertools
import pathlib
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import treadle
from treadle import relay
from treadle.runtime.vm import VirtualMachine

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def both(nodes, inputs, names):
    """The model of `nodes` in both."""
    infos = [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in inputs.items()]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name=name) for name in names])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return treadle.compile(model, threads=1), session


def agree(model, session, feed):
    np.testing.assert_allclose(model.run(None, feed)[0], session.run(None, feed)[0], rtol=1e-4, atol=1e-4)


def attention(heads, size):
    """As PyTorch exports it: heads by a reshape with -1, a mask of booleans expanded to a computed shape."""
    node = helper.make_node
    nodes = []

    def constant(name, value):
        nodes.append(node("Constant", [], [name], value=onnx.numpy_helper.from_array(np.array(value))))

    for name, value in dict(first=[0], second=[1], rest=[-1], size=[size], none=0, one=1, middle=[1, 2],
                            kept=np.float32(0), masked=np.float32(-1e9)).items():
        constant(name, value)
    for x in "qkv":
        nodes += [node("Shape", [x], [x + "_shape"]), node("Gather", [x + "_shape", "first"], [x + "_batch"]),
                  node("Gather", [x + "_shape", "second"], [x + "_length"]),
                  node("Concat", [x + "_batch", x + "_length", "rest", "size"], [x + "_split"], axis=0),
                  node("Reshape", [x, x + "_split"], [x + "_heads"]),
                  node("Transpose", [x + "_heads"], [x + "_t"], perm=[0, 2, 3, 1] if x == "k" else [0, 2, 1, 3])]
    for x in "qk":
        nodes += [node("Squeeze", [x + "_length", "first"], [x + "_count"]), node("Range", ["none", x + "_count", "one"], [x + "_range"])]
    nodes += [node("Unsqueeze", ["q_range", "second"], ["rows"]), node("LessOrEqual", ["k_range", "rows"], ["causal"]),
              node("Cast", ["mask"], ["given"], to=TensorProto.BOOL), node("Unsqueeze", ["given", "middle"], ["padding"]),
              node("And", ["causal", "padding"], ["both"]),
              node("Concat", ["q_batch", "second", "q_length", "k_length"], ["scores_shape"], axis=0),
              node("Expand", ["both", "scores_shape"], ["expanded"]), node("Where", ["expanded", "kept", "masked"], ["bias"]),
              node("MatMul", ["q_t", "k_t"], ["scores"]), node("Add", ["scores", "bias"], ["biased"]),
              node("Softmax", ["biased"], ["weights"], axis=-1), node("MatMul", ["weights", "v_t"], ["y"])]
    inputs = {x: (TensorProto.FLOAT, ["batch", "queries" if x == "q" else "keys", heads * size]) for x in "qkv"}
    return both(nodes, {**inputs, "mask": (TensorProto.INT64, ["batch", "keys"])}, ["y"])


@pytest.mark.parametrize("heads", [1, 4])
def test_attention_with_a_mask_expanded_to_a_computed_shape(heads):
    """The mask's 1 for the heads, an element of a shape, was taken to be the number of heads."""
    model, session = attention(heads, 16)
    for batch, queries, keys in ((1, 1, 1), (2, 3, 3), (1, 5, 5), (3, 1, 4), (2, 7, 1)):
        mask = np.ones((batch, keys), np.int64)
        mask[0, 1:] = RNG.integers(0, 2, keys - 1)
        agree(model, session, {"q": floats(batch, queries, heads * 16), "k": floats(batch, keys, heads * 16),
                               "v": floats(batch, keys, heads * 16), "mask": mask})


def test_masks_of_open_sizes():
    nodes = [helper.make_node("MatMul", ["q", "k"], ["s"]), helper.make_node("Add", ["s", "m"], ["t"]),
             helper.make_node("Softmax", ["t"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
    shapes = {"q": ["b", 3, "n", 16], "k": ["b", 3, 16, "n"], "v": ["b", 3, "n", 16], "m": ["mask_batch", "mask_heads", "rows", "n"]}
    model, session = both(nodes, {name: (TensorProto.FLOAT, shape) for name, shape in shapes.items()}, ["y"])
    for batch, heads, rows in itertools.product((1, 2), (1, 3), (1, 5)):
        agree(model, session, {"q": floats(2, 3, 5, 16), "k": floats(2, 3, 16, 5), "v": floats(2, 3, 5, 16), "m": floats(batch, heads, rows, 5)})


PRODUCTS = {
    "known beside open": ((3, 4, 5), ("b", "k", "n")), "open beside known": (("b", "m", "k"), (3, 5, 6)),
    "one of two": (("a", 3, 4, 5), (2, "b", 5, 6)), "of another rank": (("b", 4, 5), (2, 3, 5, 6)),
    "all open": (("a", "b", "m", "k"), ("c", "d", "k", "n")),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_batches_of_products(name):
    """Of a batch of 1 beside a known one, what follows it in memory was read."""
    a, b = PRODUCTS[name]
    full = {"a": 2, "b": 3, "c": 2, "d": 3, "m": 4, "k": 5, "n": 6}
    shapes = {"x": a, "z": b}
    model, session = both([helper.make_node("MatMul", ["x", "z"], ["y"])], {key: (TensorProto.FLOAT, list(shape)) for key, shape in shapes.items()}, ["y"])
    batches = sorted({dim for shape in (a, b) for dim in shape[:-2] if isinstance(dim, str)})
    for ones in itertools.product((False, True), repeat=len(batches)):
        sizes = {**full, **{dim: 1 for dim, one in zip(batches, ones) if one}}
        agree(model, session, {key: floats(*(sizes.get(dim, dim) for dim in shape)) for key, shape in shapes.items()})


def test_batches_that_do_not_fit_are_refused():
    shapes = {"x": ["b", "m", "k"], "z": [3, 5, 6]}
    model, _ = both([helper.make_node("MatMul", ["x", "z"], ["y"])], {key: (TensorProto.FLOAT, shape) for key, shape in shapes.items()}, ["y"])
    with pytest.raises(treadle.Error, match="MatMul#0.*have to be equal: 2 and 3"):
        model.run(None, {"x": floats(2, 4, 5), "z": floats(3, 5, 6)})


def test_a_graph_product_of_an_open_batch_needs_the_known_one():
    """nn.batch_matmul itself reads one batch for each of the result's."""
    x, z = relay.var("x", shape=(relay.Any(), 4, 5)), relay.var("z", shape=(3, 6, 5))
    module = treadle.IRModule.from_expr(relay.Function([x, z], relay.nn.batch_matmul(x, z)))
    machine = VirtualMachine(relay.vm.compile(module, "llvm"), treadle.cpu())
    a, b = floats(3, 4, 5), floats(3, 6, 5)
    np.testing.assert_allclose(machine.run(a, b).numpy(), a @ b.transpose(0, 2, 1), rtol=1e-5, atol=1e-5)
    with pytest.raises(treadle.Error, match="dimensions of operands have to be equal: 1 and 3"):
        machine.run(a[:1], b)


def test_chains_of_broadcasts_of_open_sizes():
    """As scikit-learn's AdaBoost is exported, a tree after another: the size of each was twice as long an expression as the last,
    and compiling didn't end."""
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["y0"])]
    for i in range(40):
        nodes += [helper.make_node("Add", [f"y{i}", "x"], [f"sum{i}"]), helper.make_node("Less", [f"sum{i}", "limit"], [f"small{i}"]),
                  helper.make_node("Where", [f"small{i}", f"sum{i}", f"y{i}"], [f"y{i + 1}"])]
    inputs = {"s": (TensorProto.INT64, [2]), "x": (TensorProto.FLOAT, ["n", "m"]), "limit": (TensorProto.FLOAT, ["k"])}
    model, session = both(nodes, inputs, ["y40"])
    for shape, other in (((3, 4), (3, 4)), ((1, 4), (3, 1)), ((1, 1), (2, 5))):
        for limits in (1, max(shape[1], other[1])):
            agree(model, session, {"s": np.array(shape), "x": np.abs(floats(*other)), "limit": np.abs(floats(limits)) * 20})


def test_a_convolution_of_one_channel_beside_a_matrix():
    """Its blocked layout was carried on to the matrix: "dimension 4 must be 8, is 1"."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], dilations=[2, 2], pads=[1, 0, 0, 1], strides=[2, 2]),
             helper.make_node("Max", ["a", "c", "b"], ["y"])]
    shapes = {"x": [2, 3, 4, 5], "w": [1, 3, 3, 3], "a": [32, 16], "b": [1, 1]}
    model, session = both(nodes, {name: (TensorProto.FLOAT, shape) for name, shape in shapes.items()}, ["y"])
    agree(model, session, {name: floats(*shape) for name, shape in shapes.items()})


def test_residuals_of_sizes_that_only_the_importer_can_tell(tmp_path):
    """A convolution's loops had a size that depended on whether the other operand had to be broadcast, and weren't scheduled at
    all: 1 % of the arithmetic's speed, in attention with relative positions. There is a kernel for equal sizes."""
    weights = [onnx.numpy_helper.from_array(floats(48, channels, 1) / 8, name) for name, channels in (("w", 32), ("v", 48))]
    weights.append(onnx.numpy_helper.from_array(np.array([48]), "channels"))
    node = helper.make_node
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Shape", ["x"], ["batch"], end=1), node("Shape", ["x"], ["width"], start=2),
             node("Concat", ["batch", "channels", "width"], ["sizes"], axis=0), node("Reshape", ["r", "sizes"], ["like_c"]),
             node("Conv", ["like_c", "v"], ["d"]), node("Add", ["c", "d"], ["s"]), node("Relu", ["s"], ["y"])]
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32, "t"]),
             helper.make_tensor_value_info("r", TensorProto.FLOAT, ["p", "q", "u"])]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name="y")], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled = treadle.compile(model, threads=1)
    for batch, width in ((2, 29), (1, 5), (2, 1), (1, 1), (3, 40)):
        agree(compiled, session, {"x": floats(batch, 32, width), "r": floats(batch, 48, width)})
    with pytest.raises(treadle.Error, match="Reshape.*number of elements"):
        compiled.run(None, {"x": floats(2, 32, 4), "r": floats(2, 48, 3)})
    onnx.save(model, tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--dump", "tir", "--dump-dir", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    kernels = [text for text in (tmp_path / "tir.tir").read_text().split("primfn") if "conv2d_NCHWc_add" in text]
    assert any("unscheduled" not in text for text in kernels)
