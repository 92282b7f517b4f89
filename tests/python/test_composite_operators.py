# SPDX-License-Identifier: Apache-2.0
"""Operators that are expressions of others: pools' gradients, deformable convolutions, correlation, pictures, sparse
matrices, object detection. References are written out in NumPy."""
import numpy as np
import pytest

import treadle as tvm
from treadle import relay

RNG = np.random.default_rng(7)


def run(build, *arrays):
    """Results of build(*variables) for the arrays."""
    variables = [relay.var(f"x{i}", shape=a.shape, dtype=str(a.dtype)) for i, a in enumerate(arrays)]
    body = build(*variables)
    body = body.astuple() if isinstance(body, relay.TupleWrapper) else body
    mod = tvm.IRModule.from_expr(relay.Function(variables, body))
    result = relay.create_executor("vm", mod=mod, target="llvm").evaluate()(*arrays)
    return [r.numpy() for r in result] if isinstance(body, relay.Tuple) else result.numpy()


def randn(*shape):
    return RNG.standard_normal(shape).astype("float32")


def csr(dense):
    rows, columns = np.nonzero(dense)
    indptr = np.searchsorted(rows, np.arange(dense.shape[0] + 1)).astype("int32")
    return dense[rows, columns], columns.astype("int32"), indptr


def test_fifo_buffers_and_shapes_from_behind():
    data, buffer = randn(2, 2, 3), randn(2, 5, 3)
    got = run(lambda d, b: relay.nn.fifo_buffer(d, b, 1), data, buffer)
    np.testing.assert_array_equal(got, np.concatenate([buffer, data], 1)[:, 2:])
    assert run(lambda d: relay.reverse_reshape(d, [-1, 0]), randn(2, 3, 4)).shape == (6, 4)


def test_gradients_of_pools():
    data, grad = randn(1, 2, 6, 6), randn(1, 2, 3, 3)
    got = run(lambda g, d: relay.nn.avg_pool2d_grad(g, d, (2, 2), (2, 2)), grad, data)
    np.testing.assert_allclose(got, grad.repeat(2, 2).repeat(2, 3) / 4, rtol=1e-6)
    got = run(lambda g, d: relay.nn.max_pool2d_grad(g, d, (2, 2), (2, 2)), grad, data)
    tiles = data.reshape(1, 2, 3, 2, 3, 2)
    expected = np.where(tiles == tiles.max((3, 5), keepdims=True), grad[:, :, :, None, :, None], 0)
    np.testing.assert_allclose(got, expected.reshape(data.shape), rtol=1e-6)


