# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan, also within each other."""
import numpy as np
from onnx import TensorProto, helper

from .rules import rule

INFO = helper.make_tensor_value_info


def _steps(g, current, other, count, nodes, depth=0, rank=0):
    """Appends nodes that keep the shape of `current`; `other` is of the same shape, and outside. The last name. rank: of
    both, where it is known, which lets dimensions be summed and rolled."""
    for _ in range(count):
        op = g.pick(["Relu", "Tanh", "Abs", "Neg", "HardSwish", "Add", "Mul", "Sub", "Max", "Where"] + ["If"] * (depth < 2) +
                    ["Softmax", "Centre", "Roll", "Reverse", "Expand"] * (rank > 0))
        result = g.fresh("b")
        axis = g.integer(-rank, rank - 1) if rank else 0
        if op == "Softmax":
            nodes.append(helper.make_node(op, [current], [result], axis=axis))
        elif op == "Centre":
            low = g.fresh("b")
            nodes += [helper.make_node("ReduceMean", [current, _ints(g, nodes, [axis])], [low], keepdims=1),
                      helper.make_node("Sub", [current, low], [result])]
        elif op == "Roll":
            parts = []
            for low, high in ((1, 2**31), (0, 1)):
                parts.append(g.fresh("b"))
                bounds = [_ints(g, nodes, [n]) for n in (low, high, axis)]
                nodes.append(helper.make_node("Slice", [current, *bounds], [parts[-1]]))
            nodes.append(helper.make_node("Concat", parts, [result], axis=axis))
        elif op == "Reverse":
            bounds = [_ints(g, nodes, [n]) for n in (-1, -2**31, axis, -1)]
            nodes.append(helper.make_node("Slice", [current, *bounds], [result]))
        elif op == "Expand":
            low, shape = g.fresh("b"), g.fresh("b")
            nodes += [helper.make_node("ReduceMean" if g.special else "ReduceMax", [current, _ints(g, nodes, [axis])], [low], keepdims=1),
                      helper.make_node("Shape", [other], [shape]), helper.make_node("Expand", [low, shape], [result])]
        elif op == "If":
            low, test = g.fresh("b"), g.fresh("b")
            nodes += [helper.make_node("ReduceMean", [current], [low], keepdims=0),
                      helper.make_node("Greater", [low, _number(g, nodes, 0.7)], [test]),
                      helper.make_node("If", [test], [result], then_branch=_branch(g, current, other, "then", depth + 1, rank),
                                       else_branch=_branch(g, other, current, "else", depth + 1, rank))]
        elif op == "Where":
            test = g.fresh("b")
            nodes += [helper.make_node("Less", [current, other], [test]),
                      helper.make_node("Where", [test, other, current], [result])]
        elif op in ("Add", "Mul", "Sub", "Max"):
            nodes.append(helper.make_node(op, [current, g.pick([other, current])], [result]))
        else:
            nodes.append(helper.make_node(op, [current], [result]))
        current = result
    return current


def _number(g, nodes, value):
    name = g.fresh("b")
    nodes.append(helper.make_node("Constant", [], [name], value=helper.make_tensor(name, TensorProto.FLOAT, [], [value])))
    return name


def _ints(g, nodes, values):
    name = g.fresh("b")
    nodes.append(helper.make_node("Constant", [], [name], value=helper.make_tensor(name, TensorProto.INT64, [len(values)], values)))
    return name


def _branch(g, x, other, name, depth=0, rank=0):
    """A graph without inputs of a few nodes that keep the shape of `x`."""
    nodes = []
    last = _steps(g, x, other, g.integer(1, 3), nodes, depth, rank)
    return helper.make_graph(nodes, name, [], [INFO(last, TensorProto.FLOAT, None)])


