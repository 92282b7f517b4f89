# SPDX-License-Identifier: Apache-2.0
"""Passes of the original that are written in Python, and those that aren't there, by name."""
from __future__ import annotations

import numpy as np
from collections.abc import Mapping, Sequence
from typing import Any

from ...error import UnsupportedOpError
from ...ir import Constructor, GlobalVar, IRModule, Op
from ...ir.transform import Sequential, get_pass, module_pass
from ..analysis import count_layers, free_vars
from ..expr import Call, Constant, Function, Tuple, Var, bind, var
from ..expr_functor import ExprMutator
from ..op._make import call_op
from ..op._sparse import sparse_dense
from ..parser import parse
from ...ir.transform import Pass


def _over_functions(name, rewrite):
    """A pass that replaces each function of the graph IR by rewrite(function, module)."""
    def run(module, context):
        functions = {gv: rewrite(f, module) if isinstance(f, Function) else f for gv, f in module.functions.items()}
        return get_pass("InferType")(IRModule(functions, dict(module.type_definitions.items())))

    return module_pass(run, opt_level=0, name=name)


def _with_body(function, body):
    """The function with another body: parameters that are still used, then new ones."""
    used = list(free_vars(body))
    kept = [param for param in function.params if param in used]
    return Function(kept + [var for var in used if var not in kept], body, None, function.type_params, function.attrs)


def _alone(expr, passes):
    """An expression by itself, its free variables being parameters, after passes; without them again."""

    if isinstance(expr, Function):
        return Sequential(passes)(IRModule.from_expr(expr))["main"]
    params = list(free_vars(expr))
    func = Sequential(passes)(IRModule.from_expr(Function(params, expr)))["main"]
    return bind(func.body, dict(zip(func.params, params)))


def BatchingOps() -> Pass:  # pylint: disable=invalid-name
    """Parallel convolutions, dense layers and products of batches become one each."""
    return Sequential([get_pass(f"CombineParallel{what}") for what in ("Conv2D", "Dense", "BatchMatmul")],
                      name="BatchingOps")


def FoldConstantExpr(expr: Any, mod: Any = None) -> Any:  # pylint: disable=invalid-name
    """The expression with what only constants decide computed."""
    del mod
    return _alone(expr, [get_pass("InferType"), get_pass("FoldConstant")])


def ToANormalFormExpr(expr: Any) -> Any:  # pylint: disable=invalid-name
    """The expression with each intermediate bound by a let."""
    return _alone(expr, [get_pass("InferType"), get_pass("ToANormalForm")])


class _EtaExpander(ExprMutator):
    """Constructors and global functions that aren't called where they stand become functions that call them."""

    def __init__(self, module, constructors, global_vars):
        super().__init__()
        self._module, self._constructors, self._global_vars = module, constructors, global_vars

    def _wrapped(self, callee, types):
        params = [var(f"eta{i}", kind) for i, kind in enumerate(types)]
        return Function(params, Call(callee, params))

    def visit_call(self, call):
        callee = call.op if isinstance(call.op, (Constructor, GlobalVar, Op)) else self.visit(call.op)
        return Call(callee, [self.visit(arg) for arg in call.args], call.attrs, call.type_args, call.span)

    def visit_constructor(self, constructor):
        if not self._constructors or not list(constructor.inputs):
            return constructor
        return self._wrapped(constructor, constructor.inputs)

    def visit_global_var(self, gvar):
        if not self._global_vars:
            return gvar
        return self._wrapped(gvar, [param.checked_type for param in self._module[gvar].params])


def EtaExpand(expand_constructor: bool = False,
              expand_global_var: bool = False) -> Pass:  # pylint: disable=invalid-name
    """Constructors or global functions as values become functions that call them."""
    def rewrite(function, module):
        return _EtaExpander(module, expand_constructor, expand_global_var).visit(function)

    return _over_functions("EtaExpand", rewrite)


def ChangeBatch(data: Mapping[Any, int], batch_size: int = 16) -> Pass:  # pylint: disable=invalid-name
    """Another size of batch: `data` is a dict from parameters to the position of the batch in their shape."""
    places = list(data.items())

    def rewrite(function, module):
        changed = {}
        for param in function.params:
            place = next((int(place) for given, place in places if given.same_as(param)
                          or given.name_hint == param.name_hint), None)
            if place is None:
                continue
            kind = param.type_annotation if param.type_annotation is not None else param.checked_type
            shape = list(kind.shape)
            shape[place] = batch_size
            changed[param] = var(param.name_hint, shape=shape, dtype=str(kind.dtype))
        params = [changed.get(param, param) for param in function.params]
        return Function(params, bind(function.body, changed), None, function.type_params, function.attrs)

    return _over_functions("ChangeBatch", rewrite)


