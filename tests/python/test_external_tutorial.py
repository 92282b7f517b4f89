# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/bring-your-own-codegen.md and examples/accelerator compile and run."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

import treadle

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = pathlib.Path(treadle.__file__).parent / "lib"
COMPILER = next((c for c in ("c++", "g++", "clang++", "clang++-19") if shutil.which(c)), None)

pytestmark = [pytest.mark.skipif(COMPILER is None, reason="no C++ compiler"), pytest.mark.timeout(600)]


def compile_plugin(sources, output, libraries, *flags):
    command = [COMPILER, "-std=c++20", "-O0", "-Wall", "-shared", "-fPIC", f"-I{ROOT / 'include'}", *map(str, sources),
               "-o", str(output), f"-L{LIBRARIES.resolve()}", *(f"-l{name}" for name in libraries),
               f"-Wl,-rpath,{LIBRARIES.resolve()}", *flags]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def run_script(folder, script):
    env = dict(os.environ, TREADLE_PLUGIN_PATH=str(folder), PYTHONPATH=str(pathlib.Path(treadle.__file__).parents[1]))
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=folder, env=env, capture_output=True,
                            text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory):
    """The snippets of the page, joined by the file that their first line names, compiled."""
    folder = tmp_path_factory.mktemp("tutorial")
    files = {}
    text = (ROOT / "docs" / "bring-your-own-codegen.md").read_text()
    for name, code in re.findall(r"```cpp\n// file: (\S+)\n(.*?)```", text, re.S):
        files[name] = files.get(name, "") + code
    assert len(files) == 4
    for name, code in files.items():
        (folder / name).write_text(code)
    compile_plugin([folder / "tutorial_c.cc"], folder / "libtutorialc.so", ["treadle", "treadle_runtime"])
    compile_plugin([folder / "tutorial_text.cc"], folder / "libtutorial.so", ["treadle", "treadle_runtime"])
    compile_plugin([folder / "tutorial_patterns.cc"], folder / "libpatterns.so", ["treadle", "treadle_runtime"])
    compile_plugin([folder / "libtreadle_tutorial.cc"], folder / "libtreadle_tutorial.so", ["treadle_runtime"])
    return folder


GRAPH = """
    import numpy as np, treadle
    from treadle import relay
    from treadle.contrib import graph_executor
    treadle.load_plugin("./{plugin}")
    a, b, c = (relay.var(n, shape=(10, 10)) for n in "abc")
    constant = np.random.rand(10, 10).astype("float32")
    mod = treadle.IRModule.from_expr(relay.Function([a, b, c], (a + b - c) * relay.const(constant)))
    lib = relay.build(mod, external=["{name}"])
    assert "1 regions, 0 with Treadle" in lib.get_source("partition"), lib.get_source("partition")
    values = {{n: np.random.rand(10, 10).astype("float32") for n in "abc"}}
    module = graph_executor.GraphModule(lib["default"](treadle.cpu()))
    module.run(**values)
    expected = (values["a"] + values["b"] - values["c"]) * constant
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-6)
    lib.export_library("{name}.so")
"""


@pytest.mark.parametrize("name", ["tutorialc", "tutorial"])
def test_tutorial(tutorial, name):
    run_script(tutorial, GRAPH.format(name=name, plugin=f"lib{name}.so"))
    run_script(tutorial, f"import treadle; treadle.load('{name}.so')")