@pytest.mark.parametrize("groups", [1, 2])
def test_deformable_convolutions(groups):
    x, w = randn(2, 4, 6, 6), randn(6, 4 // groups, 3, 3)
    still = np.zeros((2, 18, 6, 6), "float32")
    plain = run(lambda a, b: relay.nn.conv2d(a, b, padding=1, groups=groups), x, w)
    got = run(lambda a, o, b: relay.nn.deformable_conv2d(a, o, b, padding=1, groups=groups), x, still, w)
    np.testing.assert_allclose(got, plain, rtol=1e-4, atol=1e-4)
    # All taps one column to the right: the same as of pictures moved to the left.
    moved = still.copy()
    moved[:, 1::2] = 1
    got = run(lambda a, o, b: relay.nn.deformable_conv2d(a, o, b, padding=1, groups=groups), x, moved, w)
    left = np.concatenate([x[:, :, :, 1:], np.zeros((2, 4, 6, 1), "float32")], 3)
    plain = run(lambda a, b: relay.nn.conv2d(a, b, padding=1, groups=groups), left, w)
    np.testing.assert_allclose(got[:, :, :, 1:], plain[:, :, :, 1:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("multiply", [True, False])
def test_correlation(multiply):
    a, b = randn(1, 3, 10, 9), randn(1, 3, 10, 9)
    kernel, most, stride1, stride2, pad = 3, 2, 2, 1, 2
    got = run(lambda x, y: relay.nn.correlation(x, y, kernel, most, stride1, stride2, pad, multiply), a, b)
    p, q = (np.pad(t, ((0, 0), (0, 0), (pad, pad), (pad, pad))) for t in (a, b))
    expected = np.zeros_like(got)
    for channel, (dy, dx) in enumerate((dy, dx) for dy in range(-2, 3) for dx in range(-2, 3)):
        for y in range(got.shape[2]):
            for x in range(got.shape[3]):
                at = (most + y * stride1, most + x * stride1)
                one = p[0, :, at[0]:at[0] + kernel, at[1]:at[1] + kernel]
                other = q[0, :, at[0] + dy:at[0] + dy + kernel, at[1] + dx:at[1] + dx + kernel]
                expected[0, channel, y, x] = (one * other if multiply else abs(one - other)).mean()
    assert got.shape[1] == 25
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_dilation():
    x, w = randn(1, 2, 7, 6), randn(2, 2, 3)
    got = run(lambda a, b: relay.image.dilation2d(a, b, strides=(2, 1), dilations=(1, 2)), x, w)
    expected = np.full(got.shape, -np.inf)
    for y in range(got.shape[2]):
        for z in range(got.shape[3]):
            expected[0, :, y, z] = (x[0, :, 2 * y:2 * y + 2, z:z + 5:2] + w).max((1, 2))
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    nhwc = run(lambda a, b: relay.image.dilation2d(a, b, data_layout="NHWC", kernel_layout="HWI"),
               x.transpose(0, 2, 3, 1), w.transpose(1, 2, 0))
    assert nhwc.shape == (1, 6, 4, 2)


@pytest.mark.parametrize("method", ["bilinear", "nearest_neighbor"])
def test_parts_of_pictures(method):
    x = randn(2, 3, 8, 9)
    boxes = np.array([[0.1, 0.2, 0.8, 0.9], [0.5, 0.0, 1.3, 0.4]], "float32")
    numbers = np.array([1, 0], "int32")
    got = run(lambda a, b, n: relay.image.crop_and_resize(a, b, n, (4, 5), method=method, extrapolation_value=7), x,
              boxes, numbers)
    expected = np.zeros((2, 3, 4, 5), "float32")
    for n, (y1, x1, y2, x2) in enumerate(boxes):
        for i in range(4):
            for j in range(5):
                y, z = y1 * 7 + i * (y2 - y1) * 7 / 3, x1 * 8 + j * (x2 - x1) * 8 / 4
                if not (0 <= y <= 7 and 0 <= z <= 8):
                    expected[n, :, i, j] = 7
                elif method == "nearest_neighbor":
                    expected[n, :, i, j] = x[numbers[n], :, round(float(y)), round(float(z))]
                else:
                    a, b = int(y), int(z)
                    c, d = min(a + 1, 7), min(b + 1, 8)
                    p = x[numbers[n]]
                    top, low = p[:, a, b] * (1 - z + b) + p[:, a, d] * (z - b), p[:, c, b] * (1 - z + b) + p[:, c, d] * (z - b)
                    expected[n, :, i, j] = top * (1 - y + a) + low * (y - a)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_sparse_matrices():
    x, w = randn(3, 8), randn(6, 8) * (RNG.random((6, 8)) < 0.3)
    w = w.astype("float32")
    got = run(lambda a, d, i, p: relay.nn.sparse_dense(a, (d, i, p)), x, *csr(w))
    np.testing.assert_allclose(got, x @ w.T, rtol=1e-4, atol=1e-5)
    got = run(lambda a, d, i, p: relay.nn.sparse_dense(a, (d, i, p), sparse_lhs=True), x, *csr(w))
    np.testing.assert_allclose(got, w @ x.T, rtol=1e-4, atol=1e-5)
    square = w[:6, :6]
    data, indices, indptr = run(lambda d, i, p: relay.nn.sparse_transpose((d, i, p)), *csr(square))
    for part, expected in zip((data, indices, indptr), csr(square.T)):
        np.testing.assert_array_equal(part, expected)
    dense = randn(6, 8)
    np.testing.assert_allclose(run(lambda a, d, i, p: relay.nn.sparse_add(a, (d, i, p)), dense, *csr(w)), dense + w,
                               rtol=1e-6)


def test_sparse_blocks():
    x, blocks = randn(5, 8), randn(3, 2, 4)
    indices, indptr = np.array([1, 0, 1], "int32"), np.array([0, 1, 1, 3], "int32")
    w = np.zeros((6, 8), "float32")
    w[0:2, 4:8], w[4:6, 0:4], w[4:6, 4:8] = blocks
    got = run(lambda a, d: relay.nn.sparse_dense(a, (d, relay.const(indices), relay.const(indptr))), x, blocks)
    np.testing.assert_allclose(got, x @ w.T, rtol=1e-4, atol=1e-5)


def test_segments_and_other_shapes_of_sparse_tensors():
    data = np.arange(12, dtype="float32").reshape(3, 4)
    got = run(lambda d: relay.segment_sum(d, relay.const([2, 0, 0], "int32")), data)
    np.testing.assert_array_equal(got, [data[1] + data[2], 0 * data[0], data[0]])
    indices = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 2, 3]], "int64")
    at, shape = run(lambda i: relay.sparse_reshape(i, [2, 3, 6], [9, -1]), indices)
    expected = np.stack(np.unravel_index(np.ravel_multi_index(indices.T, (2, 3, 6)), (9, 4)), 1)
    np.testing.assert_array_equal(at, expected)
    assert shape.tolist() == [9, 4]
    with pytest.raises(ValueError, match="24 elements"):
        relay.sparse_reshape(relay.const(indices), [2, 3, 4], [9, 4])


