# SPDX-License-Identifier: Apache-2.0
"""Whole graphs in the form in which exporters write them, compiled once without shapes and run with several, against
ONNX Runtime: shapes computed by Shape, Gather, Concat and Reshape, masks, caches, selections by value."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

ort = pytest.importorskip("onnxruntime")
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Graph:
    """Nodes in order; arrays given as operands become weights."""

    def __init__(self):
        self.nodes, self.weights, self.inputs, self.rng = [], [], [], np.random.default_rng(0)

    def constant(self, value):
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def op(self, kind, *operands, outputs=1, **attributes):
        names = [value if isinstance(value, str) else self.constant(value) for value in operands]
        results = [f"{kind.lower()}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, names, results, name=results[0], **attributes))
        return results[0] if outputs == 1 else results

    def input(self, name, kind, shape):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def weight(self, *shape):
        fan = shape[-2] if len(shape) > 1 else 10
        return self.constant((self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def size(self, x, axis):
        return self.op("Gather", self.op("Shape", x), np.int64(axis), axis=0)

    def sizes(self, *dims):
        parts = [self.op("Unsqueeze", dim, np.array([0])) if isinstance(dim, str) else np.array([dim]) for dim in dims]
        return self.op("Concat", *parts, axis=0)

    def linear(self, x, inner, outer):
        return self.op("Add", self.op("MatMul", x, self.weight(inner, outer)), self.weight(outer))

    def heads(self, x, count, size):
        shape = self.sizes(self.size(x, 0), -1, count, size)
        return self.op("Transpose", self.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def merged(self, x, size):
        x = self.op("Transpose", x, perm=[0, 2, 1, 3])
        return self.op("Reshape", x, self.sizes(self.size(x, 0), self.size(x, 1), size))

    def attention(self, q, k, v, scale, mask=None):
        scores = self.op("Mul", self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2])), np.float32(scale))
        scores = scores if mask is None else self.op("Add", scores, mask)
        return self.op("MatMul", self.op("Softmax", scores, axis=-1), v)

    def model(self, outputs, opset):
        graph = helper.make_graph(self.nodes, "g", self.inputs, [onnx.ValueInfoProto(name=name) for name in outputs], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def encoder():
    """BERT: embeddings, a mask of padded tokens, attention, layer normalization written out."""
    g = Graph()
    ids, mask = g.input("ids", INT64, ["batch", "seq"]), g.input("mask", INT64, ["batch", "seq"])
    bias = g.op("Cast", g.op("Unsqueeze", mask, np.array([1, 2])), to=FLOAT)
    bias = g.op("Mul", g.op("Sub", np.float32(1), bias), np.float32(-1e9))
    end = g.op("Unsqueeze", g.size(ids, 1), np.array([0]))
    positions = g.op("Slice", np.arange(64)[None], np.array([0]), end, np.array([1]))
    x = g.op("Add", g.op("Gather", g.weight(100, 32), ids), g.op("Gather", g.weight(64, 32), positions))
    q, k, v = (g.heads(g.linear(x, 32, 32), 4, 8) for _ in range(3))
    x = g.op("Add", x, g.linear(g.merged(g.attention(q, k, v, 8 ** -0.5, bias), 32), 32, 32))
    centred = g.op("Sub", x, g.op("ReduceMean", x, axes=[-1]))
    variance = g.op("ReduceMean", g.op("Pow", centred, np.float32(2)), axes=[-1])
    x = g.op("Div", centred, g.op("Sqrt", g.op("Add", variance, np.float32(1e-5))))
    feeds = [{"ids": g.rng.integers(0, 100, (b, t)), "mask": np.tile((np.arange(t) < max(1, t - b)).astype(np.int64), (b, 1))}
             for b, t in ((1, 1), (1, 7), (2, 16), (3, 33), (4, 5))]
    return g.model([x], 17), feeds


def decoder():
    """A step of a decoder: keys and values so far as inputs, fewer heads of them, positions by Range."""
    g = Graph()
    ids = g.input("ids", INT64, ["batch", "seq"])
    past_k, past_v = (g.input(name, FLOAT, ["batch", 2, "past", 8]) for name in ("past_k", "past_v"))
    x = g.op("Gather", g.weight(50, 32), ids)
    start, count = g.size(past_k, 2), g.size(ids, 1)
    end = g.op("Add", start, count)
    q = g.heads(g.op("MatMul", x, g.weight(32, 32)), 4, 8)
    k, v = (g.op("Concat", past, g.heads(g.op("MatMul", x, g.weight(32, 16)), 2, 8), axis=2) for past in (past_k, past_v))

    def repeated(t):
        batch, total = g.size(t, 0), g.size(t, 2)
        t = g.op("Expand", g.op("Unsqueeze", t, np.array([2])), g.sizes(batch, 2, 2, total, 8))
        return g.op("Reshape", t, g.sizes(batch, 4, total, 8))

    rows = g.op("Unsqueeze", g.op("Range", start, end, np.int64(1)), np.array([1]))
    columns = g.op("Unsqueeze", g.op("Range", np.int64(0), end, np.int64(1)), np.array([0]))
    mask = g.op("Where", g.op("Greater", columns, rows), np.float32(-1e9), np.float32(0))
    x = g.op("Add", x, g.merged(g.attention(q, repeated(k), repeated(v), 8 ** -0.5, mask), 32))
    feeds = [{"ids": g.rng.integers(0, 50, (b, t)), "past_k": g.rng.standard_normal((b, 2, p, 8)).astype(np.float32),
              "past_v": g.rng.standard_normal((b, 2, p, 8)).astype(np.float32)}
             for b, t, p in ((1, 5, 0), (1, 1, 5), (2, 1, 9), (2, 3, 4), (1, 1, 31))]
    return g.model([g.op("MatMul", x, g.weight(32, 50)), k, v], 17), feeds


def detector():
    """Boxes on a grid of the image's size, non-maximum suppression, the best of what is left."""
    g = Graph()
    x = g.input("x", FLOAT, ["batch", 3, "h", "w"])
    features = g.op("Relu", g.op("Conv", x, g.weight(8, 3, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2]))
    head = g.op("Conv", features, g.weight(6, 8, 1, 1))
    rows = g.op("Transpose", g.op("Reshape", head, g.sizes(g.size(head, 0), 6, -1)), perm=[0, 2, 1])
    height, width = g.size(features, 2), g.size(features, 3)
    grid = [g.op("Expand", g.op("Unsqueeze", g.op("Range", np.int64(0), size, np.int64(1)), np.array([axis])),
                 g.sizes(height, width)) for size, axis in ((width, 0), (height, 1))]
    grid = g.op("Concat", *[g.op("Unsqueeze", part, np.array([2])) for part in grid], axis=2)
    grid = g.op("Cast", g.op("Reshape", grid, np.array([1, -1, 2])), to=FLOAT)
    center, extent, scores = g.op("Split", rows, np.array([2, 2, 2]), axis=2, outputs=3)
    center, half = g.op("Add", g.op("Sigmoid", center), grid), g.op("Exp", extent)
    boxes = g.op("Concat", g.op("Sub", center, half), g.op("Add", center, half), axis=2)
    scores = g.op("Transpose", g.op("Sigmoid", scores), perm=[0, 2, 1])
    chosen = g.op("NonMaxSuppression", boxes, scores, np.array([10]), np.array([0.5], np.float32), np.array([0.45], np.float32))
    kept = g.op("GatherND", boxes, g.op("Gather", chosen, np.array([0, 2]), axis=1))
    best, order = g.op("TopK", g.op("GatherND", scores, chosen), g.op("Min", g.op("Shape", g.op("GatherND", scores, chosen)),
                                                                      np.array([5])), outputs=2, axis=0)
    feeds = [{"x": g.rng.standard_normal((b, 3, h, w)).astype(np.float32)}
             for b, h, w in ((1, 16, 16), (1, 20, 28), (2, 16, 24), (1, 33, 17), (1, 8, 8))]
    return g.model([best, g.op("Gather", kept, order, axis=0)], 17), feeds


