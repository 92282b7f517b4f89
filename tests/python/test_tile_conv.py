# SPDX-License-Identifier: Apache-2.0
"""Convolutions on AMX's tile registers: written out in plain arithmetic, and by the instructions themselves (emulated
where the processor lacks them, as in test_tiles.py)."""
import inspect
import json
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from test_precision import round_bf16, snr
from test_tiles import PROGRAM, instructions, needs_x86, run  # noqa: F401

TILES = "llvm -mcpu=x86-64-v3 -mattr=+amx-tile,+amx-int8,+amx-bf16"
WRITTEN_OUT = TILES + " -emulate-intrinsics=1"
#: Input channels, height and width, output channels, kernel, stride, padding, dilation, batch.
CASES = {
    "window": (64, (14, 14), 64, 3, 1, 1, 1, 1),
    "no_padding": (64, (9, 20), 32, 3, 1, 0, 1, 1),
    "few_rows": (128, (3, 3), 16, 3, 1, 1, 1, 1),
    "less_than_a_tile": (64, (2, 3), 32, 3, 1, 1, 1, 2),
    "channels_beyond_lines": (80, (7, 7), 40, 3, 1, 1, 1, 1),
    "few_channels": (16, (12, 10), 24, 3, 1, 1, 1, 2),
    "channels_of_half_blocks": (24, (11, 13), 20, 3, 1, 1, 1, 1),
    "pointwise": (64, (8, 9), 48, 1, 1, 0, 1, 2),
    "pointwise_rest": (104, (5, 5), 33, 1, 1, 0, 1, 1),
    "strided": (64, (15, 15), 32, 3, 2, 1, 1, 1),
    "strided_pointwise": (128, (14, 14), 64, 1, 2, 0, 1, 1),
    "dilated": (64, (16, 16), 32, 3, 1, 2, 2, 1),
    "dilated_strided": (32, (17, 19), 32, 3, 2, 2, 2, 1),
    "wide": (64, (3, 40), 32, 5, 1, 2, 1, 1),
    "first_layer": (3, (30, 22), 32, 7, 2, 3, 1, 2),
    "first_layer_of_one_channel": (1, (16, 18), 24, 5, 1, 2, 1, 1),
    "first_layer_without_padding": (4, (16, 16), 16, 4, 4, 0, 1, 1),
    "six_channels": (6, (12, 13), 32, 3, 1, 1, 1, 1),
    "eight_channels": (8, (12, 13), 32, 3, 2, 1, 1, 1),
    "long_rows": (2, (3, 40), 16, 11, 1, 5, 1, 1),
    "strips": (64, (40, 30), 32, 3, 1, 1, 1, 2),
    "first_layer_read_in_place": (3, (18, 75), 48, 7, 2, 3, 1, 2),
    "first_layer_of_patches": (3, (8, 140), 32, 4, 4, 0, 1, 1),
    "in_place_of_two_lines": (4, (5, 50), 16, 17, 1, 8, 1, 1),
    "parts_of_lines": (300, (9, 8), 32, 3, 1, 1, 1, 1),
    "parts_and_an_even_number_of_tiles": (320, (8, 6), 40, 3, 1, 1, 1, 1),
    # Groups: their number is the last one.
    "groups_of_four": (64, (9, 8), 64, 3, 1, 1, 1, 2, 16),
    "groups_strided": (128, (9, 8), 128, 3, 2, 1, 1, 1, 8),
    "groups_of_lines": (256, (7, 7), 256, 3, 1, 1, 1, 1, 4),
    "groups_with_fewer_outputs": (128, (6, 7), 64, 3, 1, 1, 1, 1, 4),
    "groups_with_more_outputs": (64, (6, 7), 256, 3, 1, 2, 2, 1, 8),
    "groups_pointwise": (128, (8, 8), 256, 1, 1, 0, 1, 1, 2),
    "groups_that_share_blocks": (96, (9, 8), 96, 3, 1, 1, 1, 1, 4),
    "odd_groups_that_share_blocks": (120, (7, 9), 120, 3, 1, 1, 1, 2, 5),
    "groups_that_share_blocks_strided": (72, (9, 10), 120, 3, 2, 1, 1, 1, 3),
    "groups_that_share_blocks_of_strips": (48, (30, 28), 48, 3, 1, 1, 1, 1, 2),
    "groups_of_parts_of_lines": (144, (6, 7), 144, 3, 1, 2, 2, 1, 3),
    "odd_groups_of_blocks": (48, (7, 8), 48, 3, 1, 1, 1, 1, 3),
    "groups_that_share_blocks_pointwise": (72, (8, 8), 72, 1, 1, 0, 1, 1, 3),
    "groups_of_one_line": (80, (6, 9), 96, 1, 3, 0, 1, 1, 4),
}


