# SPDX-License-Identifier: Apache-2.0
"""Every operator that moves data, fused with every element-wise one, which uses it once and several times: the borders
that fusion and loop partitioning cut (padding, parts, other sizes) must keep their values. One model has them all; the
expected results are those of ONNX Runtime without its own fusion."""
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

ROWS, COLUMNS = 7, 9  # no multiple of a vector


class Model:
    def __init__(self):
        self.nodes, self.initializers, self.outputs = [], [], []

    def constant(self, value, dtype=np.float32):
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def ints(self, values):
        return self.constant(values, np.int64)

    def node(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def build(self):
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, ROWS, COLUMNS]) for name in "xy"]
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "moves", inputs, outputs, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def moves(m, x, y):
    """Names of values made of x and y without arithmetic, by what made them."""
    pads = m.ints([0, 0, 1, 2, 0, 0, 3, 1])
    made = {f"pad {mode}": m.node("Pad", x, pads, mode=mode) for mode in ("reflect", "edge", "wrap")}
    for value in (0.5, -2, 0):
        made[f"pad {value}"] = m.node("Pad", x, pads, m.constant(value))
    made["crop"] = m.node("Pad", x, m.ints([0, 1, -1, 2, 0, -1, 2, -3]), m.constant(3))
    made["concat rows"] = m.node("Concat", x, y, axis=2)
    made["concat columns"] = m.node("Concat", x, y, x, axis=3)
    made["slice"] = m.node("Slice", x, m.ints([1, 2]), m.ints([6, 9]), m.ints([2, 3]))
    made["slice back"] = m.node("Slice", x, m.ints([-1]), m.ints([-9]), m.ints([3]), m.ints([-2]))
    made["split"] = m.node("Slice", x, m.ints([0]), m.ints([4]), m.ints([3]), m.ints([1]))
    made["gather"] = m.node("Gather", x, m.ints([4, -1, 0, 4]), axis=3)
    made["gather elements"] = m.node("GatherElements", x, m.ints(np.arange(2 * 3 * 7 * 2).reshape(2, 3, 7, 2) % 18 - 9),
                                     axis=3)
    made["gather nd"] = m.node("GatherND", x, m.ints([[1, 2], [0, -1], [1, 0]]))
    made["scatter"] = m.node("ScatterElements", x, m.ints([[[[3]] * 7] * 3] * 2), m.constant([[[[1.5]] * 7] * 3] * 2),
                             axis=3)
    made["transpose"] = m.node("Transpose", x, perm=[0, 3, 1, 2])
    made["reshape"] = m.node("Reshape", x, m.ints([6, 63]))
    made["expand"] = m.node("Expand", m.node("Slice", x, m.ints([2]), m.ints([3]), m.ints([2])), m.ints([2, 3, 4, 9]))
    made["tile"] = m.node("Tile", x, m.ints([1, 1, 2, 2]))
    made["nearest"] = m.node("Resize", x, "", m.constant([1, 1, 1.5, 2]), mode="nearest")
    made["depth"] = m.node("DepthToSpace", m.node("Tile", x, m.ints([1, 4, 1, 1])), blocksize=2)
    made["space"] = m.node("SpaceToDepth", m.node("Slice", x, m.ints([0, 1]), m.ints([6, 9]), m.ints([2, 3])),
                           blocksize=2)
    made["triangle"] = m.node("Trilu", x, upper=0)
    made["reverse"] = m.node("ReverseSequence", x, m.ints([2, 3]), batch_axis=0, time_axis=1)
    made["where"] = m.node("Where", m.node("Greater", y, m.constant(0.5)), x, m.constant(-1))
    return made


ONCE = "Abs Ceil Cos Erf Exp Floor HardSigmoid Neg Reciprocal Relu Round Sigmoid Sin Sqrt Tanh Atan".split()
SEVERAL_TIMES = ("Sign HardSwish LeakyRelu Elu Selu Celu ThresholdedRelu Softplus Softsign Gelu Mish Shrink "
                 "Asinh square rest between").split()


