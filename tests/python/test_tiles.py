# SPDX-License-Identifier: Apache-2.0
"""Products on AMX's tile registers: what they compute, written out and by the instructions themselves. Where the
processor lacks those, a handler of SIGILL does what they do (tests/support/amx_emulator.c), as encoded in the code."""
import ctypes
import json
import pathlib
import platform
import re
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from test_block_weights import layer
from test_precision import product, round_bf16, snr

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
TILES = "llvm -mcpu=x86-64-v3 -mattr=+amx-tile,+amx-int8,+amx-bf16"
WRITTEN_OUT = TILES + " -emulate-intrinsics=1"
#: Rows, k and columns that fill tiles, or don't; one panel, odd numbers of them, one tile of k and many.
SIZES = [(32, 64, 32), (5, 64, 40), (16, 128, 16), (33, 65, 47), (64, 200, 144), (50, 63, 272)]
CC = shutil.which("cc") or shutil.which("clang-19")
needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions are x86's")


@pytest.fixture(scope="module")
def instructions(tmp_path_factory):
    """How many instructions of AMX's were emulated so far; null where the processor has them."""
    if "amx_int8" in pathlib.Path("/proc/cpuinfo").read_text():
        yield None
        return
    if CC is None:
        pytest.skip("the processor lacks AMX, and there is no C compiler for what emulates it")
    path = tmp_path_factory.mktemp("amx") / "emulator.so"
    source = pathlib.Path(__file__).resolve().parents[1] / "support/amx_emulator.c"
    subprocess.run([CC, "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", path, source], check=True)
    library = ctypes.CDLL(str(path))
    library.emulator_count.restype = ctypes.c_long
    assert library.emulator_install() == 0
    yield library.emulator_count
    assert library.emulator_remove() == 0


def run(model, inputs, target, **options):
    """In this process: a library is refused on processors without AMX."""
    module, params = treadle.relay.frontend.from_onnx(model)
    with treadle.transform.PassContext(opt_level=3, config=options):
        built = treadle.relay.build(module, target=target, params=params)
    executor = treadle.contrib.graph_executor.GraphModule(built["default"](treadle.cpu()))
    executor.run(**inputs)
    return executor.get_output(0).numpy()


def bytes_product(m, k, n, batch=None):
    """With zero points of both operands, and both ends of their ranges."""
    rng = np.random.default_rng(m + k)
    x = rng.integers(0, 256, (*([batch] if batch else []), m, k)).astype(np.uint8)
    w = rng.integers(-128, 128, (*([batch] if batch else []), k, n)).astype(np.int8)
    x[..., : m // 2, :] = 255
    w[..., : k // 2, :] = np.where(rng.random(w[..., : k // 2, :].shape) < 0.5, -128, 127)
    zeros = [numpy_helper.from_array(np.uint8(131), "zx"), numpy_helper.from_array(np.int8(-5), "zw")]
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["x", "w", "zx", "zw"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
                              [numpy_helper.from_array(w, "w"), *zeros])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {"x": x}, np.matmul(x.astype(np.int64) - 131, w.astype(np.int64) + 5)


@pytest.mark.parametrize("m, k, n", SIZES)
def test_sums_of_bytes_are_exact(m, k, n):
    model, inputs, expected = bytes_product(m, k, n)
    np.testing.assert_array_equal(run(model, inputs, WRITTEN_OUT), expected)


def planned(model, target, folder, **plan):
    """The record of the model's product, with another plan."""
    onnx.save(model, folder / "m.onnx")
    subprocess.run([PROGRAM, "compile", folder / "m.onnx", "-o", folder / "m.so", "--target", target,
                    "--precision", "bf16", "--dump", "kernels", "--dump-dir", folder], check=True)
    lines = [json.loads(line) for line in (folder / "kernels.txt").read_text().splitlines() if line[:1] == "{"]
    (record,) = [line for line in lines if line["kernel"] == "matmul.tiles" and line["problem"]["n_block"] == 16]
    record["plan"].update(plan)
    return json.dumps(record)


@pytest.mark.parametrize("mr, nc", [(16, 1), (16, 3), (16, 6), (32, 1), (32, 2), (32, 6), (48, 1), (32, 4), (64, 2)])
@pytest.mark.parametrize("rows_first", [False, True])
def test_plans(mr, nc, rows_first, tmp_path):
    model, inputs, expected = bytes_product(192, 130, 90)  # 6 panels
    record = planned(model, WRITTEN_OUT, tmp_path, mr=mr, nc=nc, rows_first=rows_first)
    y = run(model, inputs, WRITTEN_OUT, **{"schedule.plans": record})
    np.testing.assert_array_equal(y, expected)  # those that don't fit are left out


@pytest.mark.parametrize("n", [1, 2])
def test_few_columns(n):
    """Columns that are quantised again: of a single one nothing is left for tiles to compute."""
    rng = np.random.default_rng(n)
    x, w = rng.integers(0, 256, (26, 163)).astype(np.uint8), rng.integers(-128, 128, (163, n)).astype(np.int8)
    scales = {"s": np.float32(0.5), "zx": np.uint8(128), "zw": np.int8(0), "t": np.float32(4096)}
    node = helper.make_node("QLinearMatMul", ["x", "s", "zx", "w", "s", "zw", "t", "zx"], ["y"])
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.UINT8, None)],
                              [numpy_helper.from_array(np.asarray(v), name) for name, v in {"w": w, **scales}.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    sums = (x.astype(np.int64) - 128) @ w.astype(np.int64)
    expected = np.clip(np.rint(sums * 0.25 / 4096) + 128, 0, 255)
    np.testing.assert_array_equal(run(model, {"x": x}, WRITTEN_OUT), expected)


def test_batches(batch=3):
    model, inputs, expected = bytes_product(20, 70, 40, batch)
    np.testing.assert_array_equal(run(model, inputs, WRITTEN_OUT), expected)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
@pytest.mark.parametrize("m, k", [(32, 128), (16, 64), (20, 70)])
def test_rows_of_a_batch_of_one(m, k, precision):
    """Rows that fill tiles are read as they are: the weight, which is words, has as many dimensions as they have."""
    if precision == "bf16":
        model, inputs, a, b = product((1, m, k), (k, 40))
        y = run(model, inputs, WRITTEN_OUT, **{"relay.precision": "bf16"})
        assert snr(np.maximum(round_bf16(a).astype(np.float64) @ round_bf16(b), 0), y) > 110
        return
    rng = np.random.default_rng(m)
    x, w = rng.integers(0, 256, (1, m, k)).astype(np.uint8), rng.integers(-128, 128, (k, 40)).astype(np.int8)
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.INT32, None)], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    np.testing.assert_array_equal(run(model, {"x": x}, WRITTEN_OUT), x.astype(np.int64) @ w.astype(np.int64))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("m, k, n", SIZES)
def test_sums_of_bfloat16(m, k, n, constant):
    model, inputs, a, b = product((m, k), (k, n), constant)
    y = run(model, inputs, WRITTEN_OUT, **{"relay.precision": "bf16"})
    assert snr(np.maximum(round_bf16(a).astype(np.float64) @ round_bf16(b), 0), y) > 110


