# SPDX-License-Identifier: Apache-2.0
"""What IEEE 754 says of zeros, infinities, NaN and arguments out of a function's domain, as NumPy does it."""
import ctypes
import itertools
import warnings

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

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
                              [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return np.asarray(treadle.compile(model, target=target).run(None, dict(zip(names, operands)))[0])


def assert_same(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=2e-6)
    number = ~np.isnan(theirs)
    np.testing.assert_array_equal(np.signbit(ours[number]), np.signbit(theirs[number]))


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c", "stackvm"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("last", [False, True])
def test_places_of_nan(dtype, last, target):
    """NaN counts as the greatest and as the least, whichever dimension is searched, of known or dynamic size."""
    rng = np.random.default_rng(5)
    x = rng.choice([np.nan, np.inf, -np.inf, 1, 2, 0], (12, 9), p=[.1, .1, .1, .3, .3, .1]).astype(dtype)
    cases = list(itertools.product((0, 1), (("ArgMax", np.argmax), ("ArgMin", np.argmin))))
    nodes = [helper.make_node(op, ["x"], [f"y{i}"], axis=axis, keepdims=0, select_last_index=int(last))
             for i, (axis, (op, _)) in enumerate(cases)]
    for shape in (x.shape, ["m", "n"]):
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), shape)],
                                  [helper.make_empty_tensor_value_info(node.output[0]) for node in nodes])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        for ours, (axis, (_, numpys)) in zip(treadle.compile(model, target=target).run(None, {"x": x}), cases):
            expected = x.shape[axis] - 1 - numpys(np.flip(x, axis), axis) if last else numpys(x, axis)
            np.testing.assert_array_equal(ours, expected)


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
    for op in ("Sign", "Celu"):  # both are x there
        assert_same(run(op, zero, target=target), zero)
    assert_same(run("MaxPool", -np.zeros((1, 1, 8), np.float32), kernel_shape=[2], target=target),
                -np.zeros((1, 1, 7), np.float32))


def test_clip_with_nan_bound_is_nan():
    assert np.isnan(run("Clip", X, np.float32(np.nan), np.float32(1))).all()


def test_normalised_constant_rows_are_zero():
    x = np.full((4, 515), 148.3, np.float32)
    y = run("LayerNormalization", x, np.ones(515, np.float32), np.zeros(515, np.float32))
    np.testing.assert_allclose(y, 0, atol=1e-4)


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c", "stackvm"])
@pytest.mark.parametrize("value", [15.875, 148.3, -0.1])
def test_normalised_constant_channels_are_zero(value, target):
    """The mean's rounding was divided by the root of epsilon: 0.12 of 37 x 53 pixels of 148.3."""
    x = np.full((2, 3, 17, 13), value, np.float32)
    y = run("InstanceNormalization", x, np.ones(3, np.float32), np.zeros(3, np.float32), target=target)
    np.testing.assert_array_equal(y, 0)


DOUBLES = np.array([1e30, 1e300, -1e22, 1e17, 2.0**20, 1048577.5, 1e10, 6381956970095103 * 2.0**797, -123456.75, 3.0, 1e-310,
                    0.0, np.inf, np.nan])


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c", "stackvm"])
@pytest.mark.parametrize("op, function", [("Sin", np.sin), ("Cos", np.cos), ("Tan", np.tan)])
def test_angles_of_any_size_in_float64(op, function, target):
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(run(op, DOUBLES, target=target), function(DOUBLES), rtol=2e-15)


@pytest.mark.parametrize("op, function", [("Sinh", np.sinh), ("Cosh", np.cosh)])
def test_hyperbolic_functions_up_to_the_largest_numbers(op, function):
    """Half of e to the power of x may be a number where that isn't."""
    x = np.array([709, 709.8, 710.4, -710.4, 710.5, -720, np.inf, -np.inf, np.nan])
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(run(op, x), function(x), rtol=1e-13)


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=x86-64-v2", "c"])
@pytest.mark.parametrize("op, function", [("Sin", np.sin), ("Cos", np.cos), ("Tan", np.tan)])
def test_angles_near_whole_quarters_in_float32(op, function, target):
    """Also without multiply-adds that round once: sines near their zeros had errors of 1e-4."""
    quarters = np.concatenate([np.arange(1, 5216), np.arange(2670000, 2673000), np.arange(10**7, 10**7 + 3000)])
    x = (quarters * (np.pi / 2)).astype(np.float32)
    np.testing.assert_allclose(run(op, x, target=target), function(x.astype(np.float64)), rtol=3e-7)


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c", "stackvm"])
def test_remainders_of_float64_are_exact(target):
    x, y = np.meshgrid(DOUBLES, [7e-5, 3.0, -0.1, 1e-320, 1e300, 2.5, 0.0, np.inf, np.nan])
    with np.errstate(invalid="ignore"):
        expected = np.fmod(x, y)
    ours = run("Mod", x, y, target=target, fmod=1)
    np.testing.assert_array_equal(ours, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(ours[number]), np.signbit(expected[number]))


