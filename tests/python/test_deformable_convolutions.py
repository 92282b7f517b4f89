# SPDX-License-Identifier: Apache-2.0
"""Deformable convolutions: where taps read is computed once for all channels of a group. The reference is written out in NumPy."""
import itertools
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
FLOAT = onnx.TensorProto.FLOAT


def model(shapes, **attributes):
    names = ["x", "w", "o", "", "m"] if len(shapes) == 4 else ["x", "w", "o"]
    values = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in zip(filter(None, names), shapes)]
    graph = helper.make_graph([helper.make_node("DeformConv", names, ["y"], **attributes)], "g", values, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def sampled(plane, y, x):
    """Between elements; what is outside is 0."""
    total = 0.0
    for row, column in itertools.product((np.floor(y), np.floor(y) + 1), (np.floor(x), np.floor(x) + 1)):
        if 0 <= row < plane.shape[0] and 0 <= column < plane.shape[1]:
            total += plane[int(row), int(column)] * (1 - abs(y - row)) * (1 - abs(x - column))
    return total


def expected(x, w, o, m, strides, dilations, pads, groups):
    kernel, places = w.shape[2:], o.shape[2:]
    y = np.zeros((x.shape[0], w.shape[0], *places))
    for n, c, (i, j), oh, ow in itertools.product(range(x.shape[0]), range(x.shape[1]), np.ndindex(*kernel), *map(range, places)):
        tap = c // (x.shape[1] // groups) * kernel[0] * kernel[1] + i * kernel[1] + j
        row = oh * strides[0] + i * dilations[0] - pads[0] + float(o[n, 2 * tap, oh, ow])
        column = ow * strides[1] + j * dilations[1] - pads[1] + float(o[n, 2 * tap + 1, oh, ow])
        y[n, :, oh, ow] += w[:, c, i, j] * sampled(x[n, c], row, column) * m[n, tap, oh, ow]
    return y


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=x86-64-v3"])
@pytest.mark.parametrize("strides, dilations, groups, masked", [((1, 1), (1, 1), 1, False), ((2, 1), (1, 2), 2, True)])
def test_sampled_columns(strides, dilations, groups, masked, target):
    rng = np.random.default_rng(0)
    kernel, pads, size = (3, 2), (1, 2, 1, 0), (9, 11)
    count = [(size[d] + pads[d] + pads[2 + d] - dilations[d] * (kernel[d] - 1) - 1) // strides[d] + 1 for d in (0, 1)]
    x, w = (rng.standard_normal(s).astype("f4") for s in ((2, 4, *size), (3, 4, *kernel)))
    o = (rng.standard_normal((2, 12 * groups, *count)) * 3).astype("f4")
    o.flat[::13] = 1e9
    o.flat[5::17] = -1e9
    o.flat[3::11] = 1
    m = rng.random((2, 6 * groups, *count)).astype("f4") if masked else np.ones((2, 6 * groups, *count), "f4")
    feed = {"x": x, "w": w, "o": o, **({"m": m} if masked else {})}
    right = expected(x.astype("f8"), w, o, m, strides, dilations, pads, groups)
    for shapes in ([a.shape for a in feed.values()], [["n", 4, "h", "v"], w.shape, ["n", o.shape[1], "p", "q"], ["n", m.shape[1], "p", "q"]]):
        onnx_model = model(shapes[:len(feed)], strides=strides, dilations=dilations, pads=pads, offset_group=groups, kernel_shape=kernel)
        np.testing.assert_allclose(treadle.compile(onnx_model, target=target)(**feed)["y"], right, rtol=0, atol=1e-4)


def test_elements_outside_count_nothing():
    """Those at the border stand for them."""
    x, w, o = np.full((1, 1, 3, 3), np.inf, "f4"), np.ones((1, 1, 1, 1), "f4"), np.full((1, 2, 3, 3), 5, "f4")
    np.testing.assert_array_equal(treadle.compile(model([x.shape, w.shape, o.shape]))(x=x, w=w, o=o)["y"], 0)


def test_places_are_tables(tmp_path):
    onnx.save(model([(1, 8, 9, 11), (4, 8, 3, 3), (1, 18, 7, 9)]), tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--target",
               "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4", "--dump", "tir", "--dump-dir", tmp_path / "d"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    lines = re.findall(r"deformable_columns_2\[.*\] = .*", (tmp_path / "d/tir.tir").read_text())
    assert lines and not any("floor(" in line for line in lines)
