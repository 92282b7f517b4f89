# SPDX-License-Identifier: Apache-2.0
"""Code for 64-bit ARM, run by qemu-user with the runtime of `make aarch64`: results are those of this machine."""
import os
import pathlib
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
BUILD = pathlib.Path(os.environ.get("TREADLE_AARCH64_BUILD", pathlib.Path(__file__).parents[2] / "build-aarch64"))
RUNNER = BUILD / "bin/c_inference"
EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
LIBRARIES = pathlib.Path("/usr/aarch64-linux-gnu")
MISSING = [f"{what} isn't there" for what, there in [
    ("qemu-aarch64 (Debian's qemu-user)", EMULATOR), (f"{LIBRARIES} (libc6-arm64-cross)", LIBRARIES.is_dir()),
    (f"{RUNNER} (make aarch64)", RUNNER.is_file())] if not there]
pytestmark = pytest.mark.skipif(bool(MISSING), reason="; ".join(MISSING))
#: Neon alone, with dot products of bytes of one sign, with those of mixed signs and of bfloat16.
PROCESSORS = ["generic", "neoverse-n1", "neoverse-v1"]


def model_of(nodes, inputs, constants, outputs=("y",), output_type=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                     for name, x in inputs.items()],
        [helper.make_tensor_value_info(name, output_type, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()])
    return helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])


def run_on_arm(model, inputs, folder, processor, *options):
    """The first output's bytes."""
    onnx.save(model, folder / "m.onnx")
    target = f"llvm -mtriple=aarch64-linux-gnu -mcpu={processor} -num-cores=2"
    compiled = subprocess.run([PROGRAM, "compile", folder / "m.onnx", "-o", folder / "m.so", "--target", target, *options],
                              capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    files = []
    for i, value in enumerate(inputs.values()):
        files.append(folder / f"in{i}.bin")
        value.tofile(files[-1])
    # The maximal processor of the emulator has all instructions.
    run = subprocess.run([EMULATOR, "-L", LIBRARIES, "-cpu", "max", RUNNER, folder / "m.so", *files, folder / "y.bin"],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return (folder / "y.bin").read_bytes()


def convolutions():
    rng = np.random.default_rng(1)
    weight = lambda *shape: rng.standard_normal(shape, dtype=np.float32) / np.float32(np.prod(shape[1:]))**0.5
    nodes = [helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1] * 4, strides=[2, 2]),
             helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1] * 4),  # Winograd
             helper.make_node("Conv", ["c", "w2"], ["d"], pads=[2] * 4, group=32),
             helper.make_node("HardSwish", ["d"], ["e"]),
             helper.make_node("Conv", ["e", "w3"], ["f"]),
             helper.make_node("Add", ["f", "b"], ["g"]),
             helper.make_node("GlobalAveragePool", ["g"], ["h"]), helper.make_node("Flatten", ["h"], ["i"]),
             helper.make_node("Gemm", ["i", "w4"], ["y"], transB=1)]
    constants = {"w0": weight(32, 3, 3, 3), "w1": weight(32, 32, 3, 3), "w2": weight(32, 1, 5, 5),
                 "w3": weight(32, 32, 1, 1), "w4": weight(10, 32)}
    inputs = {"x": rng.standard_normal((1, 3, 30, 34), dtype=np.float32)}
    return model_of(nodes, inputs, constants), inputs


def transformer():
    rng = np.random.default_rng(2)
    weight = lambda *shape: rng.standard_normal(shape, dtype=np.float32) / np.float32(shape[0])**0.5
    constants = {"wq": weight(48, 48), "wk": weight(48, 48), "wv": weight(48, 48), "w1": weight(48, 96), "w2": weight(96, 48),
                 "scale": np.float32(1 / 4), "half": np.float32(0.5), "root": np.float32(2**0.5), "one": np.float32(1),
                 "heads": np.array([1, 19, 3, 16]), "rows": np.array([1, 19, 48]), "g": np.ones(48, np.float32)}
    nodes = [helper.make_node("LayerNormalization", ["x", "g"], ["n"])]
    for name in "qkv":
        nodes += [helper.make_node("MatMul", ["n", "w" + name], [name + "0"]),
                  helper.make_node("Reshape", [name + "0", "heads"], [name + "1"]),
                  helper.make_node("Transpose", [name + "1"], [name], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])]
    nodes += [helper.make_node("MatMul", ["q", "k"], ["s0"]), helper.make_node("Mul", ["s0", "scale"], ["s1"]),
              helper.make_node("Softmax", ["s1"], ["s"]), helper.make_node("MatMul", ["s", "v"], ["o0"]),
              helper.make_node("Transpose", ["o0"], ["o1"], perm=[0, 2, 1, 3]),
              helper.make_node("Reshape", ["o1", "rows"], ["o"]), helper.make_node("Add", ["o", "x"], ["r"]),
              helper.make_node("MatMul", ["r", "w1"], ["f"]), helper.make_node("Div", ["f", "root"], ["e0"]),
              helper.make_node("Erf", ["e0"], ["e1"]), helper.make_node("Add", ["e1", "one"], ["e2"]),
              helper.make_node("Mul", ["f", "e2"], ["e3"]), helper.make_node("Mul", ["e3", "half"], ["e"]),
              helper.make_node("MatMul", ["e", "w2"], ["y"])]
    inputs = {"x": rng.standard_normal((1, 19, 48), dtype=np.float32)}
    return model_of(nodes, inputs, constants), inputs


