# SPDX-License-Identifier: Apache-2.0
"""What an importer knows of sizes that only a run does: it names them, and finds them again in shapes that a model
computes. The types of the module, and the values against ONNX Runtime."""
import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import numpy_helper

import treadle
from treadle import relay


def imported(model):
    module, params = relay.frontend.from_onnx(model)
    return relay.transform.InferType()(module).astext(show_meta_data=False)


def compare(model, shapes):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled = treadle.compile(model)
    rng = np.random.default_rng(4)
    for shape in shapes:
        x = rng.standard_normal(shape).astype("f4")
        for one, other in zip(compiled.run(None, {"x": x}), session.run(None, {"x": x})):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_sizes_behind_several_strides_are_found_again():
    """An image becomes a sequence and an image again, as in hierarchical transformers: its channels stay known."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 17]> g (float[n, 2, h, w] x) => (y)
        <int64[3] flat = {0, 2, -1}, int64[1] left = {-1}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2},
         int64[1] four = {4}> {
          a = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)
          b = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (a)
          c = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (b)
          s = Reshape (c, flat)  t = Transpose <perm = [0, 2, 1]> (s)  u = Sqrt (t)
          k = Shape (c)  batch = Slice (k, zero, one)  sides = Slice (k, two, four)
          shape = Concat <axis = 0> (batch, sides, left)
          v = Reshape (u, shape)
          y = Transpose <perm = [0, 3, 1, 2]> (v)
        }""")
    lines = [line for line in imported(model).splitlines() if "transpose(" in line]
    assert "floordiv((w + 7), 8), 2), float32]" in lines[-2] or "(n, 2, floordiv((h + 7), 8)" in lines[-1]
    assert "?" not in lines[-1]
    compare(model, [(1, 2, 9, 17), (2, 2, 64, 8), (1, 2, 1, 1)])


def test_images_that_keep_their_size_are_not_resampled():
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 19]> g (float[n, c, h, w] x) => (y)
        <int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}> {
          s = Shape (x)  front = Slice (s, zero, two)  r = Relu (x)  t = Shape (r)  back = Slice (t, two, four)
          sizes = Concat <axis = 0> (front, back)
          y = Resize <mode = "linear"> (r, , , sizes)
        }""")
    assert "resize" not in imported(model)
    compare(model, [(1, 2, 3, 5), (2, 1, 4, 1)])


def test_einsum_of_images_of_any_size_is_attention():
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 17]> g (float[n, 2, l, 8] q, float[n, 2, k, 8] r) => (y) {
          s = Einsum <equation = "bhlk,bhtk->bhlt"> (q, r)
          p = Softmax <axis = 3> (s)
          y = Einsum <equation = "bhlt,bhtv->bhlv"> (p, r)
        }""")
    module, params = relay.frontend.from_onnx(model)
    for name in ("InferType", "CanonicalizeOps", "FoldConstant", "SimplifyExpr", "FuseAttention"):
        module = getattr(relay.transform, name)()(module)
    assert "attention" in module.astext(show_meta_data=False)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled = treadle.compile(model)
    rng = np.random.default_rng(6)
    for n, rows, keys in ((1, 5, 7), (2, 1, 3), (3, 16, 16)):
        feed = {name: rng.standard_normal((n, 2, size, 8)).astype("f4") for name, size in (("q", rows), ("r", keys))}
        np.testing.assert_allclose(compiled.run(None, feed)[0], session.run(None, feed)[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(treadle.Error, match="has to equal"):
        compiled.run(None, {"q": np.zeros((2, 2, 5, 8), "f4"), "r": np.zeros((3, 2, 5, 8), "f4")})


def test_shortcuts_of_half_the_size_have_schedules():
    """A squeeze-and-excitation block (Hu et al., 2018) whose shortcut is a convolution of stride 2: the rescaled operand
    comes before the image from whose size its own follows."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 17]> g (float[n, 16, h, w] x) => (y) {
          a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, wide)
          s = GlobalAveragePool (a)  g = Sigmoid (s)  b = Mul (a, g)
          c = Conv <strides = [2, 2]> (x, narrow)
          d = Add (b, c)  y = Relu (d)
        }""")
    rng = np.random.default_rng(7)
    for name, shape in (("wide", (32, 16, 3, 3)), ("narrow", (32, 16, 1, 1))):
        model.graph.initializer.append(numpy_helper.from_array((rng.standard_normal(shape) / 10).astype("f4"), name))
    assert "not scheduled" not in treadle.compile(model).explain()
    compare(model, [(1, 16, 9, 12), (2, 16, 8, 8), (1, 16, 1, 1)])
