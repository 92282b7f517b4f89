# SPDX-License-Identifier: Apache-2.0
# Written by tools/docs/op_stubs.py.
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from treadle._typing import DTypeLike, ExprLike
from treadle.relay.expr import Expr, TupleWrapper

Sizes = int | Expr | Sequence[int | Expr]


def all_class_non_max_suppression(boxes: ExprLike, scores: ExprLike, max_output_boxes_per_class: int = -1,
        iou_threshold: float = ..., score_threshold: float = ..., output_format: str = 'onnx') -> TupleWrapper:
    """(rows of batch, class, box of all that are kept; how many rows), of boxes (batch, n, 4) and scores
    (batch, classes, n). How many there are is only known when it runs."""

def get_valid_counts(data: ExprLike, score_threshold: ExprLike, id_index: int = 0, score_index: int = 1
        ) -> TupleWrapper:
    """(number of boxes whose score is above the threshold, (batch,); the boxes, these first, others -1; their
    numbers in data). data: (batch, n, 5 or 6)."""

def keep_boxes(boxes: ExprLike, classes: ExprLike, eligible: ExprLike, iou_threshold: float = ...,
        max_output_size: int = -1, force_suppress: bool = False) -> Expr:
    """Non-maximum suppression of boxes that are sorted: 1 where a box is kept, and how many are."""

def multibox_prior(data: ExprLike, sizes: Any = ..., ratios: Any = ..., steps: Any = ..., offsets: Any = ...,
        clip: bool = False) -> Expr:
    """Boxes around each element of a feature map (batch, channels, height, width): a constant (1, boxes, 4)."""

def multibox_transform_loc(cls_prob: ExprLike, loc_pred: ExprLike, anchor: ExprLike, clip: bool = True,
        threshold: float = ..., variances: Any = ...) -> Expr:
    """(boxes (batch, n, 6): class, score, corners, those of a class first, others -1; how many), of
    probabilities (batch, classes, n), of which class 0 is the background, offsets (batch, 4 n) and anchors (1,
    n, 4)."""

def non_max_suppression(data: ExprLike, valid_count: ExprLike, indices: ExprLike, max_output_size: int = -1,
        iou_threshold: float = ..., force_suppress: bool = False, top_k: int = -1, coord_start: int = 2,
        score_index: int = 1, id_index: int = 0, return_indices: bool = True, invalid_to_bottom: bool = False
        ) -> Expr | TupleWrapper:
    """Boxes without those that overlap a better one of their class. data: (batch, n, 5 or 6), of which the
    first valid_count are boxes. With return_indices: their numbers by `indices`, those kept first, others -1,
    and how many; else the boxes by score, those dropped -1 (with invalid_to_bottom behind the others)."""

def proposal(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: vision.multibox_transform_loc decodes boxes, vision.non_max_suppression chooses them."""

def roi_align(data: ExprLike, rois: ExprLike, pooled_size: Sizes, spatial_scale: float = ..., sample_ratio: int = -1,
        layout: str = 'NCHW', mode: str = 'avg', aligned: bool = False) -> Expr:
    """Bilinear samples of each box, pooled to a grid."""

def roi_pool(data: ExprLike, rois: ExprLike, pooled_size: Sizes, spatial_scale: float = ..., layout: str = 'NCHW'
        ) -> Expr:
    """The greatest elements of the parts of each box."""

def yolo_reorg(data: ExprLike, stride: int = 1) -> Expr:
    """Blocks of pixels become channels."""
