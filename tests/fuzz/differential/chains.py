# SPDX-License-Identifier: Apache-2.0
"""Long chains: normalisations, shares and sums over middle axes of which each reads the one before; convolutions of wide
groups with what follows them; channels that change places."""
import numpy as np

from .rules import rule

FLOAT = ["float32"]


def _one(g, op, *operands, **attributes):
    return g.add(op, list(operands), **attributes)[0]


def _spread(x):
    """Whether norms of it are well defined: equal elements would leave nothing but rounding."""
    return all(a.size and a.std() > 0.1 * max(1, np.abs(a).max()) for a in x.arrays)


def _same(x, axis):
    return all(a.shape[axis] == x.shape[axis] for a in x.arrays)


def _turned(g, x, axis, op):
    """An operator of the last dimension, of another one: between transposes."""
    order = list(range(x.rank))
    order[axis], order[-1] = order[-1], order[axis]
    y = _one(g, "Transpose", x, perm=order)
    if op == "LayerNormalization":
        scale = [g.constant(g.array([y.shape[-1]], np.float32)) for _ in range(2)]
        y = _one(g, op, y, *scale, axis=-1)
    else:
        y = _one(g, op, y, axis=-1)
    return _one(g, "Transpose", y, perm=order)


def _step(g, x):
    """One link over an axis that is rarely the last."""
    axis = g.pick([*range(x.rank - 1)] * 2 + [x.rank - 1])
    signed = axis - g.pick([0, x.rank])
    kind = g.pick(["softmax", "logsoftmax", "sum", "centre", "extreme", "norm", "layer", "power", "running", "bias", "function"])
    if kind == "softmax":
        return _turned(g, x, axis, "Softmax") if g.chance(0.3) else _one(g, "Softmax", x, axis=signed)
    if kind == "logsoftmax":
        return _one(g, "LogSoftmax", x, axis=signed)
    axes = g.ints(sorted({axis, g.integer(0, x.rank - 1)}) if g.chance(0.4) else [signed])
    if kind == "sum":
        part = _one(g, g.pick(["ReduceSum", "ReduceMean", "ReduceL2", "ReduceLogSumExp"]), x, axes, keepdims=1)
        return _one(g, g.pick(["Add", "Sub"]), x, part)
    if kind == "centre":
        return _one(g, "Sub", x, _one(g, "ReduceMean", x, axes, keepdims=1))
    if kind == "extreme":
        return _one(g, "Sub", x, _one(g, g.pick(["ReduceMax", "ReduceMin"]), x, axes, keepdims=1))
    if kind == "norm":
        g.need(_spread(x))
        square = _one(g, "ReduceMean", _one(g, "Mul", x, x), axes, keepdims=1)
        return _one(g, "Div", x, _one(g, "Sqrt", _one(g, "Add", square, g.constant(np.float32(0.125)))))
    if kind == "layer":
        g.need(_spread(x) and _same(x, axis) and x.shape[axis] > 1)
        return _turned(g, x, axis, "LayerNormalization")
    if kind == "power":
        return _one(g, "LpNormalization", _one(g, "Add", x, g.constant(np.float32(8))), axis=signed, p=g.integer(1, 2))
    if kind == "running":
        return _one(g, "CumSum", x, g.constant(np.array(signed, np.int64)), exclusive=g.integer(0, 1), reverse=g.integer(0, 1))
    if kind == "bias":
        shape = [d if _same(x, i) and g.chance(0.6) else 1 for i, d in enumerate(x.shape)]
        return _one(g, g.pick(["Add", "Mul"]), x, g.constant(g.array(shape, np.float32)))
    return _one(g, g.pick(["Tanh", "Sigmoid", "Relu", "Erf", "HardSwish"]), x)


