# SPDX-License-Identifier: Apache-2.0
"""Single operators of `edges` that few models have: layers with a state, attention with graphs of its own, Scan as opset 8
has it, text, random numbers."""
import numpy as np
from onnx import TensorProto, helper

from .edges import ANY, Draw, rule

INFO = helper.make_tensor_value_info


def _floats(s, *shape):
    return s.array(shape, "float32", 0)


# ---- layers with a state ----

@rule("LinearAttention")
def linear_attention(s, op):
    batch, steps, kept, size, values = s.pick([1, 2]), s.pick([1, 2, 5]), s.pick([1, 2]), s.pick([1, 4, 8]), s.pick([1, 3, 8])
    heads = kept * s.pick([1, 1, 2, 3])
    how = s.pick(["linear", "gated", "delta", "gated_delta"])
    decay = beta = past = None
    if "gated" in how:
        decay = -np.abs(_floats(s, batch, steps, kept * s.pick([1, size]))) / 4
    if "delta" in how:
        beta = np.abs(_floats(s, batch, steps, s.pick([1, kept]))) / 8
    if s.chance(0.5):
        past = _floats(s, batch, kept, size, values)
    attributes = {"q_num_heads": heads, "kv_num_heads": kept, "update_rule": how}
    if s.chance(0.3):
        attributes["scale"] = 0.5
    return Draw(op, [_floats(s, batch, steps, heads * size), _floats(s, batch, steps, kept * size) / 4,
                     _floats(s, batch, steps, kept * values), past, decay, beta], attributes, 2, error=1e-4, opset=27)


@rule("CausalConvWithState")
def causal_convolution(s, op):
    batch, channels, steps, taps = s.pick([1, 2]), s.pick([1, 3, 16]), s.pick([1, 2, 7]), s.pick([1, 2, 4])
    bias = _floats(s, channels) if s.chance(0.5) else None
    past = _floats(s, batch, channels, taps - 1) if s.chance(0.5) else None
    return Draw(op, [_floats(s, batch, channels, steps), _floats(s, channels, 1, taps), bias, past],
                {"activation": s.pick(["none", "silu", "swish"])}, 2, error=1e-4, opset=27)


@rule("TensorScatter")
def tensor_scatter(s, op):
    batch, length, steps = s.pick([1, 2, 3]), s.pick([1, 4, 9]), s.pick([1, 2, 4])
    steps, rank, mode = min(steps, length), s.pick([3, 4]), s.pick(["linear", "circular"])
    axis = s.pick(range(1, rank))
    shape = [batch] + [s.pick([1, 2, 5]) for _ in range(rank - 1)]
    update = list(shape)
    shape[axis], update[axis] = length, steps
    dtype = s.pick(ANY)
    last = length - 1 if mode == "circular" else length - steps
    places = s.numpy.integers(0, last + 1, batch).astype(np.int64) if s.chance(0.8) else None
    return Draw(op, [s.array(shape, dtype), s.array(update, dtype), places],
                {"axis": axis - s.pick([0, rank]), "mode": mode}, opset=24)


@rule("SwiGLU", "BitCast")
def newest(s, op):
    if op == "SwiGLU":
        shape = s.shape([1, 2, 3, 4])
        return Draw(op, [s.array(shape, "float32", 0), s.array(shape, "float32", 0)],
                    {"alpha": s.pick([1.0, 0.5, 1.702])} if s.chance(0.5) else {}, error=1e-4, opset=28)
    kinds = s.pick([["float32", "int32", "uint32"], ["float64", "int64", "uint64"], ["float16", "int16", "uint16"],
                    ["int8", "uint8"]])
    x = s.array(s.shape(), s.pick(kinds))
    to = s.pick(kinds)
    return Draw(op, [x], {"to": helper.np_dtype_to_tensor_dtype(np.dtype(to))}, opset=26)


def _mod(s, name):
    """A graph from scores to scores of any sizes."""
    sizes = ["B", "H", "L", "S"]
    op, number = s.pick([("Add", 0.5), ("Mul", 0.25), ("Max", -1.0), ("Tanh", None), ("Relu", None)])
    known = [] if number is None else [helper.make_tensor("number", TensorProto.FLOAT, [], [number])]
    node = helper.make_node(op, ["s"] + ["number"] * len(known), ["t"])
    return helper.make_graph([node], name, [INFO("s", TensorProto.FLOAT, sizes)], [INFO("t", TensorProto.FLOAT, sizes)], known)


@rule("FlexAttention", domain="ai.onnx.preview")
def flex_attention(s, op):
    batch, kept, queries, keys, size, values = (s.pick(sizes) for sizes in (
        [1, 2], [1, 2], [1, 3, 8], [1, 4, 9], [1, 2, 8], [1, 2, 8]))
    attributes = {name: _mod(s, name) for name in ("score_mod", "prob_mod") if s.chance(0.4)}
    if s.chance(0.4):
        attributes["scale"] = s.pick([0.25, 1.0])
    if s.chance(0.2):
        attributes["softmax_precision"] = TensorProto.FLOAT
    return Draw(op, [_floats(s, batch, kept * s.pick([1, 1, 2]), queries, size), _floats(s, batch, kept, keys, size),
                     _floats(s, batch, kept, keys, values)], attributes, error=1e-4, opset=26)


