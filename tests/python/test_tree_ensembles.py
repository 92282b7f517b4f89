# SPDX-License-Identifier: Apache-2.0
"""TreeEnsembleRegressor and TreeEnsembleClassifier of random trees beside a walk down each in Python."""
import operator

import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle
from treadle import relay

TESTS = {"BRANCH_LEQ": operator.le, "BRANCH_LT": operator.lt, "BRANCH_GTE": operator.ge, "BRANCH_GT": operator.gt, "BRANCH_EQ": operator.eq,
         "BRANCH_NEQ": operator.ne}
COLUMNS = 5


def _grow(rng, tree, kinds, depth):
    """Nodes of a random tree, the root first: (kind, feature, split, missing, yes, no, weight)."""
    nodes = []

    def grow(level):
        number = len(nodes)
        nodes.append(None)
        if level == depth or (level and rng.random() < 0.2) or depth == 0:
            nodes[number] = ("LEAF", 0, 0.0, 0, 0, 0, float(np.float32(rng.standard_normal())))
        else:
            kind, feature, split = rng.choice(kinds), int(rng.integers(COLUMNS)), float(rng.integers(-2, 3))
            yes = grow(level + 1)
            no = grow(level + 1)
            nodes[number] = (str(kind), feature, split, int(rng.random() < 0.5), yes, no, 0.0)
        return number

    grow(0)
    return [(tree, number, *node) for number, node in enumerate(nodes)]


def _forest(seed, kinds, depths, missing):
    rng = np.random.default_rng(seed)
    nodes = [node for tree, depth in enumerate(depths) for node in _grow(rng, tree, kinds, depth)]
    return nodes if missing else [(*node[:5], 0, *node[6:]) for node in nodes]


def _walk(nodes, x, outputs):
    by_number = {node[:2]: node for node in nodes}
    result = np.zeros((len(x), outputs))
    for row, values in enumerate(x):
        for tree in {node[0] for node in nodes}:
            node = by_number[tree, 0]
            while node[2] != "LEAF":
                value = values[node[3]]
                passes = TESTS[node[2]](value, node[4]) or (np.isnan(value) and node[5])
                node = by_number[tree, node[6] if passes else node[7]]
            result[row, tree % outputs] += node[8]
    return result


def _model(nodes, outputs, rows="rows", columns=COLUMNS, kind=TensorProto.FLOAT):
    trees, numbers, modes, features, splits, missing, yes, no, _ = zip(*nodes)
    leaves = [node for node in nodes if node[2] == "LEAF"]
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=outputs, nodes_treeids=trees, nodes_nodeids=numbers, nodes_modes=modes,
        nodes_featureids=features, nodes_values=splits, nodes_missing_value_tracks_true=missing, nodes_truenodeids=yes, nodes_falsenodeids=no,
        target_treeids=[n[0] for n in leaves], target_nodeids=[n[1] for n in leaves], target_ids=[n[0] % outputs for n in leaves], target_weights=[n[8] for n in leaves])
    graph = helper.make_graph([node], "trees", [helper.make_tensor_value_info("x", kind, [rows, columns])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, outputs])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=10)


def _rows(count, missing):
    rng = np.random.default_rng(count)
    x = rng.integers(-3, 4, (count, COLUMNS)).astype("f4")  # ties with the splits
    if missing:
        x[rng.random(x.shape) < 0.2] = np.nan
    return x


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kinds", [[kind] for kind in TESTS] + [list(TESTS), ["BRANCH_LEQ", "BRANCH_GT"]], ids="+".join)
def test_any_number_of_rows(kinds, missing):
    nodes = _forest(len(kinds), kinds, [4, 0, 7, 1, 5], missing)
    model = _model(nodes, 2)
    assert "tree_leaves" in str(relay.frontend.from_onnx(model)[0])
    compiled = treadle.compile(model)
    for count in (1, 7, 8, 9, 70, 300, 0):
        x = _rows(count, missing)
        np.testing.assert_allclose(compiled.run(None, {"x": x})[0], _walk(nodes, x, 2), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("columns", [COLUMNS, "columns"])
@pytest.mark.parametrize("rows", ["rows", 1, 130])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64])
def test_types_and_sizes(rows, columns, kind):
    nodes = _forest(3, ["BRANCH_LEQ"], [3] * 40, False)
    compiled = treadle.compile(_model(nodes, 3, rows, columns, kind))
    x = _rows(11 if rows == "rows" else rows, False).astype(helper.tensor_dtype_to_np_dtype(kind))
    np.testing.assert_allclose(compiled.run(None, {"x": x})[0], _walk(nodes, x, 3), rtol=1e-5, atol=1e-5)


def test_features_are_columns():
    compiled = treadle.compile(_model(_forest(3, ["BRANCH_LEQ"], [6] * 4, False), 1, columns="columns"))
    with pytest.raises(treadle.Error, match="feature"):
        compiled.run(None, {"x": np.zeros((3, 1), "f4")})


def test_trees_of_leaves():
    nodes = _forest(5, ["BRANCH_LT"], [0, 0], False)
    compiled = treadle.compile(_model(nodes, 1))
    np.testing.assert_allclose(compiled.run(None, {"x": _rows(9, False)})[0], _walk(nodes, _rows(9, False), 1), rtol=1e-6)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("operand, value", [("roots", 3), ("roots", -1), ("features", 2), ("features", -1), ("children", 3),
                                            ("children", -3)])
def test_indices_beyond_the_operands_are_refused(operand, value, constant):
    values = {"roots": np.array([0], "int32"), "depths": np.array([1], "int32"), "features": np.array([1, 0, 0], "int32"),
              "splits": np.zeros(3, "float32"), "children": np.array([[1, 2], [1, 1], [2, 2]], "int32"),
              "kinds": np.zeros(3, "int32")}
    x = relay.var("x", shape=(4, 2), dtype="float32")

    def compiled(values):
        operands = {name: relay.const(v) if constant or name == "splits" else relay.var(name, shape=v.shape, dtype=str(v.dtype))
                    for name, v in values.items()}
        body = relay.op.tree_leaves(x, *operands.values(), depth=1, tests=[0], missing=False)
        function = relay.Function([x, *(v for v in operands.values() if isinstance(v, relay.Var))], body)
        given = [v for name, v in values.items() if isinstance(operands[name], relay.Var)]
        run = relay.create_executor("graph", mod=treadle.IRModule.from_expr(function), target="llvm").evaluate()
        return run(np.float32([[0, -1], [0, 1], [2, 0], [0, 3]]), *given).numpy()

    assert compiled(values).tolist() == [[1], [2], [1], [2]]
    values[operand].flat[0] = value
    with pytest.raises(treadle.Error, match=f"tree_leaves.*index {value} is out of range"):
        compiled(values)
