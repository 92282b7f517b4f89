# SPDX-License-Identifier: Apache-2.0
"""Operators of com.microsoft whose attributes and operands contradict each other."""
import numpy as np

from .base import f32
from .quantised import contrib

HUGE = (0, -1, 3, 1 << 40, 1 << 62, -(1 << 63))


def attention_cases():
    x, w, b = f32(2, 3, 8), f32(8, 24), f32(24)
    for heads in HUGE:
        yield contrib(f"heads_{heads}", "Attention", {"x": x, "w": w, "b": b}, "error", ("w", "b"), num_heads=heads)
        yield contrib(f"heads_{heads}", "MultiHeadAttention", {"q": x, "k": x, "v": x}, "error", num_heads=heads)
        yield contrib(f"heads_{heads}", "GroupQueryAttention", {
            "q": x, "k": x, "v": x, "pk": f32(2, 2, 4, 4), "pv": f32(2, 2, 4, 4), "lens": np.array([3, 3], "int32"),
            "total": np.int32(4)}, "error", outputs=3, num_heads=heads, kv_num_heads=2)
    good = {"x": x, "w": w, "b": b}
    for name, change in {"weight_rank": {"w": f32(8, 3, 8)}, "weight_rows": {"w": f32(7, 24)}, "weight_columns": {"w": f32(8, 25)},
                         "bias_count": {"b": f32(23)}, "bias_rank": {"b": f32(1, 24)}, "data_rank": {"x": f32(6, 8)},
                         "data_integers": {"x": np.zeros((2, 3, 8), "int32")},
                         "mask_rank_5": {"m": np.zeros((1, 1, 1, 1, 1), "int32")},
                         "mask_size": {"m": np.zeros((2, 99), "int32")}, "mask_count": {"m": np.zeros(7, "int32")}}.items():
        yield contrib(name, "Attention", {**good, **change}, "either" if name == "bias_rank" else "error", num_heads=2)
    for sizes in ([8, 8], [8, 8, -8], [8, 8, 9], [1 << 62, 1 << 62, 8], [0, 0, 24]):
        yield contrib(f"qkv_{'_'.join(map(str, sizes))}", "Attention", good, "error", num_heads=2, qkv_hidden_sizes=sizes)
    for name, change in {"key_rows": {"k": f32(2, 5, 8)}, "key_batch": {"k": f32(3, 3, 8)}, "value_columns": {"v": f32(2, 3, 7)},
                         "key_rank": {"k": f32(2, 3)}, "bias": {"b": f32(7)}, "key_columns": {"k": f32(2, 3, 6)}}.items():
        yield contrib(name, "MultiHeadAttention", {"q": x, "k": x, "v": x, **change}, "error", num_heads=2)
    for lengths in ([99, 3], [-5, 3], [(1 << 31) - 1, 0]):
        for total in (4, -1, 1 << 20):
            yield contrib(f"lengths_{lengths[0]}_total_{total}", "GroupQueryAttention", {
                "q": f32(2, 1, 8), "k": f32(2, 1, 4), "v": f32(2, 1, 4), "pk": f32(2, 1, 4, 4), "pv": f32(2, 1, 4, 4),
                "lens": np.array(lengths, "int32"), "total": np.int32(total)}, "either" if total > 4 else "error", outputs=3,
                num_heads=2, kv_num_heads=1)
    for position in (-1, 99, 1 << 40, -(1 << 63)):
        yield contrib(f"position_{position}", "RotaryEmbedding", {
            "x": f32(1, 2, 8), "p": np.array([[0, position]], "int64"), "c": f32(4, 4), "s": f32(4, 4)}, "error")
    for name, cos, sin in (("cache_rank", f32(16), f32(16)), ("cache_sizes", f32(4, 4), f32(4, 3)), ("cache_width", f32(4, 9), f32(4, 9)),
                           ("cache_empty", f32(0, 4), f32(0, 4))):
        yield contrib(name, "RotaryEmbedding", {"x": f32(1, 2, 8), "p": np.zeros((1, 2), "int64"), "c": cos, "s": sin}, "error")
    for heads, dims in ((3, 4), (-1, 4), (2, 99), (1 << 62, 2), (2, -2)):
        yield contrib(f"rotary_{heads}_{dims}", "RotaryEmbedding", {
            "x": f32(1, 2, 8), "p": np.zeros((1, 2), "int64"), "c": f32(4, 2), "s": f32(4, 2)}, "error", num_heads=heads,
            rotary_embedding_dim=dims)


