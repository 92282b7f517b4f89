# SPDX-License-Identifier: Apache-2.0
"""Operators on quantised tensors, bit for bit against exact integers in NumPy."""
import pathlib
import platform
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle import relay
from treadle.ir import IRModule

SCALE = np.float32(0.0123)
PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
#: Instructions of this machine; what AVX2 has, where it is one; intrinsics written out, as any machine can have them.
TARGETS = ["llvm", "llvm -emulate-intrinsics=1"]
if platform.machine() == "x86_64":
    TARGETS.append("llvm -mcpu=x86-64-v3")
#: The words of AVX2, written out.
OTHERS = ["llvm", "llvm -mcpu=x86-64-v3 -emulate-intrinsics=1"]


def run(text_or_function, *arrays, targets=TARGETS):
    """The result, which is the same on all targets."""
    module = IRModule.from_expr(text_or_function) if not isinstance(text_or_function, IRModule) else text_or_function
    results = [relay.create_executor("graph", mod=module, target=target).evaluate()(*arrays).numpy()
               for target in targets]
    for target, result in zip(targets[1:], results[1:]):
        np.testing.assert_array_equal(result, results[0], err_msg=target)
    return results[0]


def program(source):
    return treadle.parser.parse('#[version = "0.0.5"]\n' + source)


def saturate(values, dtype):
    info = np.iinfo(dtype)
    return np.clip(values, info.min, info.max).astype(dtype)


def ends(rng, shape, dtype):
    """Random integers with both ends of the range among them."""
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    flat = values.reshape(-1)
    flat[: flat.size // 3] = info.max
    flat[flat.size // 3: flat.size // 2] = info.min
    return values


@pytest.mark.parametrize("dtype,zero", [("uint8", 0), ("uint8", 3), ("int8", -100), ("uint16", 3), ("int16", 100)])
def test_quantize_rounds_halves_to_even_and_saturates(dtype, zero):
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0, -0.0, 1e30, -1e30, np.inf, -np.inf, 77.49, -77.51], np.float32)
    source = f"""def @main(%x: Tensor[(13), float32]) {{
      qnn.quantize(%x, 1f, {zero}, out_dtype="{dtype}") }}"""
    with np.errstate(over="ignore"):
        expected = saturate(np.clip(np.rint(x), -1e9, 1e9).astype(np.int64) + zero, dtype)
    np.testing.assert_array_equal(run(program(source), x), expected)


@pytest.mark.parametrize("k", [1, 4, 63, 65])
@pytest.mark.parametrize("data", ["uint8", "int8"])
@pytest.mark.parametrize("weight", ["uint8", "int8"])
def test_dense_is_exact(k, data, weight):
    rng = np.random.default_rng(k)
    a, b = ends(rng, (7, k), data), ends(rng, (19, k), weight)
    for data_zero, weight_zero in [(0, 0), (np.iinfo(data).max, 0), (5, np.iinfo(weight).min)]:
        source = f"""def @main(%a: Tensor[(7, {k}), {data}], %b: Tensor[(19, {k}), {weight}]) {{
          qnn.dense(%a, %b, {data_zero}, {weight_zero}, 1f, 1f, units=19, out_dtype="int32") }}"""
        expected = (a.astype(np.int64) - data_zero) @ (b.astype(np.int64) - weight_zero).T
        np.testing.assert_array_equal(run(program(source), a, b), expected)