def reference(x, w, stride, pad, dilation, group=1):
    """Sums in the type of x, of windows with zeros around."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    size, per = w.shape[2], w.shape[1]
    oh, ow = ((extent - (size - 1) * dilation - 1) // stride + 1 for extent in x.shape[2:])
    y = np.zeros((x.shape[0], w.shape[0], oh, ow), x.dtype)
    outputs = w.shape[0] // group
    for g in range(group):
        part, weight = x[:, g * per : (g + 1) * per], w[g * outputs : (g + 1) * outputs]
        for i in range(size):
            for j in range(size):
                taps = part[:, :, i * dilation :, j * dilation :][:, :, : (oh - 1) * stride + 1 : stride,
                                                                   : (ow - 1) * stride + 1 : stride]
                y[:, g * outputs : (g + 1) * outputs] += np.einsum("nchw,oc->nohw", taps, weight[:, :, i, j])
    return y


def bytes_conv(ic, size, oc, kernel, stride, pad, dilation, batch, group=1, weight_zero=0):
    """ConvInteger with both ends of the ranges of both operands."""
    rng = np.random.default_rng(ic + oc)
    x = rng.integers(0, 256, (batch, ic, *size)).astype(np.uint8)
    w = rng.integers(-128, 128, (oc, ic // group, kernel, kernel)).astype(np.int8)
    x[:, : ic // 2] = 255
    half = w.shape[1] // 2
    w[:, :half] = np.where(rng.random(w[:, :half].shape) < 0.5, -128, 127)
    zeros = [numpy_helper.from_array(np.uint8(131), "zx"), numpy_helper.from_array(np.int8(weight_zero), "zw")]
    node = helper.make_node("ConvInteger", ["x", "w", "zx", "zw"], ["y"], strides=[stride] * 2, pads=[pad] * 4,
                            dilations=[dilation] * 2, group=group)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
                              [numpy_helper.from_array(w, "w"), *zeros])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    expected = reference(x.astype(np.int64) - 131, w.astype(np.int64) - weight_zero, stride, pad, dilation, group)
    return model, {"x": x}, expected


def pairs_conv(ic, size, oc, kernel, stride, pad, dilation, batch, group=1):
    rng = np.random.default_rng(ic + oc)
    x = rng.standard_normal((batch, ic, *size), dtype=np.float32)
    w = rng.standard_normal((oc, ic // group, kernel, kernel), dtype=np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], strides=[stride] * 2, pads=[pad] * 4, dilations=[dilation] * 2,
                              group=group),
             helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x64, w64 = (round_bf16(values).astype(np.float64) for values in (x, w))
    return model, {"x": x}, np.maximum(reference(x64, w64, stride, pad, dilation, group), 0)


def record_of(model, target, kernel, tmp_path, *options):
    """The line of --dump kernels by which `kernel` computes the model."""
    onnx.save(model, tmp_path / "m.onnx")
    subprocess.run([PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.tar", "--target", target, "--dump",
                    "kernels", "--dump-dir", tmp_path, *options], check=True)
    lines = [json.loads(line) for line in (tmp_path / "kernels.txt").read_text().splitlines() if line[:1] == "{"]
    return [line for line in lines if line["kernel"] == kernel]


@pytest.mark.parametrize("case", CASES)
def test_sums_of_bytes_are_exact(case, tmp_path):
    model, inputs, expected = bytes_conv(*CASES[case])
    assert record_of(model, WRITTEN_OUT, "qnn_conv2d.tiles", tmp_path)
    np.testing.assert_array_equal(run(model, inputs, WRITTEN_OUT), expected)


@needs_x86
@pytest.mark.parametrize("case", CASES)
def test_instructions_for_bytes(case, instructions):  # noqa: F811
    model, inputs, expected = bytes_conv(*CASES[case])
    before = 0 if instructions is None else instructions()
    np.testing.assert_array_equal(run(model, inputs, TILES), expected)
    assert instructions is None or instructions() > before


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("first_layer_of_one_channel", "six_channels")])
def test_sums_of_bfloat16(case, tmp_path):
    model, inputs, expected = pairs_conv(*CASES[case])
    assert record_of(model, WRITTEN_OUT, "conv2d.pair_tiles", tmp_path, "--precision", "bf16")
    assert snr(expected, run(model, inputs, WRITTEN_OUT, **{"relay.precision": "bf16"})) > 110


@needs_x86
@pytest.mark.parametrize("case", ["window", "channels_beyond_lines", "strided", "strips", "groups_strided", "first_layer_read_in_place"])
def test_instructions_for_bfloat16(case, instructions):  # noqa: F811
    model, inputs, expected = pairs_conv(*CASES[case])
    before = 0 if instructions is None else instructions()
    assert snr(expected, run(model, inputs, TILES, **{"relay.precision": "bf16"})) > 110
    assert instructions is None or instructions() > before


@pytest.mark.parametrize("case", ["window", "strided", "strips", "groups_of_lines", "first_layer_read_in_place",
                                  "groups_that_share_blocks"])
@pytest.mark.parametrize("nc, ahead", [(1, False), (1, True), (2, False), (2, True), (4, True), (3, True)])
def test_plans(case, nc, ahead, tmp_path):
    model, inputs, expected = bytes_conv(*CASES[case])
    records = record_of(model, WRITTEN_OUT, "qnn_conv2d.tiles", tmp_path)
    for record in records:
        record["plan"].update(nc=nc, ahead=ahead)
    y = run(model, inputs, WRITTEN_OUT, **{"schedule.plans": "\n".join(json.dumps(record) for record in records)})
    np.testing.assert_array_equal(y, expected)  # those that don't fit are left out


@pytest.mark.parametrize("case", ["few_channels", "strided", "strips"])
def test_batches_of_open_size(case, tmp_path):
    model, inputs, expected = bytes_conv(*CASES[case])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    assert record_of(model, WRITTEN_OUT, "qnn_conv2d.tiles", tmp_path)
    x = np.concatenate([inputs["x"], inputs["x"][:, ::-1]])
    (y,) = treadle.compile(model, target=WRITTEN_OUT).run(None, {"x": x})
    np.testing.assert_array_equal(y[: len(expected)], expected)


def open_sizes(model, dims):
    for d in dims:
        model.graph.input[0].type.tensor_type.shape.dim[d].dim_param = f"d{d}"
    return model


@pytest.mark.parametrize("target", [WRITTEN_OUT, pytest.param(TILES, marks=needs_x86)])
@pytest.mark.parametrize("case", CASES)
def test_images_of_open_size(case, target, instructions, tmp_path):  # noqa: F811
    _, size, _, _, stride, pad, dilation, _, *groups = CASES[case]
    model, inputs, expected = bytes_conv(*CASES[case])
    weight = numpy_helper.to_array(model.graph.initializer[0]).astype(np.int64)
    assert record_of(open_sizes(model, (0, 2, 3)), target, "qnn_conv2d.tiles", tmp_path)
    compiled = treadle.compile(model, target=target)
    np.testing.assert_array_equal(compiled.run(None, inputs)[0], expected)
    for rows, columns in ((1, size[1]), (size[0] + 9, 1), (40, 31)):
        tall = np.resize(inputs["x"], (2, inputs["x"].shape[1], rows + size[0], columns + size[1]))
        (y,) = compiled.run(None, {"x": tall})
        np.testing.assert_array_equal(y, reference(tall.astype(np.int64) - 131, weight, stride, pad, dilation, *groups))


@pytest.mark.parametrize("dims", [(2,), (3,), (0, 2)])
@pytest.mark.parametrize("case", ["window", "strided", "strips"])
def test_images_of_one_open_size(case, dims, tmp_path):
    model, inputs, expected = pairs_conv(*CASES[case])
    assert record_of(open_sizes(model, dims), WRITTEN_OUT, "conv2d.pair_tiles", tmp_path, "--precision", "bf16")
    (y,) = treadle.compile(model, target=WRITTEN_OUT, precision="bf16").run(None, inputs)
    assert snr(expected, y) > 110


@pytest.mark.parametrize("case, dims", [("strided", (2,)), ("window", (2,)), ("few_rows", (2,)), ("wide", (3,)), ("window", (2, 3))])
def test_open_sizes_are_scheduled(case, dims, tmp_path):
    """Strips of narrow images are less than a chunk: the product wasn't one of tiles."""
    model, *_ = bytes_conv(*CASES[case])
    assert record_of(open_sizes(model, dims), WRITTEN_OUT, "qnn_conv2d.tiles", tmp_path, "--dump", "tir")
    assert "unscheduled" not in (tmp_path / "tir.tir").read_text()