BOXES = np.array([[[0, 0.8, 1, 20, 25, 45], [1, 0.7, 30, 60, 50, 80], [0, 0.4, 4, 21, 19, 40],
                   [2, 0.9, 35, 61, 52, 79], [1, 0.5, 100, 60, 70, 110]]], "float32")


def test_boxes_that_overlap():
    count, indices = np.array([4], "int32"), np.array([[0, 1, 3, 4, -1]], "int32")

    def suppress(iou_threshold=0.4, **attrs):
        return run(lambda d, c, i: relay.vision.non_max_suppression(d, c, i, iou_threshold=iou_threshold, **attrs), BOXES,
                   count, indices)

    def scores(**attrs):
        return [row[1] for row in suppress(return_indices=False, **attrs)[0].tolist()]

    got = suppress(0.7, force_suppress=True, top_k=2, return_indices=False)
    expected = np.full((1, 5, 6), -1, "float32")
    expected[0, 0], expected[0, 1] = BOXES[0, 3], BOXES[0, 0]
    np.testing.assert_array_equal(got, expected)
    named, number = suppress(force_suppress=True)
    assert named.tolist() == [[4, 0, -1, -1, -1]] and number.tolist() == [[2]]
    assert scores() == pytest.approx([0.9, 0.8, 0.7, -1, -1])  # the last one is of the class of the second
    assert scores(iou_threshold=0.7) == pytest.approx([0.9, 0.8, 0.7, 0.4, -1])
    assert scores(max_output_size=1) == pytest.approx([0.9, -1, -1, -1, -1])
    assert scores(force_suppress=True, invalid_to_bottom=True) == pytest.approx([0.9, 0.8, -1, -1, -1])
    assert scores(iou_threshold=0.0) == pytest.approx([0.8, 0.7, 0.4, 0.9, -1])  # as they came


def test_boxes_above_a_threshold():
    number, boxes, indices = run(lambda d: relay.vision.get_valid_counts(d, 0.6), BOXES)
    assert number.tolist() == [3] and indices.tolist() == [[0, 1, 3, -1, -1]]
    np.testing.assert_array_equal(boxes[0, :3], BOXES[0, [0, 1, 3]])
    assert (boxes[0, 3:] == -1).all()


