# SPDX-License-Identifier: Apache-2.0
"""Sequences and optional values, made and taken apart again."""
import numpy as np
from onnx import helper

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
