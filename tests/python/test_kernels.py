# SPDX-License-Identifier: Apache-2.0
"""Plans of kernels: what `--dump kernels` writes replays, and every plan of a space computes the same."""
import json
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from test_convolution import convolve

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
V3 = "llvm -mcpu=x86-64-v3 -num-cores=2"
plans_of = treadle.get_global_func("schedule.Plans")


def conv_problem(ic, size, oc, kernel, groups=1, pad=0, side=0, block=16):
    """The problem of a convolution on blocked activations, as loops see it."""
    out = size + 2 * pad - kernel + 1
    pads = dict.fromkeys(("pad_t", "pad_l", "pad_b", "pad_r"), pad)
    return {"type": "schedule.ConvProblem", "batch": 1, "ic": ic, "ih": size, "iw": size, "oc": oc, "oh": out, "ow": out,
            "kh": kernel, "kw": kernel, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1, **pads,
            "groups": groups, "dtype": "float32", "weight_dtype": "float32", "out_dtype": "float32", "ic_block": block,
            "oc_block": block, "winograd_side": side, "constant_weight": True, "indexed_ic": False, "data_ic": 0}


class Layer:
    """A convolution and ReLU, with its results in float64."""

    def __init__(self, ic, size, oc, kernel, groups, pad):
        rng = np.random.default_rng(ic + size)
        w = (rng.standard_normal((oc, ic // groups, kernel, kernel)) * 0.1).astype(np.float32)
        b = rng.standard_normal(oc).astype(np.float32)
        nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[pad] * 4, group=groups),
                 helper.make_node("Relu", ["c"], ["y"])]
        graph = helper.make_graph(nodes, "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, ic, size, size))],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                                  [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        self.x = rng.standard_normal((1, ic, size, size)).astype(np.float32)
        self.expected = np.maximum(convolve(self.x, w, b, (1, 1), (pad,) * 4, (1, 1), groups), 0)

    def run(self, plans):
        model = treadle.compile(self.model, target=V3, pass_config={"schedule.plans": plans})
        (y,) = model.run(None, {"x": self.x})
        np.testing.assert_allclose(y, self.expected, rtol=1e-3, atol=1e-4)


def product_problem(m, k, n, batch=1, packs_b=False):
    """The problem of a product with a packed right operand, as loops see it."""
    return {"type": "schedule.MatmulProblem", "batch": batch, "m": m, "n": n, "k": k, "dtype": "float32",
            "weight_dtype": "float32", "out_dtype": "float32", "transpose_b": False, "constant_b": False, "n_block": 16,
            "packs_b": packs_b, "b_is_parameter": False}


class Product:
    """A matrix product and ReLU, with its results in float64; the right operand is constant or an input."""

    def __init__(self, m, k, n, constant):
        rng = np.random.default_rng(m + k + n)
        self.feeds = {"x": rng.standard_normal((m, k)).astype(np.float32)}
        w = rng.standard_normal((k, n)).astype(np.float32)
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (m, k))]
        if not constant:
            inputs.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (k, n)))
            self.feeds["w"] = w
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
        graph = helper.make_graph(nodes, "product", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                                  [numpy_helper.from_array(w, "w")] if constant else [])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        self.expected = np.maximum(self.feeds["x"].astype(np.float64) @ w.astype(np.float64), 0)

    def run(self, plans):
        model = treadle.compile(self.model, target=V3, pass_config={"schedule.plans": plans})
        (y,) = model.run(None, self.feeds)
        np.testing.assert_allclose(y, self.expected, rtol=1e-4, atol=1e-4)


def some(plans, count):
    """Of many plans some from all over the space, the first and the last among them."""
    return plans if len(plans) <= count else [plans[round(i * (len(plans) - 1) / (count - 1))] for i in range(count)]


CASES = {
    "winograd": ((32, 14, 32, 3, 1, 1), "conv2d.winograd", 6),
    "winograd2": ((32, 14, 32, 3, 1, 1), "conv2d.winograd", 4),
    "direct": ((32, 12, 64, 5, 1, 2), "conv2d.direct", 0),
    "pointwise": ((512, 8, 64, 1, 1, 0), "conv2d.direct", 0),
    "depthwise": ((32, 12, 32, 3, 32, 1), "conv2d.depthwise", 0),
}


