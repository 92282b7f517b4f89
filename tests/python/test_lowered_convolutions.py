# SPDX-License-Identifier: Apache-2.0
"""Networks of one- and three-dimensional convolutions, which run as two-dimensional ones, and operators that run on
blocks of channels between convolutions, against ONNX's reference implementation."""
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle
from treadle import relay


class Net:
    """A chain of nodes with random weights; the last value is the result."""

    def __init__(self, *shape):
        self.rng = np.random.default_rng(3)
        self.shape, self.nodes, self.weights, self.last = shape, [], [], "x"

    def weight(self, array):
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def floats(self, *shape):
        return self.weight((self.rng.standard_normal(shape) * (2 / np.prod(shape[1:])) ** 0.5).astype(np.float32))

    def add(self, op, *more, inputs=None, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs or [self.last, *more], [name], **attributes))
        self.last = name
        return name

    def conv(self, channels, outputs, *kernel, op="Conv", group=1, **attributes):
        shape = (outputs, channels // group, *kernel) if op == "Conv" else (channels, outputs, *kernel)
        self.add(op, self.floats(*shape), self.floats(outputs), kernel_shape=kernel, group=group, **attributes)
        return self.last

    def check(self):
        def model(results):
            graph = helper.make_graph(self.nodes, "g",
                                      [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)], results,
                                      self.weights)
            return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

        x = {"x": self.rng.standard_normal(self.shape).astype(np.float32)}
        expected = ReferenceEvaluator(model([onnx.ValueInfoProto(name=self.last)])).run(None, x)[0]
        result = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, expected.shape)
        actual = treadle.compile(model([result]).SerializeToString()).run(None, x)[0]
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=2e-5 * np.ptp(expected))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("strides", [(1, 1, 1), (2, 2, 2)])
def test_volumes(batch, strides):
    net = Net(batch, 3, 6, 10, 10)
    net.conv(3, 16, 3, 3, 3, pads=[1] * 6)
    left = net.add("Relu")
    net.conv(16, 16, 3, 3, 3, pads=[1] * 6)
    net.add("Add", inputs=[left, net.last])
    net.conv(16, 32, 3, 3, 3, pads=[1, 0, 1, 0, 1, 0], strides=strides)
    net.add("Mul", net.floats(32, 1, 1, 1))
    net.conv(32, 12, 1, 1, 1)
    net.check()


def test_volumes_dilated_and_depthwise():
    net = Net(1, 16, 7, 8, 8)
    net.conv(16, 16, 3, 3, 3, pads=[2, 1, 1, 2, 1, 1], dilations=[2, 1, 1], group=16)
    net.add("Relu")
    net.conv(16, 32, 3, 1, 1, pads=[1, 0, 0, 1, 0, 0])
    net.check()


@pytest.mark.parametrize("batch", [1, 2])
def test_pools_of_volumes(batch):
    net = Net(batch, 8, 6, 12, 12)
    net.conv(8, 16, 3, 3, 3, pads=[1] * 6)
    net.add("MaxPool", kernel_shape=[3, 3, 3], strides=[2, 2, 2], pads=[1] * 6)
    net.add("AveragePool", kernel_shape=[2, 2, 2], strides=[1, 2, 2])
    net.add("GlobalAveragePool")
    net.check()


@pytest.mark.parametrize("batch", [1, 2])
def test_volumes_made_larger(batch):
    net = Net(batch, 4, 4, 6, 6)
    net.conv(4, 16, 3, 3, 3, pads=[1] * 6)
    left = net.add("Relu")
    net.add("MaxPool", kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    net.conv(16, 8, 2, 2, 2, op="ConvTranspose", strides=[2, 2, 2])
    net.add("Concat", inputs=[left, net.last], axis=1)
    net.conv(24, 5, 3, 3, 3, pads=[1] * 6)
    net.check()


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("kernel, attributes", [
    (3, dict(strides=[2, 2, 2], pads=[1] * 6, output_padding=[1, 1, 1])), (3, dict(pads=[1] * 6)), (4, dict(strides=[2, 1, 2], pads=[1] * 6)),
    (5, dict(strides=[3, 2, 2], pads=[0, 1, 1, 2, 1, 1])), (1, dict(strides=[2, 1, 1])), (2, dict(strides=[3, 2, 2], output_padding=[1, 0, 0]))])
def test_volumes_made_larger_by_windows_of_any_size(batch, kernel, attributes):
    net = Net(batch, 4, 3, 6, 5)
    net.conv(4, 16, 3, 3, 3, pads=[1] * 6)
    net.conv(16, 8, *[kernel] * 3, op="ConvTranspose", **attributes)
    net.add("Relu")
    net.conv(8, 5, 3, 3, 3, pads=[1] * 6)
    net.check()


@pytest.mark.parametrize("depth", [4, "d"])
def test_infinities_stay_within_their_windows(depth):
    rng = np.random.default_rng(3)
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2, 2], pads=[1] * 6)], "volume",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, depth, 5, 5])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(rng.uniform(0.5, 1, (3, 4, 3, 3, 3)).astype(np.float32), "w")])
    x = rng.standard_normal((1, 3, 4, 5, 5)).astype(np.float32)
    x[0, 1, 2, 2, 2] = np.inf
    y = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))(x=x)["y"]
    reached = np.isinf(y[0, 0])
    assert reached[3:6, 3:6, 3:6].all() and np.isfinite(y[0, 0][~reached]).all() and reached.sum() == 27


