# SPDX-License-Identifier: Apache-2.0
"""Functions and buffers of loop-level code."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._ffi import Api, Array, Map, register_object
from ..ir import BaseFunc, IntImm, Node
from .._dtype import DataType
from ..error import DTypeError
from .expr import Ramp, StringImm, Var, as_expr
from .stmt import Printed, cast_to
from ..ir import PrimExpr

if TYPE_CHECKING:
    from .._typing import DTypeLike, Scalar, Shape
    from .stmt import Stmt

_api = Api("tir")


@register_object("tir.Buffer")
class Buffer(Printed, Node):
    """A memory region seen as an array. Indexing reads an element; assignment gives a store only in an ir_builder."""

    data: Var
    name: str
    dtype: str
    shape: Array
    strides: Array
    elem_offset: PrimExpr

    def __getitem__(self, indices: Scalar | tuple[Scalar, ...]) -> PrimExpr:
        indices = indices if isinstance(indices, tuple) else (indices,)
        return self.vload(indices)

    def vload(self, begin: Scalar | Sequence[Scalar], dtype: DTypeLike | None = None) -> PrimExpr:
        """The element at `begin`; with a vector `dtype`, such as "float32x4", that many in a row."""
        lanes = self._lanes(dtype, "vload") if dtype is not None else 1
        return _api.BufferLoad(self, _vector(begin, lanes))

    def vstore(self, begin: Scalar | Sequence[Scalar], value: Scalar) -> Stmt:
        """The statement that stores an element at `begin`; of a vector, its elements in a row."""
        value = cast_to(self.dtype, value)
        return _api.BufferStore(self, value, _vector(begin, self._lanes(value.dtype, "vstore")))

    def _lanes(self, dtype, what):
        own, wanted = DataType(str(self.dtype)), DataType(str(dtype))
        if wanted.lanes % own.lanes or own.element != wanted.element:
            raise DTypeError(f"{what}: buffer {self.name} holds {own}, not {wanted}")
        return wanted.lanes // own.lanes

    def access_ptr(self, access_mask: str = "rw", ptr_type: str = "handle", content_lanes: int = 1,
                   offset: Scalar = 0) -> PrimExpr:
        """The address of the first element, plus `offset` elements along the last dimension."""
        indices = [as_expr(0) for _ in self.shape]
        if indices:
            indices[-1] = as_expr(offset)
        return _api.AddressOf(_api.BufferLoad(self, indices))

    def scope(self) -> str:
        """"global", "local", ..."""
        return _api.BufferScope(self)


def _vector(begin, lanes):
    """The indices of `lanes` elements in a row."""
    indices = [as_expr(i) for i in (begin if isinstance(begin, (tuple, list)) else [begin])]
    if lanes > 1 and indices:
        indices[-1] = Ramp(indices[-1], 1, lanes)
    return indices


def decl_buffer(shape: Shape, dtype: DTypeLike = "float32", name: str = "buffer", data: Any = None,
                strides: Sequence[Scalar] | None = None, elem_offset: Scalar | None = None, scope: str = "global",
                data_alignment: int = -1, offset_factor: int = 0, buffer_type: str = "") -> Buffer:
    """A buffer over the pointer `data`, such as the data of another buffer; without it, over a pointer of its own."""
    shape = shape if isinstance(shape, (tuple, list)) or hasattr(shape, "__iter__") else (shape,)
    if buffer_type:
        raise ValueError(f"decl_buffer {name}: buffers of type {buffer_type!r} aren't supported; a dimension of 1 has "
                         "stride 1 like any other")
    shape = [as_expr(d) for d in shape]
    for dim in shape:
        if not isinstance(dim, PrimExpr) or isinstance(dim, StringImm):
            raise TypeError(f"decl_buffer {name}: a dimension must be an integer or an expression, not {dim!r}")
    if any(isinstance(d, IntImm) and int(d) < 0 for d in shape):
        raise ValueError(f"decl_buffer {name}: a dimension of shape {shape} is negative")
    if strides and len(strides) != len(shape):
        raise ValueError(f"decl_buffer {name}: {len(strides)} strides for {len(shape)} dimensions; expected one for each")
    strides = [as_expr(d) for d in strides or []]
    elem_offset = None if elem_offset is None else as_expr(elem_offset)
    if data is None:
        return _api.decl_buffer(shape, str(dtype), name, scope or "global", strides, elem_offset, data_alignment,
                                offset_factor)
    if not isinstance(data, Var):
        raise DTypeError(f"decl_buffer {name}: data is {data!r}; expected a pointer, such as the data of another buffer")
    over = _api.BufferOver(data, shape, str(dtype), name, strides, elem_offset, data_alignment, offset_factor)
    if scope not in ("", "global", over.scope()):
        raise ValueError(f"decl_buffer {name}: scope {scope!r}, but its data is in {over.scope()!r}")
    return over


@register_object("tir.PrimFunc")
class PrimFunc(Printed, BaseFunc):
    """A function of loop-level code. Parameters are buffers (tensors) and scalar variables."""

    params: Array
    body: Stmt
    buffer_map: Map

    def __init__(self, params: Iterable[Buffer | Var], body: Stmt, buffer_map: Mapping[Var, Buffer] | None = None,
                 attrs: Mapping[str, Any] | None = None) -> None:
        variables, buffers = [], dict(buffer_map.items()) if buffer_map else {}
        for p in params:
            if isinstance(p, Buffer):
                handle = Var(f"{p.name}_handle", "handle")
                variables.append(handle)
                buffers[handle] = p
            elif isinstance(p, Var):
                variables.append(p)
            elif isinstance(getattr(p, "buffer", None), Buffer):  # what ir_builder.pointer gives
                variables.append(p.buffer.data)
            else:
                raise TypeError(f"a parameter of a function is a buffer or a variable, not {p!r}")
        super().__init__(_api.PrimFunc(variables, body, buffers, dict(attrs or {})))

    def with_body(self, body: Stmt) -> PrimFunc:
        """A copy with another body."""
        return _api.FuncWithBody(self, body)

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> PrimFunc:
        """A copy with an attribute, such as "global_symbol", its name; with several, given as a dict."""
        if isinstance(key, dict):
            result = self
            for name, each in key.items():
                result = result.with_attr(name, each)
            return result
        return _api.FuncWithAttr(self, key, value if isinstance(value, str) else as_expr(value))

    def specialize(self, param_map: Mapping[Var, Any]) -> PrimFunc:
        """The function for given parameters: {param: number or expression} of scalars, which are no parameters any more,
        and {param: Buffer} of tensors, whose shape and strides say what the symbolic dimensions are."""
        return _api.Specialize(self, {param: value if isinstance(value, Buffer) else as_expr(value)
                                      for param, value in param_map.items()})


def from_text(text: str, name: str = "text") -> Any:
    """The function, or module of several, that `print` shows."""
    module = _api.ParseModule(text, name)
    functions = [function for _, function in module.functions.items()]
    return functions[0] if len(functions) == 1 else module
