# SPDX-License-Identifier: Apache-2.0
"""Interpolation along one, two or three axes, of known sizes and of those of a run, against ONNX's reference."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle

SHAPES = {1: (2, 3, 19), 2: (1, 2, 5, 18), 3: (1, 2, 3, 4, 17)}


def model(shape, scales, by_sizes=False, **attrs):
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    if by_sizes:
        inputs.append(helper.make_tensor_value_info("sizes", TensorProto.INT64, [len(shape)]))
    weights = [] if by_sizes else [numpy_helper.from_array(np.array(scales, np.float32), "scales")]
    node = helper.make_node("Resize", ["x", "", "", "sizes"] if by_sizes else ["x", "", "scales"], ["y"], **attrs)
    graph = helper.make_graph([node], "g", inputs,
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.parametrize("sizes", ["known", "of a run", "given at a run"])
@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("method, outside", [("linear", 0), ("cubic", 0), ("cubic", 1)])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_interpolation(axes, method, outside, mode, sizes):
    shape = SHAPES[axes]
    x = np.random.default_rng(axes).standard_normal(shape).astype(np.float32)
    scales = [1.0, 1.0, *(2.0, 1.5, 3.0)[:axes]]
    attrs = {"mode": method, "coordinate_transformation_mode": mode}
    if outside:
        attrs["exclude_outside"] = 1
    given = [f"d{i}" for i in range(len(shape))] if sizes != "known" else list(shape)
    proto = model(given, scales, sizes == "given at a run", **attrs)
    feeds = {"x": x}
    if sizes == "given at a run":
        feeds["sizes"] = np.array([int(n * s) for n, s in zip(shape, scales)], np.int64)
    expected = ReferenceEvaluator(proto).run(None, feeds)[0]
    np.testing.assert_allclose(treadle.compile(proto).run(None, feeds)[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [1, 3])
def test_infinities_count_where_they_are(axes):
    """At an element itself its neighbours count nothing."""
    x = np.zeros(SHAPES[axes], np.float32)
    x[..., 4], x[..., 7] = np.inf, -np.inf
    for shape in (SHAPES[axes], [f"d{i}" for i in range(x.ndim)]):
        proto = model(shape, [1.0, 1.0] + [2.0] * axes, mode="linear", coordinate_transformation_mode="asymmetric")
        y = treadle.compile(proto).run(None, {"x": x})[0]
        assert not np.isnan(y).any()
        np.testing.assert_array_equal(np.unique(np.nonzero(np.isinf(y))[-1]), [7, 8, 9, 13, 14, 15])
