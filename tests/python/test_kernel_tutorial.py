# SPDX-License-Identifier: Apache-2.0
"""The kernel of docs/add-a-kernel.md, the pass of docs/add-a-pass.md and the operator of docs/add-an-operator.md compile
outside of the tree, and run."""
import re

import pytest

from test_external_tutorial import COMPILER, ROOT, compile_plugin, run_script

pytestmark = [pytest.mark.skipif(COMPILER is None, reason="no C++ compiler"), pytest.mark.timeout(600)]


def build(folder, page, name):
    """The snippets of the page, joined, compiled to lib<name>.so."""
    code = "".join(re.findall(rf"```cpp\n// file: {name}.cc\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S))
    (folder / f"{name}.cc").write_text(code)
    compile_plugin([folder / f"{name}.cc"], folder / f"lib{name}.so", ["treadle", "treadle_runtime"])


@pytest.fixture(scope="module")
def dots(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernel")
    build(folder, "add-a-kernel.md", "dots")
    return folder


PRODUCT = """
    import json, numpy as np, treadle
    from treadle import relay
    from treadle.contrib import graph_executor
    treadle.load_plugin("./libdots.so")
    def product(m, k, n, plans=""):
        x, w = relay.var("x", shape=(m, k)), relay.var("w", shape=(n, k))
        mod = treadle.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))))
        rng = np.random.RandomState(0)
        values = {"x": rng.randn(m, k).astype("float32"), "w": rng.randn(n, k).astype("float32")}
        with treadle.transform.PassContext(opt_level=3, config={"schedule.plans": plans} if plans else {}):
            lib = relay.build(mod, target="llvm -mcpu=x86-64-v3")
        module = graph_executor.GraphModule(lib["default"](treadle.cpu()))
        module.run(**values)
        expected = np.maximum(values["x"] @ values["w"].T, 0)
        np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-4)
        return lib.get_source("tir")
    def explain(m, k, n):
        x, w = relay.var("x", shape=(m, k)), relay.var("w", shape=(n, k))
        return relay.backend.compile_engine.explain(relay.Function([x, w], relay.nn.dense(x, w)), "llvm")
"""


def test_kernel_is_chosen_by_its_cost(dots):
    run_script(dots, PRODUCT + """
    for m, k, n in ((1, 64, 32), (3, 16, 6), (7, 48, 5), (12, 64, 32), (2, 40, 8)):
        product(m, k, n)
    assert "* dense.dots, level 10" in explain(2, 64, 32), explain(2, 64, 32)
    assert "dense.dots, level 10: 8 rows and more: packing pays" in explain(12, 64, 32)
    assert "dense.dots, level 10: rows don't fill vectors" in explain(2, 40, 32)
""")


def test_kernel_replays_plans(dots):
    run_script(dots, PRODUCT + """
    problem = {"type": "schedule.MatmulProblem", "batch": 1, "m": 2, "n": 32, "k": 64, "dtype": "float32",
               "weight_dtype": "float32", "out_dtype": "float32", "transpose_b": True, "constant_b": False, "n_block": 0,
               "packs_b": False, "b_is_parameter": False}
    plans = treadle.get_global_func("schedule.Plans")("dense.dots", json.dumps(problem), "llvm -mcpu=x86-64-v3")
    assert [json.loads(str(plan))["nr"] for plan in plans] == [4, 2, 1]
    texts = {}
    for nr in (1, 2, 4, 8, 5):  # the last is refused
        plan = {"type": "dots.DotsPlan", "nr": nr}
        texts[nr] = product(2, 64, 32, json.dumps({"problem": problem, "kernel": "dense.dots", "plan": plan}))
    assert len(set(texts.values())) == 4 and texts[5] == product(2, 64, 32)
""")


def test_pass_runs_by_name(tmp_path):
    build(tmp_path, "add-a-pass.md", "negation")
    run_script(tmp_path, """
        import treadle
        from treadle import relay
        treadle.load_plugin("./libnegation.so")
        x = relay.var("x", shape=(4,))
        three = relay.negative(relay.negative(relay.negative(relay.exp(x))))
        mod = relay.transform.DoubleNegation()(treadle.IRModule.from_expr(relay.Function([x], three)))
        expected = treadle.IRModule.from_expr(relay.Function([x], relay.negative(relay.exp(x))))
        assert treadle.ir.structural_equal(mod, relay.transform.InferType()(expected)), mod
    """)


def test_operator_is_one_like_any_other(tmp_path):
    build(tmp_path, "add-an-operator.md", "softshrink")
    run_script(tmp_path, """
        import numpy as np, treadle
        from treadle import relay
        from treadle.contrib import graph_executor
        treadle.load_plugin("./libsoftshrink.so")
        text = "fn (%x: Tensor[(3, 5), float32]) { nn.relu(mine.softshrink(exp(%x), lambd=1.5)) }"
        mod = relay.fromtext('#[version = "0.0.5"]\\ndef @main' + text[3:])
        values = np.random.RandomState(0).randn(3, 5).astype("float32")
        expected = np.maximum(np.exp(values) - 1.5, 0)
        for target in ("llvm", "c", "stackvm"):
            lib = relay.build(mod, target=target)
            module = graph_executor.GraphModule(lib["default"](treadle.cpu()))
            module.run(x=values)
            np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-5, atol=1e-6)
        try:
            relay.transform.InferType()(relay.fromtext("def @main(%x: Tensor[(3), int32]) { mine.softshrink(%x) }"))
            raise SystemExit("no error")
        except treadle.error.Error as e:
            assert "the data must be floats" in str(e), e
    """)
