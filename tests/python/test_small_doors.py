# SPDX-License-Identifier: Apache-2.0
"""Small functions that scripts for TVM call."""
import warnings

import numpy as np
import pytest

import treadle as tvm
from treadle import relay, te, topi


def test_parameters_that_main_does_not_have_are_left_out_with_a_warning():
    x, w = relay.var("x", shape=(2,)), relay.var("w", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x, w], x + w))
    params = {"w": np.ones(2, "float32")}
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
    with pytest.warns(UserWarning, match="main has no parameters w"):
        lib = relay.build(mod, "llvm", params=params)
    assert list(lib.params) == ["p0"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relay.build(tvm.IRModule.from_expr(relay.Function([x, w], x + w)), "llvm", params=params)


def test_remainders_and_linear_forms():
    x, y = te.var("x"), te.var("y")
    m = tvm.arith.Analyzer().modular_set(x * 6 + y * 4 + 3)
    assert (m.coeff, m.base) == (2, 1)
    coefficients = tvm.arith.detect_linear_equation(x * 3 + y + 5, [x, y])
    assert [int(c) for c in coefficients] == [3, 1, 5]
    assert tvm.arith.detect_linear_equation(x * y, [x, y]) == []


def test_tensors_of_nothing():
    for tensor, expected in [(topi.full((2, 3), "int32", 7), np.full((2, 3), 7)),
                             (topi.arange(1, 9, 2, "int32"), [1, 3, 5, 7])]:
        out = tvm.nd.array(np.zeros(np.shape(expected), "int32"))
        tvm.build(te.create_schedule(tensor.op), [tensor], "llvm")(out)
        np.testing.assert_array_equal(out.numpy(), expected)


def test_capsules():
    a = tvm.nd.array(np.arange(3.0))
    capsule = a.to_dlpack()
    assert type(capsule).__name__ == "PyCapsule"


def test_kernels_of_programs():
    x = relay.var("x", shape=(2,))
    program = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x))), "llvm")
    assert [name for name in program.primitive_ops if name.endswith("fused_exp")]


def test_derivatives_are_compared_with_differences():
    x = np.array([1.0, 2.0])
    tvm.testing.check_numerical_grads(lambda v: (v * v).sum(), [x], [2 * x])
    with pytest.raises(AssertionError, match="derivative by element 0 of a"):
        tvm.testing.check_numerical_grads(lambda a: (a * a).sum(), {"a": x}, {"a": x})


def test_equal_expressions():
    n = te.var("n")
    tvm.testing.assert_prim_expr_equal(n * 2 + n, n * 3)
    with pytest.raises(AssertionError, match="aren't provably equal"):
        tvm.testing.assert_prim_expr_equal(n, n + 1)


def test_what_a_build_has():
    info = tvm.support.libinfo()
    assert info["USE_LLVM"] == "ON" and info["USE_ROCM"] == "OFF"
