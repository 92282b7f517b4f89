# SPDX-License-Identifier: Apache-2.0
"""What nodes of all IRs share: text, JSON, structural equality. Classes of nodes are in the other files."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core import Object
from .._ffi import Api, get_global_func

_api = Api("ir")


class Node(Object):
    """Base of the IR's nodes."""

    def __str__(self) -> str:
        return as_text(self, header=False)

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        """Nodes are pickled and copied as JSON."""
        return load_json, (save_json(self),)

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """The node as text; with `show_meta_data` also the constants that the text refers to."""
        return as_text(self, show_meta_data)

    def script(self, *args: Any, **kwargs: Any) -> str:
        """The node as `print` shows it."""
        return str(self)

    def show(self, *args: Any, **kwargs: Any) -> None:
        """Prints the node."""
        print(self)


def as_text(node: Any, show_meta_data: bool = False, header: bool = True) -> str:
    """A node's text form, or its fields when it has none."""
    text = _api.AsText(node, show_meta_data) if header else _api.PrettyPrint(node)
    if text:
        return text
    fields = ", ".join(f"{name}={getattr(node, name)!r}" for name in node._field_names() if name != "span")
    return f"{node._type_key()}({fields})"


def save_json(node: Any) -> str:
    """The node and all that it refers to as JSON."""
    return get_global_func("node.SaveJSON")(node)


def load_json(text: str) -> Any:
    """The inverse of save_json."""
    return get_global_func("node.LoadJSON")(text)


def make_node(type_key: str, **kwargs: Any) -> Any:
    """A node of a class by its name, such as "IntImm" or "relay.attrs.Conv2DAttrs", from its fields."""
    if type_key == "DictAttrs":
        return _api.DictAttrs(kwargs)
    if type_key.startswith("relay.attrs.") or type_key.startswith("attrs."):
        return _api.MakeAttrs(type_key, kwargs, f"make_node({type_key})")
    maker = get_global_func(f"ir.{type_key}", allow_missing=True) or get_global_func(type_key, allow_missing=True)
    if maker is None:
        raise ValueError(f"make_node: nodes of class {type_key} aren't made from fields; call the class itself")
    return maker(*[value for name, value in kwargs.items() if name != "span"])


class EnvFunc:
    """A registered function by its name."""

    def __init__(self, name: str, func: Callable[..., Any]) -> None:
        self.name, self.func = name, func

    @staticmethod
    def get(name: str) -> EnvFunc:
        """The function registered as `name`."""
        return EnvFunc(name, get_global_func(name))

    def __call__(self, *args: Any) -> Any:
        return self.func(*args)

    def __eq__(self, other):
        return isinstance(other, EnvFunc) and self.name == other.name

    def __hash__(self):
        return hash(self.name)

    def __repr__(self):
        return f"EnvFunc({self.name})"


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False, tolerance: float = 1e-9) -> bool:
    """Whether two terms are equal up to the names of what they bind. Floating-point attributes are equal when they
    differ by less than `tolerance`; with 0, equal terms have equal hashes."""
    return bool(_api.StructuralEqualWithin(lhs, rhs, map_free_vars, float(tolerance)))


def structural_difference(lhs: Any, rhs: Any, map_free_vars: bool = False) -> str:
    """The path to the first difference of two terms; "" when they are equal."""
    return _api.StructuralDifference(lhs, rhs, map_free_vars)


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False, tolerance: float = 1e-9) -> None:
    """Raises ValueError with the place of the first difference unless the terms are equal."""
    if not structural_equal(lhs, rhs, map_free_vars, tolerance):
        difference = structural_difference(lhs, rhs, map_free_vars)
        raise ValueError(f"the terms differ at {difference}\n\n{lhs}\n\n{rhs}")


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """Equal for equal terms, the same in each process."""
    return _api.StructuralHash(node, map_free_vars) & 0xFFFFFFFFFFFFFFFF
