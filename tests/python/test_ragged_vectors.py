# SPDX-License-Identifier: Apache-2.0
"""Rows of lengths that whole vectors don't divide: full vectors and a masked rest, not vectors of a divisor of the length."""
import pathlib
import re
import subprocess

import numpy as np
import pytest

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"

CASES = {
    "softmax": ((6, 196), "nn.softmax(%x)"),
    "softmax_long": ((3, 1000), "nn.softmax(%x)"),
    "softmax_odd": ((6, 197), "nn.softmax(%x)"),
    "flat": ((4, 1225), "tanh(%x)"),
    "transposed": ((2, 100, 100), "tanh(transpose(%x, axes=[0, 2, 1]))"),
    "sums": ((5, 196), "sum(%x, axis=[1])"),
    # Operands of other dimensions: the loops weren't taken for those of one row, and ran element by element.
    "reshaped": ((1, 980), "tanh(reshape(%x, newshape=[1, 20, 7, 7]))"),
    "reshaped_back": ((1, 20, 7, 7), "tanh(reshape(%x, newshape=[980]))"),
    "reshaped_scaled": ((1, 980), "tanh(multiply(reshape(%x, newshape=[20, 7, 7]), "
                                  "reshape(strided_slice(%x, begin=[0], end=[20], strides=[1], axes=[1]), "
                                  "newshape=[20, 1, 1])))"),
}


def source(shape, text):
    return f'#[version = "0.0.5"]\ndef @main(%x: Tensor[{shape}, float32]) {{ {text} }}\n'


def expected(name, x):
    x = x.astype("f8")
    if name == "sums":
        return x.sum(1)
    if name == "transposed":
        return np.tanh(x.transpose(0, 2, 1))
    if name == "flat":
        return np.tanh(x)
    if name.startswith("reshaped"):
        shape = {"reshaped": (1, 20, 7, 7), "reshaped_back": (980,), "reshaped_scaled": (20, 7, 7)}[name]
        return np.tanh(x.reshape(shape) * (x[0, :20].reshape(20, 1, 1) if name == "reshaped_scaled" else 1))
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=x86-64-v3", "c", "stackvm"])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name, target):
    shape, text = CASES[name]
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    built = treadle.relay.build(treadle.relay.fromtext(source(shape, text)), target)
    executor = treadle.contrib.graph_executor.GraphModule(built["default"](treadle.cpu()))
    executor.run(x=x)
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected(name, x), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name, lanes", [("softmax", 16), ("softmax_long", 16), ("flat", 16), ("transposed", 8),
                                         ("reshaped", 16), ("reshaped_back", 16), ("reshaped_scaled", 16)])
def test_vectors_are_full(name, lanes, tmp_path):
    """196 = 4 x 49 had vectors of 4 lanes: a softmax of such rows took three times as long as one of 197."""
    (tmp_path / "m.relay").write_text(source(*CASES[name]))
    command = [PROGRAM, "compile", tmp_path / "m.relay", "-o", tmp_path / "m.so", "--target",
               "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3", "--dump", "tir", "--dump-dir", tmp_path / "d"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    text = (tmp_path / "d/tir.tir").read_text()
    stores = [line.split(" = ")[0] for line in text.splitlines() if "ramp(" in line and " = " in line]
    found = [int(n) for store in stores for n in re.findall(r"ramp\(.*, (\d+)\)\]", store)]
    assert found and lanes in found, text


@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=x86-64-v2", "c"])
def test_elements_gathered_from_columns_that_are_joined(target, rows=184):
    """Each choice reads under a mask that contains the one before; a mask was taken for true within itself."""
    columns = ", ".join(f"%{i}" for i in range(7))
    text = "".join(f"  %{i} = expand_dims(negative(%x{i}), axis=1);\n" for i in range(7))
    params = ", ".join(f"%x{i}: Tensor[(197), float32]" for i in range(7))
    module = treadle.relay.fromtext(
        f'#[version = "0.0.5"]\ndef @main({params}, %at: Tensor[({rows}, 1), int64]) {{\n{text}  %7 = ({columns});\n'
        "  %8 = gather(concatenate(%7, axis=1), %at, axis=1);\n  multiply(%8, %8)\n}\n")
    r = np.random.default_rng(0)
    x, at = r.standard_normal((7, 197)).astype("f4"), r.integers(0, 7, (rows, 1))
    executor = treadle.contrib.graph_executor.GraphModule(treadle.relay.build(module, target)["default"](treadle.cpu()))
    executor.run(at=at, **{f"x{i}": x[i] for i in range(7)})
    np.testing.assert_array_equal(executor.get_output(0).numpy()[:, 0], x[at[:, 0], np.arange(rows)]**2)