def test_open_sizes_of_groups_of_eight(tmp_path):
    """Blocks of 8 channels are a group's each: lines had the pixels beside as where there is one block."""
    model, inputs, expected = bytes_conv(88, (9, 10), 264, 1, 2, 0, 1, 1, 11)
    assert record_of(open_sizes(model, (2, 3)), WRITTEN_OUT, "qnn_conv2d.tiles", tmp_path)
    np.testing.assert_array_equal(treadle.compile(model, target=WRITTEN_OUT).run(None, inputs)[0], expected)


#: What a text may say of the convolution below, and what is wrong.
REFUSED = [(dict(tile_groups=2), "2 groups of 0 input channels don't fill 32"),
           (dict(tile_groups=2, group_inputs=16), "2 groups of 0 output channels don't fill 32"),
           (dict(tile_groups=2**40, group_inputs=8, group_outputs=8), "groups of 8 input channels don't fill 32"),
           (dict(tile_groups=2, group_inputs=2**62, group_outputs=16), "don't fill 32 in blocks of 16"),
           (dict(tile_groups=2, group_inputs=16, group_outputs=2**62), "don't fill 32 in blocks of 16"),
           (dict(tile_groups=0), "tile_groups"), (dict(groups=2), "groups be 1"), (dict(weight="1, 1, 1, 1, 1, 1"), "weight must be int32 of"),
           (dict(kernel_size="[5, 5]"), "weight must be int32 of"), (dict(weight="2"), "weight"), (dict(channels=20), "20"),
           (dict(data="1, 32, 6, 6", data_layout='"NCHW"'), "blocks of channels"), (dict(data="1, ?, 6, 6, 16"), "channels of data")]


