# SPDX-License-Identifier: Apache-2.0
"""Ways to let a graph grow by one operator, about a hundred and fifty operators in all."""
import numpy as np
from onnx import TensorProto, helper

from .rules import rule

FLOATS = ("float32", "float64", "float16")
SIGNED = FLOATS + ("int64", "int32")
ANY = SIGNED + ("int8", "uint8", "bool")
# ---- one element at a time ----

UNARY = ("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish Log Mish Neg Reciprocal Relu Round "
         "Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh Identity").split()
ANY_SIGNED = ("Abs", "Neg", "Sign", "Relu", "Identity")
PARAMETRIC = {
    "Elu": ["alpha"], "Celu": ["alpha"], "Selu": ["alpha", "gamma"], "LeakyRelu": ["alpha"],
    "ThresholdedRelu": ["alpha"], "HardSigmoid": ["alpha", "beta"], "Shrink": ["lambd", "bias"]}


@rule(14, pictures=12)
def unary(g):
    op = g.pick(["Relu", "Sigmoid", "HardSwish", "Tanh"] if g.pictures and g.chance(0.5) else UNARY)
    return g.add(op, [g.choose(SIGNED if op in ANY_SIGNED else FLOATS)])


@rule(5, pictures=6)
def parametric(g):
    op = g.pick(sorted(PARAMETRIC))
    attributes = {name: g.pick([0.25, 0.5, 1.0, 1.5]) for name in PARAMETRIC[op] if g.chance(0.6)}
    return g.add(op, [g.choose(["float32"] if op == "Celu" else FLOATS)], **attributes)


@rule(2, pictures=2)
def other_unary(g):
    op = g.pick(["Gelu", "IsNaN", "IsInf", "Not", "BitwiseNot", "Dropout", "Clip", "Cast"])
    if op == "Gelu":
        g.need(not g.special)  # at -inf: 0 is the limit, NaN what the formula gives
        return g.add(op, [g.choose(FLOATS)], approximate=g.pick(["none", "tanh"]))
    if op in ("IsNaN", "IsInf"):
        return g.add(op, [g.choose(["float32", "float64"])])
    if op == "Not":
        return g.add(op, [g.choose(["bool"])])
    if op == "BitwiseNot":
        return g.add(op, [g.choose(["int32", "int64", "uint8", "int8"])])
    if op == "Dropout":
        return g.add(op, [g.choose(FLOATS)])
    if op == "Cast":
        to = g.pick(["FLOAT", "FLOAT", "DOUBLE", "INT64", "INT32", "FLOAT16", "BOOL", "UINT8", "INT8"])
        x = g.choose(ANY)
        if to in ("UINT8", "INT8") and (x.arrays[0].size == 0 or abs(x.arrays[0].astype(np.float64)).max() > 100 or
                                        x.arrays[0].astype(np.float64).min() < 0):
            to = "FLOAT"
        g.need("INT" not in to or x.dtype.kind != "f" or all(np.isfinite(a).all() for a in x.arrays))
        return g.add(op, [x], to=getattr(TensorProto, to))
    x = g.choose(["float32", "float64", "int32", "int64", "int8"])
    low, high = (g.constant(np.array(b, x.dtype)) if g.chance(0.75) else None for b in (-1, 2))
    return g.add(op, [x, low, high])


@rule(14, pictures=14)
def binary(g):
    op = g.pick(["Add", "Sub", "Mul", "Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Mod", "PRelu", "Mean", "Sum"])
    if op == "Pow":
        x = g.choose(FLOATS)
        powers = [2, 3, -1, 2] + ([] if g.special else [0.5])  # the root of minus infinity is NaN, the power isn't
        return g.add(op, [x, g.constant(np.array(g.pick(powers), x.dtype))])
    if op == "Mod":
        x = g.choose(["int32", "int64", "float32"])
        by = g.constant(np.array(g.pick([2, 3, 5]), x.dtype))
        return g.add(op, [x, by], fmod=1 if x.dtype.kind == "f" or g.chance(0.5) else 0)
    if op == "PRelu":
        x = g.choose(["float32", "float64"])
        shape = [1 if not g.chance(0.6) or not x.static else d for d in x.shape[1:]]
        return g.add(op, [x, g.constant(g.array(shape, x.dtype))])
    x = g.choose(FLOATS if op in ("Mean", "Sum") else SIGNED)
    y = g.like(x)
    if op == "Div" and any((a == 0).any() for a in y.arrays):
        y = g.constant(np.array(g.pick([2, 4, -3]), x.dtype))
    operands = [x, y] if g.chance(0.6) or op in ("Sub", "Div") else [y, x]
    if op in ("Max", "Min", "Mean", "Sum") and g.chance(0.3):
        operands.append(g.like(x))
    return g.add(op, operands)


