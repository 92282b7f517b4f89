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


@pytest.mark.parametrize("node, names", [(helper.make_node("RotaryEmbedding", ["x", "c", "s", "p"], ["y"]), "xcsp"),
                                         (contrib("RotaryEmbedding", ["x", "p", "c", "s"], ["y"]), "xpcs")])
@pytest.mark.parametrize("sizes", [(2, 1), (1, 3), (3, 3), (2, 4)])
def test_positions_of_other_samples_or_steps_are_refused(node, names, sizes):
    feed = dict(x=floats(2, 2, 3, 16), c=floats(9, 8), s=floats(9, 8), p=np.zeros((2, 3), np.int64))
    feed = {name: feed[name] for name in names}
    dynamic = check(node, feed, opset=23, peer=False)
    wrong = dict(feed, p=np.zeros(sizes, np.int64))
    with pytest.raises(treadle.Error, match="their positions"):
        dynamic.run(None, wrong)
    with pytest.raises(treadle.Error, match="their positions"):
        dynamic.run(None, dict(wrong, x=feed["x"][:0]) if sizes[0] == 2 else dict(wrong, x=feed["x"][:, :, :0]))
    with pytest.raises(treadle.Error, match="their positions"):
        check(node, wrong, opset=23, peer=False)


@pytest.mark.parametrize("columns", [1, 5])
@pytest.mark.parametrize("node, names", [
    (contrib("MatMulIntegerToFloat", ["a", "b", "one", "s", "", "z"], ["y"]), "abs"), (contrib("DynamicQuantizeMatMul", ["x", "b", "s", "z"], ["y"]), "xbs"),
    (contrib("QGemm", ["a", "one", "zero", "b", "s", "z"], ["y"]), "abs"), (contrib("QGemm", ["a", "one", "zero", "b", "s", "z", "c", "out", "zero"], ["y"]), "abs"),
    (contrib("QLinearSigmoid", ["a", "one", "zero", "out", "zero"], ["y"]), "a")])
def test_scales_of_bytes(node, names, columns):
    feed = dict(a=RNG.integers(0, 255, (3, 7)).astype(np.uint8), x=floats(3, 7), b=RNG.integers(0, 127, (7, 5)).astype(np.uint8),
                s=(RNG.random(columns) / 8 + 0.01).astype(np.float32), z=RNG.integers(0, 9, columns).astype(np.uint8), one=np.float32([0.0625]),
                zero=np.array([3], np.uint8), c=RNG.integers(-99, 99, 5).astype(np.int32), out=np.float32([0.5]))
    check(node, {name: feed[name] for name in node.input if name})
    if "s" in names:
        return
    with pytest.raises(treadle.Error, match="keeps the number of elements"):
        treadle.compile(model_of(node, feed := {name: feed[name] for name in node.input}, False, 18)).run(None, dict(feed, out=np.ones(2, np.float32)))


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


@pytest.mark.parametrize("op, gates, more", [("RNN", 1, {}), ("GRU", 3, {}), ("GRU", 3, dict(linear_before_reset=1)), ("LSTM", 4, {}),
                                             ("LSTM", 4, dict(direction="bidirectional")), ("LSTM", 4, dict(clip=0.5))])
def test_recurrent_layers(op, gates, more):
    directions = 2 if more.get("direction") == "bidirectional" else 1
    feed = dict(x=floats(5, 2, 3), w=floats(directions, 4 * gates, 3), r=floats(directions, 4 * gates, 4), b=floats(directions, 8 * gates))
    node = helper.make_node(op, ["x", "w", "r", "b"], ["y", "last"], hidden_size=4, **more)
    dynamic = check(node, feed)
    for changed in (dict(w=floats(directions, 4 * gates, 2)), dict(r=floats(directions, 4 * gates, 5)), dict(b=floats(directions, 4 * gates)),
                    dict(x=floats(5, 2, 4)), dict(r=floats(directions, 4, 4 * gates))):
        if any(value.shape != feed[name].shape for name, value in changed.items()):
            with pytest.raises(treadle.Error):
                dynamic.run(None, dict(feed, **changed))
    state = dict(feed, n=np.array([5, 3], np.int32), h=floats(directions, 2, 4))
    check(helper.make_node(op, ["x", "w", "r", "b", "n", "h"], ["y", "last"], hidden_size=4, **more), state)
    peepholes = dict(feed, n=np.array([5, 3], np.int32), h=floats(directions, 2, 4), c=floats(directions, 2, 4), p=floats(directions, 12))
    if op == "LSTM":
        check(helper.make_node(op, list(peepholes), ["y", "last", "cell"], hidden_size=4, **more), peepholes)


