# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan, also within each other."""
import numpy as np
from onnx import TensorProto, helper

from .rules import rule

INFO = helper.make_tensor_value_info


def _steps(g, current, other, count, nodes, depth=0):
    """Appends nodes that keep the shape of `current`; `other` is of the same shape, and outside. The last name."""
    for _ in range(count):
        op = g.pick(["Relu", "Tanh", "Abs", "Neg", "HardSwish", "Add", "Mul", "Sub", "Max", "Where"] + ["If"] * (depth < 2))
        result = g.fresh("b")
        if op == "If":
            low, test = g.fresh("b"), g.fresh("b")
            nodes += [helper.make_node("ReduceMean", [current], [low], keepdims=0),
                      helper.make_node("Greater", [low, _number(g, nodes, 0.7)], [test]),
                      helper.make_node("If", [test], [result], then_branch=_branch(g, current, other, "then", depth + 1),
                                       else_branch=_branch(g, other, current, "else", depth + 1))]
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


def _branch(g, x, other, name, depth=0):
    """A graph without inputs of a few nodes that keep the shape of `x`."""
    nodes = []
    last = _steps(g, x, other, g.integer(1, 3), nodes, depth)
    return helper.make_graph(nodes, name, [], [INFO(last, TensorProto.FLOAT, None)])


@rule(3)
def branch(g):
    x = g.choose(["float32"], where=lambda v: v.arrays[0].size)
    scalars = [v for v in g.values if v.dtype == np.bool_ and v.rank == 0]
    if scalars and g.chance(0.8):
        condition = g.pick(scalars)
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
    return g.add("If", [condition], captured=[x, other], then_branch=_branch(g, x.name, other.name, "then"),
                 else_branch=_branch(g, other.name, x.name, "else"))


@rule(3)
def loop(g):
    """A state that keeps its shape, rows that are stacked, an end that may come early."""
    x = g.choose(["float32"], where=lambda v: v.arrays[0].size)
    dims = [d if all(a.shape[i] == d for a in x.arrays) else None for i, d in enumerate(x.shape)]
    i, keep, old, go = (g.fresh("b") for _ in range(4))
    nodes = [helper.make_node("Tanh", [old], [f"{old}_t"])]
    new = _steps(g, f"{old}_t", x.name, g.integer(1, 3), nodes)
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


@rule(3)
def scan(g):
    """A running state over slices of one or two operands along some axis, forwards or back."""
    x = g.choose(["float32"], where=lambda v: v.rank >= 2 and v.arrays[0].size)
    axis = g.integer(0, x.rank - 1)
    g.need(all(a.shape[:axis] + a.shape[axis + 1:] == x.shape[:axis] + x.shape[axis + 1:] for a in x.arrays))
    shape = x.shape[:axis] + x.shape[axis + 1:]
    state, part, result, row = (g.fresh("b") for _ in range(4))
    nodes = [helper.make_node(g.pick(["Add", "Max", "Sub"]), [state, part], [f"{state}_t"])]
    last = _steps(g, f"{state}_t", part, g.integer(1, 3), nodes)
    nodes += [helper.make_node("Tanh", [last], [result]), helper.make_node("Neg", [result], [row])]
    body = helper.make_graph(nodes, "body", [INFO(n, TensorProto.FLOAT, shape) for n in (state, part)],
                             [INFO(n, TensorProto.FLOAT, shape) for n in (result, row)])
    return g.add("Scan", [g.constant(g.array(shape, np.float32)), x], 2, body=body, num_scan_inputs=1,
                 scan_input_axes=[axis], scan_input_directions=[g.integer(0, 1)], scan_output_directions=[g.integer(0, 1)])
