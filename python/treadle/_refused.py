# SPDX-License-Identifier: Apache-2.0
"""Names of the original that have no counterpart, each with what to use instead."""
from .error import Error


class RefusedAttributeError(Error, AttributeError):
    """A member of a class that has no counterpart."""


class _Refusing(type):
    """Classes whose members are refused as they are themselves."""

    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        raise RefusedAttributeError(f"{cls._refused_name}.{name}: {cls._instead}")


def refused(name, instead):
    """A class that says so when it is made, called as a function, or asked for a member. No object is an instance of it."""

    class Refused(metaclass=_Refusing):
        def __init__(self, *_args, **_kwargs):
            raise Error(f"{name}: {instead}")

    Refused.__name__ = Refused.__qualname__ = name.rsplit(".", 1)[-1]
    Refused.__doc__ = f"Refused: {instead}."
    Refused._refused_name, Refused._instead = name, instead
    return Refused


def refused_method(name, instead):
    """A method that says so when it is called."""

    def refuse(*_args, **_kwargs):
        raise Error(f"{name}: {instead}")

    refuse.__name__ = refuse.__qualname__ = name.rsplit(".", 1)[-1]
    refuse.__doc__ = f"Refused: {instead}."
    return refuse


def refused_property(name, instead, kind=RefusedAttributeError):
    """A property that says so when it is read."""

    def refuse(_self):
        raise kind(f"{name}: {instead}")

    return property(refuse, doc=f"Refused: {instead}.")


def refuse_names(module, path, groups):
    """Puts refusals into a module: {names, separated by spaces: what to use instead}. `Class.method` is a method,
    `Class.@name` a property."""
    for names, instead in groups.items():
        for name in names.split():
            title = f"{path}.{name}" if path else name
            owner, _, method = name.partition(".")
            if not method and owner not in vars(module):
                setattr(module, owner, refused(title, instead))
            elif method.startswith("@"):
                cls = getattr(module, owner)  # Python asks __getattr__ after an AttributeError, which would say less
                kind = Error if hasattr(cls, "__getattr__") else RefusedAttributeError
                setattr(cls, method[1:], refused_property(title.replace("@", ""), instead, kind))
            elif method and not hasattr(getattr(module, owner), method):
                setattr(getattr(module, owner), method, refused_method(title, instead))
