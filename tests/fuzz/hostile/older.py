# SPDX-License-Identifier: Apache-2.0
"""Operators as opsets 1 to 10 had them: attributes where operands are now, broadcasting that is asked for, coercion to matrices."""
import numpy as np

from .base import f32, graph, i64, info, node, one

HUGE = 1 << 62
IMAGE = f32(1, 2, 4, 4)


def old(name, op, feeds, want, opset, **more):
    yield one(f"old_{op.lower()}_{opset}_{name}", op, feeds, want, opset=opset, **more)


def shape_cases():
    x = {"x": f32(2, 3, 4)}
    yield from old("good", "Reshape", x, "ok", 1, shape=[4, 6], expected=[f32(2, 3, 4).reshape(4, 6)])
    for name, shape in (("count", [5, 5]), ("two_unknown", [-1, -1]), ("negative", [-2, -12]), ("huge", [HUGE, HUGE]), ("zero_beyond", [1, 1, 1, 0, 24])):
        yield from old(name, "Reshape", x, "error", 1, shape=shape)
    yield from old("none", "Reshape", x, "error", 1)
    yield from old("good", "Slice", x, "ok", 1, axes=[1], starts=[1], ends=[9], expected=[f32(2, 3, 4)[:, 1:]])
    for name, attributes in {"lengths": {"axes": [0, 1], "starts": [0], "ends": [1]}, "ends_none": {"axes": [0], "starts": [0]}, "axis": {"axes": [7], "starts": [0], "ends": [1]},
                             "axis_twice": {"axes": [0, 0], "starts": [0, 0], "ends": [1, 1]}, "starts_beyond_axes": {"starts": [0] * 4, "ends": [1] * 4}}.items():
        yield from old(name, "Slice", x, "error", 1, **attributes)
    for name, attributes in {"sum": {"split": [1, 1], "axis": 1}, "negative": {"split": [4, -1], "axis": 1}, "axis": {"axis": 5}, "count": {"split": [1, 1, 1], "axis": 1},
                             "wraps": {"split": [HUGE, -HUGE + 3], "axis": 1}}.items():
        yield from old(name, "Split", x, "error", 2, outputs=2, **attributes)
        yield from old(name, "Split", x, "error", 11, outputs=2, **attributes)
    for name, pads in (("count", [1, 1, 1]), ("wraps", [HUGE, 0, 0, HUGE, 0, 0]), ("eats", [-9, 0, 0, 0, 0, 0])):
        yield from old(name, "Pad", x, "error", 2, pads=pads)
        yield from old(name, "Pad", x, "error", 1, paddings=pads)
    yield from old("mode", "Pad", x, "error", 2, pads=[0] * 6, mode="wrap")
    for op, opset in (("Squeeze", 1), ("Squeeze", 11), ("Unsqueeze", 1), ("Unsqueeze", 11)):
        for name, axes in (("twice", [0, 0]), ("beyond", [9]), ("huge", [HUGE]), ("least", [-(1 << 63)]), ("not_one", [1])):
            want = "error" if name != "not_one" or op == "Squeeze" else "ok"
            yield from old(name, op, x, want, opset, axes=axes)
    yield from old("none", "Unsqueeze", x, "error", 11)
    yield from old("perm_short", "Transpose", x, "error", 1, perm=[1, 0])
    yield from old("perm_twice", "Transpose", x, "error", 1, perm=[0, 0, 1])
    for k in (-1, 9, HUGE):
        yield from old(f"k_{k}", "TopK", x, "error", 1, outputs=2, k=k)
    yield from old("no_k", "TopK", x, "error", 1, outputs=2)
    for axis in (-1, 1, 9):
        yield from old(f"axis_{axis}", "Concat", {"a": f32(2, 3), "b": f32(2, 3)}, "either" if axis < 2 else "error", 1, axis=axis)
    for tiles, axis, want in ((-1, 0, "error"), (2, 9, "error"), (HUGE, 0, "error"), (2, 1, "either")):
        yield from old(f"{tiles}_{axis}", "Tile", {"x": f32(2, 3), "t": i64(tiles).reshape(1), "a": i64(axis).reshape(1)}, want, 1, expected=[])
    for axis in (-4, 4, HUGE):
        for op in ("Softmax", "LogSoftmax", "Hardmax", "Flatten"):
            yield from old(f"axis_{axis}", op, x, "error", 9, axis=axis)
    yield from old("of_axes", "ReduceSum", x, "error", 11, axes=[0, 3])
    yield from old("axes_twice", "ReduceSum", x, "error", 11, axes=[1, 1])
    yield from old("axes_operand", "ReduceSum", {**x, "a": i64(1).reshape(1)}, "error", 11)
    yield from old("indices", "Scatter", {"x": f32(3, 2), "i": np.array([[7, 0]]), "u": f32(1, 2)}, "error", 9)
    yield from old("gone", "Scatter", {"x": f32(3, 2), "i": np.array([[0, 0]]), "u": f32(1, 2)}, "either", 11)


