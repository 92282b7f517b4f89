# SPDX-License-Identifier: Apache-2.0
"""Operators of few bits, alone and as quantised models write them."""
import pathlib
import platform

import numpy as np
from onnx import TensorProto, helper

from .chains import shuffle
from .rules import rule

#: Without dot products of bytes ONNX Runtime adds pairs of products in 16 bits, which saturate.
PEER_SATURATES = platform.machine() == "x86_64" and "vnni" not in pathlib.Path("/proc/cpuinfo").read_text()


@rule(6, pictures=3, few_bits=14)
def quantised(g):
    g.need(not g.special)  # what NaN and infinity become isn't said
    op = g.pick(["QuantizeLinear", "DequantizeLinear", "Fake", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"])
    dtype = g.pick([np.int8, np.uint8])
    zero = g.constant(np.array(g.integer(0, 5), dtype))
    scale = g.constant(np.array(g.pick([0.25, 0.5, 0.125]), np.float32))
    if op in ("QuantizeLinear", "Fake"):
        y = g.add("QuantizeLinear", [g.choose(["float32"]), scale, zero])
        return g.add("DequantizeLinear", [y[0], scale, zero]) if op == "Fake" else y
    if op == "DynamicQuantizeLinear":
        return g.add(op, [g.choose(["float32"])], 3)
    x = g.choose(["int8", "uint8"])
    zero = g.constant(np.array(g.integer(0, 5), x.dtype))
    if op == "DequantizeLinear":
        return g.add(op, [x, scale, zero])
    if op == "MatMulInteger":
        x = g.choose(["int8", "uint8"], where=lambda v: v.rank >= 2 and all(
            a.shape[-1] == v.shape[-1] for a in v.arrays))
        return g.add(op, [x, g.constant(g.array([x.shape[-1], g.pick([1, 3, 8])], dtype))])
    x = g.choose(["uint8"], ranks=[4], where=lambda v: all(a.shape[1] == v.shape[1] for a in v.arrays))
    return g.add(op, [x, g.constant(g.array([g.pick([1, 4]), x.shape[1], 2, 2], np.uint8))])


def _weights(g, shape):
    """int8; where ONNX Runtime saturates sums of two products to int16, clipped to what can't reach that."""
    values = g.numpy.integers(-100, 101, shape)
    return g.constant((np.clip(values, -64, 64) if PEER_SATURATES else values).astype(np.int8))


def _scale(g, shape=()):
    return g.constant(np.asarray(g.numpy.choice([0.25, 0.5, 0.125, 0.0625], shape), np.float32))


def _fake(g, x, scale, zero, axis=None):
    """x, quantised and back."""
    more = {} if axis is None else {"axis": axis}
    return g.add("DequantizeLinear", [g.add("QuantizeLinear", [x, scale, zero], **more)[0], scale, zero], **more)[0]


def _zero(g, dtype=None):
    """A zero point: small ones, and the ends of the type."""
    dtype = np.dtype(dtype or g.pick([np.int8, np.uint8]))
    ends = np.iinfo(dtype)
    return g.constant(np.array(g.pick([g.integer(0, 5), 0, ends.min, ends.max, ends.max - 1, (ends.min + ends.max + 1) // 2]), dtype))


def _weight(g, shape, axis):
    """A weight of 8 or 4 bits and its float, of one scale or one for each channel."""
    several = g.chance(0.6)
    scale = _scale(g, (shape[axis],) if several else ())
    axis = {"axis": axis} if several else {}
    if g.chance(0.25):
        return _weight_of_4_bits(g, shape, scale, axis)
    values = _weights(g, shape)
    zero = np.zeros(scale.shape, np.int8)
    if g.chance(0.2):
        zero = g.numpy.integers(-3, 4, scale.shape).astype(np.int8)
    elif g.chance(0.2) and not PEER_SATURATES:
        values = g.constant((values.arrays[0].astype(np.int32) + 128).astype(np.uint8))
        zero = np.full(scale.shape, 128, np.uint8)
    return g.add("DequantizeLinear", [values, scale, g.constant(zero)], **axis)[0]


def _weight_of_4_bits(g, shape, scale, axis):
    """NumPy has no such type: tensors of ONNX's own."""
    kind, low = g.pick([(TensorProto.INT4, -8), (TensorProto.UINT4, 0)])
    names, operands = [], []
    for part in (shape, scale.shape):
        names.append(g.fresh("c"))
        values = g.numpy.integers(low, low + 16, part).ravel().tolist()
        g.initializers.append(helper.make_tensor(names[-1], kind, part, values))
        operands.append(g.initializers[-1])
    if kind == TensorProto.INT4 and g.chance(0.5):
        names.pop()
        operands.pop()
        g.initializers.pop()
    result = g.fresh()
    return g.add_nodes([helper.make_node("DequantizeLinear", [names[0], scale.name, *names[1:]], [result], **axis)], [scale],
                       fixed=operands)[0]


@rule(4, pictures=10, few_bits=30)
def quantised_layer(g):
    """A convolution or product between what quantises and what takes back, as converters write them."""
    g.need(not g.special)
    zero = _zero(g)
    if g.chance(0.6 if g.pictures else 0.3):
        x = g.choose(["float32"], ranks=[4], where=lambda v: all(a.shape[1] == v.shape[1] for a in v.arrays))
        channels = x.shape[1]
        g.need(channels)
        groups = g.pick([1, 1, channels, *(n for n in (2, 3, 4) if channels % n == 0)])
        out = channels if groups > 1 else g.pick([1, 3, 4, 5, 7, 8, 13, 16, 17, 20, 31, 33])
        side = g.pick([1, 3])
        weight = _weight(g, (out, channels // groups, side, side), 0)
        bias = [g.constant(g.array([out], np.float32))] if g.chance(0.4) else []
        y = g.add("Conv", [_fake(g, x, _scale(g), zero), weight, *bias], group=groups, pads=[side // 2] * 4,
                  kernel_shape=[side] * 2, strides=g.pick([[1, 1], [1, 1], [2, 2]]))[0]
    else:
        x = g.choose(["float32"], where=lambda v: v.rank >= 2 and all(a.shape[-1] == v.shape[-1] for a in v.arrays))
        weight = _weight(g, (x.shape[-1], g.pick([1, 3, 7, 8, 13, 16, 17, 31, 33])), 1)
        y = g.add("MatMul", [_fake(g, x, _scale(g), zero), weight])[0]
    if g.chance(0.5):
        y = g.add(g.pick(["Relu", "Sigmoid", "HardSwish"]), [y])[0]
    return [_fake(g, y, g.constant(np.array(g.pick([0.5, 1.0, 2.0]), np.float32)), zero)]


@rule(1, pictures=2, few_bits=16)
def moved_bytes(g):
    """Between what quantises and what takes back: bytes in other places, joined, pooled, resized, added to others."""
    g.need(not g.special)
    x = g.choose(["float32"], ranks=[3, 4], where=lambda v: all(a.size and a.shape[1] == v.shape[1] for a in v.arrays))
    scale, zero = _scale(g), _zero(g)
    how = g.pick(["shuffle", "concat", "add", "pool", "mean", "resize", "transpose", "pad", "relu", "mul"])
    x = _fake(g, x, scale, zero)
    fitting = [v for v in g.values if v.dtype == np.float32 and v.rank == x.rank and all(
        a.shape[0] == b.shape[0] and a.shape[2:] == b.shape[2:] for a, b in zip(v.arrays, x.arrays))]
    if how == "shuffle":
        g.need(x.shape[1] > 1)
        y = shuffle(g, x)
    elif how == "concat":
        others = [_fake(g, g.pick(fitting), *((scale, zero) if g.chance(0.5) else (_scale(g), _zero(g)))) for _ in range(g.integer(1, 2))]
        y = g.add("Concat", g.random.sample([x, *others], 1 + len(others)), axis=1)[0]
    elif how in ("add", "mul"):
        alike = [v for v in fitting if all(a.shape == b.shape for a, b in zip(v.arrays, x.arrays))]
        y = g.add(how.title(), [x, _fake(g, g.pick(alike), _scale(g), _zero(g))])[0]
    elif how == "pool":
        # Where a window is larger than the operand, ONNX Runtime has another size.
        kernel = [g.integer(1, min(3, *(a.shape[i] for a in x.arrays))) for i in range(2, x.rank)]
        y = g.add(g.pick(["MaxPool", "MaxPool", "AveragePool"]), [x], kernel_shape=kernel, strides=[g.integer(1, 2) for _ in kernel])[0]
    elif how == "mean":
        y = g.add("GlobalAveragePool", [x])[0]
    elif how == "resize":
        scales = g.constant(np.array([1, 1] + [2] * (x.rank - 2), np.float32))
        y = g.add("Resize", [x, None, scales], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")[0]
    elif how == "transpose":
        y = g.add("Transpose", [x], perm=g.random.sample(range(x.rank), x.rank))[0]
    elif how == "pad":
        y = g.add("Pad", [x, g.ints([g.integer(0, 1) for _ in range(2 * x.rank)])])[0]
    else:
        y = g.add("Relu", [x])[0]
    return [_fake(g, y, *((scale, zero) if g.chance(0.6) else (_scale(g), _zero(g))))]


@rule(2, pictures=3, few_bits=10)
def quantised_operator(g):
    """QLinearConv, QLinearMatMul: on integers from end to end."""
    x = g.choose(["int8", "uint8"], where=lambda v: v.rank >= 2)
    zero, kind = _zero(g, x.dtype), x.dtype
    result = [g.constant(np.array(g.pick([4.0, 8.0]), np.float32)), _zero(g, kind)]
    if x.rank == 4 and all(a.shape[1] == x.shape[1] for a in x.arrays):
        out, side = g.pick([1, 4, 5, 8, 13, 17, 33]), g.pick([1, 3])
        weight = _weights(g, (out, x.shape[1], side, side))
        scale, zeros = _scale(g, (out,)), g.constant(np.zeros(out, np.int8))
        bias = [g.constant(g.numpy.integers(-99, 99, out).astype(np.int32))] if g.chance(0.5) else []
        return g.add("QLinearConv", [x, _scale(g), zero, weight, scale, zeros, *result, *bias], pads=[side // 2] * 4)
    g.need(x.shape[-1] and all(a.shape[-1] == x.shape[-1] for a in x.arrays))
    weight = _weights(g, (x.shape[-1], g.pick([1, 3, 8, 17, 33])))
    return g.add("QLinearMatMul", [x, _scale(g), zero, weight, _scale(g), g.constant(np.array(0, np.int8)), *result])


@rule(2)
def narrow_float(g):
    """There and back through a type of 16 or 8 bits."""
    x = g.choose(["float32"])
    to = g.pick([TensorProto.BFLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.FLOAT8E4M3FN])
    between, name = g.fresh(), g.fresh()
    return g.add_nodes([helper.make_node("Cast", [x.name], [between], to=to),
                        helper.make_node("Cast", [between], [name], to=TensorProto.FLOAT)], [x])


@rule(2)
def few_bits(g):
    """Weights of 4 bits in blocks, which MatMul reads."""
    x = g.choose(["float32"], where=lambda v: v.rank >= 2 and all(a.shape[-1] == v.shape[-1] for a in v.arrays))
    rows, columns = x.shape[-1], g.pick([1, 4, 8])
    g.need(rows and rows % 2 == 0 and not g.special)
    name = g.fresh("c")
    g.initializers.append(helper.make_tensor(name, g.pick([TensorProto.INT4, TensorProto.UINT4]), [rows, columns],
                                             g.numpy.integers(0, 8, rows * columns).tolist()))
    values, weight, result = g.initializers[-1], g.fresh(), g.fresh()
    scale = _scale(g, (rows // 2, columns))
    nodes = [helper.make_node("DequantizeLinear", [name, scale.name], [weight], axis=0, block_size=2),
             helper.make_node("MatMul", [x.name, weight], [result])]
    return g.add_nodes(nodes, [x, scale], fixed=[values])