#: An odd number of tiles of rows; so many of k that sums are kept in memory between parts of them.
IN_PARTS = [(112, 1000, 80), (224, 1600, 32)]


@needs_x86
@pytest.mark.parametrize("m, k, n", SIZES + IN_PARTS)
def test_instructions_for_bytes(m, k, n, instructions):
    model, inputs, expected = bytes_product(m, k, n)
    before = 0 if instructions is None else instructions()
    np.testing.assert_array_equal(run(model, inputs, TILES), expected)
    assert instructions is None or instructions() > before


@needs_x86
@pytest.mark.parametrize("m, k, n", SIZES + IN_PARTS)
def test_instructions_for_bfloat16(m, k, n, instructions):
    model, inputs, a, b = product((m, k), (k, n))
    before = 0 if instructions is None else instructions()
    y = run(model, inputs, TILES, **{"relay.precision": "bf16"})
    assert snr(np.maximum(round_bf16(a).astype(np.float64) @ round_bf16(b), 0), y) > 110
    assert instructions is None or instructions() > before


@needs_x86
@pytest.mark.parametrize("m, is_open", [(256, False), (256, True), (249, True), (33, True), (7, True)])
def test_rows_beyond_the_l2_cache(m, is_open, instructions, tmp_path):
    """All panels use a slice of k before the next one, here of three, also where a run shows the number of rows."""
    model, inputs, a, b = product((m, 4128), (4128, 288))
    if is_open:
        free_rows(model, {0: "m"})
    record = planned(model, TILES, tmp_path, mr=256, nc=18, rows_first=False)
    compiled = treadle.compile(model, target=TILES, precision="bf16", pass_config={"schedule.plans": record})
    assert '"mr":256,"nc":18' in compiled.explain()
    y = compiled.run(None, inputs)[0]
    assert snr(np.maximum(round_bf16(a).astype(np.float64) @ round_bf16(b), 0), y) > 110


@needs_x86
@pytest.mark.parametrize("level", [0, 4])
def test_instructions_for_block_weights(level, instructions):
    model, inputs, expected, _ = layer(4, 96, 32, "packed", level=level, rows=40)
    before = 0 if instructions is None else instructions()
    y = run(model, {"a": inputs}, TILES)
    assert snr(expected, y) > (50 if level == 4 else 90)
    assert instructions is None or instructions() > before


