# SPDX-License-Identifier: Apache-2.0
"""Functions, statements and buffers of loop-level code."""
from .._ffi import Api, register_object
from ..ir import BaseFunc, Node

_api = Api("tir")


class _Printed:
    def __str__(self):
        return _api.AsText(self, False)

    __repr__ = __str__

    def astext(self, show_meta_data=True, annotate=None):
        """The text form."""
        return _api.AsText(self, True)


@register_object("tir.Stmt")
class Stmt(_Printed, Node):
    """A statement."""


@register_object("tir.Block")
class Block(Stmt):
    """A unit of computation that schedules move."""


@register_object("tir.For")
class For(Stmt):
    """A loop."""


@register_object("tir.Buffer")
class Buffer(_Printed, Node):
    """A memory region seen as an array."""


@register_object("tir.PrimFunc")
class PrimFunc(_Printed, BaseFunc):
    """A function of loop-level code."""
