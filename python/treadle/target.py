# SPDX-License-Identifier: Apache-2.0
"""What code is generated for."""
from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._ffi import Api, register_object
from .error import TargetError
from .ir import Node

if TYPE_CHECKING:
    from ._core import Device
    from ._typing import TargetLike

_api = Api("target")
_scopes = threading.local()
_tags: dict = {}


class TargetKind(str):
    """The name of a kind of target, such as "llvm"."""

    @property
    def name(self) -> str:
        return str(self)


def _text(target):
    """The string form of what describes a target: a string, a target, or a dict of its kind and options."""
    if isinstance(target, str) and target.lstrip().startswith("{"):
        try:
            target = json.loads(target)
        except ValueError as error:
            raise TargetError(f"a target given as JSON can't be read: {error}") from None
    if isinstance(target, str):
        name, _, more = target.strip().partition(" ")
        return f"{_tags[name]} {more}".strip() if name in _tags else target
    if isinstance(target, Target):
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

    def __init__(self, target: TargetLike, host: TargetLike | None = None) -> None:
        made = target if isinstance(target, Target) else _api.Target(_text(target))
        if host is not None:
            made = _api.WithHost(made, host if isinstance(host, Target) else _api.Target(_text(host)))
        super().__init__(made)

    def __getattr__(self, name):
        if name == "kind":
            return TargetKind(super().__getattr__(name))
        if name == "device_name":
            return str(self.attrs.get("device", ""))
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

    def __enter__(self) -> Target:
        if not hasattr(_scopes, "stack"):
            _scopes.stack = []
        _scopes.stack.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _scopes.stack.pop()

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The target of the innermost `with` of this thread."""
        stack = getattr(_scopes, "stack", None)
        if stack:
            return stack[-1]
        if not allow_none:
            raise TargetError("there is no current target: use it inside `with Target(...):`")
        return None

    @staticmethod
    def from_device(device: Device | str) -> Target:
        """The target of a device of this machine."""
        from . import nd

        device = nd.device(device) if isinstance(device, str) else device
        kinds = {1: "llvm -mcpu=native", 4: "opencl"}
        if device.device_type not in kinds:
            raise TargetError(f"no target compiles for {device}; there are those for cpu and opencl")
        return Target(kinds[device.device_type])

    def with_host(self, host: TargetLike) -> Target:
        """The target with that host."""
        return Target(self, host)

    def export(self) -> dict[str, Any]:
        """The target as a dict: kind, keys and options."""
        found: dict[str, Any] = {"kind": str(self.kind), "keys": [str(key) for key in self.keys], "tag": str(self.tag)}
        found.update({str(key): str(value) for key, value in self.attrs.items()})
        if self.host is not None:
            found["host"] = Target(self.host).export()
        return found

    @staticmethod
    def list_kinds() -> list[str]:
        """Names of all kinds of targets."""
        return list(list_kinds())

    def __str__(self) -> str:
        return _api.AsText(self)

    __repr__ = __str__


def create(target: TargetLike) -> Target:
    """The target of that description."""
    return Target(target)


def list_kinds() -> dict[str, str]:
    """Names of all kinds of targets, with one line about each."""
    return dict(_api.ListKinds().items())


def list_options(kind: str) -> dict[str, dict[str, str]]:
    """The options of a kind of target: for each name its "type" (text, integer, flag, list, target), what values are
    "expected", and a line about it, "doc"."""
    return {str(row["name"]): {key: str(row[key]) for key in ("type", "expected", "doc")}
            for row in _api.ListOptions(str(kind))}


def register_tag(name: str, config: TargetLike, override: bool = False) -> Target:
    """Gives a target a name: Target(name) is the one that `config`, a text or a dict, describes."""
    if (name in _tags or name in _builtin_tags()) and not override:
        raise TargetError(f"there is a target called '{name}' already")
    if not name or any(c in name for c in " -='\""):
        raise TargetError(f"a target can't be called '{name}'")
    made = Target(config)
    _tags[name] = str(made)
    return made


def list_tags() -> dict[str, Target]:
    """Names of machines, such as "aws/cpu/c5.large" and "raspberry-pi/4b-aarch64", and those that register_tag gave, with
    their targets."""
    return {name: Target(text) for name, text in {**_builtin_tags(), **_tags}.items()}


def _builtin_tags():
    return {str(name): str(text) for name, text in _api.ListTags().items()}


def _options(options):
    return " " + " ".join([options] if isinstance(options, str) else options) if options else ""


def _opencl(device):
    def make(model="unknown", options=None):
        return Target(f"opencl -device={device} -model={model}{_options(options)}")

    make.__name__ = make.__qualname__ = device
    make.__doc__ = f"OpenCL on {device}."
    return make


mali, bifrost, intel_graphics = (_opencl(device) for device in ("mali", "bifrost", "intel_graphics"))


def arm_cpu(model: str = "unknown", options: str | Sequence[str] | None = None) -> Target:
    """64-bit ARM processors (32-bit ones aren't supported)."""
    if model in ("pynq", "rasp3b", "rasp4b", "ultra96", "beagleai"):
        raise TargetError(f"{model} runs 32-bit ARM code, which no target generates; there is code for aarch64")
    return Target(f"llvm -keys=arm_cpu,cpu -device=arm_cpu -mtriple=aarch64-linux-gnu -mattr=+neon -model={model}"
                  f"{_options(options)}")


def _absent(kind):
    def make(*_, **__):
        raise TargetError(f"there is no target {kind}; there are: {', '.join(list_kinds())}")

    make.__name__ = make.__qualname__ = kind
    make.__doc__ = f"Refused: no code is generated for {kind}."
    return make


cuda, rocm, hexagon, vulkan, metal = (_absent(kind) for kind in ("cuda", "rocm", "hexagon", "vulkan", "metal"))


class GenericFunc:
    """A function with others for some targets: the one is called whose key the current target has first."""

    def __init__(self, function: Callable[..., Any] | None = None, name: str = "generic") -> None:
        self.fdefault = function
        self.dispatch_dict: dict[str, Callable[..., Any]] = {}
        self.__name__, self.__doc__ = getattr(function, "__name__", name), getattr(function, "__doc__", None)

    def set_default(self, func: Callable[..., Any], allow_override: bool = False) -> None:
        """Says what is called for other targets."""
        if self.fdefault is not None and not allow_override:
            raise TargetError(f"{self.__name__} has a default function already")
        self.fdefault = func

    def register(self, key: Any, func: Callable[..., Any] | None = None, override: bool = False) -> Any:
        """Adds a function for targets with a key, or one of several; without `func` a decorator. The function may stand
        before the keys, too."""
        if callable(key):
            key, func = func, key
        if func is None:
            return lambda function: self.register(key, function, override)
        for each in [key] if isinstance(key, str) else key:
            if each in self.dispatch_dict and not override:
                raise TargetError(f"{self.__name__} has a function for '{each}' already")
            self.dispatch_dict[each] = func
        return func

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        current = Target.current()
        for key in [str(key) for key in current.keys] if current is not None else []:
            if key in self.dispatch_dict:
                return self.dispatch_dict[key](*args, **kwargs)
        if self.fdefault is None:
            raise TargetError(f"{self.__name__} has no function for {current or 'no target'}, and no default")
        return self.fdefault(*args, **kwargs)


_generics: dict[str, GenericFunc] = {}


def get_native_generic_func(name: str) -> GenericFunc:
    """The GenericFunc of that name; a new one, without a default, where there is none."""
    return _generics.setdefault(name, GenericFunc(name=name))


def override_native_generic_func(func_name: str) -> Callable[[Callable[..., Any]], GenericFunc]:
    """Decorator: makes a function the default of the GenericFunc of that name."""

    def decorate(fdefault):
        generic = get_native_generic_func(func_name)
        generic.set_default(fdefault, allow_override=True)
        return generic

    return decorate


def generic_func(fdefault: Callable[..., Any]) -> GenericFunc:
    """Decorator: a GenericFunc with this function as the default."""
    return GenericFunc(fdefault)