def test_causal_sequences():
    net = Net(2, 4, 40)
    net.conv(4, 16, 3, pads=[4, 4], dilations=[2])
    ints = [net.weight(np.int64([value])) for value in (0, -4, 2)]
    left = net.add("Slice", *ints)
    net.add("Pad", net.weight(np.int64([0, 0, 3, 0, 0, 0])))
    net.conv(16, 16, 4)
    net.add("Concat", inputs=[left, net.last], axis=1)
    net.add("MaxPool", kernel_shape=[2], strides=[2])
    net.conv(32, 8, 4, op="ConvTranspose", strides=[2], pads=[1, 1])
    net.check()


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_blocks_of_channels_resized_split_and_cut(mode):
    net = Net(1, 3, 12, 14)
    net.conv(3, 64, 3, 3, pads=[1] * 4)
    net.add("Relu")
    whole = net.last
    net.nodes.append(helper.make_node("Split", [whole, net.weight(np.int64([16, 32, 16]))], ["a", "b", "c"], axis=1))
    net.add("Resize", inputs=["b", "", net.weight(np.float32([1, 1, 2, 2]))], mode=mode, nearest_mode="floor",
            coordinate_transformation_mode="asymmetric" if mode == "nearest" else "half_pixel")
    net.conv(32, 16, 3, 3, strides=[2, 2], pads=[1] * 4)
    net.add("Concat", inputs=["a", net.last, "c"], axis=1)
    net.add("Pad", net.weight(np.int64([0, 0, 1, 0, 0, 0, 0, 2])), mode="reflect")
    net.conv(48, 16, 3, 3)
    mean = net.add("ReduceMean", axes=[2, 3], keepdims=1)
    net.add("Sub", inputs=[net.nodes[-2].output[0], mean])
    net.check()


@pytest.mark.parametrize("axes", [[2, 3], [3]])
@pytest.mark.parametrize("keep", [0, 1])
def test_rows_and_columns_reduced(axes, keep):
    net = Net(2, 3, 9, 10)
    net.conv(3, 32, 3, 3)
    net.add("ReduceMax", axes=axes, keepdims=keep)
    net.check()


@pytest.mark.parametrize("size, dilation", [((7, 9), 12), ((1, 1), 1), ((5, 20), 6)])
def test_taps_in_the_padding(size, dilation):
    net = Net(1, 16, *size)
    net.conv(16, 16, 3, 3, pads=[dilation] * 4, dilations=[dilation] * 2)
    net.check()


@pytest.mark.parametrize("mode, transformation", [("linear", "half_pixel"), ("linear", "align_corners"),
                                                  ("cubic", "half_pixel"), ("cubic", "asymmetric")])
@pytest.mark.parametrize("blocked", [True, False])
def test_images_resized_by_rows(mode, transformation, blocked):
    net = Net(2, 3, 7, 9)
    net.conv(3, 16, 3, 3, pads=[1] * 4)
    net.add("Resize", "", "", net.weight(np.int64([2, 16, 16, 20])), mode=mode,
            coordinate_transformation_mode=transformation, cubic_coeff_a=-0.5)
    if blocked:
        net.add("Relu")
        net.conv(16, 16, 3, 3)
    net.check()


@pytest.mark.parametrize("activation", ["Elu", "Selu", "Celu", "PRelu", "Mish", "Softplus", "Gelu"])
def test_activations_between_convolutions(activation):
    net = Net(1, 3, 8, 8)
    before = net.conv(3, 24, 3, 3, pads=[1] * 4)
    if activation == "Mish":
        net.add("Softplus")
        net.add("Tanh")
        net.add("Mul", inputs=[before, net.last])
    elif activation == "Gelu":
        net.add("Div", net.weight(np.float32(2 ** 0.5)))
        net.add("Erf")
        net.add("Add", net.weight(np.float32(1)))
        net.add("Mul", inputs=[before, net.last])
        net.add("Mul", net.weight(np.float32(0.5)))
    else:
        net.add(activation, *([net.floats(24, 1, 1)] if activation == "PRelu" else []))
    net.conv(24, 24, 3, 3)
    net.check()


