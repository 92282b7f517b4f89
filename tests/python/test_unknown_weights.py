# SPDX-License-Identifier: Apache-2.0
"""Weights and other operands of which no dimension is known when compiling, against static shapes and ONNX Runtime."""
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import treadle

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def model_of(node, feed, known, opset):
    def info(name, value):
        shape = [size if known else f"{name}{i}" for i, size in enumerate(value.shape)]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), shape)

    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "g", [info(*item) for item in feed.items()], outputs)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def check(node, feed, opset=18, peer=True):
    static = treadle.compile(model_of(node, feed, True, opset), threads=1).run(None, feed)
    dynamic = treadle.compile(model_of(node, feed, False, opset), threads=1)
    expected = static
    if peer:
        model = model_of(node, feed, False, opset).SerializeToString()
        expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)
    for results in (static, dynamic.run(None, feed)):
        for result, wanted in zip(results, expected):
            assert result.shape == wanted.shape
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)
    return dynamic


@pytest.mark.parametrize("spatial, attributes", [
    ((9,), {}), ((9,), dict(group=2, strides=[2], dilations=[2], pads=[1, 2])), ((8, 7), dict(strides=[2, 1], pads=[1, 0, 1, 2])),
    ((8, 7), dict(group=4, dilations=[2, 1])), ((8, 7), dict(group=2, strides=[2, 3], auto_pad="SAME_UPPER")),
    ((8, 7), dict(strides=[2, 2], auto_pad="SAME_LOWER", kernel_shape=[3, 2])), ((5, 6, 4), dict(group=2, strides=[1, 2, 1], auto_pad="VALID"))])
def test_convolutions(spatial, attributes):
    kernel = (3, 2, 2)[:len(spatial)]
    feed = dict(x=floats(2, 4, *spatial), w=floats(8, 4 // attributes.get("group", 1), *kernel), b=floats(8))
    dynamic = check(helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes), feed)
    with pytest.raises(treadle.Error):  # other channels than the weights want
        dynamic.run(None, dict(feed, x=floats(2, 3, *spatial)))
    bytes_feed = {name: RNG.integers(0, 255, feed[name].shape).astype(np.uint8) for name in "xw"}
    check(helper.make_node("ConvInteger", ["x", "w"], ["y"], **attributes), bytes_feed, peer="dilations" not in attributes)


@pytest.mark.parametrize("spatial, attributes", [
    ((5,), {}), ((5,), dict(group=2, strides=[2], dilations=[2], pads=[1, 2])), ((4, 5), dict(strides=[2, 3], pads=[1, 0, 1, 2], output_padding=[1, 2])),
    ((4, 5), dict(group=2, strides=[2, 2], output_padding=[1, 0])), ((4, 5), dict(group=4, strides=[2, 2], auto_pad="SAME_UPPER")),
    ((4, 5), dict(strides=[2, 2], output_shape=[8, 10])), ((3, 4, 2), dict(strides=[1, 2, 1]))])
def test_transposed_convolutions(spatial, attributes):
    kernel = (3, 2, 2)[:len(spatial)]
    feed = dict(x=floats(2, 4, *spatial), w=floats(4, 3, *kernel), b=floats(3 * attributes.get("group", 1)))
    check(helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes), feed)


def contrib(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, domain="com.microsoft", **attributes)


POSITIONS = np.arange(8).reshape(2, 4) % 5


@pytest.mark.parametrize("node, feed", [
    (contrib("MultiHeadAttention", ["q", "k", "v", "b"], ["y", "keys", "values"], num_heads=2), dict(q=floats(2, 4, 16), k=floats(2, 5, 16), v=floats(2, 5, 16), b=floats(48))),
    (contrib("Attention", ["x", "w", "b"], ["y"], num_heads=2), dict(x=floats(2, 4, 16), w=floats(16, 48), b=floats(48))),
    (contrib("Attention", ["x", "w", "b"], ["y"], num_heads=2, qkv_hidden_sizes=[16, 16, 32]), dict(x=floats(2, 4, 16), w=floats(16, 64), b=floats(64))),
    (contrib("RotaryEmbedding", ["x", "p", "c", "s"], ["y"], num_heads=2), dict(x=floats(2, 4, 32), p=POSITIONS, c=floats(9, 8), s=floats(9, 8))),
    (contrib("RotaryEmbedding", ["x", "p", "c", "s"], ["y"], interleaved=1), dict(x=floats(2, 2, 4, 16), p=POSITIONS, c=floats(9, 8), s=floats(9, 8))),
    (contrib("RotaryEmbedding", ["x", "p", "c", "s"], ["y"], num_heads=2, rotary_embedding_dim=8), dict(x=floats(2, 4, 32), p=POSITIONS, c=floats(9, 4), s=floats(9, 4))),
    (contrib("GroupQueryAttention", ["q", "k", "v", "", "", "used", "total"], ["y", "keys", "values"], num_heads=4, kv_num_heads=2),
     dict(q=floats(2, 3, 64), k=floats(2, 3, 32), v=floats(2, 3, 32), used=np.full(2, 2, np.int32), total=np.array([3], np.int32))),
    (contrib("GroupQueryAttention", ["q", "", "", "", "", "used", "total"], ["y", "keys", "values"], num_heads=4, kv_num_heads=2),
     dict(q=floats(2, 3, 128), used=np.full(2, 2, np.int32), total=np.array([3], np.int32)))])
