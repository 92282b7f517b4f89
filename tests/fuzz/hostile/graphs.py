# SPDX-License-Identifier: Apache-2.0
"""Graphs whose nodes, names, functions or operator sets don't fit."""
import numpy as np
from onnx import helper

from .base import Case, f32, graph, info, model, node, tensor, untyped

X = {"x": f32(2, 2)}


def case(name, want, nodes, outputs=("y",), inputs=None, initializers=(), feeds=None, **more):
    inputs = [info("x", "float32", [2, 2])] if inputs is None else inputs
    return Case("graph_" + name, model(nodes, inputs, outputs, initializers, **more).SerializeToString(), want,
                X if feeds is None else feeds)


def relu(a, b, **more):
    return node("Relu", [a], [b], **more)


def branches(depth):
    """An If within an If, and so on. (protobuf for Python nests no more than 100 messages; see wire.nested.)"""
    inner = graph([node("Neg", ["x"], ["r0"])], [], ["r0"])
    for level in range(1, depth):
        inner = graph([node("If", ["c"], [f"r{level}"], then_branch=inner, else_branch=graph(
            [node("Abs", ["x"], [f"e{level}"])], [], [f"e{level}"]))], [], [f"r{level}"])
    return node("If", ["c"], ["y"], then_branch=inner, else_branch=graph([node("Abs", ["x"], ["e"])], [], ["e"]))


def function(name, nodes, inputs=("a",), outputs=("b",), **more):
    return helper.make_function("own", name, list(inputs), list(outputs), nodes,
                                [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)], **more)


def call(name, a, b):
    return helper.make_node(name, [a], [b], domain="own")


def billion(levels):
    """Functions that call each other twice."""
    made = [function("F0", [relu("a", "b")])]
    for level in range(1, levels):
        made.append(function(f"F{level}", [call(f"F{level - 1}", "a", "m"), call(f"F{level - 1}", "m", "b")]))
    return made


