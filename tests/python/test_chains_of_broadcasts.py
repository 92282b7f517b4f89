# SPDX-License-Identifier: Apache-2.0
"""Long chains of operators whose operands may each be broadcast: sizes don't double at each operator."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle


def chain(count, rank):
    """x0 + x1 - x2 + .. of sizes that only a run knows."""
    inputs = [helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, [f"d{k}_{i}" for i in range(rank)])
              for k in range(count + 1)]
    nodes = [helper.make_node("Sub" if k % 2 else "Add", [f"t{k - 1}" if k else "x0", f"x{k + 1}"], [f"t{k}"])
             for k in range(count)]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info(f"t{count - 1}", TensorProto.FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("count, rank", [(24, 3), (12, 6)])
def test_chains(count, rank):
    model = treadle.compile(chain(count, rank).SerializeToString())
    rng = np.random.default_rng(count)
    full = rng.integers(1, 4, rank)
    for ones in (0.0, 0.5, 1.0):
        feed = {f"x{k}": rng.standard_normal(np.where(rng.random(rank) < ones, 1, full)).astype("f4")
                for k in range(count + 1)}
        expected = feed["x0"]
        for k in range(count):
            expected = expected - feed[f"x{k + 1}"] if k % 2 else expected + feed[f"x{k + 1}"]
        np.testing.assert_allclose(model.run(None, feed)[0], expected, rtol=0, atol=1e-5)
    feed = {name: np.zeros([1] * rank, "f4") for name in feed}
    feed["x3"], feed["x7"] = np.zeros([2] * rank, "f4"), np.zeros([3] * rank, "f4")
    with pytest.raises(treadle.Error):
        model.run(None, feed)
    feed["x7"] = np.zeros([2] * (rank - 1) + [1], "f4")
    feed["x5"] = np.zeros([2] * (rank - 1) + [0], "f4")
    with pytest.raises(treadle.Error):
        model.run(None, feed)
    feed["x3"] = np.zeros([1] * rank, "f4")
    assert model.run(None, feed)[0].shape == (2,) * (rank - 1) + (0,)