def AnnotateSpans() -> Pass:  # pylint: disable=invalid-name
    """Every expression gets its place in the text of the module."""
    def run(module, context):
        return get_pass("InferType")(parse(module.astext(), "AnnotateSpans"))

    return module_pass(run, opt_level=0, name="AnnotateSpans")


class _PaddingFolder(ExprMutator):
    """Borders of zeros go into the convolution that reads them, borders of the least value into maximum pools."""

    def visit_call(self, call):
        call = super().visit_call(call)
        name = call.op.name if isinstance(call.op, Op) else ""
        inner = call.args[0] if name.startswith("nn.") and call.args else None
        is_pad = isinstance(inner, Call) and isinstance(inner.op, Op) and inner.op.name == "nn.pad"
        rank = next((d for d in (1, 2, 3) if name in (f"nn.conv{d}d", f"nn.max_pool{d}d", f"nn.avg_pool{d}d")), None)
        if rank is None or not is_pad:
            return call
        widths = self._spatial(call, inner, rank, name)
        if widths is None:
            return call
        attrs = {field: getattr(call.attrs, field) for field in call.attrs.keys()}
        old = [int(p) for p in attrs["padding"]]
        old = old * (2 * rank) if len(old) == 1 else old * 2 if len(old) == rank else old
        attrs["padding"] = [p + w for p, w in zip(old, widths)]

        made = call_op(name, [inner.args[0], *call.args[1:]], attrs)
        return Call(made.op, made.args, made.attrs, call.type_args, call.span)

    @staticmethod
    def _spatial(call, pad, rank, name):
        """Widths before all spatial dimensions, then behind; None: it can't be folded."""
        value = pad.args[1]
        if str(pad.attrs.pad_mode) != "constant" or not isinstance(value, Constant):
            return None
        value = value.data.numpy()
        if "max_pool" in name:
            lowest = np.finfo(value.dtype).min if value.dtype.kind == "f" else np.iinfo(value.dtype).min
            neutral = value == lowest or (value.dtype.kind == "f" and np.isneginf(value))
        else:
            neutral = value == 0
        if "avg_pool" in name:  # else the border isn't counted
            neutral = neutral and bool(call.attrs.count_include_pad)
        layout = str(call.attrs.data_layout if "conv" in name else call.attrs.layout)
        widths = [[int(v) for v in pair] for pair in pad.attrs.pad_width]
        if not neutral or len(layout) != rank + 2 or len(widths) != rank + 2:
            return None
        if any(w for axis, pair in zip(layout, widths) if axis in "NC" for w in pair):
            return None
        spatial = [widths[layout.index(axis)] for axis in "DHW"[3 - rank:]]
        # A window of nothing but border gives another number than the least one.
        if "max_pool" in name and any(w >= int(n) for pair, n in zip(spatial, call.attrs.pool_size) for w in pair):
            return None
        return [pair[0] for pair in spatial] + [pair[1] for pair in spatial]


def FoldExplicitPadding() -> Pass:  # pylint: disable=invalid-name
    """nn.pad becomes the padding of the convolution or pool that reads it, where that means the same."""
    return _over_functions("FoldExplicitPadding", lambda function, module: _PaddingFolder().visit(function))


class _TransposeFolder(ExprMutator):
    def __init__(self, names):
        super().__init__()
        self._names = names

    def visit_call(self, call):
        call = super().visit_call(call)
        weight = transposed_weight(call)
        if weight is None or weight.name_hint not in self._names:
            return call
        kind = weight.type_annotation
        turned = var(f"{weight.name_hint}.T", shape=list(kind.shape)[::-1], dtype=str(kind.dtype))
        return Call(call.op, [call.args[0], turned], call.attrs, call.type_args, call.span)


def transposed_weight(call: Any) -> Any:
    """The variable w of nn.dense(x, transpose(w, [1, 0])), or None."""
    if not (isinstance(call, Call) and isinstance(call.op, Op) and call.op.name == "nn.dense"):
        return None
    turned = call.args[1]
    if not (isinstance(turned, Call) and isinstance(turned.op, Op) and turned.op.name == "transpose"):
        return None
    axes = turned.attrs.axes
    if axes is not None and [int(a) for a in axes] not in ([1, 0], []):
        return None
    return turned.args[0] if isinstance(turned.args[0], Var) else None


