# SPDX-License-Identifier: Apache-2.0
"""Products with matrices that are taken from among others, as those of a mixture of experts are."""
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

RNG = np.random.default_rng(0)
WEIGHTS = RNG.standard_normal((5, 24, 40)).astype(np.float32)


def model(column, batch, rows=1):
    """Matrices of the experts times a column each, or rows times them."""
    k = WEIGHTS.shape[2 if column else 1]
    x = [batch, k, rows] if column else [batch, rows, k]
    order = ["w", "x"] if column else ["x", "w"]
    nodes = [helper.make_node("Gather", ["all", "ids"], ["w"], name="take"), helper.make_node("MatMul", order, ["y"])]
    y = [batch, WEIGHTS.shape[1], rows] if column else [batch, rows, WEIGHTS.shape[2]]
    graph = helper.make_graph(nodes, "experts", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x),
                                                 helper.make_tensor_value_info("ids", TensorProto.INT64, [batch])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
                              [numpy_helper.from_array(WEIGHTS, "all")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def inputs(column, ids, rows=1):
    k = WEIGHTS.shape[2 if column else 1]
    shape = (len(ids), k, rows) if column else (len(ids), rows, k)
    return {"x": RNG.standard_normal(shape).astype(np.float32), "ids": np.array(ids)}


@pytest.mark.parametrize("target", ["llvm", "stackvm"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("batch", ["b", 4])
@pytest.mark.parametrize("column", [True, False])
def test_products_with_taken_matrices(column, batch, rows, target):
    x = inputs(column, [3, 0, -1, 3], rows)
    taken = WEIGHTS[x["ids"]].astype(np.float64)
    expected = taken @ x["x"] if column else x["x"] @ taken
    y = treadle.compile(model(column, batch, rows), target=target).run(None, x)[0]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", ["b", 4])
@pytest.mark.parametrize("column", [True, False])
def test_matrices_are_read_where_they_lie(column, batch, tmp_path):
    """Each was copied for each sample: Mixtral and Qwen3-MoE took six times as long."""
    module, params = treadle.relay.frontend.from_onnx(model(column, batch))
    with treadle.transform.PassContext(opt_level=3):
        text = treadle.relay.build(module, target="llvm", params=params).get_lib().get_source()
    assert re.search(r"fused_\w*take\w*_matmul", text)


@pytest.mark.parametrize("column", [True, False])
def test_numbers_beyond_the_last_expert_are_refused(column):
    compiled = treadle.compile(model(column, "b"))
    with pytest.raises(treadle.Error, match="take.*5"):
        compiled.run(None, inputs(column, [0, 5]))


def test_gather_nd_of_one_dimension_takes():
    """As torch.export writes it, with numbers in columns: Qwen3-MoE took five times as long."""
    x = inputs(True, [3, 0, -1, 3])
    nd = model(True, "b")
    del nd.graph.node[0]
    nd.graph.node.insert(0, helper.make_node("GatherND", ["all", "columns"], ["w"]))
    nd.graph.node.insert(0, helper.make_node("Unsqueeze", ["ids", "one"], ["columns"]))
    nd.graph.initializer.append(numpy_helper.from_array(np.array([1]), "one"))
    module, params = treadle.relay.frontend.from_onnx(nd)
    with treadle.transform.PassContext(opt_level=3):
        text = treadle.relay.build(module, target="llvm", params=params).get_lib().get_source()
    assert re.search(r"fused_\w*take\w*_matmul", text)
    np.testing.assert_allclose(treadle.compile(nd).run(None, x)[0], WEIGHTS[x["ids"]] @ x["x"], rtol=1e-4, atol=1e-4)


def test_repeats_of_one_hot_are_known():
    """As exporters write repeat_interleave: the batches of Flatten(Tile) and Gather weren't known to be equal."""
    nodes = [
        helper.make_node("OneHot", ["at", "rank", "values"], ["hot"]), helper.make_node("Reshape", ["hot", "flat"], ["repeats"]),
        helper.make_node("Unsqueeze", ["x", "one"], ["x1"]), helper.make_node("Tile", ["x1", "repeats"], ["x2"]),
        helper.make_node("Flatten", ["x2"], ["x3"], axis=2), helper.make_node("Unsqueeze", ["x3", "last"], ["x4"]),
        helper.make_node("Gather", ["all", "ids"], ["w"]), helper.make_node("MatMul", ["w", "x4"], ["y"]),
    ]
    constants = {"at": [1], "values": [1, 2], "flat": [-1], "one": [1], "last": [2]}
    init = [numpy_helper.from_array(np.array(v), n) for n, v in constants.items()]
    init += [numpy_helper.from_array(np.array(3), "rank"), numpy_helper.from_array(WEIGHTS, "all")]
    graph = helper.make_graph(nodes, "experts", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 40]),
                                                 helper.make_tensor_value_info("ids", TensorProto.INT64, ["m"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", 24, 1])], init)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(proto)
    text = str(treadle.relay.frontend.from_onnx(proto)[0])
    assert "dyn.tile" not in text and "tile(" in text
    x = {"x": RNG.standard_normal((3, 40)).astype(np.float32), "ids": np.array([0, 1, 2, 3, 4, 0])}
    y = treadle.compile(proto).run(None, x)[0]
    expected = WEIGHTS[x["ids"]] @ np.repeat(x["x"][:, None], 2, 1).reshape(6, 40, 1)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
