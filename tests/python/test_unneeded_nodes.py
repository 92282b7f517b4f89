# SPDX-License-Identifier: Apache-2.0
"""Nodes that no output depends on: neither imported nor checked, whether sizes are known or not."""
import numpy as np
import onnx
import onnx.parser
import pytest

import treadle

BAD = {
    "sizes": "z = Reshape (x, seven)",
    "values": "z = Gather (x, seven)",
    "attributes": "z = Softmax <axis = 5> (x)",
    "types": "z = Not (x)",
    "an operator that doesn't exist": "z = Nothing (x)",
    "what another reads": "w = Reshape (x, seven) z = Exp (w)",
    "a branch": "z = If (c) <then_branch = t () => (float[q] a) {a = Reshape (x, seven)}, else_branch = e () => (float[q] b) {b = Exp (x)}>",
}


def model_of(nodes, more=""):
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[n] x) => (float[n] y) <int64[1] seven = {{7}}, bool c = {{1}}> {{ {nodes} y = Relu (x) {more} }}""")
    return model


@pytest.mark.parametrize("shapes", [None, {"x": (3,)}])
@pytest.mark.parametrize("name", BAD)
def test_results_that_nothing_uses_are_not_computed(name, shapes):
    """Of known sizes they were refused, of unknown ones some were."""
    x = np.float32([-1, 0, 2])
    np.testing.assert_array_equal(treadle.compile(model_of(BAD[name]), shapes=shapes)(x=x)["y"], np.maximum(x, 0))


@pytest.mark.parametrize("shapes", [None, {"x": (3,)}])
@pytest.mark.parametrize("reader, inner", [("needed", "a = Exp (w)"), ("unneeded", "a = Exp (x) u = Exp (w)")])
def test_what_only_a_branch_reads_is_needed_where_its_result_needs_it(reader, inner, shapes):
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 17]>
        g (float[n] x) => (float[p] y) <int64[1] seven = {{7}}, bool c = {{1}}> {{
            w = Reshape (x, seven)
            y = If (c) <then_branch = t () => (float[q] a) {{ {inner} }}, else_branch = e () => (float[q] b) {{b = Neg (x)}}>
        }}""")
    x = np.float32([-1, 0, 2])
    if reader == "unneeded":
        np.testing.assert_allclose(treadle.compile(model, shapes=shapes)(x=x)["y"], np.exp(x), rtol=1e-6)
        return
    with pytest.raises(treadle.Error, match=r"'Reshape#0' \(Reshape\)"):
        treadle.compile(model, shapes=shapes)(x=x)


def test_results_of_functions_that_nothing_uses_are_not_computed():
    function = onnx.helper.make_function(
        "own", "F", ["x"], ["y"],
        [onnx.helper.make_node("Softmax", ["x"], ["bad"], axis=5), onnx.helper.make_node("Relu", ["x"], ["y"])],
        [onnx.helper.make_opsetid("", 17)])
    graph = onnx.parser.parse_graph("g (float[3] x) => (float[3] y) { y = own.F (x) }")
    model = onnx.helper.make_model(graph, functions=[function], ir_version=8,
                                   opset_imports=[onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("own", 1)])
    x = np.float32([-1, 0, 2])
    np.testing.assert_array_equal(treadle.compile(model)(x=x)["y"], np.maximum(x, 0))


def test_names_that_unneeded_nodes_read_have_to_exist():
    with pytest.raises(treadle.Error, match="reads 'missing', which nothing defines"):
        treadle.compile(model_of("z = Exp (missing)"))