def structure_cases():
    c = [info("x", "float32", [2, 2]), info("c", "bool", [])]
    yield case("self_cycle", "error", [node("Add", ["x", "y"], ["y"])])
    yield case("cycle", "error", [node("Add", ["x", "b"], ["a"]), relu("a", "b"), relu("b", "y")])
    yield case("unsorted", "either", [relu("a", "y"), node("Neg", ["x"], ["a"])])
    yield case("undefined_input", "error", [relu("nowhere", "y")])
    yield case("undefined_output", "error", [relu("x", "a")])
    yield case("two_writers", "error", [relu("x", "y"), node("Neg", ["x"], ["y"])])
    yield case("writes_input", "error", [relu("x", "x")], outputs=["x"])
    yield case("writes_initializer", "error", [relu("x", "w"), relu("w", "y")], initializers=[tensor(f32(2, 2), "w")])
    yield case("same_output_twice_in_node", "error", [node("Split", ["x"], ["y", "y"], axis=0, num_outputs=2)])
    yield case("no_nodes_no_output", "error", [], outputs=[])
    yield case("output_is_input", "ok", [], outputs=["x"])
    yield case("output_twice", "either", [relu("x", "y")], outputs=["y", "y"])
    yield case("two_inputs_of_a_name", "error", [relu("x", "y")], inputs=[info("x", "float32", [2, 2])] * 2)
    yield case("two_initializers_of_a_name", "error", [node("Add", ["x", "w"], ["y"])],
               initializers=[tensor(f32(2, 2), "w")] * 2)
    yield case("nameless_input", "error", [relu("x", "y")], inputs=[info("", "float32", [2]), info("x", "float32", [2, 2])])
    yield case("nameless_initializer", "error", [relu("x", "y")], initializers=[tensor(f32(2), "")])
    yield case("nameless_output", "error", [relu("x", "y")], outputs=["y", ""])
    yield case("empty_required_operand", "error", [node("Add", ["x", ""], ["y"])])
    yield case("no_operands", "error", [node("Add", [], ["y"])])
    yield case("too_many_operands", "error", [node("Relu", ["x", "x", "x"], ["y"])])
    yield case("too_many_outputs", "error", [node("Relu", ["x"], ["y", "z"])], outputs=["y", "z"])
    yield case("no_outputs_of_node", "either", [node("Relu", ["x"], []), relu("x", "y")])
    yield case("empty_op_type", "error", [node("", ["x"], ["y"])])
    yield case("unknown_op", "error", [node("Frobnicate", ["x"], ["y"])])
    yield case("unknown_domain", "error", [helper.make_node("Relu", ["x"], ["y"], domain="no.such")],
               opsets={"": 21, "no.such": 1})
    yield case("domain_not_imported", "error", [helper.make_node("Frob", ["x"], ["y"], domain="no.such")])
    for name, text in {"newline": "a\nb", "format": "%s%n%d", "quotes": "\"'`\\", "code": 'y; system("touch /tmp/x"); //',
                       "path": "../../../../etc/passwd", "nul": "a\0b", "long": "n" * 100000, "keyword": "return",
                       "unicode": "näme ☃ \U0001f600", "space": " ", "comment": "*/ abort(); /*"}.items():
        yield case("name_" + name, "either" if name == "nul" else "ok", [relu("x", text, name=text), node("Neg", [text], ["y"])])
    for version in (0, -1, 29, 1 << 31, 1 << 62, -(1 << 63)):
        yield case(f"opset_{version}", "error", [relu("x", "y")], opset=version)
    yield case("no_opset", "error", [relu("x", "y")], opsets={"own": 1})
    for version in (-1, 99, 1 << 62):
        yield case(f"ir_version_{version}", "either", [relu("x", "y")], ir_version=version)
    yield case("if_depth_8", "ok", [branches(8)], inputs=c, feeds={**X, "c": np.array(True)})
    yield case("if_depth_24", "ok", [branches(24)], inputs=c, feeds={**X, "c": np.array(True)})
    yield case("chain_2000", "ok", [relu(f"v{i}" if i else "x", f"v{i + 1}") for i in range(2000)], outputs=["v2000"])
    yield case("wide_2000", "ok", [node("Sum", ["x"] * 2000, ["y"])])
    doubling = [node("Add", [f"v{i}" if i else "x"] * 2, [f"v{i + 1}"]) for i in range(64)]
    yield case("doubling_64", "ok", doubling, outputs=["v64"])


def function_cases():
    own = {"": 21, "own": 1}
    yield case("function_recursive", "error", [call("F", "x", "y")], opsets=own,
               functions=[function("F", [call("F", "a", "b")])])
    yield case("function_mutual", "error", [call("F", "x", "y")], opsets=own,
               functions=[function("F", [call("G", "a", "b")]), function("G", [call("F", "a", "b")])])
    yield case("function_billion", "error", [call("F39", "x", "y")], opsets=own, functions=billion(40))
    yield case("function_8_levels", "ok", [call("F7", "x", "y")], opsets=own, functions=billion(8))
    yield case("function_twice", "error", [call("F", "x", "y")], opsets=own,
               functions=[function("F", [relu("a", "b")])] * 2)
    yield case("function_undefined_output", "error", [call("F", "x", "y")], opsets=own,
               functions=[function("F", [relu("a", "c")])])
    yield case("function_undefined_input", "error", [call("F", "x", "y")], opsets=own,
               functions=[function("F", [relu("z", "b")])])
    yield case("function_sees_no_outer_names", "error", [call("F", "x", "y")], opsets=own,
               functions=[function("F", [relu("x", "b")])])
    yield case("function_too_many_operands", "error", [helper.make_node("F", ["x", "x"], ["y"], domain="own")],
               opsets=own, functions=[function("F", [relu("a", "b")])])
    yield case("function_too_many_outputs", "error", [helper.make_node("F", ["x"], ["y", "z"], domain="own")],
               outputs=["y", "z"], opsets=own, functions=[function("F", [relu("a", "b")])])
    yield case("function_missing_attribute", "either", [call("F", "x", "y")], opsets=own, functions=[
        function("F", [_referring("axis")], attributes=["axis"])])
    yield case("function_cycle", "error", [call("F", "x", "y")], opsets=own,
               functions=[function("F", [node("Add", ["a", "b"], ["c"]), relu("c", "b")])])