@rule(4)
def compare(g):
    op = g.pick(["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"])
    x = g.choose(["float32", "float64", "int32", "int64"])
    return g.add(op, [x, g.like(x)])


@rule(3)
def logic(g):
    op = g.pick(["And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"])
    if op == "BitShift":
        x = g.choose(["uint8"])
        return g.add(op, [x, g.constant(np.array(g.integer(0, 7), np.uint8))], direction=g.pick(["LEFT", "RIGHT"]))
    x = g.choose(["bool"] if op in ("And", "Or", "Xor") else ["int32", "int64", "uint8"])
    return g.add(op, [x, g.like(x)])


@rule(5, pictures=2)
def where(g):
    condition = g.choose(["bool"])
    fitting = [v for v in g.values if v.dtype != np.bool_ and v.rank and v.arrays[0].shape == condition.shape]
    x = g.pick(fitting)
    return g.add("Where", [condition, x, g.like(x)] if g.chance(0.5) else [condition, g.like(x), x])


# ---- data that moves ----

@rule(3, pictures=2)
def transpose(g):
    x = g.choose(ANY)
    order = list(range(x.rank))
    g.random.shuffle(order)
    return g.add("Transpose", [x], perm=order)


@rule(4, pictures=3)
def reshape(g):
    x = g.choose(ANY, where=lambda v: v.rank > 0)
    if g.chance(0.2):
        return g.add("Flatten", [x], axis=g.integer(-x.rank, x.rank))
    at = g.integer(0, x.rank - 1)
    if g.chance(0.5) and x.rank > 1:
        at = min(at, x.rank - 2)
        shape = [0] * at + [-1] + list(x.shape[at + 2:])
    else:
        factors = [f for f in (2, 3, 4, 8) if x.shape[at] % f == 0]
        shape = list(x.shape)
        shape[at:at + 1] = [g.pick(factors or [1]), -1]
        shape[:at] = [0] * at
    if not x.static and any(a.shape[i] != x.shape[i] for a in x.arrays for i in range(at + 1, x.rank)):
        shape = [-1]
    return g.add("Reshape", [x, g.ints(shape)])


@rule(3)
def unit_axes(g):
    if g.chance(0.5):
        x = g.choose(ANY, where=lambda v: any(all(a.shape[i] == 1 for a in v.arrays) for i in range(v.rank)))
        axes = [i for i in range(x.rank) if all(a.shape[i] == 1 for a in x.arrays)]
        return g.add("Squeeze", [x, g.ints([g.pick(axes) - (x.rank if g.chance(0.3) else 0)])])
    x = g.choose(ANY, ranks=range(5))
    return g.add("Unsqueeze", [x, g.ints([g.integer(-x.rank - 1, x.rank)])])


@rule(5, pictures=6)
def concat(g):
    x = g.choose(ANY, where=lambda v: v.rank > 0)
    axis = g.integer(-x.rank, x.rank - 1)
    parts = [x]
    for _ in range(g.integer(1, 3)):
        kind = g.random.random()
        fitting = [v for v in g.values if v.dtype == x.dtype and v.rank == x.rank and all(
            i == axis % x.rank or all(a.shape[i] == b.shape[i] for a, b in zip(v.arrays, x.arrays))
            for i in range(x.rank))]
        if kind < 0.3 and x.static:
            shape = list(x.shape)
            shape[axis] = g.integer(0 if g.chance(0.1) else 1, 4)
            parts.append(g.constant(g.array(shape, x.dtype)))
        else:
            parts.append(g.pick(fitting))
    g.random.shuffle(parts)
    return g.add("Concat", parts, axis=axis)


