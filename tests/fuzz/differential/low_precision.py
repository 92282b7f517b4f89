# SPDX-License-Identifier: Apache-2.0
"""Operators of few bits, alone and as quantised models write them."""
import pathlib
import platform

import numpy as np
from onnx import TensorProto, helper

from .rules import rule

#: Without dot products of bytes ONNX Runtime adds pairs of products in 16 bits, which saturate.
PEER_SATURATES = platform.machine() == "x86_64" and "vnni" not in pathlib.Path("/proc/cpuinfo").read_text()


@rule(6, pictures=3)
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


def _weight(g, shape, axis):
    """A weight of 8 or 4 bits and its float, of one scale or one for each channel."""
    several = g.chance(0.6)
    scale = _scale(g, (shape[axis],) if several else ())
    values = _weights(g, shape)
    zero = g.constant(np.zeros(scale.shape, np.int8))
    return g.add("DequantizeLinear", [values, scale, zero], **({"axis": axis} if several else {}))[0]


@rule(4, pictures=10)
def quantised_layer(g):
    """A convolution or product between what quantises and what takes back, as converters write them."""
    g.need(not g.special)
    zero = g.constant(np.array(g.integer(0, 5), g.pick([np.int8, np.uint8])))
    if g.chance(0.6 if g.profile == "pictures" else 0.3):
        x = g.choose(["float32"], ranks=[4], where=lambda v: all(a.shape[1] == v.shape[1] for a in v.arrays))
        g.need(x.shape[1])
        groups = g.pick([1, 1, x.shape[1]])
        out = x.shape[1] if groups > 1 else g.pick([3, 4, 8, 16, 20])
        side = g.pick([1, 3])
        weight = _weight(g, (out, x.shape[1] // groups, side, side), 0)
        y = g.add("Conv", [_fake(g, x, _scale(g), zero), weight], group=groups, pads=[side // 2] * 4, kernel_shape=[side] * 2)[0]
    else:
        x = g.choose(["float32"], where=lambda v: v.rank >= 2 and all(a.shape[-1] == v.shape[-1] for a in v.arrays))
        weight = _weight(g, (x.shape[-1], g.pick([1, 3, 8, 16])), 1)
        y = g.add("MatMul", [_fake(g, x, _scale(g), zero), weight])[0]
    if g.chance(0.5):
        y = g.add(g.pick(["Relu", "Sigmoid", "HardSwish"]), [y])[0]
    return _fake(g, y, g.constant(np.array(g.pick([0.5, 1.0, 2.0]), np.float32)), zero)


@rule(2, pictures=3)
def quantised_operator(g):
    """QLinearConv, QLinearMatMul: on integers from end to end."""
    x = g.choose(["int8", "uint8"], where=lambda v: v.rank >= 2)
    zero, kind = g.constant(np.array(g.integer(0, 5), x.dtype)), x.dtype
    result = [g.constant(np.array(g.pick([4.0, 8.0]), np.float32)), g.constant(np.array(g.integer(0, 9), kind))]
    if x.rank == 4 and all(a.shape[1] == x.shape[1] for a in x.arrays):
        out, side = g.pick([1, 4, 8, 17]), g.pick([1, 3])
        weight = _weights(g, (out, x.shape[1], side, side))
        scale, zeros = _scale(g, (out,)), g.constant(np.zeros(out, np.int8))
        bias = [g.constant(g.numpy.integers(-99, 99, out).astype(np.int32))] if g.chance(0.5) else []
        return g.add("QLinearConv", [x, _scale(g), zero, weight, scale, zeros, *result, *bias], pads=[side // 2] * 4)
    g.need(x.shape[-1] and all(a.shape[-1] == x.shape[-1] for a in x.arrays))
    weight = _weights(g, (x.shape[-1], g.pick([1, 3, 8])))
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
    g.need(rows and rows % 2 == 0)
    name = g.fresh("c")
    g.initializers.append(helper.make_tensor(name, g.pick([TensorProto.INT4, TensorProto.UINT4]), [rows, columns],
                                             g.numpy.integers(0, 8, rows * columns).tolist()))
    weight, result = g.fresh(), g.fresh()
    scale = _scale(g, (rows // 2, columns))
    nodes = [helper.make_node("DequantizeLinear", [name, scale.name], [weight], axis=0, block_size=2),
             helper.make_node("MatMul", [x.name, weight], [result])]
    return g.add_nodes(nodes, [x, scale], fixed=[g.initializers[-1]])