def SimplifyFCTranspose(target_weight_name: Sequence[str]) -> Pass:  # pylint: disable=invalid-name
    """transpose(w) of dense layers becomes a parameter w.T, for the names given (analysis.search_fc_transpose)."""
    names = [str(name) for name in target_weight_name]

    def rewrite(function, module):
        body = _TransposeFolder(names).visit(function.body)
        return _with_body(function, body)

    return _over_functions("SimplifyFCTranspose", rewrite)


class _DenseSparsifier(ExprMutator):
    def __init__(self, shapes):
        super().__init__()
        self._shapes = shapes

    def visit_call(self, call):
        call = super().visit_call(call)
        is_dense = isinstance(call.op, Op) and call.op.name == "nn.dense"
        if not is_dense or not isinstance(call.args[1], Var) or call.args[1].name_hint not in self._shapes:
            return call
        name = call.args[1].name_hint
        shape = self._shapes[name]
        kind = call.args[1].type_annotation
        rank = len(shape) - 2

        return sparse_dense(call.args[0], (var(name + ".data", shape=shape[:rank], dtype=str(kind.dtype)),
                                           var(name + ".indices", shape=shape[rank:rank + 1], dtype="int32"),
                                           var(name + ".indptr", shape=shape[rank + 1:], dtype="int32")))


def DenseToSparse(weight_name: Sequence[str], weight_shape: Any) -> Pass:  # pylint: disable=invalid-name
    """Dense layers of these weights become nn.sparse_dense of the parameters <name>.data, <name>.indices and
    <name>.indptr; weight_shape: for each the dimensions of data, indices and indptr, one after the other."""
    shapes = {str(name): [int(d) for d in shape] for name, shape in zip(weight_name, weight_shape)}

    def rewrite(function, module):
        body = _DenseSparsifier(shapes).visit(function.body)
        return _with_body(function, body)

    return _over_functions("DenseToSparse", rewrite)


class _Recaster(ExprMutator):
    def __init__(self, dtype, out_dtype, names, skip, layers):
        super().__init__()
        self._dtype, self._out_dtype, self._names, self._skip = dtype, out_dtype, names, skip
        self._left = layers

    def visit_call(self, call):
        chosen = isinstance(call.op, Op) and call.op.name in self._names
        self._left -= 1 if chosen else 0
        number = self._left  # the first layer is visited last
        call = super().visit_call(call)
        if not chosen or number in self._skip:
            return call

        args = [self._cast(arg) for arg in call.args]
        attrs = {field: getattr(call.attrs, field) for field in call.attrs.keys()}
        if "out_dtype" in attrs:
            attrs["out_dtype"] = self._out_dtype
        made = call_op(call.op.name, args, attrs)
        return call_op("cast", [made], {"dtype": self._out_dtype}) if "out_dtype" not in attrs else made

    def _cast(self, arg):
        if isinstance(arg, Tuple):
            return Tuple([self._cast(field) for field in arg.fields])
        return call_op("cast", [arg], {"dtype": self._dtype})


def recast(expr: Any, dtype: str, out_dtype: str, ops: Sequence[str] | None = None,
           skip_layers: Sequence[int] = ()) -> Any:
    """The expression with some operators (default: nn.conv2d) computing in `dtype` and giving `out_dtype`, except those
    of the positions skip_layers among them (-1: the last one)."""
    names = ["nn.conv2d"] if ops is None else list(ops)

    layers = count_layers(expr, names)
    return _Recaster(dtype, out_dtype, names, {k % layers if layers else k for k in skip_layers}, layers).visit(expr)


def _refused(name, why):
    def refuse(*args, **kwargs):
        raise UnsupportedOpError(f"there is no pass {name}: {why}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Refused: {why}."
    return refuse


_CLOSURES = "functions as values are run by the virtual machine as they are"
PASSES = {function.__name__: function for function in (
    BatchingOps, FoldConstantExpr, ToANormalFormExpr, EtaExpand, ChangeBatch, AnnotateSpans, FoldExplicitPadding,
    SimplifyFCTranspose, DenseToSparse, recast)}
PASSES.update({name: _refused(name, why) for name, why in {
    "LazyGradientInit": "gradients are expressions of operators; zeros in them are folded by SimplifyExpr",
    "LayoutConfig": "ConvertLayout takes the layouts of each operator; leave out those that shall stay",
    "ToCPS": _CLOSURES, "to_cps": _CLOSURES, "un_cps": _CLOSURES, "Defunctionalization": _CLOSURES,
    "Conv2dToSparse": "convolutions with sparse weights aren't there; DenseToSparse is",
    "Conv2dToSparse2": "convolutions with sparse weights aren't there; DenseToSparse is",
}.items()})
