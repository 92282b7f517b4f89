# SPDX-License-Identifier: Apache-2.0
"""Products in bfloat16 and float16: rounded operands, sums in float32, beside NumPy's in float64."""
import pathlib
import re
import subprocess

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
PAIRS = "llvm -mcpu=native -emulate-intrinsics=1"  # the form of instructions for bfloat16, on any machine
WIDENED = "llvm -mcpu=x86-64-v3"  # weights of 16 bits, no such instructions
SHAPES = [((1, 64), (64, 32)), ((5, 33), (33, 17)), ((128, 768), (768, 512)), ((127, 751), (751, 528)),
          ((50, 512), (512, 1024)), ((2, 30, 100), (100, 70)), ((3, 9, 40), (3, 40, 48))]


def round_bf16(x):
    """To the nearest bfloat16, halves to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000).view(np.float32)


def snr(reference, actual):
    reference, actual = np.asarray(reference, np.float64), np.asarray(actual, np.float64)
    noise = np.sum((reference - actual)**2)
    return 999 if noise == 0 else 10 * np.log10(np.sum(reference**2) / noise)


def product(shape_a, shape_b, constant=True, dtype=TensorProto.FLOAT):
    rng = np.random.default_rng(5)
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    a, b = (rng.standard_normal(shape, dtype=np.float32).astype(kind) for shape in (shape_a, shape_b))
    inputs = {"a": a} if constant else {"a": a, "b": b}
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "b"], ["p"], name="product"), helper.make_node("Relu", ["p"], ["y"])], "g",
        [helper.make_tensor_value_info(name, dtype, x.shape) for name, x in inputs.items()],
        [helper.make_tensor_value_info("y", dtype, None)], [numpy_helper.from_array(b, "b")] if constant else [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), inputs, a, b


@pytest.mark.parametrize("target", [PAIRS, "llvm -mcpu=native"])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("shape_a, shape_b", SHAPES)
def test_operands_are_rounded_sums_are_not(shape_a, shape_b, constant, target):
    model, inputs, a, b = product(shape_a, shape_b, constant)
    y = treadle.compile(model, precision="bf16", target=target)(**inputs)["y"]
    exact = np.maximum(a.astype(np.float64) @ b, 0)
    rounded = np.maximum(round_bf16(a).astype(np.float64) @ round_bf16(b), 0)
    # Without the instruction the left operand isn't rounded, which is nearer to the exact product.
    assert snr(rounded, y) > 110 or snr(exact, y) > 52
    assert snr(exact, y) > 48


@pytest.mark.parametrize("precision, least", [("bf16", 52), ("f16", 70)])
@pytest.mark.parametrize("shape_a, shape_b", SHAPES)
def test_weights_are_widened(shape_a, shape_b, precision, least):
    model, inputs, a, b = product(shape_a, shape_b)
    y = treadle.compile(model, precision=precision, target=WIDENED)(**inputs)["y"]
    exact = np.maximum(a.astype(np.float64) @ b, 0)
    kept = np.maximum(a.astype(np.float64) @ (round_bf16(b) if precision == "bf16" else b.astype(np.float16)), 0)
    assert snr(kept, y) > 110
    assert snr(exact, y) > least


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
@pytest.mark.parametrize("target", [PAIRS, WIDENED, "llvm -mcpu=native"])
@pytest.mark.parametrize("constant", [True, False])
def test_models_of_16_bits(dtype, target, constant):
    model, inputs, a, b = product((17, 65), (65, 40), constant, dtype)
    y = treadle.compile(model, target=target)(**inputs)["y"]
    assert y.dtype == a.dtype
    exact = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    assert snr(exact, y) > (50 if dtype == TensorProto.BFLOAT16 else 68)


def test_a_weight_beyond_float16_stays():
    model, inputs, a, b = product((4, 32), (32, 16))
    b = b.copy()
    b[0, 0] = 1e6
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(b, "b"))
    y = treadle.compile(model, precision="f16")(**inputs)["y"]
    assert snr(np.maximum(a.astype(np.float64) @ b, 0), y) > 110


def test_infinity_and_nan_stay():
    model, inputs, a, b = product((4, 32), (32, 16), constant=False)
    a = a.copy()
    a[1, 3], a[2, 5] = np.inf, np.nan
    y = treadle.compile(model, precision="bf16")(a=a, b=np.abs(b))["y"]
    assert np.isinf(y[1]).all() and np.isnan(y[2]).all() and np.isfinite(y[0]).all()


def test_unknown_precision_is_refused():
    model, *_ = product((4, 32), (32, 16))
    with pytest.raises(treadle.Error, match="precision is 'fp8'; expected one of f32, bf16"):
        treadle.compile(model, precision="fp8")
    with pytest.raises(treadle.Error, match="precision 'half'; expected"):
        treadle.compile(model, pass_config={"relay.precision": "half"})


def test_named_layers_keep_float32():
    model, inputs, a, b = product((4, 32), (32, 16))
    kept = treadle.compile(model, precision="bf16", pass_config={"relay.precision.keep": "product"})
    assert snr(np.maximum(a.astype(np.float64) @ b, 0), kept(**inputs)["y"]) > 110


@pytest.mark.parametrize("names, message", [
    ("prodct", "relay.precision.keep: no layer is named 'prodct'; did you mean 'product'?\n"
               "help: names are those of the model's products and convolutions, one per line; treadle profile lists them"),
    ("product\nsomething else", "relay.precision.keep: no layer is named 'something else'\nhelp: names are those"),
    ("product,product", "relay.precision.keep: no layer is named 'product,product'"),
    ("Relu#1", "relay.precision.keep: 'Relu#1' is neither a product nor a convolution: it is computed in the model's own type")])
def test_names_of_layers_that_do_not_exist_are_refused(names, message):
    model, *_ = product((4, 32), (32, 16))
    with pytest.raises(treadle.Error, match=re.escape(message)):
        treadle.compile(model, precision="bf16", pass_config={"relay.precision.keep": names})


@pytest.mark.parametrize("target, rows, instruction", [
    ("llvm -mcpu=znver4", 64, r"vdpbf16ps\s.*zmm"),
    # Half as fast as products of float32, which few rows don't wait for.
    ("llvm -mcpu=sapphirerapids -mattr=-amx-bf16", 64, r"vfmadd231ps\s.*zmm"),
    ("llvm -mcpu=sapphirerapids -mattr=-amx-bf16", 1, r"vdpbf16ps\s.*zmm"),
    ("llvm -mcpu=cooperlake -vector-width=256", 64, r"vdpbf16ps\s.*ymm"),
    ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1 -mattr=+bf16", 64, r"bfdot\s+v")])
def test_instructions(target, rows, instruction, tmp_path):
    import onnx
    model, *_ = product((rows, 256), (256, 256))
    onnx.save(model, tmp_path / "m.onnx")
    subprocess.run([PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.tar", "--precision", "bf16",
                    "--target", target, "--dump", "asm", "--dump-dir", tmp_path], check=True)
    text = "".join(path.read_text() for path in tmp_path.glob("*.s"))
    assert len(re.findall(instruction, text)) >= 8


def test_attention_reads_words_from_memory_as_operands(tmp_path):
    """Tiles of one vector of columns (of five and of one here) use each word once: loaded into registers first it takes
    1.35 times as long."""
    import onnx
    nodes = [helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "t"], ["s"]),
             helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 2, 80, 16)) for n in "qkv"],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    subprocess.run([PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.tar", "--precision", "bf16",
                    "--target", "llvm -mcpu=znver4", "--dump", "asm", "--dump-dir", tmp_path], check=True)
    text = "".join(path.read_text() for path in tmp_path.glob("*.s"))
    dots = re.findall(r"vdpbf16ps\s.*", text)
    assert len(dots) >= 8 and all("{1to16}" in dot for dot in dots)
    assert "vcvtneps2bf16" in text


def test_a_word_is_read_before_it_is_overwritten():
    """Nothing may move a product's read of memory behind the store that follows it."""
    from treadle.script import tir as T

    @T.prim_func
    def f(A: T.Buffer((2,), "bfloat16"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "f", "tir.noalias": True})
        for i in T.vectorized(16):
            C[i] = T.call_intrin("float32", "tir.dot_pairs", T.call_intrin("int32", "tir.pack_pair", A[0], A[1]), B[i])
        A[0] = T.bfloat16(0)
        A[1] = T.bfloat16(0)

    ones_and_twos = np.full(16, 0x3f804000, np.int32)
    a = treadle.nd.array(np.array([2, 1], ml_dtypes.bfloat16))
    c = treadle.nd.array(np.zeros(16, np.float32))
    treadle.build(f, target="llvm -mcpu=native")["f"](a, treadle.nd.array(ones_and_twos), c)
    np.testing.assert_array_equal(c.numpy(), np.full(16, 5, np.float32))
    np.testing.assert_array_equal(a.numpy().astype(np.float32), [0, 0])