def element_cases():
    a = f32(2, 3, 4)
    for name, b, attributes, want in (("asked", f32(3, 4), {"broadcast": 1}, "ok"), ("axis", f32(3), {"broadcast": 1, "axis": 1}, "ok"), ("not_asked", f32(3, 4), {}, "error"),
                                      ("axis_beyond", f32(3), {"broadcast": 1, "axis": 9}, "error"), ("axis_negative", f32(4), {"broadcast": 1, "axis": -7}, "error"),
                                      ("axis_short", f32(3, 4), {"broadcast": 1, "axis": 2}, "error"), ("sizes", f32(5), {"broadcast": 1, "axis": 1}, "error"),
                                      ("larger", f32(5, 2, 3, 4), {"broadcast": 1}, "either")):
        expected = [a + (b[:, None] if name == "axis" else b)] if want == "ok" else None
        yield from old(name, "Add", {"a": a, "b": b}, want, 6, expected=expected, **attributes)
    for name, to in (("text", "NOPE"), ("empty", ""), ("lower", "float")):
        yield from old(name, "Cast", {"x": a}, "error", 1, to=to)
    yield from old("good", "Cast", {"x": a}, "ok", 1, to="INT32", expected=[a.astype("int32")])
    yield from old("number", "Cast", {"x": a}, "either", 1, to=6, expected=[])
    yield from old("crossed", "Clip", {"x": a}, "either", 6, min=1.0, max=-1.0, expected=[])
    yield from old("nan", "Clip", {"x": a}, "either", 6, min=float("nan"), expected=[])
    yield from old("bias", "Gemm", {"a": f32(2, 3), "b": f32(3, 4), "c": f32(4)}, "either", 6, expected=[])
    yield from old("bias_asked", "Gemm", {"a": f32(2, 3), "b": f32(3, 4), "c": f32(4)}, "ok", 6, broadcast=1, expected=[f32(2, 3) @ f32(3, 4) + f32(4)])
    yield from old("bias_wrong", "Gemm", {"a": f32(2, 3), "b": f32(3, 4), "c": f32(5)}, "error", 6, broadcast=1)
    vectors = {"s": f32(2), "b": f32(2), "m": f32(2), "v": np.ones(2, "float32")}
    for opset in (1, 6, 7, 8, 9):
        for key in "sbmv":
            yield from old(f"{key}_of_3", "BatchNormalization", {"x": IMAGE, **vectors, key: f32(3)}, "error", opset)
    yield from old("not_spatial", "BatchNormalization", {"x": IMAGE, **vectors}, "error", 7, spatial=0)
    yield from old("training", "BatchNormalization", {"x": IMAGE, **vectors}, "either", 6, is_test=0, expected=[])
    yield from old("slopes", "PRelu", {"x": f32(1, 3, 2, 2), "s": f32(5)}, "error", 6)
    for name, scales in (("zero", [1.0, 1, 0, 2]), ("negative", [1.0, 1, -2, 2]), ("nan", [1.0, 1, float("nan"), 2]), ("count", [1.0, 2]), ("huge", [1.0, 1, 1e30, 1e30])):
        yield from old(name, "Upsample", {"x": IMAGE}, "error", 7, scales=scales)
        yield from old(name, "Upsample", {"x": IMAGE, "s": np.array(scales, "float32")}, "error", 9)
        yield from old(name + "_constant", "Upsample", {"x": IMAGE, "s": np.array(scales, "float32")}, "error", 9, constants=("s",))
    yield from old("width", "Upsample", {"x": IMAGE}, "error", 1, width_scale=-1.0, height_scale=2.0)
    yield from old("no_height", "Upsample", {"x": IMAGE}, "error", 1, width_scale=2.0)
    yield from old("mode", "Upsample", {"x": IMAGE}, "error", 7, scales=[1.0, 1, 2, 2], mode="magic")
    for name, scales in (("zero", [1.0, 1, 0, 2]), ("nan", [1.0, 1, float("nan"), 2]), ("count", [1.0, 2]), ("huge", [1.0, 1, 1e30, 1e30])):
        yield from old(name, "Resize", {"x": IMAGE, "s": np.array(scales, "float32")}, "error", 10)
    for op, more in (("Crop", {"border": [1, 1]}), ("Crop", {"border": [9, 9, 9, 9], "scale": [1, 1]}), ("ImageScaler", {"scale": 1.0, "bias": [1.0] * 5}), ("Affine", {}),
                     ("ScaledTanh", {}), ("ParametricSoftplus", {}), ("ConstantFill", {"shape": [-1]}), ("GivenTensorFill", {"values": [1.0], "shape": [5]}),
                     ("GRUUnit", {}), ("ATen", {}), ("FC", {"axis": 9}), ("DynamicSlice", {}), ("Scale", {"scale": float("nan")})):
        for opset in (6, 9, 13):
            yield from old("_".join(sorted(more)) or "bare", op, {"x": IMAGE}, "either", opset, expected=[], **more)
    kernel = {"kernel_shape": [2, 2]}
    for op, opset in (("MaxPool", 1), ("MaxPool", 8), ("AveragePool", 1), ("AveragePool", 7), ("LpPool", 1), ("LpPool", 2)):
        for name, more in {"pads_beyond": {**kernel, "pads": [0, 0, -9, -9]}, "strides": {**kernel, "strides": [0, 0]}, "kernel": {"kernel_shape": [0, 2]}, "huge": {"kernel_shape": [HUGE, HUGE]}}.items():
            yield from old(name, op, {"x": IMAGE}, "error", opset, **more)
    yield from old("p_0", "LpPool", {"x": IMAGE}, "either", 2, p=0, expected=[], **kernel)
    yield from old("p_negative", "LpPool", {"x": IMAGE}, "either", 2, p=-1, expected=[], **kernel)
    # The reference counts from the first element of a window, not of the tensor.
    last = [IMAGE[..., 1:, 1:], np.arange(IMAGE.size).reshape(IMAGE.shape)[..., 1:, 1:]]
    yield from old("indices_of_old", "MaxPool", {"x": IMAGE}, "either", 1, outputs=2, expected=last, **kernel)