@pytest.mark.parametrize("name", CASES)
def test_plans_of_a_space_compute_the_same(name):
    (ic, size, oc, kernel, groups, pad), algorithm, side = CASES[name]
    layer = Layer(ic, size, oc, kernel, groups, pad)
    loops = conv_problem(ic, size, oc, kernel, groups, pad, side)
    plans = [str(plan) for plan in plans_of(algorithm, json.dumps(loops), V3)]
    assert plans
    lines = []
    if side:  # which algorithm, and which form of it, is chosen in the graph
        graph = conv_problem(ic, size, oc, kernel, groups, pad)
        lines.append(json.dumps({"problem": graph, "kernel": algorithm, "plan": json.loads(plans[0])}))
    for plan in some(plans, 6):
        line = json.dumps({"problem": loops, "kernel": algorithm, "plan": json.loads(plan)})
        layer.run("\n".join([*lines, line]))


def open_pointwise():
    """A convolution of single pixels in images of any size: its model, its weight and its problem."""
    w = (np.random.default_rng(5).standard_normal((64, 512, 1, 1)) * 0.1).astype(np.float32)
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "layer",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("b", 512, "h", "w"))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, w, {**conv_problem(512, 8, 64, 1), **dict.fromkeys(("batch", "ih", "iw", "oh", "ow"), -1)}


def test_pixels_of_images_of_any_size_are_computed_in_strips():
    _, _, problem = open_pointwise()
    plans = [json.loads(str(plan)) for plan in plans_of("conv2d.direct", json.dumps(problem), V3)]
    assert {plan["ic_chunk"] > 0 for plan in plans} == {False, True}
    assert all(plan["oh_block"] >= 16 * plan["tile_ow"] and plan["oh_block"] % plan["tile_ow"] == 0 for plan in plans)


@pytest.mark.parametrize("chunks", [False, True])
def test_strips_of_any_number_of_pixels_compute_the_same(chunks):
    model, w, problem = open_pointwise()
    plans = [json.loads(str(plan)) for plan in plans_of("conv2d.direct", json.dumps(problem), V3)]
    plan = next(plan for plan in plans if (plan["ic_chunk"] > 0) == chunks)
    strip = 2 * plan["tile_ow"]
    record = json.dumps({"problem": problem, "kernel": "conv2d.direct", "plan": {**plan, "oh_block": strip}})
    compiled = treadle.compile(model, target=V3, pass_config={"schedule.plans": record})
    for shape in [(1, 1), (1, strip), (5, 3), (2, strip - 1), (7, 2 * strip + 3)]:
        x = np.random.default_rng(7).standard_normal((2, 512, *shape)).astype(np.float32)
        (y,) = compiled.run(None, {"x": x})
        np.testing.assert_allclose(y, np.einsum("bchw,oc->bohw", x.astype(np.float64), w[:, :, 0, 0]), rtol=1e-3, atol=1e-3)


def test_strips_of_any_number_of_pixels_are_bounded():
    """Each one's loop has all of its pixels, also where the image has fewer: a plan may come from anywhere."""
    model, _, problem = open_pointwise()
    plan = json.loads(str(plans_of("conv2d.direct", json.dumps(problem), V3)[0]))
    record = json.dumps({"problem": problem, "kernel": "conv2d.direct", "plan": {**plan, "oh_block": 1 << 40}})
    compiled = treadle.compile(model, target=V3, pass_config={"schedule.plans": record})
    assert "record of conv2d.direct left out: strips of" in compiled.explain()


def row_problem(ic, size, oc, kernel, groups, pad):
    """The problem of a convolution that stays in NCHW."""
    problem = conv_problem(ic, size, oc, kernel, groups)
    keys = ("batch", "ic", "ih", "iw", "oc", "oh", "ow", "kh", "kw", "stride_h", "stride_w", "dilation_h", "dilation_w",
            "groups", "dtype", "weight_dtype", "out_dtype")
    out = size + 2 * pad - kernel + 1
    return {"type": "schedule.RowConvProblem", **{key: problem[key] for key in keys}, "ih": size + 2 * pad,
            "iw": size + 2 * pad, "oh": out, "ow": out}


# Channels that fill no blocks: all together, each by itself, in groups; a row that vectors don't divide, a short one.
ROWS = {"plain": (3, 9, 10, 3, 1, 1), "depthwise": (10, 13, 10, 3, 10, 1), "grouped": (9, 8, 9, 3, 3, 1),
        "short": (3, 3, 5, 3, 1, 1)}