@pytest.mark.parametrize("target", ["stackvm", "c", "llvm -mcpu=native", PAIRS])
def test_pair_cast_rounds_half_to_even(target):
    from treadle import relay
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**32, 4099, dtype=np.uint32)
    edges = np.array([0, 0x80000000, 0x3f808000, 0x3f818000, 0x3f808001, 0x7f7fffff, 0xff800000, 0x7f800000, 0x00800000,
                      0x7fc00000, 0x7f800001, 0xffc01234], np.uint32)
    x = np.concatenate([edges, bits]).view(np.float32)
    x = x[np.isnan(x) | (np.abs(x) >= 2.0**-126) | (x == 0)]  # those below the least normal one may be 0
    data = relay.var("x", shape=x.shape, dtype="float32")
    call = relay.Call(relay.op.get("nn.contrib_pair_cast"), [data])
    module = treadle.IRModule.from_expr(relay.Function([data], relay.cast(call, "float32")))
    y = relay.create_executor("graph", mod=module, target=target).evaluate()(x).numpy()
    with np.errstate(over="ignore"):
        expected = round_bf16(x)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(y[numbers].view(np.uint32), expected[numbers].view(np.uint32))


def kernels_of(model, tmp_path, target="llvm -mcpu=znver4"):
    """What compiled kernels consist of, by their names."""
    import onnx
    onnx.save(model, tmp_path / "m.onnx")
    subprocess.run([PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.tar", "--precision", "bf16",
                    "--target", target, "--dump", "tir", "--dump-dir", tmp_path], check=True)
    return re.findall(r'"global_symbol": "(\w+)"', (tmp_path / "tir.tir").read_text())


