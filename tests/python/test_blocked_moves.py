# SPDX-License-Identifier: Apache-2.0
"""Channels that move from blocks of one size, or of several groups, to blocks of another."""
import pathlib
import subprocess

import numpy as np
import pytest

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"

# Four groups of 28 channels, each padded to two blocks of 16, become seven blocks of 16 without padding.
SOURCE = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 8, 3, 5, 16), float32]) {
  %0 = layout_transform(%x, src_layout="NCHW16c", dst_layout="NCHW");
  %1 = reshape(%0, newshape=[1, 4, 32, 3, 5]);
  %2 = strided_slice(%1, begin=[0], end=[28], strides=[1], axes=[2]);
  %3 = reshape(%2, newshape=[1, 112, 3, 5]);
  layout_transform(%3, src_layout="NCHW", dst_layout="NCHW16c")
}
"""


def moved(x):
    groups = x.transpose(0, 1, 4, 2, 3).reshape(4, 32, 3, 5)[:, :28]
    return groups.reshape(1, 7, 16, 3, 5).transpose(0, 1, 3, 4, 2)


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=x86-64-v3", "c", "stackvm"])
def test_results_are_those_of_numpy(target):
    module = treadle.relay.fromtext(SOURCE)
    x = np.random.default_rng(0).standard_normal((1, 8, 3, 5, 16)).astype("f4")
    built = treadle.relay.build(module, target)
    executor = treadle.contrib.graph_executor.GraphModule(built["default"](treadle.cpu()))
    executor.run(x=x)
    np.testing.assert_array_equal(executor.get_output(0).numpy(), moved(x))


def test_channels_move_in_the_largest_vectors_that_both_layouts_have(tmp_path):
    """28 is a multiple of 4: four lanes lie together on both sides; no index is computed for each lane."""
    (tmp_path / "m.relay").write_text(SOURCE)
    command = [PROGRAM, "compile", tmp_path / "m.relay", "-o", tmp_path / "m.so", "--target",
               "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3", "--dump", "tir", "--dump-dir", tmp_path / "d"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    store, = [line for line in (tmp_path / "d/tir.tir").read_text().splitlines() if "ramp(" in line]
    target, source = store.split(" = ")
    assert target.strip().endswith("1i64, 4)]") and source.count("ramp(") == 1 and source.endswith("1i64, 4)]"), store


@pytest.mark.parametrize("dtype, planes", [("uint8", 4), ("uint8", 3), ("int16", 4), ("float32", 3), ("float32", 5)])
@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=x86-64-v3", "c"])
def test_planes_are_interleaved(target, dtype, planes, tmp_path):
    """Shuffles of more than two vectors were emitted element by element, and took eight times as long."""
    source = (f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(1, {planes}, 28, 28), {dtype}]) '
              "{ transpose(%x, axes=[0, 2, 3, 1]) }\n")
    x = np.random.default_rng(0).integers(0, 200, (1, planes, 28, 28)).astype(dtype)
    built = treadle.relay.build(treadle.relay.fromtext(source), target)
    executor = treadle.contrib.graph_executor.GraphModule(built["default"](treadle.cpu()))
    executor.run(x=x)
    np.testing.assert_array_equal(executor.get_output(0).numpy(), x.transpose(0, 2, 3, 1))
    if target == "c" or planes > 4:
        return
    (tmp_path / "m.relay").write_text(source)
    subprocess.run([PROGRAM, "compile", tmp_path / "m.relay", "-o", tmp_path / "m.so", "--target",
                    "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3", "--dump", "ll", "--dump-dir", tmp_path],
                   check=True, capture_output=True, timeout=300)
    text = "".join(path.read_text() for path in tmp_path.glob("*.ll"))
    assert "shufflevector" in text and text.count("insertelement") < 8


# 36 channels follow 36 others; both are padded to blocks of 16, and what follows them is rounded.
JOINED = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 3, 4, 5, 16), float32], %y: Tensor[(1, 3, 4, 5, 16), float32], %s: float32) {
  %0 = strided_slice(layout_transform(%x, src_layout="NCHW16c", dst_layout="NCHW"), begin=[0], end=[36], strides=[1], axes=[1]);
  %1 = strided_slice(layout_transform(%y, src_layout="NCHW16c", dst_layout="NCHW"), begin=[0], end=[36], strides=[1], axes=[1]);
  %2 = (multiply(%0, %s), %1);
  %3 = layout_transform(nn.pad(concatenate(%2, axis=1), 0f, pad_width=[[0, 0], [0, 8], [0, 0], [0, 0]]), src_layout="NCHW",
                        dst_layout="NCHW16c");
  round(divide(%3, %s))
}
"""


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=x86-64-v3", "c", "stackvm"])
def test_joined_channels_are_those_of_numpy(target):
    r = np.random.default_rng(0)
    x, y = (r.standard_normal((1, 3, 4, 5, 16)).astype("f4") for _ in range(2))
    built = treadle.relay.build(treadle.relay.fromtext(JOINED), target)
    executor = treadle.contrib.graph_executor.GraphModule(built["default"](treadle.cpu()))
    scale = np.float32(0.25)
    executor.run(x=x, y=y, s=scale)
    a, b = (v.transpose(0, 1, 4, 2, 3).reshape(1, 48, 4, 5)[:, :36] for v in (x, y))
    joined = np.pad(np.concatenate([a * scale, b], 1), [(0, 0), (0, 8), (0, 0), (0, 0)])
    expected = np.round(joined / scale).reshape(1, 5, 16, 4, 5).transpose(0, 1, 3, 4, 2)
    np.testing.assert_array_equal(executor.get_output(0).numpy(), expected)


