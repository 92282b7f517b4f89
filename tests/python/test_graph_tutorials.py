# SPDX-License-Identifier: Apache-2.0
"""What tutorials do with graphs: sparse adjacency, weights with many zeros."""
import warnings
from collections import namedtuple

import numpy as np
import pytest

import treadle as tvm
from treadle import relay
from treadle.contrib import graph_executor
from treadle.quantization.ranges import Magnitudes
from treadle.relay import data_dep_optimization as ddo

Adjacency = namedtuple("Adjacency", ["data", "indices", "indptr"])


def graph_convolution(name, width, adj, x, norm):
    """norm * (adj @ (norm * x @ weight)) + bias, the product with the sparse matrix on the right."""
    weight = relay.var(name + ".weight", shape=width)
    bias = relay.var(name + ".bias", shape=(width[1], 1))  # what is bound to it has one dimension
    y = relay.nn.sparse_dense(relay.nn.dense(relay.transpose(weight), relay.multiply(x, norm)), adj)
    return relay.nn.bias_add(relay.multiply(relay.transpose(y), norm), bias, axis=-1)


@pytest.mark.parametrize("opt_level", [0, 3])
def test_types_of_parameters_may_be_known_when_they_are_bound(opt_level):
    rng = np.random.default_rng(1)
    near = (rng.random((23, 23)) < 0.2) | np.eye(23, dtype=bool)
    rows, columns = np.nonzero(near)
    adj = Adjacency(relay.const(np.ones(len(rows), "float32")), relay.const(columns.astype("int32")),
                    relay.const(np.searchsorted(rows, np.arange(24)).astype("int32")))
    norm = (near.sum(1) ** -0.5).astype("float32").reshape(-1, 1)
    params = {"x": (23, 9), "a.weight": (9, 6), "a.bias": (6,), "b.weight": (6, 4), "b.bias": (4,)}
    params = {name: rng.standard_normal(shape).astype("float32") for name, shape in params.items()}

    x = relay.var("x", shape=(23, 9))
    x = relay.nn.relu(graph_convolution("a", (9, 6), adj, x, relay.const(norm)))
    y = graph_convolution("b", (6, 4), adj, x, relay.const(norm))
    func = relay.build_module.bind_params_by_name(relay.Function(relay.analysis.free_vars(y), y), params)
    with tvm.transform.PassContext(opt_level=opt_level), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parameters are bound already
        module = graph_executor.GraphModule(relay.build(tvm.IRModule.from_expr(func), "llvm", params=params)["default"](tvm.cpu()))
    module.run()

    hidden = np.maximum(norm * (near @ (norm * params["x"] @ params["a.weight"])) + params["a.bias"], 0)
    expected = norm * (near @ (norm * hidden @ params["b.weight"])) + params["b.bias"]
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_sparse_weights_come_after_the_inputs():
    rng = np.random.default_rng(2)
    x, w = relay.var("x", shape=(5, 16)), relay.var("w", shape=(16, 8))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, relay.transpose(w))))
    weight = (rng.random((16, 8)) * (rng.random((16, 8)) < 0.1)).astype("float32")
    func, params = ddo.simplify_fc_transpose.convert(mod["main"], {"w": tvm.nd.array(weight)})
    assert relay.analysis.sparse_dense._search_dense_op_weight(func) == ["w.T"]
    func, params = ddo.bsr_dense.convert(func, params, (1, 1), sparsity_threshold=0.8)
    names = [param.name_hint for param in func.params]
    assert names[0] == "x" and sorted(names[1:]) == ["w.T.data", "w.T.indices", "w.T.indptr"]
    module = graph_executor.GraphModule(relay.build(tvm.IRModule.from_expr(func), "llvm", params=params)["default"](tvm.cpu()))
    value = rng.standard_normal((5, 16)).astype("float32")
    module.set_input(0, value)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), value @ weight, rtol=1e-5, atol=1e-6)


def test_ranges_of_least_divergence():
    rng = np.random.default_rng(0)
    body = rng.standard_normal(100000)
    found = {}
    for name, values in (("even", np.linspace(-1, 1, 10001)), ("body", body), ("outlier", np.append(body, 100.0)),
                         ("one", np.array([3.0])), ("none", np.zeros(4))):
        magnitudes = Magnitudes()
        for part in np.array_split(values, 3):
            magnitudes.add(part)
        found[name] = magnitudes.least_divergent(128)
    assert found["even"] == pytest.approx(1, rel=0.05) and found["one"] == 3 and found["none"] == 0
    assert found["body"] <= np.abs(body).max() and 3 < found["body"]
    assert found["outlier"] < 15
