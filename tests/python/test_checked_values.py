# SPDX-License-Identifier: Apache-2.0
"""Dynamic indices, sizes and steps: what breaks the rule is refused with node, value and what was
expected; never clamped in silence."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle
from treadle import relay

EXECUTORS = [("llvm -mcpu=native", {}), ("c", {}), ("llvm -mcpu=native", {"dynamic": True})]


def compiled(op, shapes, target="llvm", dynamic=False, outputs=1, **attributes):
    """One node; shapes: (dtype, shape) by operand. dynamic: the first dimension of the first one is symbolic."""
    names = [f"x{i}" for i in range(len(shapes))]
    types = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}
    inputs = [helper.make_tensor_value_info(n, types[t], ["n", *s[1:]] if dynamic and i == 0 else s)
              for i, (n, (t, s)) in enumerate(zip(names, shapes))]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, name="pick", **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info(r) for r in results])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8),
                            target=target)
    return lambda *values: [np.asarray(a) for a in model.run(None, dict(zip(names, map(np.asarray, values))))]


X = np.arange(20, dtype=np.float32).reshape(5, 4)


@pytest.mark.parametrize("target,options", EXECUTORS)
def test_gather(target, options):
    run = compiled("Gather", [("f", [5, 4]), ("i", [3])], target, **options)
    np.testing.assert_array_equal(run(X, [0, -5, 4])[0], X[[0, -5, 4]])
    for index in (5, -6, 10**12):
        with pytest.raises(treadle.Error, match=rf"pick.*index {index} is out of range for 5 elements; expected -5 to 4"):
            run(X, [0, index, 4])


@pytest.mark.parametrize("target,options", EXECUTORS)
def test_gather_elements(target, options):
    run = compiled("GatherElements", [("f", [5, 4]), ("i", [5, 2])], target, axis=1, **options)
    good = np.array([[0, -1], [3, -4], [1, 1], [2, 0], [-2, 3]])
    np.testing.assert_array_equal(run(X, good)[0], np.take_along_axis(X, good, 1))
    good[3, 1] = 4
    with pytest.raises(treadle.Error, match="pick.*index 4 is out of range for 4 elements"):
        run(X, good)


def test_gather_nd():
    run = compiled("GatherND", [("f", [5, 4]), ("i", [2, 2])])
    np.testing.assert_array_equal(run(X, [[4, -4], [-5, 3]])[0], X[[4, -5], [-4, 3]])
    with pytest.raises(treadle.Error, match="pick.*index 4 is out of range for 4 elements"):
        run(X, [[4, 3], [0, 4]])


@pytest.mark.parametrize("target,options", EXECUTORS)
def test_scatter(target, options):
    run = compiled("ScatterElements", [("f", [5, 4]), ("i", [1, 2]), ("f", [1, 2])], target, axis=0, **options)
    expected = X.copy()
    expected[[4, 1], [0, 1]] = [7, 8]
    np.testing.assert_array_equal(run(X, [[-1, 1]], np.float32([[7, 8]]))[0], expected)
    for index in (5, -6):
        with pytest.raises(treadle.Error, match=f"pick.*index {index} is out of range for 5 elements"):
            run(X, [[0, index]], np.float32([[7, 8]]))
    run = compiled("ScatterND", [("f", [5, 4]), ("i", [1, 1]), ("f", [1, 4])])
    with pytest.raises(treadle.Error, match="pick.*index -6 is out of range for 5 elements"):
        run(X, [[-6]], np.zeros((1, 4), np.float32))


def test_constant_indices_are_checked_when_compiling():
    with pytest.raises(treadle.Error, match="5.*out of range"):
        relay.build(relay.fromtext("""
            #[version = "0.0.5"]
            def @main(%x: Tensor[(5, 4), float32]) { take(%x, 5, axis=0, mode="error") }"""), target="llvm")


def test_top_k():
    run = compiled("TopK", [("f", [5, 4]), ("i", [1])], outputs=2, axis=0)
    np.testing.assert_array_equal(run(X, [2])[0], X[[4, 3]])
    for k in (6, -1):
        with pytest.raises(treadle.Error, match=f"pick.*K {k} is out of range; expected 0 to 5"):
            run(X, [k])


def test_split():
    run = compiled("Split", [("f", [5, 4]), ("i", [2])], outputs=2)
    first, second = run(X, [2, 3])
    np.testing.assert_array_equal(np.concatenate([first, second]), X)
    for sizes, text in ([3, 3], "6 in all; expected 5"), ([6, -1], "6 is out of range; expected 0 to 5"), (
            [4, -1], "-1 is out of range; expected 0 to 5"):
        with pytest.raises(treadle.Error, match=f"pick.*size of a part {text}"):
            run(X, sizes)


def test_slice():
    run = compiled("Slice", [("f", [5, 4]), ("i", [1]), ("i", [1]), ("i", [1]), ("i", [1])])
    np.testing.assert_array_equal(run(X, [4], [0], [0], [-2])[0], X[4:0:-2])
    with pytest.raises(treadle.Error, match="pick.*step 0"):
        run(X, [0], [4], [0], [0])


def test_expand():
    run = compiled("Expand", [("f", [5, 1]), ("i", [2])])
    np.testing.assert_array_equal(run(X[:, :1], [1, 3])[0], np.broadcast_to(X[:, :1], (5, 3)))
    for size in (-1, 3):
        with pytest.raises(treadle.Error, match=f"pick.*size {size}; expected 1 or 5"):
            run(X[:, :1], [size, 3])


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "stackvm"])
def test_reshape(target):
    run = compiled("Reshape", [("f", [5, 4]), ("i", [1])], target)
    for shape in ([20], [-1]):
        np.testing.assert_array_equal(run(X, shape)[0], X.reshape(20))
    for length in (7, 0, 21, -2):
        with pytest.raises(treadle.Error, match="pick.*(number of elements|new shape)"):
            run(X, [length])


@pytest.mark.parametrize("squares", [False, True])
def test_reshape_by_the_size_of_another_operand(squares):
    """One size of the new shape is another operand's, which needn't be what the elements leave."""
    five = helper.make_tensor("five", TensorProto.INT64, [1], [5])
    nodes = [helper.make_node("Shape", ["b"], ["n"]), helper.make_node("Mul", ["n", "n"], ["m"]),
             helper.make_node("Concat", ["m" if squares else "n", "five"], ["s"], axis=0),
             helper.make_node("Reshape", ["a", "s"], ["y"], name="pick")]
    inputs = [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["p", 5]),
              helper.make_tensor_value_info("b", TensorProto.FLOAT, ["q"])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")], [five])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    for rows in (1, 4):
        size = round(rows ** 0.5) if squares else rows
        y = model.run(None, {"a": np.ones((rows, 5), "float32"), "b": np.ones(size, "float32")})[0]
        assert np.asarray(y).shape == (rows, 5)
    with pytest.raises(treadle.Error, match="pick.*number of elements: size of a dimension, and what is expected: 4 and (3|9)"):
        model.run(None, {"a": np.ones((4, 5), "float32"), "b": np.ones(3, "float32")})


def test_roi_align():
    run = compiled("RoiAlign", [("f", [2, 1, 4, 4]), ("f", [1, 4]), ("i", [1])])
    image, box = np.ones((2, 1, 4, 4), np.float32), np.float32([[0, 0, 2, 2]])
    np.testing.assert_allclose(run(image, box, [1])[0], np.ones((1, 1, 1, 1)))
    with pytest.raises(treadle.Error, match="pick.*batch index 2 is out of range; expected 0 to 1"):
        run(image, box, [2])


SELECTING = """
def @main(%x: Tensor[(1, 1, 4, 4, 8), float32], %w: Tensor[(1, 8, 1, 1, 1, 8), float32], %c: Tensor[(8), int32]) {
  nn.contrib_conv2d_select_NCHWc(%x, %w, %c, kernel_size=[1, 1], channels=8, data_layout="NCHW8c",
                                 kernel_layout="OIHW1i8o", out_layout="NCHW8c")
}"""
LISTED = """
def @main(%x: Tensor[(16, 64), uint8], %w: Tensor[(1, 2, 2, 8), int32], %c: Tensor[(1, 3, 2), int32],
          %b: Tensor[(8), int32]) { qnn.contrib_listed_dense(%x, %w, %c, %b, units=8, forms=1) }"""
LISTED_CONV = """
def @main(%x: Tensor[(1, 1, 4, 4, 8), uint8], %w: Tensor[(1, 2, 2, 8), int32], %c: Tensor[(1, 3, 2), int32],
          %b: Tensor[(8), int32], %p: Tensor[(), uint8]) {
  qnn.contrib_listed_conv2d_NCHWc(%x, %w, %c, %b, %p, kernel_size=[1, 1], channels=8, data_layout="NCHW8c",
                                  out_layout="NCHW8c")
}"""


@pytest.mark.parametrize("text, good, position, wrong, expected", [
    (SELECTING, [7, 6, 5, 4, 3, 2, 1, 0], 7, 8, "element 7 of 'channels' of nn.contrib_conv2d_select_NCHWc is 8, not from 0 to 7"),
    (SELECTING, [0] * 8, 1, -1, "element 1 of 'channels' of nn.contrib_conv2d_select_NCHWc is -1, not from 0 to 7"),
    (LISTED, [[[0, 15], [3, 3], [2, 2]]], 3, 16, "element 3 of 'words' of qnn.contrib_listed_dense is 16, not from 0 to 15"),
    (LISTED, [[[0, 1], [2, 3], [2, 2]]], 4, 3, "element 4 of 'words' of qnn.contrib_listed_dense is 3, not from 0 to 2"),
    # 4 x 4 pixels of 8 bytes, and their complements; a word of the last pixel begins 120 bytes later.
    (LISTED_CONV, [[[0, 132], [3, 3], [2, 2]]], 1, 133, "element 1 of 'words' of qnn.contrib_listed_conv2d_NCHWc is 133, not from 0 to 132"),
    (LISTED_CONV, [[[0, 1], [2, 3], [2, 2]]], 5, 3, "element 5 of 'words' of qnn.contrib_listed_conv2d_NCHWc is 3, not from 0 to 2")])
def test_operands_that_say_where_kernels_read(text, good, position, wrong, expected):
    """Passes make them as constants; others could make kernels read anywhere."""
    module = relay.fromtext('#[version = "0.0.5"]' + text)
    good = np.array(good, np.int32)
    relay.build(module, target="llvm", params={"c": good})
    bad = good.copy()
    bad.reshape(-1)[position] = wrong
    with pytest.raises(treadle.error.ShapeError, match=expected):
        relay.build(module, target="llvm", params={"c": bad})
    with pytest.raises(treadle.error.ShapeError, match="has to be a constant"):
        relay.build(module, target="llvm")


def test_two_inferred_sizes_are_refused_of_few_elements_too():
    run = compiled("Reshape", [("f", [None]), ("i", [2])])
    np.testing.assert_array_equal(run(X[0], [2, -1])[0], X[0].reshape(2, 2))
    for elements in (0, 1, 4):
        with pytest.raises(treadle.Error, match="pick.*new shape can't be told|pick.*keeps the number of elements"):
            run(X[0, :elements], [-1, -1])


@pytest.mark.parametrize("keepdims", [0, 1])
def test_axes_that_are_given_twice(keepdims):
    """As of axes that are known when compiling."""
    run = compiled("ReduceSum", [("f", [5, 4]), ("i", [2])], keepdims=keepdims)
    for axes in ([1, 1], [0, -2]):
        with pytest.raises(treadle.Error, match="pick.*number of different axes 1; expected 2"):
            run(X, axes)


@pytest.mark.parametrize("size", [7, 2])
def test_parts_that_lack_elements(size):
    for dynamic in (False, True):
        with pytest.raises(treadle.Error, match="elements don't make 5 parts|number of elements that are split"):
            compiled("Split", [("f", [size])], outputs=5, num_outputs=5, dynamic=dynamic)(np.zeros(size, np.float32))
    parts = compiled("Split", [("f", [8])], outputs=5, num_outputs=5, dynamic=True)(np.arange(8, dtype=np.float32))
    assert [part.size for part in parts] == [2, 2, 2, 2, 0]


@pytest.mark.parametrize("numbers", [(np.nan, 1, 1), (0, np.nan, 1), (0, 3, np.nan), (0, np.inf, 1), (np.inf, 3, 1)])
def test_ranges_that_are_not_finite(numbers):
    numbers = [np.float32(number) for number in numbers]
    with pytest.raises(treadle.Error, match="pick.*number of elements"):
        compiled("Range", [("f", [])] * 3)(*numbers)
    names = ["a", "b", "c"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in names]
    graph = helper.make_graph([helper.make_node("Range", names, ["y"])], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with pytest.raises(treadle.Error, match="number of elements isn't finite|'delta' is 0"):
        treadle.compile(model, constants=dict(zip(names, numbers)))


def _suppression(threshold=None):
    """Of boxes, their scores and, where it isn't known, the threshold of overlap."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "n", 4]), helper.make_tensor_value_info("s", TensorProto.FLOAT, ["b", "c", "n"])]
    constants = [helper.make_tensor("most", TensorProto.INT64, [1], [3])]
    if threshold is None:
        inputs.append(helper.make_tensor_value_info("iou", TensorProto.FLOAT, [1]))
    else:
        constants.append(helper.make_tensor("iou", TensorProto.FLOAT, [1], [threshold]))
    node = helper.make_node("NonMaxSuppression", ["x", "s", "most", "iou"], ["y"], name="pick")
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


