# SPDX-License-Identifier: Apache-2.0
"""Element types: strings such as "float32" with what they mean, and their NumPy counterparts."""
import re
from typing import Any

import ml_dtypes
import numpy as np

_PATTERN = re.compile(r"(?P<code>custom\[\w+\]|[a-z]+?)(?P<bits>\d+)?(?P<format>_[a-z0-9]+?)?(x(?P<lanes>\d+))?$")

_CODES = {"int": 0, "uint": 1, "bool": 1, "float": 2, "handle": 3, "bfloat": 4}

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
    def type_code(self) -> int:
        """The number of the kind of type: DLPack's, or a user's (target.datatype). -1 for float8 and narrower ones."""
        match = _PATTERN.match(self)
        code = match["code"] if match and not match["format"] else ""
        if code.startswith("custom["):
            from . import _core

            return _core.call(_core.get_global("runtime._datatype_get_type_code"), code[len("custom["):-1])
        return _CODES.get(code, -1)

    @property
    def itemsize(self) -> int:
        return (self.bits + 7) // 8 * self.lanes


def to_numpy(name: Any) -> np.dtype:
    """The NumPy dtype of a type's name."""
    name = str(name)
    if name.startswith("custom["):
        from .error import DTypeError

        raise DTypeError(f"NumPy has no type for {name}: cast the tensor first, such as with relay.cast(x, \"float32\")")
    try:
        return _EXTENSION[name] if name in _EXTENSION else np.dtype(name)
    except TypeError:
        from .error import DTypeError

        raise DTypeError(f"there is no element type {name!r}; such as float32, bfloat16, int8 and bool are known") from None


def of_numpy(dtype: Any) -> str:
    """The name of a NumPy dtype; a DTypeError for those that have none, such as strings and records."""
    from .error import DTypeError

    dtype = np.dtype(dtype)
    if dtype.name in _EXTENSION or dtype.kind in "biuf" and dtype.itemsize <= 8:
        return dtype.name
    raise DTypeError(f"arrays of NumPy type {dtype} aren't supported")
