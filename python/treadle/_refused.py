# SPDX-License-Identifier: Apache-2.0
"""Names of the original that have no counterpart, each with what to use instead."""
from .error import Error


def refused(name, instead):
    """A class that says so when it is made."""

    class Refused:
        def __init__(self, *_args, **_kwargs):
            raise Error(f"{name}: {instead}")

    Refused.__name__ = Refused.__qualname__ = name.rsplit(".", 1)[-1]
    return Refused