def embedding_cases():
    ids = np.array([[0, 1, 2]], "int32")
    good = {"ids": ids, "seg": np.zeros((1, 3), "int32"), "we": f32(5, 4), "pe": f32(6, 4), "se": f32(2, 4), "g": f32(4), "b": f32(4)}
    for name, change in {"id_beyond": {"ids": np.array([[0, 5, 1]], "int32")}, "id_negative": {"ids": np.array([[0, -9, 1]], "int32")},
                         "segment_beyond": {"seg": np.array([[0, 2, 0]], "int32")}, "segment_shape": {"seg": np.zeros((1, 2), "int32")},
                         "too_few_positions": {"pe": f32(2, 4)}, "widths_differ": {"pe": f32(6, 3)}, "gamma_count": {"g": f32(5)},
                         "ids_float": {"ids": f32(1, 3)}, "ids_rank": {"ids": np.zeros((1, 1, 3), "int32")},
                         "table_rank": {"we": f32(20)}, "table_empty": {"we": f32(0, 4)}}.items():
        yield contrib(name, "EmbedLayerNormalization", {**good, **change}, "error", outputs=2)
    for name, change in {"gamma_count": {"g": f32(3)}, "gamma_rank": {"g": f32(2, 2)}, "skip_shape": {"s": f32(2, 5)},
                         "beta_count": {"b": f32(9)}}.items():
        yield contrib(name, "SkipLayerNormalization", {"x": f32(1, 2, 4), "s": f32(1, 2, 4), "g": f32(4), "b": f32(4), **change}, "error")
    for name, bias in (("bias_count", f32(3)), ("bias_rank", f32(1, 4))):
        yield contrib(name, "BiasGelu", {"x": f32(2, 4), "b": bias}, "error" if name == "bias_count" else "either")
    yield contrib("bias_count", "FastGelu", {"x": f32(2, 4), "b": f32(3)}, "error")
    for activation in ("Relu", "Nothing", "", "a" * 5000):
        yield contrib(f"activation_{len(activation)}_{activation[:4]}", "FusedConv", {"x": f32(1, 2, 4, 4), "w": f32(2, 2, 3, 3)},
                      {"Relu": "ok", "": "either"}.get(activation, "error"), activation=activation)
    for activation in ("Relu", "Nothing"):
        yield contrib(f"activation_{activation}", "FusedGemm", {"a": f32(2, 3), "b": f32(3, 2)},
                      "ok" if activation == "Relu" else "error", activation=activation)
    for alpha in (float("nan"), float("inf")):
        yield contrib(f"alpha_{alpha}", "FusedMatMul", {"a": f32(2, 3), "b": f32(3, 2)}, "either", alpha=alpha)
    for name, a, b, more in (("inner", f32(2, 3), f32(4, 2), {}), ("batch_transposed", f32(2, 3), f32(3, 2), {"transBatchA": 1}),
                             ("transposed_inner", f32(2, 3), f32(3, 2), {"transA": 1}), ("scalar", f32(), f32(3, 2), {})):
        yield contrib(name, "FusedMatMul", {"a": a, "b": b}, "either" if name == "batch_transposed" else "error", **more)


def byte_cases():
    x = np.arange(16, dtype="uint8").reshape(1, 2, 8)
    one, zero = np.float32(0.5), np.uint8(3)
    for op in ("QLinearAdd", "QLinearMul"):
        good = {"a": x, "sa": one, "za": zero, "b": x, "sb": one, "zb": zero, "sc": one, "zc": zero}
        for name, change in {"shapes": {"b": np.zeros((1, 2, 7), "uint8")}, "scale_vector": {"sa": np.ones(8, "float32")},
                             "zero_type": {"zb": np.int8(0)}, "floats": {"a": f32(1, 2, 8)}, "scale_integer": {"sc": np.int32(1)},
                             "zero_empty": {"zc": np.zeros(0, "uint8")}}.items():
            yield contrib(name, op, {**good, **change}, "error")
    for op in ("QLinearSigmoid", "QLinearLeakyRelu"):
        for name, change in {"scale_vector": {"s": np.ones(8, "float32")}, "zero_type": {"z": np.int8(0)}, "floats": {"x": f32(2, 2)}}.items():
            yield contrib(name, op, {"x": x, "s": one, "z": zero, "t": one, "u": zero, **change}, "error")
    for axis in (3, -4, 1 << 40):
        yield contrib(f"axis_{axis}", "QLinearSoftmax", {"x": x, "s": one, "z": zero, "t": one, "u": zero}, "error", axis=axis,
                      opset=13)
        yield contrib(f"axis_{axis}", "QLinearConcat", {"s": one, "z": zero, "a": x, "sa": one, "za": zero}, "error", axis=axis)
    yield contrib("half_an_operand", "QLinearConcat", {"s": one, "z": zero, "a": x, "sa": one}, "error", axis=1)
    for k in (0, -3, 1 << 40):
        yield contrib(f"blocks_{k}", "GatherBlockQuantized", {"d": np.zeros((4, 16), "uint8"), "i": np.zeros(2, "int64"), "s": f32(4, 1)},
                      "error", block_size=k)
    for index in (4, -5, 1 << 40):
        yield contrib(f"index_{index}", "GatherBlockQuantized", {
            "d": np.zeros((4, 16), "uint8"), "i": np.array([index], "int64"), "s": f32(4, 1)}, "error", block_size=32)


def contrib_cases():
    """All of them."""
    yield from attention_cases()
    yield from embedding_cases()
    yield from byte_cases()
