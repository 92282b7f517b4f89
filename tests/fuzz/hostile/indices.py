# SPDX-License-Identifier: Apache-2.0
"""Values of operands that decide what memory is touched: indices, sizes, axes, divisors."""
import numpy as np

from .base import f32, forms, i64, one

X = f32(3, 4)
FAR = {"3": 3, "-4": -4, "largest": (1 << 63) - 1, "smallest": -(1 << 63), "2_32": 1 << 32}


def gather_cases():
    for name, index in FAR.items():
        yield from forms(f"index_gather_{name}", "Gather", {"x": X, "i": i64([0, index])}, "error", ("i",))
        yield from forms(f"index_gather_scalar_{name}", "Gather", {"x": X, "i": np.int64(index)}, "error", ("i",))
        yield from forms(f"index_gatherelements_{name}", "GatherElements",
                         {"x": X, "i": np.array([[0, 1, index, 0]], "int64")}, "error", ("i",))
        yield from forms(f"index_gathernd_{name}", "GatherND", {"x": X, "i": np.array([[0, 1], [index, 0]], "int64")},
                         "error", ("i",))
        for op in ("ScatterElements",):
            yield from forms(f"index_{op.lower()}_{name}", op,
                             {"x": X, "i": np.array([[0, 1, index, 0]], "int64"), "u": f32(1, 4)}, "error", ("i",))
        yield from forms(f"index_scatternd_{name}", "ScatterND",
                         {"x": X, "i": np.array([[index]], "int64"), "u": f32(1, 4)}, "error", ("i",))
    for name, index in {"int32_3": np.array([3], "int32"), "int32_-4": np.array([-4], "int32")}.items():
        yield from forms(f"index_gather_{name}", "Gather", {"x": X, "i": index}, "error", ("i",))
    yield from forms("index_gather_last", "Gather", {"x": X, "i": i64([-1, -3, 2])}, "ok", ("i",))
    yield from forms("index_gather_of_empty", "Gather", {"x": f32(0, 4), "i": i64([0])}, "error", ("i",))
    yield from forms("index_gather_nothing_of_empty", "Gather", {"x": f32(0, 4), "i": np.zeros(0, "int64")}, "ok", ("i",))
    yield from forms("index_gather_columns", "Gather", {"x": X, "i": i64([4])}, "error", ("i",), axis=1)
    yield one("index_gather_float", "Gather", {"x": X, "i": f32(2)}, "error")
    yield one("index_gathernd_too_deep", "GatherND", {"x": X, "i": np.zeros((1, 3), "int64")}, "error")
    yield one("index_gathernd_batch", "GatherND", {"x": X, "i": np.zeros((3, 1), "int64")}, "error", batch_dims=2)
    yield one("index_gathernd_batch_sizes", "GatherND", {"x": X, "i": np.zeros((2, 1), "int64")}, "error", batch_dims=1)
    yield one("index_scatter_updates", "ScatterElements", {"x": X, "i": np.zeros((1, 4), "int64"), "u": f32(2, 4)}, "error")
    yield one("index_scatternd_updates", "ScatterND", {"x": X, "i": np.zeros((2, 1), "int64"), "u": f32(1, 4)}, "error")
    yield one("index_scatter_reduction", "ScatterND", {"x": X, "i": np.zeros((1, 1), "int64"), "u": f32(1, 4)}, "error",
              reduction="frob")
    for index in (5, -6, 1 << 40):
        yield from forms(f"index_onehot_{index}", "OneHot", {"i": i64([0, index]), "d": np.int64(5), "v": f32(2)}, "either",
                         ("d", "v"))
    for depth in (0, -1, 1 << 45):
        yield from forms(f"index_onehot_depth_{depth}", "OneHot", {"i": i64([0, 1]), "d": np.int64(depth), "v": f32(2)},
                         "error" if depth else "either", ("d", "v"))
    boxes = np.array([[0, 0, 4, 4]], "float32")
    for batch in (1, 5, -1, 1 << 40):
        yield from forms(f"index_roialign_batch_{batch}", "RoiAlign", {"x": f32(1, 1, 6, 6), "r": boxes, "b": i64([batch])},
                         "error", ("b",), output_height=2, output_width=2)
    for name, value in {"nan": np.nan, "infinite": np.inf, "far": 1e30}.items():
        yield one(f"index_roialign_{name}", "RoiAlign", {"x": f32(1, 1, 6, 6), "r": np.full((1, 4), value, "float32"),
                                                         "b": i64([0])}, "either", output_height=2, output_width=2)
        yield one(f"index_gridsample_{name}", "GridSample", {"x": f32(1, 1, 4, 4), "g": np.full((1, 2, 2, 2), value,
                                                                                             "float32")}, "either")
        yield one(f"index_gridsample_reflect_{name}", "GridSample", {
            "x": f32(1, 1, 4, 4), "g": np.full((1, 2, 2, 2), value, "float32")}, "either", expected=[],
                  padding_mode="reflection")
        yield one(f"index_deformconv_{name}", "DeformConv", {
            "x": f32(1, 1, 4, 4), "w": f32(1, 1, 2, 2), "o": np.full((1, 8, 3, 3), value, "float32")}, "either")
        yield one(f"index_nms_{name}", "NonMaxSuppression", {
            "b": np.full((1, 3, 4), value, "float32"), "s": np.full((1, 1, 3), value, "float32"), "m": np.int64(3)}, "either")
    for indices in (100, -1):
        yield one(f"index_maxunpool_{indices}", "MaxUnpool", {"x": f32(1, 1, 2, 2), "i": np.full((1, 1, 2, 2), indices,
                                                                                              "int64")}, "error",
                  kernel_shape=[2, 2], strides=[2, 2])
    loss = {"x": f32(3, 4), "t": i64([0, 1, 9])}
    yield from forms("index_nllloss_9", "NegativeLogLikelihoodLoss", loss, "error", ("t",))
    yield from forms("index_nllloss_-1", "NegativeLogLikelihoodLoss", {**loss, "t": i64([0, 1, -1])}, "error", ("t",))
    yield from forms("index_crossentropy_9", "SoftmaxCrossEntropyLoss", loss, "error", ("t",))
    yield one("index_arrayfeatureextractor", "ArrayFeatureExtractor", {"x": X, "i": i64([9])}, "error", domain="ai.onnx.ml")
    yield from forms("index_compress_long", "Compress", {"x": X, "c": np.ones(9, bool)}, "error", ("c",), axis=0)
    for name, lens in {"beyond": [5, 1], "negative": [-1, 1], "zero": [0, 1]}.items():
        yield from forms(f"index_reversesequence_{name}", "ReverseSequence", {"x": f32(4, 2), "l": i64(lens)},
                         "either" if name == "zero" else "error", ("l",))


