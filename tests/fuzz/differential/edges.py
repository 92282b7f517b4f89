# SPDX-License-Identifier: Apache-2.0
"""Single operators at the edges of what ONNX allows: no elements, one, scalars; NaN, infinities, zeros of both signs,
the ends of integer types; negative axes, amounts of padding beyond the operand, every element type."""
import copy
import dataclasses
import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from . import engines, guarded
from .graphs import Case, Refused

OPSET, IR_VERSION = 21, 10
FLOATS = ("float32", "float32", "float64", "float16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = FLOATS + INTEGERS
ANY = NUMBERS + ("bool",)
SHAPES = [(), (0,), (1,), (2,), (3,), (17,), (33,), (2, 3), (1, 1), (0, 3), (3, 0), (5, 16), (2, 1, 4), (2, 3, 4), (1, 16, 5),
          (2, 0, 3), (1, 2, 3, 4), (2, 16, 3, 3), (1, 1, 1, 1), (0, 2, 3, 3), (1, 3, 1, 5, 2)]
SPECIAL = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2, -2, 2.5, 3.7, 17, -100.25, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38,
           -3e38, 1e10, -1e10, 88.8, -104.5, 1e4, 65504]
RULES = {}


@dataclasses.dataclass
class Draw:
    op: str
    operands: list  # arrays; None: left out
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: int = 1
    constants: tuple = ()  # operands that have to be part of the model
    error: float = 1e-5
    opset: int = OPSET  # of the default domain
    version: int = 0  # of the operator's own domain; 0: 2 of ai.onnx.ml, 1 of others


def rule(*names, domain="", old=False, variant=""):
    """Registers a function of a Source and an operator's name. old, variant: beside that of the usual opset or types."""
    def register(function):
        for name in names:
            RULES[f"{domain}.{name}{'@old' if old else '@' + variant if variant else ''}"] = function, domain, name
        return function
    return register


