# SPDX-License-Identifier: Apache-2.0
"""Operators of networks as tensor expressions, under the original's names."""
import numpy as np
import pytest

import treadle as tvm
from treadle import te, topi
from treadle.topi import nn, testing


def run(compute, *shapes, target="llvm", door=topi.generic.default_schedule):
    """The result of `compute` of random tensors, and these."""
    tensors = [te.placeholder(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    values = [np.random.default_rng(i).standard_normal(shape).astype("float32") for i, shape in enumerate(shapes)]
    out = compute(*tensors)
    with tvm.target.Target(target):
        schedule = door([out])
    dev = tvm.device(target, 0)
    result = tvm.nd.empty([int(d) for d in out.shape], str(out.dtype), dev)
    tvm.build(schedule, [*tensors, out], target)(*(tvm.nd.array(v, dev) for v in values), result)
    return result.numpy(), values


@pytest.mark.parametrize("padding, stride", [("SAME", 2), ("VALID", 1), (1, 1), ((1, 2), 2)])
def test_convolutions_in_three_layouts(padding, stride):
    got, (x, w) = run(lambda x, w: nn.conv2d_nchw(x, w, stride, padding, 1), (2, 3, 9, 8), (4, 3, 3, 3))
    np.testing.assert_allclose(got, testing.conv2d_nchw_python(x, w, stride, padding), rtol=1e-4, atol=1e-4)
    got, (x, w) = run(lambda x, w: nn.conv2d_nhwc(x, w, stride, padding, 1), (2, 9, 8, 3), (3, 3, 3, 4))
    np.testing.assert_allclose(got, testing.conv2d_nhwc_python(x, w, stride, padding), rtol=1e-4, atol=1e-4)
    got, (x, w) = run(lambda x, w: nn.conv2d_hwcn(x, w, stride, padding), (9, 8, 3, 2), (3, 3, 3, 4))
    np.testing.assert_allclose(got, testing.conv2d_hwcn_python(x, w, stride, padding), rtol=1e-4, atol=1e-4)


def test_channels_by_themselves():
    got, (x, w) = run(lambda x, w: nn.depthwise_conv2d_nchw(x, w, 1, 1, 1), (1, 4, 6, 6), (4, 2, 3, 3))
    expected = testing.depthwise_conv2d_python_nchw(x, w, 1, 1)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    got, _ = run(lambda x, w: nn.depthwise_conv2d_nhwc(x, w, 1, 1, 1), (1, 6, 6, 4), (3, 3, 4, 2))
    assert got.shape == (1, 6, 6, 8)


def test_rows_and_volumes():
    got, (x, w) = run(lambda x, w: nn.conv1d_ncw(x, w, 1, "SAME"), (2, 3, 10), (4, 3, 3))
    expected = testing.conv2d_nchw_python(x[:, :, None], w[:, :, None], 1, (0, 1, 0, 1))[:, :, 0]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    got, (x, w) = run(lambda x, w: nn.conv3d_ncdhw(x, w, 1, 0, 1), (1, 2, 1, 6, 6), (3, 2, 1, 3, 3))
    np.testing.assert_allclose(got[:, :, 0], testing.conv2d_nchw_python(x[:, :, 0], w[:, :, 0], 1, 0), rtol=1e-4,
                               atol=1e-4)


def test_pools_products_and_the_rest():
    got, (x,) = run(lambda x: nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max"), (1, 3, 8, 8))
    np.testing.assert_array_equal(got, x.reshape(1, 3, 4, 2, 4, 2).max((3, 5)))
    got, (x,) = run(lambda x: nn.adaptive_pool(x, (2, 2), "avg"), (1, 3, 8, 8))
    np.testing.assert_allclose(got, x.reshape(1, 3, 2, 4, 2, 4).mean((3, 5)), rtol=1e-4, atol=1e-5)
    got, (a, b) = run(lambda a, b: topi.tensordot(a, b, 2), (3, 4, 5), (4, 5, 6))
    np.testing.assert_allclose(got, np.tensordot(a, b, 2), rtol=1e-4, atol=1e-4)
    got, (a, b) = run(nn.batch_matmul, (2, 3, 5), (2, 4, 5))
    np.testing.assert_allclose(got, a @ b.transpose(0, 2, 1), rtol=1e-4, atol=1e-5)
    got, (x, scale, shift) = run(nn.scale_shift_nchw, (1, 3, 4, 4), (3,), (3,))
    np.testing.assert_allclose(got, x * scale[:, None, None] + shift[:, None, None], rtol=1e-5)
    got, (x,) = run(lambda x: topi.flip(x, 1), (2, 5))
    np.testing.assert_array_equal(got, x[:, ::-1])
    assert run(topi.shape, (2, 5, 7))[0].tolist() == [2, 5, 7]
    got, (x, w) = run(lambda x, w: nn.conv2d_transpose_nchw(x, w, (2, 2), (1, 1), "float32", (0, 0)), (1, 3, 4, 4),
                      (3, 2, 3, 3))
    assert got.shape == (1, 2, 7, 7)


@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_sums_of_everything_on_devices(target):
    if target == "opencl" and not tvm.opencl().exist:
        pytest.skip("no OpenCL device")
    got, (a, b) = run(lambda a, b: topi.sum((a + b) / 2.0), (100, 10, 10), (10, 10), target=target,
                      door=topi.cuda.schedule_reduce)
    np.testing.assert_allclose(got, ((a + b) / 2).sum(dtype="float64"), rtol=1e-4)


def test_what_cant_be_computed_is_refused():
    x, w = te.placeholder((1, 3, 8, 8)), te.placeholder((4, 3, 3, 3))
    with pytest.raises(ValueError, match="layout 'CHWN'; expected one of"):
        nn.conv2d(x, w, 1, 0, 1, "CHWN")
    with pytest.raises(ValueError, match='"SAME" or "VALID"'):
        nn.conv2d_nchw(x, w, 1, "full")
    with pytest.raises(ValueError, match="expected max or avg"):
        nn.pool2d(x, 2, 2, 1, 0, "sum")
    with pytest.raises(AttributeError, match="no operator"):
        nn.no_such_operator  # noqa: B018


def test_products_by_machine():
    """Computes beside the schedules of topi.x86: Treadle's own and those of a library; others say what is there."""
    shapes = {"data": (5, 8), "weight": (6, 8), "bias": (6,), "left": (2, 3, 4), "right": (2, 5, 4)}
    t = {name: te.placeholder(shape, name=name) for name, shape in shapes.items()}
    v = {name: np.random.default_rng(i).random(shape, "float32") for i, (name, shape) in enumerate(shapes.items())}
    dense = v["data"] @ v["weight"].T + v["bias"]
    cases = [(topi.x86.dense_nopack, topi.x86.schedule_dense_nopack, ("data", "weight", "bias"), dense),
             (topi.x86.dense_pack, topi.x86.schedule_dense_pack, ("data", "weight", "bias"), dense),
             (topi.x86.dense_cblas, topi.x86.schedule_dense_cblas, ("data", "weight", "bias"), dense),
             (topi.x86.batch_matmul_cblas, topi.x86.schedule_batch_matmul_cblas, ("left", "right"),
              v["left"] @ v["right"].swapaxes(1, 2))]
    for compute, schedule, names, expected in cases:
        with tvm.target.Target("llvm"):
            made = compute(*(t[name] for name in names))
            function = tvm.build(schedule([made]), [*(t[name] for name in names), made])
        out = tvm.nd.empty(expected.shape)
        function(*(tvm.nd.array(v[name]) for name in names), out)
        np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5)
    with pytest.raises(tvm.Error, match="dense_cublas: cuBLAS isn't called from tensor expressions; dense_cblas is there"):
        topi.cuda.dense_cublas(t["data"], t["weight"])
    with pytest.raises(tvm.Error, match="dense_cblas gives the dtype of its operands"):
        topi.x86.dense_cblas(t["data"], t["weight"], out_dtype="float64")