def shape_cases():
    for name, shape in {"product": [5, 5], "two_free": [-1, -1], "minus_two": [-2, 6], "free_of_0": [0, -1, 7],
                        "zero_beyond": [3, 4, 0], "wraps": [1 << 62, 4], "huge": [1 << 62, 1 << 62, -1],
                        "free_left_over": [5, -1], "smallest": [-(1 << 63), 4]}.items():
        yield from forms(f"shape_reshape_{name}", "Reshape", {"x": X, "s": i64(shape)}, "error", ("s",))
    for name, shape in {"other": [5, 4], "shorter": [2, 4], "negative": [-1, 4], "wraps": [1 << 62, 3, 4]}.items():
        yield from forms(f"shape_expand_{name}", "Expand", {"x": X, "s": i64(shape)}, "error", ("s",))
    for name, repeats in {"negative": [-1, 1], "short": [2], "long": [1, 1, 1], "wraps": [1 << 62, 4]}.items():
        yield from forms(f"shape_tile_{name}", "Tile", {"x": X, "r": i64(repeats)}, "error", ("r",))
    for name, split in {"sum": [1, 1], "negative": [-1, 4], "more": [2, 2], "wraps": [(1 << 63) - 1, 4]}.items():
        yield from forms(f"shape_split_{name}", "Split", {"x": X, "s": i64(split)}, "error", ("s",), outputs=2)
    yield from forms("shape_split_count", "Split", {"x": X, "s": i64([1, 1, 1])}, "error", ("s",), outputs=2)
    for name, steps in {"zero": 0}.items():
        yield from forms(f"shape_slice_step_{name}", "Slice", {
            "x": X, "b": i64([0]), "e": i64([3]), "a": i64([0]), "s": i64([steps])}, "error", ("b", "e", "a", "s"))
    for name, (begin, end, step) in {"smallest_step": (3, 0, -(1 << 63)), "largest_step": (0, 3, (1 << 63) - 1),
                                     "far": (-(1 << 63), (1 << 63) - 1, 1), "back": ((1 << 63) - 1, -(1 << 63), -1),
                                     "empty": (3, 1, 1)}.items():
        yield from forms(f"shape_slice_{name}", "Slice", {
            "x": X, "b": i64([begin]), "e": i64([end]), "a": i64([0]), "s": i64([step])}, "ok", ("b", "e", "a", "s"))
    for name, axes in {"beyond": [2], "negative": [-3], "twice": [0, 0]}.items():
        zeros = [0] * len(axes)
        yield from forms(f"shape_slice_axis_{name}", "Slice", {
            "x": X, "b": i64(zeros), "e": i64([2] * len(axes)), "a": i64(axes)}, "error", ("b", "e", "a"))
    yield one("shape_slice_counts", "Slice", {"x": X, "b": i64([0]), "e": i64([1, 2])}, "error", constants=("b", "e"))
    for k in (5, -1, 1 << 62):
        yield from forms(f"shape_topk_{k}", "TopK", {"x": X, "k": i64([k])}, "error", ("k",), outputs=2)
    yield from forms("shape_topk_0", "TopK", {"x": X, "k": i64([0])}, "ok", ("k",), outputs=2)
    for name, values in {"zero_step": (0, 5, 0), "huge": (0, 1 << 62, 1), "smallest": (0, 5, -(1 << 63)),
                         "whole": (-(1 << 63), (1 << 63) - 1, 1)}.items():
        feeds = dict(zip("bed", (np.int64(v) for v in values)))
        yield from forms(f"shape_range_{name}", "Range", feeds, "error" if name in ("zero_step", "huge") else "either", tuple("bed"))
    for name, values in {"nan": (0, np.nan, 1), "infinite": (0, np.inf, 1), "tiny_step": (0, 1e30, 1e-30)}.items():
        feeds = dict(zip("bed", (np.float32(v) for v in values)))
        yield from forms(f"shape_range_{name}", "Range", feeds, "either" if name == "nan" else "error", tuple("bed"))
    for name, shape in {"negative": [-1], "wraps": [1 << 32, 1 << 32], "huge": [1 << 46], "rank_65": [1] * 65}.items():
        yield from forms(f"shape_constantofshape_{name}", "ConstantOfShape", {"s": i64(shape)}, "error", ("s",))
    for name, pads in {"count": [1, 1], "wraps": [1 << 62] * 4, "eats_all": [-2, 0, -2, 0]}.items():
        yield from forms(f"shape_pad_{name}", "Pad", {"x": X, "p": i64(pads)}, "error", ("p",))
    for mode in ("reflect", "wrap", "edge"):
        yield from forms(f"shape_pad_{mode}_far", "Pad", {"x": X, "p": i64([7, 9, 7, 9])}, "either", ("p",), mode=mode)
        yield from forms(f"shape_pad_{mode}_of_empty", "Pad", {"x": f32(0, 4), "p": i64([1, 0, 1, 0])}, "either", ("p",),
                         mode=mode)
    for name, axis in {"beyond": 2, "negative": -3}.items():
        yield from forms(f"shape_cumsum_{name}", "CumSum", {"x": X, "a": np.int64(axis)}, "error", ("a",))
    for name, axes in {"beyond": [2], "negative": [-3]}.items():
        yield from forms(f"shape_reduce_{name}", "ReduceSum", {"x": X, "a": i64(axes)}, "error", ("a",))
    image = f32(1, 1, 4, 4)
    for name, scales in {"zero": [1, 1, 0, 1], "negative": [1, 1, -2, 1], "nan": [1, 1, np.nan, 1],
                         "infinite": [1, 1, np.inf, 1], "huge": [1, 1, 1e9, 1e9], "short": [1, 1]}.items():
        yield from forms(f"shape_resize_{name}", "Resize", {"x": image, "r": None, "s": np.array(scales, "float32")},
                         "either" if name == "short" else "error", ("s",))
    for name, sizes in {"zero": [1, 1, 0, 4], "negative": [1, 1, -4, 4], "huge": [1, 1, 1 << 40, 4], "short": [8]}.items():
        yield from forms(f"shape_resize_sizes_{name}", "Resize", {"x": image, "r": None, "s": None, "z": i64(sizes)},
                         "either" if name == "zero" else "error", ("z",))
    yield from forms("shape_trilu_far", "Trilu", {"x": X, "k": np.int64(1 << 62)}, "ok", ("k",))
    yield from forms("shape_centercrop_negative", "CenterCropPad", {"x": X, "s": i64([-1, 2])}, "error", ("s",))
    yield from forms("shape_col2im", "Col2Im", {"x": f32(1, 4, 4), "i": i64([5, 5]), "b": i64([2, 2])}, "error", ("i", "b"))
    yield from forms("shape_col2im_zero", "Col2Im", {"x": f32(1, 4, 4), "i": i64([3, 3]), "b": i64([0, 2])}, "error",
                     ("i", "b"))
    yield from forms("shape_affinegrid_negative", "AffineGrid", {"t": f32(1, 2, 3), "s": i64([1, 1, -4, 4])}, "error", ("s",))