@rule(3)
def branch(g):
    x = g.choose(["float32"], where=lambda v: v.arrays[0].size)
    scalars = [v for v in g.values if v.dtype == np.bool_ and v.rank == 0]
    if scalars and g.chance(0.8):
        condition = g.pick(scalars)
    elif x.rank and g.chance(0.3):  # whose answer is another one in other sizes
        size = g.add("Gather", [g.add("Shape", [x])[0], g.constant(np.array(g.integer(-x.rank, x.rank - 1), np.int64))])[0]
        condition = g.add("Greater", [size, g.constant(np.array(g.pick([3, min(size.arrays[0], size.arrays[1])]), np.int64))])[0]
    else:
        y = g.choose(["float32"], where=lambda v: v.arrays[0].size)
        total = g.add("ReduceSum", [y], keepdims=0)[0]
        condition = g.add("Greater", [total, g.constant(np.array(g.pick([-2, 0, 3]), np.float32))])[0]
    if g.chance(0.2):  # sizes that depend on the condition
        axes = g.ints([0])
        g.need(x.rank and all(a.shape[0] > 1 for a in x.arrays))
        ends = [g.ints([1]), g.ints([-1])]
        graphs = []
        for name, bounds in (("then", ends), ("else", [g.ints([0]), ends[0]])):
            result = g.fresh("b")
            graphs.append(helper.make_graph([helper.make_node("Slice", [x.name, *(b.name for b in bounds), axes.name], [result])],
                                            name, [], [INFO(result, TensorProto.FLOAT, None)]))
        return g.add("If", [condition], captured=[x, axes, *ends, bounds[0]], then_branch=graphs[0], else_branch=graphs[1])
    fitting = [v for v in g.values if v.dtype == np.float32 and all(a.shape == b.shape for a, b in zip(v.arrays, x.arrays))]
    other = g.pick(fitting)
    return g.add("If", [condition], captured=[x, other], then_branch=_branch(g, x.name, other.name, "then", 0, x.rank),
                 else_branch=_branch(g, other.name, x.name, "else", 0, x.rank))


@rule(3)
def loop(g):
    """A state that keeps its shape, rows that are stacked, an end that may come early."""
    x = g.choose(["float32"], where=lambda v: v.arrays[0].size)
    dims = [d if all(a.shape[i] == d for a in x.arrays) else None for i, d in enumerate(x.shape)]
    i, keep, old, go = (g.fresh("b") for _ in range(4))
    nodes = [helper.make_node("Tanh", [old], [f"{old}_t"])]
    new = _steps(g, f"{old}_t", x.name, g.integer(1, 3), nodes, 0, x.rank)
    row = g.fresh("b")
    nodes.append(helper.make_node("Neg", [new], [row]))
    if g.chance(0.4):
        last = g.fresh("b")
        nodes += [helper.make_node("Constant", [], [last], value=helper.make_tensor(last, TensorProto.INT64, [], [g.integer(0, 2)])),
                  helper.make_node("Less", [i, last], [go])]
    else:
        nodes.append(helper.make_node("Identity", [keep], [go]))
    body = helper.make_graph(
        nodes, "body", [INFO(i, TensorProto.INT64, []), INFO(keep, TensorProto.BOOL, []), INFO(old, TensorProto.FLOAT, dims)],
        [INFO(go, TensorProto.BOOL, []), INFO(new, TensorProto.FLOAT, dims), INFO(row, TensorProto.FLOAT, dims)])
    trips = g.constant(np.array(g.integer(1, 4), np.int64))
    return g.add("Loop", [trips, g.constant(np.array(True)), x], 2, captured=[x], body=body)


def _dims(arrays):
    """Sizes, None where they aren't the same in all worlds."""
    return [d if all(a.shape[i] == d for a in arrays) else None for i, d in enumerate(arrays[0].shape)]


@rule(3, pictures=2)
def growing(g):
    """A state that is longer, or shorter, after each trip; how many there are may be a size."""
    x = g.choose(["float32"], where=lambda v: v.rank and all(a.size for a in v.arrays))
    axis = g.integer(0, x.rank - 1)
    dims = _dims(x.arrays)
    dims[axis] = None
    i, keep, old, go, new, row = (g.fresh("b") for _ in range(6))
    nodes = [helper.make_node("Identity", [keep], [go])]
    how = g.pick(["append", "prepend", "double", "cut", "pad"])
    current = f"{old}_t"
    nodes.append(helper.make_node(g.pick(["Tanh", "Neg", "Identity", "Relu"]), [old], [current]))
    if how == "cut":
        nodes.append(helper.make_node("Slice", [current, *(_ints(g, nodes, [n]) for n in (1, 2**31, axis))], [new]))
    elif how == "pad":
        pads = [0] * 2 * x.rank
        pads[axis + g.pick([0, x.rank])] = g.integer(1, 2)
        nodes.append(helper.make_node("Pad", [current, _ints(g, nodes, pads)], [new], mode="constant"))
    else:
        parts = {"append": [current, x.name], "prepend": [x.name, current], "double": [current, old]}[how]
        nodes.append(helper.make_node("Concat", parts, [new], axis=axis - g.pick([0, x.rank])))
    kept = g.integer(0, 1)
    nodes.append(helper.make_node(g.pick(["ReduceSum", "ReduceMean"]), [new, _ints(g, nodes, [axis])], [row], keepdims=kept))
    rows = [d for n, d in enumerate(_dims(x.arrays)) if n != axis] if not kept else [1 if n == axis else d for n, d in enumerate(dims)]
    g.need(how != "cut" or all(a.shape[axis] > 4 for a in x.arrays))
    body = helper.make_graph(
        nodes, "body", [INFO(i, TensorProto.INT64, []), INFO(keep, TensorProto.BOOL, []), INFO(old, TensorProto.FLOAT, dims)],
        [INFO(go, TensorProto.BOOL, []), INFO(new, TensorProto.FLOAT, dims), INFO(row, TensorProto.FLOAT, rows)])
    trips = g.constant(np.array(g.integer(1, 4), np.int64))
    if how in ("pad", "append") and g.chance(0.4):
        trips = g.add("Gather", [g.add("Shape", [x])[0], g.constant(np.array(g.integer(0, x.rank - 1), np.int64))])[0]
    return g.add("Loop", [trips, g.constant(np.array(True)), x], 2, captured=[x], body=body)


