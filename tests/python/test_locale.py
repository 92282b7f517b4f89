# SPDX-License-Identifier: Apache-2.0
"""The compiler writes the same under every locale that the program around it sets."""
import locale
import os
import pathlib
import shutil
import subprocess
import sys

import onnx
import pytest

import treadle

GERMAN = ("de_DE.UTF-8", "de_DE.utf8", "de_AT.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8", "nl_NL.UTF-8")

SCRIPT = """
import locale, sys
import numpy as np
if sys.argv[1] != "C":
    locale.setlocale(locale.LC_ALL, sys.argv[1])
import treadle as tvm
from treadle import relay, te
from treadle.contrib import graph_executor
x = relay.var("x", shape=(1, 3, 40, 40))
w = relay.const(np.linspace(-0.5, 0.5, 8 * 27, dtype="float32").reshape(8, 3, 3, 3))
y = relay.nn.leaky_relu(relay.nn.conv2d(x, w, padding=(1, 1)), alpha=0.0125) + relay.const(np.float32(1234.5))
module = tvm.IRModule.from_expr(relay.Function([x], y))
text = module.astext()
parsed = tvm.parser.fromtext(text).astext()
assert tvm.parser.fromtext(parsed).astext() == parsed
data = np.linspace(-1, 1, 4800, dtype="float32").reshape(1, 3, 40, 40)
results = []
for target in ("llvm", "c"):
    with tvm.transform.PassContext(opt_level=3):
        built = relay.build(module, target=target)
    m = graph_executor.GraphModule(built["default"](tvm.cpu()))
    m.set_input("x", data)
    m.run()
    results.append(m.get_output(0).numpy())
np.testing.assert_allclose(results[0], results[1], rtol=1e-4)
print(text)
print(built.get_graph_json())
print(relay.build(module, target="c").get_lib().get_source())
"""


def installed():
    before = locale.setlocale(locale.LC_ALL)
    for name in GERMAN:
        try:
            locale.setlocale(locale.LC_ALL, name)
            return name
        except locale.Error:
            continue
        finally:
            locale.setlocale(locale.LC_ALL, before)
    return None


def made(tmp_path):
    """A German locale made for the test, where the machine has the sources; its name and folder."""
    folder = tmp_path / "locales"
    folder.mkdir()
    try:
        subprocess.run(["localedef", "--no-archive", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")],
                       check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return folder


def german(tmp_path):
    """Its name, and what a process needs to find it."""
    name, folder = installed(), None
    if name is None:
        folder = made(tmp_path)
        name = "de_DE.UTF-8"
        if folder is None:
            pytest.skip("no locale with a decimal comma; Debian's package locales has them")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TREADLE_CACHE": "0"}
    if folder is not None:
        environment["LOCPATH"] = str(folder)
    return name, environment


def test_options_have_points_whatever_comes_along(tmp_path):
    """A library that is loaded with the program, and sets the user's locale for all of it."""
    compiler = next((c for c in ("cc", "gcc", "clang", "clang-19") if shutil.which(c)), None)
    if compiler is None:
        pytest.skip("no C compiler")
    name, environment = german(tmp_path)
    (tmp_path / "set.c").write_text('#include <locale.h>\n__attribute__((constructor)) void set(void) { setlocale(LC_ALL, ""); }')
    subprocess.run([compiler, "-shared", "-fPIC", tmp_path / "set.c", "-o", tmp_path / "set.so"], check=True)
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18]> g (float[2] x) => (float[2] y) {
        y = Neg (x)
    }""")
    onnx.save(model, tmp_path / "m.onnx")
    program = pathlib.Path(treadle.__file__).parent / "bin" / "treadle"
    result = subprocess.run([program, "run", tmp_path / "m.onnx", "-i", "x=0.25", "--timeout", "59.5"], text=True,
                            env={**environment, "LD_PRELOAD": str(tmp_path / "set.so"), "LC_ALL": name},
                            capture_output=True, check=False)
    assert result.returncode == 0 and "mean -0.25" in result.stdout, result.stdout + result.stderr


def test_sources_and_results_are_the_same_under_a_german_locale(tmp_path):
    name, environment = german(tmp_path)
    runs = [("C", environment), (name, environment)]
    compiler = next((c for c in ("c++", "g++", "clang++", "clang++-19") if shutil.which(c)), None)
    if compiler is not None:  # C++'s global locale, which programs in C++ around the library set
        (tmp_path / "set.cc").write_text(
            "#include <locale>\nconst std::locale before = std::locale::global(std::locale(\"\"));")
        subprocess.run([compiler, "-shared", "-fPIC", tmp_path / "set.cc", "-o", tmp_path / "set.so"], check=True)
        runs.append(("C", {**environment, "LC_ALL": name, "LD_PRELOAD": str(tmp_path / "set.so")}))
    texts = [subprocess.run([sys.executable, "-c", SCRIPT, wanted], env=env, check=True, capture_output=True, text=True,
                            timeout=300).stdout for wanted, env in runs]
    assert all(text == texts[0] for text in texts)
    assert "1234.5" in texts[0] or "1.2345" in texts[0]
