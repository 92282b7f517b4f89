# SPDX-License-Identifier: Apache-2.0
"""Layouts of tensors by name: "NCHW", or "NCHW16c", where 16 channels of each block come last."""
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..error import ShapeError
from ..ir import IntImm, PrimExpr
from .expr import as_expr, floordiv, floormod


class Layout:
    """A layout: axes in order; upper case for whole axes (or what is left of them), lower case with a size for parts."""

    def __init__(self, name: str) -> None:
        self.name = str(name)
        self.axes = [(axis, int(size) if size else None) for size, axis in re.findall(r"(\d*)([A-Za-z])", self.name)]
        if re.sub(r"\d*[A-Za-z]", "", self.name) or not self.axes:
            raise ShapeError(f"layout {self.name!r}: expected letters, lower ones with a size before, such as NCHW16c")
        letters = [axis for axis, _ in self.axes]
        for axis, size in self.axes:
            if letters.count(axis) > 1 or (size is not None) != axis.islower() or (
                    axis.islower() and axis.upper() not in letters):
                raise ShapeError(f"layout {self.name!r}: axis {axis!r} doesn't fit the others")

    def __len__(self) -> int:
        return len(self.axes)

    def __getitem__(self, index: int) -> str:
        return self.axes[index][0]

    def __contains__(self, axis: str) -> bool:
        return any(axis == name for name, _ in self.axes)

    def __eq__(self, other):
        return isinstance(other, Layout) and self.name == other.name

    def __hash__(self):
        return hash(self.name)

    def __str__(self):
        return self.name

    def __repr__(self):
        return f"Layout({self.name})"

    def index_of(self, axis: str) -> int:
        """The position of an axis; -1: it isn't there."""
        return next((i for i, (name, _) in enumerate(self.axes) if name == axis), -1)

    def factor_of(self, axis: str) -> int:
        """The size of the part of an axis; -1: it is whole."""
        return next((size for name, size in self.axes if name == axis.lower() and size), -1)


class BijectiveLayout:
    """How indices and shapes of one layout become those of another."""

    def __init__(self, src_layout: str | Layout, dst_layout: str | Layout) -> None:
        self.src_layout, self.dst_layout = (each if isinstance(each, Layout) else Layout(each)
                                            for each in (src_layout, dst_layout))
        for ours, other in ((self.src_layout, self.dst_layout), (self.dst_layout, self.src_layout)):
            for axis, _ in ours.axes:
                if axis.upper() not in other:
                    raise ShapeError(f"layout {ours} has axis {axis.upper()}, layout {other} hasn't")

    @staticmethod
    def _index(values, source, target):
        if len(values) != len(source):
            raise ShapeError(f"layout {source} has {len(source)} axes, not {len(values)}")
        whole = {}
        for (axis, _), value in zip(source.axes, values):
            value = as_expr(value)
            if axis.isupper():
                whole[axis] = value * source.factor_of(axis) + whole.get(axis, 0) if source.factor_of(axis) > 0 else value
            else:
                whole[axis.upper()] = whole.get(axis.upper(), 0) + value
        result = []
        for axis, size in target.axes:
            index = whole[axis.upper()]
            factor = target.factor_of(axis)
            result.append(floormod(index, size) if size else floordiv(index, factor) if factor > 0 else index)
        return result

    @staticmethod
    def _shape(shape, source, target):
        if len(shape) != len(source):
            raise ShapeError(f"layout {source} has {len(source)} axes, not {len(shape)}")
        whole = {}
        for (axis, size), value in zip(source.axes, shape):
            if size is not None and isinstance(value, (int, IntImm)) and int(value) != size:
                raise ShapeError(f"layout {source}: axis {axis} has {size} elements, not {value}")
            if axis.isupper():
                factor = source.factor_of(axis)
                whole[axis] = value * factor if factor > 0 else value
        result = []
        for axis, size in target.axes:
            factor, value = target.factor_of(axis), whole[axis.upper()]
            result.append(size if size else floordiv(as_expr(value), factor) if factor > 0 else value)
        return [value if isinstance(value, (int, PrimExpr)) else int(value) for value in result]

    def forward_index(self, index: Sequence[Any]) -> list[Any]:
        """The index in the second layout."""
        return self._index(index, self.src_layout, self.dst_layout)

    def backward_index(self, index: Sequence[Any]) -> list[Any]:
        """The index in the first layout."""
        return self._index(index, self.dst_layout, self.src_layout)

    def forward_shape(self, shape: Sequence[Any]) -> list[Any]:
        """The shape in the second layout."""
        return self._shape(shape, self.src_layout, self.dst_layout)

    def backward_shape(self, shape: Sequence[Any]) -> list[Any]:
        """The shape in the first layout."""
        return self._shape(shape, self.dst_layout, self.src_layout)


def layout(layout_str: str | Layout) -> Layout:
    """A Layout by name."""
    return Layout(layout_str)


def bijective_layout(src_layout: str | Layout, dst_layout: str | Layout) -> BijectiveLayout:
    """A BijectiveLayout of two names."""
    return BijectiveLayout(src_layout, dst_layout)