def number_cases():
    lowest = {"int32": -(1 << 31), "int64": -(1 << 63), "int8": -128}
    for dtype, low in lowest.items():
        for op in ("Div", "Mod"):
            a, b = np.array([low, 7, -7], dtype), np.array([-1, 2, 2], dtype)
            yield from forms(f"number_{op.lower()}_{dtype}_lowest", op, {"a": a, "b": b}, "either", ("b",))
            yield from forms(f"number_{op.lower()}_{dtype}_zero", op, {"a": a, "b": np.zeros(3, dtype)}, "either", ("b",))
    for shift in (8, 255):
        yield from forms(f"number_shift_{shift}", "BitShift", {"a": np.full(3, 255, "uint8"), "b": np.full(
            3, shift, "uint8")}, "either", ("b",), direction="LEFT")
    for name, value in {"nan": np.nan, "infinite": np.inf, "far": 1e30}.items():
        for to in (3, 6, 7, 9):
            yield one(f"number_cast_{name}_{to}", "Cast", {"x": np.full(5, value, "float32")}, "either", expected=[], to=to)
        yield one(f"number_quantize_{name}", "QuantizeLinear", {"x": np.full(5, value, "float32"), "s": np.float32(1),
                                                                "z": np.uint8(3)}, "either", expected=[])
    yield one("number_quantize_scale_zero", "QuantizeLinear", {"x": f32(5), "s": np.float32(0), "z": np.uint8(3)}, "either",
              expected=[])
    yield one("number_quantize_scale_nan", "QuantizeLinear", {"x": f32(5), "s": np.float32(np.nan), "z": np.uint8(3)},
              "either")
    yield one("number_pow_int", "Pow", {"a": i64([2, 3, 0]), "b": i64([100, -1, -1])}, "either")
    yield one("number_clip_crossed", "Clip", {"x": f32(5), "a": np.float32(1), "b": np.float32(-1)}, "either")
    yield one("number_multinomial_zero", "Multinomial", {"x": np.full((1, 3), -np.inf, "float32")}, "either", sample_size=3)
    yield one("number_multinomial_negative", "Multinomial", {"x": f32(1, 3)}, "error", sample_size=-3)
    yield one("number_bernoulli_of_2", "Bernoulli", {"x": np.full(3, 2, "float32")}, "either")
    yield one("number_nms_negative_count", "NonMaxSuppression", {"b": f32(1, 3, 4), "s": f32(1, 1, 3), "m": np.int64(-3)},
              "either")
    yield one("number_dft_of_0", "DFT", {"x": f32(1, 4, 1), "n": np.int64(0)}, "error", opset=20)
    yield one("number_dft_of_negative", "DFT", {"x": f32(1, 4, 1), "n": np.int64(-4)}, "error", opset=20)
    yield one("number_window_negative", "HannWindow", {"n": np.int64(-4)}, "error", opset=17)
    yield one("number_window_huge", "HannWindow", {"n": np.int64(1 << 46)}, "error", opset=17)
    yield one("number_stft_step_zero", "STFT", {"x": f32(1, 16, 1), "s": np.int64(0), "w": None, "l": np.int64(4)}, "error",
              opset=17)
    yield one("number_stft_step_negative", "STFT", {"x": f32(1, 16, 1), "s": np.int64(-4), "w": None, "l": np.int64(4)},
              "error", opset=17)
    yield one("number_stft_frame_beyond", "STFT", {"x": f32(1, 16, 1), "s": np.int64(4), "w": None, "l": np.int64(40)},
              "error", opset=17)
    yield one("number_melweight", "MelWeightMatrix", {
        "b": np.int64(-1), "d": np.int64(8), "s": np.int64(8000), "l": np.float32(0), "u": np.float32(4000)}, "error",
        opset=17)
    yield one("number_blackman_huge", "BlackmanWindow", {"n": np.int64(1 << 62)}, "error", opset=17)