def test_sizes_of_heads(node, feed):
    check(node, feed)


@pytest.mark.parametrize("node, feed", [
    (helper.make_node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"], num_heads=2), dict(x=floats(2, 4, 32), c=floats(9, 8), s=floats(9, 8), p=POSITIONS)),
    (helper.make_node("RotaryEmbedding", ["x", "c", "s"], ["y"], rotary_embedding_dim=8, interleaved=1), dict(x=floats(2, 3, 4, 16), c=floats(2, 4, 4), s=floats(2, 4, 4)))])
def test_rotary_embedding(node, feed):
    dynamic = check(node, feed, opset=23, peer=False)
    with pytest.raises(treadle.Error):  # caches of another width
        dynamic.run(None, dict(feed, c=floats(*feed["c"].shape[:-1], 3), s=floats(*feed["c"].shape[:-1], 3)))


def test_states():
    node = helper.make_node("LinearAttention", ["q", "k", "v", "s", "d", "b"], ["y", "state"], q_num_heads=4, kv_num_heads=2)
    check(node, dict(q=floats(2, 3, 32), k=floats(2, 3, 16), v=floats(2, 3, 12), s=floats(2, 2, 8, 6), d=-np.abs(floats(2, 3, 16)), b=floats(2, 3, 2)), opset=27, peer=False)
    for inputs in (["x", "w"], ["x", "w", "b", "s"]):
        feed = dict(x=floats(2, 3, 7), w=floats(3, 1, 4), b=floats(3), s=floats(2, 3, 3))
        dynamic = check(helper.make_node("CausalConvWithState", inputs, ["y", "state"], activation="silu"), {name: feed[name] for name in inputs}, opset=27, peer=False)
    with pytest.raises(treadle.Error, match="length of the state"):
        dynamic.run(None, dict(feed, s=floats(2, 3, 2)))


def test_a_skip_isnt_larger():
    node = contrib("SkipLayerNormalization", ["x", "skip", "g"], ["y"])
    feed = dict(x=floats(2, 3, 4), skip=floats(2, 3, 4), g=floats(4))
    dynamic = check(node, feed)
    for skip in (floats(1, 3, 4), floats(2, 3, 4)):
        model = model_of(node, feed, False, 18).SerializeToString()
        expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, dict(feed, skip=skip))
        np.testing.assert_allclose(dynamic.run(None, dict(feed, skip=skip))[0], expected[0], rtol=1e-4, atol=1e-4)
    with pytest.raises(treadle.Error, match="size of the skip"):
        dynamic.run(None, dict(feed, x=floats(1, 3, 4)))


def test_deformable_convolution():
    for group, offsets in ((1, 1), (2, 2)):
        feed = dict(x=floats(1, 4, 5, 5), w=floats(6, 4 // group, 2, 2), o=floats(1, offsets * 8, 4, 4), b=floats(6))
        check(helper.make_node("DeformConv", list(feed), ["y"], group=group, offset_group=offsets, kernel_shape=[2, 2]), feed, opset=19)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("attributes", [
    dict(kernel_shape=[1], strides=[3]), dict(kernel_shape=[2], strides=[2], pads=[0, 1]), dict(kernel_shape=[3], strides=[3], dilations=[2], pads=[1, 1]),
    dict(kernel_shape=[4], strides=[3], dilations=[2], pads=[3, 3])])
def test_partial_windows_of_norms(size, attributes):
    room = size + sum(attributes.get("pads", [0])) - (attributes["kernel_shape"][0] - 1) * attributes.get("dilations", [1])[0] - 1
    if room > -attributes["strides"][0]:  # else there is no window
        check(helper.make_node("LpPool", ["x"], ["y"], ceil_mode=1, **attributes), dict(x=floats(2, 3, size)))


def test_mask_of_dropout_without_training():
    check(helper.make_node("Dropout", ["x"], ["y", "mask"]), {"x": floats(2, 3, 4)})
