# SPDX-License-Identifier: Apache-2.0
"""Scales and zero points that don't fit what is quantised."""
import numpy as np
from onnx import TensorProto

from .base import Case, f32, info, model, node, one, tensor

BYTES = np.arange(12, dtype="uint8").reshape(3, 4)
WEIGHT = np.arange(20, dtype="int8").reshape(4, 5)
IMAGE, KERNEL = np.arange(48, dtype="uint8").reshape(1, 3, 4, 4), np.arange(54, dtype="int8").reshape(2, 3, 3, 3)


def scales(*shape):
    return np.full(shape, 0.5, "float32")


def linear_cases():
    """QuantizeLinear and DequantizeLinear: constants as weights have them, and operands."""
    wrong = {"rank_2": scales(3, 4), "rank_3": scales(3, 1, 1), "count": scales(5), "empty": scales(0), 
             "integer": np.int32(1), "boolean": np.array(True)}
    for op, x in (("DequantizeLinear", BYTES), ("QuantizeLinear", f32(3, 4))):
        for held, constants in (("constant", ("s", "z")), ("input", ())):
            def made(name, want, feeds, **more):
                return one(f"qdq_{op.lower()}_{name}_{held}", op, feeds, want, constants, **more)  # noqa: B023

            for name, value in wrong.items():
                want = "either" if name == "rank_2" else "error"
                yield made(f"scale_{name}", want, {"x": x, "s": value}, axis=0)
            yield made("good", "ok", {"x": x, "s": scales(3), "z": np.zeros(3, "uint8")}, axis=0)
            yield made("zero_point_count", "error", {"x": x, "s": scales(3), "z": np.zeros(4, "uint8")}, axis=0)
            yield made("zero_point_scalar", "error", {"x": x, "s": scales(3), "z": np.uint8(0)}, axis=0)
            yield made("zero_point_rank", "error", {"x": x, "s": np.float32(1), "z": np.zeros((3, 4), "uint8")})
            yield made("zero_point_float", "error", {"x": x, "s": np.float32(1), "z": np.float32(0)})
            for axis in (2, -3, 1 << 40, -(1 << 63)):
                yield made(f"axis_{axis}", "error", {"x": x, "s": scales(3)}, axis=axis)
            for name, value in (("zero", 0.0), ("nan", np.nan), ("negative", -0.5), ("infinite", np.inf), ("tiny", 1e-45)):
                # NumPy's casts of what isn't finite are anything.
                yield made(f"scale_{name}", "either", {"x": x, "s": np.float32(value), "z": np.uint8(3)}, expected=[])
            for block in (-1, 3, 1 << 40, 1 << 62):
                yield made(f"block_{block}", "either" if block == 3 else "error",
                           {"x": x, "s": scales(3, 2), "z": np.zeros((3, 2), "uint8")}, axis=1, block_size=block)
            yield made("block_scale_rank", "error", {"x": x, "s": scales(6)}, axis=1, block_size=2)
            yield made("block_scale_count", "error", {"x": x, "s": scales(3, 3)}, axis=1, block_size=2)
    yield one("qdq_dequantizelinear_of_floats", "DequantizeLinear", {"x": f32(3, 4), "s": np.float32(1)}, "error")
    yield one("qdq_quantizelinear_of_strings", "QuantizeLinear", {"x": BYTES, "s": np.float32(1)}, "error")
    yield one("qdq_quantizelinear_to_floats", "QuantizeLinear", {"x": f32(3, 4), "s": np.float32(1)}, "error",
              output_dtype=TensorProto.FLOAT)
    yield one("qdq_quantizelinear_to_nothing", "QuantizeLinear", {"x": f32(3, 4), "s": np.float32(1)}, "error",
              output_dtype=999)


