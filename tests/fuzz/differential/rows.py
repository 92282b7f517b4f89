# SPDX-License-Identifier: Apache-2.0
"""Long rows whose lengths are no multiple of a vector's, as transformers of odd sizes have them: attention, normalisations
written out, halves of rows, parts that change places. Pieces of one chain each, so that they meet in one kernel."""
import numpy as np

from .rules import rule

FLOAT = ["float32"]
LENGTHS = [13, 15, 16, 17, 18, 23, 24, 31, 32, 33, 40, 47, 49, 63, 65, 77, 100, 127, 129, 197]


def _same(value, axis):
    return all(a.shape[axis] == value.shape[axis] for a in value.arrays)


def _one(g, op, *operands, **attributes):
    return g.add(op, list(operands), **attributes)[0]


def _number(g, value):
    return g.constant(np.float32(value))


@rule(1, pictures=0, rows=7)
def attend(g):
    """Heads of one operand, or of three, and what becomes of them."""
    x = g.choose(FLOAT, ranks=[3], where=lambda v: _same(v, 2) and all(a.size for a in v.arrays))
    heads = g.pick([h for h in (1, 2, 3, 4, 5, 7) if x.shape[2] % h == 0])
    others = [v for v in g.values if v.rank == 3 and v.dtype == np.float32 and _same(v, 2) and v.shape[2] == x.shape[2] and all(
        a.shape[0] == b.shape[0] for a, b in zip(v.arrays, x.arrays))]
    y = g.pick(others)

    def split(value, order):
        return _one(g, "Transpose", _one(g, "Reshape", value, g.ints([0, 0, heads, x.shape[2] // heads])), perm=order)

    k = split(y, [0, 2, 3, 1])
    q, v = split(x, [0, 2, 1, 3]), split(y, [0, 2, 1, 3])
    scores = _one(g, "Mul", _one(g, "MatMul", q, k), _number(g, g.pick([0.125, 0.25])))
    if g.chance(0.4):
        keys = scores.shape[3] if _same(scores, 3) else 1
        scores = _one(g, "Add", scores, g.constant(g.array([1, 1, 1, keys], np.float32)))
    p = _one(g, "Softmax", scores, axis=-1)
    y = _one(g, "Transpose", _one(g, "MatMul", p, v), perm=[0, 2, 1, 3])
    return [_one(g, "Reshape", y, g.ints([0, 0, x.shape[2]]))]


@rule(1, pictures=1, rows=8)
def centred(g):
    """A normalisation in single steps, along the last dimension or others."""
    x = g.choose(FLOAT, where=lambda v: v.rank > 1 and all(a.size and a.std() > 0.1 for a in v.arrays))
    axes = g.ints(g.pick([[-1], [-1], [-1], [-2], [0], [-2, -1]]))
    if g.chance(0.6):
        x = _one(g, "Sub", x, _one(g, "ReduceMean", x, axes, keepdims=1))
    square = _one(g, "Mul", x, x) if g.chance(0.5) else _one(g, "Pow", x, _number(g, 2))
    spread = _one(g, "Sqrt", _one(g, "Add", _one(g, "ReduceMean", square, axes, keepdims=1), _number(g, 0.125)))
    y = _one(g, "Div", x, spread)
    if g.chance(0.5) and _same(y, -1):
        y = _one(g, "Mul", y, g.constant(g.array([y.shape[-1]], np.float32)))
    return [y]


@rule(1, pictures=1, rows=6)
def shares(g):
    """A softmax in single steps, over any dimensions."""
    x = g.choose(FLOAT, where=lambda v: v.rank > 0 and all(a.size for a in v.arrays))
    g.need(not g.special)
    axes = g.ints(sorted(g.random.sample(range(x.rank), g.integer(1, min(2, x.rank)))))
    e = _one(g, "Exp", _one(g, "Sub", x, _one(g, "ReduceMax", x, axes, keepdims=1)))
    return [_one(g, "Div", e, _one(g, "ReduceSum", e, axes, keepdims=1))]


@rule(1, pictures=2, rows=8)
def gated(g):
    """One half of a dimension times a function of the other: by Split or by two slices, with steps or without."""
    x = g.choose(FLOAT, where=lambda v: any(d > 1 and d % 2 == 0 and _same(v, i) for i, d in enumerate(v.shape)))
    axis = g.pick([i for i, d in enumerate(x.shape) if d > 1 and d % 2 == 0 and _same(x, i)])
    half = x.shape[axis] // 2
    how = g.pick(["split", "halves", "steps"])
    if how == "split":
        a, b = g.add("Split", [x, g.ints([half, half])], 2, axis=axis)
    else:
        step = 2 if how == "steps" else 1
        bounds = [(0, 2 * half), (1, 2 * half)] if how == "steps" else [(0, half), (half, 2 * half)]
        a, b = (_one(g, "Slice", x, g.ints([low]), g.ints([high]), g.ints([axis]), g.ints([step])) for low, high in bounds)
    kind = g.pick(["gate", "turn", "weave"])
    if kind == "gate":
        return [_one(g, "Mul", a, _one(g, g.pick(["Sigmoid", "Tanh", "Relu"]), b))]
    if kind == "turn":
        return [_one(g, "Concat", _one(g, "Neg", b), a, axis=axis)]
    both = [_one(g, "Unsqueeze", v, g.ints([axis + 1])) for v in (b, a)]
    shape = [0] * axis + [2 * half] + [0] * (x.rank - axis - 1)
    # A 0 keeps the dimension at its place, which the new one has moved.
    g.need(axis == x.rank - 1)
    return [_one(g, "Reshape", _one(g, "Concat", *both, axis=axis + 1), g.ints(shape))]


@rule(1, pictures=3, rows=8)
def rearranged(g):
    """Parts of a dimension in another order, some of them repeated or left out, along it or another."""
    x = g.choose(where=lambda v: v.rank > 0 and any(d > 2 and _same(v, i) for i, d in enumerate(v.shape)))
    axis = g.pick([i for i, d in enumerate(x.shape) if d > 2 and _same(x, i)])
    count = g.integer(2, 3)
    if g.chance(0.5) and x.shape[axis] % count == 0:
        sizes = [x.shape[axis] // count] * count
    else:
        cuts = sorted(g.random.sample(range(1, x.shape[axis]), count - 1))
        sizes = [b - a for a, b in zip([0, *cuts], [*cuts, x.shape[axis]])]
    parts = g.add("Split", [x, g.ints(sizes)], count, axis=axis)
    if g.chance(0.3) and x.dtype == np.float32:
        parts[0] = _one(g, g.pick(["Relu", "Neg", "Abs"]), parts[0])
    order = g.random.sample(parts, count) if g.chance(0.5) else [g.pick(parts) for _ in range(g.integer(2, 4))]
    along = axis if len(set(sizes)) > 1 or g.chance(0.6) else g.integer(0, x.rank - 1)
    return [_one(g, "Concat", *order, axis=along)]


@rule(1, pictures=1, rows=8)
def widened(g):
    """A product with rows of weights of any length, and what follows it."""
    x = g.choose(FLOAT, where=lambda v: v.rank > 1 and _same(v, -1))
    weight = g.constant(g.array([x.shape[-1], g.pick(LENGTHS)], np.float32, -0.5, 0.5))
    y = _one(g, "MatMul", x, weight)
    if g.chance(0.6):
        y = _one(g, "Add", y, g.constant(g.array([y.shape[-1]], np.float32)))
    if g.chance(0.6):
        y = _one(g, g.pick(["Relu", "Tanh", "HardSwish", "Sigmoid"] + ([] if g.special else ["Gelu"])), y)
    return [y]


@rule(1, pictures=1, rows=6)
def best(g):
    """The largest or smallest of rows, or their sums so far, over rows that a vector doesn't divide."""
    g.need(not g.special)
    x = g.choose(["float32", "int32", "int64", "int8", "uint8"], where=lambda v: v.rank > 1 and all(a.size for a in v.arrays))
    op = g.pick(["ArgMax", "ArgMin", "ReduceMax", "ReduceMin", "CumSum"])
    axis = g.pick([-1, -1, -2, 0])
    if op.startswith("Reduce"):
        return [_one(g, op, x, g.ints([axis]), keepdims=g.integer(0, 1))]
    if op == "CumSum":
        return [_one(g, op, x, g.constant(np.array(axis, np.int64)), exclusive=g.integer(0, 1), reverse=g.integer(0, 1))]
    return [_one(g, op, x, axis=axis, keepdims=g.integer(0, 1))]