@pytest.mark.parametrize("size, blocks", [(6, 3), (5, 3), (4, 2)])
def test_blocks_of_quantisation(size, blocks):
    scale, zero = np.abs(floats(2, blocks)) + 0.1, RNG.integers(0, 9, (2, blocks)).astype(np.uint8)
    for op, x in (("QuantizeLinear", floats(2, size)), ("DequantizeLinear", RNG.integers(0, 255, (2, size)).astype(np.uint8))):
        feed = dict(x=x, scale=scale, zero=zero)
        dynamic = check(helper.make_node(op, list(feed), ["y"], axis=1, block_size=2), feed, opset=21)
        for wrong in (size + 2, size - 2):
            with pytest.raises(treadle.Error, match="number of blocks"):
                dynamic.run(None, dict(feed, x=np.resize(x, (2, wrong))))


def declared(node, feed, rank, opset=18):
    """The model with operands of which nothing but the rank is known, and a result of that rank."""
    model = model_of(node, feed, False, opset)
    element = onnx.TensorProto.FLOAT
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info(node.output[0], element, [f"y{i}" for i in range(rank)]))
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)[0]
    dynamic = treadle.compile(model, threads=1)
    result = dynamic.run(None, feed)[0]
    assert result.shape == peer.shape
    np.testing.assert_array_equal(result, peer)
    return dynamic


@pytest.mark.parametrize("entries, batch", [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1)])
def test_entries_of_indices_follow_from_the_result(entries, batch):
    indices = RNG.integers(0, 2, ((2,) if batch else ()) + (3, entries)).astype(np.int64)
    feed = dict(x=floats(2, 3, 4), i=indices)
    dynamic = declared(helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=batch), feed, indices.ndim - 1 + 3 - entries - batch)
    with pytest.raises(treadle.Error):
        dynamic.run(None, dict(feed, i=np.zeros((*indices.shape[:-1], entries + 1), np.int64)))


@pytest.mark.parametrize("op, sizes, rank", [("Reshape", [4, 6], 2), ("Reshape", [2, -1, 3], 3), ("Expand", [2, 2, 3, 4], 4), ("Expand", [4], 3),
                                             ("Expand", [], 3), ("ConstantOfShape", [2, 3], 2)])
def test_lists_of_sizes_as_long_as_the_result_has_dimensions(op, sizes, rank):
    feed = dict(x=floats(2, 3, 4), s=np.array(sizes, np.int64))
    if op == "ConstantOfShape":
        del feed["x"]
    dynamic = declared(helper.make_node(op, list(feed), ["y"]), feed, rank)
    with pytest.raises(treadle.Error):
        dynamic.run(None, dict(feed, s=np.ones(rank + 1, np.int64)))


@pytest.mark.parametrize("shape, axis", [((4, 3), 0), ((3, 5), 1), ((2, 4, 3), 1), ((6, 1), 0)])
@pytest.mark.parametrize("ordered", [0, 1])
def test_distinct_slices(shape, axis, ordered):
    feed = dict(x=RNG.integers(0, 2, shape).astype(np.float32))
    dynamic = check(helper.make_node("Unique", ["x"], ["y", "first", "inverse", "counts"], axis=axis, sorted=ordered), feed)
    for values in (np.zeros(shape, np.float32), RNG.integers(0, 2, [size + 1 for size in shape]).astype(np.float32)):
        y, first, inverse, counts = dynamic.run(None, dict(x=values))
        wanted = np.unique(values, axis=axis, return_counts=True)
        np.testing.assert_array_equal(np.unique(y, axis=axis), wanted[0])
        np.testing.assert_array_equal(y, values.take(first, axis))
        np.testing.assert_array_equal(y.take(inverse, axis), values)
        assert counts.sum() == values.shape[axis]


