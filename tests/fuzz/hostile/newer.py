# SPDX-License-Identifier: Apache-2.0
"""Operators of opsets 23 to 28, of training and previews, and some that models seldom have."""
import numpy as np
from onnx import TensorProto, helper

from .base import Case, f32, graph, i64, info, model, node, one

HUGE = 1 << 62


def new(name, op, feeds, want, opset=28, **more):
    yield one(f"new_{op.lower()}_{name}", op, feeds, want, opset=opset, **more)


def attention_cases():
    q = f32(2, 4, 3, 8)
    good = {"q": q, "k": q, "v": q}
    yield from new("good", "Attention", good, "ok")
    flat = {"q": f32(2, 3, 32), "k": f32(2, 3, 32), "v": f32(2, 3, 32)}
    yield from new("flat", "Attention", flat, "ok", q_num_heads=4, kv_num_heads=4)
    for heads in (0, -1, 5, HUGE, -(1 << 63)):
        yield from new(f"q_heads_{heads}", "Attention", flat, "error", q_num_heads=heads, kv_num_heads=4)
        yield from new(f"kv_heads_{heads}", "Attention", flat, "error", q_num_heads=4, kv_num_heads=heads)
    yield from new("heads_missing", "Attention", flat, "error")
    yield from new("heads_of_rank_4", "Attention", good, "either", q_num_heads=3, kv_num_heads=3)
    for name, change in {"key_width": {"k": f32(2, 4, 3, 7)}, "key_batch": {"k": f32(3, 4, 3, 8)}, "key_heads": {"k": f32(2, 3, 3, 8), "v": f32(2, 3, 3, 8)},
                         "value_rows": {"v": f32(2, 4, 5, 8)}, "value_heads": {"v": f32(2, 2, 3, 8)}, "rank_2": {"q": f32(3, 8)},
                         "rank_5": {"q": f32(1, 2, 4, 3, 8)}, "ranks_differ": {"q": f32(2, 3, 32)}}.items():
        yield from new(name, "Attention", {**good, **change}, "error")
        # Any number of heads of values that divides that of queries has a meaning.
        want = "either" if name == "value_heads" else "error"
        yield from new(name + "_dynamic", "Attention", {**good, **change}, want, dynamic=True, expected=[])
    for name, mask in (("columns", f32(3, 5)), ("rows", f32(4, 3)), ("batch", f32(3, 1, 3, 3)), ("rank_5", f32(1, 2, 4, 3, 3))):
        yield from new(f"mask_{name}", "Attention", {**good, "m": mask}, "error")
    yield from new("mask_scalar", "Attention", {**good, "m": np.float32(1)}, "either")
    yield from new("mask_all_false", "Attention", {**good, "m": np.zeros((3, 3), bool)}, "either", expected=[])
    past = f32(2, 4, 2, 8)
    yield from new("past", "Attention", {**good, "m": None, "pk": past, "pv": past}, "ok", outputs=3)
    yield from new("past_key_alone", "Attention", {**good, "m": None, "pk": past}, "error", outputs=3)
    for name, pk, pv in (("width", f32(2, 4, 2, 7), past), ("batch", f32(1, 4, 2, 8), f32(1, 4, 2, 8)), ("heads", f32(2, 3, 2, 8), f32(2, 3, 2, 8)),
                         ("rank", f32(2, 2, 8), f32(2, 2, 8)), ("rows", past, f32(2, 4, 5, 8))):
        yield from new(f"past_{name}", "Attention", {**good, "m": None, "pk": pk, "pv": pv}, "error", outputs=3)
    for mode in (-1, 4, HUGE):
        yield from new(f"matmul_mode_{mode}", "Attention", good, "error", qk_matmul_output_mode=mode, outputs=4)
    for precision in (0, 6, 8, 99):
        yield from new(f"precision_{precision}", "Attention", good, "error", softmax_precision=precision)
    for name, attributes in {"scale_nan": {"scale": float("nan")}, "scale_infinite": {"scale": float("inf")}, "scale_negative": {"scale": -1.0},
                             "softcap_negative": {"softcap": -1.0}, "softcap_nan": {"softcap": float("nan")}, "causal_7": {"is_causal": 7}}.items():
        yield from new(name, "Attention", good, "either", expected=[], **attributes)
    for name, lengths in (("beyond", i64(3, 9)), ("negative", i64(3, -1)), ("count", i64(3, 3, 3)), ("rank", np.ones((2, 1), "int64")), ("huge", i64(HUGE, 3))):
        yield from new(f"lengths_{name}", "Attention", {**good, "m": None, "pk": None, "pv": None, "l": lengths}, "error")
    yield from new("lengths_0", "Attention", {**good, "m": None, "pk": None, "pv": None, "l": i64(0, 3)}, "either", expected=[])
    yield from new("lengths_and_past", "Attention", {**good, "m": None, "pk": past, "pv": past, "l": i64(3, 3)}, "either", outputs=3, expected=[])
    yield from new("window_negative", "Attention", good, "either", left_window_size=-7, expected=[])
    yield from new("of_integers", "Attention", {key: np.ones((1, 1, 2, 2), "int32") for key in "qkv"}, "error")
    yield from new("no_rows", "Attention", {"q": f32(2, 4, 0, 8), "k": q, "v": q}, "either", expected=[f32(2, 4, 0, 8)])
    yield from new("no_keys", "Attention", {"q": q, "k": f32(2, 4, 0, 8), "v": f32(2, 4, 0, 8)}, "either", expected=[])


