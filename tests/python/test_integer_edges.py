# SPDX-License-Identifier: Apache-2.0
"""Integers at the ends of their types, tensors without elements and long sums, against NumPy."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def run(op, *operands, constants=(), outputs=1, kind=TensorProto.FLOAT, **attributes):
    """All outputs of one node; constants: numbers of the operands that are part of the model."""
    names = [f"x{i}" for i in range(len(operands))]
    operands = dict(zip(names, (np.asarray(x) for x in operands)))
    fixed = [names[i] for i in constants]
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
              for n, x in operands.items() if n not in fixed]
    results = [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph([helper.make_node(op, names, results, **attributes)], "g", inputs,
                              [helper.make_empty_tensor_value_info(n) for n in results],
                              [numpy_helper.from_array(operands[n], n) for n in fixed])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
    return [np.asarray(y) for y in
            treadle.compile(model).run(None, {n: x for n, x in operands.items() if n not in fixed})]


@pytest.mark.parametrize("base", [np.int32, np.int64])
@pytest.mark.parametrize("exponent", [np.int32, np.int64, np.float32, np.float64])
def test_powers_of_integers_are_exact(base, exponent):
    x, y = np.meshgrid(np.arange(-12, 13, dtype=base), np.arange(7, dtype=exponent))
    expected = x.astype(np.int64) ** y.astype(np.int64)
    np.testing.assert_array_equal(run("Pow", x, y)[0], expected.astype(base))


def test_large_powers_wrap_and_negative_ones_vanish():
    x, y = np.array([3, 3, 2, 2, -1, -1, 1, 5, -1, 0], np.int64), np.array([39, 41, 62, 70, 99, 64, -3, -2, -5, 0], np.int64)
    with np.errstate(over="ignore"):
        expected = np.array([3**39, 3**41 - 2**64 * ((3**41 + 2**63) // 2**64), 2**62, 0, -1, 1, 1, 0, -1, 1], np.int64)
    np.testing.assert_array_equal(run("Pow", x, y)[0], expected)


@pytest.mark.parametrize("constants", [(), (0, 1, 2)])
@pytest.mark.parametrize("start, limit, delta", [
    (LEAST, MOST, 2**62), (LEAST, MOST, MOST), (MOST, LEAST, LEAST), (MOST, LEAST, -(2**62)), (0, 2**62 + 1, 2**62),
    (MOST - 3, MOST, 2), (5, 5, 1), (5, 4, 2), (4, 5, -1), (-3, 4, 3), (4, -3, -3)])
def test_ranges_may_span_all_integers(start, limit, delta, constants):
    numbers = [np.array(v, np.int64) for v in (start, limit, delta)]
    expected = np.array(range(start, limit, delta), np.int64)
    np.testing.assert_array_equal(run("Range", *numbers, constants=constants)[0], expected)


def test_a_range_of_too_many_integers_is_an_error():
    with pytest.raises(treadle.Error, match="size of a tensor|elements|memory"):
        run("Range", *(np.array(v, np.int64) for v in (LEAST, MOST, 1)))


@pytest.mark.parametrize("rows", [[0], [2, 0], [0, 3], [1, 0, 5]])
@pytest.mark.parametrize("columns", [1, 16, 17])
def test_products_without_rows(rows, columns):
    x, w = np.zeros([*rows, 8], np.float32), np.ones((8, columns), np.float32)
    assert run("MatMul", x, w, constants=(1,))[0].shape == (*rows, columns)


def test_products_of_nothing_are_zero():
    x, w = np.zeros([5, 0], np.float32), np.ones((0, 16), np.float32)
    np.testing.assert_array_equal(run("MatMul", x, w, constants=(1,))[0], np.zeros((5, 16), np.float32))


@pytest.mark.parametrize("n", [8, 16, 40, 100])
@pytest.mark.parametrize("op, reduce", [("ReduceMax", np.any), ("ReduceMin", np.all)])
def test_truth_values_reduce_along_rows(n, op, reduce):
    x = np.random.default_rng(0).random((6, n)) > (0.97 if op == "ReduceMax" else 0.03)
    np.testing.assert_array_equal(run(op, x, np.array([1]), keepdims=0)[0], reduce(x, axis=1))


def test_quantising_zeros_has_a_scale():
    y, scale, zero_point = run("DynamicQuantizeLinear", np.zeros(3, np.float32), outputs=3)
    assert scale == 1 and zero_point == 0 and not y.any()


@pytest.mark.parametrize("op, reduce", [("ReduceMean", np.mean), ("ReduceSum", np.sum)])
@pytest.mark.parametrize("shape, axes", [((1000000, 4), (0,)), ((4, 1000000), (1,)), ((1, 3, 700, 500), (2, 3)),
                                         ((200000,), (0,)), ((500, 2, 600), (0, 2))])
def test_long_sums_keep_their_digits(op, reduce, shape, axes):
    x = (100 + np.random.default_rng(0).random(shape) / 8).astype(np.float32)
    ours = run(op, x, np.array(axes), keepdims=0)[0]
    np.testing.assert_allclose(ours, reduce(x.astype(np.float64), axis=axes), rtol=3e-6)


def test_long_sums_of_unknown_length_keep_their_digits():
    x = (100 + np.random.default_rng(0).random((300000, 4)) / 8).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])], [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.array([0]), "axes")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8))
    np.testing.assert_allclose(model(x=x)["y"], x.astype(np.float64).mean(axis=0), rtol=3e-6)


@pytest.mark.parametrize("step", [1, 3, MOST, -1, LEAST])
@pytest.mark.parametrize("end", [LEAST, MOST, 2])
@pytest.mark.parametrize("start", [LEAST, MOST, 0, -100])
def test_slices_of_unknown_sizes_take_any_bound(start, end, step):
    x = np.arange(7, dtype=np.float32)
    node = helper.make_node("Slice", ["x", "start", "end", "axes", "step"], ["y"])
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.array([v], np.int64), n) for n, v in
         {"start": start, "end": end, "axes": 0, "step": step}.items()])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8))
    first = max(start, -len(x)) if step < 0 else start  # going backwards, the standard begins at an element
    np.testing.assert_array_equal(model(x=x)["y"], x[first:end:step])


def test_resized_integers_stay_whole():
    x = np.full((1, 1, 5, 6), 7, np.int8)
    sizes = np.array([1, 1, 7, 15], np.int64)
    for mode in ("linear", "cubic"):
        np.testing.assert_array_equal(run("Resize", x, np.zeros(0, np.float32), np.zeros(0, np.float32), sizes,
                                          constants=(1, 2, 3), mode=mode)[0], np.full((1, 1, 7, 15), 7, np.int8))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_dimensions_without_elements_are_padded_by_nothing(mode):
    x = np.zeros((0, 3), np.float32)
    assert run("Pad", x, np.array([0, 1, 0, 1]), constants=(1,), mode=mode)[0].shape == (0, 5)


@pytest.mark.parametrize("constants", [(), (1,)])
@pytest.mark.parametrize("mode, size, before, after", [("wrap", 3, 7, 8), ("wrap", 5, 3, -2), ("wrap", 5, -3, 4), ("reflect", 3, 7, 8),
                                                       ("reflect", 5, -1, 3), ("reflect", 5, 2, -2), ("reflect", 1, 3, 3)])
def test_padding_repeats_what_is_left_as_often_as_it_takes(mode, size, before, after, constants):
    """Negative amounts cut first, as ONNX Runtime has it."""
    x = np.arange(size, dtype=np.float32)
    left = x[max(-before, 0):size - max(-after, 0)]
    ours = run("Pad", x, np.array([before, after]), constants=constants, mode=mode)[0]
    np.testing.assert_array_equal(ours, np.pad(left, (max(before, 0), max(after, 0)), mode))


@pytest.mark.parametrize("shape, before, after", [((3,), (7,), (8,)), ((1,), (3,), (0,)), ((2, 3), (4, 2), (1, 9))])
def test_reflections_of_dimensions_of_a_run_repeat_as_those_of_known_ones_do(shape, before, after):
    """Widths that are known, sizes that aren't: those were refused where they exceeded the dimension."""
    names = [f"n{i}" for i in range(len(shape))]
    graph = helper.make_graph([helper.make_node("Pad", ["x", "p"], ["y"], mode="reflect")], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, names)], [helper.make_empty_tensor_value_info("y")],
                              [numpy_helper.from_array(np.array(before + after), "p")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(model(x=x)["y"], np.pad(x, list(zip(before, after)), "reflect"))


def test_an_axis_that_is_padded_twice_is_an_error():
    for axes in ([0, 0], [1, -1]):
        for constants in ((), (3,)):
            with pytest.raises(treadle.Error, match="Pad.*(given twice|listed 2)"):
                run("Pad", np.ones((2, 3), np.float32), np.array([1, 1, 1, 1]), np.float32(0), np.array(axes), constants=constants)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("size, kernel, stride, windows", [(2, 3, 1, 0), (2, 4, 2, 0), (1, 2, 1, 0), (3, 3, 2, 1)])
def test_pools_without_windows_are_empty(op, size, kernel, stride, windows):
    x = np.ones((1, 1, size), np.float32)
    assert run(op, x, kernel_shape=[kernel], strides=[stride])[0].shape == (1, 1, windows)


def test_a_window_far_beyond_the_operand_is_an_error():
    with pytest.raises(treadle.Error, match="a window of 5 elements doesn't fit into dimension 2"):
        run("MaxPool", np.ones((1, 1, 2), np.float32), kernel_shape=[5])


@pytest.mark.parametrize("shape, axis", [((7, 300), 0), ((5, 3, 2), 1), ((1, 3), 0), ((4, 40, 20), 2), ((9, 257), 0)])
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_unique_slices_of_any_size(shape, axis, dtype):
    x = np.random.default_rng(0).integers(-1, 2, shape)
    x = np.take(x, np.arange(shape[axis]) % max(1, shape[axis] - 2), axis).astype(dtype)  # some slices twice
    ours = run("Unique", x, outputs=4, axis=axis)
    expected = np.unique(x, True, True, True, axis=axis)
    for mine, theirs in zip(ours, expected):
        np.testing.assert_array_equal(mine, theirs.reshape(mine.shape))


@pytest.mark.parametrize("shape, axis, expected", [((0, 3), 1, (0, 3)), ((2, 0, 3), 1, (2, 0)), ((0, 2, 3), 2, (0, 3))])
def test_flattened_tensors_without_elements(shape, axis, expected):
    assert run("Flatten", np.zeros(shape, np.float32), axis=axis)[0].shape == expected


def test_reshapes_of_reshapes_keep_sizes_of_zero():
    """0 is a size here, not the code for the operand's dimension."""
    nodes = [helper.make_node("Reshape", ["x", "a"], ["t"], allowzero=1),
             helper.make_node("Reshape", ["t", "b"], ["y"], allowzero=1)]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 0])],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in {"a": [4, 0, 2], "b": [0, 0]}.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
    assert treadle.compile(model).run(None, {"x": np.zeros((3, 0), np.float32)})[0].shape == (0, 0)


@pytest.mark.parametrize("magnitude", [1e-45, 1e-40, 3e-38, 1e-30, 1e-18, 1e-3, 1.0, 77.0, 1e10, 1e18, 1e21, 1e37])
def test_scales_of_any_size(magnitude):
    """Quotients by the scale of a run are computed without dividing, to the same bits."""
    x = np.random.default_rng(7).uniform(-1, 1.5, 5000).astype(np.float64)
    x = np.concatenate([x * magnitude, [magnitude, -magnitude, 0]]).astype(np.float32)
    y, scale, zero_point = run("DynamicQuantizeLinear", x, outputs=3)
    expected = np.rint(x / scale).astype(np.float32) + np.float32(zero_point)
    np.testing.assert_array_equal(y, np.clip(expected, 0, 255).astype(np.uint8))
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    assert scale == ((high - low) / np.float32(255) or 1)


def test_halves_go_to_even():
    x = (np.arange(256, dtype=np.float32) - 100) / 2 + np.float32(0.25)
    x[:2] = -127, 128
    y, scale, zero_point = run("DynamicQuantizeLinear", x, outputs=3)
    assert scale == 1 and zero_point == 127
    np.testing.assert_array_equal(y, np.rint(x) + 127)