@pytest.mark.parametrize("name", ROWS)
def test_plans_of_rows_compute_the_same(name):
    layer, problem = Layer(*ROWS[name]), row_problem(*ROWS[name])
    plans = [json.loads(str(plan)) for plan in plans_of("conv2d.rows", json.dumps(problem), V3)]
    for plan in some(plans, 6):
        layer.run(json.dumps({"problem": problem, "kernel": "conv2d.rows", "plan": plan}))


def test_what_a_dump_says_of_rows_replays(tmp_path):
    onnx.save(Layer(*ROWS["plain"]).model, tmp_path / "m.onnx")
    arguments = [PROGRAM, "explain", tmp_path / "m.onnx", "--target", V3]
    before = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    (line,) = [line for line in before.splitlines() if '"conv2d.rows"' in line and line.startswith("{")]
    assert json.loads(line)["problem"] == row_problem(*ROWS["plain"])
    record = json.loads(line)
    record["plan"] = {"type": "schedule.RowConvPlan", "tile_oc": 1, "lanes": 0}
    other = json.dumps(record, separators=(",", ":"))
    assert other not in before
    after = subprocess.run([*arguments, "--pass-config", f"schedule.plans={other}"], check=True, capture_output=True, text=True).stdout
    assert other in after


# Whole blocks in each group; groups that become one; groups with blocks that are padded; a size to which pads add.
GROUPED = {"blocks": (64, 7, 64, 3, 4, 1), "merged": (16, 6, 32, 3, 4, 1), "padded": (24, 6, 24, 3, 2, 1), "wide": (48, 5, 96, 1, 3, 0)}


@pytest.mark.parametrize("name", GROUPED)
def test_plans_of_grouped_convolutions_compute_the_same(name):
    problem = conv_problem(*GROUPED[name], block=0)
    layer = Layer(*GROUPED[name])
    plans = [json.loads(str(plan)) for plan in plans_of("conv2d.grouped", json.dumps(problem), V3)]
    assert len({json.dumps(plan) for plan in plans}) == len(plans) > 1
    for plan in some(plans, 6):
        layer.run(json.dumps({"problem": problem, "kernel": "conv2d.grouped", "plan": plan}))