def product_cases():
    """QLinearMatMul, QLinearConv, MatMulInteger and ConvInteger, one operand changed at a time."""
    matmul = {"a": BYTES, "sa": np.float32(0.5), "za": np.uint8(3), "b": WEIGHT, "sb": np.float32(0.25), "zb": np.int8(0),
              "sy": np.float32(1.7), "zy": np.uint8(7)}
    conv = {"x": IMAGE, "sx": np.float32(0.5), "zx": np.uint8(3), "w": KERNEL, "sw": np.float32(0.25), "zw": np.int8(0),
            "sy": np.float32(1.7), "zy": np.uint8(7)}
    for op, feeds, first, second in (("QLinearMatMul", matmul, "a", "b"), ("QLinearConv", conv, "x", "w")):
        changes = {
            "good": ({}, "ok"), "weight_scale_count": ({f"s{second}": scales(3)}, "error"),
            "weight_scale_rank": ({f"s{second}": scales(2, 2)}, "error"),
            "weight_zero_count": ({f"z{second}": np.zeros(3, "int8")}, "error"),
            "data_scale_vector": ({f"s{first}": scales(7)}, "error"), "result_scale_vector": ({"sy": scales(7)}, "error"),
            "result_zero_float": ({"zy": np.float32(0)}, "error"), "result_zero_count": ({"zy": np.zeros(9, "uint8")}, "error"),
            "data_zero_type": ({f"z{first}": np.int8(0)}, "error"), "data_floats": ({first: f32(*feeds[first].shape)}, "error"),
            "scale_integer": ({f"s{first}": np.int32(1)}, "error"), "scale_zero": ({"sy": np.float32(0)}, "either"),
            "scale_nan": ({f"s{second}": np.float32(np.nan)}, "either"),
            "weight_rank": ({second: np.zeros(4, "int8")}, "error" if op == "QLinearConv" else "either"),
            "weight_empty": ({second: np.zeros((0,) + feeds[second].shape[1:], "int8")}, "error"),
            "data_empty_zero": ({f"z{first}": np.zeros(0, "uint8")}, "error"),
        }
        for name, (change, want) in changes.items():
            given = {**feeds, **change}
            for held, constants in (("constant", tuple(key for key in given if key != first)), ("input", ())):
                yield one(f"qdq_{op.lower()}_{name}_{held}", op, given, want, constants)
    for name, zero, want in (("count", np.zeros(5, "uint8"), "error"), ("rank", np.zeros((3, 4), "uint8"), "error"),
                             ("rows", np.zeros((3, 1), "uint8"), "either"), ("type", np.int8(0), "error")):
        yield one(f"qdq_matmulinteger_zero_{name}", "MatMulInteger", {"a": BYTES, "b": WEIGHT, "za": zero}, want)
        yield one(f"qdq_convinteger_zero_{name}", "ConvInteger", {"x": IMAGE, "w": KERNEL, "zx": zero},
                  "error" if name == "rows" else want)
    yield one("qdq_dynamicquantize_integers", "DynamicQuantizeLinear", {"x": BYTES}, "error", outputs=3)
    yield one("qdq_dynamicquantize_nan", "DynamicQuantizeLinear", {"x": np.full((2, 2), np.nan, "float32")}, "either", outputs=3,
              expected=[])
    yield one("qdq_dynamicquantize_nothing", "DynamicQuantizeLinear", {"x": f32(0, 3)}, "either", outputs=3)


def packed_cases():
    """Tensors of less than a byte whose data has the wrong length."""
    for name, data_type, count, length, want in (
            ("int4", TensorProto.INT4, 5, 3, "ok"), ("int4_short", TensorProto.INT4, 5, 2, "error"),
            ("int4_long", TensorProto.INT4, 5, 5, "error"), ("uint4_none", TensorProto.UINT4, 5, 0, "error"),
            ("float8_short", TensorProto.FLOAT8E4M3FN, 5, 4, "error")):
        weight = TensorProto(name="w", data_type=data_type, dims=[count], raw_data=b"\1" * length)
        made = model([node("DequantizeLinear", ["w", "s"], ["d"]), node("Add", ["d", "x"], ["y"])],
                     [info("x", "float32", [count])], ["y"], [weight, tensor(np.float32(1), "s")])
        yield Case("qdq_packed_" + name, made.SerializeToString(), want, {"x": f32(count)}, [] if want == "ok" else None)


def contrib(name, op, feeds, want, constants=(), outputs=1, **attributes):
    return one(f"contrib_{op.lower()}_{name}", op, feeds, want, constants, outputs, domain="com.microsoft", expected=[], **attributes)


def block_cases():
    """MatMulNBits, whose weight is bytes that attributes describe."""
    def made(name, want, packed=(8, 2, 8), scale=(16,), zero=None, x=(2, 32), held=("b", "s", "z"), **attributes):
        feeds = {"a": f32(*x), "b": np.full(packed, 7, "uint8"), "s": scales(*scale)}
        if zero is not None:
            feeds["z"] = zero
        return contrib(name, "MatMulNBits", feeds, want, held, **{"K": 32, "N": 8, "bits": 4, "block_size": 16, **attributes})

    yield made("good", "ok")
    for held, constants in (("", ("b", "s", "z")), ("_input", ())):
        for name, attributes in {"K_0": {"K": 0}, "K_negative": {"K": -32}, "K_huge": {"K": 1 << 62}, "K_other": {"K": 48},
                                 "N_0": {"N": 0}, "N_huge": {"N": 1 << 62}, "N_other": {"N": 9}, "bits_0": {"bits": 0},
                                 "bits_33": {"bits": 33}, "bits_negative": {"bits": -4}, "bits_3": {"bits": 3},
                                 "block_0": {"block_size": 0}, "block_17": {"block_size": 17}, "block_huge": {"block_size": 1 << 62},
                                 "block_negative": {"block_size": -16}}.items():
            yield made(name + held, "error", held=constants, **attributes)
        yield made("weight_rank" + held, "either", packed=(128,), held=constants)
        yield made("weight_short" + held, "error", packed=(8, 2, 7), held=constants)
        yield made("weight_empty" + held, "error", packed=(8, 0, 8), held=constants)
        yield made("scale_count" + held, "error", scale=(15,), held=constants)
        yield made("zero_count" + held, "error", zero=np.zeros(3, "uint8"), held=constants)
        yield made("zero_float" + held, "error", zero=np.zeros(5, "float32"), held=constants)
        yield made("data_columns" + held, "error", x=(2, 31), held=constants)
        yield made("data_scalar" + held, "error", x=(), held=constants)


def quantised_cases():
    """All of them."""
    yield from linear_cases()
    yield from product_cases()
    yield from packed_cases()
    yield from block_cases()