@rule(3, pictures=4)
def split(g):
    x = g.choose(ANY, where=lambda v: v.rank > 0)
    axis = g.integer(0, x.rank - 1)
    size = x.shape[axis]
    if size < 2 or not all(a.shape[axis] == size for a in x.arrays):
        return g.add("Split", [x], 2, axis=axis, num_outputs=2)
    first = g.integer(0 if g.chance(0.1) else 1, size - 1)
    return g.add("Split", [x, g.ints([first, size - first])], 2, axis=axis - (x.rank if g.chance(0.3) else 0))


@rule(6, pictures=6)
def slice_(g):
    x = g.choose(ANY, where=lambda v: v.rank > 0)
    axes = g.random.sample(range(x.rank), g.integer(1, x.rank))
    begin, end, step = [], [], []
    for axis in axes:
        size = x.shape[axis]
        step.append(g.pick([1, 1, 1, 2, 3, -1, -2]))
        ends = sorted(g.integer(-1, size) for _ in range(2))
        ends = ends if step[-1] > 0 else ends[::-1]
        begin.append(ends[0] if ends[0] >= 0 else g.pick([0, -size, -9999]) if step[-1] > 0 else 0)
        end.append(g.pick([ends[1], 2**31 - 1 if step[-1] > 0 else -2**31, -1 if step[-1] > 0 else -size - 1]))
    operands = [x, g.ints(begin), g.ints(end), g.ints([a - (x.rank if g.chance(0.3) else 0) for a in axes]), g.ints(step)]
    result = g.add("Slice", operands)
    return result


@rule(8, pictures=8)
def pad(g):
    x = g.choose(["float32", "float32", "float64", "int32", "int64", "int8"], where=lambda v: v.rank > 0)
    mode = g.pick(["constant", "constant", "constant", "reflect", "edge"] + ["wrap"] * (g.opset > 18))
    low = -1 if mode == "constant" else 0
    most = [2 if mode == "constant" else max(0, min(2, min(a.shape[i] for a in x.arrays) - 1)) for i in range(x.rank)]
    amounts = [g.integer(low, m) if g.chance(0.6) else 0 for m in most] + \
        [g.integer(low, m) if g.chance(0.6) else 0 for m in most]
    g.need(all(a.shape[i] + min(amounts[i], 0) + min(amounts[x.rank + i], 0) >= 0 for a in x.arrays for i in range(x.rank)))
    value = g.constant(np.array(g.pick([0, 1, -2, 3]) if x.dtype.kind != "f" else g.pick([0, 0.5, -1.5, 3]), x.dtype))
    return g.add("Pad", [x, g.ints(amounts)] + ([value] if mode == "constant" and g.chance(0.8) else []), mode=mode)


@rule(3)
def repeat(g):
    x = g.choose(ANY, where=lambda v: 0 < v.rank)
    if g.chance(0.5):
        return g.add("Tile", [x, g.ints([g.pick([1, 1, 2, 3]) for _ in range(x.rank)])])
    shape = [g.pick([1, 2, 3]) if all(a.shape[i] == 1 for a in x.arrays) else 1 for i in range(x.rank)]
    return g.add("Expand", [x, g.ints(([2] if g.chance(0.3) else []) + shape)])


def _indices(g, shape, size):
    dtype = g.pick([np.int64, np.int64, np.int32])
    return g.constant(g.numpy.integers(-size, size, shape).astype(dtype))


def _least(x, axis):
    """The size of an axis in the world where it is least."""
    size = min(a.shape[axis] for a in x.arrays)
    return size if size > 0 else 0


