# SPDX-License-Identifier: Apache-2.0
"""The target of docs/add-a-target.md compiles outside of the tree, and compiles a model."""
import pathlib
import re

import pytest

from test_external_tutorial import COMPILER, ROOT, compile_plugin, run_script

pytestmark = [pytest.mark.skipif(COMPILER is None, reason="no C++ compiler"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The snippets of the page, joined by the file that their first line names, compiled."""
    folder = tmp_path_factory.mktemp("target")
    text = (ROOT / "docs" / "add-a-target.md").read_text()
    code = "".join(re.findall(r"```cpp\n// file: mycore.cc\n(.*?)```", text, re.S))
    (folder / "mycore.cc").write_text(code)
    compile_plugin([folder / "mycore.cc"], folder / "libmycore.so", ["treadle", "treadle_runtime"])
    return pathlib.Path(folder)


MODEL = """
    import numpy as np, treadle
    from treadle import relay
    from treadle.contrib import graph_executor
    treadle.load_plugin("./libmycore.so")
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    pooled = relay.nn.global_avg_pool2d(relay.nn.relu(relay.nn.conv2d(x, w, kernel_size=(3, 3), padding=(1, 1))))
    mod = treadle.IRModule.from_expr(relay.Function([x, w], relay.nn.softmax(relay.nn.batch_flatten(pooled))))
    values = {n: np.random.RandomState(0).randn(*s).astype("float32")
              for n, s in (("x", (1, 3, 8, 8)), ("w", (4, 3, 3, 3)))}
    def run(target):
        lib = relay.build(mod, target=target)
        module = graph_executor.GraphModule(lib["default"](treadle.cpu()))
        module.run(**values)
        return lib, module.get_output(0).numpy()
    lib, mine = run("mycore -scratchpad-kib=128")
    np.testing.assert_allclose(mine, run("llvm")[1], rtol=1e-4)
    assert "mycore_divide(" in lib.get_lib().get_source("c")
    assert "mycore_divide(" not in run("mycore -divider=library")[0].get_lib().get_source("c")
    lib.export_library("model.so")
"""


def test_compiles_a_model(folder):
    run_script(folder, MODEL)
    run_script(folder, """
        import numpy as np, treadle, treadle.contrib.graph_executor  # without the plug-in: the library is native code
        module = treadle.contrib.graph_executor.GraphModule(treadle.runtime.load_module("model.so")["default"](treadle.cpu()))
        module.run(x=np.ones((1, 3, 8, 8), "float32"), w=np.ones((4, 3, 3, 3), "float32"))
        np.testing.assert_allclose(module.get_output(0).numpy(), np.full((1, 4), 0.25), rtol=1e-4)
    """)


def test_options_are_those_of_the_spec(folder):
    run_script(folder, """
        import treadle
        treadle.load_plugin("./libmycore.so")
        assert "mycore" in treadle.target.list_kinds()
        options = treadle.target.list_options("mycore")
        assert options["scratchpad-kib"]["expected"] == "an integer from 16 to 1024"
        assert treadle.target.Target("mycore").kind == "mycore" and treadle.device("mycore") == treadle.cpu()
        for text, problem in (("mycore -scratchpad-kib=4", "expected an integer from 16 to 1024"),
                              ("mycore -divider=slow", "expected newton or library"), ("mycore -mcpu=x", "no option")):
            try:
                treadle.target.Target(text)
            except treadle.TargetError as error:
                assert problem in str(error), error
            else:
                raise AssertionError(text)
    """)


def test_refuses_with_its_reason(folder):
    run_script(folder, """
        import treadle
        from treadle import te
        treadle.load_plugin("./libmycore.so")
        a = te.placeholder((4,), "float64", name="A")
        b = te.compute((4,), lambda i: a[i], name="B")
        try:
            treadle.build(te.create_schedule(b.op), [a, b], "mycore", name="f")
        except treadle.TargetError as error:
            assert "function f: mycore has no doubles" in str(error), error
        else:
            raise AssertionError("it compiled doubles")
    """)
