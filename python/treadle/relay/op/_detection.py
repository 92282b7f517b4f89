# SPDX-License-Identifier: Apache-2.0
"""Operators of object detection that are expressions of others."""
import numpy as np

from ..expr import Constant, Tuple, TupleGetItem, TupleWrapper, const
from ._functions import arange, concatenate, reshape, strided_slice, take, transpose
from ._make import call_op, make
from ._types import dtype_of, static_shape


def _cast(value, dtype):
    return call_op("cast", [value], {"dtype": dtype})


def _column(data, k, count=1):
    """Columns k .. k + count - 1 of the last dimension; one alone without it."""
    rank = len(static_shape(data, "vision"))
    part = strided_slice(data, [k], [k + count], axes=[rank - 1])
    return call_op("squeeze", [part], {"axis": [rank - 1]}) if count == 1 else part


def _gather_rows(data, order):
    """data (batch, n, k) in the order (batch, n)."""
    batch, count, width = static_shape(data, "vision")
    at = call_op("broadcast_to", [reshape(order, [batch, count, 1])], {"shape": [batch, count, width]})
    return make("gather")(data, at, axis=1)


def _valid_first(valid):
    """The order that puts rows with `valid` (batch, n) first and else changes nothing, and how many there are."""
    _, count = static_shape(valid, "vision")
    later = const(1, "int32") - _cast(valid, "int32")
    key = later * const(count, "int32") + reshape(arange(0, count, 1, "int32"), [1, count])
    return make("argsort")(key, axis=1, dtype="int32"), make("sum")(_cast(valid, "int32"), axis=[1])


def _where_row(condition, data, otherwise):
    """data (batch, n, k) where condition (batch, n) holds."""
    batch, count = static_shape(condition, "vision")
    return make("where")(reshape(condition, [batch, count, 1]), data, const(otherwise, dtype_of(data)))


def _positions(count):
    return reshape(arange(0, count, 1, "int32"), [1, count])


def get_valid_counts(data, score_threshold, id_index=0, score_index=1):
    """(number of boxes whose score is above the threshold, (batch,); the boxes, these first, others -1; their numbers in
    data). data: (batch, n, 5 or 6)."""
    batch, count, _ = static_shape(data, "vision.get_valid_counts")
    threshold = score_threshold if not isinstance(score_threshold, (int, float)) else const(
        float(score_threshold), dtype_of(data))
    valid = make("greater")(_column(data, score_index), threshold)
    if id_index >= 0:
        there = make("greater_equal")(_column(data, id_index), const(0, dtype_of(data)))
        valid = make("logical_and")(valid, there)
    order, number = _valid_first(valid)
    kept = make("less")(_positions(count), reshape(number, [batch, 1]))
    boxes = _where_row(kept, _gather_rows(data, order), -1)
    return TupleWrapper(Tuple([number, boxes, make("where")(kept, order, const(-1, "int32"))]), 3)


def non_max_suppression(data, valid_count, indices, max_output_size=-1, iou_threshold=0.5, force_suppress=False,
                        top_k=-1, coord_start=2, score_index=1, id_index=0, return_indices=True,
                        invalid_to_bottom=False):
    """Boxes without those that overlap a better one of their class. data: (batch, n, 5 or 6), of which the first
    valid_count are boxes. With return_indices: their numbers by `indices`, those kept first, others -1, and how many;
    else the boxes by score, those dropped -1 (with invalid_to_bottom behind the others)."""
    iou_threshold, max_output_size = (_number(v, what) for v, what in (
        (iou_threshold, "iou_threshold"), (max_output_size, "max_output_size")))
    batch, count, _ = static_shape(data, "vision.non_max_suppression")
    positions, dtype = _positions(count), dtype_of(data)
    there = make("less")(positions, reshape(valid_count, [batch, 1]))
    if iou_threshold > 0:
        lowest = const(np.finfo(dtype).min, dtype)
        order = make("argsort")(make("where")(there, _column(data, score_index), lowest), axis=1, is_ascend=False,
                                dtype="int32")
    else:
        order = call_op("broadcast_to", [positions], {"shape": [batch, count]})
    boxes = _gather_rows(data, order)
    if iou_threshold > 0:
        asked = there if top_k <= 0 else make("logical_and")(there, make("less")(positions, const(int(top_k), "int32")))
        scored = make("greater")(_column(boxes, score_index), const(0, dtype))
        classes = _column(boxes, id_index) if id_index >= 0 else make("zeros_like")(_column(boxes, score_index))
        kept = TupleGetItem(make("vision.keep_boxes")(
            _cast(_column(boxes, coord_start, 4), "float32"), _cast(classes, "float32"),
            _cast(make("logical_and")(asked, scored), "int32"), iou_threshold=float(iou_threshold),
            max_output_size=int(max_output_size), force_suppress=bool(force_suppress)), 0)
        # Boxes without a score stay, as they are not compared.
        without = make("logical_and")(asked, make("logical_not")(scored))
        kept = make("logical_or")(make("not_equal")(kept, const(0, "int32")), without)
    else:
        kept = there
    if return_indices:
        first, number = _valid_first(kept)
        chosen = make("gather")(order, first, axis=1)
        named = make("gather")(_cast(indices, "int32"), chosen, axis=1)
        named = make("where")(make("less")(positions, reshape(number, [batch, 1])), named, const(-1, "int32"))
        return TupleWrapper(Tuple([named, reshape(number, [batch, 1])]), 2)
    result = _where_row(kept, boxes, -1)
    return _gather_rows(result, _valid_first(kept)[0]) if invalid_to_bottom else result