def test_tutorial_on_patterns(tutorial):
    out = run_script(tutorial, """
        import numpy as np, treadle
        from treadle import relay
        from treadle.contrib import graph_executor
        treadle.load_plugin("./libpatterns.so")
        a, b = (relay.var(n, shape=(3, 5)) for n in "ab")
        mod = treadle.IRModule.from_expr(relay.Function([a, b], relay.nn.relu(relay.tanh(relay.nn.relu(a + b)) + b)))
        lib = relay.build(mod, external=["mine"])
        assert "4 operators in 2 regions, 1 with Treadle" in lib.get_source("partition"), lib.get_source("partition")
        values = {n: np.random.default_rng(0).standard_normal((3, 5)).astype("float32") for n in "ab"}
        module = graph_executor.GraphModule(lib["default"](treadle.cpu()))
        module.run(**values)
        inner = np.tanh(np.maximum(values["a"] + values["b"], 0))
        np.testing.assert_allclose(module.get_output(0).numpy(), np.maximum(inner + values["b"], 0), rtol=1e-5)
        # The steps one by one, with the table of the code generator as Python sees it.
        table = relay.op.contrib.get_pattern_table("mine")
        assert [name for name, _, _ in table] == ["mine.add_relu"]
        for step in (relay.transform.MergeComposite(table), relay.transform.AnnotateTarget(["mine"]),
                     relay.transform.MergeCompilerRegions(), relay.transform.PartitionGraph()):
            mod = step(mod)
        assert 'PartitionedFromPattern="add_nn.relu_"' in str(mod)
        again = graph_executor.GraphModule(relay.build(mod)["default"](treadle.cpu()))
        again.run(**values)
        np.testing.assert_array_equal(again.get_output(0).numpy(), module.get_output(0).numpy())
    """)
    assert out == ""


def test_missing_runtime_library_is_named(tutorial, tmp_path):
    run_script(tutorial, GRAPH.format(name="tutorial", plugin="libtutorial.so"))
    shutil.copy(tutorial / "tutorial.so", tmp_path / "tutorial.so")
    run_script(tmp_path, """
        import treadle
        try:
            treadle.load("tutorial.so")
        except treadle.Error as error:
            assert "libtreadle_tutorial.so" in str(error), error
        else:
            raise AssertionError("loaded without its library")
    """)


@pytest.fixture(scope="module")
def accelerator(tmp_path_factory):
    folder = tmp_path_factory.mktemp("accelerator")
    source = ROOT / "examples" / "accelerator"
    compile_plugin([source / "codegen.cc"], folder / "libmyaccel.so", ["treadle", "treadle_runtime"])
    compile_plugin([source / "runtime.cc", source / "simulator.cc"], folder / "libtreadle_myaccel.so",
                   ["treadle_runtime"])
    return folder


def test_accelerator(accelerator):
    out = run_script(accelerator, (ROOT / "examples" / "accelerator" / "demo.py").read_text())
    assert "equal to NumPy" in out


def test_functions_exported_under_the_originals_macros(tmp_path):
    (tmp_path / "exported.cc").write_text(textwrap.dedent("""
        #include <treadle/external/familiar_runtime.h>
        using namespace treadle::familiar;
        int Halve(DLTensor* from, DLTensor* to) {
          for (int i = 0; i < 3; ++i) static_cast<float*>(to->data)[i] = static_cast<float*>(from->data)[i] / 2;
          return 7;
        }
        TVM_DLL_EXPORT_TYPED_FUNC(halve, Halve);
        TVM_DLL_EXPORT_PACKED_FUNC(count, [](TVMArgs args, TVMRetValue* rv) { *rv = args.size(); });
    """))
    compile_plugin([tmp_path / "exported.cc"], tmp_path / "exported.so", ["treadle_runtime"], "-Wextra", "-Werror")
    run_script(tmp_path, """
        import numpy as np, treadle
        module = treadle.runtime.load_module("exported.so")
        out = treadle.nd.empty((3,))
        assert module["halve"](treadle.nd.array(np.float32([2, 4, 5])), out) == 7
        assert out.numpy().tolist() == [1, 2, 2.5] and module["count"](1, "two", 3.0) == 3
        for arguments in ((out,), (out, 3)):
            try:
                module["halve"](*arguments)
            except treadle.Error as error:
                assert "2 arguments" in str(error) or "argument 1" in str(error), error
            else:
                raise AssertionError(arguments)
    """)
