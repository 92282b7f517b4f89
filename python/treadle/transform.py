# SPDX-License-Identifier: Apache-2.0
"""Passes over modules and the context they run in."""
import functools
import inspect

from ._ffi import Api, register_object
from .ir import Node

_api = Api("transform")
_instrument_api = Api("instrument")


@register_object("transform.PassContext")
class PassContext(Node):
    """Options of a compilation; a context manager.

    opt_level: passes above it are skipped. required_pass, disabled_pass: names. config: options of passes by name.
    instruments: objects made by `pass_instrument`, which watch the passes.
    """

    def __init__(self, opt_level=2, required_pass=None, disabled_pass=None, instruments=None, config=None):
        super().__init__(_api.PassContext(opt_level, list(required_pass or []), list(disabled_pass or []),
                                          dict(config or {}), list(instruments or [])))

    def __enter__(self):
        _api.EnterPassContext(self)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        _api.ExitPassContext(self)

    @staticmethod
    def current():
        """The innermost context of this thread."""
        return _api.GetCurrentPassContext()


@register_object("transform.Pass")
class Pass(Node):
    """A function from modules to modules; what goes in stays as it is."""

    @property
    def name(self):
        return _api.PassName(self)

    def __call__(self, mod):
        return _api.RunPass(self, mod)

    def __str__(self):
        return f"Pass({self.name})"

    __repr__ = __str__


def Sequential(passes, name="sequential", opt_level=0, required=None):
    """One pass that runs those of the list which the context enables."""
    return _api.Sequential(list(passes), name)


def get_pass(name):
    """The pass called `name`, with its default options."""
    return _api.GetPass(name)


def list_pass_names():
    return list(_api.ListPassNames())


def module_pass(pass_func=None, opt_level=0, name=None, required=None):
    """Decorator: a function (module, context) -> module, or a class with `transform_module`, becomes a pass."""

    def make(target):
        own = name or target.__name__
        if inspect.isclass(target):

            @functools.wraps(target, updated=())
            def construct(*args, **kwargs):
                instance = target(*args, **kwargs)
                return _api.MakeModulePass(instance.transform_module, own, opt_level or 0, list(required or []))

            return construct
        return _api.MakeModulePass(target, own, opt_level or 0, list(required or []))

    return make if pass_func is None else make(pass_func)


def pass_instrument(cls):
    """Class decorator: instances watch passes through the hooks enter_pass_ctx, exit_pass_ctx, should_run,
    run_before_pass and run_after_pass, as far as the class has them."""

    @functools.wraps(cls, updated=())
    def construct(*args, **kwargs):
        instance = cls(*args, **kwargs)
        hooks = [getattr(instance, name, None) for name in
                 ("enter_pass_ctx", "exit_pass_ctx", "should_run", "run_before_pass", "run_after_pass")]
        return _instrument_api.PassInstrument(cls.__name__, *hooks)

    return construct


@pass_instrument
class PrintBeforeAll:
    """Prints the module before each pass."""

    def run_before_pass(self, mod, info):
        print(f"-- before {info['name']}\n{mod}")


@pass_instrument
class PrintAfterAll:
    """Prints the module after each pass."""

    def run_after_pass(self, mod, info):
        print(f"-- after {info['name']}\n{mod}")
