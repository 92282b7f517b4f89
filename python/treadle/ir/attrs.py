# SPDX-License-Identifier: Apache-2.0
"""Attributes of calls, functions and modules."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._ffi import register_object
from ..error import Error
from .base import Node, _api


@register_object("Attrs")
class Attrs(Node):
    """Attributes of an operator's call."""

    def keys(self) -> Iterable[str]:
        return self._field_names()

    def get_int(self, key: str) -> int:
        return int(getattr(self, key))

    def get_str(self, key: str) -> str:
        return str(getattr(self, key))

    def get_int_tuple(self, key: str) -> tuple[int, ...]:
        return tuple(int(item) for item in getattr(self, key))

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __contains__(self, key: object) -> bool:
        return any(key == known for known in self.keys())


@register_object("DictAttrs")
class DictAttrs(Attrs):
    """Attributes of functions and modules."""

    def __init__(self, items: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        super().__init__(_api.DictAttrs(dict(items)))

    def keys(self) -> Iterable[str]:
        return self.dict.keys()

    def __getitem__(self, key: str) -> Any:
        return self.dict[key]

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names with their values."""
        return self.dict.items()

    def get(self, key: str, default: Any = None) -> Any:
        return self.dict.get(key, default)


def make_attrs(type_key: str, values: Mapping[str, Any], what: str) -> Attrs | None:
    """A call's attributes from names and values."""
    if not type_key:
        if values:
            raise Error(f"{what} takes no attributes, got {', '.join(values)}")
        return None
    return _api.MakeAttrs(type_key, values, what)
