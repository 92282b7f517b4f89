# SPDX-License-Identifier: Apache-2.0
"""Attributes out of range, of another type, and operands that contradict them."""
import numpy as np

from .base import f32, graph, i64, node, one, tensor

IMAGE, KERNEL = f32(1, 4, 6, 6), f32(4, 4, 3, 3)
BIG = 1 << 62


def conv(name, want, x=IMAGE, w=KERNEL, b=None, op="Conv", **attributes):
    feeds = {"x": x, "w": w, **({} if b is None else {"b": b})}
    yield one(f"attr_{op.lower()}_{name}", op, feeds, want, constants=("w", "b"), **attributes)
    yield one(f"attr_{op.lower()}_{name}_dynamic", op, feeds, want, constants=("w", "b"),
              dynamic={"x": ["n", 4, "h", "w"]}, **attributes)


def window_cases():
    for op in ("Conv", "ConvTranspose"):
        yield from conv("good", "ok", op=op, pads=[1, 1, 1, 1])
        for name, strides in {"zero": [0, 0], "negative": [-1, 1], "one": [1], "three": [1, 1, 1],
                              "smallest": [-(1 << 63), 1]}.items():
            yield from conv(f"strides_{name}", "error", op=op, strides=strides)
        for name, dilations in {"zero": [0, 1], "negative": [1, -1], "huge": [BIG, BIG]}.items():
            yield from conv(f"dilations_{name}", "error", op=op, dilations=dilations)
        for name, group in {"zero": 0, "negative": -1, "three": 3, "huge": BIG}.items():
            yield from conv(f"group_{name}", "error", op=op, group=group)
        for name, pads in {"three": [1, 1, 1], "wraps": [BIG, BIG, BIG, BIG],
                           "largest": [(1 << 63) - 1, 0, (1 << 63) - 1, 0]}.items():
            yield from conv(f"pads_{name}", "error", op=op, pads=pads)
        yield from conv("kernel_shape_other", "error", op=op, kernel_shape=[5, 5])
        yield from conv("kernel_shape_rank", "error", op=op, kernel_shape=[3])
        yield from conv("auto_pad_unknown", "error", op=op, auto_pad="SAME")
        yield from conv("bias_of_5", "error", op=op, b=f32(5))
        yield from conv("channels", "error", op=op, w=f32(5, 3, 3, 3))
        yield from conv("rank", "error", op=op, w=f32(4, 4, 3))
        yield from conv("kernel_empty", "error", op=op, w=f32(4, 4, 0, 3))
    yield from conv("pads_negative", "either", pads=[-1, -1, -1, -1])
    yield from conv("pads_eat_all", "error", pads=[-9, -9, -9, -9])
    yield from conv("strides_huge", "either", strides=[BIG, BIG])
    yield from conv("kernel_larger_than_image", "error", w=f32(4, 4, 9, 9))
    yield from conv("output_padding_stride", "either", op="ConvTranspose", output_padding=[5, 5])
    yield from conv("output_padding_negative", "error", op="ConvTranspose", output_padding=[-3, 0], strides=[2, 2])
    yield from conv("output_shape_negative", "error", op="ConvTranspose", output_shape=[-4, -4])
    for op in ("MaxPool", "AveragePool", "LpPool"):
        for name, attributes in {
                "strides_zero": {"strides": [0, 1]}, "strides_negative": {"strides": [-2, 1]},
                "dilations_zero": {"dilations": [0, 0]}, "kernel_zero": {"kernel_shape": [0, 0]},
                "kernel_negative": {"kernel_shape": [-3, 3]}, "kernel_rank": {"kernel_shape": [3]},
                "kernel_beyond": {"kernel_shape": [9, 9]}, "pads_wrap": {"pads": [BIG, BIG, BIG, BIG]},
                "pads_count": {"pads": [1, 1]}, "auto_pad": {"auto_pad": "ALL"}}.items():
            yield one(f"attr_{op.lower()}_{name}", op, {"x": IMAGE}, "error", **{"kernel_shape": [3, 3], **attributes})
    yield one("attr_maxpool_no_kernel", "MaxPool", {"x": IMAGE}, "error")
    yield one("attr_maxpool_of_vector", "MaxPool", {"x": f32(4)}, "error", kernel_shape=[2])
    yield one("attr_globalpool_of_scalar", "GlobalAveragePool", {"x": np.float32(3)}, "error")


