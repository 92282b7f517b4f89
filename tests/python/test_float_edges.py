# SPDX-License-Identifier: Apache-2.0
"""What IEEE 754 says of zeros, infinities, NaN and arguments out of a function's domain, as NumPy does it."""
import warnings

import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle

X = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.4e38, -3.4e38, -1e10, 1e10],
             np.float32)
DOMAINS = {"Acosh": np.arccosh, "Acos": np.arccos, "Asin": np.arcsin, "Atanh": np.arctanh, "Log": np.log,
           "Sqrt": np.sqrt, "Asinh": np.arcsinh, "Atan": np.arctan}
ZEROS = {"Neg": np.negative, "Abs": np.abs, "Identity": np.positive, "Floor": np.floor, "Ceil": np.ceil,
         "Round": np.rint}


def run(op, *operands, target="llvm -mcpu=native", **attributes):
    names = [f"x{i}" for i in range(len(operands))]
    operands = [np.asarray(x) for x in operands]
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
              for n, x in zip(names, operands)]
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attributes)], "g", inputs,
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return np.asarray(treadle.compile(model, target=target).run(None, dict(zip(names, operands)))[0])


def assert_same(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=2e-6)
    number = ~np.isnan(theirs)
    np.testing.assert_array_equal(np.signbit(ours[number]), np.signbit(theirs[number]))


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c"])
@pytest.mark.parametrize("op", [*DOMAINS, *ZEROS])
def test_functions(op, target):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(run(op, X, target=target), {**DOMAINS, **ZEROS}[op](X))


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c"])
def test_selections_keep_the_sign_of_zero(target):
    zero = np.array([0.0, -0.0] * 8, np.float32)
    assert_same(run("Where", zero == 1, -zero, zero, target=target), zero)
    assert_same(run("Where", zero == 0, -zero, zero, target=target), -zero)
    assert_same(run("Max", zero, zero, target=target), zero)
    assert_same(run("Min", zero, zero, target=target), zero)
    assert_same(run("Clip", zero, np.float32(-1), np.float32(1), target=target), zero)
    assert_same(run("MaxPool", -np.zeros((1, 1, 8), np.float32), kernel_shape=[2], target=target),
                -np.zeros((1, 1, 7), np.float32))


def test_clip_with_nan_bound_is_nan():
    assert np.isnan(run("Clip", X, np.float32(np.nan), np.float32(1))).all()


def test_normalised_constant_rows_are_zero():
    x = np.full((4, 515), 148.3, np.float32)
    y = run("LayerNormalization", x, np.ones(515, np.float32), np.zeros(515, np.float32))
    np.testing.assert_allclose(y, 0, atol=1e-4)