def _referring(name):
    made = node("Flatten", ["a"], ["b"])
    attribute = made.attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "axis", name, 2
    return made


def control_cases():
    c = [info("x", "float32", [2, 2]), info("c", "bool", [])]
    feeds = {**X, "c": np.array(True)}
    neg, two = graph([node("Neg", ["x"], ["r"])], [], ["r"]), graph(
        [node("Neg", ["x"], ["r"]), node("Abs", ["x"], ["s"])], [], ["r", "s"])

    def choose(name, want, then, otherwise, outputs=("y",), condition="c", **more):
        made = node("If", [condition], list(outputs), then_branch=then, else_branch=otherwise)
        return case("if_" + name, want, [made], outputs=outputs, inputs=c, feeds=feeds, **more)

    yield choose("branch_counts_differ", "error", neg, two)
    yield choose("too_many_outputs", "error", neg, neg, outputs=("y", "z"))
    yield choose("float_condition", "error", neg, neg, condition="x")
    yield choose("branch_with_inputs", "error", graph([relu("q", "r")], [info("q", "float32", [2, 2])], ["r"]), neg)
    yield choose("branch_types_differ", "error", graph([node("Cast", ["x"], ["r"], to=7)], [], ["r"]), neg)
    yield choose("branch_undefined", "error", graph([relu("nowhere", "r")], [], ["r"]), neg)
    yield choose("branch_empty", "error", graph([], [], []), neg)
    yield case("if_no_branches", "error", [node("If", ["c"], ["y"])], inputs=c, feeds=feeds)
    yield case("if_branch_is_text", "error", [node("If", ["c"], ["y"], then_branch="neg", else_branch=neg)], inputs=c,
               feeds=feeds)

    def body(outputs, inputs=None, nodes=None):
        declared = inputs or [info("i", "int64", []), info("k", "bool", []), info("v", "float32", [2, 2])]
        return graph(nodes or [node("Identity", ["k"], ["ko"]), node("Add", ["v", "x"], ["vo"]),
                               node("Cast", ["v"], ["vi"], to=7)], declared, outputs)

    def loop(name, want, made, trip=3, operands=("m", "t", "x"), outputs=("y",)):
        nodes = [node("Constant", [], ["m"], value=tensor(np.array(trip, "int64"), "")),
                 node("Constant", [], ["t"], value=tensor(np.array(True), "")),
                 node("Loop", list(operands), list(outputs), body=made)]
        return case("loop_" + name, want, nodes, outputs=outputs)

    yield loop("good", "ok", body(["ko", "vo"]))
    yield loop("no_trips", "ok", body(["ko", "vo"]), trip=0)
    yield loop("negative_trips", "either", body(["ko", "vo"]), trip=-5)
    yield loop("body_without_condition", "error", body(["vo"]))
    yield loop("body_without_state", "error", body(["ko"]))
    yield loop("state_changes_type", "error", body(["ko", "vi"]))
    yield loop("body_of_two_inputs", "error", body(["ko", "vo"], [info("i", "int64", []), info("k", "bool", [])],
                                                   [node("Identity", ["k"], ["ko"]), node("Neg", ["x"], ["vo"])]))
    yield loop("float_trips", "error", body(["ko", "vo"]), operands=("x", "t", "x"))
    yield loop("too_many_outputs", "error", body(["ko", "vo"]), outputs=("y", "z", "u"))
    step = graph([node("Add", ["s", "e"], ["so"])], [untyped("s"), untyped("e")], ["so"])
    yield case("scan_no_scan_inputs", "error", [node("Scan", ["x"], ["y"], body=step, num_scan_inputs=0)])
    yield case("scan_more_inputs_than_operands", "error", [node("Scan", ["x"], ["y"], body=step, num_scan_inputs=9)])
    yield case("scan_negative_inputs", "error", [node("Scan", ["x", "x"], ["y"], body=step, num_scan_inputs=-1)])


def graph_cases():
    yield from structure_cases()
    yield from function_cases()
    yield from control_cases()