class Source:
    """Random operands and choices."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)

    def pick(self, items):
        return self.random.choice(list(items))

    def chance(self, p):
        return self.random.random() < p

    def integer(self, low, high):
        return self.random.randint(low, high)

    def shape(self, ranks=None, where=None):
        return self.pick([s for s in SHAPES if (ranks is None or len(s) in ranks) and (where is None or where(s))])

    def array(self, shape, dtype, special=None):
        """special: how many of the elements are; None: a few, most or none."""
        dtype = np.dtype(dtype)
        if dtype == np.bool_:
            return np.asarray(self.numpy.integers(0, 2, shape).astype(bool))
        part = self.pick([0, 0.2, 0.9]) if special is None else special
        if dtype.kind == "f":
            usual = np.round(self.numpy.uniform(-4, 4, shape) * 8) / 8
            edges = np.array(SPECIAL)
        else:
            info = np.iinfo(dtype)
            usual = self.numpy.integers(max(-20, info.min), min(20, info.max), shape).astype(dtype)
            edges = np.array([info.min, info.max, info.max - 1, 0, 1, 2, 7, info.max // 2 + 1], dtype)
        with np.errstate(all="ignore"):
            chosen = np.where(self.numpy.random(shape) < part, edges[self.numpy.integers(0, len(edges), shape)], usual)
            return np.asarray(chosen.astype(dtype))

    def axis(self, rank):
        return self.integer(-rank, rank - 1)

    def broadcast(self, shape):
        """A shape that broadcasts with `shape`."""
        kept = [d if self.chance(0.7) else 1 for d in shape]
        return tuple(kept[self.integer(0, len(kept)):] if self.chance(0.3) else kept)


# ---- one element at a time ----

@rule(*"""Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish Log Mish Reciprocal Round Sigmoid Sin Sinh
      Softplus Softsign Sqrt Tan Tanh Elu Celu Selu LeakyRelu ThresholdedRelu HardSigmoid Shrink IsNaN IsInf""".split())
def unary(s, op):
    return Draw(op, [s.array(s.shape(), "float32" if op == "Celu" else s.pick(FLOATS))])


@rule("Abs", "Neg", "Sign", "Relu", "Identity", "BitwiseNot", "Not")
def unary_any(s, op):
    dtype = {"Not": "bool", "BitwiseNot": s.pick(INTEGERS), "Identity": s.pick(ANY)}.get(op)
    signed = [d for d in NUMBERS if op in ("Abs", "Sign") or not d.startswith("u")]
    return Draw(op, [s.array(s.shape(), dtype or s.pick(signed))])


@rule("Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
def binary(s, op):
    shape, dtype = s.shape(), s.pick(NUMBERS)
    x, y = s.array(shape, dtype), s.array(s.broadcast(shape), dtype)
    if op == "Div" and dtype in INTEGERS:
        y[y == 0] = 3
        if np.dtype(dtype).kind == "i":
            y[y == -1] = -2
    return Draw(op, [x, y] if s.chance(0.5) or op == "Div" else [y, x])


@rule("Mod")
def mod(s, op):
    shape, dtype = s.shape(), s.pick(NUMBERS)
    x, y = s.array(shape, dtype), s.array(s.broadcast(shape), dtype)
    if dtype in INTEGERS:
        y[y == 0] = 3
        y[y == (-1 if np.dtype(dtype).kind == "i" else 0)] = 2
    return Draw(op, [x, y], {"fmod": 1 if dtype in FLOATS or s.chance(0.4) else 0})


@rule("Pow")
def power(s, op):
    shape = s.shape()
    base, exponent = s.pick(["float32", "float64", "int32", "int64"]), s.pick(["float32", "float64", "int32", "int64"])
    if base[0] == "i":  # powers that fit
        return Draw(op, [s.numpy.integers(-6, 7, shape).astype(base) + np.zeros(shape, base),
                         s.numpy.integers(0, 6, s.broadcast(shape)).astype(exponent) + np.zeros((), exponent)])
    return Draw(op, [s.array(shape, base), s.array(s.broadcast(shape), exponent)])


@rule("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
def logic(s, op):
    shape, dtype = s.shape(), s.pick(INTEGERS) if op.startswith("Bit") else "bool"
    return Draw(op, [s.array(shape, dtype), s.array(s.broadcast(shape), dtype)])


@rule("BitShift")
def shift(s, op):
    shape, dtype = s.shape(), s.pick([d for d in INTEGERS if d[0] == "u"])
    amount = s.numpy.integers(0, np.dtype(dtype).itemsize * 8 + 2, s.broadcast(shape)).astype(dtype)
    return Draw(op, [s.array(shape, dtype), np.asarray(amount)], {"direction": s.pick(["LEFT", "RIGHT"])})


@rule("Clip")
def clip(s, op):
    dtype = s.pick(NUMBERS)
    bounds = [s.array((), dtype) if s.chance(0.8) else None for _ in range(2)]
    return Draw(op, [s.array(s.shape(), dtype), *bounds])


@rule("Where")
def where(s, op):
    shape, dtype = s.shape(), s.pick(ANY)
    return Draw(op, [s.array(s.broadcast(shape), "bool"), s.array(shape, dtype), s.array(s.broadcast(shape), dtype)])


@rule("Cast")
def cast(s, op):
    kind, to = s.pick(ANY), s.pick(ANY)
    x = s.array(s.shape(), kind)
    if kind in FLOATS and to in INTEGERS:  # beyond the type's range ONNX says nothing
        x = np.asarray(np.round(np.clip(np.nan_to_num(x), 0 if to[0] == "u" else -100, 100)).astype(kind))
    return Draw(op, [x], {"to": helper.np_dtype_to_tensor_dtype(np.dtype(to))})


@rule("PRelu")
def prelu(s, op):
    shape, dtype = s.shape(), s.pick(["float32", "float64"])
    slope = tuple(d if s.chance(0.6) else 1 for d in shape)
    return Draw(op, [s.array(shape, dtype), s.array(slope, dtype)])


@rule("Sum", "Mean")
def several(s, op):
    shape, dtype = s.shape(), s.pick(["float32", "float64"])
    return Draw(op, [s.array(shape, dtype)] + [s.array(s.broadcast(shape), dtype) for _ in range(s.integer(0, 3))])


# ---- data that moves ----

@rule("Transpose")
def transpose(s, op):
    x = s.array(s.shape(), s.pick(ANY))
    return Draw(op, [x], {"perm": s.random.sample(range(x.ndim), x.ndim)} if x.ndim and s.chance(0.8) else {})


@rule("Reshape")
def reshape(s, op):
    x = s.array(s.shape(), s.pick(ANY))
    shape = s.pick([(-1,), x.shape, x.shape[::-1], (1, -1), (-1, 1, 1), (0,) * x.ndim, (x.size,), (1,) + x.shape])
    return Draw(op, [x, np.array(shape, np.int64)], {"allowzero": 1} if s.chance(0.2) else {})


@rule("Flatten", "Squeeze", "Unsqueeze")
def ranks(s, op):
    x = s.array(s.shape(), s.pick(ANY))
    if op == "Flatten":
        return Draw(op, [x], {"axis": s.integer(-x.ndim, x.ndim)})
    if op == "Squeeze":
        units = [i - s.pick([0, x.ndim]) for i, d in enumerate(x.shape) if d == 1]
        return Draw(op, [x, np.array(s.random.sample(units, s.integer(0, len(units))), np.int64)] if s.chance(0.7) else [x])
    axes = s.random.sample(range(x.ndim + 2), 2)
    return Draw(op, [x, np.array([a - s.pick([0, x.ndim + 2]) for a in axes], np.int64)])


@rule("Concat")
def concat(s, op):
    shape, dtype = s.shape(range(1, 6)), s.pick(ANY)
    axis = s.axis(len(shape))
    parts = []
    for _ in range(s.integer(1, 4)):
        part = list(shape)
        part[axis] = s.pick([0, 1, 2, 5])
        parts.append(s.array(part, dtype))
    return Draw(op, parts, {"axis": axis})


@rule("Split")
def split(s, op):
    x = s.array(s.shape(range(1, 6)), s.pick(ANY))
    axis = s.axis(x.ndim)
    size = x.shape[axis]
    if s.chance(0.5):
        return Draw(op, [x], {"axis": axis, "num_outputs": 2}, 2)
    first = s.integer(0, size)
    second = s.integer(0, size - first)
    return Draw(op, [x, np.array([first, second, size - first - second], np.int64)], {"axis": axis}, 3)


@rule("Slice")
def slice_(s, op):
    x = s.array(s.shape(range(1, 6)), s.pick(ANY))
    axes = s.random.sample(range(x.ndim), s.integer(1, x.ndim))
    ends = [-2**63, -2**31, -100, -3, -2, -1, 0, 1, 2, 3, 100, 2**31 - 1, 2**63 - 1]
    kind = np.int64
    bounds = [np.array([s.pick(choice) for _ in axes], kind)
              for choice in (ends, ends, [1, 1, 2, 3, -1, -2, 2**63 - 1, -2**63])]
    return Draw(op, [x, bounds[0], bounds[1], np.array([a - s.pick([0, x.ndim]) for a in axes], kind), bounds[2]])


@rule("Pad")
def pad(s, op):
    x = s.array(s.shape(range(1, 5)), s.pick(["float32", "float64", "int32", "int64", "int8", "uint8", "bool"]))
    mode = s.pick(["constant", "constant", "reflect", "edge", "wrap"])
    axes = s.random.sample(range(x.ndim), s.integer(1, x.ndim)) if s.chance(0.4) else None
    count = x.ndim if axes is None else len(axes)
    choices = [-2, -1, 0, 0, 1, 2, 7]
    operands = [x, np.array([s.pick(choices) for _ in range(2 * count)], np.int64)]
    if axes is not None or (mode == "constant" and s.chance(0.7)):
        operands.append(s.array((), x.dtype) if mode == "constant" else None)
    if axes is not None:
        operands.append(np.array([a - s.pick([0, x.ndim]) for a in axes], np.int64))
    return Draw(op, operands, {"mode": mode})


@rule("Tile")
def tile(s, op):
    x = s.array(s.shape(), s.pick(ANY))
    return Draw(op, [x, np.array([s.pick([0, 1, 1, 2, 3]) for _ in x.shape], np.int64)])


@rule("Expand")
def expand(s, op):
    x = s.array(s.shape(), s.pick(ANY))
    shape = [s.pick([1, d, 3 if d == 1 else d, 0 if d == 1 else d]) for d in x.shape]
    return Draw(op, [x, np.array(([s.pick([0, 1, 2])] if s.chance(0.3) else []) + shape, np.int64)])


def _indices(s, shape, size, dtype=None):
    shape = shape if size else tuple(0 for _ in shape) or (0,)
    return np.asarray(s.numpy.integers(-max(size, 1), max(size, 1), shape).astype(dtype or s.pick(["int32", "int64"])))


@rule("Gather", "GatherElements", "GatherND")
def gather(s, op):
    x = s.array(s.shape(range(1, 6)), s.pick(ANY))
    axis = s.axis(x.ndim)
    if op == "Gather":
        return Draw(op, [x, _indices(s, s.pick([(), (0,), (1,), (5,), (2, 3), (2, 0)]), x.shape[axis])], {"axis": axis})
    if op == "GatherElements":
        shape = list(x.shape)
        shape[axis] = s.pick([0, 1, 2, 5]) if x.shape[axis] else 0
        return Draw(op, [x, np.asarray(s.numpy.integers(-max(x.shape[axis], 1), max(x.shape[axis], 1), shape))], {"axis": axis})
    depth = s.integer(1, x.ndim)
    rows = s.pick([0, 1, 4]) if all(x.shape[:depth]) else 0
    columns = [s.numpy.integers(-max(d, 1), max(d, 1), rows) for d in x.shape[:depth]]
    return Draw(op, [x, np.stack(columns, -1).astype(np.int64)])


@rule("ScatterElements", "ScatterND")
def scatter(s, op):
    x = s.array(s.shape(range(1, 5)), s.pick(["float32", "float64", "int32", "int64"]))
    reduction = s.pick(["none", "add", "mul", "max", "min"])
    axis = s.axis(x.ndim) if op == "ScatterElements" else 0
    count = s.integer(0, x.shape[axis])
    places = s.numpy.permutation(x.shape[axis])[:count].astype(np.int64)
    places[places % 2 == 1] -= x.shape[axis]
    if op == "ScatterND":
        return Draw(op, [x, places.reshape(-1, 1), s.array((count, *x.shape[1:]), x.dtype)], {"reduction": reduction})
    shape = list(x.shape)
    shape[axis] = count
    one = places.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    return Draw(op, [x, np.broadcast_to(one, shape).copy(), s.array(shape, x.dtype)], {"axis": axis, "reduction": reduction})


@rule("OneHot")
def one_hot(s, op):
    x = s.array(s.pick([(), (0,), (3,), (2, 3)]), s.pick(["int32", "int64", "float32", "uint8"]), 0)
    x = np.asarray(np.trunc(x).astype(x.dtype))  # the reference compares fractions, though indices are cast to int64
    values = s.array((2,), s.pick(["float32", "int64", "bool"]))
    return Draw(op, [x, np.array(s.pick([1, 5, 30]), np.int64), values], {"axis": s.integer(-x.ndim - 1, x.ndim)})


@rule("DepthToSpace", "SpaceToDepth")
def blocks(s, op):
    n = s.pick([0, 1, 2])
    if op == "SpaceToDepth":
        return Draw(op, [s.array((n, s.pick([1, 3]), 4, 6), s.pick(["float32", "float64"]))], {"blocksize": s.pick([1, 2])})
    return Draw(op, [s.array((n, 8, 2, 3), s.pick(["float32", "float64"]))], {"blocksize": 2, "mode": s.pick(["DCR", "CRD"])})


@rule("Trilu")
def trilu(s, op):
    x = s.array(s.shape(range(2, 5)), s.pick(["float32", "int64", "bool", "float64"]))
    k = np.array(s.pick([-2**63, -2**31, -5, -1, 0, 1, 5, 2**31, 2**63 - 1]), np.int64)
    return Draw(op, [x, k] if s.chance(0.8) else [x], {"upper": s.integer(0, 1)})


@rule("EyeLike", "NonZero", "Shape", "Size", "ConstantOfShape")
def shapes(s, op):
    if op == "ConstantOfShape":
        value = numpy_helper.from_array(s.array((1,), s.pick(ANY)))
        return Draw(op, [np.array(s.pick([[], [0], [3], [2, 0], [1, 2, 3]]), np.int64)], {"value": value})
    if op == "EyeLike":
        return Draw(op, [s.array(s.shape([2]), s.pick(["float32", "int64", "int32"]))], {"k": s.pick([-9, -1, 0, 1, 9])})
    x = s.array(s.shape(), s.pick(["float32", "int64", "int32", "bool", "uint8"] if op == "NonZero" else ANY))
    if op == "Shape" and s.chance(0.5):
        return Draw(op, [x], {"start": s.integer(-7, 7), "end": s.integer(-7, 7)})
    return Draw(op, [x])


@rule("Range")
def range_(s, op):
    dtype = s.pick(["int64", "int32", "int16", "float32", "float64"])
    return Draw(op, [np.array(v, dtype) for v in (s.pick([-3, 0, 2, 100]), s.pick([-5, 0, 7, 101]), s.pick([1, 2, -1, -3]))])


@rule("Compress")
def compress(s, op):
    x = s.array(s.shape(range(1, 5)), s.pick(ANY))
    if s.chance(0.3):
        return Draw(op, [x, s.array((s.integer(0, x.size),), "bool")])
    axis = s.axis(x.ndim)
    return Draw(op, [x, s.array((s.integer(0, x.shape[axis]),), "bool")], {"axis": axis})


@rule("ReverseSequence")
def reverse_sequence(s, op):
    x = s.array(s.shape(range(2, 5), lambda d: d[0] and d[1]), s.pick(["float32", "int64", "bool"]))
    batch = s.integer(0, 1)
    lengths = s.numpy.integers(0, x.shape[1 - batch] + 1, x.shape[batch]).astype(np.int64)
    return Draw(op, [x, lengths], {"batch_axis": batch, "time_axis": 1 - batch})


# ---- reductions and order ----

@rule(*["Reduce" + r for r in "Sum Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare".split()])
def reduction(s, op):
    dtypes = ["float32", "float32", "float64", "int32", "int64"]
    if op in ("ReduceMax", "ReduceMin"):
        dtypes += ["int8", "uint8", "bool", "float16"]
    dtype = s.pick(dtypes)
    # What a logarithm of integers rounds or saturates to isn't said.
    dtype = dtype if not op.startswith("ReduceLog") else s.pick(["float32", "float64"])
    mild = op in ("ReduceProd", "ReduceSumSquare", "ReduceL2", "ReduceMean", "ReduceL1") or dtype[0] == "i"
    x = s.array(s.shape(), dtype, s.pick([0, 0.1]) if not mild else 0)
    axes = [a - s.pick([0, x.ndim]) for a in s.random.sample(range(x.ndim), s.integer(0, x.ndim))]
    attributes = {"keepdims": s.integer(0, 1)}
    if s.chance(0.3):
        attributes["noop_with_empty_axes"] = 1
    return Draw(op, [x] if s.chance(0.2) else [x, np.array(axes, np.int64)], attributes)


@rule("ArgMax", "ArgMin")
def arg(s, op):
    x = s.array(s.shape(range(1, 5), lambda d: all(d)), s.pick(["float32", "float64", "int32", "int64", "int8", "uint8"]))
    if x.dtype.kind == "f":
        x = np.nan_to_num(x, nan=3)
    return Draw(op, [x], {"axis": s.axis(x.ndim), "keepdims": s.integer(0, 1), "select_last_index": s.integer(0, 1)})


@rule("CumSum")
def cumsum(s, op):
    x = s.array(s.shape(range(1, 5)), s.pick(["float32", "float64", "int32", "int64"]), s.pick([0, 0.1]))
    return Draw(op, [x, np.array(s.axis(x.ndim), s.pick(["int32", "int64"]))],
                {"exclusive": s.integer(0, 1), "reverse": s.integer(0, 1)})


@rule("TopK")
def top_k(s, op):
    shape = s.shape(range(1, 5))
    axis = s.axis(len(shape))
    x = np.asarray(s.numpy.permutation(int(np.prod(shape))).reshape(shape).astype(s.pick(["float32", "float64", "int64", "int32"])))
    if x.dtype.kind == "f" and x.size and s.chance(0.3):
        x.reshape(-1)[0] = s.pick([np.inf, -np.inf])
    return Draw(op, [x, np.array([s.integer(0, shape[axis])], np.int64)], {"axis": axis, "largest": s.integer(0, 1)}, 2)


@rule("Unique")
def unique(s, op):
    x = s.array(s.shape(range(1, 4), lambda d: all(d)), s.pick(["float32", "int64", "int8"]), 0)
    return Draw(op, [x], {"sorted": s.integer(0, 1), **({"axis": s.axis(x.ndim)} if s.chance(0.6) else {})}, 4)


@rule("Softmax", "LogSoftmax", "Hardmax")
def softmax(s, op):
    x = s.array(s.shape(range(1, 5)), s.pick(["float32", "float64"]), s.pick([0, 0, 0.1]))
    return Draw(op, [x], {"axis": s.axis(x.ndim)})


# ---- products and windows ----

@rule("MatMul")
def matmul(s, op):
    m, k, n = (s.pick([0, 1, 2, 5, 16, 17]) for _ in range(3))
    batch = s.pick([(), (), (1,), (2,), (0,), (2, 3)])
    dtype = s.pick(["float32", "float32", "float64", "int32", "int64"])
    x, y = s.array(batch + (m, k), dtype, 0), s.array(s.pick([batch, (), batch[-1:]]) + (k, n), dtype, 0)
    if s.chance(0.2):
        x = x[..., 0, :] if m else x
    return Draw(op, [x, y])


@rule("Gemm")
def gemm(s, op):
    m, k, n = (s.pick([0, 1, 2, 5, 16, 17]) for _ in range(3))
    ta, tb = s.integer(0, 1), s.integer(0, 1)
    dtype = s.pick(["float32", "float32", "float64"])
    bias = [s.array(s.pick([(), (1,), (n,), (m, 1), (1, n), (m, n)]), dtype, 0)] if s.chance(0.6) else []
    return Draw(op, [s.array((k, m) if ta else (m, k), dtype, 0), s.array((n, k) if tb else (k, n), dtype, 0), *bias],
                {"transA": ta, "transB": tb, "alpha": s.pick([1.0, 0.0, -2.0]), "beta": s.pick([1.0, 0.0, 0.5])})


def _window(s, spatial):
    kernel = [s.integer(1, 4) for _ in range(spatial)]
    attributes = {"kernel_shape": kernel, "strides": [s.integer(1, 5) for _ in range(spatial)]}
    if s.chance(0.5):
        attributes["pads"] = [s.integer(0, k - 1) for k in kernel + kernel]
    elif s.chance(0.4):
        attributes["auto_pad"] = s.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
        # Where strides skip elements peers take negative padding.
        attributes["strides"] = [min(pair) for pair in zip(attributes["strides"], kernel)]
    if "auto_pad" not in attributes and s.chance(0.3):
        attributes["dilations"] = [s.integer(1, 3) for _ in range(spatial)]
    return attributes


@rule("Conv", "ConvTranspose")
def convolution(s, op):
    spatial = s.pick([1, 2, 2, 3])
    group, per_in, per_out = s.pick([1, 1, 2, 3]), s.pick([1, 2, 8, 16]), s.pick([1, 2, 8, 16])
    attributes = {**_window(s, spatial), "group": group}
    x = s.array((s.pick([0, 1, 2]), group * per_in, *(s.pick([1, 2, 3, 5, 7]) for _ in range(spatial))), "float32",
                s.pick([0, 0, 0.02]))
    weight = (group * per_in, per_out) if op == "ConvTranspose" else (group * per_out, per_in)
    if op == "ConvTranspose":
        attributes.pop("auto_pad", None)
        if s.chance(0.3):
            attributes["output_padding"] = [s.integer(0, stride - 1) for stride in attributes["strides"]]
    bias = [s.array((group * per_out,), "float32", 0)] if s.chance(0.5) else []
    return Draw(op, [x, s.array((*weight, *attributes["kernel_shape"]), "float32", 0), *bias], attributes, error=1e-4)


@rule("MaxPool", "AveragePool", "LpPool")
def pool(s, op):
    spatial = s.pick([1, 2, 2, 3])
    x = s.array((s.pick([0, 1, 2]), s.pick([1, 3, 16]), *(s.pick([1, 2, 3, 5, 7]) for _ in range(spatial))),
                "float32" if op == "LpPool" else s.pick(["float32", "float32", "float64"]),  # only the reference knows others
                s.pick([0, 0, 0.05]) if op == "MaxPool" else 0)
    attributes = _window(s, spatial)
    if op == "AveragePool":
        attributes["count_include_pad"] = s.integer(0, 1)
    if "auto_pad" not in attributes and s.chance(0.3):
        attributes["ceil_mode"] = 1
    if op == "MaxPool":
        x = np.nan_to_num(x, nan=1, neginf=-1e30)
        return Draw(op, [x], attributes, 2 if s.chance(0.3) and "ceil_mode" not in attributes else 1)
    return Draw(op, [x], attributes)


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(s, op):
    return Draw(op, [s.array(s.shape([3, 4, 5], lambda d: all(d[2:])), "float32", 0)])


@rule("Resize")
def resize(s, op):
    x = s.array(s.shape([3, 4], lambda d: all(d)), s.pick(["float32", "float32", "float64"]), 0)
    where_ = s.pick(["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric"])
    attributes = {"mode": s.pick(["nearest", "linear", "cubic"]), "coordinate_transformation_mode": where_}
    if attributes["mode"] == "nearest":
        attributes["nearest_mode"] = s.pick(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    # At size 1 the reference's pytorch_half_pixel isn't that of the standard, and ONNX Runtime takes no float64.
    least = 2 if where_ == "pytorch_half_pixel" and x.dtype == np.float64 else 1
    sizes = list(x.shape[:2]) + [max(least, s.pick([1, 2, 3, 5, 8])) for _ in x.shape[2:]]
    return Draw(op, [x, None, None, np.array(sizes, np.int64)], attributes, constants=(3,), error=1e-4)


# ---- normalisation and low precision ----

@rule("LayerNormalization", "BatchNormalization", "InstanceNormalization", "LpNormalization", "LRN",
      "MeanVarianceNormalization", "GroupNormalization")
def normalise(s, op):
    x = s.array(s.shape([3, 4] if op != "MeanVarianceNormalization" else [4]), "float32", 0)
    channels = x.shape[1]
    if op == "LpNormalization":
        return Draw(op, [x], {"axis": s.axis(x.ndim), "p": s.integer(1, 2)})
    if op == "LayerNormalization":
        axis = s.axis(x.ndim)
        tail = x.shape[axis:] if axis < 0 else x.shape[axis:]
        return Draw(op, [x, s.array(tail, "float32", 0), s.array(tail, "float32", 0)], {"axis": axis}, error=1e-3)
    if op == "LRN":
        return Draw(op, [x], {"size": s.pick([1, 2, 3, 5])})
    if op == "MeanVarianceNormalization":
        return Draw(op, [x], error=1e-3)
    vectors = [s.array((channels,), "float32", 0) for _ in range(3)]
    if op == "BatchNormalization":
        return Draw(op, [x, *vectors, np.abs(s.array((channels,), "float32", 0)) + 0.5], error=1e-4)
    attributes = {"num_groups": s.pick([1, max(1, channels)])} if op == "GroupNormalization" else {}
    return Draw(op, [x, *vectors[:2]], attributes, error=1e-3)


@rule("QuantizeLinear", "DequantizeLinear", "MatMulInteger", "DynamicQuantizeLinear")
def quantised(s, op):
    kind = s.pick(["int8", "uint8"])
    shape = s.shape(range(1, 5))
    axis = s.axis(len(shape))
    several = s.chance(0.5)
    scale = np.asarray(s.numpy.uniform(0.1, 2, (shape[axis],) if several else ()).astype(np.float32))
    zero = s.array(scale.shape, kind)
    attributes = {"axis": axis} if several else {}
    if op == "QuantizeLinear":
        x = s.array(shape, "float32")
        return Draw(op, [np.asarray(np.nan_to_num(x, posinf=9, neginf=-9).clip(-1e6, 1e6).astype(np.float32)), scale, zero],
                    attributes)
    if op == "DequantizeLinear":
        return Draw(op, [s.array(shape, kind), scale, zero], attributes)
    if op == "DynamicQuantizeLinear":
        return Draw(op, [s.array(s.shape(), "float32", 0)], outputs=3)
    m, k, n = (s.pick([0, 1, 2, 5, 16, 17]) for _ in range(3))
    zeros = [s.array((), kind), s.array((), kind)] if s.chance(0.6) else []
    return Draw(op, [s.array((m, k), kind), s.array((k, n), kind), *zeros])


# ---- cases ----

def all_rules():
    """By name: function, domain, operator."""
    from . import contrib, layers, learning, states  # noqa: F401  more rules

    return RULES


def generate(seed, only=None):
    """A Case of one node; the same one for the same seed. Some of its operands are part of the model."""
    s, rules = Source(seed), all_rules()
    function, domain, op = rules[s.pick([f".{name}" for name in only] if only else sorted(rules))]
    try:
        draw = function(s, op)
    except (IndexError, ValueError) as error:
        raise Refused from error
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(draw.operands)]
    operands = {n: np.asarray(x) for n, x in zip(names, draw.operands) if n}
    fixed = {names[i] for i in draw.constants if i < len(names) and names[i]}
    mode = s.pick(["none", "rest", "some"])  # which operands the model knows
    for i, name in enumerate(names):
        if name and i and (mode == "rest" or (mode == "some" and s.chance(0.5))):
            fixed.add(name)
    outputs = [f"y{i}" for i in range(draw.outputs)]
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
              for n, x in operands.items() if n not in fixed]
    graph = helper.make_graph([helper.make_node(op, names, outputs, domain=domain, **draw.attributes)], "edge", inputs,
                              [helper.make_empty_tensor_value_info(n) for n in outputs],
                              [numpy_helper.from_array(operands[n], n) for n in sorted(fixed)])
    imports = [helper.make_opsetid("", draw.opset)]
    if domain:
        usual = 2 if domain == "ai.onnx.ml" else 1
        imports.append(helper.make_opsetid(domain, draw.version or usual))
    model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
    half = any(x.dtype == np.float16 for x in operands.values())
    error = max(draw.error, 4e-3 if half else 0)
    return Case(model, [{n: x for n, x in operands.items() if n not in fixed}], {n: error for n in outputs}, seed)


def _forget_sizes(graph):
    """Bodies and branches declare the sizes of the first run, which contradict those of others; their ranks remain."""
    for inner in (attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")):
        for value in [*inner.input, *inner.output, *inner.value_info]:
            for dim in value.type.tensor_type.shape.dim:
                dim.Clear()
        _forget_sizes(inner)


def with_symbols(case):
    """The case with a symbol for every size of its inputs; axes, sizes and such keep their number."""
    other = copy.deepcopy(case)
    _forget_sizes(other.model.graph)
    for value in other.model.graph.input:
        known = value.name != "x0" and value.type.tensor_type.elem_type == TensorProto.INT64
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            if not known or dim.dim_param:
                dim.dim_param = f"{value.name}_{i}"
    return other


# ---- what to make of the answers ----

TARGETS = ["llvm -mcpu=native"] * 4 + ["c", "stackvm", "stackvm"]


def _answers(case, target, opt_level, dynamic):
    """Results, or the text of a refusal."""
    import treadle

    chosen = with_symbols(case) if dynamic else case
    try:
        model = treadle.compile(chosen.model, opt_level=opt_level, target=target, threads=1)
        return [np.asarray(a) for a in model.run(None, guarded.guarded_feeds(chosen.feeds[0])[0])]
    except treadle.Error as error:
        return str(error)


def apart(ours, theirs, error):
    """Where two lists of results differ; None where they don't."""
    for i, (a, b) in enumerate(zip(ours, theirs)):
        a, b = np.asarray(a), np.asarray(b)
        finite = np.abs(b[np.isfinite(b)].astype(np.float64)) if b.dtype.kind == "f" else np.ones(1)
        text = engines.apart(a, b, error * max(1.0, float(finite.max()) if finite.size else 1.0))
        if text is not None:
            return f"result {i}: {text}"
    return None


