# SPDX-License-Identifier: Apache-2.0
"""Passes over modules and the context they run in."""
from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .._arguments import suggest
from .._ffi import Api, Array, register_object
from .base import Node

if TYPE_CHECKING:
    from .module import IRModule

_api = Api("transform")


@register_object("transform.PassInfo")
class PassInfo(Node):
    """Name, level and required passes of a pass.

    The level is that of the context from which a Sequential runs the pass; the required passes run before it.
    """

    name: str
    opt_level: int
    required: Array

    def __init__(self, opt_level: int, name: str, required: Iterable[str] | None = None) -> None:
        super().__init__(_api.PassInfo(opt_level, name, list(required or [])))

    def __str__(self) -> str:
        return f"PassInfo({self.name}, opt_level={self.opt_level}, required={list(self.required)})"

    __repr__ = __str__


@register_object("transform.PassContext")
class PassContext(Node):
    """Options of a compilation; a context manager.

    opt_level: passes above it are skipped. required_pass, disabled_pass: names. config: options of passes by name (see
    list_configs). instruments: objects of treadle.instrument, or of classes marked with its pass_instrument, that watch
    the passes.
    """

    def __init__(self, opt_level: int = 2, required_pass: Sequence[str] | None = None,
                 disabled_pass: Sequence[str] | None = None, instruments: Sequence[Any] | None = None,
                 config: dict[str, Any] | None = None) -> None:
        for what, names in (("required_pass", required_pass), ("disabled_pass", disabled_pass)):
            if not isinstance(names if names is not None else [], (list, tuple)):
                raise TypeError(f"{what} must be a list of names of passes, not {names!r}")
            for name in names or []:
                # A pass of the caller's own has a name that isn't listed: only what looks like a slip is told.
                if name not in (known := list_pass_names()) and (meant := suggest(name, known)):
                    warnings.warn(f"{what}: there is no pass '{name}'{meant}", stacklevel=2)
        if config is not None and not isinstance(config, dict):
            raise TypeError("config must be a dict from names of options to values")
        super().__init__(_api.PassContext(opt_level, list(required_pass or []), list(disabled_pass or []),
                                          dict(config or {}), list(instruments or [])))

    def __enter__(self) -> PassContext:
        _api.EnterPassContext(self)
        _entered.depth = getattr(_entered, "depth", 0) + 1
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        _entered.depth -= 1
        _api.ExitPassContext(self)

    @property
    def instruments(self) -> list[Any]:
        """What watches the passes."""
        return list(_api.ContextInstruments(self))

    def override_instruments(self, instruments: Sequence[Any] | None) -> None:
        """Leaves the instruments of the context and enters these in their place. Outside of `with`, current() is a context
        that lasts as long as the thread."""
        _api.OverrideInstruments(self, list(instruments or []))

    @staticmethod
    def current() -> PassContext:
        """The innermost context of this thread."""
        return _api.GetCurrentPassContext()

    @staticmethod
    def list_configs() -> dict[str, dict[str, str]]:
        """The options that a context may have: a dict from name to {"type": .., "doc": ..}."""
        return {key: dict(info.items()) for key, info in _api.ListConfigs().items()}


_entered = threading.local()


def _enclosing() -> PassContext | None:
    """The innermost context that this thread is in."""
    return PassContext.current() if getattr(_entered, "depth", 0) else None


@register_object("transform.Pass")
class Pass(Node):
    """A function from modules to modules; what goes in stays as it is."""

    @property
    def info(self) -> PassInfo:
        """The pass's PassInfo."""
        return _api.Info(self)

    @property
    def name(self) -> str:
        return self.info.name

    def __call__(self, mod: IRModule) -> IRModule:
        return _api.RunPass(self, mod)

    def __str__(self) -> str:
        return f"Pass({self.name})"

    __repr__ = __str__


@register_object("transform.ModulePass")
class ModulePass(Pass):
    """A pass that sees the whole module."""