def flow_cases():
    body = graph([node("Add", ["s", "e"], ["so"]), node("Identity", ["e"], ["eo"])], [info("s", "float32", [2]), info("e", "float32", [2])], ["so", "eo"])
    x, s = f32(1, 3, 2), f32(1, 2)
    for name, feeds, more, want in (("good", {"l": None, "s": s, "x": x}, {"num_scan_inputs": 1}, "ok"), ("count_0", {"l": None, "s": s, "x": x}, {"num_scan_inputs": 0}, "error"),
                                    ("count_9", {"l": None, "s": s, "x": x}, {"num_scan_inputs": 9}, "error"), ("batches", {"l": None, "s": f32(2, 2), "x": x}, {"num_scan_inputs": 1}, "error"),
                                    ("directions", {"l": None, "s": s, "x": x}, {"num_scan_inputs": 1, "directions": [0, 1]}, "error"),
                                    ("direction_7", {"l": None, "s": s, "x": x}, {"num_scan_inputs": 1, "directions": [7]}, "error"),
                                    ("scalar", {"l": None, "s": np.float32(1), "x": x}, {"num_scan_inputs": 1}, "error")):
        expected = [s + x.sum(1), x] if want == "ok" else None
        yield from old(name, "Scan", feeds, want, 8, outputs=2, body=body, expected=expected, **more)
    w, r = f32(1, 12, 3), f32(1, 12, 4)
    for op, gates in (("GRU", 3), ("LSTM", 4), ("RNN", 1)):
        w, r = f32(1, 4 * gates, 3), f32(1, 4 * gates, 4)
        for name, more in {"hidden": {"hidden_size": 5}, "direction": {"hidden_size": 4, "direction": "sideways"}, "activation": {"hidden_size": 4, "activations": ["Magic"] * 3},
                           "activations_count": {"hidden_size": 4, "activations": []}, "clip_negative": {"hidden_size": 4, "clip": -1.0}}.items():
            want = "either" if name in ("clip_negative", "activations_count") else "error"
            yield from old(name, op, {"x": f32(5, 2, 3), "w": w, "r": r}, want, 7, outputs=2, expected=[], **more)


def older_cases():
    """All of them."""
    yield from shape_cases()
    yield from element_cases()
    yield from flow_cases()