def cache_cases():
    cache, update = f32(2, 3, 5, 4), f32(2, 3, 2, 4)
    yield from new("good", "TensorScatter", {"c": cache, "u": update, "w": i64(0, 3)}, "ok")
    for name, at in (("beyond", i64(0, 4)), ("negative", i64(-1, 0)), ("huge", i64(HUGE, 0)), ("wraps", i64((1 << 63) - 1, 0)), ("least", i64(-(1 << 63), 0))):
        yield from new(f"index_{name}", "TensorScatter", {"c": cache, "u": update, "w": at}, "error")
        yield from new(f"index_{name}_dynamic", "TensorScatter", {"c": cache, "u": update, "w": at}, "error", dynamic=True)
        want = "ok" if name == "beyond" else "either"
        expected = None if name == "beyond" else []
        yield from new(f"circular_{name}", "TensorScatter", {"c": cache, "u": update, "w": at}, want, mode="circular", expected=expected)
    for name, more in {"count": {"w": i64(0, 0, 0)}, "matrix": {"w": np.zeros((2, 1), "int64")}, "int32": {"w": np.zeros(2, "int32")},
                       "float": {"w": f32(2)}, "width": {"u": f32(2, 3, 2, 5)}, "rank": {"u": f32(2, 2, 4)}, "longer": {"u": f32(2, 3, 6, 4)},
                       "batch": {"u": f32(1, 3, 2, 4)}, "type": {"u": update.astype("float64")}}.items():
        yield from new(name, "TensorScatter", {"c": cache, "u": update, "w": i64(0, 0), **more}, "error")
    for axis in (0, -4, 4, HUGE):
        yield from new(f"axis_{axis}", "TensorScatter", {"c": cache, "u": update, "w": i64(0, 0)}, "error", axis=axis)
    yield from new("mode", "TensorScatter", {"c": cache, "u": update, "w": i64(0, 0)}, "error", mode="ring")
    yield from new("empty", "TensorScatter", {"c": cache, "u": f32(2, 3, 0, 4), "w": i64(0, 0)}, "either", expected=[cache])
    x, c, s = f32(1, 2, 3, 8), f32(5, 4), f32(5, 4)
    at = np.array([[0, 1, 4]])
    yield from new("good", "RotaryEmbedding", {"x": x, "c": c, "s": s, "p": at}, "ok")
    for position in (5, -1, HUGE, -(1 << 63)):
        yield from new(f"position_{position}", "RotaryEmbedding", {"x": x, "c": c, "s": s, "p": np.array([[0, 1, position]])}, "error")
    for name, more in {"cache_width": {"c": f32(5, 3), "s": f32(5, 3)}, "cache_differ": {"s": f32(5, 3)}, "cache_rank": {"c": f32(20), "s": f32(20)},
                       "positions_short": {"p": np.array([[0, 1]])}, "positions_rank": {"p": i64(0, 1, 2)}, "positions_batch": {"p": np.zeros((2, 3), "int64")},
                       "odd": {"x": f32(1, 2, 3, 7)}, "rank": {"x": f32(3, 8)}, "cache_without_positions": {"p": None}, "floats": {"p": f32(1, 3)}}.items():
        yield from new(name, "RotaryEmbedding", {"x": x, "c": c, "s": s, "p": at, **more}, "error")
    for name, more in {"dim_9": {"rotary_embedding_dim": 9}, "dim_3": {"rotary_embedding_dim": 3}, "dim_negative": {"rotary_embedding_dim": -2},
                       "dim_huge": {"rotary_embedding_dim": HUGE}}.items():
        yield from new(name, "RotaryEmbedding", {"x": x, "c": c, "s": s, "p": at}, "error", **more)
    for heads in (0, 3, -1, HUGE):
        yield from new(f"heads_{heads}", "RotaryEmbedding", {"x": f32(1, 3, 16), "c": c, "s": s, "p": at}, "error", num_heads=heads)


