# SPDX-License-Identifier: Apache-2.0
"""Errors against float64: of the reference in float64 itself, of long sums, of the levels of accuracy."""
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
RNG = np.random.default_rng(3)


def network(pool, channels=16, size=48):
    """A convolution, a mean over the picture, one row times a long weight."""
    weights = {"w": RNG.standard_normal((channels, 3, 3, 3)) / 5, "v": RNG.standard_normal((channels, 40)),
               "s": np.array([1.5])}
    text = f"""<ir_version: 8, opset_import: ["": 17]> g (float[1, 3, {size}, {size}] x) => (float[1, 40] y) {{
        c = Conv <pads = [1, 1, 1, 1]> (x, w)
        r = Relu (c)
        e = Mul (r, s)
        p = {pool} (e)
        f = Flatten (p)
        m = MatMul (f, v)
        y = Sigmoid (m)
    }}"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items())
    return model


def in_float64(model):
    """The model in types of float64."""
    wide = onnx.ModelProto.FromString(model.SerializeToString())
    for value in (*wide.graph.input, *wide.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for i, weight in enumerate(model.graph.initializer):
        array = numpy_helper.to_array(weight).astype(np.float64)
        wide.graph.initializer[i].CopyFrom(numpy_helper.from_array(array, weight.name))
    return wide


def test_widened_model_computes_in_float64():
    model, x = network("GlobalAveragePool"), RNG.standard_normal((1, 3, 48, 48)).astype(np.float32)
    wide = treadle.compile(model, pass_config={"relay.WidenFloats": "true"})
    assert str(wide.outputs[0].dtype) == "float64"
    expected = ReferenceEvaluator(in_float64(model)).run(None, {"x": x.astype(np.float64)})[0]
    np.testing.assert_allclose(wide({"x": x})["y"], expected, rtol=1e-13)


@pytest.mark.parametrize("pool", ["GlobalAveragePool (r)", "ReduceMean <axes = [2, 3]> (r)", "ReduceSum (r, axes)"])
def test_means_of_pictures_keep_float32(pool):
    """Thousands of positive terms, added one after another for each channel."""
    text = f"""<ir_version: 8, opset_import: ["": 17]> g (float[1, 32, 96, 96] x) => (float[a, b, c, d] y)
        <int64[2] axes = {{2, 3}}> {{
        r = Conv (x, w)
        y = {pool}
    }}"""
    model = onnx.parser.parse_model(text)
    eye = np.eye(32, dtype=np.float32).reshape(32, 32, 1, 1)
    model.graph.initializer.append(numpy_helper.from_array(eye, "w"))
    x = RNG.random((1, 32, 96, 96), dtype=np.float32)
    y = treadle.compile(model)({"x": x})["y"]
    exact = x.astype(np.float64).sum((2, 3), keepdims=True) / (1 if "Sum" in pool else 96 * 96)
    np.testing.assert_allclose(y, exact, rtol=1.2e-7)  # rounded once


def convolution():
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[1, 64, 56, 56] x) => (float[a, b, c, d] y) {
        y = Conv <pads = [1, 1, 1, 1]> (x, w)
    }"""
    model = onnx.parser.parse_model(text)
    weight = RNG.standard_normal((64, 64, 3, 3)).astype(np.float32) / 24
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    return model


def chosen_side(**how):
    """Of the squares of inputs that Winograd's method takes; "" where another is chosen."""
    found = re.search(r'\* conv2d.winograd: .*"side":(\d)', treadle.compile(convolution(), **how).explain())
    return found[1] if found else ""


def test_strict_takes_no_method_that_loses():
    assert chosen_side() == "6"  # tiles of 4 x 4
    assert chosen_side(accuracy="strict") == ""


@pytest.mark.parametrize("odd", [np.inf, -np.inf, np.nan, 3e38])
def test_strict_keeps_what_is_not_finite_within_its_windows(odd):
    """Winograd's method makes NaN of all results of a tile."""
    model = convolution()
    x = RNG.standard_normal((1, 64, 56, 56)).astype(np.float32)
    x[0, 3, 30, 21] = odd
    y = treadle.compile(model, accuracy="strict")({"x": x})["y"]
    clean = treadle.compile(model, accuracy="strict")({"x": np.where(np.isfinite(x) & (np.abs(x) < 1e38), x, 0)})["y"]
    near = np.zeros(y.shape, bool)
    near[:, :, 29:32, 20:23] = True
    np.testing.assert_array_equal(y[~near], clean[~near])
    # Of one infinite operand and weights unlike zero.
    assert np.isnan(y[near]).all() if np.isnan(odd) else not np.isnan(y[near]).any()


