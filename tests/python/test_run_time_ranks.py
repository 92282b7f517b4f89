# SPDX-License-Identifier: Apache-2.0
"""Values whose rank only the run decides: branches of other ranks, and Squeeze of dimensions that may be 1."""
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

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


def _counting_loop(first_rank):
    """Carries `first`, which nobody reads, and a sum; gives them and a row of each trip."""
    body = [helper.make_node("Cast", ["i"], ["n"], to=FLOAT), helper.make_node("Add", ["x", "n"], ["now"]), helper.make_node("Add", ["sum", "now"], ["more"]),
            helper.make_node("Identity", ["go_on"], ["again"]), helper.make_node("ReduceSum", ["now"], ["row"], keepdims=0)]
    carried = [_value("old", [None] * first_rank), _value("sum", ["m", 3])]
    given = [helper.make_empty_tensor_value_info(name) for name in ("again", "now", "more", "row")]
    graph = helper.make_graph(body, "body", [_value("i", [], TensorProto.INT64), _value("go_on", [], TensorProto.BOOL), *carried], given)
    return helper.make_node("Loop", ["trips", "start", "first", "x"], ["last", "total", "rows"], body=graph)


@pytest.mark.parametrize("count", ["open", "no condition", "known"])
def test_loops_whose_first_trip_changes_a_rank(count):
    """As exporters write variables that have no value before the loop: scalars in place of tensors."""
    first = helper.make_node("Constant", [], ["first"], value_float=7.0)
    ends = [helper.make_node("Neg", ["last"], ["y"]), helper.make_node("Abs", ["total"], ["z"])]
    inputs, limits = [_value("x", ["m", 3])], []
    if count == "known":
        limits = [helper.make_node("Constant", [], ["trips"], value_int=50)]
    else:
        inputs.append(_value("trips", [], TensorProto.INT64))
    if count == "no condition":
        limits.append(helper.make_node("Constant", [], ["start"], value=helper.make_tensor("start", TensorProto.BOOL, [], [True])))
    else:
        inputs.append(_value("start", [], TensorProto.BOOL))
    outputs = [_value("y", None), _value("z", ["m", 3]), _value("rows", ["trips"])]
    compiled = treadle.compile(_model([first, *limits, _counting_loop(2), *ends], inputs, outputs))
    x = _numbers(2, 3)
    for trips, start in ((0, True), (1, True), (2, True), (40, True), (3, False)):
        feed = {"x": x, "trips": np.array(trips), "start": np.array(start)}
        trips = 50 if count == "known" else trips
        done = trips if start or count == "no condition" else 0
        y, z, rows = compiled.run(None, {value.name: feed[value.name] for value in compiled.inputs})
        steps = [x + np.float32(trip) for trip in range(done)]
        np.testing.assert_allclose(y, -steps[-1] if done else np.float32(-7), rtol=1e-6, strict=True)
        np.testing.assert_allclose(z, np.abs(x + sum(steps)), rtol=1e-5)
        np.testing.assert_allclose(rows, np.array([step.sum() for step in steps], "f4"), rtol=1e-4, atol=1e-4, strict=True)


def test_loops_whose_trips_keep_changing_a_rank_are_refused():
    body = [helper.make_node("Unsqueeze", ["old", "axis"], ["now"]), helper.make_node("Identity", ["go_on"], ["again"])]
    given = [helper.make_empty_tensor_value_info(name) for name in ("again", "now")]
    graph = helper.make_graph(body, "body", [_value("i", [], TensorProto.INT64), _value("go_on", [], TensorProto.BOOL), _value("old", None)], given)
    nodes = [helper.make_node("Constant", [], ["axis"], value_ints=[0]), helper.make_node("Loop", ["trips", "", "x"], ["y"], body=graph)]
    with pytest.raises(treadle.Error, match="carried value 0 has more than one rank"):
        treadle.compile(_model(nodes, [_value("x", [3]), _value("trips", [], TensorProto.INT64)], [_value("y", None)]))


