# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pooling of many shapes, with what follows them, against float64 arithmetic in NumPy."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle


def convolve(x, w, b, strides, pads, dilations, group):
    """ONNX Conv in float64."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    n, channels, height, width = x.shape
    outputs, per_group, kh, kw = w.shape
    oh = (height - (kh - 1) * dilations[0] - 1) // strides[0] + 1
    ow = (width - (kw - 1) * dilations[1] - 1) // strides[1] + 1
    out = np.zeros((n, group, outputs // group, oh, ow))
    x = x.reshape(n, group, per_group, height, width)
    w = w.astype(np.float64).reshape(group, outputs // group, per_group, kh, kw)
    for i in range(kh):
        for j in range(kw):
            top, left = i * dilations[0], j * dilations[1]
            part = x[:, :, :, top:top + (oh - 1) * strides[0] + 1:strides[0],
                     left:left + (ow - 1) * strides[1] + 1:strides[1]]
            out += np.einsum("ngchw,goc->ngohw", part, w[..., i, j])
    return out.reshape(n, outputs, oh, ow) + b.reshape(1, -1, 1, 1)


class Layer:
    """A Conv with random weights; `follow` lists what comes after it: add, relu, hardswish, sigmoid."""

    def __init__(self, n, channels, size, outputs, kernel, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1,
                 follow=("relu",), seed=0):
        rng = np.random.default_rng(seed)
        self.conv = {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
        self.w = (rng.standard_normal((outputs, channels // group, *kernel))
                  * (2 / (channels // group * kernel[0] * kernel[1])) ** 0.5).astype(np.float32)
        self.b = rng.standard_normal(outputs).astype(np.float32)
        self.follow = follow
        self.inputs = {"x": rng.standard_normal((n, channels, *size), dtype=np.float32)}
        plain = convolve(self.inputs["x"], self.w, self.b, **self.conv)
        if "add" in follow:
            self.inputs["r"] = rng.standard_normal(plain.shape).astype(np.float32)
        self.shape = plain.shape
        self.expected = plain
        for op in follow:
            self.expected = {"add": lambda y: y + self.inputs["r"], "relu": lambda y: np.maximum(y, 0),
                             "hardswish": lambda y: y * np.clip(y / 6 + 0.5, 0, 1),
                             "sigmoid": lambda y: 1 / (1 + np.exp(-y))}[op](self.expected)

    def model(self):
        nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y0"], name="conv", kernel_shape=self.w.shape[2:],
                                  **self.conv)]
        names = {"add": "Add", "relu": "Relu", "hardswish": "HardSwish", "sigmoid": "Sigmoid"}
        for i, op in enumerate(self.follow):
            nodes.append(helper.make_node(names[op], [f"y{i}"] + (["r"] if op == "add" else []), [f"y{i + 1}"]))
        graph = helper.make_graph(
            nodes, "layer", [helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in self.inputs.items()],
            [helper.make_tensor_value_info(f"y{len(self.follow)}", TensorProto.FLOAT, self.shape)],
            [numpy_helper.from_array(self.w, "w"), numpy_helper.from_array(self.b, "b")])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()

    def check(self, target="llvm -mcpu=native", **arguments):
        actual = treadle.compile(self.model(), target=target, **arguments).run(None, self.inputs)[0]
        scale = self.expected.max() - self.expected.min()
        assert np.abs(actual - self.expected).max() <= 1e-4 * scale


LAYERS = {
    "winograd": Layer(1, 32, (28, 28), 64, (3, 3), pads=(1, 1, 1, 1)),
    "winograd_odd_size_two_images": Layer(2, 48, (13, 19), 32, (3, 3), follow=("add", "relu")),
    "winograd_lopsided_padding": Layer(1, 32, (15, 30), 32, (3, 3), pads=(0, 2, 1, 1), follow=("hardswish",)),
    "winograd_one_row_of_tiles": Layer(1, 64, (4, 50), 64, (3, 3), pads=(1, 1, 1, 1)),
    "winograd_wide": Layer(1, 64, (9, 130), 32, (3, 3), pads=(1, 1, 1, 1)),
    "winograd_many_channels": Layer(1, 512, (14, 14), 128, (3, 3), pads=(1, 1, 1, 1), follow=()),
    "winograd_small_tiles": Layer(1, 512, (7, 7), 512, (3, 3), pads=(1, 1, 1, 1)),
    "groups_strided_in_strips": Layer(2, 64, (67, 70), 96, (3, 3), strides=(2, 2), pads=(1, 0, 2, 1), group=4, follow=("add",)),
    "winograd_groups": Layer(1, 128, (28, 28), 192, (3, 3), pads=(1, 1, 1, 1), group=4, follow=("add", "relu")),
    "winograd_groups_odd_size_two_images": Layer(2, 96, (21, 30), 96, (3, 3), pads=(1, 0, 1, 2), group=2),
    "winograd_groups_of_half_blocks": Layer(1, 72, (28, 28), 96, (3, 3), pads=(1, 1, 1, 1), group=3),
    "winograd_groups_strided": Layer(1, 256, (56, 56), 256, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1), group=2),
    "winograd_strided": Layer(1, 96, (28, 28), 64, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    "winograd_strided_odd_size_two_images": Layer(2, 64, (45, 39), 96, (3, 3), strides=(2, 2), follow=("add", "relu")),
    "winograd_strided_lopsided_padding": Layer(1, 128, (32, 50), 64, (3, 3), strides=(2, 2), pads=(0, 1, 1, 0)),
    "winograd_eight_channels_in_a_block": Layer(1, 40, (24, 24), 24, (3, 3), pads=(1, 1, 1, 1)),
    "pointwise": Layer(1, 64, (7, 7), 128, (1, 1), follow=("add", "relu")),
    "pointwise_in_chunks": Layer(2, 1024, (7, 7), 64, (1, 1), follow=("add",)),
    "pointwise_strided": Layer(1, 512, (14, 14), 96, (1, 1), strides=(2, 2)),
    "pointwise_one_position": Layer(1, 960, (1, 1), 240, (1, 1), follow=("hardswish",)),
    "strided_in_chunks": Layer(1, 256, (14, 14), 32, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    "strided_wide_in_chunks": Layer(1, 128, (57, 61), 32, (3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    "groups_of_one_column": Layer(1, 256, (12, 3), 128, (3, 3), strides=(2, 2), group=2),
    "first": Layer(1, 3, (61, 47), 32, (7, 7), strides=(2, 2), pads=(3, 3, 3, 3)),
    "depthwise": Layer(1, 48, (23, 31), 48, (3, 3), pads=(1, 1, 1, 1), group=48),
    "depthwise_strided": Layer(1, 24, (37, 21), 24, (5, 5), strides=(2, 1), pads=(2, 2, 2, 2), group=24),
    "grouped": Layer(1, 64, (12, 12), 96, (3, 3), pads=(1, 1, 1, 1), group=2),
    "grouped_small": Layer(1, 24, (12, 12), 12, (1, 1), group=3),
    "dilated": Layer(1, 32, (20, 20), 16, (3, 3), pads=(2, 2, 2, 2), dilations=(2, 2)),
    "dilated_to_batch": Layer(1, 48, (28, 32), 32, (3, 3), pads=(2, 2, 2, 2), dilations=(2, 2), follow=("add", "relu")),
    "dilated_to_batch_odd_size_two_images": Layer(2, 32, (33, 19), 40, (3, 3), pads=(2, 2, 2, 2), dilations=(2, 2)),
    "dilated_to_batch_lopsided_padding": Layer(1, 33, (30, 47), 32, (3, 3), pads=(0, 1, 3, 2), dilations=(2, 2),
                                               follow=("sigmoid",)),
    "dilated_to_batch_no_padding": Layer(1, 32, (20, 37), 64, (3, 3), dilations=(2, 2), follow=()),
    "taps_in_the_padding": Layer(1, 48, (16, 16), 32, (3, 3), pads=(12, 12, 12, 12), dilations=(12, 12), follow=("relu",)),
    "taps_in_the_padding_lopsided": Layer(2, 32, (9, 21), 40, (3, 2), pads=(7, 9, 5, 2), dilations=(6, 11), follow=("add",)),
    "grouped_in_small_blocks": Layer(1, 96, (15, 28), 48, (3, 3), pads=(1, 1, 1, 1), group=2, follow=("add", "relu")),
    "outputs_filled_up": Layer(2, 64, (9, 11), 126, (3, 3), strides=(2, 1), pads=(1, 1, 1, 1)),
    "outputs_filled_up_winograd": Layer(1, 32, (24, 24), 55, (3, 3), pads=(1, 1, 1, 1), follow=("hardswish",)),
    "outputs_filled_up_pointwise": Layer(1, 128, (8, 8), 255, (1, 1), follow=()),
    "odd_channels": Layer(1, 17, (11, 13), 19, (3, 3), pads=(1, 0, 0, 1)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer(name):
    LAYERS[name].check()


@pytest.mark.parametrize("name", ["winograd", "winograd_groups", "pointwise_in_chunks", "strided_in_chunks", "depthwise",
                                  "first"])
def test_layer_for_older_processors(name):
    LAYERS[name].check("llvm -mcpu=x86-64-v2")


@pytest.mark.parametrize("pads", [(1, 0, 0, 1), (0, 0, 1, 1), (1, 1, 0, 0), (1, 1, 1, 1)])
@pytest.mark.parametrize("outputs", [16, 19])
def test_padding_beside_rows_of_half_a_vector(outputs, pads):
    """Rows of 13 x 8 elements end in the middle of 16 lanes: the rest, all padding, was read from the next row."""
    Layer(1, 17, (11, 13), outputs, (3, 3), pads=pads).check("llvm -mcpu=x86-64-v3", accuracy="strict")


@pytest.mark.parametrize("name", ["winograd", "winograd_small_tiles", "pointwise_in_chunks", "depthwise", "first"])
def test_layer_compiles_for_wide_vectors(name):
    mod, params = treadle.relay.frontend.from_onnx(onnx.load_from_string(LAYERS[name].model()), {})
    with treadle.transform.PassContext(opt_level=3):
        library = treadle.relay.build(mod, target="llvm -mcpu=x86-64-v4", params=params)
    assert "<16 x float>" in library.get_lib().get_source()


def random_layer(seed):
    rng = np.random.default_rng(seed)
    group = int(rng.choice([1, 1, 1, 2, 4]))
    channels = group * int(rng.choice([1, 3, 8, 12, 16, 32, 40, 64]))
    outputs = group * int(rng.choice([1, 5, 8, 16, 24, 32, 64]))
    if rng.random() < 0.2:
        group = outputs = channels
    kernel = tuple(int(k) for k in rng.choice([1, 2, 3, 3, 5], 2)) if rng.random() < 0.5 else (3, 3)
    dilations = tuple(int(d) for d in rng.choice([1, 1, 1, 2], 2))
    size = tuple(int((k - 1) * d + rng.integers(1, 33)) for k, d in zip(kernel, dilations))
    follow = [(), ("relu",), ("add", "relu"), ("hardswish",), ("sigmoid",)][int(rng.integers(5))]
    return Layer(int(rng.integers(1, 3)), channels, size, outputs, kernel,
                 strides=tuple(int(s) for s in rng.choice([1, 1, 2, 3], 2)),
                 pads=tuple(int(p) for p in rng.integers(0, 3, 4)), dilations=dilations, group=group, follow=follow,
                 seed=seed)


@pytest.mark.parametrize("seed", range(40))
def test_random_layer(seed):
    random_layer(seed).check()


def test_winograd_has_groups():
    """Groups of 16 and more channels were multiplied as windows: in twice the time for 64 channels each."""
    report = treadle.compile(LAYERS["winograd_groups"].model(), target="llvm -mcpu=x86-64-v3").explain()
    assert "nn.contrib_conv2d_winograd_NCHWc" in report


def test_winograd_can_be_switched_off():
    with treadle.transform.PassContext(opt_level=3, config={"relay.PlanLayout.winograd": False}):
        LAYERS["winograd"].check()



def transposed(x, w, strides, pads, output_padding):
    """ONNX ConvTranspose of one group in float64."""
    n, channels, height, width = x.shape
    kh, kw = w.shape[2:]
    full = np.zeros((n, w.shape[1], (height - 1) * strides[0] + kh + output_padding[0],
                     (width - 1) * strides[1] + kw + output_padding[1]))
    for i in range(kh):
        for j in range(kw):
            full[:, :, i:i + (height - 1) * strides[0] + 1:strides[0],
                 j:j + (width - 1) * strides[1] + 1:strides[1]] += np.einsum(
                     "nchw,co->nohw", x.astype(np.float64), w[:, :, i, j].astype(np.float64))
    return full[:, :, pads[0]:full.shape[2] - pads[2], pads[1]:full.shape[3] - pads[3]]


@pytest.mark.parametrize("channels, outputs, kernel, strides, pads, output_padding", [
    (24, 24, (2, 2), (2, 2), (0, 0, 0, 0), (0, 0)),
    (24, 1, (2, 2), (2, 2), (0, 0, 0, 0), (0, 0)),
    (64, 1, (4, 4), (2, 2), (1, 1, 1, 1), (0, 0)),
    (64, 1, (3, 3), (2, 2), (1, 0, 0, 1), (0, 1)),
    (16, 32, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    (16, 8, (4, 4), (2, 2), (1, 1, 1, 1), (0, 0)),
    (5, 7, (5, 3), (3, 2), (1, 0, 2, 1), (0, 1)),
    (8, 16, (2, 3), (3, 1), (0, 1, 0, 0), (0, 0)),
    (8, 16, (2, 2), (2, 2), (0, 0, 0, 0), (1, 1)),
])
def test_transposed(channels, outputs, kernel, strides, pads, output_padding):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, channels, 9, 7), dtype=np.float32)
    w = (rng.standard_normal((channels, outputs, *kernel)) * channels ** -0.5).astype(np.float32)
    b = rng.standard_normal(outputs).astype(np.float32)
    expected = np.maximum(transposed(x, w, strides, pads, output_padding) + b.reshape(1, -1, 1, 1), 0)
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", ["x", "w", "b"], ["t"], kernel_shape=kernel, strides=strides, pads=pads,
                          output_padding=output_padding), helper.make_node("Relu", ["t"], ["y"])],
        "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, expected.shape)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    actual = treadle.compile(model.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("channels, outputs, kernel, strides, pads, output_padding", [
    (16, 32, (4, 4), (2, 2), (1, 1, 1, 1), (0, 0)),
    (32, 1, (1, 16), (1, 8), (0, 4, 0, 3), (0, 0)),
    (32, 1, (4, 4), (2, 2), (1, 1, 1, 1), (0, 0)),
    (8, 1, (3, 2), (2, 1), (1, 0, 0, 1), (0, 0)),
    (16, 3, (3, 3), (1, 1), (1, 1, 1, 1), (0, 0)),
    (16, 8, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    (5, 7, (5, 3), (3, 2), (1, 0, 2, 1), (0, 1)),
])
def test_transposed_of_dynamic_sizes_are_convolutions(channels, outputs, kernel, strides, pads, output_padding):
    """Of kernels that reach beyond the stride, too, also those that aren't a multiple of it."""
    rng = np.random.default_rng(6)
    w = (rng.standard_normal((channels, outputs, *kernel)) * channels ** -0.5).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", ["x", "w"], ["t"], kernel_shape=kernel, strides=strides, pads=pads,
                          output_padding=output_padding), helper.make_node("Relu", ["t"], ["y"])],
        "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", channels, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, "w")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    for size in [(2, 9, 7), (1, 2, 33), (3, 5, 4)]:
        x = rng.standard_normal((size[0], channels, *size[1:]), dtype=np.float32)
        expected = np.maximum(transposed(x, w, strides, pads, output_padding), 0)
        np.testing.assert_allclose(model.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-5)
    names = [call.name for call in model.profile({"x": x})]
    assert any("conv2d" in name and "conv2d_transpose" not in name for name in names)