def recurrent_cases():
    sizes = {"LSTM": 4, "GRU": 3, "RNN": 1}
    for op, gates in sizes.items():
        x, w, r, b = f32(3, 2, 5), f32(1, gates * 4, 5), f32(1, gates * 4, 4), f32(1, gates * 8)
        dynamic_shapes = {"x": ["t", "n", 5], "h": [1, "n", 4], "c": [1, "n", 4], "lens": ["n"]}
        feeds = {"x": x, "w": w, "r": r, "b": b, "lens": None, "h": f32(1, 2, 4), "c": f32(1, 2, 4)}
        if op != "LSTM":
            del feeds["c"]
        changes = {
            "good": {}, "w_gates": {"w": f32(1, gates * 4 + 1, 5)}, "w_input": {"w": f32(1, gates * 4, 6)},
            "w_directions": {"w": f32(2, gates * 4, 5)}, "r_hidden": {"r": f32(1, gates * 4, 3)},
            "r_gates": {"r": f32(1, gates * 5, 4)}, "r_rank": {"r": f32(gates * 4, 4)}, "b_size": {"b": f32(1, gates * 4)},
            "b_rank": {"b": f32(gates * 8)}, "h_batch": {"h": f32(1, 3, 4)}, "h_hidden": {"h": f32(1, 2, 5)},
            "h_rank": {"h": f32(2, 4)}, "h_directions": {"h": f32(2, 2, 4)}, "x_rank": {"x": f32(3, 10)},
            "h_one_row": {"h": f32(1, 1, 4)}, "lens_count": {"lens": np.array([3, 3, 3], "int32")},
            "lens_rank": {"lens": np.array([[3, 3]], "int32")}, "w_empty": {"w": f32(1, 0, 5)},
        }
        if op == "LSTM":
            changes.update({"c_batch": {"c": f32(1, 1, 4)}, "c_hidden": {"c": f32(1, 2, 3)}, "c_rank": {"c": f32(8)},
                            "p_size": {"p": f32(1, 4)}})
        for name, change in changes.items():
            given = {**feeds, **change}
            want = "ok" if name == "good" else "error"
            yield one(f"attr_{op.lower()}_{name}", op, given, want, hidden_size=4)
            yield one(f"attr_{op.lower()}_{name}_dynamic", op, given, want, hidden_size=4, dynamic={} if "rank" in name else dynamic_shapes,
                      constants=("w", "r"))
        for name, lens in {"beyond": [4, 3], "negative": [-1, 3], "huge": [1 << 30, 3]}.items():
            given = {**feeds, "lens": np.array(lens, "int32")}
            yield one(f"attr_{op.lower()}_lens_{name}", op, given, "error", hidden_size=4)
            yield one(f"attr_{op.lower()}_lens_{name}_dynamic", op, given, "error", hidden_size=4, dynamic=dynamic_shapes,
                      constants=("w", "r"))
        yield one(f"attr_{op.lower()}_lens_0", op, {**feeds, "lens": np.array([0, 3], "int32")}, "either", expected=[],
                  hidden_size=4)
        for name, attributes in {
                "hidden_size_other": {"hidden_size": 5}, "hidden_size_zero": {"hidden_size": 0},
                "hidden_size_negative": {"hidden_size": -4}, "direction": {"direction": "sideways"},
                "activation": {"activations": ["Frob"] * {"LSTM": 3, "GRU": 2, "RNN": 1}[op]},
                "activations_few": {"activations": []}, "clip_negative": {"clip": -1.0}, "layout_2": {"layout": 2},
                "bidirectional": {"direction": "bidirectional"}}.items():
            yield one(f"attr_{op.lower()}_{name}", op, feeds, "error", **{"hidden_size": 4, **attributes})


