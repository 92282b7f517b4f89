# SPDX-License-Identifier: Apache-2.0
"""Memory of results between runs: a loop takes turns between two tensors, and results that are held stay as they are."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle


@pytest.fixture(scope="module")
def model():
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["z"])], "two",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, (300, 400))],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, (300, 400)) for name in "yz"])
    return treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def run(model, value):
    return model.run(None, {"x": np.full((300, 400), value, np.float32)})


def test_a_loop_uses_two_tensors(model):
    places = set()
    for value in range(8):
        y, z = run(model, value)
        np.testing.assert_array_equal((y[0, 0], z[-1, -1]), (-value, value))
        places.add(y.__array_interface__["data"][0])
    assert len(places) <= 3  # that of an earlier run, and two in turn


def test_results_that_are_held_stay(model):
    rng = np.random.default_rng(0)
    held = {}
    for value in range(40):
        held[int(rng.integers(5))] = value, run(model, value)
        for other, (y, z) in held.values():
            assert (y == -other).all() and (z == other).all()


def test_views_and_copies_of_one_result_count(model):
    row = run(model, 1)[0][5]
    exported = np.from_dlpack(run(model, 2)[1])
    for value in range(3, 7):
        run(model, value)
    assert (row == -1).all() and (exported == 2).all()