def chain(nodes, weights, shape):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(w, name) for name, w in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_convolutions_over_one_dimension_are_narrow_too(tmp_path):
    rng = np.random.default_rng(6)
    w = rng.standard_normal((32, 24, 3), dtype=np.float32)
    model = chain([helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1])], {"w": w}, (1, 24, 50))
    assert any("conv2d_NCHWc_pairs" in name for name in kernels_of(model, tmp_path))
    x = rng.standard_normal((1, 24, 50), dtype=np.float32)
    (y,) = treadle.compile(model, precision="bf16", target=PAIRS).run(None, {"x": x})
    padded = np.pad(round_bf16(x).astype(np.float64), ((0, 0), (0, 0), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=2)
    assert snr(np.einsum("nclk,ock->nol", windows, round_bf16(w)), y) > 110


def test_rounding_stays_in_blocks_of_channels_that_are_padded(tmp_path):
    """24 channels in blocks of 16, between a convolution, windows over one channel and another convolution."""
    rng = np.random.default_rng(7)
    weights = {"a": rng.standard_normal((24, 20, 1, 1), dtype=np.float32), "d": rng.standard_normal((24, 1, 3, 3), dtype=np.float32),
               "b": rng.standard_normal((40, 24, 1, 1), dtype=np.float32)}
    nodes = [helper.make_node("Conv", ["x", "a"], ["p"]), helper.make_node("HardSwish", ["p"], ["q"]),
             helper.make_node("Conv", ["q", "d"], ["r"], group=24, pads=[1] * 4), helper.make_node("Relu", ["r"], ["s"]),
             helper.make_node("Conv", ["s", "b"], ["y"])]
    model = chain(nodes, weights, (1, 20, 14, 14))
    between = [name for name in kernels_of(model, tmp_path) if "depthwise" in name]
    assert len(between) == 1 and between[0].endswith("pair_cast") and "strided_slice" not in between[0]
    x = rng.standard_normal((1, 20, 14, 14), dtype=np.float32)
    (y,) = treadle.compile(model, precision="bf16", target=PAIRS).run(None, {"x": x})
    (exact,) = treadle.compile(model).run(None, {"x": x})
    assert snr(exact, y) > 40


def test_shortcuts_and_maxima_are_of_rounded_numbers(tmp_path):
    """No kernel only rounds: the first convolution does, for the pooling, the second one and the shortcut."""
    rng = np.random.default_rng(8)
    weights = {"a": rng.standard_normal((32, 16, 3, 3), dtype=np.float32) / 12,
               "b": rng.standard_normal((32, 32, 1, 1), dtype=np.float32) / 6}
    nodes = [helper.make_node("Conv", ["x", "a"], ["p"], pads=[1] * 4), helper.make_node("Relu", ["p"], ["q"]),
             helper.make_node("MaxPool", ["q"], ["r"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
             helper.make_node("Conv", ["r", "b"], ["s"]), helper.make_node("Add", ["s", "r"], ["y"])]
    model = chain(nodes, weights, (1, 16, 18, 18))
    names = kernels_of(model, tmp_path)
    assert any("conv2d" in name and name.endswith("pair_cast") for name in names)
    assert not any("max_pool2d" in name and "pair_cast" in name for name in names)
    x = rng.standard_normal((1, 16, 18, 18), dtype=np.float32)
    (y,) = treadle.compile(model, precision="bf16", target=PAIRS).run(None, {"x": x})
    (exact,) = treadle.compile(model).run(None, {"x": x})
    assert snr(exact, y) > 45


def convolution(size, inputs, outputs, kernel, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1):
    rng = np.random.default_rng(9)
    x = rng.standard_normal((1, inputs, *size), dtype=np.float32)
    w = rng.standard_normal((outputs, inputs // group, *kernel), dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"], strides=strides, pads=pads, dilations=dilations, group=group,
                          name="conv"),
         helper.make_node("Relu", ["c"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), x, w


@pytest.mark.parametrize("arguments", [
    ((14, 14), 32, 48, (1, 1)), ((15, 13), 24, 20, (3, 3), (1, 1), (1, 1, 1, 1)),
    ((16, 16), 16, 32, (3, 3), (2, 2), (1, 0, 1, 2)), ((9, 40), 17, 33, (1, 1), (2, 2)),
    ((20, 22), 3, 32, (7, 7), (2, 2), (3, 3, 3, 3)), ((11, 9), 2, 16, (3, 3)), ((8, 8), 5, 24, (1, 1)),
    ((12, 12), 64, 16, (3, 3), (1, 1), (2, 2, 2, 2), (2, 2)), ((7, 7), 40, 64, (5, 1), (1, 1), (2, 0, 2, 0)),
    # Groups: of blocks, two to a block, of half blocks; one channel each, with and without padding.
    ((10, 10), 64, 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 4), ((14, 9), 64, 64, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 8),
    ((9, 9), 48, 72, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 3), ((6, 8), 16, 32, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 4),
    ((14, 14), 32, 32, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 32), ((15, 12), 40, 40, (5, 5), (2, 2), (2, 2, 2, 2), (1, 1), 40),
    ((9, 11), 24, 24, (3, 3), (1, 1), (0, 0, 0, 0), (2, 2), 24), ((5, 5), 20, 40, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 20)])
@pytest.mark.parametrize("target", [PAIRS, "llvm -mcpu=native", PAIRS + " -vector-width=256"])
def test_convolutions(arguments, target):
    import onnxruntime as ort
    model, x, w = convolution(*arguments)
    y = treadle.compile(model, precision="bf16", target=target)(x=x)["y"]

    def reference(x, w):
        rounded = type(model)()
        rounded.CopyFrom(model)
        rounded.graph.initializer[0].CopyFrom(numpy_helper.from_array(w, "w"))
        session = ort.InferenceSession(rounded.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, {"x": x})[0]

    exact = reference(x, w)
    assert snr(exact, y) > 48
    assert snr(reference(round_bf16(x), round_bf16(w)), y) > 110 or snr(exact, y) > 110


@pytest.mark.parametrize("group, inputs, stride", [(1, 32, 1), (1, 3, 2), (4, 32, 1), (32, 32, 1), (40, 40, 2), (5, 40, 1)])
@pytest.mark.parametrize("target", [PAIRS, "llvm -mcpu=native", WIDENED])
def test_convolutions_that_a_model_states_in_bfloat16(group, inputs, stride, target):
    import ml_dtypes
    outputs = inputs if group > 1 else 48
    model, x, w = convolution((12, 13), inputs, outputs, (3, 3), (stride,) * 2, (1, 1, 1, 1), (1, 1), group)
    x, w = (values.astype(ml_dtypes.bfloat16) for values in (x, w))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.BFLOAT16
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(w, "w"))
    model.opset_import[0].version = 22
    y = treadle.compile(model, target=target)(x=x)["y"]
    exact = np.zeros((1, outputs, (12 - 1) // stride + 1, (13 - 1) // stride + 1))
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    per = outputs // group
    for o in range(outputs):
        part = padded[:, o // per * w.shape[1] : (o // per + 1) * w.shape[1]]
        for i in range(3):
            for j in range(3):
                taps = part[:, :, i : i + 12 : stride, j : j + 13 : stride]
                exact[:, o] += np.einsum("nchw,c->nhw", taps, w[o, :, i, j].astype(np.float64))
    assert y.dtype == x.dtype
    exact = np.maximum(exact, 0)
    # Rounded once, where the result is stored.
    np.testing.assert_allclose(y.astype(np.float64), exact, rtol=2**-8, atol=1e-4)


def test_a_network_of_convolutions_stays_near():
    """What is added and pooled between convolutions stays float32."""
    import onnx
    rng, nodes, weights = np.random.default_rng(2), [], []

    def conv(x, i, o, k):
        weight = rng.standard_normal((o, i, k, k), dtype=np.float32) * np.float32((2 / (i * k * k))**0.5)
        weights.append(numpy_helper.from_array(weight, f"w{len(weights)}"))
        nodes.append(helper.make_node("Conv", [x, weights[-1].name], [f"c{len(nodes)}"], pads=[k // 2] * 4))
        nodes.append(helper.make_node("Relu", [nodes[-1].output[0]], [f"r{len(nodes)}"]))
        return nodes[-1].output[0]

    x = conv("x", 3, 32, 3)
    for _ in range(4):
        nodes.append(helper.make_node("Add", [conv(conv(x, 32, 32, 3), 32, 32, 1), x], [f"a{len(nodes)}"]))
        x = nodes[-1].output[0]
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["y"]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 28, 28])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    model = onnx.helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    value = rng.standard_normal((1, 3, 28, 28), dtype=np.float32)
    wide, narrow = (treadle.compile(model, precision=p)(x=value)["y"] for p in ("f32", "bf16"))
    assert snr(wide, narrow) > 40


@pytest.mark.parametrize("queries, keys, size, depth", [(32, 32, 64, 64), (17, 33, 30, 20), (197, 197, 64, 64)])
@pytest.mark.parametrize("target", [PAIRS, "llvm -mcpu=native", PAIRS + " -vector-width=256"])
def test_attention(queries, keys, size, depth, target):
    rng = np.random.default_rng(queries)
    inputs = {name: rng.standard_normal((2, 3, rows, width), dtype=np.float32)
              for name, rows, width in (("q", queries, size), ("k", keys, size), ("v", keys, depth))}
    nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
             helper.make_node("MatMul", ["q", "kt"], ["s"]), helper.make_node("Mul", ["s", "scale"], ["t"]),
             helper.make_node("Softmax", ["t"], ["w"]), helper.make_node("MatMul", ["w", "v"], ["y"], name="attention")]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.float32(size**-0.5), "scale")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def reference(q, k, v):
        scores = np.exp(q.astype(np.float64) @ k.astype(np.float64).swapaxes(2, 3) * size**-0.5)
        return scores / scores.sum(-1, keepdims=True) @ v

    y = treadle.compile(model, precision="bf16", target=target)(**inputs)["y"]
    exact, rounded = reference(**inputs), reference(*(round_bf16(x) for x in inputs.values()))
    wide = treadle.compile(model, target=target)(**inputs)["y"]
    assert snr(exact, wide) > 110
    # Weights of the values are rounded, too.
    assert snr(exact, y) > 110 or (snr(rounded, y) > 52 and snr(exact, y) > 44)


def layers(sensitive):
    """Products of which one is the difference of two large numbers."""
    rng, nodes, weights = np.random.default_rng(4), [], []
    for i in range(6):
        w = rng.standard_normal((64, 64), dtype=np.float32) / 8
        if i == sensitive:
            w[1:] = -w[:1] + 1e-3 * w[1:]
        weights.append(numpy_helper.from_array(w, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [f"v{i}", f"w{i}"], [f"p{i}"], name=f"layer{i}"))
        nodes.append(helper.make_node("Tanh", [f"p{i}"], [f"v{i + 1}"]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [8, 64])],
                              [helper.make_tensor_value_info("v6", TensorProto.FLOAT, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_auto_keeps_what_needs_float32():
    model = layers(sensitive=3)
    x = {"v0": np.random.default_rng(1).standard_normal((8, 64), dtype=np.float32)}
    target = PAIRS
    wide = treadle.compile(model, target=target)(**x)["v6"]
    loose = treadle.compile(model, target=target, precision="auto", max_error=0.5, samples=[x])
    assert loose.precision.keep == []
    limit = loose.precision.error / 2
    tight = treadle.compile(model, target=target, precision="auto", max_error=limit, samples=[x])
    assert 0 < len(tight.precision.keep) < 6
    error = np.linalg.norm(tight(**x)["v6"] - wide) / np.linalg.norm(wide)
    assert error <= limit and tight.precision.error == pytest.approx(error, rel=1e-3)
    assert len(tight.precision.rows) > 2
    none = treadle.compile(model, target=target, precision="auto", max_error=1e-7)
    assert len(none.precision.keep) == 6
    with pytest.raises(treadle.Error, match="max_error is 0; expected"):
        treadle.compile(model, precision="auto", max_error=0)


def test_auto_on_the_command_line(tmp_path, monkeypatch):
    import sys

    import onnx
    onnx.save(layers(sensitive=2), tmp_path / "m.onnx")
    monkeypatch.setenv("TREADLE_PYTHON", sys.executable)
    command = [PROGRAM, "compile", "m.onnx", "-o", "m.so", "--target", PAIRS, "--precision", "auto", "--max-error"]
    loose, none = (subprocess.run([*command, error], cwd=tmp_path, capture_output=True, text=True)
                   for error in ("0.9", "1e-7"))
    assert loose.returncode == 0 and "0 layers keep float32" in loose.stderr, loose.stderr
    assert none.returncode == 0 and "6 layers keep float32" in none.stderr and "layer3" in none.stderr
    wrong = subprocess.run([*command, "3"], cwd=tmp_path, capture_output=True, text=True)
    assert wrong.returncode != 0 and "expected a relative error between 0 and 1" in wrong.stderr