INT64 = TensorProto.INT64
LISTS = {
    "Reshape": (("m", 6), [[2, -1], [2, 2, 6], [-1], [1, 0, 2, -1]], {}),
    "Expand": (("m", 1), [[4, 3], [2, 4, 3], [3], []], {}),
    "ConstantOfShape": (None, [[4, 3], [4], [], [2, 0, 1]], {}),
    "Squeeze": (("m", 1, 1), [[1], [1, -1], [-2]], {}),
    "Unsqueeze": (("m", 6), [[1], [-1, 0]], {}),
    "ReduceSum": (("m", 2, 3), [[1], [1, -1], [], [2, 0, 1]], {"keepdims": 0}),
    "ReduceMax": (("m", 2, 3), [[1], [1, -1], []], {"keepdims": 0}),
}


@pytest.mark.parametrize("op", LISTS)
@pytest.mark.parametrize("followed", [False, True])
def test_lists_whose_length_only_a_run_knows(op, followed):
    dims, lists, attributes = LISTS[op]
    operands = [] if dims is None else [_value("x", list(dims))]
    nodes = [helper.make_node(op, [*(value.name for value in operands), "list"], ["t"], **attributes), helper.make_node("Neg", ["t"], ["n"]),
             helper.make_node("ReduceMax" if followed else "Identity", ["n"], ["y"], **({"keepdims": 0} if followed else {}))]
    model = _model(nodes, [*operands, _value("list", ["length"], INT64)], [_value("y", [] if followed else None)])
    compiled, reference = treadle.compile(model), ReferenceEvaluator(model)
    for entries in lists:
        feeds = {"list": np.array(entries, np.int64)}
        if dims is not None:
            feeds["x"] = _numbers(*(4 if dim == "m" else dim for dim in dims))
        if followed and entries == [2, 0, 1]:
            continue  # the maximum of nothing
        expected = reference.run(None, feeds)[0]
        np.testing.assert_allclose(compiled.run(None, feeds)[0], expected, rtol=1e-5, strict=True)


def test_lists_are_of_no_more_than_six_entries():
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"], name="view")]
    compiled = treadle.compile(_model(nodes, [_value("x", ["m"]), _value("shape", ["length"], INT64)], [_value("y", None)]))
    x = _numbers(4)
    with pytest.raises(treadle.Error, match=r"\"?view\"?.*'shape' has another number of entries than 0, 1, 2, 3, 4, 5, 6; more have to be known when compiling"):
        compiled.run(None, {"x": x, "shape": np.array([1] * 6 + [4])})
    assert compiled.run(None, {"x": x, "shape": np.array([1] * 5 + [4])})[0].shape == (1, 1, 1, 1, 1, 4)


@pytest.mark.parametrize("known", ["shape", "declared"])
def test_lists_of_more_entries_are_known_where_the_refusal_says_so(known):
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["y"])]
    declared = _value("y", list("abcdefgh") if known == "declared" else None)
    model = _model(nodes, [_value("shape", ["length"], INT64)], [declared])
    compiled = treadle.compile(model, **({"shapes": {"shape": (8,)}} if known == "shape" else {}))
    assert compiled.run(None, {"shape": np.array([1, 2] * 4)})[0].shape == (1, 2) * 4


def test_lists_of_axes_as_long_as_the_declared_rank_tells():
    nodes = [helper.make_node("Squeeze", ["x", "axes"], ["y"])]
    compiled = treadle.compile(_model(nodes, [_value("x", ["m", "n"]), _value("axes", ["length"], INT64)], [_value("y", ["m", "n"])]))
    x = _numbers(2, 1)
    np.testing.assert_array_equal(compiled.run(None, {"x": x, "axes": np.zeros(0, np.int64)})[0], x, strict=True)


