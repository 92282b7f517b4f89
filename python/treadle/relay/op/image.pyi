# SPDX-License-Identifier: Apache-2.0
# Written by tools/docs/op_stubs.py.
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from treadle._typing import DTypeLike, ExprLike
from treadle.relay.expr import Expr, TupleWrapper

Sizes = int | Expr | Sequence[int | Expr]


def affine_grid(data: ExprLike, target_shape: Sizes) -> Expr:
    """The grid of an affine map."""

def crop_and_resize(data: ExprLike, boxes: ExprLike, box_indices: ExprLike, crop_size: ExprLike, layout: str = 'NCHW',
        method: str = 'bilinear', extrapolation_value: int = 0, out_dtype: DTypeLike | None = None) -> Expr:
    """Parts of pictures at another size. boxes: (count, 4), (y1, x1, y2, x2) of 1; box_indices: the picture of
    each."""

def dilation2d(data: ExprLike, weight: ExprLike, strides: Sizes = (1, 1), padding: Sizes = (0, 0),
        dilations: Sizes = (1, 1), data_layout: str = 'NCHW', kernel_layout: str = 'IHW', out_dtype: str = '') -> Expr:
    """Grayscale dilation: the largest sum of an element of each window and the weight there, by channel."""

def grid_sample(data: ExprLike, grid: ExprLike, method: str = 'bilinear', layout: str = 'NCHW',
        padding_mode: str = 'zeros', align_corners: bool = True) -> Expr:
    """Samples an image at positions given by a grid."""

def resize1d(data: ExprLike, size: ExprLike, roi: Any = None, layout: str = 'NCW', method: str = 'linear',
        coordinate_transformation_mode: str = 'half_pixel', rounding_method: str = '', cubic_alpha: float = ...,
        cubic_exclude: int = 0, extrapolation_value: float = ..., out_dtype: DTypeLike | None = None) -> Expr:
    """A row at another size."""

def resize2d(data: ExprLike, size: ExprLike, roi: Any = None, layout: str = 'NCHW', method: str = 'linear',
        coordinate_transformation_mode: str = 'half_pixel', rounding_method: str = '', cubic_alpha: float = ...,
        cubic_exclude: int = 0, extrapolation_value: float = ..., out_dtype: DTypeLike | None = None) -> Expr:
    """A picture at another size."""

def resize3d(data: ExprLike, size: ExprLike, roi: Any = None, layout: str = 'NCDHW', method: str = 'linear',
        coordinate_transformation_mode: str = 'half_pixel', rounding_method: str = '', cubic_alpha: float = ...,
        cubic_exclude: int = 0, extrapolation_value: float = ..., out_dtype: DTypeLike | None = None) -> Expr:
    """A volume at another size."""