@rule("Scan", variant="opset 8")
def scan_8(s, op):
    """Over sequences of a batch, of one length."""
    batch, steps, width = s.pick([1, 2, 3]), s.pick([1, 2, 5]), s.pick([1, 3])
    nodes = [helper.make_node(s.pick(["Add", "Sub", "Mul"]), ["state", "x"], ["new"]),
             helper.make_node(s.pick(["Neg", "Relu", "Tanh"]), ["new"], ["row"])]
    body = helper.make_graph(nodes, "body", [INFO(n, TensorProto.FLOAT, [width]) for n in ("state", "x")],
                             [INFO(n, TensorProto.FLOAT, [width]) for n in ("new", "row")])
    lengths = np.full(batch, steps, np.int64) if s.chance(0.4) else None
    if lengths is not None and s.chance(0.3):
        lengths[-1] = s.integer(1, steps)
    attributes = {"body": body, "num_scan_inputs": 1, **({"directions": [s.integer(0, 1)]} if s.chance(0.5) else {})}
    return Draw(op, [lengths, _floats(s, batch, width), _floats(s, batch, steps, width) / 4], attributes, 2, error=1e-4,
                opset=8)


# ---- sizes, masks ----

@rule("CenterCropPad", "Dropout", "MelWeightMatrix")
def other(s, op):
    if op == "CenterCropPad":
        x = s.array(s.shape([1, 2, 3, 4]), s.pick(["float32", "int32", "bool"]), 0)
        axes = s.random.sample(range(x.ndim), s.integer(1, x.ndim))
        sizes = np.array([s.pick([1, 2, 3, 6]) for _ in axes], np.int64)
        return Draw(op, [x, sizes], {"axes": [a - s.pick([0, x.ndim]) for a in axes]})
    if op == "Dropout":
        x = s.array(s.shape(), s.pick(["float32", "float64", "float16"]))
        training = s.chance(0.5)
        rest = [np.array(0.0 if training else s.pick([0.0, 0.5]), np.float32), np.array(training)]
        return Draw(op, [x, *rest[:2 if training else s.integer(0, 2)]], outputs=s.integer(1, 2))
    bins, length, rate = s.pick([1, 4, 8]), s.pick([8, 16, 64]), s.pick([8000, 16000])
    operands = [np.array(bins, np.int64), np.array(length, np.int64), np.array(rate, np.int64),
                np.array(s.pick([0.0, 100.0]), np.float32), np.array(s.pick([2000.0, 4000.0]), np.float32)]
    return Draw(op, operands, constants=(0, 1, 2, 3, 4) if s.chance(0.5) else (), error=1e-4)


@rule("ScatterElements", "Scatter", variant="opset 9")
def old_scatter(s, op):
    x = s.array(s.shape(range(1, 5), all), s.pick(["float32", "int64", "bool"]), 0)
    axis = s.axis(x.ndim)
    shape = list(x.shape)
    shape[axis] = s.integer(1, shape[axis])
    indices = np.stack([s.numpy.permutation(x.shape[axis])[:shape[axis]] for _ in range(1)])[0]
    indices = np.broadcast_to(indices.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]), shape)
    return Draw(op, [x, indices.astype(s.pick(["int32", "int64"])), s.array(shape, x.dtype, 0)], {"axis": axis},
                opset=s.pick([9, 10]) if op == "Scatter" else 11)


# ---- text ----

WORDS = ["", "a", "A", "b", "Ab", "aB c", " a  b ", "a,b,,c", ",", "über", "ÜBER", "日本", "x" * 40, "1", "0.5", "a\tb\nc", "the"]


def _words(s, shape, from_=WORDS):
    return np.array([s.pick(from_) for _ in range(int(np.prod(shape)))], object).reshape(shape)


@rule("StringConcat", "StringSplit", "RegexFullMatch", "StringNormalizer")
def text(s, op):
    shape = s.shape([0, 1, 2, 3] if op != "StringSplit" else [1, 2, 3])  # of a scalar peers differ on ""
    if op == "StringConcat":
        return Draw(op, [_words(s, shape), _words(s, s.broadcast(shape))])
    if op == "StringSplit":
        attributes = {"delimiter": s.pick([",", " ", "", "b", ",,"])} if s.chance(0.7) else {}
        if s.chance(0.4):
            attributes["maxsplit"] = s.pick([0, 1, 2])
        return Draw(op, [_words(s, shape)], attributes, 2)
    if op == "RegexFullMatch":
        return Draw(op, [_words(s, shape)], {"pattern": s.pick(["a", "a.*", "[a-z]+", "(a|b)+", "", ".", r"\d+(\.\d+)?",
                                                                "a{1,2}", "[^,]*", r"\w+\s\w+", "x*"])})
    # ONNX Runtime compares stop words as the locale says, and changes cases beyond ASCII by it, too.
    plain = [word for word in WORDS if word.isascii() and word]
    attributes = {"case_change_action": s.pick(["LOWER", "UPPER", "NONE"]), "is_case_sensitive": s.integer(0, 1), "locale": "C"}
    if s.chance(0.6):
        attributes["stopwords"] = [s.pick(plain) for _ in range(s.integer(1, 3))]
    return Draw(op, [_words(s, s.pick([(1,), (3,), (7,), (1, 4)]), plain)], attributes)