def test_batches_of_scan_8():
    body = helper.make_graph([helper.make_node("Add", ["s", "x"], ["t"]), helper.make_node("Identity", ["t"], ["y"])], "body",
                             [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "sx"],
                             [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in "ty"])
    node = helper.make_node("Scan", ["", "s", "x"], ["t", "y"], num_scan_inputs=1, body=body)
    feed = dict(s=floats(3, 2), x=floats(3, 4, 2))
    dynamic = treadle.compile(model_of(node, feed, False, 8), threads=1)
    for batch, steps in ((3, 4), (1, 4), (40, 1), (5, 7)):
        feed = dict(s=floats(batch, 2), x=floats(batch, steps, 2))
        last, all_steps = dynamic.run(None, feed)
        wanted = feed["s"][:, None] + feed["x"].cumsum(1)
        np.testing.assert_allclose(all_steps, wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(last, wanted[:, -1], rtol=1e-5, atol=1e-5)
    with pytest.raises(treadle.Error, match="size of a batch"):
        dynamic.run(None, dict(feed, s=floats(4, 2)))


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("fixed", [False, True])
def test_lengths_of_sequences_of_scan_8(direction, fixed):
    """States end with the sequence, of two sequences each, and rows are zeros from there on, as in ONNX Runtime."""
    value, real = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    body = helper.make_graph([helper.make_node("Mul", ["x", "z"], ["p"]), helper.make_node("Add", ["s", "p"], ["t"]),
                              helper.make_node("Neg", ["t"], ["y"])], "body",
                             [value(name, real, [2]) for name in "sxz"], [value(name, real, [2]) for name in "ty"])
    node = helper.make_node("Scan", ["n", "s", "x", "z"], ["t", "y"], num_scan_inputs=2, directions=[direction, 0], body=body)
    feed = dict(n=np.array([4, 1, 3]), s=floats(3, 2), x=floats(3, 4, 2), z=floats(3, 4, 2))
    model = model_of(node, feed, fixed, 8)
    compiled = treadle.compile(model, threads=1)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = [feed, dict(feed, n=np.array([4, 4, 4]))]
    if not fixed:
        feeds += [dict(n=np.arange(35) % 2 + 1, s=floats(35, 2), x=floats(35, 2, 2), z=floats(35, 2, 2))]
    for one in feeds:
        for ours, theirs in zip(compiled.run(None, one), session.run(None, one), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    for lengths in ([5, 1, 1], [4, 0, 4]):
        with pytest.raises(treadle.Error, match="length of a sequence [05]"):
            compiled.run(None, dict(feed, n=np.array(lengths)))


@pytest.mark.parametrize("op, lists, attributes", [
    ("Slice", dict(b=[1], e=[3]), {}), ("Slice", dict(b=[4, 0], e=[0, 2], a=[1, 0], s=[-2, 1]), {}), ("Slice", dict(b=[1], e=[9], a=[-1]), {}),
    ("Slice", dict(b=[], e=[]), {}), ("Tile", dict(r=[2, 3]), {}), ("CenterCropPad", dict(s=[3, 7]), {}), ("CenterCropPad", dict(s=[9]), dict(axes=[1]))])
def test_lists_whose_length_the_operand_tells(op, lists, attributes):
    feed = dict(x=floats(4, 5), **{name: np.array(values, np.int64) for name, values in lists.items()})
    dynamic = check(helper.make_node(op, list(feed), ["y"], **attributes), feed)
    for name in lists:
        with pytest.raises(treadle.Error):
            dynamic.run(None, dict(feed, **{name: np.ones(3, np.int64)}))


@pytest.mark.parametrize("op, axes, rank", [("Squeeze", [1], 2), ("Unsqueeze", [1, -1], 5), ("ReduceSum", [2, 0], 1)])
def test_lists_of_axes_whose_length_the_result_tells(op, axes, rank):
    feed = dict(x=floats(3, 1, 5), a=np.array(axes, np.int64))
    attributes = dict(keepdims=0) if op == "ReduceSum" else {}
    model = model_of(helper.make_node(op, ["x", "a"], ["y"], **attributes), feed, False, 18)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [f"y{i}" for i in range(rank)]))
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)[0]
    result = treadle.compile(model, threads=1).run(None, feed)[0]
    assert result.shape == peer.shape
    np.testing.assert_allclose(result, peer, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_batch_and_channels_are_resized(mode):
    from onnx.reference import ReferenceEvaluator
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=mode)
    feed = dict(x=floats(2, 3, 4, 4), s=np.array([4, 5, 8, 6], np.int64))
    static = model_of(node, feed, True, 18)
    wanted = ReferenceEvaluator(static).run(None, feed)[0]
    known = model_of(node, feed, True, 18)
    del known.graph.input[1]
    known.graph.initializer.append(onnx.numpy_helper.from_array(feed["s"], "s"))
    listed = model_of(node, feed, False, 18)
    listed.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 4
    for model, inputs in ((static, feed), (known, dict(x=feed["x"])), (listed, feed), (model_of(node, feed, False, 18), feed)):
        result = treadle.compile(model, threads=1).run(None, inputs)[0]
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)
    same = dict(feed, s=np.array([2, 3, 8, 6], np.int64))
    result = treadle.compile(listed, threads=1).run(None, same)[0]
    np.testing.assert_allclose(result, ReferenceEvaluator(static).run(None, same)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_groups_have_their_scale_in_version_18(groups):
    feed = dict(x=floats(2, 4, 3, 5), scale=floats(groups), bias=floats(groups))
    dynamic = check(helper.make_node("GroupNormalization", list(feed), ["y"], num_groups=groups), feed, opset=18)
    with pytest.raises(treadle.Error, match="GroupNormalization"):
        dynamic.run(None, dict(feed, scale=floats(groups + 1)))


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_boxes_that_end_before_they_begin(mode):
    boxes = np.array([[2, 1, 1, 3], [1, 3, 3, 2], [2, 2, 2, 2], [0.5, 0.2, 3, 2.5]], np.float32)
    feed = dict(x=floats(1, 2, 5, 5), boxes=boxes, batch=np.zeros(4, np.int64))
    for attributes in (dict(), dict(coordinate_transformation_mode="output_half_pixel"), dict(output_height=70)):
        check(helper.make_node("RoiAlign", list(feed), ["y"], mode=mode, **{"output_height": 2, "output_width": 2, **attributes}), feed)