def test_joined_channels_are_computed_in_vectors(tmp_path):
    """Conditions of lanes that all decide alike, and a scalar under them, left the loop to run element by element."""
    (tmp_path / "m.relay").write_text(JOINED)
    subprocess.run([PROGRAM, "compile", tmp_path / "m.relay", "-o", tmp_path / "m.so", "--target",
                    "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3", "--dump", "tir", "--dump-dir", tmp_path],
                   check=True, capture_output=True, timeout=300)
    lines = [line for line in (tmp_path / "tir.tir").read_text().splitlines() if "nearbyint(" in line]
    assert lines and all(line.split(" = ")[0].strip().endswith(("1i64, 4)]", "1i64, 16)]")) for line in lines), lines


@pytest.mark.parametrize("channels", [3, 4, 24, 64])
def test_images_of_any_size_become_channels_last(channels):
    """Few channels per pixel, where an index was divided for each, and tiles with rows that are left over."""
    source = (f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, {channels}, ?, ?), float32]) '
              "{ transpose(%x, axes=[0, 2, 3, 1]) }\n")
    executable = treadle.relay.vm.compile(treadle.relay.fromtext(source), "llvm -mcpu=native")
    machine = treadle.runtime.vm.VirtualMachine(executable, treadle.cpu())
    for size in ((1, 1, 1), (2, 3, 5), (1, 17, 1), (3, 16, 16), (1, 31, 33), (2, 0, 4)):
        x = np.random.default_rng(0).random((size[0], channels, *size[1:])).astype("float32")
        np.testing.assert_array_equal(machine.invoke("main", treadle.nd.array(x)).numpy(), x.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("sizes", [("?", "?", "?"), (2, 15, 33), (1, 41, 100)])
@pytest.mark.parametrize("channels", [2, 3])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_images_become_channels_first(dtype, channels, sizes, tmp_path):
    """Rows that had been joined for tiles, which channels so few have none of, were left to go element by element."""
    batch, height, width = sizes
    source = (f'#[version = "0.0.5"]\ndef @main(%x: Tensor[({batch}, {height}, {width}, {channels}), {dtype}]) '
              "{ transpose(%x, axes=[0, 3, 1, 2]) }\n")
    executable = treadle.relay.vm.compile(treadle.relay.fromtext(source), "llvm -mcpu=native")
    machine = treadle.runtime.vm.VirtualMachine(executable, treadle.cpu())
    for size in ((1, 1, 1), (2, 3, 5), (1, 17, 1), (3, 16, 16), (1, 31, 33), (2, 0, 4)) if batch == "?" else (sizes,):
        x = np.random.default_rng(0).integers(0, 255, (*size, channels)).astype(dtype)
        np.testing.assert_array_equal(machine.invoke("main", treadle.nd.array(x)).numpy(), x.transpose(0, 3, 1, 2))
    (tmp_path / "m.relay").write_text(source)
    subprocess.run([PROGRAM, "compile", tmp_path / "m.relay", "-o", tmp_path / "m.so", "--target",
                    "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4", "--dump", "tir", "--dump-dir", tmp_path],
                   check=True, capture_output=True, timeout=300)
    assert f"({dtype}x16*)" in (tmp_path / "tir.tir").read_text()