def scattered(x, w, stride, dilation, group):
    """ONNX ConvTranspose in float64: every element meets every tap, and nothing else is multiplied."""
    rank = x.ndim - 2
    per_group, outputs = x.shape[1] // group, w.shape[1]
    y = np.zeros((1, outputs * group, *[(n - 1) * stride + (k - 1) * dilation + 1 for n, k in zip(x.shape[2:], w.shape[2:])]))
    with np.errstate(invalid="ignore"):
        for c in range(x.shape[1]):
            first = c // per_group * outputs
            for at in np.ndindex(*x.shape[2:]):
                for tap in np.ndindex(*w.shape[2:]):
                    place = tuple(a * stride + t * dilation for a, t in zip(at, tap))
                    y[(0, slice(first, first + outputs), *place)] += float(x[(0, c, *at)]) * w[(c, slice(None), *tap)].astype(float)
    return y


@pytest.mark.parametrize("infinite_weight", [False, True])
@pytest.mark.parametrize("rank, kernel, stride, dilation, channels, group, static", [
    (2, 3, 2, 1, 16, 1, True), (2, 5, 3, 1, 3, 1, True), (2, 2, 3, 1, 4, 1, True), (2, 3, 2, 2, 4, 1, True),
    (2, 3, 2, 1, 8, 8, True), (2, 3, 2, 1, 4, 1, False), (1, 3, 2, 1, 16, 1, True), (3, 3, 2, 1, 4, 2, True)])
