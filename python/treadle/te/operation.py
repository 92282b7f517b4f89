# SPDX-License-Identifier: Apache-2.0
"""Building tensor expressions."""
from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from .._ffi import Api, get_global_func
from ..ir import IntImm, PrimExpr
from ..tir import decl_buffer
from ..tir.expr import EqualOp, IterVar, StringImm, Var, as_expr, const, infinity
from .parameters import parameters
from .tensor import Tensor
from ..tir.stmt import Stmt
from . import tag as _tags

if TYPE_CHECKING:
    from .._typing import Dim, DTypeLike, Scalar, Shape
    from ..ir import Span
    from ..tir import Buffer, PrimFunc

_api = Api("te")
_tir = Api("tir")


def _dimension(value, what=""):
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{what}a dimension must be an integer, not {value}")
    if isinstance(value, bool) or not (hasattr(value, "__index__") or isinstance(value, float)):
        raise TypeError(f"{what}a dimension must be an integer or an expression, not {value!r}")
    if int(value) < 0:
        raise ValueError(f"{what}a dimension must not be negative: {value}")
    return as_expr(int(value))


def _shape(shape, what=""):
    shape = shape if isinstance(shape, (tuple, list)) or hasattr(shape, "__iter__") else (shape,)
    return [_dimension(d, what) for d in shape]


def var(name: str = "tindex", dtype: DTypeLike = "int32") -> Var:
    """A variable, such as a symbolic dimension."""
    return Var(name, dtype)


def size_var(name: str = "size", dtype: DTypeLike = "int32") -> Var:
    """A variable that isn't negative, such as a symbolic dimension."""
    if not str(dtype).startswith(("int", "uint")):
        raise TypeError(f"size_var {name}: a size is an integer, not {dtype}")
    return Var(name, dtype)


def placeholder(shape: Shape, dtype: DTypeLike = "float32", name: str = "placeholder") -> Tensor:
    """An input tensor."""
    return _api.Placeholder(_shape(shape, f"placeholder {name}: "), str(dtype), name)


def compute(shape: Shape, fcompute: Callable[..., Any], name: str = "compute", tag: str = "",
            attrs: Mapping[str, Any] | None = None, varargs_names: Sequence[str] | None = None) -> Any:
    """A tensor whose elements are `fcompute` of their indices; a list of several for a list result."""
    shape = _shape(shape, f"compute {name}: ")
    if not callable(fcompute):
        raise TypeError(f"compute {name}: expected a function of the indices, not {fcompute!r}")
    parameters = inspect.signature(fcompute).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    while len(positional) > len(shape) and positional[-1].default is not positional[-1].empty:
        positional.pop()  # not an index: lambda i, scale=scale: ...
    names = [p.name for p in positional]
    variadic = [p for p in parameters if p.kind == p.VAR_POSITIONAL]
    if variadic:
        names += list(varargs_names or [])
        names += [f"i{i}" for i in range(len(names), len(shape))]
    if len(names) != len(shape):
        raise ValueError(f"compute {name}: the function takes {len(names)} indices, the shape has {len(shape)} dimensions")
    axis = [_axis((0, extent), axis_name, 0) for axis_name, extent in zip(names, shape)]
    body = fcompute(*[iv.var for iv in axis])
    if isinstance(body, Tensor):
        raise TypeError(f"compute {name}: the function must give an element, not tensor {body.name}; expected it with "
                        f"{len(body.shape)} indices")
    several = isinstance(body, (list, tuple)) or (not isinstance(body, (PrimExpr, EqualOp)) and
                                                  hasattr(body, "__iter__"))
    body = [as_expr(e) for e in (body if several else [body])]
    if not body:
        raise TypeError(f"compute {name}: the function must give an expression, not an empty list")
    for e in body:
        if not isinstance(e, PrimExpr) or isinstance(e, StringImm):
            raise TypeError(f"compute {name}: the function must give an expression, not {e!r}")
    op = _api.ComputeOp(name, _tags.resolve(tag), attrs or {}, axis, body)
    outputs = [op.output(i) for i in range(op.num_outputs)]
    return outputs if several else outputs[0]


def _axis(dom, name, kind):
    if not isinstance(dom, (tuple, list)) or len(dom) != 2:
        raise TypeError(f"axis {name}: the domain must be a pair (begin, end), not {dom!r}")
    begin, end = (_dimension(x, f"axis {name}: ") for x in dom)
    if isinstance(begin, IntImm) and isinstance(end, IntImm) and int(end) < int(begin):
        raise ValueError(f"axis {name}: the domain ({begin}, {end}) ends before it begins")
    dom = get_global_func("ir.Range")(begin, end)
    return _tir.IterVar(dom, _tir.Var(name, str(dom.extent.dtype)), kind, "")


def reduce_axis(dom: Sequence[Dim], name: str = "rv", thread_tag: str = "", span: Span | None = None) -> IterVar:
    """An axis to reduce over, from dom[0] up to but not including dom[1]."""
    return _axis(dom, name, 2)