@pytest.mark.parametrize("changed, message", REFUSED)
def test_groups_and_weights_of_a_text(changed, message):
    """They were read unchecked: some ended the process."""
    given = {"data": "1, 2, 6, 6, 16", "weight": "2, 1, 3, 3, 16, 16", "channels": 32, "kernel_size": "[3, 3]", "padding": "[1, 1, 1, 1]",
             "data_layout": '"NCHW16c"', "out_layout": '"NCHW16c"', **changed}
    data, weight = (given.pop(name) for name in ("data", "weight"))
    attributes = ", ".join(f"{name}={value}" for name, value in given.items())
    with pytest.raises(treadle.Error, match=message) as raised:
        text = f"""#[version = "0.0.5"]
            def @main(%x: Tensor[({data}), bfloat16], %w: Tensor[({weight}), int32]) {{ nn.contrib_tile_conv2d_pairs(%x, %w, {attributes}) }}"""
        treadle.relay.build(treadle.parser.parse(text), target=WRITTEN_OUT)
    assert not isinstance(raised.value, treadle.InternalError)


@pytest.mark.parametrize("op", ["nn.contrib_tile_conv2d_pairs", "qnn.contrib_tile_conv2d"])
def test_attributes_are_named_once(op):
    """Those of Conv2DAttrs were registered twice, and the functions of Python had no signature."""
    package, name = op.split(".")
    assert "tile_groups" in inspect.signature(getattr(getattr(treadle.relay.op, package), name)).parameters


def test_images_of_no_rows(tmp_path):
    model, inputs, _ = bytes_conv(*CASES["window"])
    compiled = treadle.compile(open_sizes(model, (0, 2, 3)), target=WRITTEN_OUT)
    assert compiled.run(None, {"x": inputs["x"][:0]})[0].shape[0] == 0


