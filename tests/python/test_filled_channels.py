# SPDX-License-Identifier: Apache-2.0
"""Networks whose channels don't divide into blocks: results equal those of the same network in plain layouts."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle


class Net:
    """Appends nodes with random weights; each method takes a value's name and gives one."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def constant(self, value):
        self.weights.append(numpy_helper.from_array(np.asarray(value), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def normal(self, *shape):
        return self.constant(self.rng.standard_normal(shape).astype(np.float32))

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names if outputs > 1 else names[0]

    def conv(self, x, inputs, outputs, kernel=1, stride=1, group=1):
        scale = (2 * group / (inputs * kernel * kernel)) ** 0.5
        w = self.rng.standard_normal((outputs, inputs // group, kernel, kernel)) * scale
        return self.add("Conv", x, self.constant(w.astype(np.float32)), self.normal(outputs), group=group,
                        strides=[stride] * 2, pads=[kernel // 2] * 4, kernel_shape=[kernel] * 2)

    def model(self, y, shape):
        graph = helper.make_graph(
            self.nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["a", "b", "c", "d"])], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def residual(net):
    x = net.add("Relu", net.conv("x", 12, 20))
    y = net.add("Relu", net.conv(x, 20, 20, 3, group=20))
    return net.conv(net.add("Add", x, net.conv(y, 20, 20)), 20, 36, 3, stride=2)


def concatenated(net):
    x = net.conv("x", 12, 36)
    y = net.conv(x, 36, 36, 3, group=36)
    return net.conv(net.add("Concat", x, y, net.conv(x, 36, 44), axis=1), 116, 52)


def last_part_filled(net):
    return net.conv(net.add("Concat", net.conv("x", 12, 32), net.conv("x", 12, 44, 3), axis=1), 76, 20)


def one_channel_broadcast(net):
    """What is broadcast to the result is the only operand in blocks."""
    mean = net.add("GlobalAveragePool", net.conv("x", 12, 1, 3))
    return net.add("Max", net.normal(5, 7), mean)


def gate(net):
    x = net.conv("x", 12, 28)
    y = net.add("Relu", net.conv(net.add("GlobalAveragePool", x), 28, 5))
    return net.conv(net.add("Mul", x, net.add("Sigmoid", net.conv(y, 5, 28))), 28, 12)


def functions_without_bounds(net):
    """Zeros in filled channels would become infinite or no numbers at all."""
    x = net.add("Relu", net.conv("x", 12, 20))
    x = net.add("Exp", net.add("Sub", net.constant(np.float32(1)), x))
    x = net.add("Add", x, net.add("Div", net.constant(np.float32(1)), x))
    x = net.add("Div", net.conv(x, 20, 20), net.add("Sqrt", net.add("Abs", net.conv(x, 20, 20))))
    x = net.add("Div", x, net.constant(np.full((20, 1, 1), 2, np.float32)))
    return net.conv(x, 20, 12, 3)


def scaled(net):
    x = net.add("Mul", net.conv("x", 12, 20), net.normal(20, 1, 1))
    x = net.add("Max", x, net.normal(1, 20, 1, 1))
    x = net.add("Add", net.add("Div", x, net.constant(np.float32(3))), net.normal(20, 17, 19))
    return net.conv(net.add("Add", x, net.normal(17, 19)), 20, 12)


def pooled(net):
    x = net.add("MaxPool", net.conv("x", 12, 44), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = net.add("AveragePool", net.conv(x, 44, 20), kernel_shape=[3, 3], pads=[1] * 4)
    return net.add("LRN", x, size=5)


def shuffled(net):
    left, right = net.add("Split", net.conv("x", 12, 116), outputs=2, axis=1)
    right = net.conv(net.conv(right, 58, 58, 3, group=58), 58, 58)
    y = net.add("Concat", left, right, axis=1)
    y = net.add("Reshape", y, net.constant(np.int64([1, 2, 58, 17, 19])))
    y = net.add("Reshape", net.add("Transpose", y, perm=[0, 2, 1, 3, 4]), net.constant(np.int64([1, 116, 17, 19])))
    return net.conv(y, 116, 20)


def narrow_groups(net):
    x = net.add("Relu", net.conv("x", 12, 48))
    x = net.add("Relu", net.conv(x, 48, 48, 3, group=12))
    x = net.conv(x, 48, 96, 3, stride=2, group=4)
    return net.conv(net.conv(x, 96, 96, 3, group=24), 96, 96, 3, group=32)


def shuffle(net, x, channels, groups, height, width):
    y = net.add("Reshape", x, net.constant(np.int64([0, groups, channels // groups, height, width])))
    return net.add("Reshape", net.add("Transpose", y, perm=[0, 2, 1, 3, 4]),
                   net.constant(np.int64([0, channels, height, width])))


def shuffled_groups(net):
    """Units as of ShuffleNet: groups whose channels don't divide into blocks, shuffled between the convolutions."""
    x = net.add("Relu", net.conv("x", 12, 60, group=3))
    y = net.conv(shuffle(net, x, 60, 3, 17, 19), 60, 60, 3, group=60)
    y = net.conv(y, 60, 60, group=3)
    x = net.add("Relu", net.add("Add", x, net.add("Mul", y, net.normal(60, 1, 1))))
    y = net.conv(shuffle(net, net.conv(x, 60, 102, group=3), 102, 3, 17, 19), 102, 102, 3, stride=2, group=102)
    x = net.add("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = net.add("Relu", net.add("Concat", x, net.conv(y, 102, 84, group=3), axis=1))
    return net.conv(shuffle(net, net.conv(x, 144, 144, 3, group=4), 144, 4, 9, 10), 144, 36)


def shuffled_for_others(net):
    """What is shuffled goes to operators that need channels in their order."""
    x = net.conv("x", 12, 96, group=3)
    y = shuffle(net, x, 96, 3, 17, 19)
    z = net.add("Add", net.add("LRN", y, size=3), net.add("MaxPool", y, kernel_shape=[3, 3], pads=[1] * 4))
    left, right = net.add("Split", shuffle(net, net.conv(z, 96, 96), 96, 6, 17, 19), outputs=2, axis=1)
    return net.add("Concat", net.conv(left, 48, 20), right, z, axis=1)


def scales(net):
    """A unit of Res2Net, whose parts begin and end amid blocks; the last one isn't convolved."""
    parts = net.add("Split", net.add("Relu", net.conv("x", 12, 104)), outputs=4, axis=1)
    y = [net.add("Relu", net.conv(parts[0], 26, 26, 3))]
    for part in parts[1:3]:
        y.append(net.add("Relu", net.conv(net.add("Add", y[-1], part), 26, 26, 3)))
    return net.conv(net.add("Concat", *y, parts[3], axis=1), 104, 48)


def wide_groups(net):
    x = net.add("Relu", net.conv("x", 12, 72))
    y = net.add("Relu", net.conv(x, 72, 72, 3, group=3))
    gate = net.add("Sigmoid", net.conv(net.add("GlobalAveragePool", y), 72, 72))
    return net.add("Add", x, net.conv(net.add("Mul", y, gate), 72, 72))


def transposed(net):
    x = net.add("ConvTranspose", net.conv("x", 12, 20), net.normal(20, 12, 2, 2), strides=[2, 2])
    return net.conv(x, 12, 12)


@pytest.mark.parametrize("build", [residual, concatenated, last_part_filled, one_channel_broadcast, gate,
                                   functions_without_bounds, scaled, pooled, shuffled, narrow_groups, shuffled_groups,
                                   shuffled_for_others, scales, wide_groups, transposed])
@pytest.mark.parametrize("batch, width", [(1, 256), (2, 256), (1, 512)])
def test_filled_channels(build, batch, width):
    if batch == 2 and build is shuffled:
        pytest.skip("states its sizes")
    net = Net(3)
    shape = [batch, 12, 17, 19]
    model = net.model(build(net), shape)
    x = {"x": net.rng.standard_normal(shape).astype(np.float32)}
    actual = treadle.compile(model, target=f"llvm -mcpu=native -vector-width={width}").run(None, x)[0]
    expected = treadle.compile(model, disabled_pass=["PlanLayout"]).run(None, x)[0]
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= 1e-4 * (expected.max() - expected.min())


def test_filled_channels_of_unknown_sizes():
    net = Net(4)
    model = net.model(residual(net), ["n", 12, "h", "w"])
    compiled = treadle.compile(model)
    for shape in ((1, 12, 9, 14), (2, 12, 21, 5)):
        x = {"x": net.rng.standard_normal(shape).astype(np.float32)}
        expected = treadle.compile(model, shapes={"x": shape}, disabled_pass=["PlanLayout"]).run(None, x)[0]
        assert np.abs(compiled.run(None, x)[0] - expected).max() <= 1e-4 * (expected.max() - expected.min())


@pytest.mark.parametrize("shape", [(1, 24, 7, 7), (2, 16, 14, 14), (1, 40, 3, 33), (1, 12, 5, 1)])
def test_layouts_are_changed_and_changed_back(shape):
    """Images of sizes that vectors do or don't divide, from and to plain layouts."""
    net = Net(5)
    x = net.add("Abs", net.conv("x", shape[1], 48))
    y = net.add("Transpose", net.add("Softmax", net.add("Transpose", x, perm=[0, 3, 1, 2]), axis=2), perm=[0, 2, 3, 1])
    model = net.model(net.conv(net.add("Add", net.add("Softmax", x, axis=1), y), 48, 24), shape)
    x = {"x": net.rng.standard_normal(shape).astype(np.float32)}
    expected = treadle.compile(model, target="c", disabled_pass=["PlanLayout"]).run(None, x)[0]
    assert np.abs(treadle.compile(model).run(None, x)[0] - expected).max() <= 1e-4 * np.ptp(expected)


@pytest.mark.parametrize("activation", [None, "Relu", "Sigmoid", "HardSwish"])
@pytest.mark.parametrize("channels", [(3, 24, 24, 5), (8, 12, 20), (16, 40, 24, 24), (3, 20, 17)])
def test_infinities_stay_in_their_channels(channels, activation):
    """Channels that fill up a block are sums of products with zeros, NaN where the data are infinite."""
    net = Net(3)
    y = "x"
    for inputs, outputs in zip(channels, channels[1:]):
        y = net.add("Conv", y, net.constant(np.abs(net.rng.standard_normal((outputs, inputs, 1, 1))).astype(np.float32)))
        y = net.add(activation, y) if activation else y
    x = net.rng.random((1, channels[0], 10, 10), dtype=np.float32)
    x[0, 1, 4, 5] = np.inf
    model = net.model(y, x.shape)
    expected = treadle.compile(model, opt_level=0).run(None, {"x": x})[0]
    assert not np.isnan(expected).any()
    np.testing.assert_allclose(treadle.compile(model).run(None, {"x": x})[0], expected, rtol=1e-4)


@pytest.mark.parametrize("operand", [(32, 16), (1, 1), (16,), (1, 32, 1), (2, 1, 3, 1)])
@pytest.mark.parametrize("channels", [1, 3, 8])
@pytest.mark.parametrize("op", ["Max", "Sum", "Where"])
def test_results_of_one_pixel_beside_operands_of_other_ranks(op, channels, operand):
    """One channel was planned in blocks of eight, and refused: dimension 4 must be 8, is 1."""
    if channels > 1 and len(operand) == 3:
        operand = (channels, *operand[1:])
    net = Net(7)
    y = net.add("Conv", "x", net.normal(channels, 3, 3, 3), net.normal(channels), dilations=[2, 2], pads=[1, 0, 0, 1], strides=[2, 2])
    if op == "Where":
        y = net.add(op, net.add("Greater", y, net.constant(np.float32(0))), y, "z")
    else:
        y = net.add(op, "z", y, net.constant(np.float32(0.1)))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4, 5]), helper.make_tensor_value_info("z", TensorProto.FLOAT, operand)]
    graph = helper.make_graph(net.nodes, "net", inputs, [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    feeds = {"x": net.rng.standard_normal((2, 3, 4, 5)).astype(np.float32), "z": net.rng.standard_normal(operand).astype(np.float32)}
    expected = ReferenceEvaluator(model).run(None, feeds)[0]
    np.testing.assert_allclose(treadle.compile(model).run(None, feeds)[0], expected, 1e-4, 1e-5)


@pytest.mark.parametrize("build", [residual, concatenated, last_part_filled, pooled, shuffled, shuffled_groups,
                                   shuffled_for_others, scales, transposed])
@pytest.mark.parametrize("width", [256, 512])
def test_infinities_reach_what_they_reach_in_plain_layouts(build, width):
    """Padding is set to 0 only where a reader mixes it into other channels, directly or through others."""
    net = Net(3)
    model = net.model(build(net), (1, 12, 17, 19))
    x = net.rng.standard_normal((1, 12, 17, 19), dtype=np.float32)
    x[0, 1, 1, 1] = np.inf
    expected = treadle.compile(model, opt_level=0).run(None, {"x": x})[0]
    # Winograd's method makes NaN of a whole tile.
    actual = treadle.compile(model, target=f"llvm -mcpu=native -vector-width={width}",
                             pass_config={"relay.PlanLayout.winograd": False}).run(None, {"x": x})[0]
    np.testing.assert_array_equal(np.isfinite(actual), np.isfinite(expected))
    assert np.isfinite(expected).any()
    finite = np.isfinite(expected)
    assert np.abs(actual[finite] - expected[finite]).max() <= 1e-4 * np.ptp(expected[finite])


@pytest.mark.parametrize("width", [256, 512])
def test_an_input_of_groups_and_of_a_whole_convolution(width):
    """Groups of 12 channels are in blocks of their own, with others between them; so the other convolution reads them."""
    net, shape = Net(5), [1, 24, 15, 27]
    model = net.model(net.add("Concat", net.conv("x", 24, 16, 3, group=2), net.conv("x", 24, 16, 3), axis=1), shape)
    x = {"x": net.rng.standard_normal(shape).astype(np.float32)}
    actual = treadle.compile(model, target=f"llvm -mcpu=native -vector-width={width}").run(None, x)[0]
    np.testing.assert_allclose(actual, ReferenceEvaluator(model).run(None, x)[0], rtol=0, atol=1e-4)


def test_an_empty_operand_beside_a_convolution():
    net, shape = Net(6), [6, 1, 1, 1]
    model = net.model(net.add("Add", net.conv("x", 1, 10), net.normal(3, 0)), shape)
    x = {"x": net.rng.standard_normal(shape).astype(np.float32)}
    assert treadle.compile(model).run(None, x)[0].shape == (6, 10, 3, 0)
