# SPDX-License-Identifier: Apache-2.0
"""What dimensions are multiples of reaches the kernels."""
import pathlib
import re
import subprocess

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle import te

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"

SOURCE = """
    <ir_version: 8, opset_import: ["": 17]>
    net (float[n, 3, h, w] x, float[n, 3, h, w] mask) => (float[n, 4, a, b] y, float[n, 3, h, w] z) {
        p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
        q = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (p)
        s = Shape <start = 2> (q)
        two = Constant <value_ints = [4, 4]> ()
        back = Mul (s, two)
        one = Constant <value_ints = [1, 3]> ()
        sizes = Concat <axis = 0> (one, back)
        wide = Expand (bias, sizes)
        z = Add (wide, mask)
        c = Conv <pads = [1, 1, 1, 1]> (q, kernel)
        y = Relu (c)
    }"""


@pytest.fixture(scope="module")
def source():
    model = onnx.parser.parse_model(SOURCE)
    kernel = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype("f4")
    model.graph.initializer.extend([onnx.numpy_helper.from_array(kernel, "kernel"),
                                    onnx.numpy_helper.from_array(np.float32([[[[2]]]]), "bias")])
    return model


@pytest.mark.parametrize("target", ["llvm", "c", "stackvm"])
def test_results_are_those_of_unrelated_dimensions(source, target):
    ranged = treadle.compile(source, target=target, dims={"h": "32k", "w": "..128:8k"}, threads=1)
    plain = treadle.compile(source, threads=1)
    rng = np.random.default_rng(1)
    for batch, height, width in ((1, 32, 8), (2, 64, 40), (3, 96, 128)):
        x = rng.standard_normal((batch, 3, height, width)).astype("f4")
        for actual, expected in zip(ranged.run(None, {"x": x, "mask": x}), plain.run(None, {"x": x, "mask": x})):
            np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_kernels_know_the_multiples(source, tmp_path):
    """A half of 32 h is 16 h: the buffers of kernels say so."""
    onnx.save(source, tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--dim", "h=32k,w=8k", "--dump", "tir",
               "--dump-dir", tmp_path / "d"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    text = "\n".join(path.read_text() for path in (tmp_path / "d").iterdir())
    for height, width in ((32, 8), (16, 4), (8, 2)):
        assert re.search(rf"\(n\d(: int64)?\*{height}i64\), \(n\d(: int64)?\*{width}i64\)", text), text[:2000]


def test_arguments_that_are_no_multiple_are_refused():
    n = te.var("n", "int64")
    a = te.placeholder((8 * n, 3), name="a")
    b = te.compute((8 * n, 3), lambda i, j: a[i, j] + 1.0, name="b")
    for target in ("llvm", "stackvm"):
        function = treadle.build(te.create_schedule(b.op), [a, b], target)
        x = np.arange(48, dtype="f4").reshape(16, 3)
        y = treadle.nd.array(np.zeros_like(x))
        function(treadle.nd.array(x), y)
        np.testing.assert_array_equal(y.numpy(), x + 1)
        with pytest.raises(treadle.error.Error, match=r"arg0.shape\[0\] is expected to equal"):
            function(treadle.nd.array(x[:15]), treadle.nd.array(x[:15]))
        with pytest.raises(treadle.error.Error, match=r"arg1.shape\[0\] is expected to equal"):
            function(treadle.nd.array(x), treadle.nd.array(x[:8]))


def test_results_of_two_convolutions_of_one_image_have_one_size(tmp_path):
    """(h + 2 - 3) / 2 + 1 and (h - 1) / 2 + 1, of images that convolutions made: what follows the second adds the first, in
    tiles of registers, without asking whether one of them has to be broadcast."""
    ort = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    nodes, weights, image, channels = [], [], "x", 3
    for stage in range(3):
        for name, size, pad in (("wide", 3, 1), ("point", 1, 0)):
            weight = rng.standard_normal((48, channels, size, size)) / np.sqrt(channels * size * size)
            weights.append(numpy_helper.from_array(weight.astype(np.float32), f"w_{name}{stage}"))
            nodes.append(helper.make_node("Conv", [image, f"w_{name}{stage}"], [f"{name}{stage}"], strides=[2, 2], pads=[pad] * 4,
                                          kernel_shape=[size, size]))
        nodes += [helper.make_node("Add", [f"point{stage}", f"wide{stage}"], [f"sum{stage}"]),
                  helper.make_node("Relu", [f"sum{stage}"], [f"y{stage}"])]
        image, channels = f"y{stage}", 48
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
                              [onnx.ValueInfoProto(name=image)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--dump", "tir", "--dump-dir", tmp_path]
    subprocess.run(command, check=True, capture_output=True)
    assert "unscheduled" not in (tmp_path / "tir.tir").read_text()
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled = treadle.load(tmp_path / "m.so")
    for shape in ((1, 3, 64, 64), (2, 3, 57, 83), (1, 3, 8, 3), (1, 3, 1, 1)):
        x = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(compiled.run(None, {"x": x})[0], session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-4)