def test_what_the_processor_lacks_is_said(tmp_path):
    if "amx_int8" in pathlib.Path("/proc/cpuinfo").read_text():
        pytest.skip("the processor has AMX")
    model, *_ = bytes_product(32, 64, 32)
    onnx.save(model, tmp_path / "m.onnx")
    subprocess.run([PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--target", TILES], check=True)
    with pytest.raises(treadle.Error, match="this processor lacks .*amx-int8"):
        treadle.load(tmp_path / "m.so")


@pytest.mark.parametrize("precision, instruction", [("f32", "tdpbusd"), ("bf16", "tdpbf16ps")])
def test_four_products_for_four_loads(precision, instruction, tmp_path):
    """Two by two registers of sums, operands read where they are, weights of one layout."""
    model = bytes_product(64, 256, 256)[0] if precision == "f32" else product((64, 256), (256, 256))[0]
    onnx.save(model, tmp_path / "m.onnx")
    subprocess.run([PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.tar", "--precision", precision,
                    "--target", "llvm -mcpu=sapphirerapids", "--dump", "asm", "--dump-dir", tmp_path], check=True)
    text = "".join(path.read_text() for path in tmp_path.glob("*.s"))
    count = lambda name: len(re.findall(rf"\s{name}\s", text))
    assert count(instruction) >= 4 and count(instruction) == count("tileloadd")
    assert count("tilestored") % 4 == 0 and count("ldtilecfg") == 1 and count("tilerelease") == 1


def free_rows(model, dims):
    """The model, in which dimensions of its input are known by name only."""
    for value in [*model.graph.input, *model.graph.output]:
        shape = value.type.tensor_type.shape
        for i, name in dims.items():
            if i < len(shape.dim):
                shape.dim[i].dim_param = name
    return model


@pytest.mark.parametrize("target", [WRITTEN_OUT, pytest.param(TILES, marks=needs_x86)])
@pytest.mark.parametrize("k, n", [(64, 40), (130, 16), (64, 272), (1024, 48)])
@pytest.mark.parametrize("kind", ["bytes", "bfloat16"])
def test_rows_that_a_run_shows(kind, k, n, target, instructions):
    """Rows that are read in place (k fills tiles), and those of a copy; fewer than a tile has, and parts of blocks."""
    sizes = [1, 2, 15, 16, 17, 31, 32, 33, 47, 49, 63, 64, 100]
    if kind == "bytes":
        model = free_rows(bytes_product(2, k, n)[0], {0: "m"})
        weight = numpy_helper.to_array(model.graph.initializer[0]).astype(np.int64)
    else:
        model, _, _, weight = product((2, k), (k, n))
        free_rows(model, {0: "m"})
    compiled = treadle.compile(model, target=target, precision="bf16")
    assert '"kernel":"matmul.tiles"' in compiled.explain()
    rng = np.random.default_rng(n)
    name = compiled.inputs[0].name
    for m in sizes:
        if kind == "bytes":
            x = rng.integers(0, 256, (m, k)).astype(np.uint8)
            y = compiled.run(None, {name: x})[0]
            np.testing.assert_array_equal(y, (x.astype(np.int64) - 131) @ (weight + 5))
        else:
            x = rng.standard_normal((m, k)).astype(np.float32)
            y = compiled.run(None, {name: x})[0]
            assert snr(np.maximum(round_bf16(x).astype(np.float64) @ round_bf16(weight), 0), y) > 110, m


@pytest.mark.parametrize("target", [WRITTEN_OUT, pytest.param(TILES, marks=needs_x86)])
@pytest.mark.parametrize("dims", [{0: "b"}, {0: "b", 1: "m"}, {1: "m"}])
def test_rows_of_batches_that_a_run_shows(dims, target, instructions):
    model, _, _, weight = product((3, 5, 96), (96, 48))
    free_rows(model, dims)
    compiled = treadle.compile(model, target=target, precision="bf16", threads=2)
    assert '"kernel":"matmul.tiles"' in compiled.explain()
    rng = np.random.default_rng(1)
    for b, m in ((1, 1), (3, 5), (2, 40), (7, 17)):
        x = rng.standard_normal((b if 0 in dims else 3, m if 1 in dims else 5, 96)).astype(np.float32)
        y = compiled.run(None, {compiled.inputs[0].name: x})[0]
        assert snr(np.maximum(round_bf16(x).astype(np.float64) @ round_bf16(weight), 0), y) > 110, (b, m)


@pytest.mark.parametrize("n", [40, 205, 208])
def test_rows_that_a_run_shows_are_read_in_place(n, tmp_path):
    model, *_ = product((2, 256), (256, n))
    onnx.save(free_rows(model, {0: "m"}), tmp_path / "m.onnx")
    subprocess.run([PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--target", TILES.replace("v3", "v4"),
                    "--precision", "bf16", "--dump", "tir", "--dump-dir", tmp_path], check=True)
    text = (tmp_path / "tir.tir").read_text()
    assert "unscheduled" not in text
    calls = re.findall(r"tile_dot_pairs\(.*", text)
    assert calls and all("(bfloat16*)p0" in call for call in calls)