def state_cases():
    x, state = f32(1, 3, 8), f32(1, 2, 4, 4)
    good = {"q": x, "k": x, "v": x, "p": state}
    heads = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}
    yield from new("good", "LinearAttention", good, "ok", outputs=2, **heads)
    for name, more in {"q_0": {"q_num_heads": 0}, "kv_0": {"kv_num_heads": 0}, "q_3": {"q_num_heads": 3}, "kv_huge": {"kv_num_heads": HUGE}, "negative": {"q_num_heads": -2},
                       "rule": {"update_rule": "magic"}, "gated_alone": {"update_rule": "gated"}, "delta_alone": {"update_rule": "delta"}}.items():
        yield from new(name, "LinearAttention", good, "error", outputs=2, **{**heads, **more})
    for name, more in {"state_rank": {"p": f32(2, 4, 4)}, "state_width": {"p": f32(1, 2, 4, 5)}, "key_rows": {"k": f32(1, 4, 8)}, "value_batch": {"v": f32(2, 3, 8)},
                       "rank": {"q": f32(3, 8)}, "key_width": {"k": f32(1, 3, 6)}}.items():
        yield from new(name, "LinearAttention", {**good, **more}, "error", outputs=2, **heads)
    for chunk in (0, -1, HUGE):
        yield from new(f"chunk_{chunk}", "LinearAttention", good, "either", outputs=2, chunk_size=chunk, expected=[], **heads)
    x, w = f32(2, 3, 7), f32(3, 1, 4)
    yield from new("good", "CausalConvWithState", {"x": x, "w": w, "b": f32(3), "p": f32(2, 3, 3)}, "ok", outputs=2)
    for name, more in {"weight_channels": {"w": f32(2, 1, 4)}, "weight_groups": {"w": f32(3, 2, 4)}, "weight_rank": {"w": f32(3, 4)}, "bias": {"b": f32(4)},
                       "state_length": {"p": f32(2, 3, 4)}, "state_batch": {"p": f32(1, 3, 3)}, "rank": {"x": f32(3, 7)}, "kernel_empty": {"w": f32(3, 1, 0)},
                       "rank_4": {"x": f32(2, 3, 7, 1)}}.items():
        yield from new(name, "CausalConvWithState", {"x": x, "w": w, "b": f32(3), "p": f32(2, 3, 3), **more}, "error", outputs=2)
    yield from new("activation", "CausalConvWithState", {"x": x, "w": w}, "error", outputs=2, activation="tanh")
    q = f32(1, 2, 3, 4)
    flex = {"q": q, "k": q, "v": q}
    scores = info("s", "float32", None)

    def modifier(*nodes, result="r", inputs=(scores,)):
        return graph(nodes, list(inputs), [result])

    for name, change, want in (("good", modifier(node("Neg", ["s"], ["r"])), "ok"), ("sum", modifier(node("ReduceSum", ["s"], ["r"])), "error"),
                               ("type", modifier(node("Cast", ["s"], ["r"], to=7)), "error"), ("transposed", modifier(node("Transpose", ["s"], ["r"])), "error"),
                               ("two_inputs", modifier(node("Add", ["s", "t"], ["r"]), inputs=(scores, info("t", "float32", None))), "error"),
                               ("no_inputs", graph([node("Constant", [], ["r"], value_float=1.0)], [], ["r"]), "error"),
                               ("itself", modifier(node("Add", ["r", "s"], ["r"])), "error")):
        yield one(f"new_flexattention_{name}", "FlexAttention", flex, want, opset=27, domain="ai.onnx.preview", score_mod=change)
    for name, more in {"heads": {"k": f32(1, 3, 3, 4), "v": f32(1, 3, 3, 4)}, "width": {"k": f32(1, 2, 3, 5)}, "rank": {"q": f32(2, 3, 4)}, "batch": {"v": f32(2, 2, 3, 4)}}.items():
        yield one(f"new_flexattention_{name}", "FlexAttention", {**flex, **more}, "error", opset=27, domain="ai.onnx.preview")