def thread_axis(dom: str | Dim | Sequence[Dim] | None = None, tag: str = "", name: str = "",
                span: Span | None = None) -> IterVar:
    """A thread axis to bind loops to: thread_axis("threadIdx.x"), thread_axis((0, 4), "vthread")."""
    if isinstance(dom, str):
        dom, tag = None, dom
    if not tag:
        raise ValueError("thread_axis needs a tag, such as 'threadIdx.x'")
    if not isinstance(tag, str):
        raise TypeError(f"thread_axis: a tag is a text such as 'threadIdx.x', not {tag!r}")
    if dom is not None:
        pair = dom if isinstance(dom, (tuple, list)) else (0, dom)
        if len(pair) != 2:
            raise TypeError(f"thread_axis {tag}: the domain must be a pair (begin, end), not {dom!r}")
        dom = tuple(_dimension(x, f"thread_axis {tag}: ") for x in pair)
    return IterVar(dom, Var(name or tag, "int32"), IterVar.ThreadIndex, tag)


def scan(init: Tensor | Sequence[Tensor], update: Tensor | Sequence[Tensor],
         state_placeholder: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor] | None = None,
         name: str = "scan", tag: str = "", attrs: Mapping[str, Any] | None = None) -> Any:
    """A recurrence along the first axis: the first rows are `init`, row t is what `update` computes there from rows
    before t, which it reads through `state_placeholder`."""
    init, update, state_placeholder, inputs = (
        list(x) if isinstance(x, (list, tuple)) else [x] for x in (init, update, state_placeholder, inputs or []))
    outputs = list(_api.ScanOp(name, _tags.resolve(tag), attrs or {}, init, update, state_placeholder, inputs))
    return outputs[0] if len(outputs) == 1 else outputs


def extern(shape: Shape | Sequence[Sequence[Dim]], inputs: Sequence[Tensor],
           fcompute: Callable[[list[Buffer], list[Buffer]], Any], name: str = "extern",
           dtype: DTypeLike | Sequence[DTypeLike] | None = None, in_buffers: Sequence[Buffer] | None = None,
           out_buffers: Buffer | Sequence[Buffer] | None = None, tag: str = "",
           attrs: Mapping[str, Any] | None = None) -> Any:
    """Tensors of the given shapes computed by a statement, which `fcompute` gives from the lists of input and output
    buffers. Without `dtype` the outputs have that of the inputs."""
    inputs = list(inputs)
    if not callable(fcompute):
        raise TypeError(f"extern {name}: expected a function of the input and output buffers, not {fcompute!r}")
    for t in inputs:
        if not isinstance(t, Tensor):
            raise TypeError(f"extern {name}: an input must be a tensor, not {t!r}")
    shapes = [shape] if not shape or not isinstance(shape[0], (list, tuple)) else list(shape)
    in_buffers = list(in_buffers) if in_buffers is not None else [decl_buffer(t.shape, t.dtype, t.name) for t in inputs]
    if out_buffers is not None:
        out_buffers = list(out_buffers) if isinstance(out_buffers, (list, tuple)) else [out_buffers]
    else:
        if dtype is None:
            kinds = {str(t.dtype) for t in inputs}
            if len(kinds) != 1:
                raise ValueError(f"extern {name}: the inputs have dtypes {sorted(kinds)}; give the outputs' dtype")
            dtype = kinds.pop()
        dtypes = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * len(shapes)
        if len(dtypes) != len(shapes):
            raise ValueError(f"extern {name}: {len(shapes)} shapes but {len(dtypes)} dtypes")
        names = [name] if len(shapes) == 1 else [f"{name}.v{i}" for i in range(len(shapes))]
        out_buffers = [decl_buffer(_shape(s), d, n) for s, d, n in zip(shapes, dtypes, names)]
    body = fcompute(in_buffers, out_buffers)
    if not isinstance(body, (Stmt, PrimExpr)):
        raise ValueError(f"extern {name}: the function must give a statement or a call, not {body!r}")
    outputs = list(_api.ExternOp(name, _tags.resolve(tag), attrs or {}, inputs, in_buffers, out_buffers, body))
    return outputs[0] if len(outputs) == 1 else outputs


def create_prim_func_from_outputs(outputs: Tensor | Sequence[Tensor]) -> PrimFunc:
    """A schedulable function of the placeholders that the tensors are computed from, and the tensors."""
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    found, waiting = [], list(reversed(outputs))
    while waiting:
        tensor = waiting.pop()
        if any(tensor == known for known in found):
            continue
        found.append(tensor)
        waiting += reversed(tensor.op.input_tensors)
    return create_prim_func([t for t in found if type(t.op).__name__ == "PlaceholderOp"] + outputs)


def create_prim_func(args: Sequence[Tensor | Var], name: str = "main") -> PrimFunc:
    """A schedulable function of the tensors (and scalar variables)."""
    return _api.CreatePrimFunc(*parameters(args), name)
