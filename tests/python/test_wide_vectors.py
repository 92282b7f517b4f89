# SPDX-License-Identifier: Apache-2.0
"""What is compiled for machines with vectors of 512 bits: their graphs and schedules run here with narrower
instructions, their assembly is read."""
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle import relay, te, tir

WIDE = "llvm -mcpu=native -vector-width=512"


class Network:
    """A graph of ONNX nodes with seeded weights."""

    def __init__(self, shape):
        self.rng = np.random.default_rng(3)
        self.shape, self.nodes, self.weights = shape, [], []

    def constant(self, value):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def add(self, op, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def conv(self, x, inputs, outputs, kernel, group=1, **attributes):
        shape = (outputs, inputs // group, kernel, kernel)
        w = self.rng.standard_normal(shape) * (2 / np.prod(shape[1:])) ** 0.5
        b = self.rng.standard_normal(outputs)
        return self.add("Conv", x, self.constant(w.astype(np.float32)), self.constant(b.astype(np.float32)),
                        kernel_shape=[kernel, kernel], pads=[kernel // 2] * 4, group=group, **attributes)

    def model(self, *outputs):
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
                                  made, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def inverted_residual():
    """A block as of MobileNetV3: expansion, depthwise, squeeze and excite, projection, residual; 24 and 72 channels."""
    net = Network((1, 3, 20, 14))
    x = net.add("Relu", net.conv("x", 3, 24, 3))
    y = net.add("HardSwish", net.conv(x, 24, 72, 1))
    y = net.add("HardSwish", net.conv(y, 72, 72, 5, group=72))
    gate = net.add("Relu", net.conv(net.add("GlobalAveragePool", y), 72, 24, 1))
    y = net.add("Mul", y, net.add("HardSigmoid", net.conv(gate, 24, 72, 1), alpha=0.2, beta=0.5))
    y = net.add("Add", x, net.conv(y, 72, 24, 1))
    return net.model(y, net.add("Flatten", net.add("GlobalMaxPool", net.conv(y, 24, 40, 1))))


def pyramid():
    """Resized and joined features of 24 and 40 channels, a transposed convolution, an exponential of the channels."""
    net = Network((1, 3, 16, 24))
    fine = net.add("Sigmoid", net.conv("x", 3, 24, 3))
    coarse = net.conv(fine, 24, 40, 3, strides=[2, 2])
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    up = net.add("Resize", coarse, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric")
    joined = net.conv(net.add("Concat", fine, up, axis=1), 64, 24, 3)
    weight = net.constant((0.1 * net.rng.standard_normal((24, 24, 2, 2))).astype(np.float32))
    large = net.add("ConvTranspose", joined, weight, kernel_shape=[2, 2], strides=[2, 2])
    return net.model(net.add("Exp", net.add("Tanh", joined)), large, net.add("Div", up, net.constant(
        np.linspace(1, 2, 40, dtype=np.float32).reshape(1, 40, 1, 1))))


def grouped():
    """Grouped convolutions of channels that don't divide into blocks, of rows with a rest."""
    net = Network((1, 16, 14, 14))
    x = net.conv("x", 16, 136, 1)
    return net.model(net.conv(x, 136, 136, 1, group=4), net.conv(net.conv(x, 136, 68, 3, group=2), 68, 6, 3, group=2))


@pytest.mark.parametrize("build", [inverted_residual, pyramid, grouped])
def test_wide_graphs_give_the_same_results(build):
    model = build()
    x = np.random.default_rng(0).standard_normal(model_shape(model), dtype=np.float32)
    narrow = treadle.compile(model, target="llvm -mcpu=native -vector-width=256")
    wide = treadle.compile(model, target=WIDE)
    for actual, expected in zip(wide.run(None, {"x": x}), narrow.run(None, {"x": x}), strict=True):
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def model_shape(model):
    return [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]


def inner_loops(asm):
    """The instructions of loops that jump back to their own start."""
    loops = []
    for match in re.finditer(r"^(\.L\w+):\n((?:\t[^\n]*\n)+)", asm, re.M):
        body = match[2].strip().split("\n")
        ends = [i for i, line in enumerate(body) if re.match(rf"\s*j\w+\s+{re.escape(match[1])}$", line)]
        if ends:
            loops.append(body[:ends[0]])
    return loops


def conv_asm(mcpu, outputs, kernel, size=28, inputs=64, **attributes):
    net = Network((1, inputs, size, size))
    mod, params = relay.frontend.from_onnx(net.model(net.conv("x", inputs, outputs, kernel, **attributes)))
    with treadle.transform.PassContext(opt_level=3, config={"relay.PlanLayout.winograd": False}):
        return relay.build(mod, target=f"llvm -mcpu={mcpu}", params=params).get_lib().get_source("asm")


@pytest.mark.parametrize("outputs", [64, 24, 40])
def test_convolutions_sum_in_whole_registers_without_spills(outputs):
    products = [[line for line in loop if "vfmadd" in line] for loop in inner_loops(conv_asm("znver5", outputs, 1))]
    best = max(products, key=len)
    assert len(best) >= 24
    assert all("%zmm" in line for line in best)


def test_inner_loops_of_convolutions_touch_no_stack():
    for loop in inner_loops(conv_asm("znver5", 64, 3)):
        if sum("vfmadd" in line for line in loop) >= 24:
            assert not any("%rsp" in line for line in loop)


def test_tiles_over_the_ends_of_strided_rows_touch_no_stack():
    """The outputs of a tile are in several rows: each has an address of its own."""
    loops = [loop for loop in inner_loops(conv_asm("znver5", 64, 3, size=14, inputs=256, strides=[2, 2]))
             if sum("vfmadd" in line for line in loop) >= 16]
    assert loops
    for loop in loops:
        assert not any("%zmm" in line and "%rsp" in line for line in loop)


@pytest.mark.parametrize("kernel", [1, 3])
def test_loops_of_sixteen_registers_are_mostly_multiply_adds(kernel):
    """What the loop itself takes is divided by the steps that are written out: 12 multiply-adds need 8 loads."""
    best = max(inner_loops(conv_asm("znver3", 64, kernel)), key=lambda loop: sum("vfmadd" in line for line in loop))
    multiply_adds = sum("vfmadd" in line for line in best)
    assert multiply_adds >= 48
    assert len(best) <= multiply_adds * 23 / 12
    assert not any("%ymm" in line and "%rsp" in line for line in best)


@pytest.mark.parametrize("lanes", [5, 9, 17])
def test_masked_loads_with_a_last_part_of_one_lane(lanes):
    """Registers hold a power of two of lanes: a last part of one lane ended the process while compiling."""
    n = te.var("n")
    a = te.placeholder((n,), "float32", name="A")
    b = te.compute((lanes,), lambda i: tir.if_then_else(i < n, a[i], tir.const(7, "float32")), name="B")
    schedule = te.create_schedule(b.op)
    schedule[b].vectorize(b.op.axis[0])
    function = treadle.build(schedule, [a, b], "llvm")
    for count in (1, lanes - 1, lanes):
        result = treadle.nd.array(np.zeros(lanes, "float32"))
        function(treadle.nd.array(np.arange(count, dtype="float32")), result)
        expected = np.full(lanes, 7, "float32")
        expected[:count] = np.arange(count)
        np.testing.assert_array_equal(result.numpy(), expected)


def test_gathers_where_they_are_fast():
    """Elements that a vector of indices names are gathered on processors that don't take longer for it than for loads."""
    from treadle import te

    def gather(target):
        a, at = te.placeholder((100,), name="a"), te.placeholder((64,), "int32", name="at")
        b = te.compute((64,), lambda i: a[at[i]], "b")
        s = te.create_schedule(b.op)
        s[b].vectorize(s[b].split(b.op.axis[0], 16)[1])
        return treadle.build(s, [a, at, b], target=target)

    assert "vgatherdps" in gather("llvm -mcpu=sapphirerapids").get_source("asm")
    for slow in ("znver4", "icelake-server", "x86-64-v3"):
        assert "vgather" not in gather(f"llvm -mcpu={slow}").get_source("asm")
    rng = np.random.default_rng(0)
    a, at = rng.random(100, np.float32), rng.integers(0, 100, 64).astype(np.int32)
    result = treadle.nd.array(np.zeros(64, np.float32))
    gather("llvm -mcpu=native")(treadle.nd.array(a), treadle.nd.array(at), result)
    np.testing.assert_array_equal(result.numpy(), a[at])