def test_anchors_and_what_is_made_of_them():
    prior = run(lambda d: relay.vision.multibox_prior(d, sizes=(0.5, 0.25), ratios=(1, 2)) + relay.const(0.0) * relay.sum(d),
                randn(1, 2, 2, 3))
    assert prior.shape == (1, 18, 4)
    np.testing.assert_allclose(prior[0, 0], [1 / 6 - 0.5 * 2 / 3 / 2, 0, 1 / 6 + 0.5 * 2 / 3 / 2, 0.5], rtol=1e-5,
                               atol=1e-6)
    anchor = np.array([[[0.1, 0.1, 0.3, 0.3], [0.4, 0.4, 0.8, 0.8]]], "float32")
    probability = np.array([[[0.1, 0.6], [0.9, 0.005], [0.0, 0.001]]], "float32")
    moves = np.array([[1, 0, 0, 0, 0, 0, 0, 0]], "float32")
    boxes, number = run(lambda p, m, a: relay.vision.multibox_transform_loc(p, m, a), probability, moves, anchor)
    assert number.tolist() == [1] and (boxes[0, 1] == -1).all()
    np.testing.assert_allclose(boxes[0, 0], [0, 0.9, 0.12, 0.1, 0.32, 0.3], rtol=1e-5)
    rows, found = run(lambda b, s: relay.vision.all_class_non_max_suppression(b, s, 3, 0.5, 0.1),
                      BOXES[:, :, [3, 2, 5, 4]], BOXES[:, None, :, 1])
    assert found.tolist() == [3] and rows[:3].tolist() == [[0, 0, 3], [0, 0, 0], [0, 0, 4]]


def test_what_quantising_does_to_floats():
    x = randn(2, 3, 4)
    got = run(lambda d: relay.qnn.op.simulated_quantize(d, relay.const([0.1, 0.2, 0.3]), relay.const(3), axis=1), x)
    expected = np.clip(np.round(x / np.array([0.1, 0.2, 0.3], "float32")[:, None]) + 3, -128, 127)
    np.testing.assert_allclose(got, expected, atol=1)
    back = run(lambda d: relay.qnn.op.simulated_dequantize(d, relay.const(0.1), relay.const(3)), got)
    np.testing.assert_allclose(back, (got - 3) * np.float32(0.1), rtol=1e-5)
    a, w = RNG.integers(0, 255, (1, 3, 4, 4)).astype("uint8"), RNG.integers(-128, 127, (3, 2, 3, 3)).astype("int8")
    number = lambda v: relay.const(v, "int32" if isinstance(v, int) else "float32")  # noqa: E731
    got = run(lambda x, y: relay.qnn.op.conv2d_transpose(x, y, number(9), number(2), number(0.5), number(0.25),
                                                         strides=(2, 2), channels=2, kernel_size=(3, 3)), a, w)
    expected = run(lambda x, y: relay.nn.conv2d_transpose(x, y, strides=(2, 2), channels=2, kernel_size=(3, 3)),
                   a.astype("float32") - 9, w.astype("float32") - 2)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("function", [
    lambda: relay.nn.bitserial_dense(1, 2), lambda: relay.nn.contrib_conv2d_winograd_weight_transform(1),
    lambda: relay.vision.proposal(1), lambda: relay.memory.alloc_tensor(1)])
def test_what_isnt_there_is_refused_by_name(function):
    with pytest.raises(tvm.UnsupportedOpError, match="there is no operator"):
        function()


def test_sliding_windows():
    x = randn(2, 5, 6)
    expected = np.lib.stride_tricks.sliding_window_view(x, (3, 2), axis=(1, 2))[:, ::2, ::3]
    np.testing.assert_array_equal(run(lambda d: relay.sliding_window(d, 1, [3, 2], [2, 3]), x), expected)
    np.testing.assert_array_equal(run(lambda d: relay.sliding_window(d, -1, [6], [1]), x), x[:, :, None])
    with pytest.raises(tvm.Error, match="window_shape"):
        run(lambda d: relay.sliding_window(d, 1, [3], [1]), x)
    with pytest.raises(tvm.Error, match="7"):
        run(lambda d: relay.sliding_window(d, 2, [7], [1]), x)
