# SPDX-License-Identifier: Apache-2.0
"""com.microsoft MatMulNBits in all its forms beside its definition in float64: Y = A * dq(B)' + bias, where
dq(b) = (b - zero) * scale of the block that K is in."""
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"

N = 21


def packed(values, bits):
    """Rows of numbers in bytes, the first in the low bits; the last byte is filled with ones, which nothing may read."""
    per = 8 // bits
    rows = np.pad(values, ((0, 0), (0, -values.shape[1] % per)), constant_values=(1 << bits) - 1).astype(np.uint8)
    return sum(rows[:, i::per] << (bits * i) for i in range(per)).astype(np.uint8)


def layer(bits, k, block, zeros=None, shuffled=False, bias=False, dtype=np.float32, level=None, rows=5, seed=0,
          absolute=False):
    rng = np.random.default_rng(seed + 10 * bits + k)
    blocks = -(-k // block)
    weights = rng.integers(0, 1 << bits, (N, blocks * block))
    weights[:, : min(k, 3)] = [0, (1 << bits) - 1, 0][: min(k, 3)]
    scales = rng.uniform(0.01, 0.1, (N, blocks)).astype(dtype)
    points = np.full((N, blocks), float(1 << (bits - 1)))
    inputs = {"b": packed(weights, bits).reshape(N, blocks, -1), "s": scales, "z": None, "g": None, "c": None}
    if zeros == "packed":
        points = rng.integers(0, 1 << bits, points.shape).astype(float)
        points[0, :1], points[1, :1] = 0, (1 << bits) - 1
        inputs["z"] = packed(points.astype(np.int64), bits)
    elif zeros == "floats":
        points = rng.uniform(0, 1 << bits, points.shape).astype(dtype)
        inputs["z"] = points
    block_of = np.arange(k) // block
    if shuffled:
        rng.shuffle(block_of)
        inputs["g"] = block_of.astype(np.int32)
    if bias:
        inputs["c"] = rng.standard_normal(N).astype(dtype)
    a = rng.standard_normal((rows, k)).astype(dtype)
    exact = (weights[:, :k] - points.astype(np.float64)[:, block_of]) * scales.astype(np.float64)[:, block_of]
    expected = a.astype(np.float64) @ exact.T + (inputs["c"].astype(np.float64) if bias else 0)
    if absolute:  # the sums of the products' sizes
        expected = np.abs(a.astype(np.float64)) @ np.abs(exact).T
    names = [name if value is not None else "" for name, value in inputs.items()]
    while names[-1] == "":
        names.pop()
    attributes = {"K": k, "N": N, "bits": bits, "block_size": block}
    if level is not None:
        attributes["accuracy_level"] = level
    node = helper.make_node("MatMulNBits", ["a", *names], ["y"], domain="com.microsoft", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph([node], "layer", [helper.make_tensor_value_info("a", kind, a.shape)],
                              [helper.make_tensor_value_info("y", kind, None)],
                              [numpy_helper.from_array(value, name) for name, value in inputs.items() if value is not None])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17),
                                                                  helper.make_opsetid("com.microsoft", 1)])
    # What rounding each element of A by half a step of a digit of its block may make of a result.
    padded = np.pad(np.abs(a.astype(np.float64)), ((0, 0), (0, blocks * block - k)))
    most = np.repeat(padded.reshape(rows, blocks, block).max(2), block, 1)[:, :k]
    reach = most @ np.abs(exact).T
    return model, a, expected, reach


def run(model, a, **options):
    (y,) = treadle.compile(model, **options).run(None, {"a": a})
    assert y.dtype == a.dtype
    return y.astype(np.float64)


FORMS = [(None, False, False), ("packed", False, True), ("floats", False, False), (None, True, False),
         ("packed", True, True), ("floats", True, True)]


@pytest.mark.parametrize("zeros, shuffled, bias", FORMS)
@pytest.mark.parametrize("k, block", [(64, 32), (33, 16), (97, 32), (1, 16), (129, 128)])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_against_the_definition(bits, k, block, zeros, shuffled, bias):
    model, a, expected, reach = layer(bits, k, block, zeros, shuffled, bias)
    # By default rows are rounded to 16 bits.
    assert (np.abs(run(model, a) - expected) <= reach / 2**15 + 1e-5).all()