POWERS = [0.5, -0.5, 0.75, 1 / 3, -1 / 3, 0.0, 1, 2, 3, 4, 5, -1, -3, 1e10, -16777217.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("known", [True, False])
def test_powers_are_those_of_c(dtype, known, target):
    """Those of -0 and -infinity, also of what is computed by a square root or a product."""
    pow_of_c = ctypes.CDLL(None).pow
    pow_of_c.restype, pow_of_c.argtypes = ctypes.c_double, [ctypes.c_double] * 2
    with np.errstate(over="ignore"):
        x, exponents = np.concatenate([X, [2.25, -3]]).astype(dtype), np.array(POWERS).astype(dtype)
        expected = np.array([[pow_of_c(a, e) for a in x.tolist()] for e in exponents.tolist()]).astype(dtype)
    of = helper.np_dtype_to_tensor_dtype(x.dtype)
    nodes = [helper.make_node("Pow", ["x", f"e{i}"], [f"y{i}"]) for i in range(len(POWERS))]
    fixed = [numpy_helper.from_array(e, f"e{i}") for i, e in enumerate(exponents)]
    inputs = [helper.make_tensor_value_info("x", of, ["n"])]
    inputs += [] if known else [helper.make_tensor_value_info(e.name, of, []) for e in fixed]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info(node.output[0], of, ["n"]) for node in nodes],
                              fixed if known else [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    feeds = {"x": x} if known else {"x": x, **{f"e{i}": e for i, e in enumerate(exponents)}}
    for ours, theirs in zip(treadle.compile(model, target=target).run(None, feeds), expected):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3 if dtype == np.float16 else 2e-6)
        number = ~np.isnan(theirs)
        np.testing.assert_array_equal(np.signbit(np.asarray(ours)[number]), np.signbit(theirs[number]))


def test_local_response_of_an_infinite_sum():
    """The power of -infinity is infinite."""
    x = np.full((1, 3, 2, 2), 3e38, np.float32)
    for beta in (0.5, 0.75, 0.8):
        y = run("LRN", x, size=3, alpha=-1.0, beta=beta)
        np.testing.assert_array_equal(y, np.zeros_like(x))


def resize(x, sizes, known, **attributes):
    """The sizes are known when compiling, or an operand."""
    inputs = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)]
    fixed = [numpy_helper.from_array(np.array(sizes, np.int64), "sizes")] if known else []
    inputs += [] if known else [helper.make_tensor_value_info("sizes", TensorProto.INT64, [len(sizes)])]
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], coordinate_transformation_mode="align_corners",
                            **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")], fixed)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    feeds = {"x": x} if known else {"x": x, "sizes": np.array(sizes, np.int64)}
    return np.asarray(treadle.compile(model).run(None, feeds)[0])


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("mode, antialias", [("linear", 0), ("cubic", 0), ("linear", 1)])
def test_neighbours_of_resized_elements_count_nothing(mode, antialias, known):
    x = np.array([[[[1, np.inf, np.nan, 2], [3, 4, 5, -np.inf]]]], np.float32)
    np.testing.assert_array_equal(resize(x, [1, 1, 2, 4], known, mode=mode, antialias=antialias), x)


@pytest.mark.parametrize("known", [True, False])
def test_resizing_keeps_what_is_infinite_apart(known):
    x = np.array([[[[1, np.inf, 3, 5, 7]]]], np.float32)
    expected = [[[[1, np.inf, np.inf, np.inf, 3, 4, 5, 6, 7]]]]
    np.testing.assert_array_equal(resize(x, [1, 1, 1, 9], known, mode="linear"), expected)


@pytest.mark.parametrize("known", [True, False])
def test_resized_integers_are_the_same_whenever_sizes_are_known(known):
    x = np.full((1, 1, 5, 6), 7, np.int8)
    np.testing.assert_array_equal(resize(x, [1, 1, 7, 15], known, mode="cubic"), np.full((1, 1, 7, 15), 7, np.int8))


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "c", "stackvm"])
@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_integers_of_what_they_cannot_hold(source, dtype, target):
    """The nearest there is, and 0 of NaN: what processors make of them differs."""
    numbers = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, 300.7, -300.7, -1.5, 0.9], source)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    expected = [0 if np.isnan(v) else least if v <= least else most if v >= most else int(v) for v in numbers]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    np.testing.assert_array_equal(run("Cast", numbers, target=target, to=kind), np.array(expected, dtype))


@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("known", [True, False])
def test_windows_of_one_element(op, known):
    """Not periodic, it's 0 / 0 by ONNX's formula; periodic, the beginning of the window."""
    size = np.array(1, np.int64)
    for periodic in (0, 1):
        node = helper.make_node(op, ["size"], ["y"], periodic=periodic)
        inputs = [] if known else [helper.make_tensor_value_info("size", TensorProto.INT64, [])]
        graph = helper.make_graph([node], "window", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                                  [numpy_helper.from_array(size, "size")] if known else [])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (y,) = treadle.compile(model).run(None, {} if known else {"size": size})
        start = {"HannWindow": 0, "HammingWindow": 25 / 46 - 21 / 46, "BlackmanWindow": 0}[op]
        np.testing.assert_allclose(y, [start if periodic else np.nan], atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("opt_level", [0, 3])
def test_gelu_of_infinity_is_its_limit(dtype, approximate, opt_level):
    for size in (1, 3, 64):
        x = np.resize(np.array([-np.inf, np.inf, np.nan], dtype), size)
        node = helper.make_node("Gelu", ["x"], ["y"], approximate=approximate)
        of = helper.np_dtype_to_tensor_dtype(x.dtype)
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", of, [size])],
                                  [helper.make_tensor_value_info("y", of, [size])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        result = treadle.compile(model, opt_level=opt_level).run(None, {"x": x})[0]
        assert_same(np.asarray(result), np.resize(np.array([-0.0, np.inf, np.nan], dtype), size))
