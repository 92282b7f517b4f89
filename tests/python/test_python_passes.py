# SPDX-License-Identifier: Apache-2.0
"""Passes and analyses of graphs that are written in Python, under the original's names."""
import numpy as np
import pytest

import treadle as tvm
from treadle import relay
from treadle.relay import analysis, transform

RNG = np.random.default_rng(3)


def randn(*shape):
    return RNG.standard_normal(shape).astype("float32")


def module(params, body):
    return transform.InferType()(tvm.IRModule.from_expr(relay.Function(params, body)))


def run(mod, *args, **params):
    return relay.create_executor("vm", mod=mod, target="llvm").evaluate()(*args, **params).numpy()


def ops(mod):
    return analysis.list_op_freqs(mod)


@pytest.mark.parametrize("op, value, folds", [("conv2d", 0.0, True), ("conv2d", 1.0, False), ("avg_pool2d", 0.0, False),
                                              ("max_pool2d", np.finfo("float32").min, True), ("max_pool2d", 0.0, False)])
def test_borders_go_into_what_reads_them(op, value, folds):
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.const(randn(4, 3, 3, 3))
    padded = relay.nn.pad(x, [[0, 0], [0, 0], [1, 2], [0, 1]], relay.const(value, "float32"))
    body = relay.nn.conv2d(padded, w, padding=(1, 1)) if op == "conv2d" else getattr(relay.nn, op)(padded, (3, 3))
    mod = module([x], body)
    after = transform.FoldExplicitPadding()(mod)
    assert ("nn.pad" not in ops(after)) == folds
    data = randn(1, 3, 8, 8)
    np.testing.assert_allclose(run(after, data), run(mod, data), rtol=1e-4, atol=1e-4)


def test_several_layers_at_once_and_other_batches():
    x = relay.var("x", shape=(1, 16))
    weights = [relay.const(randn(8, 16)) for _ in range(3)]
    mod = module([x], relay.Tuple([relay.nn.dense(x, w) for w in weights]))
    with tvm.transform.PassContext(opt_level=4):
        counts = ops(transform.BatchingOps()(mod))
    assert counts.get("nn.batch_matmul", 0) + counts.get("nn.dense", 0) == 1
    larger = transform.ChangeBatch({x: 0}, 5)(module([x], relay.nn.dense(x, weights[0])))
    assert [int(d) for d in larger["main"].ret_type.shape] == [5, 8]


def test_expressions_by_themselves():
    x = relay.var("x", shape=(2,))
    folded = transform.FoldConstantExpr(x * (relay.const(2.0) + relay.const(3.0)), tvm.IRModule())
    assert float(folded.args[1].data.numpy()) == 5
    assert isinstance(transform.ToANormalFormExpr(relay.exp(relay.tanh(x))), relay.Let)


def test_values_that_are_functions():
    text = '''#[version = "0.0.5"]
def @double(%x: float32) -> float32 { add(%x, %x) }
def @main(%f: float32) -> float32 {
  let %g = @double;
  %g(%f)
}'''
    mod = transform.EtaExpand(expand_global_var=True)(tvm.parser.parse(text))
    assert "= fn (%" in mod.astext() and run(mod, np.float32(3)) == 6
    assert "= fn (%" not in transform.EtaExpand()(tvm.parser.parse(text)).astext()


def test_places_in_the_text():
    x = relay.var("x", shape=(2,))
    mod = transform.AnnotateSpans()(module([x], relay.exp(x)))
    assert mod["main"].body.span is not None and mod["main"].body.span.line > 0


@pytest.mark.parametrize("skip, casts", [((), 4), ((0,), 2), ((-2,), 2)])
def test_layers_in_another_type(skip, casts):
    x = relay.var("x", shape=(1, 4, 8, 8))
    w = [relay.var(f"w{i}", shape=(4, 4, 3, 3)) for i in range(2)]
    body = relay.nn.conv2d(relay.nn.conv2d(x, w[0], padding=1), w[1], padding=1)
    after = module([x, *w], transform.recast(body, "int8", "int32", skip_layers=skip))
    assert ops(after)["cast"] == casts and str(after["main"].ret_type.dtype) == "int32"