@pytest.mark.parametrize("zeros", [None, "packed", "floats"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rows_in_float16(bits, zeros):
    model, a, expected, reach = layer(bits, 72, 32, zeros, dtype=np.float16, bias=True)
    assert (np.abs(run(model, a) - expected) <= reach / 2**15 + 2e-3 * np.abs(expected).max()).all()


@pytest.mark.parametrize("level", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("accuracy", ["strict", "default", "fast"])
def test_levels_of_accuracy(level, accuracy):
    """Only level 4 lets rows be rounded to 8 bits; `strict` and `fast` say otherwise."""
    model, a, expected, reach = layer(4, 96, 32, "packed", level=level, rows=3)
    error = np.abs(run(model, a, accuracy=accuracy) - expected)
    bytes_allowed = accuracy == "fast" or (accuracy == "default" and level == 4)
    assert (error <= reach / (254 if bytes_allowed else 2**15) + 1e-5).all()
    assert (error.max() > reach.max() / 2**15) == bytes_allowed


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64-v3", "llvm -mcpu=native -emulate-intrinsics=1", "stackvm"])
@pytest.mark.parametrize("bits, level", [(4, 4), (4, 0), (8, 4)])
def test_machines(target, bits, level):
    model, a, expected, reach = layer(bits, 97, 32, "packed", level=level, rows=2)
    assert (np.abs(run(model, a, target=target) - expected) <= reach / (254 if level == 4 else 2**15) + 1e-5).all()


TILES = "llvm -mcpu=sapphirerapids -emulate-intrinsics=1"


def kernels_of(model, folder, target):
    onnx.save(model, folder / "m.onnx")
    text = subprocess.run([PROGRAM, "explain", folder / "m.onnx", "--target", target], check=True, text=True,
                          capture_output=True).stdout
    return re.findall(r'"kernel":"(block_\w+)"', text)


@pytest.mark.parametrize("rows, k, block", [(64, 128, 32), (91, 130, 32), (48, 96, 16), (96, 256, 128)])
@pytest.mark.parametrize("zeros", [None, "packed", "floats"])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("level", [0, 4])
def test_many_rows_on_tiles(level, bits, zeros, rows, k, block, tmp_path):
    """Weights are dequantised to bfloat16 for all rows; for rows of 16 bits each number is the sum of two."""
    model, a, expected, _ = layer(bits, k, block, zeros, bias=True, level=level, rows=rows)
    assert kernels_of(model, tmp_path, TILES) == ["block_tiles"]
    _, _, products, _ = layer(bits, k, block, zeros, level=level, rows=rows, absolute=True)
    error = np.abs(run(model, a, target=TILES) - expected)
    assert (error <= products * 2.0 ** (-8 if level == 4 else -16) + 1e-5).all()
    assert level == 0 or error.max() > products.max() * 2.0**-16


@pytest.mark.parametrize("level", [0, 4])
def test_tiles_are_no_less_accurate_than_bytes(level):
    model, a, expected, _ = layer(4, 512, 32, "packed", level=level, rows=64)
    error = {target: np.linalg.norm(run(model, a, target=target) - expected)
             for target in (TILES, TILES + " -mattr=-amx-bf16")}
    assert error[TILES] < error[TILES + " -mattr=-amx-bf16"]


@pytest.mark.parametrize("rows, kernel", [(1, "block_dense"), (2, "block_dense"), (256, "block_tiles")])
def test_rows_that_tiles_pay_for(rows, kernel, tmp_path):
    model, *_ = layer(4, 512, 32, "packed", level=4, rows=rows)
    assert kernels_of(model, tmp_path, TILES) == [kernel]


@pytest.mark.parametrize("level", [0, 4])
def test_other_readers_of_rows_keep_float32(level):
    """Rows are rounded for the product alone."""
    model, a, expected, _ = layer(4, 128, 32, level=level, rows=64)
    model.graph.node.extend([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Mul", ["a", "three"], ["z"])])
    model.graph.node.insert(0, model.graph.node.pop(1))
    model.graph.input[0].name = "x"
    model.graph.initializer.append(numpy_helper.from_array(np.float32(3), "three"))
    model.graph.output.append(onnx.ValueInfoProto(name="z"))
    z = treadle.compile(model, target=TILES).run(["z"], {"x": a})[0]
    np.testing.assert_array_equal(z, np.maximum(a, 0) * np.float32(3))


def test_infinities_stay_in_their_rows_of_tiles():
    model, a, *_ = layer(4, 64, 32, "packed", rows=64)
    a[2, 5] = np.inf
    (y,) = treadle.compile(model, target=TILES).run(None, {"a": a})
    assert np.isfinite(np.delete(y, 2, 0)).all() and not np.isfinite(y[2]).any()


@pytest.mark.parametrize("rows, prefetched", [(1, True), (64, False)])
def test_one_row_prefetches_weights(rows, prefetched, tmp_path):
    """Where each weight is read once, the next blocks are fetched meanwhile."""
    model, *_ = layer(4, 256, 32, rows=rows)
    onnx.save(model, tmp_path / "m.onnx")
    subprocess.run([PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.tar", "--target", "llvm -mcpu=znver4",
                    "--dump", "tir", "--dump-dir", tmp_path], check=True)
    text = "".join(path.read_text() for path in tmp_path.glob("*.tir"))
    assert bool(re.search(r"prefetch\(@tir\.address_of\(\(int32\*\)p\d", text)) is prefetched


def test_infinities_and_zeros_in_rows():
    """A block of zeros has no scale of its own; an infinity stays in its row."""
    model, a, _, _ = layer(4, 64, 32, "packed", rows=4)
    a[0], a[1, :32], a[2, 5] = 0, 0, np.inf
    (y,) = treadle.compile(model).run(None, {"a": a})
    assert (y[0] == 0).all() and np.isfinite(y[[1, 3]]).all() and not np.isfinite(y[2]).any()


@pytest.mark.parametrize("change, message", [
    ({"bits": 3}, "'bits' of 3 isn't implemented"), ({"block_size": 24}, "'block_size' is 24, expected a power of two"),
    ({"K": 65}, "'B' or 'scales' has the wrong number of elements"), ({"weight_prepacked": 1}, "packed for other devices")])
def test_what_is_refused(change, message):
    model, *_ = layer(4, 64, 32)
    node = model.graph.node[0]
    for name, value in change.items():
        kept = [attribute for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, value)])
    with pytest.raises(treadle.Error, match=message):
        treadle.compile(model)


def test_blocks_that_an_index_names_exist():
    model, *_ = layer(4, 64, 32, shuffled=True)
    index = next(tensor for tensor in model.graph.initializer if tensor.name == "g")
    index.CopyFrom(numpy_helper.from_array(np.full(64, 2, np.int32), "g"))
    with pytest.raises(treadle.Error, match="'g_idx' names block 2 of 2"):
        treadle.compile(model)


def layer_of_open_sizes():
    """x (n, s, 64) to y (n, s, 32)."""
    constants = {"b": np.full((32, 2, 16), 0x5a, np.uint8), "s": np.ones(64, np.float32)}
    node = helper.make_node("MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", K=64, N=32, bits=4, block_size=32)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, ["n", "s", 64])], [onnx.ValueInfoProto(name="y")],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def test_no_tokens_of_open_sizes():
    """Batches of sequences without tokens have no rows: a 0 among the sizes isn't the size of the product."""
    compiled = treadle.compile(layer_of_open_sizes())
    for shape in ((2, 0), (0, 3), (2, 3)):
        assert compiled(x=np.ones((*shape, 64), np.float32))["y"].shape == (*shape, 32)


def test_names_of_open_sizes_are_kept():
    """Products of such a result and of others, as in attention, are known to fit, and become one operator."""
    module, _ = treadle.relay.frontend.from_onnx(layer_of_open_sizes())
    assert str(treadle.relay.transform.InferType()(module)["main"].ret_type) == "Tensor[(n, s, 32), float32]"