@pytest.mark.parametrize("ic, size, oc, kernel, stride, pad", [(16, 6, 24, 4, 2, 1), (32, 5, 3, 3, 2, 0), (5, 4, 16, 3, 1, 1)])
def test_plans_of_transposed_convolutions_compute_the_same(ic, size, oc, kernel, stride, pad):
    rng = np.random.default_rng(ic)
    x = rng.standard_normal((1, ic, size, size)).astype(np.float32)
    w = rng.standard_normal((ic, oc, kernel, kernel)).astype(np.float32)
    out = (size - 1) * stride + kernel - 2 * pad
    whole = np.zeros((1, oc, out + 2 * pad, out + 2 * pad))
    for i, j in np.ndindex(size, size):
        whole[0, :, i * stride:i * stride + kernel, j * stride:j * stride + kernel] += np.einsum("i,iohw->ohw", x[0, :, i, j].astype(np.float64), w)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[stride] * 2, pads=[pad] * 4)
    graph = helper.make_graph([node], "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    problem = {**conv_problem(ic, size, oc, kernel, block=0), "oh": out, "ow": out, "stride_h": stride, "stride_w": stride,
               "pad_t": pad, "pad_l": pad}
    plans = [json.loads(str(plan)) for plan in plans_of("conv2d_transpose.phases", json.dumps(problem), V3)]
    assert len({json.dumps(plan) for plan in plans}) == len(plans) > 1
    for plan in some(plans, 6):
        record = json.dumps({"problem": problem, "kernel": "conv2d_transpose.phases", "plan": plan})
        (y,) = treadle.compile(model, target=V3, pass_config={"schedule.plans": record}).run(None, {"x": x})
        np.testing.assert_allclose(y, whole[:, :, pad:pad + out, pad:pad + out], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sums_of_all_channels_compete_with_sums_in_chunks(dtype):
    """46 blocks of channels, whose weights leave the L1 cache, divide into chunks of 2 or 23 only: storing sums for each
    of them takes longer than loading weights again (a layer of Xception took 1.2 times as long)."""
    problem = {**conv_problem(736 if dtype == "float32" else 368, 19, 736, 1), "dtype": dtype}
    if dtype == "bfloat16":
        problem.update(weight_dtype="int32", ic_block=8, data_ic=736)
    target = "llvm -mcpu=znver4 -num-cores=1"
    plans = [str(plan) for plan in plans_of("conv2d.direct", json.dumps(problem), target)]
    assert {json.loads(plan)["ic_chunk"] for plan in plans} >= {0, 2}
    cycles = treadle.get_global_func("schedule.Cycles")
    best = min(plans, key=lambda plan: cycles("conv2d.direct", json.dumps(problem), target, plan))
    assert json.loads(best)["ic_chunk"] == 0


def test_a_record_that_does_not_fit_is_left_out():
    layer = Layer(32, 12, 64, 5, 1, 2)
    loops = conv_problem(32, 12, 64, 5, 1, 2)
    plan = json.loads(str(plans_of("conv2d.direct", json.dumps(loops), V3)[0]))
    for changed in ({"oh_block": 0}, {"oh_block": 100}, {"tile_ow": 40}, {"tile_oc": 3}, {"ic_chunk": 7}, {"oc_group": 9}):
        layer.run(json.dumps({"problem": loops, "kernel": "conv2d.direct", "plan": {**plan, **changed}}))
    layer.run("not a record\n{}\n" + json.dumps({"problem": loops, "kernel": "no.kernel", "plan": plan}))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_small_images_have_a_kernel(size):
    """Of images of one Winograd tile, and of one pixel, whatever the cost model prefers."""
    Layer(32, size, 32, 3, 1, 1).run("")


PRODUCTS = {"row": (1, 40, 112, True), "rows": (13, 1040, 96, True), "packing": (13, 1040, 64, False), "ragged": (9, 33, 70, True)}


@pytest.mark.parametrize("name", PRODUCTS)
def test_plans_of_products_compute_the_same(name):
    m, k, n, constant = PRODUCTS[name]
    product = Product(m, k, n, constant)
    problem = product_problem(m, k, n, packs_b=not constant)
    plans = [json.loads(str(plan)) for plan in plans_of("matmul.packed", json.dumps(problem), V3)]
    assert len({json.dumps(plan) for plan in plans}) == len(plans)
    for plan in some(plans, 6):
        product.run(json.dumps({"problem": problem, "kernel": "matmul.packed", "plan": plan}))


def test_cycles_are_those_of_plans_that_fit():
    problem = json.dumps(product_problem(128, 768, 768))
    cycles_of = treadle.get_global_func("schedule.Cycles")
    plans = [str(plan) for plan in plans_of("matmul.packed", problem, V3)]
    assert all(cycles_of("matmul.packed", problem, V3, plan) > 128 * 768 * 768 / 16 for plan in plans)
    for kernel, plan in (("matmul.packed", json.dumps({**json.loads(plans[0]), "nr": 7})), ("conv2d.direct", plans[0])):
        with pytest.raises(treadle.error.Error):
            cycles_of(kernel, problem, V3, plan)


@pytest.mark.parametrize("bits, digits, zeros", [(4, 2, False), (8, 1, True)])
def test_plans_of_weights_of_few_bits_compute_the_same(bits, digits, zeros):
    m, k, n, block = 5, 128, 24, 64
    rng = np.random.default_rng(bits)
    weights, points = rng.integers(0, 1 << bits, (n, k)), np.full((n, k // block), 1 << (bits - 1))
    scales = rng.uniform(0.01, 0.1, points.shape).astype(np.float32)
    if zeros:
        points = rng.integers(0, 1 << bits, points.shape)
    packed = weights if bits == 8 else weights[:, ::2] | weights[:, 1::2] << 4
    constants = {"b": packed.astype(np.uint8).reshape(n, k // block, -1), "s": scales.reshape(-1)}
    if zeros:
        constants["z"] = points.astype(np.uint8).reshape(-1)
    node = helper.make_node("MatMulNBits", ["x", *constants], ["y"], domain="com.microsoft", K=k, N=n, bits=bits,
                            block_size=block, accuracy_level=4 if digits == 1 else 0)
    graph = helper.make_graph([node], "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (m, k))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17),
                                                                  helper.make_opsetid("com.microsoft", 1)])
    x = rng.standard_normal((m, k)).astype(np.float32)
    expected = x @ ((weights - np.repeat(points, block, 1)) * np.repeat(scales.astype(np.float64), block, 1)).T
    problem = {"type": "schedule.BlockDenseProblem", "m": m, "n": 32, "k": k, "block": block, "bits": bits,
               "digits": digits, "symmetric": not zeros}
    plans = [json.loads(str(plan)) for plan in plans_of("block_dense", json.dumps(problem), V3)]
    assert len({json.dumps(plan) for plan in plans}) == len(plans) == 5 * 4
    for plan in plans:
        record = json.dumps({"problem": problem, "kernel": "block_dense", "plan": plan})
        (y,) = treadle.compile(model, target=V3, pass_config={"schedule.plans": record}).run(None, {"x": x})
        # Of data in 8 bits as exact as that: a step of a 127th of the largest of a block.
        np.testing.assert_allclose(y, expected, rtol=0, atol=(0.02 if digits == 1 else 3e-4) * np.abs(expected).max())


def test_plans_of_attention_compute_the_same():
    batch, rows, keys, size = 2, 24, 32, 16
    rng = np.random.default_rng(3)
    feeds = {name: rng.standard_normal((1, batch, n, size)).astype(np.float32) for name, n in (("q", rows), ("k", keys), ("v", keys))}
    nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "kt"], ["s"]),
             helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
    graph = helper.make_graph(nodes, "attention", [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in feeds.items()],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    scores = feeds["q"].astype(np.float64) @ feeds["k"].astype(np.float64).transpose(0, 1, 3, 2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ feeds["v"]
    problem = {"type": "schedule.AttentionProblem", "batch": batch, "m": rows, "n": keys, "s": size, "d": size,
               "dtype": "float32", "n_block": 16, "key_block": 0}
    plans = [json.loads(str(plan)) for plan in plans_of("attention.packed", json.dumps(problem), V3)]
    assert len(plans) > 4
    # Blocks of one query have no loop of rows to split: such a record is left out.
    for plan in [*some(plans, 4), {**plans[0], "m_block": 1, "tile_m": 1}]:
        record = json.dumps({"problem": problem, "kernel": "attention.packed", "plan": plan})
        (y,) = treadle.compile(model, target=V3, pass_config={"schedule.plans": record}).run(None, feeds)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("channels, groups, kernel", [(12, 1, "qnn_conv2d.direct"), (64, 1, "qnn_conv2d.winograd"),
                                                      (32, 8, "qnn_conv2d.direct"),
                                                      (32, 32, "qnn_conv2d.depthwise")])
def test_plans_of_convolutions_of_bytes_compute_the_same(channels, groups, kernel, tmp_path):
    rng = np.random.default_rng(groups)
    size = (17, 15) if kernel == "qnn_conv2d.winograd" else (9, 7)  # of some tiles
    x = rng.integers(0, 256, (1, channels, *size)).astype(np.uint8)
    w = rng.integers(-128, 128, (channels, channels // groups, 3, 3)).astype(np.int8)
    node = helper.make_node("ConvInteger", ["x", "w", "z"], ["y"], pads=[1] * 4, group=groups)
    graph = helper.make_graph([node], "layer", [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
                              [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.uint8(131), "z")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    expected = convolve(x - 131.0, w, np.zeros(channels), (1, 1), (1,) * 4, (1, 1), groups)
    onnx.save(model, tmp_path / "m.onnx")
    subprocess.run([PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--target", V3, "--dump", "kernels",
                    "--dump-dir", tmp_path], check=True)
    lines = [json.loads(line) for line in (tmp_path / "kernels.txt").read_text().splitlines() if line[:1] == "{"]
    (record,) = [line for line in lines if line["kernel"] == kernel]
    plans = [json.loads(str(plan)) for plan in plans_of(kernel, json.dumps(record["problem"]), V3)]
    assert len(plans) > 1 and plans[0] == record["plan"]
    for plan in plans:
        (y,) = treadle.compile(model, target=V3, pass_config={"schedule.plans": json.dumps({**record, "plan": plan})}).run(
            None, {"x": x})
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("sizes", [(320, 7, 64), (320, 14, 64), (256, 12, 32)])
def test_small_register_tiles_compute_few_addresses(sizes):
    """Beside the few products of a tile in 16 registers each instruction more in a step counts."""
    channels, size, results = sizes
    model = treadle.compile(Layer(channels, size, results, 1, 1, 0).model, target="llvm -mcpu=x86-64-v3 -num-cores=1")
    loops = 0
    for block in re.split(r"\n(?=\.L\w+:)", model.get_source("asm")):
        label = block.split(":")[0].strip()
        body, jump, _ = block.partition(f"\tjne\t{label}\n")
        if not jump or body.count("vfmadd") < 8:
            continue
        loops += 1
        # Steps that are written out share what is computed for all of them.
        assert 4 * len(re.findall(r"\t(shlq|orq|leaq)\t", body)) <= body.count("vfmadd"), body
    assert loops > 0
