# SPDX-License-Identifier: Apache-2.0
"""Values whose rank only the run decides: branches of other ranks, and Squeeze of dimensions that may be 1."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle

FLOAT = TensorProto.FLOAT


def _value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def _model(nodes, inputs, outputs, functions=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def _numbers(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("f4")


@pytest.mark.parametrize("declared", [["rows"], [], None])
def test_outputs_have_the_rank_that_the_run_gives_them(declared):
    nodes = [helper.make_node("Squeeze", ["x"], ["z"]), helper.make_node("Neg", ["z"], ["y"])]
    compiled = treadle.compile(_model(nodes, [_value("x", ["rows", 1])], [_value("y", declared)]))
    for rows in (1, 4, 0, 1):
        x = _numbers(rows, 1)
        y, = compiled.run(None, {"x": x})
        np.testing.assert_array_equal(y, -np.squeeze(x), strict=True)


def test_one_branch_does_not_check_for_another():
    """Both sides of the outer choice contain the same inner one: what it squeezes isn't computed outside of it."""
    nodes = [helper.make_node("Squeeze", ["x"], ["a"]), helper.make_node("Squeeze", ["w"], ["b"]), helper.make_node("Add", ["a", "b"], ["c"]),
             helper.make_node("ReduceSum", ["c"], ["sum"], keepdims=0)]
    inputs = [_value("x", ["m", 1]), _value("w", ["n", 3])]
    compiled = treadle.compile(_model(nodes, inputs, [_value("sum", []), _value("b", None)]))
    for m, n in ((1, 1), (1, 2), (3, 3), (3, 1)):
        x, w = _numbers(m, 1), _numbers(n, 3)
        total, b = compiled.run(None, {"x": x, "w": w})
        np.testing.assert_allclose(total, (np.squeeze(x) + np.squeeze(w)).sum(), rtol=1e-5)
        np.testing.assert_array_equal(b, np.squeeze(w), strict=True)


def _branch(name, nodes, output):
    return helper.make_graph(nodes, name, [], [helper.make_empty_tensor_value_info(output)])


def _function(last):
    """Gives x or its first row, with `last` behind it."""
    yes = _branch("yes", [helper.make_node("Identity", ["x"], ["t"])], "t")
    no = _branch("no", [helper.make_node("Constant", [], ["zero"], value_int=0), helper.make_node("Gather", ["x", "zero"], ["e"])], "e")
    nodes = [helper.make_node("If", ["c"], ["part"], then_branch=yes, else_branch=no), *last]
    return helper.make_function("local", "Part", ["c", "x"], ["y"], nodes, [helper.make_opsetid("", 21)])


@pytest.mark.parametrize("last", ["same rank", "other rank", "only one fits"])
def test_branches_of_other_ranks_within_functions(last):
    ends = {"same rank": [helper.make_node("ReduceSum", ["part"], ["y"], keepdims=0)], "other rank": [helper.make_node("Neg", ["part"], ["y"])],
            "only one fits": [helper.make_node("Transpose", ["part"], ["y"], perm=[1, 0])]}[last]
    nodes = [helper.make_node("Part", ["c", "x"], ["p"], domain="local"), helper.make_node("Abs", ["p"], ["y"])]
    model = _model(nodes, [_value("c", [], TensorProto.BOOL), _value("x", ["m", 3])], [_value("y", None)], [_function(ends)])
    compiled = treadle.compile(model)
    x = _numbers(2, 3)
    for yes in (True, False):
        part = x if yes else x[0]
        if last == "only one fits" and not yes:
            with pytest.raises(treadle.Error, match="this branch can't be run"):
                compiled.run(None, {"c": np.array(yes), "x": x})
            continue
        expected = {"same rank": lambda: part.sum(), "other rank": lambda: -part, "only one fits": lambda: part.T}[last]()
        np.testing.assert_allclose(compiled.run(None, {"c": np.array(yes), "x": x})[0], np.abs(expected), rtol=1e-6, strict=True)


def test_functions_whose_branches_both_fail_are_refused():
    model = _model([helper.make_node("Part", ["c", "x"], ["y"], domain="local")], [_value("c", [], TensorProto.BOOL), _value("x", ["m", 3])],
                   [_value("y", None)], [_function([helper.make_node("Transpose", ["part"], ["y"], perm=[2, 1, 0])])])
    with pytest.raises(treadle.Error, match="Transpose"):
        treadle.compile(model)
