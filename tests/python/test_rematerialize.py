# SPDX-License-Identifier: Apache-2.0
"""Differences from means are computed for each of their consumers instead of stored (pass Rematerialize); norms divide once per row."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle import relay

HEAD = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(n, 3, 40), float32], %z: Tensor[(n, 3, 40), float32]) {\n'
NORM = """  %0 = mean(%x, axis=[2], keepdims=True);
  %1 = subtract(%x, %0);
  %2 = multiply(%1, %1);
  %3 = mean(%2, axis=[2], keepdims=True);
  multiply(%1, %3)
}
"""
CASES = {
    "norm": (NORM, 2),
    "of_what_is_in_memory": (NORM.replace("%0 = mean(%x", "%9 = exp(%x);\n  %0 = mean(%9").replace("subtract(%x", "subtract(%9"), 2),
    "of_what_is_not": (NORM.replace("%0 = mean(%x", "%9 = exp(%z);\n  %0 = mean(%x").replace("subtract(%x", "subtract(%9"), 1),
    "two_large_operands": (NORM.replace("subtract(%x, %0)", "subtract(%x, %z)"), 1),
    "nothing_reduced": (NORM.replace("mean(%2, axis=[2], keepdims=True)", "exp(%2)"), 1),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_computed_twice(case):
    text, count = CASES[case]
    module = relay.transform.Rematerialize()(relay.transform.InferType()(relay.fromtext(HEAD + text)))
    assert module.astext().count("subtract(") == count


def test_divisions_by_deviations():
    text = HEAD + "  %0 = mean(%x, axis=[2], keepdims=True);\n  %1 = sqrt(%0);\n  divide(%x, %1)\n}\n"
    module = relay.transform.SimplifyExpr()(relay.transform.InferType()(relay.fromtext(text)))
    assert "multiply(%x" in module.astext() and "divide(1f" in module.astext()
    elements = text.replace("mean(%x, axis=[2], keepdims=True)", "exp(%x)")
    assert "divide(%x" in relay.transform.SimplifyExpr()(relay.transform.InferType()(relay.fromtext(elements))).astext()


@pytest.mark.parametrize("kind, version", [("InstanceNormalization", 6), ("LayerNormalization", 17), ("GroupNormalization", 21)])
@pytest.mark.parametrize("sizes", [("n", 6, "h", "w"), (2, 6, 9, 11)])
def test_norms(kind, version, sizes):
    rng = np.random.default_rng(0)
    count = 11 if kind == "LayerNormalization" else 6
    if kind == "LayerNormalization":
        sizes = (*sizes[:3], 11)
    attributes = {"GroupNormalization": {"num_groups": 3}, "LayerNormalization": {"axis": -1}}.get(kind, {})
    weights = [numpy_helper.from_array(rng.standard_normal(count).astype("f4"), name) for name in ("s", "b")]
    graph = helper.make_graph([helper.make_node(kind, ["x", "s", "b"], ["y"], **attributes)], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=9)
    compiled = treadle.compile(model, threads=2)
    for offset, scale in ((0, 1), (100, 1), (3, 1e-3), (0, 0)):
        x = (rng.standard_normal((2, 6, 9, 11)) * scale + offset).astype("f4")
        rows = x.astype("f8").reshape({"InstanceNormalization": (12, -1), "LayerNormalization": (-1, 11), "GroupNormalization": (6, -1)}[kind])
        normal = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
        s, b = (numpy_helper.to_array(w) if kind == "LayerNormalization" else numpy_helper.to_array(w)[:, None, None] for w in weights)
        np.testing.assert_allclose(compiled(x=x)["y"], normal.reshape(x.shape) * s + b, rtol=1e-4, atol=5e-4 if offset else 1e-5)
