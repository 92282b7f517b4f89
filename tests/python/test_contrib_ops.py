# SPDX-License-Identifier: Apache-2.0
"""Operators of com.microsoft beside ONNX Runtime, which defines them; products of bytes are in test_contrib_bytes.py."""
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import treadle

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(7)


def model_of(op, inputs, constants, outputs, domain="com.microsoft", **attributes):
    """One node. `inputs`: name -> array, None where left out; those of `constants` are initializers."""
    names = [name if value is not None else "" for name, value in inputs.items()]
    given = {name: value for name, value in inputs.items() if value is not None}
    types = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in given.items()}
    graph = helper.make_graph(
        [helper.make_node(op, names, list(outputs), domain=domain, **attributes)], "g",
        [helper.make_tensor_value_info(name, types[name], value.shape)
         for name, value in given.items() if name not in constants],
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)
         for name, dtype in outputs.items() if name],
        [numpy_helper.from_array(given[name], name) for name in constants if name in given])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
                              ir_version=8)
    feed = {name: value for name, value in given.items() if name not in constants}
    return model.SerializeToString(), feed


def reference(model, feed):
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # else it saturates without VNNI
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feed)


def both(op, inputs, constants=(), outputs=None, domain="com.microsoft", **attributes):
    model, feed = model_of(op, inputs, constants, outputs or {"y": "float32"}, domain, **attributes)
    return treadle.compile(model).run(None, feed), reference(model, feed)


def near(results, expected, quanta=1, share=3e-3, tolerance=2e-5):
    for result, wanted in zip(results, expected):
        result = np.asarray(result)
        if wanted.dtype.kind == "f":
            scale = max(1.0, np.abs(wanted).max())
            np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance * scale)
            continue
        apart = np.abs(result.astype(np.int64) - wanted.astype(np.int64))
        assert apart.max() <= quanta and (apart > 0).mean() <= share


def byte(shape, dtype="uint8"):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def number(value, dtype="float32"):
    return np.array(value, dtype)