def shape_cases():
    x = f32(2, 3, 4)
    for op, more in {"Softmax": {}, "LogSoftmax": {}, "Hardmax": {}, "Flatten": {}, "Concat": {}, "ArgMax": {},
                     "LpNormalization": {}, "LayerNormalization": {"s": f32(4)}}.items():
        for axis in (-5, 4, BIG, -(1 << 63)):
            yield one(f"attr_{op.lower()}_axis_{axis}", op, {"x": x, **more}, "error", axis=axis)
    for name, perm in {"short": [0, 1], "long": [0, 1, 2, 3], "twice": [0, 0, 1], "beyond": [0, 1, 3],
                       "negative": [0, 1, -1], "huge": [0, 1, BIG]}.items():
        yield one(f"attr_transpose_{name}", "Transpose", {"x": x}, "error", perm=perm)
    for name, axes in {"beyond": [3], "negative": [-4], "twice": [1, 1], "same_twice": [1, -2], "huge": [BIG]}.items():
        yield one(f"attr_reduce_axes_{name}", "ReduceSum", {"x": x, "axes": i64(axes)}, "error", constants=("axes",))
        yield one(f"attr_squeeze_{name}", "Squeeze", {"x": f32(1, 1, 1), "axes": i64(axes)}, "error", constants=("axes",))
        yield one(f"attr_unsqueeze_{name}", "Unsqueeze", {"x": f32(1), "axes": i64(axes if name == "same_twice" else [a + 1 if a > 0 else a for a in axes])},
                  "error", constants=("axes",))
    yield one("attr_squeeze_of_3", "Squeeze", {"x": x, "axes": i64([1])}, "error", constants=("axes",))
    yield one("attr_depthtospace_zero", "DepthToSpace", {"x": IMAGE}, "error", blocksize=0)
    yield one("attr_depthtospace_negative", "DepthToSpace", {"x": IMAGE}, "error", blocksize=-2)
    yield one("attr_depthtospace_three", "DepthToSpace", {"x": IMAGE}, "error", blocksize=3)
    yield one("attr_depthtospace_huge", "DepthToSpace", {"x": IMAGE}, "error", blocksize=1 << 32)
    yield one("attr_spacetodepth_zero", "SpaceToDepth", {"x": IMAGE}, "error", blocksize=0)
    yield one("attr_spacetodepth_five", "SpaceToDepth", {"x": IMAGE}, "error", blocksize=5)
    yield one("attr_spacetodepth_huge", "SpaceToDepth", {"x": IMAGE}, "error", blocksize=1 << 32)
    for name, attributes in {"zero": {"size": 0}, "negative": {"size": -3}, "huge": {"size": BIG}, "missing": {}}.items():
        yield one(f"attr_lrn_{name}", "LRN", {"x": IMAGE}, "error" if name != "huge" else "either", **attributes)
    for name, values in {"scale": {"s": f32(5)}, "mean": {"m": f32(3)}, "variance_rank": {"v": f32(4, 1)}}.items():
        feeds = {"x": IMAGE, "s": f32(4), "b": f32(4), "m": f32(4), "v": f32(4), **values}
        yield one(f"attr_batchnorm_{name}", "BatchNormalization", feeds, "error")
    yield one("attr_instancenorm_scale", "InstanceNormalization", {"x": IMAGE, "s": f32(5), "b": f32(4)}, "error")
    for groups in (0, -2, 3, BIG):
        yield one(f"attr_groupnorm_{groups}", "GroupNormalization", {"x": IMAGE, "s": f32(4), "b": f32(4)}, "error",
                  num_groups=groups)
    yield one("attr_gemm_rank", "Gemm", {"a": x, "b": f32(4, 5)}, "error")
    yield one("attr_gemm_sizes", "Gemm", {"a": f32(2, 3), "b": f32(4, 5)}, "error")
    yield one("attr_gemm_c", "Gemm", {"a": f32(2, 3), "b": f32(3, 5), "c": f32(4)}, "error")
    for equation in ("ij,jk->il", "ij", "ij,jk,kl->il", "i j->", "...", "ij,jk->ii", "ij,jk->i?", "", "->",  "i" * 99,
                     "ij,jkl->ik", "ij,jk->ik->ki", "1j,jk->k"):
        name = "".join(c if c.isalnum() else "_" for c in equation)[:20]
        yield one(f"attr_einsum_{name}_{len(equation)}", "Einsum", {"a": f32(2, 3), "b": f32(3, 2)}, "error",
                  equation=equation)
    yield one("attr_concat_shapes", "Concat", {"a": f32(2, 3), "b": f32(4, 5)}, "error", axis=0)
    yield one("attr_concat_ranks", "Concat", {"a": f32(2, 3), "b": f32(2)}, "error", axis=0)
    yield one("attr_cast_to_99", "Cast", {"x": x}, "error", to=99)
    yield one("attr_cast_to_0", "Cast", {"x": x}, "error", to=0)
    yield one("attr_cast_to_negative", "Cast", {"x": x}, "error", to=-1)
    yield one("attr_missing", "Cast", {"x": x}, "error")
    yield one("attr_unknown", "Relu", {"x": x}, "error", frob=1)
    yield one("attr_of_other_type", "Softmax", {"x": x}, "error", axis="one")
    yield one("attr_float_for_int", "Softmax", {"x": x}, "error", axis=1.0)
    yield one("attr_ints_for_int", "Softmax", {"x": x}, "error", axis=[1])
    yield one("attr_tensor_for_int", "Softmax", {"x": x}, "error", axis=tensor(i64([1]), "t"))
    yield one("attr_graph_for_int", "Softmax", {"x": x}, "error", axis=graph([node("Relu", ["x"], ["r"])], [], ["r"]))
    yield one("attr_split_more_than_size", "Split", {"x": f32(3)}, "error", outputs=5, num_outputs=5)
    yield one("attr_split_counts_differ", "Split", {"x": f32(6)}, "error", outputs=2, num_outputs=3)
    yield one("attr_split_zero", "Split", {"x": f32(6)}, "error", outputs=1, num_outputs=0)
    yield one("attr_quantize_axis", "QuantizeLinear", {"x": x, "s": f32(3) + 5, "z": np.zeros(3, "uint8")}, "error", axis=7)
    yield one("attr_quantize_block", "QuantizeLinear", {"x": f32(4, 6), "s": f32(4, 3) + 9, "z": np.zeros((4, 3), "uint8")},
              "error", axis=1, block_size=-2)
    yield one("attr_dequantize_scale_size", "DequantizeLinear", {"x": np.zeros((2, 3), "int8"), "s": f32(4)}, "error", axis=1)
    yield one("attr_randomuniform_negative", "RandomUniform", {}, "error", shape=[-3])
    yield one("attr_eyelike_rank", "EyeLike", {"x": x}, "error")
    yield one("attr_eyelike_k", "EyeLike", {"x": f32(3, 3)}, "either", k=BIG)
    yield one("attr_bitshift", "BitShift", {"x": np.ones(3, "uint8"), "y": np.ones(3, "uint8")}, "error", direction="UP")
    yield one("attr_mod_fmod_of_floats", "Mod", {"x": f32(3), "y": f32(3)}, "error", fmod=0)
    yield one("attr_resize_mode", "Resize", {"x": IMAGE, "r": None, "s": np.array([1, 1, 2, 2], "float32")}, "error",
              constants=("s",), mode="frob")
    for op, feeds in {"Celu": {}, "Elu": {}, "ThresholdedRelu": {}}.items():
        yield one(f"attr_{op.lower()}_nan", op, {"x": f32(3), **feeds}, "either", expected=[], alpha=float("nan"))
    yield one("attr_celu_zero", "Celu", {"x": f32(3)}, "either", expected=[], alpha=0.0)
    heads = {"q": f32(1, 4, 12), "k": f32(1, 4, 12), "v": f32(1, 4, 12)}
    for name, q in {"zero": 0, "negative": -2, "five": 5}.items():
        yield one(f"attr_attention_heads_{name}", "Attention", heads, "error", opset=23, q_num_heads=q, kv_num_heads=q)


def attribute_cases():
    yield from window_cases()
    yield from recurrent_cases()
    yield from shape_cases()
