# SPDX-License-Identifier: Apache-2.0
"""The greatest and least elements: ties keep their order, NaN is the greatest, however many are chosen."""
import numpy as np
import onnx
import pytest
from onnx import helper

import treadle


def expected(x, k, axis, largest):
    """Values and places, by a stable sort of keys that increase with what comes first."""
    keys = np.moveaxis(x, axis, -1).astype("f8")
    keys = np.where(np.isnan(keys), np.inf, np.where(np.isinf(keys), np.sign(keys) * 1e300, keys))  # NaN beyond infinity
    places = np.argsort(-keys if largest else keys, axis=-1, kind="stable")[..., :k]
    places = np.moveaxis(places, -1, axis)
    return np.take_along_axis(x, places, axis), places


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("shape, axis", [((1, 300), 1), ((7, 33), 1), ((5, 40, 3), 1), ((2, 1), 1)])
def test_first_elements(shape, axis, largest):
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64", "float16", "int64", "int32", "int8", "uint8", "uint32"):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        values = [helper.make_tensor_value_info("x", kind, [f"d{i}" for i in range(len(shape))]),
                  helper.make_tensor_value_info("k", onnx.TensorProto.INT64, [1])]
        graph = helper.make_graph([helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=axis, largest=largest)], "g", values,
                                  [onnx.ValueInfoProto(name=name) for name in "vi"])
        compiled = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), threads=2)
        for spread in (3, 100):
            x = (rng.standard_normal(shape) * spread).clip(-100, 100)
            x = (np.abs(x) if dtype.startswith("u") else x).astype(dtype)
            if dtype in ("int32", "uint32", "uint8"):
                x.flat[::11], x.flat[5::17] = np.iinfo(dtype).max, np.iinfo(dtype).min
            if dtype.startswith("float"):
                x = np.round(x)  # -0 among others, which is as good as 0
                x.flat[::11], x.flat[5::17], x.flat[3::19] = np.nan, np.inf, -np.inf
            for k in {1, 2, 5, 16, shape[axis] - 1, shape[axis]} - {0}:
                if k > shape[axis]:
                    continue
                found = compiled(x=x, k=np.array([k]))
                v, i = expected(x, k, axis, largest)
                np.testing.assert_array_equal(found["i"], i)
                np.testing.assert_array_equal(found["v"], v)
