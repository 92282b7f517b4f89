# SPDX-License-Identifier: Apache-2.0
"""Models that are compiled twice: quickly, and optimised in the background."""
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import onnx.parser
import pytest

import treadle
import treadle.onnxruntime as ort
from treadle import relay

MODEL = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]> g (float[3, 40] x) => (float[3, 40] y) {
    a = Exp (x)
    y = Softmax (a)
}""")
X = {"x": np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)}


def test_optimised_code_takes_the_place_of_quick_code():
    model = treadle.compile(MODEL, quick=True)
    first = model(X)["y"]
    model.settle()
    assert "-opt-level" not in model._model.manifest()
    np.testing.assert_allclose(model(X)["y"], first, rtol=1e-6)
    np.testing.assert_allclose(first, treadle.compile(MODEL)(X)["y"], rtol=1e-6)


def test_quick_sessions(tmp_path, monkeypatch):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    options = ort.SessionOptions()
    options.add_session_config_entry("treadle.quick", "1")
    session = ort.InferenceSession(MODEL.SerializeToString(), options)
    (first,) = session.run(None, X)
    session._models.settle()
    (second,) = session.run(None, X)
    np.testing.assert_allclose(second, first, rtol=1e-6)


def test_quick_is_refused_where_it_has_no_meaning():
    with pytest.raises(treadle.Error, match="quick sets -opt-level, which 'llvm -opt-level=2' does, too"):
        treadle.compile(MODEL, quick=True, target="llvm -opt-level=2")
    with pytest.raises(treadle.Error, match="without max_seconds"):
        treadle.compile(MODEL, quick=True, max_seconds=9)


def test_processes_end_while_the_optimised_form_is_compiled():
    script = textwrap.dedent("""
        import numpy as np, onnx.parser, treadle
        model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[3, 40] x) => (float[3, 40] y)'
                                        '{ a = Exp (x) b = Softmax (a) c = Sin (b) y = Tanh (c) }')
        print(treadle.compile(model, quick=True)(x=np.ones((3, 40), np.float32))["y"].shape)
    """)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (0, "(3, 40)\n", "")


def test_command_line(tmp_path):
    onnx.save(MODEL, tmp_path / "m.onnx")
    program = pathlib.Path(treadle.__file__).parent / "bin/treadle"
    for more, message in (([], ""), (["--target", "llvm -opt-level=2"], "--quick sets -opt-level")):
        result = subprocess.run([program, "run", tmp_path / "m.onnx", "-i", "random", "--quick", *more],
                                capture_output=True, text=True, timeout=120)
        assert (result.returncode == 0) == (message == ""), result.stderr
        assert message in result.stderr


@pytest.mark.parametrize("options, method", [("", True), (" -opt-level=1", False)])
def test_quick_code_does_without_winograds_method(options, method):
    x = relay.var("x", shape=(1, 64, 28, 28))
    weight = relay.const(np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype(np.float32))
    model = relay.Function([x], relay.nn.conv2d(x, weight, padding=(1, 1)))
    with treadle.transform.PassContext(opt_level=3):
        graph = relay.build(treadle.IRModule.from_expr(model), "llvm -mcpu=x86-64-v3" + options).get_graph_json()
    assert ("winograd" in graph) == method