def test_infinities_meet_only_taps_of_a_transposed_kernel(rank, kernel, stride, dilation, channels, group, static,
                                                          infinite_weight):
    """Zeros instead of taps and borders that don't exist would make NaN of them."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((1, channels) + (4,) * rank).astype(np.float32)
    w = rng.standard_normal((channels, 6 // min(group, 2)) + (kernel,) * rank).astype(np.float32)
    x[(0, 1) + (1,) * rank], x[(0, 0) + (3,) * rank] = np.inf, -np.inf
    if infinite_weight:
        w[(0, 0) + (0,) * rank] = np.inf
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[stride] * rank, dilations=[dilation] * rank, group=group)
    shape = x.shape if static else (1, channels, *"hwd"[:rank])
    graph = helper.make_graph([node], "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    actual = treadle.compile(model).run(None, {"x": x})[0]
    np.testing.assert_allclose(actual, scattered(x, w, stride, dilation, group), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["winograd", "winograd_groups", "pointwise"])
def test_a_profile_counts_the_multiply_adds_of_the_plain_convolution(name):
    layer = LAYERS[name]
    times = treadle.compile(layer.model()).create_context().profile(**layer.inputs)
    per_output = layer.w.shape[1] * layer.w.shape[2] * layer.w.shape[3]
    assert sum(call.macs for call in times) == np.prod(layer.shape) * per_output


@pytest.mark.parametrize("channels, filters, stride, pads, group", [
    (32, 64, 1, (1, 1, 1, 1), 1), (48, 40, 1, (0, 1, 2, 0), 1), (272, 320, 1, (1, 1, 1, 1), 1),
    (512, 512, 1, (1, 1, 1, 1), 1), (128, 128, 2, (1, 1, 1, 1), 1), (128, 256, 2, (0, 1, 1, 0), 1),
    (128, 192, 1, (1, 1, 1, 1), 2), (16, 32, 1, (1, 1, 1, 1), 1), (48, 16, 1, (1, 0, 1, 1), 1)])
def test_winograd_of_images_of_any_size(channels, filters, stride, pads, group):
    """Strips of tiles begin and end anywhere in rows; a residual and ReLU are computed with the tiles' outputs."""
    rng = np.random.default_rng(3)
    w = (rng.standard_normal((filters, channels // group, 3, 3)) / np.sqrt(9 * channels)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"], pads=pads, strides=[stride, stride], group=group),
         helper.make_node("Add", ["c", "r"], ["a"]), helper.make_node("Relu", ["a"], ["y"])], "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", channels, "h", "v")),
         helper.make_tensor_value_info("r", TensorProto.FLOAT, ("n", filters, "oh", "ow"))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    compiled = treadle.compile(model, threads=2)
    assert stride != 1 or '"kernel":"conv2d.winograd"' in compiled.explain()
    for n, height, width in ((1, 3, 3), (2, 5, 14), (1, 28, 29), (1, 17, 61), (3, 9, 8), (1, 3, 170), (1, 90, 4), (0, 8, 8)):
        x = rng.standard_normal((n, channels, height, width)).astype(np.float32)
        expected = convolve(x, w, np.zeros(filters), (stride, stride), pads, (1, 1), group)
        r = rng.standard_normal(expected.shape).astype(np.float32)
        np.testing.assert_allclose(compiled(x=x, r=r)["y"], np.maximum(expected + r, 0), rtol=0, atol=2e-4)