@pytest.mark.parametrize("activation", ["Tanh", "Sigmoid", "Erf"])
def test_costly_values_read_twice_after_pointwise_convolutions(activation):
    net = Net(2, 18, 4, 7)
    before = net.conv(18, 16, 1, 1)
    costly = net.add(activation)
    net.add("Add", before)
    net.add("Mul", inputs=[costly, net.last])
    net.check()


def test_sequences_normalised():
    net = Net(2, 3, 50)
    net.conv(3, 32, 5, strides=[2])
    net.add("InstanceNormalization", net.floats(32), net.floats(32))
    net.add("Relu")
    net.conv(32, 16, 3)
    net.check()


@pytest.mark.parametrize("kernel, stride, size", [(1, 2, 1), (1, 3, 4), (2, 2, 4), (2, 3, 5)])
def test_unknown_sizes_made_larger_by_kernels_within_the_stride(kernel, stride, size):
    rng = np.random.default_rng(4)
    weight = numpy_helper.from_array(rng.standard_normal((5, 2, kernel)).astype(np.float32), "w")
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[stride])
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 5, "l"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2, None])], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = {"x": rng.standard_normal((3, 5, size)).astype(np.float32)}
    expected = ReferenceEvaluator(model).run(None, x)[0]
    np.testing.assert_allclose(treadle.compile(model).run(None, x)[0], expected, rtol=1e-4, atol=1e-5)


def test_expanded_results_of_one_dimensional_convolutions():
    """The shape that is an operand of an expansion isn't data: it doesn't get the convolution's second dimension."""
    weight = np.random.default_rng(0).standard_normal((2, 1, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Expand", ["c", "s"], ["y"]),
         helper.make_node("Mul", ["c", "c"], ["z"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 6])],
        [helper.make_empty_tensor_value_info(name) for name in "yz"],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array([3, 1, 1], np.int64), "s")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = {"x": np.random.default_rng(1).standard_normal((3, 1, 6)).astype(np.float32)}
    for ours, theirs in zip(treadle.compile(model).run(None, x), ReferenceEvaluator(model).run(None, x)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [1, 2, -1, -2])
