# SPDX-License-Identifier: Apache-2.0
"""Pooling on NC spatial: vectors of neighbouring results in registers, for windows and rows of any size."""
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
WINDOWS = [  # window, strides, dilations, padding before, padding after
    ((3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    ((3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
    ((2, 2), (2, 2), (1, 1), (0, 0), (0, 0)),
    ((5, 2), (1, 3), (1, 2), (2, 1), (0, 0)),
    ((7, 7), (7, 7), (1, 1), (0, 0), (0, 0)),
    ((5, 5), (1, 1), (1, 1), (2, 2), (2, 2)),  # from here columns are reduced before rows
    ((13, 9), (1, 1), (1, 1), (6, 4), (6, 4)),
    ((7, 4), (2, 1), (1, 2), (3, 1), (3, 2)),
    ((3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((3,), (2,), (1,), (1,), (1,)),
    ((25,), (1,), (1,), (3,), (4,)),
    ((2, 2, 2), (2, 2, 2), (1, 1, 1), (0, 0, 0), (0, 0, 0)),
    ((3, 2, 3), (1, 2, 1), (1, 1, 1), (1, 0, 1), (1, 1, 1)),
]
SIZES = {1: [(1, 3, 40), (2, 2, 301)], 2: [(1, 3, 9, 8), (2, 5, 20, 21), (1, 2, 17, 66)], 3: [(1, 2, 5, 9, 7), (1, 3, 4, 8, 35)]}


def expected(kind, x, window, strides, dilations, before, after, counts_padding):
    spatial = range(len(window))
    widths = [(0, 0), (0, 0), *zip(before, after)]
    fill = -np.inf if kind == "MaxPool" and x.dtype.kind == "f" else np.iinfo(x.dtype).min if kind == "MaxPool" else 0
    padded = np.pad(x, widths, constant_values=fill)
    inside = np.pad(np.ones_like(x, "f8"), widths, constant_values=1 if counts_padding else 0)
    count = [(padded.shape[2 + d] - dilations[d] * (window[d] - 1) - 1) // strides[d] + 1 for d in spatial]
    taps, weights = [], []
    for tap in itertools.product(*map(range, window)):
        at = tuple(slice(t * dilations[d], t * dilations[d] + (count[d] - 1) * strides[d] + 1, strides[d]) for d, t in enumerate(tap))
        taps.append(padded[(..., *at)])
        weights.append(inside[(..., *at)])
    if kind == "MaxPool":
        return np.max(taps, axis=0)
    return np.sum(np.asarray(taps, "f8"), axis=0) / np.maximum(np.sum(weights, axis=0), 1)


def model(kind, dtype, shape, window, strides, dilations, before, after, counts_padding):
    attributes = {"kernel_shape": window, "strides": strides, "pads": [*before, *after], "dilations": dilations}
    if kind == "AveragePool":
        attributes["count_include_pad"] = int(counts_padding)
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
    graph = helper.make_graph([helper.make_node(kind, ["x"], ["y"], **attributes)], "g", [x], [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: "x".join(map(str, w[0] + w[1])))
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_windows_of_rows(kind, window):
    """Static rows were up to eleven times, dynamic ones four times as slow as ONNX Runtime's."""
    rank = len(window[0])
    rng = np.random.default_rng(0)
    counts_padding = window[0][0] == 5
    anything = treadle.compile(model(kind, "float32", ["n", "c", *"dhw"[:rank]], *window, counts_padding), threads=2)
    for shape in SIZES[rank]:
        x = rng.standard_normal(shape).astype("f4")
        x[0, 0].flat[::7] = np.nan if kind == "MaxPool" else 0
        fixed = treadle.compile(model(kind, "float32", shape, *window, counts_padding), threads=2)
        right = expected(kind, x, *window, counts_padding)
        for compiled in (anything, fixed):
            np.testing.assert_allclose(compiled(x=x)["y"], right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64", "c", "stackvm"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8"])
def test_elements_of_any_width(dtype, target):
    rng = np.random.default_rng(0)
    for window in WINDOWS[:2]:
        x = (rng.standard_normal((1, 3, 11, 37)) * 40).clip(0, 127).astype(dtype)
        compiled = treadle.compile(model("MaxPool", dtype, ["n", "c", "h", "w"], *window, False), target=target)
        np.testing.assert_array_equal(compiled(x=x)["y"], expected("MaxPool", x, *window, False))


def lowered(shape, window, folder):
    """The text of max pooling, lowered for vectors of 16."""
    onnx.save(model("MaxPool", "float32", shape, *window, False), folder / "m.onnx")
    command = [PROGRAM, "compile", folder / "m.onnx", "-o", folder / "m.so", "--target",
               "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4", "--dump", "tir", "--dump-dir", folder / "d"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return (folder / "d/tir.tir").read_text()


@pytest.mark.parametrize("shape", [(1, 8, 35, 37), ("n", "c", "h", "w")])
def test_results_stay_in_registers(shape, tmp_path):
    """Each tap loaded and stored its results; ends of rows were masked in each of these steps."""
    text = lowered(shape, WINDOWS[1], tmp_path)
    assert re.search(r"local\[ramp\(0i64, 1i64, 16\)\] = max\(", text), text
    assert not re.search(r"masked_(load|store)\([^,]*local[^,]*, 1i64, 16\)\], .*max\(", text)
    assert "2i64, 16)], (ramp" not in text  # elements that are picked by a gather


@pytest.mark.parametrize("sizes", [(1, 8, 20, 23), ("n", 8, "h", "w")])
def test_columns_are_reduced_first(sizes, tmp_path):
    """Windows of 5 x 5 are 5 + 5 steps."""
    text = lowered(sizes, WINDOWS[5], tmp_path)
    steps = len(re.findall(r"columns\S*local\[.*\] = max\(", text))
    assert steps > 0 and steps % 5 == 0, text
    assert len(re.findall(r"pool_max(_\d+)?\.local\[.*\] = max\(", text)) % 5 == 0
    assert "pool_max_columns" in text


@pytest.mark.parametrize("channels", [16, 40])
@pytest.mark.parametrize("window", WINDOWS[5:8], ids=lambda w: "x".join(map(str, w[0] + w[1])))
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_blocked_channels(kind, window, channels):
    """Between convolutions, here by unit matrices."""
    onnx_model = model(kind, "float32", [1, channels, "h", "w"], *window, False)
    unit = onnx.numpy_helper.from_array(np.eye(channels, dtype="f4")[:, :, None, None], "unit")
    pool = onnx_model.graph.node[0]
    pool.input[0], pool.output[0] = "a", "b"
    nodes = [helper.make_node("Conv", ["x", "unit"], ["a"]), pool, helper.make_node("Conv", ["b", "unit"], ["y"])]
    graph = helper.make_graph(nodes, "g", onnx_model.graph.input, onnx_model.graph.output, [unit])
    onnx_model.graph.CopyFrom(graph)
    x = np.random.default_rng(0).standard_normal((1, channels, 20, 23)).astype("f4")
    np.testing.assert_allclose(treadle.compile(onnx_model, threads=2)(x=x)["y"], expected(kind, x, *window, False), rtol=0, atol=1e-5)
