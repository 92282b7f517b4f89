# SPDX-License-Identifier: Apache-2.0
"""Questions about modules that are found in treadle.relay.analysis."""
from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from ... import nd
from ...contrib import graph_executor
from ...error import UnsupportedOpError
from ...ir import GlobalVar, IRModule, structural_equal
from ...ir.transform import get_pass
from ..analysis import free_vars, post_order_visit
from ..build_module import build
from ..expr import Call, Constant, Function, Tuple, Var
from ..expr_functor import ExprMutator
from .rewrites import transposed_weight


def check_constant(expr: Any) -> bool:
    """Whether an expression is a constant, or a tuple of constants."""
    if isinstance(expr, Tuple):
        return all(check_constant(field) for field in expr.fields)
    return isinstance(expr, Constant)


def check_basic_block_normal_form(expr: Any) -> bool:
    """Whether each value that several branches or functions use is bound where all of them see it."""
    func = expr if isinstance(expr, Function) else Function(list(free_vars(expr)), expr)
    before = get_pass("InferType")(IRModule.from_expr(func))
    return structural_equal(get_pass("InferType")(get_pass("ToBasicBlockNormalForm")(before)), before)


def search_fc_transpose(expr: Any) -> Any:
    """The names of the weights w of dense layers that read transpose(w)."""
    names = []

    def visit(node):
        weight = transposed_weight(node)
        if weight is not None and weight.name_hint not in names:
            names.append(weight.name_hint)

    post_order_visit(expr, visit)
    return names


class CallGraph:
    """Which global functions call which."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self._callees: dict[str, dict[str, int]] = {var.name_hint: {} for var in module.get_global_vars()}
        for gvar in module.get_global_vars():
            counts = self._callees[gvar.name_hint]

            def visit(node, counts=counts):
                """The operator of a call isn't an operand: global functions are seen where they are named."""
                for user in ([node.op, *node.args] if isinstance(node, Call) else [node]):
                    if isinstance(user, GlobalVar) and isinstance(node, Call):
                        counts[user.name_hint] = counts.get(user.name_hint, 0) + 1

            if isinstance(module[gvar], Function):
                post_order_visit(module[gvar], visit)

    @staticmethod
    def _name(var):
        return var if isinstance(var, str) else var.name_hint

    def global_call_count(self, var: Any) -> int:
        """How often a function names others."""
        return sum(self._callees[self._name(var)].values())

    def ref_count(self, var: Any) -> int:
        """How often others name a function."""
        return sum(counts.get(self._name(var), 0) for counts in self._callees.values())

    def is_recursive(self, var: Any) -> bool:
        """Whether a function names itself."""
        return self._callees[self._name(var)].get(self._name(var), 0) > 0

    def print_var(self, var: Any) -> str:
        """What is known of one function, as text."""
        name = self._name(var)
        calls = ", ".join(f"@{callee} x {count}" for callee, count in self._callees[name].items())
        return f"@{name}: named {self.ref_count(name)} times; calls {calls or 'none'}"

    def __str__(self):
        return "\n".join(self.print_var(name) for name in self._callees)


class LayerCounter:
    """Counts the layers (calls of `valid_ops`) on the longest path."""

    def __init__(self, valid_ops: Any) -> None:
        self.valid_ops, self._count = [str(getattr(op, "name", op)) for op in valid_ops], 0

    def visit(self, expr: Any) -> None:
        from ..analysis import count_layers

        self._count = max(self._count, count_layers(expr, self.valid_ops))

    def count(self) -> int:
        return self._count


class _Recorder(ExprMutator):
    """Collects the arguments and results of calls of external functions; the functions stand where they are called."""

    def __init__(self, module, names):
        super().__init__()
        self._module, self._names, self.calls = module, names, []

    def visit_call(self, call):
        if not isinstance(call.op, GlobalVar) or call.op.name_hint not in self._names:
            return super().visit_call(call)
        args = [self.visit(arg) for arg in call.args]
        function = self._module[call.op]
        result = Call(Function(function.params, function.body), args)
        self.calls.append((call.op.name_hint, args, result, function.body.checked_type))
        return result

    def visit_function(self, func):
        return super().visit_function(func)