def _number(value, what):
    if isinstance(value, (int, float)):
        return value
    if not isinstance(value, Constant):
        raise ValueError(f"vision.non_max_suppression: {what} must be known, not computed")
    return value.data.numpy().item()


def all_class_non_max_suppression(boxes, scores, max_output_boxes_per_class=-1, iou_threshold=-1.0,
                                  score_threshold=-1.0, output_format="onnx"):
    """(rows of batch, class, box of all that are kept; how many rows), of boxes (batch, n, 4) and scores (batch,
    classes, n). How many there are is only known when it runs."""
    if output_format != "onnx":
        raise ValueError(f"vision.all_class_non_max_suppression: output_format {output_format!r}; expected 'onnx'")
    most = max_output_boxes_per_class
    if isinstance(most, int):
        most = const(most if most >= 0 else 2 ** 31 - 1, "int64")
    numbers = [const(float(v)) if isinstance(v, (int, float)) else v for v in (iou_threshold, score_threshold)]
    every = make("nms_padded")(boxes, scores, _cast(most, "int64"), *numbers)
    return TupleWrapper(Tuple([TupleGetItem(every, 0), TupleGetItem(every, 1)]), 2)


def multibox_prior(data, sizes=(1.0,), ratios=(1.0,), steps=(-1.0, -1.0), offsets=(0.5, 0.5), clip=False):
    """Boxes around each element of a feature map (batch, channels, height, width): a constant (1, boxes, 4)."""
    sizes, ratios, steps, offsets = ([float(v) for v in (values if hasattr(values, "__iter__") else [values])]
                                     for values in (sizes, ratios, steps, offsets))
    height, width = static_shape(data, "vision.multibox_prior")[2:]
    step = [s if s > 0 else 1.0 / n for s, n in zip(steps, (height, width))]
    half = [(s * height / width / 2, s / 2) for s in sizes]
    half += [(sizes[0] * height / width * np.sqrt(r) / 2, sizes[0] / np.sqrt(r) / 2) for r in ratios[1:]]
    half = np.array(half, "float32")
    y = ((np.arange(height) + offsets[0]) * step[0])[:, None, None]
    x = ((np.arange(width) + offsets[1]) * step[1])[None, :, None]
    sides = [x - half[:, 0], y - half[:, 1], x + half[:, 0], y + half[:, 1]]
    shape = (height, width, len(half))
    boxes = np.stack([np.broadcast_to(side, shape) for side in sides], axis=-1).reshape(1, -1, 4).astype("float32")
    return const(np.clip(boxes, 0, 1) if clip else boxes)


def multibox_transform_loc(cls_prob, loc_pred, anchor, clip=True, threshold=0.01, variances=(0.1, 0.1, 0.2, 0.2)):
    """(boxes (batch, n, 6): class, score, corners, those of a class first, others -1; how many), of probabilities
    (batch, classes, n), of which class 0 is the background, offsets (batch, 4 n) and anchors (1, n, 4)."""
    batch, classes, count = static_shape(cls_prob, "vision.multibox_transform_loc")
    scores = strided_slice(cls_prob, [1], [classes], axes=[1])
    best = make("argmax")(scores, axis=[1])
    score = make("max")(scores, axis=[1])
    valid = make("greater_equal")(score, const(float(threshold)))
    corners = [_column(anchor, k) for k in range(4)]  # (1, n)
    size = [corners[2] - corners[0], corners[3] - corners[1]]
    middle = [(corners[2] + corners[0]) * const(0.5), (corners[3] + corners[1]) * const(0.5)]
    moves = reshape(loc_pred, [batch, count, 4])
    sides = []
    for axis in range(2):
        at = _column(moves, axis) * const(float(variances[axis])) * size[axis] + middle[axis]
        reach = make("exp")(_column(moves, axis + 2) * const(float(variances[axis + 2]))) * size[axis] * const(0.5)
        sides.append((at - reach, at + reach))
    fields = [_cast(best, "float32"), score, sides[0][0], sides[1][0], sides[0][1], sides[1][1]]
    if clip:
        fields[2:] = [make("clip")(field, a_min=0.0, a_max=1.0) for field in fields[2:]]
    boxes = concatenate([reshape(field, [batch, count, 1]) for field in fields], 2)
    order, number = _valid_first(valid)
    kept = make("less")(_positions(count), reshape(number, [batch, 1]))
    return TupleWrapper(Tuple([_where_row(kept, _gather_rows(boxes, order), -1), number]), 2)


VISION = {function.__name__: function for function in (
    get_valid_counts, non_max_suppression, all_class_non_max_suppression, multibox_prior, multibox_transform_loc)}
