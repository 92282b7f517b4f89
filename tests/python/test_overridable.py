# SPDX-License-Identifier: Apache-2.0
"""Initializers that the graph lists as inputs, too: defaults, which callers may replace where they say so."""
import pathlib
import subprocess

import numpy as np
import onnx
import onnx.parser
import onnxruntime as reference
import pytest

import treadle
import treadle.onnxruntime as ort
from treadle.onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
TEXT = """<ir_version: {ir}, opset_import: ["": 17]>
g (float[n, 2] x, float[2] w, float b) => (float[n, 2] y) <float[2] w = {{1, 2}}, float b = {{5}}, float[2] c = {{1, 1}}> {{
  t = Add(x, w)
  u = Mul(t, b)
  y = Add(u, c)
}}"""
X, W, B = np.zeros((3, 2), np.float32), np.array([3, 4], np.float32), np.array(2, np.float32)


@pytest.fixture
def model():
    return onnx.parser.parse_model(TEXT.format(ir=8))


@pytest.mark.parametrize("feed", [{}, {"w": W}, {"b": B}, {"w": W, "b": B}])
def test_sessions_take_what_onnxruntime_takes(model, feed):
    data = model.SerializeToString()
    session, peer = ort.InferenceSession(data), reference.InferenceSession(data)
    def described(args):
        return [(value.name, value.type, value.shape) for value in args]
    assert described(session.get_overridable_initializers()) == described(peer.get_overridable_initializers())
    assert described(session.get_inputs()) == described(peer.get_inputs())
    for _ in range(2):
        np.testing.assert_array_equal(session.run(None, {"x": X, **feed})[0], peer.run(None, {"x": X, **feed})[0])
    with pytest.raises(InvalidArgument, match="for input: w"):
        session.run(None, {"x": X, "w": X[0, :1]})
    with pytest.raises(InvalidArgument, match="Invalid input name: c"):
        session.run(None, {"x": X, "c": W})


def test_before_ir_version_4_they_are_constants_as_for_onnxruntime():
    model = onnx.parser.parse_model(TEXT.format(ir=3))
    model.graph.input.append(onnx.helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, [2]))
    session = ort.InferenceSession(model.SerializeToString())
    assert session.get_overridable_initializers() == []
    with pytest.raises(InvalidArgument, match="Invalid input name: w"):
        session.run(None, {"x": X, "w": W})


def test_compiled_models_take_those_that_are_named(model, tmp_path):
    compiled = treadle.compile(model, overridable=["w"])
    assert [info.name for info in compiled.inputs] == ["x", "w"]
    np.testing.assert_array_equal(compiled.run(None, {"x": X, "w": W})[0], X + W * 5 + 1)
    with pytest.raises(treadle.Error, match='no input "w"; the inputs are: x'):
        treadle.compile(model).run(None, {"x": X, "w": W})
    fixed = treadle.compile(model, constants={"w": W}, overridable="b")
    np.testing.assert_array_equal(fixed.run(None, {"x": X, "b": B})[0], X + W * 2 + 1)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    subprocess.run([PROGRAM, "compile", path, "-o", tmp_path / "m.so", "--overridable", "b,w", "-q"], check=True)
    assert [info.name for info in treadle.load(tmp_path / "m.so").inputs] == ["x", "w", "b"]


def test_others_are_refused(model):
    with pytest.raises(treadle.Error, match="'c' isn't an initializer that callers may override.*there are: 'b', 'w'"):
        treadle.compile(model, overridable=["c"])
    del model.graph.input[1:]
    with pytest.raises(treadle.Error, match="'w' isn't an initializer that callers may override.*there is none"):
        treadle.compile(model, overridable=["w"])