def quantised_convolutions():
    """Strided, depthwise, grouped, 1x1, a residual sum; uint8 activations with zero points, as QOperator."""
    rng = np.random.default_rng(3)
    constants, nodes = {"s": np.float32(0.02), "z": np.uint8(119)}, []

    def conv(x, y, outputs, inputs, kernel, **attributes):
        i = len(nodes)
        constants[f"w{i}"] = rng.integers(-127, 128, (outputs, inputs, kernel, kernel)).astype(np.int8)
        constants[f"ws{i}"] = (rng.random(outputs, np.float32) + 0.5) / np.float32(70 * (inputs * kernel * kernel)**0.5)
        constants[f"wz{i}"] = np.zeros(outputs, np.int8)
        constants[f"b{i}"] = rng.integers(-3000, 3000, outputs).astype(np.int32)
        nodes.append(helper.make_node("QLinearConv", [x, "s", "z", f"w{i}", f"ws{i}", f"wz{i}", "s", "z", f"b{i}"], [y],
                                      pads=[kernel // 2] * 4, **attributes))

    conv("x", "a", 32, 3, 3, strides=[2, 2])
    conv("a", "b", 32, 1, 3, group=32)
    conv("b", "c", 48, 32, 1)
    conv("c", "d", 48, 12, 3, group=4)
    nodes.append(helper.make_node("QLinearAdd", ["c", "s", "z", "d", "s", "z", "s", "z"], ["e"], domain="com.microsoft"))
    conv("e", "y", 20, 48, 3)
    inputs = {"x": rng.integers(0, 256, (1, 3, 17, 21)).astype(np.uint8)}
    return model_of(nodes, inputs, constants, output_type=TensorProto.UINT8), inputs


def products_of_bytes():
    """Odd sizes, both extremes of the range, zero points of both operands."""
    rng = np.random.default_rng(4)
    constants = {"w": rng.integers(-128, 128, (67, 37)).astype(np.int8), "zw": np.int8(-3), "zx": np.uint8(200)}
    constants["w"][:33] = np.where(rng.random((33, 37)) < 0.5, -128, 127)
    x = rng.integers(0, 256, (13, 67)).astype(np.uint8)
    x[:5] = 255
    nodes = [helper.make_node("MatMulInteger", ["x", "w", "zx", "zw"], ["y"])]
    return model_of(nodes, {"x": x}, constants, output_type=TensorProto.INT32), {"x": x}


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("make", [quantised_convolutions, products_of_bytes])
def test_integers_are_equal(make, processor, tmp_path):
    model, inputs = make()
    expected = treadle.compile(model)(**inputs)["y"]
    actual = np.frombuffer(run_on_arm(model, inputs, tmp_path, processor), expected.dtype).reshape(expected.shape)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("make", [convolutions, transformer])
def test_floats_are_near(make, tmp_path):
    model, inputs = make()
    expected = treadle.compile(model)(**inputs)["y"]
    actual = np.frombuffer(run_on_arm(model, inputs, tmp_path, "generic"), expected.dtype).reshape(expected.shape)
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("processor, precision, least", [
    ("neoverse-v1", "bf16", 38), ("generic", "bf16", 40), ("generic", "f16", 60)])
@pytest.mark.parametrize("make", [convolutions, transformer])
def test_narrow_products_are_near(make, processor, precision, least, tmp_path):
    model, inputs = make()
    expected = treadle.compile(model)(**inputs)["y"].astype(np.float64)
    actual = run_on_arm(model, inputs, tmp_path, processor, "--precision", precision)
    noise = np.frombuffer(actual, np.float32).reshape(expected.shape) - expected
    assert 10 * np.log10((expected**2).sum() / (noise**2).sum()) > least