@rule(3, pictures=1)
def by_number(g):
    """As many trips as there are rows, each of which is gathered by its number, by a slice or in turns from behind."""
    x = g.choose(["float32"], where=lambda v: v.rank and all(a.size for a in v.arrays))
    axis = g.integer(0, x.rank - 1)
    count = g.add("Gather", [g.add("Shape", [x])[0], g.constant(np.array(axis, np.int64))])[0]
    state = g.add("ReduceSum", [x, g.ints([axis])], keepdims=0)[0]
    dims = _dims(state.arrays)
    i, keep, old, go, part, joined = (g.fresh("b") for _ in range(6))
    nodes = [helper.make_node("Identity", [keep], [go])]
    place = i
    if g.chance(0.3):  # from behind
        place, one = g.fresh("b"), _ints(g, nodes, [-1])
        flat, scalar = f"{place}_f", f"{place}_s"
        nodes += [helper.make_node("Sub", [one, i], [flat]),
                  helper.make_node("Squeeze", [flat], [scalar]), helper.make_node("Identity", [scalar], [place])]
    nodes.append(helper.make_node("Gather", [x.name, place], [part], axis=axis))
    nodes.append(helper.make_node(g.pick(["Add", "Max", "Sub"]), [part, old], [joined]))
    nodes.append(helper.make_node("Tanh", [joined], [f"{joined}_t"]))
    new = _steps(g, f"{joined}_t", state.name, g.integer(1, 3), nodes, 1, state.rank)
    row = g.fresh("b")
    nodes.append(helper.make_node("Neg", [new], [row]))
    body = helper.make_graph(
        nodes, "body", [INFO(i, TensorProto.INT64, []), INFO(keep, TensorProto.BOOL, []), INFO(old, TensorProto.FLOAT, dims)],
        [INFO(go, TensorProto.BOOL, []), INFO(new, TensorProto.FLOAT, dims), INFO(row, TensorProto.FLOAT, dims)])
    return g.add("Loop", [count, g.constant(np.array(True)), state], 2, captured=[x, state], body=body)


@rule(4)
def scan(g):
    """A running state over slices of one or two operands along some axis, forwards or back."""
    x = g.choose(["float32"], where=lambda v: v.rank >= 2 and all(a.size for a in v.arrays))
    axis = g.integer(0, x.rank - 1)
    parts = [np.take(a, 0, axis) for a in x.arrays]
    shape = _dims(parts)
    least = "ReduceMean" if g.special else "ReduceMin"  # ONNX Runtime drops NaN
    first = g.constant(g.array(shape, np.float32)) if None not in shape else g.add(least, [x, g.ints([axis])], keepdims=0)[0]
    state, part, result, row = (g.fresh("b") for _ in range(4))
    nodes = [helper.make_node(g.pick(["Add", "Max", "Sub"]), [state, part], [f"{state}_t"])]
    last = _steps(g, f"{state}_t", part, g.integer(1, 3), nodes, 0, x.rank - 1)
    nodes += [helper.make_node("Tanh", [last], [result]), helper.make_node("Neg", [result], [row])]
    rows = shape
    if g.chance(0.3):  # rows of another shape than the state
        along, row = g.integer(0, x.rank - 2), g.fresh("b")
        nodes.append(helper.make_node("Concat", [result, part], [row], axis=along))
        rows = [d if n != along or d is None else 2 * d for n, d in enumerate(shape)]
    more = {"scan_output_axes": [g.integer(0, x.rank - 1)]} if g.chance(0.3) else {}
    body = helper.make_graph(nodes, "body", [INFO(n, TensorProto.FLOAT, shape) for n in (state, part)],
                             [INFO(result, TensorProto.FLOAT, shape), INFO(row, TensorProto.FLOAT, rows)])
    return g.add("Scan", [first, x], 2, body=body, num_scan_inputs=1,
                 scan_input_axes=[axis], scan_input_directions=[g.integer(0, 1)], scan_output_directions=[g.integer(0, 1)],
                 **more)