@pytest.mark.parametrize("op, operands, lists", [
    ("Pad", [("x", (3, 4))], [("pads", [1, 2]), ("", None), ("axes", [-1])]),
    ("Pad", [("x", (3, 4))], [("pads", [1, 2, 0, 1]), ("", None), ("axes", [1, 0])]),
    ("Col2Im", [("x", (1, 5, 5))], [("image", [5, 5]), ("block", [1, 5])]),
    ("AffineGrid", [("theta", (2, 2, 3))], [("size", [2, 3, 5, 6])]),
    ("AffineGrid", [("theta", (2, 3, 4))], [("size", [2, 3, 4, 5, 6])]),
    ("MaxUnpool", [("x", (1, 1, 2, 2))], [("indices", [[[[5, 7], [13, 15]]]]), ("shape", [1, 1, 5, 5])]),
])
def test_several_lists(op, operands, lists):
    feeds = {name: _numbers(*shape) for name, shape in operands} | {name: np.array(entries) for name, entries in lists if name}
    inputs = [_value(name, [f"{name}{i}" for i in range(value.ndim)], FLOAT if value.dtype == np.float32 else INT64)
              for name, value in feeds.items()]
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2]} if op == "MaxUnpool" else {}
    model = _model([helper.make_node(op, [name for name, _ in operands + lists], ["y"], **attributes)], inputs, [_value("y", None)])
    expected = ReferenceEvaluator(model).run(None, feeds)[0]
    np.testing.assert_allclose(treadle.compile(model).run(None, feeds)[0], expected, rtol=1e-5, atol=1e-6, strict=True)


@pytest.mark.parametrize("batch_dims, indices", [
    (0, [np.array([[0], [-1]]), np.array([[0, 1], [1, -2]]), np.array([[0, 1, 3], [1, 2, -1]]), np.zeros((0, 2), np.int64)]),
    (1, [np.array([[[0], [1]], [[2], [1]]]), np.array([[[0, 1]], [[2, 3]]])]), (0, [np.array([1]), np.array([0, 2]), np.array([1, 1, 1])])])
def test_gather_nd_by_indices_of_any_length(batch_dims, indices):
    nodes = [helper.make_node("GatherND", ["x", "i"], ["z"], batch_dims=batch_dims), helper.make_node("Neg", ["z"], ["y"])]
    model = _model(nodes, [_value("x", ["a", "b", "c"]), _value("i", [f"i{k}" for k in range(indices[0].ndim)], INT64)], [_value("y", None)])
    compiled, x = treadle.compile(model), _numbers(2, 3, 4)
    for i in indices:
        expected = ReferenceEvaluator(model).run(None, {"x": x, "i": i})[0]
        np.testing.assert_array_equal(compiled.run(None, {"x": x, "i": i})[0], expected, strict=True)
    with pytest.raises(treadle.Error, match="another number of entries than"):
        compiled.run(None, {"x": x, "i": np.zeros((*indices[0].shape[:-1], 4), np.int64)})


def test_squeeze_of_several_dimensions_that_may_be_1():
    nodes = [helper.make_node("Squeeze", ["x"], ["z"]), helper.make_node("Relu", ["z"], ["y"]),
             helper.make_node("ReduceSum", ["z"], ["sum"], keepdims=0)]
    compiled = treadle.compile(_model(nodes, [_value("x", ["a", 1, "b", 3, "c"])], [_value("y", None), _value("sum", [])]))
    for a, b, c in ((1, 1, 1), (2, 1, 1), (1, 4, 1), (1, 1, 5), (2, 4, 1), (2, 1, 5), (1, 4, 5), (2, 4, 5), (0, 1, 2)):
        x = _numbers(a, 1, b, 3, c)
        y, total = compiled.run(None, {"x": x})
        np.testing.assert_array_equal(y, np.maximum(np.squeeze(x), 0), strict=True)
        np.testing.assert_allclose(total, x.sum(), rtol=1e-5, atol=1e-5)


def _choice(name, condition, yes, no):
    return helper.make_node("If", [condition], [name], then_branch=yes, else_branch=no)