@rule("Tokenizer", domain="com.microsoft")
def tokens(s, op):
    attributes = {"mark": s.integer(0, 1), "pad_value": s.pick(["#", "", "pad"]), "mincharnum": s.pick([1, 1, 2, 3])}
    if s.chance(0.5):
        attributes["separators"] = s.pick([[","], [" "], [",", " "], ["b"], ["[,;]"], ["a", "b"], ["B|c"], [" +"]])
    else:
        attributes["tokenexp"] = s.pick(["[a-z]+", "[A-Za-z]+", ".", "a|b", "[^, ]+", r"\w+", r"\d+(\.\d+)?"])
    if attributes.get("tokenexp") == ".":
        attributes["mincharnum"] = 1
    return Draw(op, [_words(s, s.pick([(1,), (3,), (2, 2), (1, 4)]))], attributes)  # of none ONNX Runtime keeps the rank


@rule("Equal", "Identity", "Reshape", "Concat", "Gather", "Where", "Transpose", "Slice", "Unsqueeze", "Expand", "Tile",
      variant="text")
def moved_text(s, op):
    x = _words(s, s.shape(range(1, 5), all))
    axis = s.axis(x.ndim)
    if op in ("Equal", "Where"):
        other_ = _words(s, s.broadcast(x.shape))
        return Draw(op, [x, other_] if op == "Equal" else [s.array(s.broadcast(x.shape), "bool"), x, other_])
    if op == "Concat":
        return Draw(op, [x, _words(s, x.shape)], {"axis": axis})
    if op == "Gather":
        return Draw(op, [x, s.numpy.integers(0, x.shape[axis], s.pick([(), (2,), (1, 3)]))], {"axis": axis})
    second = {"Reshape": [-1], "Slice": [0], "Unsqueeze": [0], "Expand": [2] + list(x.shape), "Tile": [2] * x.ndim}.get(op)
    more = [] if second is None else [np.array(second, np.int64)]
    return Draw(op, [x, *more] + ([np.array([1], np.int64)] if op == "Slice" else []))


@rule("TfIdfVectorizer")
def grams(s, op):
    length = s.integer(1, 2)
    pool = list(range(4)) + ([] if length == 1 else [0, 1, 2, 3, 1, 1])
    number = 4 + (3 if length == 2 else 0)
    x = s.numpy.integers(0, 5, s.pick([(6,), (1, 6), (3, 4)])).astype(s.pick(["int32", "int64"]))
    attributes = {"mode": s.pick(["TF", "IDF", "TFIDF"]), "min_gram_length": s.integer(1, length), "max_gram_length": length,
                  "max_skip_count": s.integer(0, 2), "ngram_counts": [0, 4][:length],
                  "ngram_indexes": [int(i) for i in s.numpy.permutation(number)]}
    if s.chance(0.6):
        attributes["weights"] = [float(w) for w in np.abs(_floats(s, number)) + 0.5]
    if s.chance(0.4):
        return Draw(op, [np.array([f"w{i}" for i in x.ravel()], object).reshape(x.shape)],
                    {**attributes, "pool_strings": [f"w{i}" for i in pool]})
    return Draw(op, [x], {**attributes, "pool_int64s": pool})


# ---- random numbers ----

@rule("RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Bernoulli", "Multinomial")
def random_numbers(s, op):
    """Of the distributions that give one number, the number; of others type and shape."""
    if op == "Bernoulli":
        return Draw(op, [s.array(s.shape(), "bool").astype(s.pick(["float32", "float64"]))],
                    {"seed": 3.0})
    if op == "Multinomial":
        rows, classes = s.pick([1, 3]), s.pick([1, 4])
        x = np.full((rows, classes), -1e4, np.float32)
        x[np.arange(rows), s.numpy.integers(0, classes, rows)] = 1
        return Draw(op, [x], {"sample_size": s.pick([1, 5]), "seed": 3.0, "dtype": s.pick([TensorProto.INT32, TensorProto.INT64])})
    dtype = s.pick([TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
    attributes = {"seed": float(s.integer(0, 9))} if s.chance(0.7) else {}
    bounds = ("low", "high") if "Uniform" in op else ("mean", "scale")
    attributes.update({name: value for name, value in zip(bounds, (-2.0, 3.0)) if s.chance(0.5)})
    if op.endswith("Like"):
        x = s.array(s.shape(), s.pick(["float32", "float64", "float16"]), 0)
        return Draw(op, [x], {**attributes, **({"dtype": dtype} if s.chance(0.5) else {})}, error=np.inf)
    return Draw(op, [], {**attributes, "shape": list(s.shape(range(1, 5))), "dtype": dtype}, error=np.inf)