def tagger():
    """A bidirectional LSTM over sequences of any length."""
    g = Graph()
    x = g.op("Transpose", g.op("Gather", g.weight(50, 16), g.input("x", INT64, ["batch", "seq"])), perm=[1, 0, 2])
    state = g.op("ConstantOfShape", g.sizes(2, g.size(x, 1), 24))
    y = g.op("LSTM", x, g.weight(2, 96, 16), g.weight(2, 96, 24), g.weight(2, 192), "", state, state, outputs=3, hidden_size=24,
             direction="bidirectional")[0]
    y = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), np.array([0, 0, -1]))
    feeds = [{"x": g.rng.integers(0, 50, (b, t))} for b, t in ((1, 1), (1, 40), (2, 13), (4, 7), (1, 100))]
    return g.model([g.op("Transpose", g.linear(y, 48, 7), perm=[1, 0, 2])], 17), feeds


@pytest.mark.parametrize("make", [encoder, decoder, detector, tagger])
def test_model(make):
    model, feeds = make()
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled = treadle.compile(model)
    for feed in feeds:
        for expected, actual in zip(session.run(None, feed), compiled.run(None, feed)):
            assert actual.shape == expected.shape
            np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_top_k_of_rows_of_any_length(axis, largest):
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["values", "indices"], "pick", axis=axis, largest=largest)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["a", "b"])],
        [helper.make_tensor_value_info("values", TensorProto.FLOAT, None), helper.make_tensor_value_info("indices", TensorProto.INT64, None)],
        [numpy_helper.from_array(np.array([3], np.int64), "k")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    for shape in ((3, 9), (40, 3), (17, 33)):
        x = np.random.default_rng(0).integers(0, 9, shape).astype(np.float32)
        order = np.argsort(-x if largest else x, axis=axis, kind="stable").take(range(3), axis)
        values, indices = model.run(None, {"x": x})
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))
    for size in (0, 2):
        with pytest.raises(treadle.Error, match=f"pick.*K 3 is out of range; expected 0 to {size}"):
            model.run(None, {"x": np.zeros((size, 4) if axis == 0 else (4, size), np.float32)})