@pytest.mark.parametrize("op", ["bias_add", "prelu"])
def test_vectors_along_any_axis_of_one_dimensional_convolutions(op, axis):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 2, 9)).astype(np.float32), rng.standard_normal((4, 2, 3)).astype(np.float32)
    vector = rng.standard_normal((4, 7)[0 if axis in (1, -2) else 1]).astype(np.float32)
    data = relay.var("x", shape=x.shape, dtype="float32")
    conv = relay.nn.conv1d(data, relay.const(w), channels=4, kernel_size=3)
    results = {}
    for name, body in {"conv": conv, op: getattr(relay.nn, op)(conv, relay.const(vector), axis=axis)}.items():
        with treadle.transform.PassContext(opt_level=3):
            library = relay.build(treadle.IRModule.from_expr(relay.Function([data], body)), target="llvm -mcpu=native")
        executor = treadle.contrib.graph_executor.GraphModule(library["default"](treadle.cpu()))
        executor.run(x=x)
        results[name] = executor.get_output(0).numpy()
    along = vector.reshape(-1, 1) if axis in (1, -2) else vector
    plain = results["conv"]
    expected = plain + along if op == "bias_add" else np.where(plain > 0, plain, along * plain)
    np.testing.assert_allclose(results[op], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape, kernel", [((0, 2, 4, 5, 6), (3, 3, 3)), ((0, 2, 7), (3,)), ((0, 2, 5, 5), (3, 3))])
def test_batches_of_no_images(shape, kernel):
    net = Net(*shape)
    net.conv(2, 4, *kernel)
    net.add("Relu")
    net.conv(4, 3, *[1] * len(kernel))
    graph = helper.make_graph(net.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_empty_tensor_value_info(net.last)], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    y = treadle.compile(model).run(None, {"x": np.zeros(shape, np.float32)})[0]
    assert y.shape == (0, 3, *(size - k + 1 for size, k in zip(shape[2:], kernel)))


OPEN = [("Conv", (6, 8, 3, 3, 3), dict(pads=[1] * 6), (1, 8, "d", "h", "w")), ("Conv", (6, 8, 3, 3, 3), dict(pads=[1] * 6, strides=[2, 1, 2]), ("n", 8, 7, "h", "w")),
        ("Conv", (6, 8, 3, 3, 3), dict(pads=[2] * 6, dilations=[2, 2, 2]), (2, 8, "d", 9, 10)), ("Conv", (6, 8, 1, 1, 1), dict(strides=[2, 2, 2]), (1, 8, "d", "h", "w")),
        ("ConvTranspose", (8, 6, 2, 2, 2), dict(strides=[2, 2, 2]), (1, 8, "d", "h", "w")), ("ConvTranspose", (8, 6, 3, 2, 2), dict(strides=[3, 2, 1]), ("n", 8, 4, "h", "w")),
        ("Conv", (6, 8, 3, 3, 3), dict(pads=[1] * 6), ("n", 8, "d", "h", "w")), ("Conv", (6, 8, 3, 3, 3), dict(pads=[1] * 6, strides=[2, 2, 2]), ("n", 8, "d", 9, "w")),
        ("ConvTranspose", (8, 6, 2, 2, 2), dict(strides=[2, 2, 2]), ("n", 8, "d", "h", "w")),
        # Windows overlap along the depth.
        ("ConvTranspose", (8, 6, 3, 3, 3), dict(strides=[2, 2, 2], pads=[1] * 6, output_padding=[1, 1, 1]), ("n", 8, "d", "h", "w")),
        ("ConvTranspose", (8, 6, 3, 2, 2), dict(pads=[1, 0, 0, 2, 1, 1]), (1, 8, "d", "h", "w")), ("ConvTranspose", (8, 6, 4, 4, 4), dict(strides=[2] * 3, pads=[1] * 6), ("n", 8, 4, "h", "w")),
        ("Conv", (6, 8, 1, 1, 1), {}, ("n", 8, "d", "h", "w")), ("Conv", (6, 8, 1, 1, 1), {}, ("n", 8, 4, 5, 6)), ("Conv", (6, 8, 1, 1, 1), {}, (1, 8, 4, "h", 5)),
        # Too few images for a window may come, but where their number is known.
        ("Conv", (6, 8, 3, 3, 3), {}, (1, 8, "d", "h", "w")), ("Conv", (6, 8, 2, 2, 2), dict(strides=[2, 2, 2]), ("n", 8, "d", "h", "w")),
        ("Conv", (6, 8, 3, 2, 2), dict(strides=[3, 2, 2], pads=[1, 0, 0] * 2), ("n", 8, "d", "h", "w")), ("Conv", (6, 8, 2, 3, 3), dict(strides=[2, 3, 3]), ("n", 8, 4, 9, 9))]


@pytest.mark.parametrize("op, weight, attributes, shape", OPEN)
def test_volumes_of_open_sizes(op, weight, attributes, shape):
    rng = np.random.default_rng(4)
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "w", "b"], ["c"], **attributes), helper.make_node("Relu", ["c"], ["y"])], "volume",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(rng.standard_normal(weight).astype(np.float32), "w"), numpy_helper.from_array(rng.standard_normal(6).astype(np.float32), "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    compiled = treadle.compile(model)
    assert "nn.conv3d" not in compiled.explain()
    if weight[2:] == (1, 1, 1) and not attributes:  # nothing is moved, and what follows is computed with the convolution
        kernels = re.findall("^#   .*float32", compiled.explain(), re.M)
        assert not any("transpose," in kernel or "reshape, add" in kernel for kernel in kernels) and any("NCHWc, add, nn.relu" in kernel for kernel in kernels)
    for open_sizes in (dict(n=1, d=5, h=8, w=7), dict(n=3, d=1, h=3, w=9), dict(n=2, d=12, h=4, w=20)):
        x = rng.standard_normal([open_sizes.get(size, size) for size in shape]).astype(np.float32)
        if op == "Conv" and x.shape[2] + 2 * attributes.get("pads", [0])[0] < weight[2]:
            with pytest.raises(treadle.Error):
                compiled(x=x)
            continue
        expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
        np.testing.assert_allclose(compiled(x=x)["y"], expected, rtol=1e-4, atol=1e-4)
    if {"n", "d"} <= {*shape}:
        x = rng.standard_normal([{"n": 0, "d": 4}.get(size, 9 if isinstance(size, str) else size) for size in shape]).astype(np.float32)
        assert compiled(x=x)["y"].shape[0] == 0


@pytest.mark.parametrize("kernel", [(1, 1, 1), (3, 3, 3)])
def test_volumes_of_open_sizes_quantised_at_run_time(kernel):
    """The division by the scale takes no other operand than a scalar."""
    rng = np.random.default_rng(5)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("DynamicQuantizeLinear", ["c"], ["y", "scale", "zero"])], "volume",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8, "d", "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, None), helper.make_tensor_value_info("scale", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(rng.standard_normal((6, 8, *kernel)).astype(np.float32), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = rng.standard_normal((2, 8, 5, 4, 6)).astype(np.float32)
    y, scale = ReferenceEvaluator(model).run(None, {"x": x})
    actual = treadle.compile(model)(x=x)
    np.testing.assert_allclose(actual["scale"], scale, rtol=1e-5)
    assert np.abs(actual["y"].astype(int) - y).max() <= 1