def element_cases():
    for to, want in ((TensorProto.INT32, "ok"), (TensorProto.DOUBLE, "error"), (TensorProto.INT64, "error"), (TensorProto.INT8, "error"), (TensorProto.STRING, "error"),
                     (TensorProto.BOOL, "error"), (0, "error"), (99, "error"), (-1, "error"), (HUGE, "error")):
        yield from new(f"to_{to}", "BitCast", {"x": f32(2, 3)}, want, to=to)
    yield from new("of_string", "BitCast", {"x": np.array(["a"], object)}, "error", to=TensorProto.INT32)
    yield from new("no_type", "BitCast", {"x": f32(2)}, "error")
    for axis in (2, -3, HUGE):
        yield from new(f"axis_{axis}", "CumProd", {"x": f32(2, 3), "a": np.array(axis)}, "error")
        yield from new(f"axis_{axis}_constant", "CumProd", {"x": f32(2, 3), "a": np.array(axis)}, "error", constants=("a",))
    yield from new("shapes", "SwiGLU", {"a": f32(2, 3), "b": f32(1, 3)}, "error")
    yield from new("shapes_dynamic", "SwiGLU", {"a": f32(2, 3), "b": f32(1, 3)}, "error", dynamic=True)
    yield from new("alpha_nan", "Swish", {"x": f32(3)}, "either", alpha=float("nan"), expected=[])
    for axis in (3, -3, HUGE):
        yield from new(f"axis_{axis}", "RMSNormalization", {"x": f32(2, 4), "s": f32(4)}, "error", axis=axis)
    for name, scale in (("long", f32(5)), ("rank", f32(2, 2, 4)), ("rows", f32(3, 4))):
        yield from new(f"scale_{name}", "RMSNormalization", {"x": f32(2, 4), "s": scale}, "error")
    yield from new("stash_0", "RMSNormalization", {"x": f32(2, 4), "s": f32(4)}, "error", stash_type=0)
    yield from new("approximation", "Gelu", {"x": f32(3)}, "error", approximate="exact")
    for name, ratio in (("1", 1.0), ("2", 2.0), ("negative", -0.5), ("nan", np.nan)):
        yield from new(f"ratio_{name}", "Dropout", {"x": f32(3), "r": np.float32(ratio), "t": np.array(True)}, "either" if name in ("1", "nan") else "error",
                       opset=22, expected=[])
    for name, x in (("flat", f32(4)), ("oblong", f32(2, 3)), ("scalar", np.float32(1))):
        yield from new(name, "Det", {"x": x}, "error", opset=22)
    yield from new("oblong_dynamic", "Det", {"x": f32(2, 3)}, "error", opset=22, dynamic=True)
    yield from new("empty", "Det", {"x": f32(2, 0, 0)}, "either", opset=22, expected=[np.ones(2, "float32")])
    x = f32(1, 2, 6, 6)
    for name, rois, more in (("batch_beyond", [[1, 0, 0, 3, 3]], {}), ("batch_negative", [[-1, 0, 0, 3, 3]], {}), ("batch_nan", [[np.nan, 0, 0, 3, 3]], {}),
                             ("batch_huge", [[1e30, 0, 0, 3, 3]], {}), ("shape_0", [[0, 0, 0, 3, 3]], {"pooled_shape": [0, 2]}),
                             ("shape_negative", [[0, 0, 0, 3, 3]], {"pooled_shape": [-1, 2]}), ("shape_huge", [[0, 0, 0, 3, 3]], {"pooled_shape": [HUGE, HUGE]}),
                             ("shape_rank", [[0, 0, 0, 3, 3]], {"pooled_shape": [2]}), ("four", [[0, 0, 3, 3]], {})):
        yield from new(name, "MaxRoiPool", {"x": x, "r": np.array(rois, "float32")}, "error", opset=22, **{"pooled_shape": [2, 2], **more})
    for name, rois, scale in (("far", [[0, 1e9, 1e9, 2e9, 2e9]], 1.0), ("crossed", [[0, 4, 4, 1, 1]], 1.0), ("nan", [[0, np.nan, 0, 3, 3]], 1.0),
                              ("infinite", [[0, -np.inf, 0, np.inf, 3]], 1.0), ("scale_nan", [[0, 0, 0, 3, 3]], float("nan")), ("scale_0", [[0, 0, 0, 3, 3]], 0.0),
                              ("scale_negative", [[0, 0, 0, 3, 3]], -1.0)):
        yield from new(name, "MaxRoiPool", {"x": x, "r": np.array(rois, "float32")}, "either", opset=22, pooled_shape=[2, 2], spatial_scale=scale, expected=[])
    for value in (np.nan, np.inf, -np.inf, 1e30, -1e30):
        for mode in ("linear", "nearest", "cubic"):
            for padding in ("zeros", "border", "reflection"):
                yield from new(f"{mode}_{padding}_{value}", "GridSample", {"x": f32(1, 1, 3, 3), "g": np.full((1, 2, 2, 2), value, "float32")}, "either", opset=22,
                               mode=mode, padding_mode=padding, expected=[])
    w, offset = f32(2, 2, 3, 3), f32(1, 18, 4, 4)
    for name, more, attributes in (("offset_channels", {"o": f32(1, 16, 4, 4)}, {}), ("offset_size", {"o": f32(1, 18, 3, 4)}, {}), ("mask_channels", {"m": f32(1, 8, 4, 4)}, {}),
                                   ("bias", {"b": f32(3)}, {}), ("group_3", {}, {"group": 3}), ("offset_group_0", {}, {"offset_group": 0}),
                                   ("offset_group_huge", {}, {"offset_group": HUGE}), ("strides", {}, {"strides": [0, 1]}), ("pads", {}, {"pads": [HUGE] * 4})):
        yield from new(name, "DeformConv", {"x": f32(1, 2, 6, 6), "w": w, "o": offset, "b": None, "m": None, **more}, "error", opset=22, **attributes)
    for value in (np.nan, np.inf, 1e30, -1e30):
        yield from new(f"offset_{value}", "DeformConv", {"x": f32(1, 2, 6, 6), "w": w, "o": np.full((1, 18, 4, 4), value, "float32")}, "either", opset=22, expected=[])


