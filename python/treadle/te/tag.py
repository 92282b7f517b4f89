# SPDX-License-Identifier: Apache-2.0
"""Tags: names that computations made within a scope get."""
from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

_current = threading.local()

ELEMWISE, BROADCAST, INJECTIVE = "elemwise", "broadcast", "injective"
COMM_REDUCE, COMM_REDUCE_IDX = "comm_reduce", "comm_reduce_idx"


def is_broadcast(tag: str) -> bool:
    """Whether a computation of that tag is element-wise or a broadcast."""
    return tag in (ELEMWISE, BROADCAST) or tag.startswith((ELEMWISE, BROADCAST))


def is_injective(tag: str) -> bool:
    """Whether each element of a computation of that tag reads one of each operand."""
    return is_broadcast(tag) or tag.startswith(INJECTIVE)


class TagScope:
    """With `with`: operations made inside get the tag. As a decorator: those made by the function."""

    def __init__(self, tag: str) -> None:
        self.tag = tag

    def __enter__(self) -> TagScope:
        if getattr(_current, "tag", None) is not None:
            raise ValueError(f"tag scopes can't be nested: inside '{_current.tag}', '{self.tag}' begins")
        _current.tag = self.tag
        return self

    def __exit__(self, *error: object) -> None:
        _current.tag = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def tagged(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return tagged


def tag_scope(tag: str) -> TagScope:
    """A scope in which operations get the tag."""
    return TagScope(tag)


def resolve(tag: str) -> str:
    """The tag of an operation: its own, or that of the scope."""
    current = getattr(_current, "tag", None)
    if current is not None and tag:
        raise ValueError(f"the operation has the tag '{tag}', the scope around it '{current}'; only one can be")
    return tag or current or ""
