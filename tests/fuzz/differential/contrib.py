# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX Runtime's optimiser and quantiser write (com.microsoft): fused, of bytes and of models of language;
and those that its first exporters wrote without a domain."""
import numpy as np

from .edges import Draw, rule

MICROSOFT = "com.microsoft"


def _floats(s, *shape):
    return s.array(shape, "float32", 0)


def _scale(s, shape=()):
    return np.asarray(s.numpy.choice([0.25, 0.5, 0.125], shape), np.float32)


# ---- fused ----

ACTIVATIONS = ["Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"]
PARAMETERS = {"LeakyRelu": [0.25], "Clip": [-1.0, 2.5], "HardSigmoid": [0.25, 0.5]}


@rule("FusedConv", domain=MICROSOFT)
def convolution(s, op):
    groups, per_in, per_out, side = s.pick([1, 2]), s.pick([1, 4, 9]), s.pick([1, 8, 17]), s.pick([1, 3])
    channels, activation = groups * per_out, s.pick(ACTIVATIONS)
    size = [s.pick([3, 5, 8]) for _ in range(2)]
    attributes = {"activation": activation, "group": groups, "kernel_shape": [side] * 2, "pads": [side // 2] * 4}
    if activation in PARAMETERS:
        attributes["activation_params"] = PARAMETERS[activation]
    operands = [_floats(s, 2, groups * per_in, *size), _floats(s, channels, per_in, side, side)]
    if s.chance(0.7):
        operands.append(_floats(s, channels))
        if s.chance(0.5):
            operands.append(_floats(s, 2, channels, *size))
    return Draw(op, operands, attributes, error=1e-4)


@rule("FusedGemm", "TransposeMatMul", domain=MICROSOFT)
def product(s, op):
    m, k, n = (s.pick([1, 2, 5, 16, 17]) for _ in range(3))
    left, right = s.integer(0, 1), s.integer(0, 1)
    batch = s.pick([(), (2,), (2, 3)]) if op == "TransposeMatMul" else ()
    a = _floats(s, *batch, *((k, m) if left else (m, k)))
    b = _floats(s, *batch, *((n, k) if right else (k, n)))
    attributes = {"transA": left, "transB": right, "alpha": s.pick([1.0, 0.5])}
    if op == "TransposeMatMul":
        return Draw(op, [a, b], attributes, error=1e-4)
    activation = s.pick(["Relu", "Tanh", "Sigmoid", "LeakyRelu"])
    attributes.update(activation=activation, beta=s.pick([1.0, 2.0]))
    if activation == "LeakyRelu":
        attributes["activation_alpha"] = 0.25
    return Draw(op, [a, b, *([_floats(s, *s.pick([(n,), (m, n), (1,), (m, 1)]))] if s.chance(0.7) else [])], attributes, error=1e-4)


@rule("SimplifiedLayerNormalization")
def normalisation(s, op):
    shape = s.shape([1, 2, 3], all)
    return Draw(op, [_floats(s, *shape), _floats(s, shape[-1])], {"axis": -1, "epsilon": s.pick([1e-5, 1e-2])}, error=1e-4)


@rule("ExpandDims", "UnfoldTensor", "CDist", "NhwcMaxPool", domain=MICROSOFT)
def moves(s, op):
    if op == "ExpandDims":
        shape = s.shape()
        return Draw(op, [s.array(shape, s.pick(["float32", "int64"])), np.array(s.integer(-len(shape) - 1, len(shape)), np.int32)], constants=(1,))
    if op == "UnfoldTensor":
        shape = s.shape([1, 2, 3], all)
        dim = s.axis(len(shape))
        return Draw(op, [s.array(shape, s.pick(["float32", "int64"]))], {"dim": dim, "size": s.integer(1, shape[dim]), "step": s.integer(1, 3)})
    if op == "CDist":
        columns = s.pick([1, 3, 17])
        return Draw(op, [_floats(s, s.pick([1, 5]), columns), _floats(s, s.pick([1, 2, 16]), columns)],
                    {"metric": s.pick(["euclidean", "sqeuclidean"])}, error=2e-2)
    side = s.pick([1, 2, 3])
    return Draw(op, [s.array((s.pick([1, 2]), s.pick([3, 6]), s.pick([4, 7]), s.pick([1, 5, 16])), s.pick(["int8", "uint8"]))],
                {"kernel_shape": [side, side], "strides": [s.integer(1, 2)] * 2, "pads": [s.integer(0, side - 1) for _ in range(4)],
                 "ceil_mode": s.integer(0, 1)})


# ---- of bytes ----

@rule("QGemm", "QLinearWhere", "QLinearSoftmax", domain=MICROSOFT)
def quantised(s, op):
    kind = s.pick(["int8", "uint8"])
    one, two, result = ([_scale(s), s.array((), kind, 0)] for _ in range(3))
    if op == "QLinearWhere":
        shape = s.shape(where=all)
        return Draw(op, [s.array(s.broadcast(shape), "bool"), s.array(shape, kind), *one, s.array(s.broadcast(shape), kind), *two, *result],
                    constants=(2, 3, 5, 6, 7, 8))
    if op == "QLinearSoftmax":
        shape = s.shape([1, 2, 3], all)
        result = [np.float32(1 / 128), np.array(0 if kind == "uint8" else -128, kind)]
        return Draw(op, [s.array(shape, kind, 0), *one, *result], {"axis": s.axis(len(shape)), "opset": s.pick([12, 13])}, constants=(1, 2, 3, 4))
    m, k, n = (s.pick([1, 2, 5, 16, 17]) for _ in range(3))
    left, right, several = s.integer(0, 1), s.integer(0, 1), s.chance(0.5)
    weights = [s.array((n, k) if right else (k, n), kind, 0), _scale(s, (n,) if several else ()), np.zeros((n,) if several else (), kind)]
    bias = s.numpy.integers(-99, 99, n).astype(np.int32) if s.chance(0.6) else None
    ends = result if s.chance(0.5) else []
    return Draw(op, [s.array((k, m) if left else (m, k), kind, 0), *one, *weights, bias, *ends],
                {"transA": left, "transB": right, "alpha": s.pick([1.0, 0.5])}, error=1e-4)


@rule("GatherBlockQuantized", domain=MICROSOFT)
def block_rows(s, op):
    rows, size, block = s.pick([1, 5]), s.pick([16, 32, 48]), s.pick([16, 32])
    blocks = -(-size // block)
    data = s.numpy.integers(0, 256, (rows, size // 2)).astype(np.uint8)
    scales = _scale(s, (rows, blocks))
    zeros = [s.numpy.integers(0, 256, (rows, -(-blocks // 2))).astype(np.uint8)] if s.chance(0.5) else []
    indices = s.numpy.integers(-rows, rows, s.pick([(), (3,), (2, 3)])).astype(s.pick([np.int32, np.int64]))
    return Draw(op, [data, indices, scales, *zeros], {"block_size": block, "gather_axis": 0, "quantize_axis": 1, "bits": 4}, constants=(0, 2, 3))


# ---- models of language ----

@rule("EmbedLayerNormalization", domain=MICROSOFT)
def embedding(s, op):
    batch, length, hidden, words = s.pick([1, 2]), s.pick([1, 3, 7]), s.pick([4, 16]), 9
    ids = lambda high: s.numpy.integers(0, high, (batch, length)).astype(np.int32)  # noqa: E731
    segments = s.chance(0.6)
    mask = s.numpy.integers(0, 2, (batch, length)).astype(np.int32) if s.chance(0.5) else None
    if mask is not None:
        mask.sort(1)
        mask = np.ascontiguousarray(mask[:, ::-1])
    positions = [ids(8)] if s.chance(0.3) else []
    if positions and mask is None:
        positions.insert(0, None)
    return Draw(op, [ids(words), ids(2) if segments else None, _floats(s, words, hidden), _floats(s, 8, hidden),
                     _floats(s, 2, hidden) if segments else None, _floats(s, hidden), _floats(s, hidden),
                     *([mask] if mask is not None else []), *positions], {"epsilon": 1e-5}, 2, error=1e-4)


@rule("QAttention", domain=MICROSOFT)
def attention_of_bytes(s, op):
    batch, length, heads, size = s.pick([1, 2]), s.pick([1, 3, 7]), s.pick([1, 2]), s.pick([4, 16])
    hidden, width = heads * size, s.pick([5, 16])
    kind = s.pick(["int8", "uint8"])
    mask = s.numpy.integers(1, length + 1, batch).astype(np.int32) if s.chance(0.5) else None
    past = [_floats(s, 2, batch, heads, s.pick([1, 3]), size)] if mask is None and s.chance(0.4) else []
    weight = s.numpy.integers(-20 if kind == "int8" else 108, 20 if kind == "int8" else 148, (width, 3 * hidden)).astype(kind)
    zero = np.array(0 if kind == "int8" else 128, kind)
    return Draw(op, [s.array((batch, length, width), "uint8", 0), weight, _floats(s, 3 * hidden), np.float32(0.03), np.float32(0.02), mask,
                     s.array((), "uint8", 0), zero, *past], {"num_heads": heads, "unidirectional": s.integer(0, 1)}, 2 if past else 1,
                constants=(1, 2, 4, 7), error=1e-3)


# ---- without a domain ----

@rule("Affine", "ParametricSoftplus", "ScaledTanh", "Scale")
def first(s, op):
    attributes = {"scale": s.pick([0.5, 2.0])} if op == "Scale" else {"alpha": s.pick([0.5, 2.0]), "beta": s.pick([0.25, 1.0])}
    return Draw(op, [_floats(s, *s.shape())], attributes, opset=s.pick([7, 9]))
