# SPDX-License-Identifier: Apache-2.0
"""Sequences and optional values, made and taken apart again."""
import numpy as np
from onnx import TensorProto, helper

from .operators import ANY
from .rules import rule


@rule(3)
def sequence(g):
    """Of tensors of several shapes: made, changed, and an element, the number or the concatenation of them taken."""
    x = g.choose(ANY, where=lambda v: v.rank > 0)
    parts = [x] + [g.pick([v for v in g.values if v.dtype == x.dtype]) for _ in range(g.integer(0, 2))]
    nodes, count, operands = [], len(parts), list(parts)
    current = g.fresh()
    nodes.append(helper.make_node("SequenceConstruct", [p.name for p in parts], [current]))
    for _ in range(g.integer(0, 2)):
        made, position = g.fresh(), g.constant(np.array(g.integer(-count, count - 1), np.int64))
        if g.chance(0.6) or count == 1:
            more = g.pick([v for v in g.values if v.dtype == x.dtype])
            operands.append(more)
            with_position = [position.name] if g.chance(0.6) else []
            nodes.append(helper.make_node("SequenceInsert", [current, more.name, *with_position], [made]))
            count += 1
        else:
            with_position = [position.name] if g.chance(0.6) else []
            nodes.append(helper.make_node("SequenceErase", [current, *with_position], [made]))
            count -= 1
        operands += [position] if with_position else []
        current = made
    end = g.pick(["SequenceAt", "SequenceAt", "SequenceLength"])
    position = g.constant(np.array(g.integer(-count, count - 1), np.int64))
    nodes.append(helper.make_node(end, [current] + ([position.name] if end == "SequenceAt" else []), [g.fresh()]))
    return g.add_nodes(nodes, operands + ([position] if end == "SequenceAt" else []))


@rule(3)
def split_sequence(g):
    """Along an axis, whole or with a ragged end, and joined again along that or another one."""
    x = g.choose(ANY, where=lambda v: v.rank > 0 and all(v.arrays[0].shape))
    axis, between, operands = g.integer(-x.rank, x.rank - 1), g.fresh(), [x]
    attributes = {"axis": axis}
    if g.chance(0.5):
        operands.append(g.constant(np.array(g.integer(1, 3), np.int64)))
    elif g.chance(0.5):
        attributes["keepdims"] = 0
    nodes = [helper.make_node("SplitToSequence", [o.name for o in operands], [between], **attributes)]
    if g.chance(0.4):
        position = g.constant(np.array(g.pick([0, -1]), np.int64))
        nodes.append(helper.make_node("SequenceAt", [between, position.name], [g.fresh()]))
        return g.add_nodes(nodes, operands + [position])
    if len(operands) == 1 and g.chance(0.4):
        nodes.append(helper.make_node("ConcatFromSequence", [between], [g.fresh()], axis=0, new_axis=1))
    else:
        nodes.append(helper.make_node("ConcatFromSequence", [between], [g.fresh()], axis=0 if "keepdims" in attributes else axis))
    return g.add_nodes(nodes, operands)


@rule(1)
def optional(g):
    x, between = g.choose(ANY), g.fresh()
    nodes = [helper.make_node("Optional", [x.name], [between]),
             helper.make_node(g.pick(["OptionalGetElement", "OptionalHasElement"]), [between], [g.fresh()])]
    return g.add_nodes(nodes, [x])


def _of_type(x, rank=None):
    return helper.make_tensor_sequence_value_info("", helper.np_dtype_to_tensor_dtype(x.dtype), rank and [None] * rank)


def _named(info, name):
    info.name = name
    return info


def _taken_apart(g, between, x, nodes, count):
    """Nodes to a tensor: an element, the number of them, or all joined. Operands that the nodes need."""
    end = g.pick(["SequenceAt", "SequenceLength", "ConcatFromSequence"])
    if end == "SequenceAt":
        position = g.constant(np.array(g.integer(-count, count - 1), np.int64))
        nodes.append(helper.make_node(end, [between, position.name], [g.fresh()]))
        return [position]
    more = {"axis": g.integer(0, x.rank - 1)} if end == "ConcatFromSequence" else {}
    nodes.append(helper.make_node(end, [between], [g.fresh()], **more))
    return []