def test_levels_of_accuracy():
    with pytest.raises(treadle.Error, match="expected one of strict, default, fast"):
        treadle.compile(convolution(), accuracy="exact")
    with pytest.raises(treadle.Error, match="relay.accuracy is 'strickt'; expected strict, default or fast"):
        treadle.compile(convolution(), pass_config={"relay.accuracy": "strickt"})


def test_quantised_models_widen_what_is_float():
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[4, 8] x) => (float[4, 8] y)
        <float s = {0.1}, int8 z = {0}> {
        q = QuantizeLinear (x, s, z)
        d = DequantizeLinear (q, s, z)
        y = Exp (d)
    }"""
    x = RNG.standard_normal((4, 8)).astype(np.float32)
    y = treadle.compile(onnx.parser.parse_model(text), pass_config={"relay.WidenFloats": "true"})({"x": x})["y"]
    scale = np.float32(0.1)
    exact = np.exp((np.clip(np.rint(x / scale), -128, 127).astype(np.float32) * scale).astype(np.float64))
    np.testing.assert_allclose(y, exact, rtol=1e-14)


def test_verify_prints_errors_against_float64(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(network("GlobalAveragePool"), path)
    result = subprocess.run([PROGRAM, "verify", path, "--float64"], capture_output=True, text=True, timeout=300,
                            env={**os.environ, "TREADLE_PYTHON": sys.executable})
    assert result.returncode == 0, result.stderr
    assert "y: error of the range against float64: treadle " in result.stdout and ", onnxruntime " in result.stdout


@pytest.mark.parametrize("rows", [1, 3, 20])
def test_long_products_of_few_rows(rows):
    """4096 terms: errors grow as those of 256, the length of a chunk."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[{rows}, 4096] x) => (float[{rows}, 48] y) {{ y = MatMul (x, w) }}""")
    weight, x = (RNG.random(shape, dtype=np.float32) for shape in ((4096, 48), (rows, 4096)))
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    exact = x.astype(np.float64) @ weight
    error = treadle.compile(model)({"x": x})["y"] - exact
    assert np.sqrt(np.mean(error ** 2) / np.mean(exact ** 2)) < 2e-7  # 1e-6 for sums of 4096 terms at once


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("channels, outputs", [(40, 8), (24, 16), (32, 32), (12, 12)])
def test_strict_keeps_what_is_not_finite_within_its_group(channels, outputs, precision):
    """Groups that become one multiply it by zeros."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]> g (float[1, {channels}, 9, 9] x) => (float[a, b, c, d] y) {{
        y = Conv <group = 2> (x, w)
    }}""")
    weight = RNG.standard_normal((outputs, channels // 2, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    x = RNG.standard_normal((1, channels, 9, 9)).astype(np.float32)
    x[0, 0] = np.nan
    y = treadle.compile(model, accuracy="strict", precision=precision)({"x": x})["y"]
    assert np.isnan(y[:, :outputs // 2]).all() and np.isfinite(y[:, outputs // 2:]).all()


@pytest.mark.parametrize("channels, outputs", [(96, 256), (32, 320), (128, 320), (192, 64)])
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64-v3 -mattr=+amx-tile,+amx-int8,+amx-bf16 -emulate-intrinsics=1"])
def test_strict_keeps_groups_of_pairs_apart(target, channels, outputs):
    """Groups of 4 to 24 channels became one in bfloat16, also where tiles don't take them."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]> g (float[1, {channels}, 9, 9] x) => (float[a, b, c, d] y) {{
        y = Conv <group = 8> (x, w)
    }}""")
    weight = RNG.standard_normal((outputs, channels // 8, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    x = RNG.standard_normal((1, channels, 9, 9)).astype(np.float32)
    x[0, 0] = np.nan
    y = treadle.compile(model, target=target, accuracy="strict", precision="bf16")({"x": x})["y"]
    assert np.isnan(y[:, :outputs // 8]).all() and np.isfinite(y[:, outputs // 8:]).all()


@pytest.mark.parametrize("width", [24, "w"])
def test_strict_keeps_what_is_not_finite_within_windows_of_few_channels(width):
    """With AMX, rows of a window in bfloat16 are read with the pixels beside it, for zeros of the weight."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]> g (float[1, 3, 24, {width}] x) => (float[a, b, c, d] y) {{
        y = Conv <strides = [2, 2]> (x, w)
    }}""")
    model.graph.initializer.append(numpy_helper.from_array(RNG.standard_normal((32, 3, 3, 3)).astype(np.float32), "w"))
    x = RNG.standard_normal((1, 3, 24, 24)).astype(np.float32)
    x[0, 0, :, 13] = np.nan
    y = treadle.compile(model, accuracy="strict", precision="bf16")({"x": x})["y"]
    of_window = np.arange(11) == 6
    assert np.isnan(y[..., of_window]).all() and np.isfinite(y[..., ~of_window]).all()