def element_wise(m, op, x):
    if op == "Sqrt":
        return m.node(op, m.node("Abs", x))
    if op == "Reciprocal":
        return m.node(op, m.node("Add", x, m.constant(5)))
    if op == "square":
        return m.node("Mul", x, x)
    if op == "rest":
        return m.node("Sub", x, m.node("Tanh", x))
    if op == "between":
        return m.node("Max", x, m.node("Mul", x, m.constant(0.25)), m.constant(0.1))
    return m.node(op, x)


def combine(m, x, ops):
    """A sum, in one kernel, of what the operators make of x."""
    total = element_wise(m, ops[0], x)
    for k, op in enumerate(ops[1:]):
        total = m.node("Add", total, m.node("Mul", element_wise(m, op, x), m.constant(0.5 + k)))
    return total


def full():
    """All pairs: operators in threes, another set of threes for each kind of move."""
    m = Model()
    for k, (name, value) in enumerate(moves(m, "x", "y").items()):
        ops = ONCE + SEVERAL_TIMES
        ops = ops[k:] + ops[:k]
        for i in range(0, len(ops), 8):
            m.outputs.append(combine(m, value, ops[i:i + 8]))
    return m.build()


def single():
    """Each move with one operator alone, another one each."""
    m = Model()
    for k, (name, value) in enumerate(moves(m, "x", "y").items()):
        m.outputs.append(element_wise(m, (SEVERAL_TIMES * 2)[k], value))
        m.outputs.append(element_wise(m, (ONCE * 2)[k], value))
    return m.build()


@pytest.fixture(scope="module")
def feeds():
    random = np.random.default_rng(3)
    return {name: random.uniform(-3, 3, (2, 3, ROWS, COLUMNS)).astype(np.float32) for name in "xy"}


@pytest.fixture(scope="module")
def expected(feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL

    def run(model):
        return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)

    return {make: run(make()) for make in (full, single)}


@pytest.mark.parametrize("make,target,opt_level", [
    (full, "llvm -mcpu=native", 3), (full, "llvm -mcpu=native", 0),
    (single, "llvm -mcpu=native", 1), (single, "llvm -mcpu=native", 2), (single, "llvm", 3),
    (single, "c", 3), (single, "c", 0), (single, "stackvm", 3), (single, "stackvm", 1)])
def test_moves_keep_their_values_when_fused(make, target, opt_level, feeds, expected):
    model = make()
    results = treadle.compile(model, target=target, opt_level=opt_level).run(None, feeds)
    names = {name: node for node in model.graph.node for name in node.output}
    for output, ours, theirs in zip(model.graph.output, results, expected[make]):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4, err_msg=str(names[output.name]))


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c", "stackvm"])
def test_a_padded_border_is_no_constant(target):
    """The border and the inside of a padded image bind one variable of the fused kernel to different values."""
    m = Model()
    padded = m.node("Pad", "x", m.ints([0, 0, 1, 1, 0, 0, 1, 1]), m.constant(0.5))
    m.outputs = [m.node("Sign", padded), m.node("Max", padded, padded, m.constant(0.1))]
    x = np.random.default_rng(0).uniform(-1, 1, (2, 3, ROWS, COLUMNS)).astype(np.float32)
    wide = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=0.5)
    for level in range(4):
        model = treadle.compile(m.build(), target=target, opt_level=level)
        sign, larger = model.run(None, {"x": x, "y": x})
        np.testing.assert_array_equal(sign, np.sign(wide))
        np.testing.assert_array_equal(larger, np.maximum(wide, np.float32(0.1)))


@pytest.mark.parametrize("channels", [(3, 4), (24, 17)])
def test_mirrored_rows_of_upsampled_images_of_any_size(channels):
    """Blocks of channels are read as columns, at rows whose number is computed once for several elements."""
    numbers = np.random.default_rng(1)
    weights = numpy_helper.from_array(numbers.standard_normal((*channels, 2, 1)).astype("f4"), "w")
    pads = numpy_helper.from_array(np.array([0, 0, 1, 0, 0, 0, 1, 0]), "p")
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["c"], strides=[2, 1]), helper.make_node("Pad", ["c", "p"], ["y"], mode="reflect")]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, channels[0], "h", "w"])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")], [weights, pads])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    compiled = treadle.compile(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for size in ((4, 17), (1, 3), (2, 8)):
        x = numbers.standard_normal((2, channels[0], *size)).astype("f4")
        np.testing.assert_allclose(compiled.run(None, {"x": x})[0], session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