def test_images_are_divided_for_dilated_windows():
    layer = LAYERS["dilated_to_batch_lopsided_padding"]
    assert "conv2d_winograd" in treadle.compile(layer.model(), target="llvm -mcpu=x86-64-v3").explain()
    strict = treadle.compile(layer.model(), target="llvm -mcpu=x86-64-v3", pass_config={"relay.accuracy": "strict"})
    assert "space_to_batch" not in strict.explain() and "winograd_NCHW" not in strict.explain()


def test_taps_in_the_padding_are_left_out():
    report = treadle.compile(LAYERS["taps_in_the_padding"].model(), target="llvm -mcpu=x86-64-v3").explain()
    assert "concatenate" in report and '"dilation_h":12' in report and '"kh":1' in report


def test_standardised_weights_are_constants():
    """Networks without normalization (NFNet, BiT) subtract the mean of each filter and divide by its deviation. Means of more than
    256 KiB weren't computed when compiling, so that the convolutions had weights of which nothing was known: 3 % of the speed."""
    rng = np.random.default_rng(0)
    node, weight = helper.make_node, rng.standard_normal((512, 256, 1, 1)).astype(np.float32) + 3
    nodes = [node("ReduceMean", ["w", "axes"], ["mean"]), node("Sub", ["w", "mean"], ["centred"]), node("Mul", ["centred", "centred"], ["squares"]),
             node("ReduceSum", ["squares", "axes"], ["sum"]), node("Sqrt", ["sum"], ["length"]), node("Div", ["centred", "length"], ["standard"]),
             node("Conv", ["x", "standard"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 256, "h", "w"])],
                              [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array([1, 2, 3]), "axes")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    assert "the weight isn't constant" not in model.explain()
    x = rng.standard_normal((2, 256, 5, 7)).astype(np.float32)
    wide = weight.astype(np.float64)[:, :, 0, 0]
    wide -= wide.mean(1, keepdims=True)
    wide /= np.sqrt((wide**2).sum(1, keepdims=True))
    np.testing.assert_allclose(model(x=x)["y"], np.einsum("nchw,oc->nohw", x, wide), rtol=0, atol=1e-5)