BOXES = {"x": np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], np.float32), "s": np.array([[[3, 2, 1]]], np.float32)}


@pytest.mark.parametrize("target", ["llvm", "c", "stackvm"])
def test_thresholds_of_overlap(target):
    model = treadle.compile(_suppression(), target=target)
    for threshold, kept in ((0.5, [0, 2]), (0.0, [0, 2]), (1.0, [0, 1, 2]), (-0.0, [0, 2])):
        assert model.run(None, {**BOXES, "iou": np.array([threshold], np.float32)})[0][:, 2].tolist() == kept
    for threshold in (1.5, -0.5, np.nan, np.inf):
        with pytest.raises(treadle.Error, match=f"pick.*'iou_threshold' {threshold} is out of range; expected 0 to 1"):
            model.run(None, {**BOXES, "iou": np.array([threshold], np.float32)})


@pytest.mark.parametrize("threshold", [1.5, -0.5, np.nan])
def test_known_thresholds_of_overlap(threshold):
    assert treadle.compile(_suppression(1.0)).run(None, BOXES)[0][:, 2].tolist() == [0, 1, 2]
    with pytest.raises(treadle.Error, match=f"pick.*'iou_threshold' is {threshold}, expected 0 to 1"):
        treadle.compile(_suppression(threshold))