@pytest.mark.parametrize("data_zero", [0, 7, 255])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_convolution_pads_with_the_zero_point(data_zero, groups):
    rng = np.random.default_rng(groups)
    x, w = ends(rng, (1, 6, 7, 9), "uint8"), ends(rng, (12, 6 // groups, 3, 3), "int8")
    source = f"""def @main(%x: Tensor[(1, 6, 7, 9), uint8], %w: Tensor[(12, {6 // groups}, 3, 3), int8]) {{
      qnn.conv2d(%x, %w, {data_zero}, 0, 1f, 1f, padding=[1, 1, 1, 1], strides=[2, 1], groups={groups},
                 channels=12, kernel_size=[3, 3], out_dtype="int32") }}"""
    padded = np.pad(x.astype(np.int64) - data_zero, [(0, 0), (0, 0), (1, 1), (1, 1)])
    expected = np.zeros((1, 12, 4, 9), np.int64)
    for o in range(12):
        first = o // (12 // groups) * (6 // groups)
        for i, j, c in np.ndindex(3, 3, 6 // groups):
            expected[0, o] += padded[0, first + c, i: i + 7: 2, j: j + 9] * int(w[o, c, i, j])
    np.testing.assert_array_equal(run(program(source), x, w), expected)


def convolve(x, w, strides, pads, dilation, groups):
    """Exact sums of a convolution, x being centred and not yet padded."""
    padded = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    rows = (padded.shape[2] - (w.shape[2] - 1) * dilation[0] - 1) // strides[0] + 1
    columns = (padded.shape[3] - (w.shape[3] - 1) * dilation[1] - 1) // strides[1] + 1
    result = np.zeros((x.shape[0], w.shape[0], rows, columns), np.int64)
    outputs, inputs = w.shape[0] // groups, w.shape[1]
    for i, j in np.ndindex(*w.shape[2:]):
        top, left = i * dilation[0], j * dilation[1]
        window = padded[:, :, top: top + (rows - 1) * strides[0] + 1: strides[0],
                        left: left + (columns - 1) * strides[1] + 1: strides[1]]
        for g in range(groups):
            part = np.einsum("nchw,oc->nohw", window[:, g * inputs: (g + 1) * inputs],
                             w[g * outputs: (g + 1) * outputs, :, i, j])
            result[:, g * outputs: (g + 1) * outputs] += part
    return result


@pytest.mark.parametrize("data,zero", [("uint8", 255), ("int8", -100)])
@pytest.mark.parametrize("inputs,outputs,groups,kernel,strides,pads,dilation", [
    (16, 16, 16, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)), (24, 24, 24, (5, 5), (2, 2), (2, 2, 2, 2), (1, 1)),
    (5, 5, 5, (3, 4), (1, 2), (0, 0, 0, 0), (1, 1)), (40, 40, 40, (7, 1), (1, 1), (3, 0, 3, 0), (1, 1)),
    (16, 16, 16, (1, 5), (1, 1), (0, 2, 0, 2), (1, 1)), (16, 16, 16, (4, 4), (1, 1), (1, 2, 2, 1), (1, 1)),
    (16, 16, 16, (3, 3), (1, 1), (2, 2, 2, 2), (2, 2)), (3, 16, 1, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    (20, 33, 1, (1, 1), (2, 1), (0, 0, 0, 0), (1, 1)), (32, 32, 4, (3, 3), (1, 1), (1, 0, 0, 1), (1, 1)),
    (8, 16, 1, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)), (16, 16, 1, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (40, 24, 1, (3, 3), (1, 1), (0, 1, 2, 0), (1, 1)), (20, 33, 1, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    (32, 16, 1, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1))])
def test_convolutions_by_constants_are_exact(data, zero, inputs, outputs, groups, kernel, strides, pads, dilation):
    rng = np.random.default_rng(inputs)
    x = ends(rng, (1, inputs, 11, 13), data)
    w = ends(rng, (outputs, inputs // groups, *kernel), "int8")
    var = relay.var("x", shape=x.shape, dtype=data)
    call = relay.qnn.op.conv2d(var, relay.const(w), relay.const(zero, "int32"), relay.const(0, "int32"),
                               relay.const(np.float32(1)), relay.const(np.float32(1)), kernel_size=kernel,
                               channels=outputs, strides=strides, padding=pads, dilation=dilation, groups=groups)
    expected = convolve(x.astype(np.int64) - zero, w.astype(np.int64), strides, pads, dilation, groups)
    result = run(relay.Function([var], call), x, targets=TARGETS if data == "uint8" else OTHERS)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="vpmaddwd is an instruction of x86")
@pytest.mark.parametrize("inputs", [96, 480, 1870])
def test_winograd_of_whole_numbers_is_used_where_32_bits_hold_its_sums(inputs):
    """Sums are multiplied by 64 or by 4 where results are taken from them; what passes before that may wrap."""
    rng = np.random.default_rng(inputs)
    x = np.where(rng.random((1, inputs, 14, 15)) < 0.5, 0, 255).astype(np.uint8)
    w = np.where(rng.random((16, inputs, 3, 3)) < 0.5, -128, 127).astype(np.int8)
    x[:, :, 1:4, 1:4], w[0] = 255, -128
    node = helper.make_node("ConvInteger", ["x", "w"], ["y"], pads=[1] * 4)
    graph = helper.make_graph([node], "layer", [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
                              [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    compiled = treadle.compile(model, target="llvm -mcpu=x86-64-v3")
    (y,) = compiled.run(None, {"x": x})
    np.testing.assert_array_equal(y, convolve(x.astype(np.int64), w.astype(np.int64), (1, 1), (1,) * 4, (1, 1), 1))
    chosen = "* qnn_conv2d.winograd:" if inputs < 1828 else "qnn_conv2d.winograd: sums may exceed 32 bits"
    assert chosen in compiled.explain()


def test_winograd_of_whole_numbers_compiles_for_wide_vectors():
    """AVX-512 without VNNI multiplies pairs of 16-bit integers, too."""
    x, weight = relay.var("x", shape=(1, 64, 28, 28), dtype="uint8"), relay.const(np.ones((64, 64, 3, 3), np.int8))
    call = relay.qnn.op.conv2d(x, weight, relay.const(0, "int32"), relay.const(0, "int32"), relay.const(np.float32(1)),
                               relay.const(np.float32(1)), kernel_size=(3, 3), channels=64, padding=(1, 1))
    with treadle.transform.PassContext(opt_level=3):
        library = relay.build(IRModule.from_expr(relay.Function([x], call)), target="llvm -mcpu=skylake-avx512")
    source = library.get_lib().get_source()
    assert "winograd" in source and "pmaddw.d.512" in source


@pytest.mark.parametrize("weight", [-128, 127])
def test_sums_near_the_wrap_of_32_bits_are_exact(weight):
    """255 * -128 * 65,793 is within 128 of -2^31."""
    k = 65793
    x, w = np.full((2, k), 255, np.uint8), np.full((3, k), weight, np.int8)
    var = relay.var("x", shape=x.shape, dtype="uint8")
    call = relay.qnn.op.dense(var, relay.const(w), relay.const(0, "int32"), relay.const(0, "int32"),
                              relay.const(np.float32(1)), relay.const(np.float32(1)), units=3)
    np.testing.assert_array_equal(run(relay.Function([var], call), x), x.astype(np.int64) @ w.astype(np.int64).T)


@pytest.mark.parametrize("rows,k,units", [(29, 100, 40), (64, 256, 48), (13, 64, 7), (3, 512, 33)])
def test_sums_are_requantised_in_rows_that_tiles_dont_divide(rows, k, units):
    rng = np.random.default_rng(rows)
    a, b = ends(rng, (rows, k), "uint8"), rng.integers(-128, 128, (units, k)).astype(np.int8)
    scales = rng.uniform(1e-6, 1e-4, units).astype(np.float32)
    source = program(f"""def @main(%a: Tensor[({rows}, {k}), uint8], %b: Tensor[({units}, {k}), int8],
                                   %s: Tensor[({units}), float32]) {{
      %0 = qnn.dense(%a, %b, 7, 0, 1f, 1f, units={units}, out_dtype="int32");
      qnn.requantize(%0, %s, 0, 0.0123f, 3, axis=1, out_dtype="uint8") }}""")
    sums = (a.astype(np.int64) - 7) @ b.astype(np.int64).T
    expected = saturate(np.rint(sums.astype(np.float32) * (scales / SCALE)).astype(np.int64) + 3, np.uint8)
    np.testing.assert_array_equal(run(source, a, b, scales), expected)


def test_requantize_uses_one_factor_in_float32():
    rng = np.random.default_rng(1)
    x = rng.integers(-(2**24), 2**24, (64, 16)).astype(np.int32)
    scales = rng.uniform(1e-6, 1e-4, 16).astype(np.float32)
    source = program("""def @main(%x: Tensor[(64, 16), int32], %s: Tensor[(16), float32]) {
      qnn.requantize(%x, %s, 0, 0.0123f, 3, axis=1, out_dtype="uint8") }""")
    expected = saturate(np.rint(x.astype(np.float32) * (scales / SCALE)).astype(np.int64) + 3, np.uint8)
    np.testing.assert_array_equal(run(source, x, scales), expected)


@pytest.mark.parametrize("scale", [0.1, 0.0123, 1 / 3, 1.9999999, 1e-30, 1e30, 1e-38])
def test_quotients_are_those_of_a_division(scale):
    rng = np.random.default_rng(2)
    scale = np.float32(scale)
    halves = (np.arange(-130, 131, dtype=np.float32) + np.float32(0.5)) * scale
    near = [np.nextafter(halves, np.float32(side)) for side in (-np.inf, np.inf)]
    with np.errstate(over="ignore", under="ignore"):
        x = np.concatenate([halves, *near, (rng.standard_normal(1000) * 60).astype(np.float32) * scale,
                            np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45], np.float32)])
        quotient = np.where(np.isnan(x), -np.inf, x / scale)
    source = program(f"""def @main(%x: Tensor[({x.size}), float32]) {{
      qnn.quantize(%x, {scale!r}f, 3, out_dtype="int8") }}""".replace("np.float32(", "").replace(")f", "f"))
    expected = saturate(np.rint(np.clip(quotient, -1e6, 1e6)).astype(np.int64) + 3, np.int8)
    np.testing.assert_array_equal(run(source, x), expected)


@pytest.mark.parametrize("dtype,zero", [("uint8", 10), ("int8", -7)])
@pytest.mark.parametrize("size", [7, 16, 24, 64, 1000])
def test_functions_of_bytes_are_tables(dtype, zero, size):
    """HardSwish as exporters quantise it, with what is rounded in between."""
    x = np.resize(np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1), size).astype(dtype)
    source = program(f"""def @main(%x: Tensor[({size}), {dtype}]) {{
      %0 = qnn.dequantize(%x, 0.05f, {zero});
      %1 = clip(%0 * 0.1666667f + 0.5f, a_min=0f, a_max=1f);
      %2 = qnn.dequantize(qnn.quantize(%1, 0.004f, 0, out_dtype="uint8"), 0.004f, 0);
      qnn.quantize(%0 * %2, 0.03f, 5, out_dtype="{dtype}") }}""")
    f32 = np.float32
    real = (x.astype(np.int32) - zero).astype(f32) * f32(0.05)
    gate = np.clip(np.rint(np.clip(real * f32(0.1666667) + f32(0.5), 0, 1) / f32(0.004)), 0, 255) * f32(0.004)
    expected = saturate(np.rint(real * gate / f32(0.03)).astype(np.int64) + 5, dtype)
    np.testing.assert_array_equal(run(source, x), expected)


@pytest.mark.parametrize("target, instruction", [
    ("llvm -mcpu=znver4", r"vpdpbusd\s.*zmm"), ("llvm -mcpu=alderlake", r"\{vex\}\s+vpdpbusd\s.*ymm|vpdpbusd\s.*ymm"),
    ("llvm -mcpu=haswell", r"vpmaddwd\s.*ymm"), ("llvm -mcpu=skylake-avx512", r"vpmaddwd\s.*zmm"),
    ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v2", r"usdot\s+v"),
    ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", r"sdot\s+v")])
def test_products_use_the_instructions_of_the_machine(tmp_path, target, instruction):
    weight = numpy_helper.from_array(np.ones((64, 48), np.int8), "w")
    zeros = [numpy_helper.from_array(np.zeros((), kind), name) for kind, name in [(np.uint8, "za"), (np.int8, "zb")]]
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["x", "w", "za", "zb"], ["y"])], "products",
                              [helper.make_tensor_value_info("x", TensorProto.UINT8, (8, 64))],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, (8, 48))], [weight, *zeros])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    subprocess.run([PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.tar", "--target", target,
                    "--dump", "asm", "--dump-dir", tmp_path], check=True)
    text = "".join(path.read_text() for path in tmp_path.glob("*.s"))
    assert len(re.findall(instruction, text)) >= 8


@pytest.mark.parametrize("kind,axis,zeros,rows,gemm", [
    ("int4", 0, False, 1, False), ("uint4", 0, True, 9, True), ("int8", 1, True, 3, True), ("uint8", 1, True, 1, False)])
def test_weights_with_a_scale_per_block(kind, axis, zeros, rows, gemm):
    runtime = pytest.importorskip("onnxruntime")
    rng, k, n, block = np.random.default_rng(5), 144, 72, 32  # the last block of k is short
    least, end = {"int4": (-8, 8), "uint4": (0, 16), "int8": (-128, 128), "uint8": (0, 256)}[kind]
    element = getattr(TensorProto, kind.upper())
    shape, scales = ((k, n), (-(-k // block), n)) if axis == 0 else ((n, k), (n, -(-k // block)))
    numbers = lambda name, dims: helper.make_tensor(name, element, dims, rng.integers(least, end, dims).ravel())
    constants = [numbers("q", shape), numbers("z", scales),
                 numpy_helper.from_array(rng.uniform(0.01, 0.1, scales).astype(np.float32), "s")]
    names = ["q", "s", "z"] if zeros else ["q", "s"]
    nodes = [helper.make_node("DequantizeLinear", names, ["w"], axis=axis, block_size=block)]
    if gemm:
        nodes.append(helper.make_node("Gemm", ["x", "w"], ["y"], transB=axis))
    else:
        if axis == 1:
            nodes.append(helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", ["x", "t" if axis else "w"], ["y"]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, k])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, n])],
                              constants if zeros else [constants[0], constants[2]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    x = rng.standard_normal((rows, k)).astype(np.float32)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    np.testing.assert_allclose(treadle.compile(model).run(None, {"x": x})[0], wanted, rtol=2e-4,
                               atol=2e-4 * np.abs(wanted).max())


def test_a_dimension_within_what_becomes_a_table():
    values = {"s": (0.05, np.float32), "t": (0.1, np.float32), "z": (128, np.uint8)}
    nodes = [helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]), helper.make_node("Unsqueeze", ["d", "a"], ["e"]),
             helper.make_node("Sigmoid", ["e"], ["f"]), helper.make_node("Mul", ["e", "f"], ["g"]), helper.make_node("QuantizeLinear", ["g", "t", "z"], ["y"])]
    initializers = [numpy_helper.from_array(np.array(value, dtype), name) for name, (value, dtype) in values.items()]
    initializers.append(numpy_helper.from_array(np.array([1]), "a"))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, ["n"])], [onnx.ValueInfoProto(name="y")], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.arange(256, dtype=np.uint8)
    real = (x[:, None].astype(np.float32) - 128) * np.float32(0.05)
    wanted = np.clip(np.round(real / (1 + np.exp(-real)) / 0.1) + 128, 0, 255)
    result = treadle.compile(model, threads=1).run(None, {"x": x})[0]
    assert result.shape == (256, 1)
    np.testing.assert_allclose(result.astype(int), wanted, atol=1)
