# SPDX-License-Identifier: Apache-2.0
"""Element types: strings such as "float32" with what they mean, and their NumPy counterparts."""
import re
from typing import Any

import ml_dtypes
import numpy as np

_PATTERN = re.compile(r"(?P<code>[a-z]+?)(?P<bits>\d+)?(?P<format>_[a-z0-9]+?)?(x(?P<lanes>\d+))?$")

# Types that NumPy has through ml_dtypes.
_EXTENSION = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e3m4",
                 "float8_e4m3", "float8_e4m3b11fnuz", "float8_e8m0fnu", "int4", "uint4", "int2", "uint2",
                 "float4_e2m1fn")
    if hasattr(ml_dtypes, name)
}


class DataType(str):
    """An element type. Equal to its name, so that `x.dtype == "float32"` reads as it should."""

    __slots__ = ()

    def __new__(cls, name: Any) -> "DataType":
        return super().__new__(cls, name if isinstance(name, str) else of_numpy(name))

    @property
    def bits(self) -> int:
        if self == "bool":
            return 1
        match = _PATTERN.match(self)
        return int(match["bits"]) if match and match["bits"] else (64 if self == "handle" else 0)

    @property
    def lanes(self) -> int:
        match = _PATTERN.match(self)
        return int(match["lanes"]) if match and match["lanes"] else 1

    @property
    def element(self) -> "DataType":
        """The type of one lane."""
        return DataType(self[:self.rindex("x")]) if self.lanes > 1 else self

    @property
    def itemsize(self) -> int:
        return (self.bits + 7) // 8 * self.lanes


def to_numpy(name: Any) -> np.dtype:
    """The NumPy dtype of a type's name."""
    name = str(name)
    return _EXTENSION[name] if name in _EXTENSION else np.dtype(name)


def of_numpy(dtype: Any) -> str:
    """The name of a NumPy dtype; a DTypeError for those that have none, such as strings and records."""
    from .error import DTypeError

    dtype = np.dtype(dtype)
    if dtype.name in _EXTENSION or dtype.kind in "biuf" and dtype.itemsize <= 8:
        return dtype.name
    raise DTypeError(f"arrays of NumPy type {dtype} aren't supported")