@register_object("transform.Sequential")
class Sequential(Pass):
    """Passes that run in order, as far as the context enables them, each after those it requires."""

    def __init__(self, passes: Iterable[Pass] | None = None, opt_level: int = 0, name: str = "sequential",
                 required: Sequence[str] | None = None, traceable: bool = False) -> None:
        if passes is not None and not hasattr(passes, "__iter__"):
            raise TypeError(f"passes must be a list of Pass objects, not {passes!r}")
        passes = [] if passes is None else list(passes)
        for each in passes:
            if not isinstance(each, Pass):
                raise TypeError(f"passes must be a list of Pass objects; {each!r} is none")
        required = [] if required is None else required
        if not isinstance(required, (list, tuple)):
            raise TypeError("required must be a list of names of passes")
        super().__init__(_api.Sequential(passes, name, opt_level, list(required)))
        self.passes = passes


def get_pass(name: str) -> Pass:
    """The pass called `name`, with its default options."""
    return _api.GetPass(name)


def list_pass_names() -> list[str]:
    """The names of all passes that can be required or disabled by name."""
    return list(_api.ListPassNames())


def make_pass_decorator(method: str, build: Callable[..., Any], base: type) -> Callable[..., Any]:
    """A decorator of functions and of classes with `method`. `build(run, info)` makes the pass, an object of `base`.

    A decorated class stays a class: its instances are passes, and have the attributes and methods of the original.
    """

    def decorator(pass_func=None, opt_level=None, name=None, required=None, traceable=False):
        if opt_level is None and pass_func is None:
            raise ValueError("please give the opt_level of the pass")
        required = required or []
        if not isinstance(required, (list, tuple)):
            raise TypeError(f"required must be a list of names of passes, got {type(required).__name__}")

        def make(target):
            if not callable(target):
                raise TypeError(f"a pass is made of a function or a class, not of {type(target).__name__}")
            info = PassInfo(opt_level or 0, name or getattr(target, "__name__", type(target).__name__), required)
            if inspect.isclass(target):
                return _pass_class(target, method, lambda run: build(run, info), base)
            return base(build(target, info))

        return make if pass_func is None else make(pass_func)

    return decorator


def _pass_class(target, method, build, base):
    if not hasattr(target, method):
        raise AttributeError(f"class {target.__name__} has no method {method}")

    class Made(base):
        """A pass made of a class."""

        def __init__(self, *args, **kwargs):
            instance = target(*args, **kwargs)
            super().__init__(build(functools.partial(getattr(target, method), instance)))
            self._instance = instance

        def __getattr__(self, name):
            if not name.startswith("_"):
                instance = object.__getattribute__(self, "_instance")
                if hasattr(instance, name):
                    return getattr(instance, name)
            return super().__getattr__(name)

    functools.update_wrapper(Made.__init__, target.__init__)
    Made.__name__, Made.__qualname__ = target.__name__, target.__qualname__
    Made.__doc__, Made.__module__ = target.__doc__, target.__module__
    return Made


def _info_arguments(info):
    return info.name, info.opt_level, list(info.required)


module_pass = make_pass_decorator("transform_module", lambda run, info: _api.MakeModulePass(run, *_info_arguments(info)),
                                  ModulePass)
module_pass.__name__ = module_pass.__qualname__ = "module_pass"
module_pass.__doc__ = """Decorator: a function (module, context) -> module, or a class with
`transform_module(self, module, context)`, becomes a pass."""


def PrintIR(header: str = "", show_meta_data: bool = False) -> Pass:
    """A pass that prints the module and leaves it."""

    def show(module, context):
        text = module.astext(show_meta_data)
        print(f"{header}\n{text}" if header else text)
        return module

    return module_pass(show, opt_level=0, name="PrintIR")


def ApplyPassToFunction(transform: Pass, func_name_regex: str,
                        error_if_no_function_matches_regex: bool = False) -> Pass:
    """A pass that runs another on the functions whose whole name the pattern matches."""
    import re

    def run(module, context):
        names = [var.name_hint for var in module.get_global_vars() if re.fullmatch(func_name_regex, var.name_hint)]
        if not names and error_if_no_function_matches_regex:
            raise ValueError(f"no function of the module is called like {func_name_regex}")
        changed = transform(module)
        result = type(module)(dict(module.functions.items()), dict(module.type_definitions.items()))
        for name in names:
            result[name] = changed[name]
        return result

    return module_pass(run, opt_level=0, name="ApplyPassToFunction")
