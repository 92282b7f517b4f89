# SPDX-License-Identifier: Apache-2.0
"""Functions by name, nodes and modules: everything that the rest of the package is built on."""
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from . import _core
from ._core import Object

_C = TypeVar("_C", bound=type)


def register_object(type_key: str) -> Callable[[_C], _C]:
    """Class decorator: nodes of type `type_key` are instances of the class, which derives from Object."""

    def register(cls: _C) -> _C:
        _core.register_object(type_key, cls)
        return cls

    return register


@register_object("runtime.PackedFunc")
class PackedFunc(Object):
    """A function that C++, compiled code or Python provides."""

    def __init__(self, function: Any) -> None:
        super().__init__(_core.to_function(function))

    # Functions of modules may write to NumPy arrays that they get; others get copies, which they may keep.
    writes_arrays = False

    def __call__(self, *args: Any) -> Any:
        if self.writes_arrays and any(type(a).__name__ == "ndarray" for a in args):
            from ._nd import argument

            args = tuple(argument(i, a) for i, a in enumerate(args))
        return _core.call(self, *args)


@register_object("runtime.Array")
class Array(Object):
    """A sequence that can't be changed."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(_core.convert(list(items)))

    def __len__(self) -> int:
        return _core.array_size(self)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        index = index.__index__()
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} of an array of {len(self)}")
        return _core.array_item(self, index)

    def __iter__(self) -> Iterator[Any]:
        return (_core.array_item(self, i) for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Array) and self.same_as(other):
            return True
        if not isinstance(other, (Array, list, tuple)):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = Object.__hash__

    def __repr__(self) -> str:
        return "[" + ", ".join(map(repr, self)) + "]"


@register_object("runtime.Map")
class Map(Object):
    """A mapping that can't be changed; strings are equal by value, other keys by identity."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(_core.convert(dict(items)))

    def __len__(self) -> int:
        return _core.map_size(self)

    def __getitem__(self, key: Any) -> Any:
        return _core.map_item(self, key)

    def __contains__(self, key: object) -> bool:
        try:
            _core.map_item(self, key)
        except KeyError:
            return False
        return True

    def get(self, key: Any, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def items(self) -> list[tuple[Any, Any]]:
        return _core.map_items(self)

    def keys(self) -> list[Any]:
        return [key for key, _ in self.items()]

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key!r}: {value!r}" for key, value in self.items()) + "}"


convert: Callable[[Any], Any] = _core.convert


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """The function registered as `name`."""
    if not isinstance(name, str):
        raise TypeError(f"get_global_func: expected the name of a function, not {name!r}")
    function = _core.get_global(name)
    if function is None and not allow_missing:
        _core.require_global(name)  # raises, with similar names
    return function


def register_func(name: Any, function: Any = None, override: bool = False) -> Any:
    """Registers a function under a name; also a decorator: @register_func("name")."""
    if callable(name):  # @register_func without arguments
        _core.register_global(name.__name__, name, override)
        return name

    if not isinstance(name, str):
        raise TypeError(f"register_func: expected the name of a function, or a function, not {name!r}")

    def register(function: Any) -> Any:
        _core.register_global(name, function, override)
        return function

    return register if function is None else register(function)


def remove_global_func(name: str) -> None:
    """Takes a function out of the registry."""
    _core.remove_global(name)


def list_global_func_names() -> list[str]:
    """The names of all registered functions."""
    return _core.list_globals()


class Api:
    """The functions registered under a prefix, as attributes: Api("relay._transform").FuseOps."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    @functools.cached_property
    def _functions(self) -> dict[str, Any]:
        return {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        functions = self._functions
        if name not in functions:
            functions[name] = get_global_func(f"{self._prefix}.{name}")
        return functions[name]
