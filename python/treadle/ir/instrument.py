# SPDX-License-Identifier: Apache-2.0
"""Instruments: objects that watch passes. Give them to PassContext(instruments=[...])."""
from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .._ffi import Api, register_object
from .base import Node

if TYPE_CHECKING:
    from .module import IRModule
    from .transform import PassInfo

_api = Api("instrument")
_HOOKS = ("enter_pass_ctx", "exit_pass_ctx", "should_run", "run_before_pass", "run_after_pass")


@register_object("instrument.PassInstrument")
class PassInstrument(Node):
    """Base of what watches passes. Subclasses define those of the hooks that they need:

    enter_pass_ctx(), exit_pass_ctx(): the context begins or ends. should_run(mod, info): False vetoes a pass that isn't
    required. run_before_pass(mod, info), run_after_pass(mod, info): around each pass.
    """

    def __init__(self) -> None:
        hooks = [getattr(self, name) if hasattr(type(self), name) else None for name in _HOOKS]
        super().__init__(_api.PassInstrument(type(self).__name__, *hooks))

    @property
    def name(self) -> str:
        return type(self).__name__


@register_object("instrument.FunctionInstrument")
class _Hooks(PassInstrument):
    """What C++ makes of hooks in Python."""

    def __init__(self, made):
        Node.__init__(self, made)


def pass_instrument(pi_cls: type | None = None) -> Any:
    """Class decorator: instances watch passes through the hooks of PassInstrument, as far as the class has them."""

    def make(cls):
        if not inspect.isclass(cls):
            raise TypeError("pass_instrument decorates classes")

        class Made(PassInstrument):
            """An instrument made of a class."""

            def __init__(self, *args, **kwargs):
                instance = cls(*args, **kwargs)
                Node.__init__(self, _api.PassInstrument(cls.__name__, *(getattr(instance, name, None) for name in _HOOKS)))
                self._instance = instance

            def __getattr__(self, name):
                if not name.startswith("__"):
                    instance = object.__getattribute__(self, "__dict__").get("_instance")
                    if instance is not None and hasattr(instance, name):
                        return getattr(instance, name)
                return super().__getattr__(name)

        if issubclass(cls, PassInstrument):
            return cls
        functools.update_wrapper(Made.__init__, cls.__init__)
        Made.__name__, Made.__qualname__ = cls.__name__, cls.__qualname__
        Made.__doc__, Made.__module__ = cls.__doc__, cls.__module__
        return Made

    return make if pi_cls is None else make(pi_cls)


@register_object("instrument.PassTiming")
class PassTimingInstrument(PassInstrument):
    """Measures each pass. render() gives the times as a tree, also after the context has ended."""

    def __init__(self) -> None:
        Node.__init__(self, _api.PassTimingInstrument())

    def render(self) -> str:
        """A line per pass: time with and without the passes inside, shares of the whole and of the pass around it."""
        return _api.RenderPassTiming(self)


@register_object("instrument.PassVerifier")
class PassVerifier(PassInstrument):
    """Checks the module around each pass: variables are bound once and in scope, all types can be inferred."""

    def __init__(self) -> None:
        Node.__init__(self, _api.PassVerifier())


@register_object("instrument.NumericCheck")
class NumericCheck(PassInstrument):
    """Runs main with random inputs before and after each pass, in the interpreter; names the pass that changes what it
    computes. Tolerances: rtol of each number, atol of the tensor's largest magnitude."""

    def __init__(self, rtol: float = 1e-4, atol: float = 1e-5, seed: int = 0) -> None:
        Node.__init__(self, _api.NumericCheck(rtol, atol, seed))


class PassPrintingInstrument(PassInstrument):
    """Prints the module before and after the passes that are named."""

    def __init__(self, print_before_pass_names: Iterable[str] = (), print_after_pass_names: Iterable[str] = ()) -> None:
        self._before, self._after = list(print_before_pass_names), list(print_after_pass_names)
        super().__init__()

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self._before:
            print(f"Print IR before: {info.name}\n{mod}\n")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self._after:
            print(f"Print IR after: {info.name}\n{mod}\n")


@pass_instrument
class PrintBeforeAll:
    """Prints the name of each pass and the module before it runs."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        print(f"Before Running Pass: {info.name}\n{mod}")


@pass_instrument
class PrintAfterAll:
    """Prints the name of each pass and the module after it ran."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        print(f"After Running Pass: {info.name}\n{mod}")


@pass_instrument
class PrintDiff:
    """Prints what each pass changes, as a unified diff of the module's text; passes that change nothing stay silent.
    `lines`: how many unchanged lines stand around a change. `write`: takes the text of a pass instead of print."""

    def __init__(self, lines: int = 2, write: Callable[[str], Any] = print) -> None:
        self._lines, self._write = lines, write
        self._before: list[list[str]] = []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._before.append(str(mod).splitlines())

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        before, after = self._before.pop(), str(mod).splitlines()
        diff = difflib.unified_diff(before, after, f"before {info.name}", f"after {info.name}", n=self._lines, lineterm="")
        text = "\n".join(diff)
        if text:
            self._write(text)
