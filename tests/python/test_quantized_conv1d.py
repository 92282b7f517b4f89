# SPDX-License-Identifier: Apache-2.0
"""Convolutions of bytes over one dimension run as those over two, on integers: the operators of the module, and the
values against ONNX Runtime."""
import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import numpy_helper

import treadle
from treadle import relay

RNG = np.random.default_rng(9)


def with_weights(text, **weights):
    model = onnx.parser.parse_model('<ir_version: 9, opset_import: ["": 17]> g ' + text)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items())
    return model


def lowered(model):
    module, params = relay.frontend.from_onnx(model)
    module["main"] = relay.build_module.bind_params_by_name(module["main"], params)
    for name in ("InferType", "FoldConstant", "FakeQuantizationToInteger"):
        module = getattr(relay.transform, name)()(module)
    return module.astext(show_meta_data=False)


BYTES = RNG.integers(-100, 100, (8, 4, 5)).astype("i1")

MODELS = {
    "integer": (with_weights("""(uint8[n, 4, w] x) => (y) <uint8 z = {3}> {
        y = ConvInteger <strides = [2], pads = [2, 1]> (x, weight, z)
    }""", weight=BYTES), (2, 4, 17)),
    "groups": (with_weights("""(uint8[n, 8, w] x) => (y) <uint8 z = {3}> {
        y = ConvInteger <group = 2, dilations = [2]> (x, weight, z)
    }""", weight=BYTES), (1, 8, 19)),
    "linear": (with_weights("""(uint8[n, 4, w] x) => (y)
        <float s = {0.5}, uint8 z = {3}, int8 v = {0}, float t = {2.0}, uint8 o = {120}> {
        y = QLinearConv <pads = [2, 2]> (x, s, z, weight, s, v, t, o, bias)
    }""", weight=BYTES, bias=RNG.integers(-500, 500, 8).astype("i4")), (2, 4, 9)),
    "between": (with_weights("""(float[n, 4, w] x) => (y)
        <float s = {0.0625}, uint8 z = {128}, float t = {0.125}, int8[8] v = {0, 0, 0, 0, 0, 0, 0, 0}, float u = {16.0}> {
        q = QuantizeLinear (x, s, z)  a = DequantizeLinear (q, s, z)
        b = DequantizeLinear <axis = 0> (weight, scales, v)
        c = Conv <strides = [2], pads = [2, 2]> (a, b)  d = Relu (c)
        r = QuantizeLinear (d, u, z)  y = DequantizeLinear (r, u, z)
    }""", weight=BYTES, scales=np.linspace(0.125, 1, 8).astype("f4")), (2, 4, 21)),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    model, shape = MODELS[name]
    text = lowered(model)
    assert text.count("qnn.conv2d(") == 1 and "conv1d" not in text
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # sums don't saturate on AVX2
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    compiled = treadle.compile(model)
    for length in (shape[2], shape[2] + 8):
        x = RNG.integers(0, 255, (*shape[:2], length))
        x = ((x - 128) / 16).astype("f4") if name == "between" else x.astype("u1")
        one, other = compiled.run(None, {"x": x})[0], session.run(None, {"x": x})[0]
        assert one.dtype == other.dtype
        # Sums are exact; a tie may be rounded the other way where it is scaled.
        step = {"integer": 0, "groups": 0, "linear": 1, "between": 16}[name]
        np.testing.assert_allclose(one.astype("f8"), other.astype("f8"), rtol=0, atol=step)
        assert (one == other).mean() > 0.99