def folded_cases():
    """All operands are part of the model, so that what computes is the folding of constants."""
    at = np.array
    for name, op, feeds, more in (
            ("gather", "Gather", {"x": f32(3, 2), "i": at([7])}, {}), ("gather_of_none", "Gather", {"x": f32(0, 2), "i": at([0])}, {}),
            ("gatherelements", "GatherElements", {"x": f32(3, 2), "i": at([[7, 0]])}, {}),
            ("gatherelements_of_none", "GatherElements", {"x": f32(3, 0), "i": at([[0, 0]])}, {"axis": 1}),
            ("gathernd", "GatherND", {"x": f32(3, 2), "i": at([[7]])}, {}), ("gathernd_of_none", "GatherND", {"x": f32(0, 2), "i": at([[0]])}, {}),
            ("scatternd", "ScatterND", {"x": f32(3, 2), "i": at([[7]]), "u": f32(1, 2)}, {}),
            ("scatterelements", "ScatterElements", {"x": f32(3, 2), "i": at([[7, 0]]), "u": f32(1, 2)}, {}),
            ("nllloss", "NegativeLogLikelihoodLoss", {"x": f32(2, 3), "t": at([0, 7])}, {}),
            ("crossentropy", "SoftmaxCrossEntropyLoss", {"x": f32(2, 3), "t": at([0, 7])}, {}),
            ("reversesequence", "ReverseSequence", {"x": f32(3, 2), "l": at([9, 1])}, {}),
            ("maxunpool", "MaxUnpool", {"x": f32(1, 1, 1, 1), "i": at([[[[99]]]])}, {"kernel_shape": [2, 2]}),
            ("roialign", "RoiAlign", {"x": f32(1, 1, 4, 4), "r": f32(1, 4), "b": at([5])}, {}),
            ("compress", "Compress", {"x": f32(3), "c": np.ones(6, bool)}, {"axis": 0})):
        yield one(f"index_folded_{name}", op, feeds, "error", constants=tuple(feeds), **more)


def index_cases():
    yield from gather_cases()
    yield from folded_cases()
    yield from shape_cases()
    yield from number_cases()