def test_weights_with_a_zero_point():
    model, inputs, expected = bytes_conv(*CASES["window"], weight_zero=-5)
    np.testing.assert_array_equal(run(model, inputs, WRITTEN_OUT), expected)


def test_four_products_for_four_loads(tmp_path):
    model = bytes_conv(64, (28, 28), 64, 3, 1, 1, 1, 1)[0]
    onnx.save(model, tmp_path / "m.onnx")
    subprocess.run([PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.tar", "--target",
                    "llvm -mcpu=sapphirerapids", "--dump", "asm", "--dump-dir", tmp_path], check=True)
    text = "".join(path.read_text() for path in tmp_path.glob("*.s"))
    count = lambda name: len(re.findall(rf"\s{name}\s", text))
    assert count("tdpbusd") >= 4 and 4 * count("tileloadd") <= 5 * count("tdpbusd")
    assert count("vpdpbusd") == 0 and count("ldtilecfg") == 1 == count("tilerelease")


def network(rng):
    """A small residual network, quantised (QDQ): first layer, strides, one pixel, a sum, pooling, per channel."""
    initializers, nodes = [], []

    def constant(value, name):
        initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def quantised(name, scale, zero):
        s, z = constant(np.float32(scale), f"{name}_s"), constant(np.uint8(zero), f"{name}_z")
        nodes.append(helper.make_node("QuantizeLinear", [name, s, z], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", s, z], [f"{name}_d"]))
        return f"{name}_d"

    def conv(x, name, ic, oc, kernel, stride):
        w = rng.integers(-127, 128, (oc, ic, kernel, kernel)).astype(np.int8)
        scale = (rng.uniform(0.5, 1.5, oc) * 0.02 / np.sqrt(ic * kernel * kernel)).astype(np.float32)
        nodes.append(helper.make_node("DequantizeLinear", [constant(w, f"{name}_w"), constant(scale, f"{name}_ws"),
                                                           constant(np.zeros(oc, np.int8), f"{name}_wz")],
                                      [f"{name}_wd"], axis=0))
        bias = constant(rng.standard_normal(oc).astype(np.float32), f"{name}_b")
        nodes.append(helper.make_node("Conv", [x, f"{name}_wd", bias], [name], strides=[stride] * 2,
                                      pads=[kernel // 2] * 4))
        return name

    def relu(x):
        nodes.append(helper.make_node("Relu", [x], [f"{x}_r"]))
        return quantised(f"{x}_r", 0.02, 0)

    x = quantised("x", 0.02, 120)
    x = relu(conv(x, "first", 3, 64, 7, 2))
    nodes.append(helper.make_node("MaxPool", [x], ["pool"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4))
    x = quantised("pool", 0.02, 0)
    for i, (ic, oc, stride) in enumerate([(64, 64, 1), (64, 96, 2)]):
        y = relu(conv(x, f"a{i}", ic, oc, 3, stride))
        y = quantised(conv(y, f"b{i}", oc, oc, 3, 1), 0.05, 110)
        if stride != 1:
            x = quantised(conv(x, f"c{i}", ic, oc, 1, stride), 0.05, 115)
        nodes.append(helper.make_node("Add", [x, y], [f"sum{i}"]))
        x = relu(f"sum{i}")
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["y"]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3, 64, 64))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_network_is_that_of_vectors(tmp_path):
    """Bit by bit: requantisation, residual sums, activations and pooling are what follows the products of either."""
    rng = np.random.default_rng(3)
    model, inputs = network(rng), {"x": rng.standard_normal((2, 3, 64, 64)).astype(np.float32)}
    kernels = record_of(model, WRITTEN_OUT, "qnn_conv2d.tiles", tmp_path)
    assert len({json.dumps(record["problem"]) for record in kernels if record["problem"]["ic_block"]}) == 5
    vectors = run(model, inputs, "llvm -mcpu=x86-64-v3 -emulate-intrinsics=1")
    assert np.ptp(vectors) > 0.5
    np.testing.assert_array_equal(run(model, inputs, WRITTEN_OUT), vectors)
