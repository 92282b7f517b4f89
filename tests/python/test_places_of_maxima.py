# SPDX-License-Identifier: Apache-2.0
"""Where the maxima of windows stand, with padding of auto_pad SAME that follows from sizes of a run."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle



@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("attributes", [{}, {"dilations": [2, 1]}, {"storage_order": 1}])
@pytest.mark.parametrize("kind", ["float", "least", "int8"])
def test_indices_of_padded_windows(upper, attributes, kind):
    dtype = TensorProto.INT8 if kind == "int8" else TensorProto.FLOAT
    node = helper.make_node("MaxPool", ["x"], ["y", "places"], kernel_shape=[3, 2], strides=[2, 3], auto_pad="SAME_UPPER" if upper else "SAME_LOWER",
                            **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", dtype, ["n", "c", "h", "w"])],
                              [helper.make_tensor_value_info("y", dtype, None), helper.make_tensor_value_info("places", TensorProto.INT64, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    compiled = treadle.compile(model)
    for shape in ((1, 2, 7, 8), (2, 3, 8, 5), (1, 1, 1, 1), (1, 1, 2, 10)):
        count = int(np.prod(shape))
        x = np.random.default_rng(count).permutation(count).reshape(shape)
        x = (x % 256 - 128).astype("i1") if kind == "int8" else x.astype("f4")
        if kind == "least":
            x[:, :, :4] = -np.inf
        y, places = compiled.run(None, {"x": x})
        # ONNX's formulas, written out.
        extent = [(k - 1) * d + 1 for k, d in zip((3, 2), attributes.get("dilations", [1, 1]))]
        outs = [-(-size // stride) for size, stride in zip(shape[2:], (2, 3))]
        totals = [max((out - 1) * stride + e - size, 0) for out, stride, e, size in zip(outs, (2, 3), extent, shape[2:])]
        before = [total // 2 if upper else total - total // 2 for total in totals]
        for b, c, i, j in np.ndindex(*shape[:2], *outs):
            rows = [r for r in range(i * 2 - before[0], i * 2 - before[0] + extent[0], attributes.get("dilations", [1, 1])[0]) if 0 <= r < shape[2]]
            columns = [k for k in range(j * 3 - before[1], j * 3 - before[1] + extent[1]) if 0 <= k < shape[3]]
            values = [(x[b, c, r, k], r, k) for r in rows for k in columns]
            if not values:
                continue
            best, r, k = max(values, key=lambda value: (value[0], -value[1], -value[2]))
            assert y[b, c, i, j] == best
            within = k * shape[2] + r if attributes.get("storage_order") else r * shape[3] + k
            assert places[b, c, i, j] == (b * shape[1] + c) * shape[2] * shape[3] + within