def sparse_weights():
    weight = randn(16, 32)
    weight.reshape(4, 4, 32, 1)[RNG.random((4, 1, 32, 1)).repeat(4, 1) < 0.8] = 0
    return weight


def test_dense_layers_with_many_zeros():
    x, w = relay.var("x", shape=(3, 32)), relay.var("w", shape=(16, 32))
    mod, weight, data = module([x, w], relay.nn.dense(x, w)), sparse_weights(), randn(3, 32)
    func, params = relay.data_dep_optimization.bsr_dense.convert(mod, {"w": tvm.nd.array(weight)}, (4, 1), 0.5)
    assert sorted(params) == ["w.data", "w.indices", "w.indptr"] and "nn.dense" not in ops(func)
    lib = relay.build(tvm.IRModule.from_expr(func), "llvm", params=params)
    executor = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
    executor.run(x=data)
    np.testing.assert_allclose(executor.get_output(0).numpy(), data @ weight.T, rtol=1e-4, atol=1e-4)
    kept, same = relay.data_dep_optimization.bsr_dense.convert(mod, {"w": tvm.nd.array(weight)}, (4, 1), 0.99)
    assert list(same) == ["w"] and ops(kept) == {"nn.dense": 1}


def test_weights_that_are_stored_transposed():
    x, w = relay.var("x", shape=(3, 32)), relay.var("w", shape=(32, 16))
    mod, weight, data = module([x, w], relay.nn.dense(x, relay.transpose(w, [1, 0]))), randn(32, 16), randn(3, 32)
    assert analysis.search_fc_transpose(mod["main"]) == ["w"]
    func, params = relay.data_dep_optimization.simplify_fc_transpose.convert(mod["main"], {"w": weight})
    assert list(params) == ["w.T"] and "transpose" not in ops(func)
    np.testing.assert_allclose(run(tvm.IRModule.from_expr(func), data, params["w.T"].numpy()), data @ weight,
                               rtol=1e-4, atol=1e-4)


def test_questions_about_modules():
    mod = tvm.parser.parse('''#[version = "0.0.5"]
def @loop(%n: int32) -> int32 { if (equal(%n, 0)) { 0 } else { @loop(subtract(%n, 1)) } }
def @main(%n: int32) -> int32 { add(@loop(%n), @loop(2)) }''')
    graph = analysis.CallGraph(mod)
    assert graph.is_recursive("loop") and not graph.is_recursive("main")
    assert graph.global_call_count("main") == 2 and graph.ref_count("loop") == 3 and "@loop x 2" in str(graph)
    x = relay.var("x", shape=(2,))
    assert analysis.check_constant(relay.Tuple([relay.const(1)])) and not analysis.check_constant(x)
    assert analysis.check_basic_block_normal_form(relay.exp(relay.exp(x)))
    counter = analysis.LayerCounter(["exp"])
    counter.visit(relay.exp(relay.exp(x)))
    assert counter.count() == 2


def test_what_external_functions_get_and_give():
    x, y = relay.var("x", shape=(2, 2)), relay.var("y", shape=(2, 2))
    mod = module([x, y], relay.tanh((x + y) * y))
    mod = transform.Sequential([transform.AnnotateTarget("ccompiler"), transform.MergeCompilerRegions(),
                                transform.PartitionGraph()])(mod)
    values = {"x": randn(2, 2), "y": randn(2, 2)}
    found = analysis.get_calibration_data(mod, values)
    (name, seen), = found.items()
    assert "ccompiler" in name.name_hint
    np.testing.assert_allclose(seen["outputs"][0].numpy(), np.tanh((values["x"] + values["y"]) * values["y"]),
                               rtol=1e-5)
    assert len(seen["inputs"]) == 2


@pytest.mark.parametrize("name", ["LazyGradientInit", "ToCPS", "Defunctionalization", "LayoutConfig"])
def test_passes_that_arent_there(name):
    with pytest.raises(tvm.UnsupportedOpError, match=f"there is no pass {name}"):
        getattr(transform, name)()