@rule(3, pictures=2, rows=8)
def middle(g):
    """A chain over axes in the middle."""
    g.need(not g.special)
    x = g.choose(FLOAT, where=lambda v: v.rank > 2 and all(a.size for a in v.arrays))
    for _ in range(g.integer(2, 6)):
        x = _step(g, x)
    if g.chance(0.4):
        axes = g.random.sample(range(x.rank), g.integer(1, x.rank - 1))
        return [_one(g, g.pick(["ReduceSum", "ReduceMean", "ReduceMax"]), x, g.ints(axes), keepdims=g.integer(0, 1))]
    return [x]


def _shuffled(g, x, groups):
    """Channels of each group in turns."""
    rest = list(x.shape[2:])
    if not all(_same(x, i) for i in range(2, x.rank)):
        g.need(sum(not _same(x, i) for i in range(2, x.rank)) == 1 and _same(x, 0))
        rest = [d if _same(x, i + 2) else -1 for i, d in enumerate(rest)]
    first = x.shape[0] if -1 in rest else -1
    y = _one(g, "Reshape", x, g.ints([first, groups, x.shape[1] // groups, *rest]))
    y = _one(g, "Transpose", y, perm=[0, 2, 1, *range(3, x.rank + 1)])
    return _one(g, "Reshape", y, g.ints([first, x.shape[1], *rest]))


def shuffle(g, x):
    """Channels that change places: of groups, of a split, of two slices."""
    channels = x.shape[1]
    how = g.pick(["groups", "split", "slices"])
    if how == "groups":
        return _shuffled(g, x, g.pick([n for n in (2, 3, 4, 5, 8) if channels % n == 0]))
    cut = channels // 2 if g.chance(0.5) else g.integer(1, channels - 1)
    if how == "split":
        a, b = g.add("Split", [x, g.ints([cut, channels - cut])], 2, axis=1)
    else:
        a, b = (_one(g, "Slice", x, g.ints([low]), g.ints([high]), g.ints([1]), g.ints([1]))
                for low, high in ((0, cut), (cut, channels)))
    return _one(g, "Concat", *g.pick([(b, a), (a, b, a), (b, b), (a, b)]), axis=1)


@rule(1, pictures=4, few_bits=10)
def shuffled(g):
    """Of any type: bytes move in other vectors."""
    x = g.choose(FLOAT + ["int8", "uint8"], ranks=[3, 4], where=lambda v: _same(v, 1) and v.shape[1] > 1)
    return [shuffle(g, x)]


@rule(1, pictures=6)
def grouped(g):
    """Groups of at least 16 channels under windows of 3 x 3, which Winograd's method takes."""
    g.need(not g.special)
    x = g.choose(FLOAT, ranks=[4], where=lambda v: _same(v, 1) and 0 < v.shape[1])
    groups, width = g.pick([2, 2, 3, 4]), g.pick([16, 16, 20, 24, 32])
    channels = groups * width
    if x.shape[1] != channels:
        g.need(x.shape[1] <= 40)
        weight = g.constant(g.array([channels, x.shape[1], 1, 1], np.float32, -0.5, 0.5, finite=True))
        x = _one(g, "Conv", x, weight)
    for _ in range(g.integer(1, 2)):
        out = g.pick([width, width, 16, 17])
        weight = g.constant(g.array([groups * out, x.shape[1] // groups, 3, 3], np.float32, -0.25, 0.25, finite=True))
        bias = [g.constant(g.array([groups * out], np.float32))] if g.chance(0.5) else []
        pads = g.pick([[1] * 4, [1] * 4, [0] * 4, [0, 1, 1, 0]])
        x = g.add("Conv", [x, weight, *bias], error=2e-4, group=groups, pads=pads, kernel_shape=[3, 3],
                  strides=g.pick([[1, 1]] * 3 + [[2, 2]]))[0]
        if g.chance(0.5):
            x = _one(g, g.pick(["Relu", "Sigmoid", "HardSwish"]), x)
        if g.chance(0.3):
            x = _shuffled(g, x, groups)
    return [x]