def random_cases():
    for op in ("RandomNormal", "RandomUniform"):
        for name, shape in (("negative", [2, -1]), ("huge", [HUGE, HUGE]), ("4_tib", [1 << 20, 1 << 20]), ("rank_99", [1] * 99)):
            yield from new(f"shape_{name}", op, {}, "error", opset=22, shape=shape)
        for dtype in (0, 7, 8, 99):
            yield from new(f"dtype_{dtype}", op, {}, "error", opset=22, shape=[2], dtype=dtype)
        yield from new("no_shape", op, {}, "error", opset=22)
    yield from new("crossed", "RandomUniform", {}, "either", opset=22, shape=[2], low=5.0, high=-5.0, expected=[])
    yield from new("nan", "RandomUniform", {}, "either", opset=22, shape=[2], low=float("nan"), expected=[])
    yield from new("scale_negative", "RandomNormal", {}, "either", opset=22, shape=[2], scale=-1.0, expected=[])
    yield from new("of_integers", "RandomNormalLike", {"x": i64(1, 2)}, "error", opset=22)
    for count in (0, HUGE):
        yield from new(f"count_{count}", "Multinomial", {"x": f32(1, 3)}, "either" if count == 0 else "error", opset=22, sample_size=count, expected=[])
    for name, x in (("nan", np.full((1, 3), np.nan, "float32")), ("infinite", np.full((1, 3), np.inf, "float32")), ("none", f32(1, 0))):
        yield from new(name, "Multinomial", {"x": x}, "either", opset=22, sample_size=2, expected=[])
    for name, data in (("empty", b""), ("text", b"hello"), ("png_cut", b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR"),
                       ("png_huge", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x02\0\0\0\0\0\0\0"),
                       ("bmp_huge", b"BM" + bytes(12) + b"\x28\0\0\0" + b"\xff\xff\xff\x7f" * 2 + b"\1\0\x18\0" + bytes(24)),
                       ("bmp_negative", b"BM" + bytes(12) + b"\x28\0\0\0" + b"\0\0\0\x80" * 2 + b"\1\0\x18\0" + bytes(24)),
                       ("ppm_huge", b"P6 999999999 999999999 255\n"), ("ppm_cut", b"P6 4 4 255\nabc"), ("ppm_maximum", b"P6 1 1 0\nabc"), ("pgm_words", b"P2 2 2 255\n1 x 3 4")):
        yield from new(name, "ImageDecoder", {"x": np.frombuffer(data, "uint8")}, "either", opset=22, expected=[])
    yield from new("format", "ImageDecoder", {"x": np.zeros(9, "uint8")}, "error", opset=22, pixel_format="CMYK")
    boxes, scores = f32(1, 3, 4), f32(1, 1, 3)
    for name, more, attributes in (("boxes_of_5", {"b": f32(1, 3, 5)}, {}), ("scores_count", {"s": f32(1, 1, 4)}, {}), ("batch", {"s": f32(2, 1, 3)}, {}),
                                   ("boxes_rank", {"b": f32(3, 4)}, {}), ("scores_rank", {"s": f32(1, 3)}, {}), ("center_2", {}, {"center_point_box": 2}),
                                   ("count_float", {"n": np.float32(1)}, {}), ("count_two", {"n": i64(1, 2)}, {})):
        yield from new(name, "NonMaxSuppression", {"b": boxes, "s": scores, "n": np.int64(2), **more}, "error", opset=11, **attributes)
    for name, more in {"iou_nan": {"i": np.float32(np.nan)}, "iou_2": {"i": np.float32(2)}, "count_huge": {"n": np.int64(HUGE)}, "boxes_nan": {"b": np.full((1, 3, 4), np.nan, "float32")},
                       "none": {"b": f32(1, 0, 4), "s": f32(1, 1, 0)}}.items():
        yield from new(name, "NonMaxSuppression", {"b": boxes, "s": scores, "n": np.int64(2), "i": None, **more}, "either", opset=11, expected=[])


def training_cases():
    r, t, x = np.float32(0.1), np.int64(0), f32(3)

    def step(name, op, operands, want, outputs=2, **attributes):
        feeds = {f"a{i}": value for i, value in enumerate((r, t, *operands))}
        yield one(f"new_{op.lower()}_{name}", op, feeds, want, outputs=outputs, opset=21, domain="ai.onnx.preview.training", **attributes)

    yield from step("two_of_three", "Adagrad", (x, x), "error", norm_coefficient=0.0)
    yield from step("shapes", "Adagrad", (x, f32(4), x), "error")
    yield from step("nothing", "Adagrad", (), "error", 1)
    yield from step("three_of_four", "Adam", (x, x, x), "error", 3)
    yield from step("shapes", "Adam", (x, x, f32(2), x), "error", 3)
    yield from step("mode", "Momentum", (x, x, x), "error", alpha=0.9, beta=0.1, norm_coefficient=0.0, mode="fast")
    yield from step("no_mode", "Momentum", (x, x, x), "error", alpha=0.9, beta=0.1, norm_coefficient=0.0)
    yield from step("outputs", "Momentum", (x, x, x), "error", 5, alpha=0.9, beta=0.1, norm_coefficient=0.0, mode="standard")
    for name, want, attributes in (("of_nothing", "error", {"xs": ["nowhere"], "y": "h"}), ("to_nothing", "error", {"xs": ["x"], "y": "nowhere"}),
                                   ("of_itself", "error", {"xs": ["x"], "y": "d"}), ("no_y", "error", {"xs": ["x"]}), ("no_xs", "error", {"xs": [], "y": "h"})):
        nodes = [node("Mul", ["x", "x"], ["h"]), helper.make_node("Gradient", ["x"], ["d"], domain="ai.onnx.preview.training", **{
            key: value for key, value in attributes.items() if value != []})]
        yield Case(f"new_gradient_{name}", model(nodes, [info("x", "float32", [3])], ["d"], opsets={"": 21, "ai.onnx.preview.training": 1}).SerializeToString(), want,
                   {"x": x})


def newer_cases():
    """All of them."""
    yield from attention_cases()
    yield from cache_cases()
    yield from state_cases()
    yield from element_cases()
    yield from random_cases()
    yield from training_cases()