@rule(6, pictures=2)
def gather(g):
    x = g.choose(ANY, where=lambda v: v.rank > 0 and v.arrays[0].size > 0)
    axis = g.integer(0, x.rank - 1)
    size = _least(x, axis)
    g.need(size)
    kind = g.pick(["Gather", "Gather", "GatherElements", "GatherND"])
    if kind == "Gather":
        found = [v for v in g.values if v.dtype.kind == "i" and v.dtype.itemsize >= 4 and v.rank < 3 and
                 all(a.size and a.min() >= -size and a.max() < size for a in v.arrays)]
        indices = g.pick(found) if found and g.chance(0.4) else _indices(g, g.pick([(), (2,), (3,), (2, 2)]), size)
        return g.add(kind, [x, indices], axis=axis)
    if kind == "GatherElements":
        if not x.static:
            return g.add(kind, [x, _indices(g, [1] * x.rank, size)], axis=axis)
        shape = [g.integer(1, d) for d in x.shape]
        shape[axis] = g.integer(1, 4)
        return g.add(kind, [x, _indices(g, shape, size)], axis=axis)
    length = g.integer(1, x.rank)
    g.need(all(_least(x, d) > 0 for d in range(length)))
    columns = [g.numpy.integers(-_least(x, d), _least(x, d), (g.integer(1, 3) if d == 0 else 1,)) for d in range(length)]
    rows = max(len(c) for c in columns)
    indices = np.stack([np.resize(c, rows) for c in columns], -1).astype(np.int64)
    return g.add(kind, [x, g.constant(indices)])


@rule(4)
def scatter(g):
    x = g.choose(["float32", "float64", "int32", "int64"], where=lambda v: v.rank > 0 and v.static and v.arrays[0].size)
    # Peers keep or drop NaN by the order of operands.
    reduction = g.pick(["none", "add", "mul"] + ([] if g.special else ["max", "min"]))
    if g.chance(0.5):
        axis = g.integer(0, x.rank - 1)
        shape = list(x.shape)
        shape[axis] = min(shape[axis], g.integer(1, 3))
        # Equal indices without a reduction would make the order count.
        one = g.numpy.permutation(x.shape[axis])[:shape[axis]].reshape([-1 if i == axis else 1 for i in range(x.rank)])
        indices = np.broadcast_to(one, shape).astype(np.int64).copy()
        indices[indices % 2 == 0] -= x.shape[axis]
        return g.add("ScatterElements", [x, g.constant(indices), g.constant(g.array(shape, x.dtype))], axis=axis,
                     reduction=reduction)
    rows = min(x.shape[0], g.integer(1, 3))
    indices = g.numpy.permutation(x.shape[0])[:rows].reshape(-1, 1).astype(np.int64)
    updates = g.constant(g.array([rows] + list(x.shape[1:]), x.dtype))
    return g.add("ScatterND", [x, g.constant(indices), updates], reduction=reduction)


@rule(3, pictures=2)
def blocks(g):
    op = g.pick(["DepthToSpace", "SpaceToDepth", "ReverseSequence", "Trilu", "Compress", "CenterCropPad"])
    if op in ("DepthToSpace", "SpaceToDepth"):
        x = g.choose(["float32", "float64"], ranks=[4])
        extra = {"mode": g.pick(["DCR", "CRD"])} if op == "DepthToSpace" else {}
        return g.add(op, [x], blocksize=2, **extra)
    if op == "ReverseSequence":
        x = g.choose(["float32", "int64"], where=lambda v: v.rank >= 2 and v.static and v.arrays[0].size)
        batch = g.integer(0, 1)
        lengths = g.numpy.integers(1, x.shape[1 - batch] + 1, x.shape[batch]).astype(np.int64)
        return g.add(op, [x, g.constant(lengths)], batch_axis=batch, time_axis=1 - batch)
    if op == "Trilu":
        x = g.choose(["float32", "float64", "int64"], ranks=[2, 3, 4])
        return g.add(op, [x, g.constant(np.array(g.integer(-2, 2), np.int64))], upper=g.integer(0, 1))
    if op == "Compress":
        x = g.choose(["float32", "int64"], where=lambda v: v.rank > 0)
        axis = g.integer(0, x.rank - 1)
        condition = g.numpy.integers(0, 2, _least(x, axis)).astype(bool)
        return g.add(op, [x, g.constant(condition)], axis=axis)
    x = g.choose(["float32"], where=lambda v: v.rank > 0)
    axis = g.integer(0, x.rank - 1)
    return g.add(op, [x, g.ints([g.integer(1, 6)])], axes=[axis])


