# SPDX-License-Identifier: Apache-2.0
"""Single operators of `edges` that are whole layers: recurrent ones, attention, losses, transforms, quantised ones, those
of com.microsoft and ai.onnx.ml; and operators as older opsets have them."""
import numpy as np
from onnx import TensorProto

from .edges import ANY, FLOATS, Draw, rule

MICROSOFT, LEARNING = "com.microsoft", "ai.onnx.ml"


def _floats(s, *shape):
    return s.array(shape, "float32", 0)


# ---- recurrent layers and attention ----

@rule("LSTM", "GRU", "RNN")
def recurrent(s, op):
    steps, batch, width, hidden = (s.pick(sizes) for sizes in ([1, 2, 5], [1, 2, 3], [1, 3, 8], [1, 3, 8, 17]))
    direction = s.pick(["forward", "reverse", "bidirectional"])
    number, gates = 2 if direction == "bidirectional" else 1, {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    attributes = {"hidden_size": hidden, "direction": direction}
    lengths = s.numpy.integers(1, steps + 1, batch).astype(np.int32) if s.chance(0.5) else None
    operands = [_floats(s, steps, batch, width), _floats(s, number, gates * hidden, width) / 4,
                _floats(s, number, gates * hidden, hidden) / 4,
                _floats(s, number, 2 * gates * hidden) if s.chance(0.5) else None, lengths]
    states = 2 if op == "LSTM" else 1
    operands += [_floats(s, number, batch, hidden) if s.chance(0.5) else None for _ in range(states)]
    if op == "LSTM" and s.chance(0.3):
        operands.append(_floats(s, number, 3 * hidden))
    if op == "GRU":
        attributes["linear_before_reset"] = s.integer(0, 1)
    if s.chance(0.3):
        attributes["clip"] = s.pick([0.5, 3.0])
    if s.chance(0.3):
        first = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
        attributes["activations"] = [s.pick(["Sigmoid", "Tanh", "Relu"]) for _ in range(first * number)]
    return Draw(op, operands, attributes, 1 + states, error=1e-4)


@rule("Attention")
def attention(s, op):
    batch, queries, keys, size, values = s.pick([1, 2]), s.pick([1, 3, 8]), s.pick([1, 4, 9]), s.pick([2, 8]), s.pick([2, 8])
    kept = s.pick([1, 2, 3])
    heads = kept * s.pick([1, 1, 2])
    flat = s.chance(0.5)
    attributes, past = {"is_causal": s.integer(0, 1)}, s.pick([0, 0, 3])
    shaped = lambda h, n, d: _floats(s, *((batch, n, h * d) if flat else (batch, h, n, d)))  # noqa: E731
    if flat:
        attributes.update(q_num_heads=heads, kv_num_heads=kept)
    if s.chance(0.3):
        attributes["scale"] = s.pick([0.25, 1.0])
    if s.chance(0.2):
        attributes["softcap"] = 2.0
    mask = None
    if s.chance(0.5):
        shape = s.pick([(queries, keys + past), (batch, 1, queries, keys + past), (1, heads, queries, keys + past)])
        mask = s.array(shape, s.pick(["bool", "float32"]), 0)
        mask[..., 0] = 0 if mask.dtype.kind == "f" else True  # something has to be left
    operands = [shaped(heads, queries, size), shaped(kept, keys, size), shaped(kept, keys, values), mask]
    if past:
        operands += [_floats(s, batch, kept, past, size), _floats(s, batch, kept, past, values)]
    return Draw(op, operands, attributes, 3 if past or s.chance(0.3) else 1, error=1e-4, opset=23)


@rule("RotaryEmbedding")
def rotary(s, op):
    batch, steps, heads, size = s.pick([1, 2]), s.pick([1, 5]), s.pick([1, 3]), s.pick([4, 8])
    rotated = s.pick([0, 0, 4])
    flat, given = s.chance(0.5), s.chance(0.5)
    shape = (batch, steps, heads * size) if flat else (batch, heads, steps, size)
    rows = (9, (rotated or size) // 2) if given else (batch, steps, (rotated or size) // 2)
    operands = [_floats(s, *shape), _floats(s, *rows), _floats(s, *rows)]
    if given:
        operands.append(s.numpy.integers(0, 9, (batch, steps)).astype(np.int64))
    attributes = {"interleaved": s.integer(0, 1), **({"rotary_embedding_dim": rotated} if rotated else {})}
    return Draw(op, operands, {**attributes, **({"num_heads": heads} if flat or rotated else {})}, opset=23)


@rule("RMSNormalization", "Swish")
def newer(s, op):
    x = s.array(s.shape([2, 3, 4]), "float32", 0)
    if op == "Swish":
        return Draw(op, [x], {"alpha": s.pick([1.0, 0.5])} if s.chance(0.5) else {}, opset=24)
    axis = s.axis(x.ndim)
    return Draw(op, [x, s.array(x.shape[axis:], "float32", 0)], {"axis": axis}, error=1e-4, opset=23)


# ---- pictures, signals, losses ----

@rule("MaxUnpool")
def unpool(s, op):
    x = np.arange(2 * 3 * 4 * 6, dtype=np.float32).reshape(2, 3, 4, 6)
    places = np.arange(x.size).reshape(x.shape)[:, :, 1::2, ::2]
    return Draw(op, [x[:, :, 1::2, ::2].copy(), places.astype(np.int64)], {"kernel_shape": [2, 2], "strides": [2, 2]})


@rule("Col2Im")
def columns_to_image(s, op):
    block = [s.integer(1, 3), s.integer(1, 3)]
    strides, dilations, pads = ([s.integer(low, 2) for _ in range(n)] for low, n in ((1, 2), (1, 2), (0, 4)))
    image = [s.integer(5, 8), s.integer(5, 8)]
    places = [(image[i] + pads[i] + pads[2 + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(2)]
    x = _floats(s, s.pick([1, 2]), s.pick([1, 3]) * block[0] * block[1], places[0] * places[1])
    return Draw(op, [x, np.array(image, np.int64), np.array(block, np.int64)],
                {"strides": strides, "dilations": dilations, "pads": pads})


@rule("AffineGrid")
def affine_grid(s, op):
    return Draw(op, [_floats(s, 2, 2, 3), np.array([2, s.pick([1, 3]), s.pick([1, 4]), s.pick([2, 5])], np.int64)],
                {"align_corners": s.integer(0, 1)}, error=1e-4)


@rule("GridSample")
def grid_sample(s, op):
    spatial = s.pick([2, 2, 3])
    x = _floats(s, s.pick([1, 2]), s.pick([1, 3]), *(s.pick([1, 2, 4, 5]) for _ in range(spatial)))
    grid = (s.numpy.uniform(-1.5, 1.5, (x.shape[0], *(s.pick([1, 3]) for _ in range(spatial)), spatial))).astype(np.float32)
    mode = s.pick(["linear", "nearest", "cubic"] if spatial == 2 else ["linear", "nearest"])
    return Draw(op, [x, grid], {"mode": mode, "align_corners": s.integer(0, 1),
                                "padding_mode": s.pick(["zeros", "border", "reflection"])}, error=1e-4)


@rule("RoiAlign", "MaxRoiPool")
def regions(s, op):
    x = _floats(s, s.pick([1, 2]), s.pick([1, 3]), s.pick([3, 7]), s.pick([4, 8]))
    count = s.pick([0, 1, 3])
    corners = np.sort(s.numpy.integers(0, 8, (count, 2, 2)), 1).reshape(count, 4).astype(np.float32)
    batch = s.numpy.integers(0, x.shape[0], count).astype(np.int64)
    if op == "MaxRoiPool":
        rois = np.concatenate([batch[:, None].astype(np.float32), corners], 1)
        return Draw(op, [x, rois], {"pooled_shape": [2, s.integer(1, 3)], "spatial_scale": s.pick([1.0, 0.5])})
    return Draw(op, [x, corners, batch], {
        "output_height": s.integer(1, 3), "output_width": s.integer(1, 3), "sampling_ratio": s.integer(0, 2),
        "spatial_scale": s.pick([1.0, 0.5]), "mode": s.pick(["avg", "max"]),
        "coordinate_transformation_mode": s.pick(["half_pixel", "output_half_pixel"])}, error=1e-4)


@rule("NonMaxSuppression")
def suppression(s, op):
    boxes, classes = s.pick([0, 1, 6]), s.pick([1, 3])
    corners = np.sort(s.numpy.uniform(0, 4, (2, boxes, 2, 2)), 2).reshape(2, boxes, 4).astype(np.float32)
    scores = s.numpy.permutation(2 * classes * boxes).reshape(2, classes, boxes).astype(np.float32)
    limits = [np.array([s.pick([0, 1, 9])], np.int64), np.array([s.pick([0.0, 0.3, 0.9])], np.float32),
              np.array([s.pick([-1.0, 3.0])], np.float32)]
    return Draw(op, [corners, scores, *limits[:s.integer(1, 3)]], {"center_point_box": s.integer(0, 1)})


@rule("DeformConv")
def deformable(s, op):
    channels, outputs, side, groups = s.pick([2, 4]), s.pick([2, 6]), s.pick([1, 2, 3]), s.pick([1, 2])
    height, width = s.pick([4, 5]), s.pick([4, 7])
    shape = (1, 2 * side * side * s.pick([1, 2]), height - side + 1, width - side + 1)
    offsets = s.numpy.uniform(-1, 1, shape).astype(np.float32)
    of = shape[1] // (2 * side * side)
    more = [_floats(s, outputs) if s.chance(0.5) else None]
    if s.chance(0.5):
        more.append(_floats(s, 1, shape[1] // 2, *shape[2:]))
    return Draw(op, [_floats(s, 1, channels, height, width), _floats(s, outputs, channels // groups, side, side), offsets, *more],
                {"group": groups, "offset_group": of, "kernel_shape": [side, side]}, error=1e-3)


@rule("Det")
def determinant(s, op):
    n = s.pick([1, 2, 3, 5])
    return Draw(op, [_floats(s, *s.pick([(), (2,), (2, 3)]), n, n)], error=1e-4)


@rule("DFT", "STFT")
def transform(s, op):
    if op == "STFT":
        frame, step = s.pick([4, 5, 8]), s.pick([1, 3])
        window = _floats(s, frame) if s.chance(0.5) else None
        length = np.array(frame, np.int64) if window is None or s.chance(0.5) else None
        return Draw(op, [_floats(s, 2, s.pick([8, 13]), 1), np.array(step, np.int64), window, length],
                    {"onesided": s.integer(0, 1)}, constants=(1, 3), error=1e-4)
    x = _floats(s, 2, s.pick([1, 4, 5]), s.pick([2, 7]), s.pick([1, 2]))
    length = np.array(s.pick([1, 4, 6]), np.int64) if s.chance(0.4) else None
    inverse = s.integer(0, 1)
    onesided = 0 if inverse or x.shape[-1] == 2 else s.integer(0, 1)
    return Draw(op, [x, length, np.array(s.pick([1, 2, -2, -3]), np.int64)], {"inverse": inverse, "onesided": onesided},
                constants=(1, 2), error=1e-4, opset=20)


@rule("HannWindow", "HammingWindow", "BlackmanWindow")
def window(s, op):
    return Draw(op, [np.array(s.pick([1, 2, 5, 16]), np.int64)], {"periodic": s.integer(0, 1)}, error=1e-4)


@rule("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def loss(s, op):
    n, classes, more = s.pick([1, 3]), s.pick([2, 5]), s.pick([(), (2,), (2, 3)])
    labels = s.numpy.integers(0, classes, (n, *more)).astype(s.pick(["int32", "int64"]))
    attributes = {"reduction": s.pick(["none", "sum", "mean"])}
    if s.chance(0.4):
        attributes["ignore_index"] = s.pick([0, -1])
        labels.reshape(-1)[0] = attributes["ignore_index"]
        if (labels == attributes["ignore_index"]).all():
            attributes["reduction"] = "sum"  # the mean of none is 0 / 0
    weights = [np.abs(_floats(s, classes)) + 0.5] if s.chance(0.5) else []
    outputs = 2 if op.startswith("Soft") and s.chance(0.5) else 1
    return Draw(op, [_floats(s, n, classes, *more), labels, *weights], attributes, outputs, error=1e-4)


@rule("CumProd", "CastLike", "Einsum", "ConvInteger")
def other(s, op):
    if op == "CumProd":
        x = _floats(s, *s.pick([(3,), (2, 4)]))
        return Draw(op, [x, np.array(s.axis(x.ndim), np.int64)], {"exclusive": s.integer(0, 1), "reverse": s.integer(0, 1)},
                    opset=26)
    if op == "CastLike":
        return Draw(op, [s.array(s.shape(), s.pick(["int8", "int32", "float32"]), 0), s.array((1,), s.pick(FLOATS), 0)])
    if op == "ConvInteger":
        kinds = [s.pick(["int8", "uint8"]) for _ in range(2)]
        x, w = s.array((1, 3, 5, 5), kinds[0]), s.array((s.pick([1, 4, 17]), 3, 3, 3), kinds[1])
        zeros = [s.array((), kinds[0]), s.array((), kinds[1])] if s.chance(0.5) else []
        return Draw(op, [x, w, *zeros], {"pads": [1] * 4} if s.chance(0.5) else {})
    a, b, c, d = (s.pick([1, 2, 3]) for _ in range(4))
    equation, shapes = s.pick([
        ("ij,jk", [(a, b), (b, c)]), ("bij,bjk->bik", [(a, b, c), (a, c, d)]), ("ii->i", [(a, a)]), ("ij->", [(a, b)]),
        ("...ij,...jk->...ik", [(a, b, c), (c, d)]), ("i,j->ij", [(a,), (b,)]), ("abc,cd,de->abe", [(a, b, c), (c, d), (d, a)]),
        ("bhid,bhjd->bhij", [(a, b, c, d), (a, b, d, d)]), ("...->...", [(a, b)]), ("iij->j", [(a, a, b)])])
    return Draw(op, [_floats(s, *shape) for shape in shapes], {"equation": equation}, error=1e-4)


# ---- quantised operators ----

def _parameters(s, kind):
    return [np.array(s.pick([0.25, 0.5, 0.0625]), np.float32), s.array((), kind, 0)]


@rule("QLinearMatMul", "QLinearConv")
def quantised(s, op):
    kind = s.pick(["int8", "uint8"])
    of_weights = "int8" if kind == "int8" else s.pick(["int8", "uint8"])
    result = [np.array(s.pick([4.0, 16.0]), np.float32), s.array((), kind, 0)]
    if op == "QLinearMatMul":
        m, k, n = (s.pick([1, 2, 5, 16, 17]) for _ in range(3))
        batch = s.pick([(), (2,)])
        weights = s.array((*batch, k, n), of_weights, 0)
        return Draw(op, [s.array((*batch, m, k), kind), *_parameters(s, kind), weights, *_parameters(s, of_weights), *result])
    groups, per_in, per_out, side = s.pick([1, 1, 3]), s.pick([1, 3, 5]), s.pick([1, 4, 5]), s.pick([1, 3])
    channels = groups * per_out
    several = s.chance(0.5)
    scale = s.numpy.choice([0.25, 0.5], channels).astype(np.float32) if several else np.array(0.5, np.float32)
    zero = np.zeros(scale.shape, of_weights) if several else s.array((), of_weights, 0)
    bias = [s.numpy.integers(-99, 99, channels).astype(np.int32)] if s.chance(0.5) else []
    return Draw(op, [s.array((s.pick([1, 2]), groups * per_in, 5, 7), kind), *_parameters(s, kind),
                     s.array((channels, per_in, side, side), of_weights, 0), scale, zero, *result, *bias],
                {"group": groups, "pads": [side // 2] * 4, "strides": [s.integer(1, 2)] * 2}, constants=(3, 4, 5, 8)[:3 + len(bias)])


@rule("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearConcat", "QLinearGlobalAveragePool",
      "QLinearAveragePool", domain=MICROSOFT)
def quantised_contrib(s, op):
    kind = s.pick(["int8", "uint8"])
    one, other_, result = (_parameters(s, kind) for _ in range(3))
    result[1] = result[1] // 2 * 2  # the peer adds it before it rounds half to even
    shape = s.shape([4] if "Pool" in op else [1, 2, 3, 4], all)
    x = s.array(shape, kind)
    if op in ("QLinearAdd", "QLinearMul"):
        return Draw(op, [x, *one, s.array(s.broadcast(shape), kind), *other_, *result])
    if op == "QLinearConcat":
        return Draw(op, [*result, x, *one, s.array(shape, kind), *other_], {"axis": s.axis(len(shape))})
    attributes = {}
    if op == "QLinearLeakyRelu":
        attributes = {"alpha": 0.25}
    if op == "QLinearAveragePool":
        attributes = {"kernel_shape": [1, 1], "count_include_pad": s.integer(0, 1)}
    return Draw(op, [x, *one, *result], attributes)


@rule("DynamicQuantizeMatMul", "MatMulIntegerToFloat", domain=MICROSOFT)
def quantised_product(s, op):
    m, k, n = (s.pick([1, 2, 5, 16, 17]) for _ in range(3))
    kind = s.pick(["int8", "uint8"])
    weights, several = s.array((k, n), kind, 0), s.chance(0.5)
    scale = s.numpy.choice([0.25, 0.5], (n,) if several else (1,)).astype(np.float32)
    zero = np.zeros(scale.shape, kind)
    bias = _floats(s, n) if s.chance(0.5) else None
    if op == "DynamicQuantizeMatMul":
        return Draw(op, [_floats(s, m, k), weights, scale, zero, bias], constants=(2, 3), error=2e-2)
    data = "int8" if kind == "int8" else s.pick(["int8", "uint8"])
    return Draw(op, [s.array((m, k), data), weights, *(p.reshape(1) for p in _parameters(s, "float32")[:1]), scale,
                     s.array((1,), data, 0), zero, bias], error=1e-4)


@rule("MatMulNBits", domain=MICROSOFT)
def few_bits(s, op):
    n, blocks, size = s.pick([1, 5, 16]), s.pick([1, 3]), s.pick([16, 32])
    k = blocks * size - s.pick([0, 0, 3])
    packed = s.numpy.integers(0, 256, (n, blocks, size // 2)).astype(np.uint8)
    scales = s.numpy.choice([0.25, 0.5], n * blocks).astype(np.float32)
    zeros = [s.numpy.integers(0, 256, n * ((blocks + 1) // 2)).astype(np.uint8)] if s.chance(0.5) else []
    return Draw(op, [_floats(s, *s.pick([(), (2,)]), s.pick([1, 3, 17]), k), packed, scales, *zeros],
                {"K": k, "N": n, "bits": 4, "block_size": size}, constants=(1, 2, 3), error=2e-3)


# ---- other operators of com.microsoft ----

@rule("Gelu", "BiasGelu", "FastGelu", "QuickGelu", domain=MICROSOFT)
def gelu(s, op):
    x = _floats(s, *s.shape([2, 3], all))
    bias = [_floats(s, x.shape[-1])] if op == "BiasGelu" or (op == "FastGelu" and s.chance(0.5)) else []
    return Draw(op, [x, *bias], error=1e-3 if op == "FastGelu" else 1e-4)


@rule("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip(s, op):
    x = _floats(s, 2, s.pick([1, 3]), s.pick([4, 17]))
    more = [_floats(s, x.shape[-1]) for _ in range(s.integer(1, 3 if op == "SkipLayerNormalization" else 2))]
    return Draw(op, [x, _floats(s, *x.shape), *more], {"epsilon": 1e-2}, error=1e-3)


@rule("FusedMatMul", domain=MICROSOFT)
def fused_product(s, op):
    m, k, n = (s.pick([1, 2, 5, 16]) for _ in range(3))
    ta, tb = s.integer(0, 1), s.integer(0, 1)
    return Draw(op, [_floats(s, 2, *((k, m) if ta else (m, k))), _floats(s, 2, *((n, k) if tb else (k, n)))],
                {"transA": ta, "transB": tb, "alpha": s.pick([1.0, 0.5])}, error=1e-4)


@rule("MultiHeadAttention", "GroupQueryAttention", domain=MICROSOFT)
def contrib_attention(s, op):
    batch, heads, size = s.pick([1, 2]), s.pick([1, 2, 4]), 8
    if op == "MultiHeadAttention":
        queries, keys = s.pick([1, 4]), s.pick([1, 5])
        return Draw(op, [_floats(s, batch, queries, heads * size), _floats(s, batch, keys, heads * size),
                         _floats(s, batch, keys, heads * size)], {"num_heads": heads}, error=1e-4)
    kept, steps, past = s.pick([k for k in (1, 2, 4) if heads % k == 0]), s.pick([1, 3]), s.pick([0, 4])
    steps = 1 if past else steps
    rows = [_floats(s, batch, kept, past, size) if past else None for _ in range(2)]
    lengths = np.full(batch, past + steps - 1, np.int32)
    return Draw(op, [_floats(s, batch, steps, heads * size), _floats(s, batch, steps, kept * size),
                     _floats(s, batch, steps, kept * size), *rows, lengths, np.array(past + steps, np.int32)],
                {"num_heads": heads, "kv_num_heads": kept}, 3, constants=(6,), error=1e-4)


# ---- ai.onnx.ml ----

@rule("Normalizer", "Scaler", "Binarizer", "Imputer", "ArrayFeatureExtractor", "LinearRegressor", "OneHotEncoder",
      "LabelEncoder", domain=LEARNING)
def learning(s, op):
    rows, columns = s.pick([1, 3]), s.pick([1, 4])
    x = _floats(s, rows, columns)
    if op == "Normalizer":
        return Draw(op, [x], {"norm": s.pick(["MAX", "L1", "L2"])})
    if op == "Scaler":
        return Draw(op, [x], {name: [float(v) for v in _floats(s, columns)] for name in ("offset", "scale")})
    if op == "Binarizer":
        return Draw(op, [x], {"threshold": 0.5})
    if op == "Imputer":
        return Draw(op, [x], {"imputed_value_floats": [1.5] * s.pick([1, columns]), "replaced_value_float": float(x[0, 0])})
    if op == "ArrayFeatureExtractor":
        return Draw(op, [x, s.numpy.integers(0, columns, s.pick([1, 3])).astype(np.int64)])
    if op == "LinearRegressor":
        targets = s.pick([1, 3])
        return Draw(op, [x], {"targets": targets, "coefficients": [float(v) for v in _floats(s, targets * columns)],
                              "intercepts": [float(v) for v in _floats(s, targets)]}, error=1e-4)
    if op == "OneHotEncoder":
        return Draw(op, [s.numpy.integers(0, 4, (rows, columns)).astype(np.int64)], {"cats_int64s": [0, 1, 2, 3], "zeros": 1})
    return Draw(op, [s.numpy.integers(0, 6, (rows, columns)).astype(np.int64)],
                {"keys_int64s": [0, 1, 2, 3], "values_int64s": [5, 6, 7, 8], "default_int64": -1})


# ---- as older opsets have them ----

@rule("Softmax", "LogSoftmax", "Hardmax", old=True)
def old_softmax(s, op):
    x = s.array(s.shape(range(1, 5), all), "float32", 0)
    return Draw(op, [x], {"axis": s.integer(0, x.ndim - 1)}, opset=s.pick([7, 10, 11, 12]))


@rule("Slice", "Pad", "Squeeze", "Unsqueeze", "Split", "Clip", "TopK", old=True)
def old_attributes(s, op):
    x = s.array(s.shape(range(1, 5), all), "float32", 0)
    axis = s.integer(0, x.ndim - 1)
    opset = s.pick([7, 8, 9])
    if op == "Slice":
        return Draw(op, [x], {"axes": [axis], "starts": [s.integer(-3, 3)], "ends": [s.pick([-1, 1, 2, 99])]}, opset=opset)
    if op == "Pad":
        mode = s.pick(["constant", "edge"])
        return Draw(op, [x], {"pads": [s.integer(0, 2) for _ in range(2 * x.ndim)], "mode": mode, "value": 1.5}, opset=opset)
    if op == "Squeeze":
        units = [i for i, d in enumerate(x.shape) if d == 1]
        return Draw(op, [x], {"axes": [s.pick(units)]}, opset=s.pick([7, 11]))
    if op == "Unsqueeze":
        return Draw(op, [x], {"axes": s.random.sample(range(x.ndim + 1), 1)}, opset=s.pick([7, 11]))
    if op == "Split":
        first = s.integer(1, max(1, x.shape[axis] - 1))
        return Draw(op, [x], {"axis": axis, "split": [first, x.shape[axis] - first]}, 2, opset=s.pick([7, 11]))
    if op == "Clip":
        return Draw(op, [x], {"min": -1.0, "max": s.pick([0.5, 2.0])}, opset=s.pick([7, 10]))
    x = np.asarray(s.numpy.permutation(x.size).reshape(x.shape).astype(np.float32))
    return Draw(op, [x], {"axis": axis, "k": s.integer(1, x.shape[axis])}, 2, opset=opset)


@rule("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp", old=True)
def old_reduction(s, op):
    x = s.array(s.shape(range(1, 5), all), s.pick(["float32", "float32", "float64"]), 0)
    axes = s.random.sample(range(x.ndim), s.integer(1, x.ndim))
    return Draw(op, [x], {"keepdims": s.integer(0, 1), **({"axes": axes} if s.chance(0.8) else {})},
                opset=s.pick([7, 11, 12] if op == "ReduceSum" else [7, 11, 13, 17]), error=1e-4)


@rule("Upsample", "Resize", old=True)
def old_resize(s, op):
    x = _floats(s, 1, s.pick([1, 2]), s.pick([2, 3]), s.pick([2, 5]))
    scales = [1.0, 1.0, s.pick([1.0, 2.0, 3.0]), s.pick([1.0, 2.0])]
    attributes = {"mode": s.pick(["nearest", "linear"])}
    if op == "Upsample" and s.chance(0.5):
        return Draw(op, [x], {**attributes, "scales": scales}, opset=s.pick([7, 8]))
    return Draw(op, [x, np.array(scales, np.float32)], attributes, constants=(1,), opset=9 if op == "Upsample" else 10)


@rule("Add", "Mul", "Relu", "Identity", "Concat", "Transpose", "Gemm", "MatMul", "Conv", "MaxPool", "AveragePool",
      "BatchNormalization", "Reshape", "Flatten", "Cast", "ArgMax", "Sum", old=True)
def old_versions(s, op):
    opset, x = s.pick([7, 8, 9, 10, 11, 13, 14, 16, 19, 22, 23, 24, 25]), s.array(s.shape(range(1, 5), all), "float32", 0)
    if op in ("Relu", "Identity", "Transpose", "Flatten"):
        return Draw(op, [x], opset=opset)
    if op in ("Add", "Mul", "Sum", "Concat"):
        return Draw(op, [x, s.array(x.shape, "float32", 0)], {"axis": 0} if op == "Concat" else {}, opset=opset)
    if op in ("Gemm", "MatMul"):
        return Draw(op, [_floats(s, 3, 5), _floats(s, 5, 2)] + ([_floats(s, 2)] if op == "Gemm" else []), opset=opset, error=1e-4)
    if op == "Cast":
        to = s.pick([TensorProto.INT32, TensorProto.DOUBLE, TensorProto.BOOL])
        return Draw(op, [s.array(x.shape, s.pick([d for d in ANY if d != "float16"]), 0)], {"to": to}, opset=opset)
    if op == "Reshape":
        return Draw(op, [x, np.array([-1], np.int64)], opset=opset)
    if op == "ArgMax":
        return Draw(op, [x], {"axis": s.integer(0, x.ndim - 1), "keepdims": s.integer(0, 1)}, opset=opset)
    x = _floats(s, 2, 4, 5, 6)
    if op == "BatchNormalization":
        return Draw(op, [x, *(_floats(s, 4) for _ in range(3)), np.abs(_floats(s, 4)) + 0.5], opset=opset, error=1e-4)
    if op == "Conv":
        return Draw(op, [x, _floats(s, 3, 4, 3, 3)], {"auto_pad": s.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])}, opset=opset,
                    error=1e-4)
    return Draw(op, [x], {"kernel_shape": [2, 3], "strides": [1, 2]}, opset=opset)

