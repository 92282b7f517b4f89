# SPDX-License-Identifier: Apache-2.0
"""What code is generated for."""
import json
import threading

from ._ffi import Api, register_object
from .error import TargetError
from .ir import Node

_api = Api("target")
_scopes = threading.local()


class TargetKind(str):
    """The name of a kind of target, such as "llvm"."""

    @property
    def name(self):
        return str(self)


def _text(target):
    """The string form of what describes a target: a string, a target, or a dict of its kind and options."""
    if isinstance(target, str) and target.lstrip().startswith("{"):
        try:
            target = json.loads(target)
        except ValueError as error:
            raise TargetError(f"a target given as JSON can't be read: {error}") from None
    if isinstance(target, (str, Target)):
        return str(target)
    if not isinstance(target, dict):
        raise TargetError(f"a target is given as a string, a dict or a Target, not as {type(target).__name__}")
    options = dict(target)
    if not isinstance(options.get("kind"), str):
        raise TargetError('a target given as a dict needs "kind", such as "llvm"')
    parts = [options.pop("kind")]
    for key, value in options.items():
        if isinstance(value, bool):
            value = int(value)
        elif isinstance(value, (list, tuple)):
            value = ",".join(str(v) for v in value)
        elif isinstance(value, (dict, Target)):
            value = f"'{_text(value)}'"
        parts.append(f"-{key}={value}")
    return " ".join(parts)


@register_object("Target")
class Target(Node):
    """A kind of backend with options, such as "llvm -mcpu=x86-64-v3". With `with`: what is built inside is for it."""

    def __init__(self, target, host=None):
        made = target if isinstance(target, Target) else _api.Target(_text(target))
        if host is not None:
            made = _api.WithHost(made, host if isinstance(host, Target) else _api.Target(_text(host)))
        super().__init__(made)

    def __getattr__(self, name):
        if name == "kind":
            return TargetKind(super().__getattr__(name))
        try:
            return super().__getattr__(name)
        except AttributeError:
            kinds = [super().__getattr__("kind"), *list_kinds()]
            option = next((found for found in (list_options(kind).get(name) for kind in kinds) if found), None)
            if option is None:
                raise
        value = self.attrs.get(name)
        if option["type"] == "list":
            return [] if value is None else str(value).split(",")
        if value is None:
            return "unknown" if name == "model" else ""
        return int(str(value)) if option["type"] in ("integer", "flag") else str(value)

    def __enter__(self):
        if not hasattr(_scopes, "stack"):
            _scopes.stack = []
        _scopes.stack.append(self)
        return self

    def __exit__(self, *error):
        _scopes.stack.pop()

    @staticmethod
    def current(allow_none=True):
        """The target of the innermost `with` of this thread."""
        stack = getattr(_scopes, "stack", None)
        if stack:
            return stack[-1]
        if not allow_none:
            raise TargetError("there is no current target: use it inside `with Target(...):`")
        return None

    @staticmethod
    def list_kinds():
        """Names of all kinds of targets."""
        return list(list_kinds())

    def __str__(self):
        return _api.AsText(self)

    __repr__ = __str__


def create(target):
    """The target of that description."""
    return Target(target)


def list_kinds():
    """Names of all kinds of targets, with one line about each."""
    return dict(_api.ListKinds().items())


def list_options(kind):
    """The options of a kind of target: for each name its "type" (text, integer, flag, list, target), what values are
    "expected", and a line about it, "doc"."""
    return {str(row["name"]): {key: str(row[key]) for key in ("type", "expected", "doc")}
            for row in _api.ListOptions(str(kind))}