def test_branches_within_branches_differ_in_rank():
    row = _branch("row", [helper.make_node("ReduceSum", ["x", "axis"], ["r"], keepdims=0)], "r")
    same = _branch("same", [helper.make_node("Identity", ["x"], ["s"])], "s")
    inner = _branch("inner", [_choice("q", "c2", row, same), helper.make_node("Neg", ["q"], ["m"])], "m")
    total = _branch("total", [helper.make_node("ReduceSum", ["x"], ["t"], keepdims=0)], "t")
    nodes = [helper.make_node("Constant", [], ["axis"], value_ints=[0]), _choice("p", "c", inner, total), helper.make_node("Abs", ["p"], ["y"])]
    inputs = [_value("c", [], TensorProto.BOOL), _value("c2", [], TensorProto.BOOL), _value("x", ["m", 3])]
    compiled = treadle.compile(_model(nodes, inputs, [_value("y", None)]))
    x = _numbers(2, 3)
    for c, c2 in ((True, True), (True, False), (False, True)):
        expected = np.abs(x.sum() if not c else x.sum(0) if c2 else x)
        got, = compiled.run(None, {"c": np.array(c), "c2": np.array(c2), "x": x})
        np.testing.assert_allclose(got, expected, rtol=1e-5, strict=True)


def test_ranks_that_differ_within_loops_are_refused():
    body = helper.make_graph([helper.make_node("Squeeze", ["v"], ["w"]), helper.make_node("Identity", ["go"], ["on"])], "body",
                             [_value("i", [], INT64), _value("go", [], TensorProto.BOOL), _value("v", None)],
                             [_value("on", [], TensorProto.BOOL), helper.make_empty_tensor_value_info("w")])
    model = _model([helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], [_value("n", [], INT64), _value("x", ["m", 3])], [_value("y", None)])
    with pytest.raises(treadle.UnsupportedOpError, match="Loop.*a rank that only the run decides"):
        treadle.compile(model)


@pytest.mark.parametrize("counts", [[2, 0, 3], [1], [0, 4, 1, 1, 2]])
def test_repeated_rows_as_a_loop_over_sequences(counts):
    """repeat_interleave as PyTorch exports it: a branch of a trip that can't be run would give a sequence."""
    body = helper.make_graph(
        [helper.make_node("SequenceAt", ["rows", "i"], ["row"]), helper.make_node("SequenceAt", ["times", "i"], ["count"]),
         helper.make_node("Concat", ["count", "one"], ["shape"], axis=0), helper.make_node("Expand", ["row", "shape"], ["many"]),
         helper.make_node("Reshape", ["many", "matrix"], ["part"]), helper.make_node("SequenceInsert", ["parts", "part"], ["next"]),
         helper.make_node("Identity", ["go"], ["on"])], "body",
        [_value("i", [], INT64), _value("go", [], TensorProto.BOOL), helper.make_tensor_sequence_value_info("parts", FLOAT, None)],
        [_value("on", [], TensorProto.BOOL), helper.make_tensor_sequence_value_info("next", FLOAT, None)])
    nodes = [helper.make_node("Constant", [], ["one"], value_ints=[1]), helper.make_node("Constant", [], ["matrix"], value_ints=[-1, 4]),
             helper.make_node("Shape", ["d"], ["length"]), helper.make_node("Squeeze", ["length"], ["trips"]),
             helper.make_node("ConstantOfShape", ["length"], ["ones"], value=helper.make_tensor("v", INT64, [1], [1])),
             helper.make_node("SplitToSequence", ["x", "ones"], ["rows"], axis=0), helper.make_node("SplitToSequence", ["d", "ones"], ["times"], axis=0),
             helper.make_node("SequenceEmpty", [], ["none"]), helper.make_node("Loop", ["trips", "", "none"], ["all"], body=body),
             helper.make_node("ConcatFromSequence", ["all"], ["y"], axis=0)]
    compiled = treadle.compile(_model(nodes, [_value("x", ["n", 4]), _value("d", ["n"], INT64)], [_value("y", ["m", 4])]))
    x = _numbers(len(counts), 4)
    np.testing.assert_array_equal(compiled(x=x, d=np.array(counts))["y"], np.repeat(x, counts, axis=0))
