# SPDX-License-Identifier: Apache-2.0
"""What kernels of their own serve: long reductions, quotients by numbers, views between functions of elements, pools and
resized pictures whose places come from tables."""
import numpy as np

from .rules import rule

FLOAT = ["float32"]
LONG = [255, 256, 257, 272, 300, 511, 512, 513, 640, 777, 1000, 1024, 1031]
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def _one(g, op, *operands, **attributes):
    return g.add(op, list(operands), **attributes)[0]


def _same(value, axis):
    return all(a.shape[axis] == value.shape[axis] for a in value.arrays)


@rule(3, pictures=1, rows=8)
def long_reduction(g):
    """Rows, columns or middle dimensions of at least 256 elements."""
    g.need(not g.special)
    shape = [g.pick([1, 2, 3, 5]) for _ in range(g.integer(0, 2))]
    axis = g.integer(0, len(shape))
    shape.insert(axis, g.pick(LONG))
    g.need(np.prod(shape) <= 4096 or g.profile != "any")
    kind = g.pick(["float32"] * 6 + ["float64", "float16", "int32", "int64", "int8", "uint8"])
    x = g.add_input(shape, kind, -1, 1)
    if kind == "float32" and g.chance(0.5):
        x = _one(g, g.pick(["Tanh", "Abs", "Relu", "Neg"]), x)
    floats = ["ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceMax", "ReduceMin",
              "ArgMax", "Softmax", "LogSoftmax", "LayerNormalization", "CumSum", "GlobalAveragePool", "Spread"]
    op = g.pick(floats if x.dtype.kind == "f" else ["ReduceSum", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin"])
    signed = axis - g.pick([0, len(shape)])
    if op.startswith("Reduce"):
        axes = g.ints(sorted({signed % len(shape), *g.random.sample(range(len(shape)), g.integer(0, 1))}))
        return [_one(g, op, x, axes, keepdims=g.integer(0, 1))]
    if op.startswith("Arg"):
        return [_one(g, op, x, axis=signed, keepdims=g.integer(0, 1))]
    if op in ("Softmax", "LogSoftmax"):
        return [_one(g, op, x, axis=signed)]
    if op == "CumSum":
        return [_one(g, op, x, g.constant(np.array(signed, np.int64)))]
    g.need(x.dtype == np.float32)
    if op == "GlobalAveragePool":
        g.need(x.rank == 3)
        return [_one(g, op, x)]
    if op == "LayerNormalization":
        return [_one(g, op, x, *(g.constant(g.array(shape[axis:], np.float32)) for _ in range(2)), axis=signed)]
    mean = _one(g, "ReduceMean", x, g.ints([signed]), keepdims=1)
    apart = _one(g, "Sub", x, mean)
    return [_one(g, "ReduceMean", _one(g, "Mul", apart, apart), g.ints([signed]), keepdims=g.integer(0, 1))]


@rule(3, pictures=1, rows=4, few_bits=2)
def quotient(g):
    """Of whole ranges of integers, and of floats, by a number or one for each column."""
    kind = g.pick(INTEGERS + ("float32",) * 4)
    columns = g.pick([1, 3, 8, 17, 33])
    shape = [g.pick([1, 2, 5]), columns]
    by = [columns] if g.chance(0.4) else g.pick([[], [1]])
    if kind == "float32":
        x = g.choose(FLOAT, where=lambda v: v.rank > 0)
        by = [x.shape[-1]] if by and _same(x, -1) else []
        divisor = g.constant(np.asarray(g.numpy.choice([3, 7, 0.1, 255, -6, 0.3, 1e-3, 12.5, 49], by), np.float32))
        y = _one(g, "Div", x, divisor)
        return [_one(g, g.pick(["Relu", "Neg", "Tanh"]), y)] if g.chance(0.5) else [y]
    info = np.iinfo(kind)
    x = g.add_array(g.numpy.integers(info.min, info.max, shape, dtype=kind, endpoint=True))
    choices = [n for n in (1, 2, 3, 5, 7, 10, 64, 100, 127, 255, 641, 65535, 2**31 - 1, 2**62) if n <= info.max]
    choices += [-n for n in choices if n > 1] if info.min < 0 else []
    divisor = g.constant(np.asarray(g.numpy.choice(np.array(choices, kind), by), kind))
    if g.chance(0.6):
        return [_one(g, "Div", x, divisor)]
    return [_one(g, "Mod", x, divisor, fmod=0 if "int64" in kind else g.integer(0, 1))]  # of them the peer makes doubles


def _viewed(g, x):
    """The same elements in other dimensions: neighbours joined, one taken apart, ones added."""
    ways = ["flat", "unit"] + ["join"] * 2 * (x.rank > 1) + ["part"] * 2
    how = g.pick(ways)
    if how == "flat":
        return _one(g, "Reshape", x, g.ints([-1]))
    if how == "unit":
        return _one(g, "Unsqueeze", x, g.ints([g.integer(-x.rank - 1, x.rank)]))
    at = g.integer(0, x.rank - (2 if how == "join" else 1))
    rest = range(at + (2 if how == "join" else 1), x.rank)
    g.need(all(_same(x, i) for i in rest))
    if how == "join":
        return _one(g, "Reshape", x, g.ints([0] * at + [-1] + [x.shape[i] for i in rest]))
    factor = g.pick([n for n in (2, 3, 4, 5, 7, 8, 16) if all(a.shape[at] % n == 0 for a in x.arrays)])
    parts = [factor, -1] if g.chance(0.5) else [-1, factor]
    return _one(g, "Reshape", x, g.ints([0] * at + parts + [x.shape[i] for i in rest]))


@rule(5, pictures=5, rows=8, few_bits=6)
def views(g):
    """Functions of elements between reshapes, with operands of the dimensions of each."""
    kinds = ["float32"] * 3 + ["int8", "uint8", "int32", "int64"]
    x = g.choose(kinds, where=lambda v: v.rank > 0 and all(a.size for a in v.arrays))
    for _ in range(g.integer(2, 6)):
        how = g.pick(["view", "view", "bias", "function", "turn", "before"])
        if how == "view":
            x = _viewed(g, x)
        elif how == "turn":
            x = _one(g, "Transpose", x, perm=g.random.sample(range(x.rank), x.rank))
        elif how == "bias":
            shape = [d if _same(x, i) and g.chance(0.6) else 1 for i, d in enumerate(x.shape)]
            x = _one(g, g.pick(["Add", "Mul", "Sub"]), x, g.constant(g.array(shape, x.dtype)))
        elif how == "before":  # another value of as many elements
            others = [v for v in g.values if v.dtype == x.dtype and all(a.size == b.size for a, b in zip(v.arrays, x.arrays))]
            if g.chance(0.5) or x.static:
                x = _one(g, "Add", x, _one(g, "Reshape", g.pick(others), _one(g, "Shape", x)))
        elif x.dtype == np.float32:
            x = _one(g, g.pick(["Relu", "Tanh", "HardSwish", "Sigmoid", "Abs"]), x)
        else:
            x = _one(g, "Max", x, g.constant(np.array(1, x.dtype)))
    return [x]


@rule(4, pictures=10, few_bits=10)
def wide_pool(g):
    """Windows of up to 7, far apart, of floats and bytes."""
    g.need(not g.special)
    op = g.pick(["MaxPool", "MaxPool", "AveragePool", "LpPool"])
    x = g.choose(FLOAT + (["int8", "uint8"] if op == "MaxPool" else []), ranks=[3, 4, 5])
    n = x.rank - 2
    kernel = [g.pick([1, 2, 3, 5, 7]) for _ in range(n)] if g.chance(0.6) else [g.pick([2, 3, 5])] * n
    dilations = [g.pick([1, 1, 2, 3]) for _ in range(n)]
    pads = [g.integer(0, k - 1) if g.chance(0.6) else 0 for k in kernel * 2]
    g.need(all(a.shape[2 + i] + pads[i] + pads[n + i] > (kernel[i] - 1) * dilations[i] for a in x.arrays for i in range(n)))
    attributes = {"kernel_shape": kernel, "pads": pads, "strides": [g.pick([1, 1, 2, 3]) for _ in range(n)], "dilations": dilations}
    if op == "AveragePool":
        attributes["count_include_pad"] = g.integer(0, 1)
    if op == "LpPool":
        attributes["p"] = g.pick([1, 2, 3])
    return g.add(op, [x], **attributes)


@rule(3, pictures=8, few_bits=4)
def resampled(g):
    """Resize by sizes or scales, of some dimensions, antialiased or not."""
    g.need(not g.special)
    x = g.choose(FLOAT, ranks=[3, 4, 5], where=lambda v: all(a.size for a in v.arrays))
    n = min(2, x.rank - 2)
    where_ = g.pick(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"])
    attributes = {"mode": g.pick(["linear", "cubic", "nearest"]), "coordinate_transformation_mode": where_}
    if attributes["mode"] == "cubic":
        attributes["cubic_coeff_a"] = g.pick([-0.75, -0.5])
        attributes["exclude_outside"] = g.integer(0, 1)
    if attributes["mode"] != "nearest" and g.chance(0.6):
        attributes["antialias"] = 1
        attributes["coordinate_transformation_mode"] = "half_pixel"
    sizes = [g.pick([1, 2, 3, 4, 6, 9, 13]) for _ in range(n)]
    axes = list(range(x.rank - n, x.rank))
    if g.chance(0.5):
        attributes["axes"] = [a - g.pick([0, x.rank]) for a in axes]
        given = sizes
    else:
        g.need(all(_same(x, i) for i in range(x.rank - n)))
        given = [*x.shape[:x.rank - n], *sizes]
    if g.chance(0.7):
        return g.add("Resize", [x, None, None, g.ints(given)], **attributes)
    scales = [1.0] * (0 if "axes" in attributes else x.rank - n) + [g.pick([0.5, 0.75, 1.5, 2.0, 0.3]) for _ in range(n)]
    g.need(attributes["coordinate_transformation_mode"] != "align_corners")
    return g.add("Resize", [x, None, g.constant(np.array(scales, np.float32))], **attributes)


@rule(1, pictures=4)
def deformed(g):
    """A deformable convolution whose offsets are computed from its operand."""
    g.need(not g.special)
    x = g.choose(FLOAT, ranks=[4], where=lambda v: _same(v, 1) and all(a.size for a in v.arrays))
    side, groups = g.pick([1, 3]), g.pick([n for n in (1, 2, 4) if x.shape[1] % n == 0])
    offsets = g.constant(g.array([2 * side * side * groups, x.shape[1], 1, 1], np.float32, -0.25, 0.25))
    moved = _one(g, "Conv", x, offsets)
    weight = g.constant(g.array([g.pick([1, 4, 17]), x.shape[1], side, side], np.float32, -1, 1))
    masked = []
    if g.chance(0.5):
        of = g.constant(g.array([side * side * groups, x.shape[1], 1, 1], np.float32, -0.25, 0.25))
        masked = [None, _one(g, "Sigmoid", _one(g, "Conv", x, of))]
    return g.add("DeformConv", [x, weight, moved, *masked], error=1e-4, kernel_shape=[side] * 2, pads=[side // 2] * 4,
                 offset_group=groups)