def compare(case):
    """A Verdict: of the usual way to compile, and of another one, drawn by the seed, against the peers; where those know
    no answer, against each other."""
    s = Source(case.seed)
    ways = [("llvm -mcpu=native", 3, False), (s.pick(TARGETS), s.integer(0, 3), s.chance(0.5))]
    op, error = case.model.graph.node[0].op_type, next(iter(case.errors.values()))
    known = engines.known_answers(case)
    answers = [_answers(case, *way) for way in ways]
    for way, ours in zip(ways, answers):
        if isinstance(ours, str):
            continue
        text = [apart(ours, theirs, error) for theirs in known]
        if known and None not in text:
            return engines.Verdict("differ", f"{op} {way}: {text[0]}")
        if not known and not isinstance(answers[0], str) and apart(ours, answers[0], error):
            return engines.Verdict("differ", f"{op} {way} and {ways[0]}: {apart(ours, answers[0], error)}")
    refusals = [ours for ours in answers if isinstance(ours, str)]
    if not refusals and any(attribute.name == "seed" for attribute in case.model.graph.node[0].attribute):
        text = apart(_answers(case, *ways[0]), answers[0], 0)
        if text is not None:
            return engines.Verdict("differ", f"{op}, the same seed again: {text}")
    if refusals:
        return engines.Verdict("refused" if known else "invalid", f"{op}: {refusals[0]}")
    return engines.Verdict("agree" if known else "invalid")
