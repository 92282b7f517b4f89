# SPDX-License-Identifier: Apache-2.0
"""What code is generated for."""
from ._ffi import Api, register_object
from .ir import Node

_api = Api("target")


@register_object("Target")
class Target(Node):
    """A kind of backend with options, such as "llvm -mcpu=x86-64-v3"."""

    def __init__(self, target, host=None):
        made = target if isinstance(target, Target) else _api.Target(str(target))
        if host is not None:
            made = _api.WithHost(made, host if isinstance(host, Target) else _api.Target(str(host)))
        super().__init__(made)

    def __str__(self):
        return _api.AsText(self)

    __repr__ = __str__


def list_kinds():
    """Names of all kinds of targets, with one line about each."""
    return dict(_api.ListKinds().items())
