# SPDX-License-Identifier: Apache-2.0
"""Gradients of tensor expressions against differences of their values in float64."""
import numpy as np
import pytest

import treadle as tvm
from treadle import te, tir, topi


def evaluate(args, out, values):
    built = tvm.build(te.create_prim_func([*args, out]))
    result = tvm.nd.array(np.zeros([int(d) for d in out.shape], str(out.dtype)))
    built(*[tvm.nd.array(v) for v in values], result)
    return result.numpy()


def check(output, inputs, low=0.3, high=2.0, step=1e-6):
    """The gradient of a random weighted sum of the output."""
    rng = np.random.default_rng(0)
    values = [rng.uniform(low, high, [int(d) for d in t.shape]) for t in inputs]
    head = te.placeholder(output.shape, "float64", name="head")
    weights = rng.uniform(0.5, 1.5, [int(d) for d in output.shape])
    grads = te.gradient(output, inputs, head)
    for number, (tensor, value, grad) in enumerate(zip(inputs, values, grads)):
        assert [int(d) for d in grad.shape] == list(value.shape)
        got = evaluate([*inputs, head], grad, [*values, weights])
        # The slope in random directions, which each element takes part in.
        for _ in range(3):
            direction = rng.standard_normal(value.shape)
            ends = []
            for sign in (1, -1):
                moved = [v + sign * step * direction if i == number else v for i, v in enumerate(values)]
                ends.append((evaluate(inputs, output, moved) * weights).sum())
            np.testing.assert_allclose((got * direction).sum(), (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-6)


def tensors(*shapes):
    return [te.placeholder(s, "float64", name=f"x{i}") for i, s in enumerate(shapes)]


@pytest.mark.parametrize("function", [
    te.exp, te.log, te.sqrt, te.rsqrt, te.sin, te.cos, te.tan, te.atan, te.sinh, te.cosh, te.tanh, te.sigmoid, te.erf,
    te.log2, te.log10, te.log1p, te.exp2, te.abs, lambda x: te.power(x, 2.5), lambda x: te.power(1.5, x),
    lambda x: 1.0 / x - x * x, lambda x: te.if_then_else(x > 1.0, x * 3, x), lambda x: tir.Max(x, 1.0) + tir.Min(x * x, x),
    lambda x: te.floor(x) * x, lambda x: tir.Select(x < 1.0, x * x, 2.0)], ids=lambda f: f.__name__)
def test_functions_of_elements(function):
    x, = tensors((7,))
    check(te.compute((7,), lambda i: function(x[i])), [x], step=1e-7)


@pytest.mark.parametrize("function", [te.asin, te.acos])
def test_inverse_functions(function):
    x, = tensors((7,))
    check(te.compute((7,), lambda i: function(x[i])), [x], -0.8, 0.8)


def test_matmul():
    a, b = tensors((3, 4), (4, 5))
    k = te.reduce_axis((0, 4), "k")
    check(te.compute((3, 5), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k)), [a, b])


@pytest.mark.parametrize("stride", [1, 2])
def test_convolution(stride):
    x, w = tensors((2, 3, 9, 9), (4, 3, 3, 3))
    c, y, z = (te.reduce_axis((0, 3), n) for n in "cyz")
    size = 6 // stride + 1
    check(te.compute((2, 4, size, size), lambda n, o, h, v: te.sum(
        x[n, c, h * stride + y, v * stride + z] * w[o, c, y, z], axis=[c, y, z])), [x, w])


def test_convolution_with_sizes_of_64_bits():
    x, w = tensors((1, 3, 6, 6), (2, 3, 3, 3))
    check(topi.nn.conv2d(x, w, 1, 1, 1), [x, w])


@pytest.mark.parametrize("reducer", [te.sum, te.max, te.min, te.prod])
def test_reductions(reducer):
    x, = tensors((3, 5))
    k = te.reduce_axis((0, 5), "k")
    check(te.compute((3,), lambda i: reducer(x[i, k] * x[i, 4 - k] + x[i, k], axis=k)), [x])


def test_softmax_with_shared_values():
    x, = tensors((3, 5))
    check(topi.nn.softmax(x), [x])


def test_moves():
    x, = tensors((4, 6))
    moved = te.compute((6, 4), lambda i, j: x[3 - j, i] + x[j, 5 - i])
    flat = te.compute((24,), lambda i: moved[i // 4, i % 4])
    check(te.compute((5,), lambda i: te.if_then_else(i < 3, flat[i * 2], flat[i + 10])), [x])


def test_products_with_a_zero():
    x, = tensors((4,))
    k = te.reduce_axis((0, 4), "k")
    grad, = te.gradient(te.compute((1,), lambda i: te.prod(x[k], axis=k)), [x])
    np.testing.assert_array_equal(evaluate([x], grad, [np.array([2.0, 0, 3, 4])]), [[0, 24, 0, 0]])


def test_equal_maxima_share():
    x, = tensors((4,))
    k = te.reduce_axis((0, 4), "k")
    grad, = te.gradient(te.compute((1,), lambda i: te.max(x[k], axis=k)), [x])
    np.testing.assert_array_equal(evaluate([x], grad, [np.array([5.0, 1, 5, 2])]), [[0.5, 0, 0.5, 0]])


def test_jacobian():
    x, y = tensors((3,), (2,))
    out = te.compute((3,), lambda i: x[i] * x[i])
    jacobian, other = te.gradient(out, [x, y])
    np.testing.assert_allclose(evaluate([x], jacobian, [np.array([1.0, 2, 3])]), np.diag([2.0, 4, 6]))
    np.testing.assert_array_equal(evaluate([], other, []), np.zeros((3, 2)))


def test_what_has_no_gradient_is_refused():
    x, = tensors((4,))
    k = te.reduce_axis((0, 4), "k")
    whole = te.compute((4,), lambda i: x[i].astype("int32"))
    with pytest.raises(tvm.Error, match="has dtype int32"):
        te.gradient(whole, [x])
    with pytest.raises(tvm.Error, match="head has shape"):
        te.gradient(x, [x], te.placeholder((3,), "float64"))
    with pytest.raises(tvm.Error, match="'c' calls"):
        te.gradient(te.compute((4,), lambda i: tir.call_pure_extern("float64", "j0", x[i]), name="c"), [x])
    xor = te.comm_reducer(lambda a, b: a * 2 + b, lambda t: tir.const(0, t))
    with pytest.raises(tvm.Error, match="'r' reduces by"):
        te.gradient(te.compute((1,), lambda i: xor(x[k], axis=k), name="r"), [x])