@pytest.mark.parametrize("depth,units", [(64, 96), (1024, 512), (2048, 80)])
def test_products_of_any_number_of_rows(depth, units):
    rng = np.random.default_rng(0)
    weight, bias = rng.standard_normal((depth, units)).astype("f4"), rng.standard_normal(units).astype("f4")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["s"]),
             helper.make_node("Relu", ["s"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", depth])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", units])],
                              [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    for rows in (*range(18), 23, 28, 41, 100, 200):  # each remainder of a register tile
        x = rng.standard_normal((rows, depth)).astype("f4")
        expected = np.maximum(x.astype("f8") @ weight + bias, 0)
        np.testing.assert_allclose(model.run(None, {"x": x})[0], expected, rtol=1e-4, atol=depth * 1e-6, err_msg=str(rows))


def test_scan_of_a_known_number_of_rows_has_as_many_results():
    body = helper.make_graph([helper.make_node("Sub", ["x", "row"], ["d"]), helper.make_node("Abs", ["d"], ["y"]),
                              helper.make_node("Identity", ["x"], ["same"])], "body",
                             [helper.make_tensor_value_info("x", TensorProto.FLOAT, None),
                              helper.make_tensor_value_info("row", TensorProto.FLOAT, None)],
                             [helper.make_tensor_value_info("same", TensorProto.FLOAT, None),
                              helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    rows = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)
    graph = helper.make_graph([helper.make_node("Scan", ["x", "rows"], ["last", "all"], body=body, num_scan_inputs=1)], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
                              [helper.make_tensor_value_info("all", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(rows, "rows")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    assert model.outputs[0].shape[0] == 300
    x = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)
    np.testing.assert_allclose(model.run(None, {"x": x})[0], abs(x[None] - rows[:, None]), rtol=1e-6)


@pytest.mark.parametrize("stride", [1, 2])
def test_groups_of_images_of_any_size(stride):
    """32 groups of 4 channels, whose channels are looked up in blocks of 16, with padding."""
    g = Graph()
    x = g.input("x", FLOAT, ["n", 128, "h", "w"])
    y = g.op("Relu", g.op("Conv", x, g.weight(128, 128, 1, 1), kernel_shape=[1, 1]))
    y = g.op("Conv", y, g.weight(128, 4, 3, 3), kernel_shape=[3, 3], group=32, pads=[1] * 4, strides=[stride] * 2)
    model = g.model([g.op("Conv", g.op("Relu", y), g.weight(64, 128, 1, 1), kernel_shape=[1, 1])], 17)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled = treadle.compile(model)
    for shape in ((1, 128, 28, 28), (2, 128, 15, 33), (1, 128, 3, 1), (1, 128, 1, 40)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        expected = session.run(None, {"x": x})[0]
        np.testing.assert_allclose(compiled.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "ReduceSum", "ReduceMax", "ReduceLogSumExp", "ArgMax", "Softmax"])
def test_reductions_beside_rows_of_any_length(kind):
    """Neighbouring results of long windows, and of sums of dynamic length, were reduced one by one: 20 times ONNX Runtime's time
    for windows of 9 x 9 and 13 x 13."""
    pool = kind.endswith("Pool")
    shape, node = (["n", 3, "h", "w"] if pool else ["n", "c", "w"]), helper.make_node
    if pool:
        nodes = [node(kind, ["x"], ["y"], kernel_shape=[9, 9], pads=[4] * 4)]
    else:
        attributes = {"axis": 1} if kind in ("ArgMax", "Softmax") else {}
        nodes = [node(kind, ["x"] if attributes else ["x", "axes"], ["y"], **attributes)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, shape)], [onnx.ValueInfoProto(name="y")],
                              [numpy_helper.from_array(np.array([1]), "axes")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled, rng = treadle.compile(model, threads=1), np.random.default_rng(0)
    for width in (1, 2, 7, 8, 9, 16, 21, 40):
        for sizes in (((2, 3, 11, width), (1, 3, 1, width)) if pool else ((2, 5, width), (3, 70, width), (1, 1, width))):
            x = rng.standard_normal(sizes).astype(np.float32)
            np.testing.assert_allclose(compiled(x=x)["y"], session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)