def get_calibration_data(mod: Any, data: Any) -> Any:
    """What the external functions of a partitioned module get and give, run on the CPU: a dict from global variables to
    {"inputs": [..], "outputs": [..]}. data: values of the parameters of main."""
    mod = get_pass("InferType")(mod)
    names = [var.name_hint for var in mod.get_global_vars()
             if isinstance(mod[var], Function) and "Compiler" in mod[var].attrs]
    recorder = _Recorder(mod, names)
    main = mod["main"]
    recorder.visit(main.body)
    outputs, layout = [], []
    for name, args, result, kind in recorder.calls:
        fields = len(getattr(kind, "fields", [])) or 1
        results = [result] if not getattr(kind, "fields", None) else [result[i] for i in range(fields)]
        layout.append((name, len(args), len(results)))
        outputs += [*args, *results]
    params = list(free_vars(Tuple(outputs)))
    lib = build(IRModule.from_expr(Function(params, Tuple(outputs))), "llvm")
    run = graph_executor.GraphModule(lib["default"](nd.cpu()))
    run.run(**{name: value for name, value in data.items() if any(p.name_hint == name for p in params)})
    found: dict[Any, Any] = {}
    at = 0
    for name, count, given in layout:
        values = [run.get_output(at + i) for i in range(count + given)]
        at += count + given
        key = next(var for var in mod.get_global_vars() if var.name_hint == name)
        found[key] = {"inputs": values[:count], "outputs": values[count:]}
    return found


def _to_blocks(weight, blocksize):
    """(data, indices, indptr) in the form BSR."""
    rows, columns = weight.shape[0] // blocksize[0], weight.shape[1] // blocksize[1]
    blocks = weight.reshape(rows, blocksize[0], columns, blocksize[1]).transpose(0, 2, 1, 3)
    used = blocks.reshape(rows, columns, -1).any(axis=2)
    row, column = np.nonzero(used)
    return (np.ascontiguousarray(blocks[row, column]), column.astype("int32"),
            np.searchsorted(row, np.arange(rows + 1)).astype("int32"))


def _search_dense_op_weight(expr: Any) -> list[str]:
    """The names of the parameters that dense layers read as weights."""
    names = []

    def visit(node):
        if isinstance(node, Call) and getattr(node.op, "name", "") == "nn.dense" and isinstance(node.args[1], Var):
            names.append(node.args[1].name_hint)

    post_order_visit(expr, visit)
    return list(dict.fromkeys(names))


def process_params(expr: Any, params: dict[str, Any], block_size: Any, sparsity_threshold: float, layout: Any = None) -> Any:
    """Replaces the weights of dense layers that have enough zeros by their blocks, in `params`: (names, shapes) as
    transform.DenseToSparse takes them."""
    if layout not in (None, "NHWC", "NCHW"):
        raise ValueError(f"process_params: layout {layout!r}")
    chosen, shapes = [], []
    for name in _search_dense_op_weight(expr):
        if name not in params:
            continue
        weight = params[name].numpy() if hasattr(params[name], "numpy") else np.asarray(params[name])
        fits = weight.ndim == 2 and weight.shape[0] % block_size[0] == 0 and weight.shape[1] % block_size[1] == 0
        if not fits or 1 - np.count_nonzero(weight) / weight.size < sparsity_threshold:
            continue
        parts = _to_blocks(weight, block_size)
        del params[name]
        for part, value in zip(("data", "indices", "indptr"), parts):
            params[f"{name}.{part}"] = nd.array(value)
        chosen.append(name)
        shapes.append([d for value in parts for d in value.shape])
    from collections import namedtuple

    SparseAnalysisResult = namedtuple("SparseAnalysisResult", ["weight_name", "weight_shape"])  # noqa: N806
    return SparseAnalysisResult(chosen, shapes)


def AnnotatedRegionSet(*args: Any, **kwargs: Any) -> Any:  # pylint: disable=invalid-name
    """Refused: see the error."""
    raise UnsupportedOpError("there is no AnnotatedRegionSet: MergeCompilerRegions joins regions, PartitionGraph makes "
                             "functions of them, and treadle.relay.external lists what stayed and why")


NAMES: dict[str, Any] = {function.__name__: function for function in (
    check_constant, check_basic_block_normal_form, search_fc_transpose, CallGraph, LayerCounter,
    get_calibration_data, process_params, AnnotatedRegionSet)}
sparse_dense = ModuleType("treadle.relay.analysis.sparse_dense", "Weights with many zeros.")
sparse_dense.process_params = process_params  # type: ignore[attr-defined]
sparse_dense._search_dense_op_weight = _search_dense_op_weight  # type: ignore[attr-defined]
NAMES["sparse_dense"] = sparse_dense