@rule(4, pictures=6)
def resize(g):
    x = g.choose(["float32"], ranks=[3, 4])
    g.need(not g.special)  # what neighbours of weight 0 count for isn't said
    mode = g.pick(["nearest", "linear", "cubic"])
    # With corners aligned and fractional scales ONNX Runtime's own sizes aren't those of the standard.
    where_ = g.pick(["half_pixel", "asymmetric", "pytorch_half_pixel"])
    attributes = {"mode": mode, "coordinate_transformation_mode": where_}
    if mode == "nearest":
        attributes["nearest_mode"] = g.pick(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
    scales = [1.0] * 2 + [g.pick([0.5, 1.0, 1.5, 2.0, 3.0]) for _ in range(x.rank - 2)]
    return g.add("Resize", [x, None, g.constant(np.array(scales, np.float32))], **attributes)


@rule(3)
def shapes(g):
    op = g.pick(["Shape", "Size", "ConstantOfShape", "Range", "EyeLike", "OneHot", "NonZero"])
    if op in ("Shape", "Size"):
        return g.add(op, [g.choose(ANY)])
    if op == "ConstantOfShape":
        value = helper.make_tensor("value", TensorProto.FLOAT, [1], [1.5])
        return g.add(op, [g.ints([g.integer(1, 4) for _ in range(g.integer(1, 3))])], value=value)
    if op == "Range":
        dtype = g.pick([np.float32, np.int64])
        return g.add(op, [g.constant(np.array(v, dtype)) for v in (g.integer(-3, 3), g.integer(3, 9), g.pick([1, 2]))])
    if op == "EyeLike":
        return g.add(op, [g.choose(["float32", "int64"], ranks=[2])], k=g.integer(-1, 2))
    if op == "NonZero":
        return g.add(op, [g.choose(["float32", "int64", "bool"])])
    x = g.choose(["int32", "int64"], where=lambda v: v.rank < 4)
    return g.add(op, [x, g.ints([g.integer(1, 6)]), g.constant(np.array([0, 1], np.float32))],
                 axis=g.integer(-x.rank - 1, x.rank))


# ---- reductions ----

@rule(8, pictures=4)
def reduce_(g):
    op = "Reduce" + g.pick(["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"])
    g.need(not g.special or op not in ("ReduceMax", "ReduceMin"))  # ONNX Runtime drops NaN
    x = g.choose(["float32", "float64"] + (["int32", "int64"] if op in ("ReduceSum", "ReduceMax", "ReduceMin") else []),
                 where=lambda v: v.rank > 0 and v.arrays[0].size)  # ONNX Runtime keeps dimensions of empty operands
    axes = g.random.sample(range(x.rank), g.integer(1, x.rank))
    axes = [a - (x.rank if g.chance(0.3) else 0) for a in axes]
    # Which partial products overflow before a 0 makes them NaN depends on the order, here and elsewhere.
    largest = np.finfo(np.float32).max
    g.need(op != "ReduceProd" or all(np.prod(np.maximum(np.abs(a), 1.0)) < largest for a in x.arrays))
    return g.add(op, [x] if g.chance(0.1) else [x, g.ints(axes)], keepdims=g.integer(0, 1))


@rule(3)
def order(g):
    op = g.pick(["ArgMax", "ArgMin", "CumSum", "TopK", "TopK"])
    g.need(not g.special or op == "CumSum")  # the order of NaN isn't said
    x = g.choose(["float32", "float64", "int64", "int32"], where=lambda v: v.rank > 0)
    axis = g.integer(-x.rank, x.rank - 1)
    if op == "CumSum":
        return g.add(op, [x, g.constant(np.array(axis, np.int64))], exclusive=g.integer(0, 1), reverse=g.integer(0, 1))
    if op == "TopK":
        k = g.integer(1, max(1, _least(x, axis)))
        # Of equal elements either may come first.
        ties = any(len(np.unique(row)) < len(row) for a in x.arrays for row in np.moveaxis(a, axis, -1).reshape(
            -1, max(1, a.shape[axis])))
        return g.add(op, [x, g.ints([k])], 2, keep=[0] if ties else None, axis=axis, largest=g.integer(0, 1))
    g.need(all(a.size for a in x.arrays))  # ONNX Runtime keeps their dimensions
    return g.add(op, [x], axis=axis, keepdims=g.integer(0, 1), select_last_index=g.integer(0, 1))


NORMS = ("LayerNormalization", "InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization")


@rule(4, pictures=8)
def normalise(g):
    op = g.pick(["Softmax", "LogSoftmax", "Hardmax", "LayerNormalization", "InstanceNormalization", "LpNormalization",
                 "BatchNormalization", "GroupNormalization", "LRN", "MeanVarianceNormalization", "RMSNormalization"])
    x = g.choose(["float32"], where=lambda v: v.rank > 0)
    g.need(not g.special or op not in ("Hardmax", "LRN"))  # which NaN is the largest isn't said; sums that move keep NaN
    # Of equal elements the mean's rounding is all that is left, divided by the root of epsilon.
    g.need(op not in NORMS or all(a.size == 0 or a.std() > 0.05 * max(1, np.abs(a).max()) and (
        a.reshape(a.shape[:2] + (-1,)).std(-1) > 0.05).all() for a in x.arrays if a.ndim > 1))
    if op in ("Softmax", "LogSoftmax", "Hardmax"):
        return g.add(op, [x], axis=g.integer(-x.rank, x.rank - 1))
    if op == "LpNormalization":
        axis = g.integer(0, x.rank - 1)
        # A norm near 0 makes 1 of what peers round to 0.
        g.need(all(a.size == 0 or np.abs(a).max(axis).min() > 1e-3 for a in x.arrays))
        return g.add(op, [x], axis=axis, p=g.integer(1, 2))
    if op == "LayerNormalization":
        axis = g.integer(-x.rank, -1)
        if any(a.shape[axis:] != x.shape[axis:] for a in x.arrays):
            axis = -1
        scale, bias = (g.constant(g.array(x.shape[axis:], np.float32)) for _ in range(2))
        return g.add(op, [x, scale, bias], axis=axis)
    channels = x.shape[1] if x.rank > 1 else 0
    vector = lambda low, high: g.constant(g.array([channels], np.float32, low, high))  # noqa: E731
    if op == "InstanceNormalization":
        return g.add(op, [x, vector(-2, 2), vector(-2, 2)])
    if op == "BatchNormalization":
        return g.add(op, [x, vector(-2, 2), vector(-2, 2), vector(-2, 2), vector(0.5, 2)])
    if op == "GroupNormalization":
        groups = g.pick([d for d in (1, 2, 4) if channels % d == 0])
        return g.add(op, [x, vector(-2, 2), vector(-2, 2)], num_groups=groups)
    if op == "LRN":
        return g.add(op, [x], size=g.pick([1, 3, 5]))
    if op == "MeanVarianceNormalization":
        g.need(x.rank == 4)
        return g.add(op, [x])
    return g.add("Softmax", [x], axis=-1)


# ---- windows and products ----

def _window(g, x, dilated=True):
    spatial = x.rank - 2
    kernel = [g.integer(1, 3) for _ in range(spatial)]
    attributes = {"kernel_shape": kernel, "strides": [g.integer(1, 2) for _ in range(spatial)]}
    if g.chance(0.5):
        attributes["pads"] = [g.integer(0, k - 1) for k in kernel + kernel]
    elif g.chance(0.3):
        attributes["auto_pad"] = g.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    if dilated and "auto_pad" not in attributes and g.chance(0.3):
        attributes["dilations"] = [g.integer(1, 2) for _ in range(spatial)]
    # Where a window is larger than the operand, sizes of the standard are rounded down, and ONNX Runtime's to zero.
    pads, dilations = attributes.get("pads", [0] * 2 * spatial), attributes.get("dilations", [1] * spatial)
    g.need(attributes.get("auto_pad", "").startswith("SAME") or all(
        a.shape[2 + i] + pads[i] + pads[spatial + i] > (kernel[i] - 1) * dilations[i] for a in x.arrays for i in range(spatial)))
    return attributes


@rule(8, pictures=28)
def convolve(g):
    x = g.choose(["float32"], where=lambda v: v.rank in (3, 4, 5) and v.shape[1] and all(
        a.shape[1] == v.shape[1] for a in v.arrays))
    pictures = g.pictures
    channels, transposed = x.shape[1], g.chance(0.1 if pictures else 0.25)
    attributes = _window(g, x)
    if pictures and g.chance(0.6):  # what networks have, and Winograd's method
        side, spatial = g.pick([1, 3, 3]), x.rank - 2
        attributes = {"kernel_shape": [side] * spatial, "pads": [side // 2] * 2 * spatial, "strides": [g.pick([1, 1, 2])] * spatial}
    groups = g.pick([d for d in (1, 1, 1, 2, channels) if d and channels % d == 0])
    per_group = g.pick([1, 2, 3, 8])
    if pictures and groups != channels:
        per_group = max(1, g.pick([4, 8, 12, 16, 17, 20, 24, 32, 40]) // groups)
    shape = [channels, per_group] if transposed else [per_group * groups, channels // groups]
    if transposed:
        attributes.pop("auto_pad", None)
    weight = g.constant(g.array(shape + attributes["kernel_shape"], np.float32, -1, 1, finite=True))
    bias = [g.constant(g.array([per_group * groups], np.float32))] if g.chance(0.5) else []
    # Winograd's method may lose 1e-4 of the range.
    return g.add("ConvTranspose" if transposed else "Conv", [x, weight] + bias, error=1e-4 if channels >= 16 else 0.0,
                 group=groups, **attributes)


@rule(1, pictures=4)
def gate(g):
    """A factor for each channel from the means of all."""
    x = g.choose(["float32"], ranks=[4], where=lambda v: v.shape[1] and all(a.shape[1] == v.shape[1] for a in v.arrays))
    channels, few = x.shape[1], g.pick([1, 3, 4, 8])
    mean = g.add("GlobalAveragePool", [x])[0] if g.chance(0.5) else g.add("ReduceMean", [x, g.ints([2, 3])], keepdims=1)[0]
    for before, after, op in ((channels, few, "Relu"), (few, channels, g.pick(["Sigmoid", "HardSigmoid"]))):
        weight = g.constant(g.array([after, before, 1, 1], np.float32, -1, 1))
        mean = g.add(op, [g.add("Conv", [mean, weight, g.constant(g.array([after], np.float32))])[0]])[0]
    return g.add("Mul", [x, mean])


@rule(1, pictures=5)
def joined(g):
    """Channels of several pictures beside each other; parts of them."""
    x = g.choose(["float32"], ranks=[4])
    fitting = [v for v in g.values if v.rank == 4 and v.dtype == np.float32 and all(
        a.shape[0] == b.shape[0] and a.shape[2:] == b.shape[2:] for a, b in zip(v.arrays, x.arrays))]
    y = g.add("Concat", [g.pick(fitting) for _ in range(g.integer(2, 3))], axis=1)[0]
    g.need(y.shape[1] and all(a.shape[1] == y.shape[1] for a in y.arrays))
    start = g.integer(0, y.shape[1] - 1)
    if g.chance(0.5):
        return g.add("Slice", [y, g.ints([start]), g.ints([g.integer(start + 1, y.shape[1])]), g.ints([1])])
    return [y]


@rule(6, pictures=8)
def pool(g):
    op = g.pick(["MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
    g.need(not g.special or "Max" not in op)  # ONNX Runtime drops NaN
    x = g.choose(["float32"], ranks=[3, 4, 5])
    if op.startswith("Global"):
        return g.add(op, [x])
    attributes = _window(g, x)
    if op == "AveragePool":
        attributes["count_include_pad"] = g.integer(0, 1)
    if op != "LpPool" and "auto_pad" not in attributes and g.chance(0.3):
        attributes["ceil_mode"] = 1
    return g.add(op, [x], **attributes)


@rule(7, pictures=4)
def product(g):
    op = g.pick(["MatMul", "MatMul", "Gemm", "Einsum"])
    x = g.choose(["float32", "float64"], where=lambda v: v.rank > 0 and all(
        a.shape[-1] == v.shape[-1] for a in v.arrays))
    width = g.pick([1, 2, 3, 5, 8, 16])
    if op == "MatMul":
        fitting = [v for v in g.values if v.dtype == x.dtype and v.rank >= 2 and all(
            a.shape[-2] == b.shape[-1] for a, b in zip(v.arrays, x.arrays))]
        if fitting and g.chance(0.3):
            return g.add(op, [x, g.pick(fitting)])
        return g.add(op, [x, g.constant(g.array([x.shape[-1], width], x.dtype, -1, 1))])
    if op == "Gemm":
        if x.rank != 2:
            x = g.choose(["float32"], ranks=[2])
        transposed = g.integer(0, 1)
        shape = [width, x.shape[1]] if transposed else [x.shape[1], width]
        bias = [g.constant(g.array(g.pick([[width], [1], [1, width]]), x.dtype))] if g.chance(0.6) else []
        return g.add(op, [x, g.constant(g.array(shape, x.dtype, -1, 1))] + bias, transB=transposed,
                     alpha=g.pick([1.0, 0.5]), beta=g.pick([1.0, 2.0]))
    letters = "abcde"[:x.rank]
    kind = g.pick(["transpose", "sum", "product"])
    if kind == "product":
        return g.add(op, [x, g.constant(g.array([x.shape[-1], width], x.dtype, -1, 1))],
                     equation=f"{letters},{letters[-1]}z->{letters[:-1]}z")
    kept = list(letters)
    g.random.shuffle(kept)
    if kind == "sum":
        kept = kept[: g.integer(0, len(kept))]
    return g.add(op, [x], equation=f"{letters}->{''.join(kept)}")


@rule(2, pictures=0)
def recurrent(g):
    g.need(not g.special)  # ONNX Runtime loses NaN between steps
    op = g.pick(["LSTM", "GRU", "RNN"])
    # ONNX Runtime ends the process on operands without elements.
    x = g.choose(["float32"], ranks=[3], where=lambda v: all(a.size and a.shape[2] == v.shape[2] for a in v.arrays))
    hidden, gates = g.integer(1, 4), {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    direction = g.pick(["forward", "reverse", "bidirectional"])
    number = 2 if direction == "bidirectional" else 1
    weights = [g.constant(g.array([number, gates * hidden, n], np.float32, -1, 1)) for n in (x.shape[2], hidden)]
    bias = [g.constant(g.array([number, 2 * gates * hidden], np.float32, -1, 1))] if g.chance(0.5) else []
    return g.add(op, [x] + weights + bias, 2, hidden_size=hidden, direction=direction)


@rule(3)
def sampled(g):
    g.need(not g.special)  # nor what neighbours of weight 0 do
    x = g.choose(["float32"], ranks=[4], where=lambda v: v.static)
    if g.chance(0.5):
        grid = g.constant(g.array([x.shape[0], 2, 3, 2], np.float32, -1, 1))
        return g.add("GridSample", [x, grid], mode=g.pick(["linear", "nearest"]), align_corners=g.integer(0, 1),
                     padding_mode=g.pick(["zeros", "border", "reflection"]))
    rois = g.constant(np.array([[0, 0, 2, 2], [0.5, 1, 3, 3.5]], np.float32))
    batch = g.constant(g.numpy.integers(0, x.shape[0], 2).astype(np.int64))
    return g.add("RoiAlign", [x, rois, batch], output_height=2, output_width=2, sampling_ratio=2,
                 mode=g.pick(["avg", "max"]))
