# SPDX-License-Identifier: Apache-2.0
"""Floats as integers: towards zero, beyond the range its ends, NaN as 0, alike on every target and in vectors."""
import re

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle
from treadle import relay

TARGETS = ["llvm -mcpu=native", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64", "stackvm"]


def values():
    """Around the ends of integers' ranges, and what isn't a number."""
    ends = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 0.999, -0.999, 1e30, -1e30, 2147483520.0, -2147483904.0]
    ends += [2.0**52 + 1, 3.0**33, -(3.0**33), 3.0**39, -(3.0**39), 2.0**63 - 2.0**10, 2.0**63 - 2.0**39, 2.0**64 - 2.0**11]
    for bits in (7, 8, 15, 16, 31, 32, 33, 62, 63, 64):
        for step in (-1.5, -1, -0.5, -0.25, 0, 0.25, 0.5, 1, 1.5):
            ends += [2.0**bits + step, -(2.0**bits) + step]
    return np.array(ends * 2)


def cast(source, to, target):
    x = relay.var("x", shape=source.shape, dtype=str(source.dtype))
    function = relay.Function([x], relay.cast(x, to))
    return relay.create_executor("graph", treadle.IRModule.from_expr(function), target=target).evaluate()(source).numpy()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("to", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("target", TARGETS)
def test_ends_of_ranges(dtype, to, target):
    with np.errstate(over="ignore"):
        x = values().astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    info = np.iinfo(to)
    whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e300, neginf=-1e300))
    expected = [info.min if v < info.min else info.max if v >= float(info.max) else int(v) for v in whole]
    np.testing.assert_array_equal(cast(x, to, target), np.array(expected, dtype=to))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("to", ["float32", "float64"])
@pytest.mark.parametrize("target", TARGETS)
def test_long_integers_are_rounded_once(dtype, to, target):
    """To the nearest, halves to even: beyond 2^53, and where words of 32 bits meet."""
    info = np.iinfo(dtype)
    near = [2**k + d for k in (0, 24, 25, 31, 32, 33, 53, 54, 62) for d in (-3, -1, 0, 1, 2, 3)]
    near = [value for value in near if value >= info.min]
    near += [info.min, info.min + 1, info.max, info.max - 1, info.max - 1023, info.max - 1024, 2**53 + 2**32 + 1]
    if dtype == "int64":
        near += [-value for value in near if value != info.min]
    x = np.array(near, dtype)
    np.testing.assert_array_equal(cast(x, to, target), x.astype(to))


def test_vectors_are_converted_as_such(tmp_path):
    """Not lane by lane: 16 results of one conversion."""
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(64, 64), float32]) { cast(%x, dtype="uint8") }"""
    with treadle.transform.PassContext(opt_level=3):
        module = relay.build(relay.fromtext(text), target="llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4")
    assembly = module.get_lib().get_source("asm")
    assert re.search(r"vcvttps2dq\s.*zmm", assembly) and "vcvttss2si" not in assembly


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("body", ["nn.max_pool2d(%x, pool_size=[3, 3], layout=\"NCHW16c\")", "maximum(%x, %x * %x)", "%x + %x"])
def test_vectors_of_float16_stay_vectors(cpu, body):
    """Between conversions LLVM would make operations of float32 ones of float16, which it computes lane by lane."""
    text = f"""#[version = "0.0.5"]
def @main(%x: Tensor[(1, 4, 16, 16, 16), float16]) {{ {body} }}"""
    with treadle.transform.PassContext(opt_level=3):
        module = relay.build(relay.fromtext(text), target=f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    assembly = module.get_lib().get_source("asm")
    assert "vcvtph2ps" in assembly and not re.search(r"vucomiss|v(max|add|mul)ss|vpinsrw|vpextrw", assembly)


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("dtypes", [("float32", "int64"), ("float64", "int64"), ("int64", "float64")])
def test_vectors_of_long_integers(cpu, dtypes):
    """By instructions of AVX-512, in doubles with AVX2; not lane by lane, also of lengths that aren't whole vectors."""
    text = f"""#[version = "0.0.5"]
def @main(%x: Tensor[(9001), {dtypes[0]}]) {{ cast(%x, dtype="{dtypes[1]}") }}"""
    with treadle.transform.PassContext(opt_level=3):
        module = relay.build(relay.fromtext(text), target=f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    assembly = module.get_lib().get_source("asm")
    scalar = re.findall(r"vcvtts[sd]2si|vcvtsi2sd", assembly)
    assert len(scalar) < 16, "a tail at most"


@pytest.mark.parametrize("code", ["FLOAT4E2M1", "FLOAT8E8M0"])
@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=x86-64-v3", "stackvm"])
def test_narrow_floats_of_dynamic_sizes(code, target):
    """Loads of rows that only a run knows are masked; these types have no constant that masked lanes could take."""
    x = helper.make_tensor_value_info("x", getattr(TensorProto, code), ["n", "m"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "m"])
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], "casts", [x], [y])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)]), target=target)
    dtype = ml_dtypes.float4_e2m1fn if code == "FLOAT4E2M1" else ml_dtypes.float8_e8m0fnu
    for shape in ((1, 1), (3, 5), (2, 37)):
        values = (1 + np.arange(np.prod(shape)) % 6).reshape(shape).astype(dtype)
        np.testing.assert_array_equal(model.run(None, {"x": values})[0], values.astype(np.float32))