def real(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


X = {"x": byte((1, 16, 6, 6)), "xs": number(0.02), "xz": number(128, "uint8")}
Y = {"ys": number(0.03), "yz": number(3, "uint8")}
SCALES = ["xs", "xz", "ys", "yz", "bs", "bz", "ws", "wz"]


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_arithmetic(op):
    b = {"b": byte((16, 6, 6)), "bs": number(0.013), "bz": number(7, "uint8")}
    near(*both(op, {**X, **b, **Y}, SCALES, {"y": "uint8"}))


@pytest.mark.parametrize("op,attributes", [
    ("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.1}), ("QLinearSoftmax", {"axis": 1, "opset": 13}),
    ("QLinearGlobalAveragePool", {}), ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
])
def test_unary(op, attributes):
    scale = number(1 / 256) if op in ("QLinearSigmoid", "QLinearSoftmax") else number(0.03)
    near(*both(op, {**X, "ys": scale, "yz": number(0, "uint8")}, SCALES, {"y": "uint8"}, **attributes))


def test_concatenation_of_different_scales():
    inputs = {**Y, **X, "b": byte((1, 8, 6, 6)), "bs": number(0.013), "bz": number(7, "uint8")}
    near(*both("QLinearConcat", inputs, SCALES, {"y": "uint8"}, axis=1))


@pytest.mark.parametrize("batch,weights,columns,known,attributes", [
    (1, "uint8", True, True, {}), (3, "int8", False, True, {"direction": "reverse"}),
    (2, "int8", True, True, {"direction": "bidirectional", "clip": 0.9}), (1, "uint8", False, False, {"input_forget": 1}),
])
def test_lstm_with_weights_of_bytes(batch, weights, columns, known, attributes):
    steps, width, hidden = 4, 8, 16
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    of_scale = (directions, 4 * hidden) if columns else (directions,)
    zero = np.full(of_scale, 121 if weights == "uint8" else 0, weights)
    scale = lambda: RNG.uniform(0.002, 0.006, of_scale).astype(np.float32)
    state = lambda: 0.3 * real(directions, batch, hidden)
    inputs = {"x": real(steps, batch, width), "w": byte((directions, width, 4 * hidden), weights),
              "r": byte((directions, hidden, 4 * hidden), weights), "b": real(directions, 8 * hidden), "lengths": None,
              "h": state(), "c": state(), "p": real(directions, 3 * hidden) if batch == 3 else None,
              "ws": scale(), "wz": zero, "rs": scale(), "rz": zero}
    model, feed = model_of("DynamicQuantizeLSTM", inputs, ["w", "r", "b", "p", "ws", "wz", "rs", "rz"],
                           {"y": "float32", "yh": "float32", "yc": "float32"}, hidden_size=hidden, **attributes)
    if not known:
        model = onnx.load_from_string(model)
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "steps"
        model = model.SerializeToString()
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # else it saturates without VNNI
    options.intra_op_num_threads = 1  # with several, rows of a batch are quantised apart
    expected = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feed)
    near(treadle.compile(model).run(None, feed), expected)


@pytest.mark.parametrize("rows", [1, 3, 9])
@pytest.mark.parametrize("bits,k,zeros", [(4, 64, False), (4, 80, True), (8, 64, True)])
def test_weights_of_few_bits(bits, k, zeros, rows):
    n, block = 24, 32
    blocks = -(-k // block)
    inputs = {"a": real(1, rows, k), "b": byte((n, blocks, block * bits // 8)),
              "scales": RNG.uniform(0.01, 0.1, n * blocks).astype(np.float32),
              "zero_points": byte((n * ((blocks * bits + 7) // 8),)) if zeros else None}
    near(*both("MatMulNBits", inputs, ["b", "scales", "zero_points"], K=k, N=n, bits=bits, block_size=block),
         tolerance=2e-4)


@pytest.mark.parametrize("bits, block", [(4, 32), (8, 16)])
def test_weights_of_few_bits_and_rows_of_open_length(bits, block):
    inputs = {"a": real(2, 3, 64), "b": byte((24, 64 // block, block * bits // 8)),
              "scales": RNG.uniform(0.01, 0.1, 24 * 64 // block).astype(np.float32)}
    model, feed = model_of("MatMulNBits", inputs, ["b", "scales"], {"y": "float32"}, K=64, N=24, bits=bits, block_size=block)
    compiled = treadle.compile(dynamic_shapes(model, {"a": {0: "batch", 1: "rows", 2: "k"}}))
    near(compiled.run(None, feed), reference(model, feed), tolerance=2e-4)
    with pytest.raises(treadle.Error, match="size of a row of A.*64"):  # not four rows of 64
        compiled.run(None, {"a": real(2, 4, 32)})


@pytest.mark.parametrize("op,inputs", [
    ("Gelu", ["x"]), ("BiasGelu", ["x", "b"]), ("FastGelu", ["x", "b"]), ("QuickGelu", ["x"]),
])
def test_activations(op, inputs):
    near(*both(op, {name: real(4, 10) if name == "x" else real(10) for name in inputs}))


def test_products_of_transposed_batches():
    near(*both("FusedMatMul", {"a": real(5, 3, 4), "b": real(3, 6, 4)}, transBatchA=1, transB=1, alpha=0.5))


def test_convolution_with_sum_and_activation():
    inputs = {"x": real(1, 4, 6, 6), "w": real(8, 4, 3, 3), "b": real(8), "z": real(1, 8, 6, 6)}
    near(*both("FusedConv", inputs, ["w", "b"], pads=[1, 1, 1, 1], activation="Relu"))


def test_normalisations_of_sums():
    x, skip, gamma, beta = real(2, 5, 16), real(2, 5, 16), real(16), real(16)
    near(*both("SkipLayerNormalization", {"x": x, "skip": skip, "gamma": gamma, "beta": beta}, epsilon=1e-5))
    near(*both("SkipSimplifiedLayerNormalization", {"x": x, "skip": skip, "gamma": gamma}, epsilon=1e-5))
    near(*both("SimplifiedLayerNormalization", {"x": x, "gamma": gamma}, domain="", epsilon=1e-5, axis=-1))


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved):
    inputs = {"x": real(2, 5, 16), "ids": np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]]), "cos": real(12, 4),
              "sin": real(12, 4)}
    near(*both("RotaryEmbedding", inputs, interleaved=interleaved))


def dynamic_shapes(model, dims):
    """The model with named dimensions: {input: {axis: name}}."""
    model = onnx.load_from_string(model)
    for value in model.graph.input:
        for axis, name in dims.get(value.name, {}).items():
            value.type.tensor_type.shape.dim[axis].dim_param = name
    return model.SerializeToString()


ROWS = {0: "batch", 1: "rows"}
TRANSFORMER_NODES = {  # drawn by the test: what other tests draw stays
    "self": lambda: ("Attention", {"x": real(2, 6, 16), "w": real(16, 48), "b": real(48),
                           "mask": np.array([[1, 1, 1, 1, 0, 0], [1] * 6], np.int32)}, ["w", "b"],
             {"x": ROWS, "mask": ROWS}, {"num_heads": 4}),
    "lengths": lambda: ("Attention", {"x": real(2, 6, 16), "w": real(16, 48), "b": real(48), "mask": np.array([3, 6], np.int32)},
                ["w", "b"], {"x": ROWS, "mask": {0: "batch"}}, {"num_heads": 4, "unidirectional": 1}),
    "begins": lambda: ("Attention", {"x": real(2, 6, 16), "w": real(16, 48), "b": real(48),
                             "mask": np.array([5, 6, 1, 0], np.int32)}, ["w", "b"], {"x": {1: "rows"}}, {"num_heads": 4}),
    "mask_of_scores": lambda: ("Attention", {"x": real(2, 3, 16), "w": real(16, 48), "b": real(48),
                                     "mask": np.array([[[1, 0, 0], [1, 1, 0], [0, 1, 1]]] * 2, np.int32)}, ["w", "b"],
                       {"x": ROWS, "mask": {0: "batch", 1: "rows", 2: "rows"}}, {"num_heads": 4}),
    "past": lambda: ("Attention", {"x": real(2, 3, 16), "w": real(16, 48), "b": real(48), "mask": None, "past": real(2, 2, 4, 5, 4)},
             ["w", "b"], {"x": ROWS, "past": {1: "batch", 3: "past"}}, {"num_heads": 4, "unidirectional": 1}),
    "cross": lambda: ("MultiHeadAttention", {"q": real(2, 6, 16), "k": real(2, 7, 16), "v": real(2, 7, 16), "b": real(48),
                                     "mask": np.array([[1, 1, 1, 1, 0, 0, 1], [1] * 7], np.int32)}, ["b"],
              {"q": ROWS, "k": {0: "batch", 1: "keys"}, "v": {0: "batch", 1: "keys"}, "mask": {0: "batch", 1: "keys"}},
              {"num_heads": 4}),
    "embedding": lambda: ("EmbedLayerNormalization",
                  {"ids": np.array([[1, 4, 2], [0, 3, 3]], np.int32), "segments": np.array([[0, 0, 1]] * 2, np.int32),
                   "words": real(5, 8), "positions": real(9, 8), "kinds": real(2, 8), "gamma": real(8), "beta": real(8),
                   "mask": np.array([[1, 1, 0], [1, 1, 1]], np.int32)},
                  ["words", "positions", "kinds", "gamma", "beta"], {"ids": ROWS, "segments": ROWS, "mask": ROWS}, {}),
    "rotation": lambda: ("RotaryEmbedding", {"x": real(2, 5, 32), "at": np.array([2], np.int64), "cos": real(9, 4), "sin": real(9, 4)},
                 ["cos", "sin"], {"x": ROWS}, {}),
    "rotation_of_heads": lambda: ("RotaryEmbedding", {"x": real(2, 4, 5, 8), "at": np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]], np.int64),
                                              "cos": real(9, 4), "sin": real(9, 4)},
                          ["cos", "sin"], {"x": {0: "batch", 2: "rows"}, "at": ROWS}, {"interleaved": 1}),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", TRANSFORMER_NODES)
def test_nodes_of_optimised_transformers(name, known):
    op, inputs, constants, dims, attributes = TRANSFORMER_NODES[name]()
    outputs = {"y": "float32"}
    if "past" in inputs:
        outputs["present"] = "float32"
    if op == "EmbedLayerNormalization":
        outputs["seen"] = "int32"
    model, feed = model_of(op, inputs, constants, outputs, **attributes)
    if not known:
        model = dynamic_shapes(model, dims)
    near(treadle.compile(model).run(None, feed), reference(model, feed))


@pytest.mark.parametrize("step", [1, 4])
def test_attention_of_decoders(step):
    past = 5 if step == 1 else 0
    inputs = {"q": real(1, step, 64), "k": real(1, step, 32), "v": real(1, step, 32), "pk": real(1, 2, past, 16),
              "pv": real(1, 2, past, 16), "used": np.array([past + step - 1], np.int32),
              "all": np.array(past + step, np.int32), "cos": real(16, 8), "sin": real(16, 8)}
    outputs = {"y": "float32", "key": "float32", "value": "float32"}
    near(*both("GroupQueryAttention", inputs, [], outputs, num_heads=4, kv_num_heads=2, do_rotary=1))


def decoder_step(rows, room, used, total, known=True, sinks=False, bias=False, packed=False, **attributes):
    """One node with keys and values of steps before, and its inputs."""
    batch, heads, kept, size = len(used), 4, 2, 16
    parts = {"q": real(batch, rows, (heads + 2 * kept) * size)} if packed else {
        "q": real(batch, rows, heads * size), "k": real(batch, rows, kept * size), "v": real(batch, rows, kept * size)}
    inputs = {"q": None, "k": None, "v": None, **parts, "pk": real(batch, kept, room, size),
              "pv": real(batch, kept, room, size), "used": np.array(used, np.int32), "all": np.array(total, np.int32),
              "cos": real(32, size // 2), "sin": real(32, size // 2), "positions": None,
              "bias": real(1, 1, rows, total) if bias else None, "sinks": real(heads) if sinks else None}
    model, feed = model_of("GroupQueryAttention", inputs, [], {"y": "float32", "key": "float32", "value": "float32"},
                           num_heads=heads, kv_num_heads=kept, do_rotary=1, **attributes)
    if not known:
        past = {0: "batch", 2: "past"}
        model = dynamic_shapes(model, {"q": ROWS, "k": ROWS, "v": ROWS, "pk": past, "pv": past, "used": {0: "batch"}})
    return model, feed


@pytest.mark.parametrize("step", [
    dict(rows=1, room=12, used=(6, 8), total=9),  # buffers with room for more
    dict(rows=1, room=12, used=(6, 8), total=9, local_window_size=4),
    dict(rows=1, room=12, used=(6, 8), total=9, sinks=True, local_window_size=3),
    dict(rows=1, room=12, used=(6, 8), total=9, smooth_softmax=1),
    dict(rows=1, room=12, used=(6, 8), total=9, bias=True, packed=True, softcap=5.0, rotary_interleaved=1),
    dict(rows=3, room=12, used=(7,), total=8),
    dict(rows=6, room=12, used=(5, 3), total=6),  # a prompt
    dict(rows=1, room=8, used=(8, 8), total=9, known=False, local_window_size=4),  # grows
    dict(rows=6, room=0, used=(5, 5), total=6, known=False),
    dict(rows=3, room=5, used=(7,), total=8, known=False),
])
def test_attention_with_keys_of_steps_before(step):
    model, feed = decoder_step(**step)
    expected = reference(model, feed)
    results = [np.asarray(result) for result in treadle.compile(model).run(None, feed)]
    assert [r.shape for r in results] == [e.shape for e in expected]
    for row, last in enumerate(feed["used"]):  # what stands behind is of no one's
        of_prompt = slice(0, last + 1) if step["total"] == step["rows"] else slice(None)
        near([results[0][row, of_prompt]], [expected[0][row, of_prompt]])
        near([r[row, :, :last + 1] for r in results[1:]], [e[row, :, :last + 1] for e in expected[1:]])


def test_what_isnt_implemented_is_named():
    model, _ = model_of("BeamSearch", {"x": real(2, 3)}, [], {"y": "float32"})
    with pytest.raises(treadle.Error, match="com.microsoft.BeamSearch"):
        treadle.compile(model)


def index(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize("op, inputs, constants, outputs, attributes", [
    ("ExpandDims", {"x": real(2, 3), "axis": np.array([-1], np.int32)}, ("axis",), None, {}),
    ("Trilu", {"x": real(3, 4), "k": np.array(1, np.int64)}, (), None, {"upper": 0}),
    ("GatherND", {"x": real(3, 4, 2), "i": index([0, 1], [2, 3])}, (), None, {}),
    ("GridSample", {"x": real(1, 2, 4, 4), "g": real(1, 3, 3, 2)}, (), None, {"mode": "bilinear", "align_corners": 1}),
    ("Range", {"a": number(1), "b": number(7)}, (), None, {}),
    ("Pad", {"x": real(2, 3), "p": index([0, 1, 2, 0])}, (), None, {"mode": "constant"}),
    ("UnfoldTensor", {"x": np.arange(54, dtype=np.float32).reshape(2, 9, 3)}, (), None, {"dim": 1, "size": 4, "step": 2}),
    ("UnfoldTensor", {"x": np.arange(21, dtype=np.float32).reshape(3, 7)}, (), None, {"size": 7}),
    ("Unique", {"x": np.array([2, 1, 1, 3, 4, 3], np.float32)}, (), {"y": "float32", "i": "int64", "c": "int64"}, {}),
    ("CDist", {"a": real(4, 3), "b": real(5, 3)}, (), None, {"metric": "euclidean"}),
    ("CDist", {"a": real(4, 3), "b": real(5, 3)}, (), None, {"metric": "sqeuclidean"}),
    ("TransposeMatMul", {"a": real(3, 4), "b": real(5, 3)}, (), None, {"transA": 1, "transB": 1, "alpha": 0.5}),
])
def test_forms_of_standard_operators(op, inputs, constants, outputs, attributes):
    near(*both(op, inputs, constants, outputs, **attributes))


def test_group_norm_of_channels_in_the_last_dimension():
    """No CPU kernel of ONNX Runtime: its definition."""
    x, scale, bias = real(2, 3, 4, 6), real(6), real(6)
    model, feed = model_of("GroupNorm", {"x": x, "s": scale, "b": bias}, ("s", "b"), {"y": "float32"}, groups=3, activation=1)
    y, = treadle.compile(model).run(None, feed)
    groups = x.reshape(2, 12, 3, 2).astype(np.float64)
    normal = (groups - groups.mean((1, 3), keepdims=True)) / np.sqrt(groups.var((1, 3), keepdims=True) + 1e-5)
    wanted = normal.reshape(x.shape) * scale + bias
    np.testing.assert_allclose(y, wanted / (1 + np.exp(-wanted)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size, block", [(16, 16), (8, 16), (64, 64), (48, 16)])
@pytest.mark.parametrize("zero", [False, True])
def test_rows_of_packed_numbers(size, block, zero):
    """Numbers of 4 bits in one block were taken for bytes: rows of half their size."""
    blocks = -(-size // block)
    operands = {"data": byte((3, size // 2)), "i": np.array([2, 0, 1, 2]), "s": real(3, blocks)}
    if zero:
        operands["z"] = byte((3, -(-blocks // 2)))
    given = dict(constants=("data", "s", "z"), block_size=block, gather_axis=0, quantize_axis=1, bits=4)
    results, expected = both("GatherBlockQuantized", operands, **given)
    assert results[0].shape == (4, size)
    near(results, expected)
    with pytest.raises(treadle.Error, match=f"'scales' isn't of {blocks} blocks of {block}"):
        both("GatherBlockQuantized", {**operands, "s": real(3, blocks + 1)}, **given)


def test_embeddings_without_a_mask():
    """The number of unmasked positions has to be an output, which ONNX Runtime sets to 0."""
    operands = {"ids": np.array([[1, 2, 0], [4, 4, 3]], np.int32), "segments": None, "words": real(5, 8), "positions": real(3, 8),
                "kinds": None, "gamma": real(8), "beta": real(8)}
    near(*both("EmbedLayerNormalization", operands, outputs={"y": "float32", "count": "int32"}))
    with pytest.raises(treadle.Error, match="'input_ids' has rank 3, expected 2"):
        both("EmbedLayerNormalization", {**operands, "ids": operands["ids"][None]}, outputs={"y": "float32", "count": "int32"})