@rule(2)
def sequence_in_loop(g):
    """A sequence carried through a loop, which inserts an element per trip, at either end."""
    x = g.choose(["float32"], where=lambda v: v.rank > 0 and v.arrays[0].size)
    start, between, trips = g.fresh(), g.fresh(), g.integer(1, 4)
    i, keep, old, part, new, go, number = (g.fresh("b") for _ in range(7))
    body_nodes = [helper.make_node("Cast", [i], [number], to=TensorProto.FLOAT),
                  helper.make_node(g.pick(["Add", "Mul", "Sub"]), [x.name, number], [part])]
    zero = g.ints(0)
    at = [zero.name] if g.chance(0.4) else []
    body_nodes += [helper.make_node("SequenceInsert", [old, part, *at], [new]), helper.make_node("Identity", [keep], [go])]
    body = helper.make_graph(
        body_nodes, "body",
        [helper.make_tensor_value_info(i, TensorProto.INT64, []), helper.make_tensor_value_info(keep, TensorProto.BOOL, []),
         _named(_of_type(x), old)],
        [helper.make_tensor_value_info(go, TensorProto.BOOL, []), _named(_of_type(x), new)])
    first = helper.make_node("SequenceConstruct", [x.name], [start]) if g.chance(0.5) else \
        helper.make_node("SequenceEmpty", [], [start], dtype=TensorProto.FLOAT)
    count, condition = g.constant(np.array(trips, np.int64)), g.constant(np.array(True))
    nodes = [first, helper.make_node("Loop", [count.name, condition.name, start], [between], body=body)]
    more = _taken_apart(g, between, x, nodes, trips)
    return g.add_nodes(nodes, [x, count, condition, zero] + more)


@rule(2)
def sequence_of_branches(g):
    """If whose branches make sequences, of one or of two tensors."""
    x = g.choose(["float32"], where=lambda v: v.rank > 0 and v.arrays[0].size)
    fitting = [v for v in g.values if v.dtype == x.dtype and all(a.shape == b.shape for a, b in zip(v.arrays, x.arrays))]
    other, between = g.pick(fitting), g.fresh()
    test, low = g.fresh(), g.fresh()
    graphs = []
    for name, parts in (("then", [x.name, other.name]), ("else", [other.name])):
        result = g.fresh("b")
        graphs.append(helper.make_graph([helper.make_node("SequenceConstruct", parts, [result])], name, [],
                                        [_named(_of_type(x), result)]))
    half = g.constant(np.array(0.7, np.float32))
    nodes = [helper.make_node("ReduceMean", [x.name], [low], keepdims=0), helper.make_node("Greater", [low, half.name], [test]),
             helper.make_node("If", [test], [between], then_branch=graphs[0], else_branch=graphs[1])]
    more = _taken_apart(g, between, x, nodes, 1)
    return g.add_nodes(nodes, [x, other, half] + more)


@rule(2)
def mapped_sequence(g):
    """SequenceMap of a body that changes each element, with a tensor beside."""
    x = g.choose(["float32"], where=lambda v: v.rank > 0 and v.arrays[0].size)
    start, between, one, made = g.fresh(), g.fresh(), g.fresh("b"), g.fresh("b")
    parts = [x] + [g.pick([v for v in g.values if v.dtype == x.dtype]) for _ in range(g.integer(0, 2))]
    body = helper.make_graph([helper.make_node(g.pick(["Neg", "Relu", "Abs", "Tanh"]), [one], [made])], "body",
                             [helper.make_tensor_value_info(one, TensorProto.FLOAT, None)],
                             [helper.make_tensor_value_info(made, TensorProto.FLOAT, None)])
    nodes = [helper.make_node("SequenceConstruct", [p.name for p in parts], [start]),
             helper.make_node("SequenceMap", [start], [between], body=body)]
    position = g.constant(np.array(g.integer(-len(parts), len(parts) - 1), np.int64))
    nodes.append(helper.make_node("SequenceAt", [between, position.name], [g.fresh()]))
    return g.add_nodes(nodes, parts + [position])
