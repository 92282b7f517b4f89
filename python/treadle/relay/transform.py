# SPDX-License-Identifier: Apache-2.0
"""The graph IR's passes: transform.FuseOps(fuse_opt_level=2)(module)."""
from __future__ import annotations

import typing as _typing
from collections.abc import Callable as _Callable, Iterable as _Iterable, Sequence as _Sequence

from .._arguments import suggest
from .._ffi import get_global_func, register_object
from ..ir.transform import (ApplyPassToFunction, ModulePass, Pass, PassContext, PassInfo, PrintIR, Sequential, get_pass,
                            list_pass_names, make_pass_decorator, module_pass)

if _typing.TYPE_CHECKING:
    from ..ir import IRModule
    from .expr import Expr, Function

_PYTHON_PASSES: dict = {}  # those written in Python (treadle.relay.passes), by name


@register_object("relay.FunctionPass")
class FunctionPass(Pass):
    """A pass over each function of a module."""


function_pass = make_pass_decorator(
    "transform_function",
    lambda run, info: get_global_func("relay._transform.MakeFunctionPass")(run, info.name, info.opt_level,
                                                                           list(info.required)),
    FunctionPass)
function_pass.__name__ = function_pass.__qualname__ = "function_pass"
function_pass.__doc__ = """Decorator: a function (function, module, context) -> function, or a class with
`transform_function(self, function, module, context)`, becomes a pass over each function of a module."""


def MergeComposite(pattern_table: _Iterable[_Sequence[_typing.Any]]) -> Pass:  # pylint: disable=invalid-name
    """Matches become functions with the attribute Composite; entries of the table: (name, pattern[, check])."""
    entries = [tuple(entry) + (None,) * (3 - len(entry)) for entry in pattern_table]
    return get_global_func("relay._transform.MergeCompositeTable")(
        [name for name, _, _ in entries], [pattern for _, pattern, _ in entries], [check for _, _, check in entries])


# Parameters of passes that have some, in order, with their defaults.
_PARAMETERS: dict = {
    "FuseOps": (("fuse_opt_level", -1),),
    "DeadCodeElimination": (("inline_once", False), ("ignore_impurity", False)),
    "CombineParallelConv2D": (("min_num_branches", 3),),
    "CombineParallelDense": (("min_num_branches", 3), ("to_batch", True)),
    "SplitArgs": (("max_function_args", 32),),
    "CombineParallelBatchMatmul": (("min_num_branches", 3),),
    "ToMixedPrecision": (("mixed_precision_type", "float16"), ("missing_op_mode", 1)),
    "ConvertLayout": (("desired_layouts", {}),),
    "RemoveUnusedFunctions": (("entry_functions", ("main",)),),
    "RewriteAnnotatedOps": (("fallback_device", 1),),
    "PlanDevices": (("default_device", 1),),
    "AnnotateTarget": (("targets", ()), ("include_non_call_ops", True)),
    "PartitionGraph": (("mod_name", "default"),),
    "EliminateCommonSubexpr": (("fskip", None),),
}

# What those passes do that there are none of without arguments.
_NEED_ARGUMENTS: dict = {
    "AnnotateTarget": "Marks what the given external code generators can compile.",
    "ConvertLayout": "Changes operators to the wanted layouts, by name: {'nn.conv2d': ['NHWC', 'HWIO']}.",
    "RewriteAnnotatedOps": "Replaces annotations of devices by copies between them.",
}


def _device_type(device):
    """The number of a device: number, name or Device."""
    if isinstance(device, str):
        from .. import nd

        device = nd.device(device)
    return int(device if isinstance(device, int) else device.device_type)


def __getattr__(name: str) -> _Callable[..., Pass]:
    if name.startswith("_"):
        raise AttributeError(name)
    if name in _PYTHON_PASSES:
        return _PYTHON_PASSES[name]
    function = get_global_func(f"relay._transform.{name}", allow_missing=True)
    if function is None:
        if name not in list_pass_names():
            raise AttributeError(f"no pass '{name}'" + suggest(name, list_pass_names()))

        def plain():
            return get_pass(name)

        plain.__name__ = plain.__qualname__ = name
        plain.__doc__ = get_pass(name).info.doc
        return plain
    parameters = _PARAMETERS.get(name, ())

    def make(*args, **kwargs):
        values = [default for _, default in parameters]
        names = [parameter for parameter, _ in parameters]
        values[:len(args)] = args
        for key, value in kwargs.items():
            if key not in names:
                raise TypeError(f"{name}() has no parameter '{key}'; it has: {', '.join(names) or 'none'}")
            values[names.index(key)] = value
        if name == "AnnotateTarget" and isinstance(values[0], str):
            values[0] = [values[0]]
        if "device" in "".join(names):
            values[0] = _device_type(values[0])
        return function(*values)

    make.__name__ = make.__qualname__ = name
    what = _NEED_ARGUMENTS.get(name) or get_pass(name).info.doc
    shown = ", ".join(f"{parameter}={default!r}" for parameter, default in parameters)
    make.__doc__ = f"{what.rstrip('.')}. Parameters: {shown}." if parameters else what
    return make


def __dir__():
    return sorted({*globals(), *_PYTHON_PASSES, *_PARAMETERS, *list_pass_names()})


def gradient(expr: Expr, mod: IRModule | None = None, mode: str = "first_order") -> Function:
    """The function that returns (value, (gradients of the parameters)). Its types are inferred.

    Gradients are of first order and of data flow, whatever the mode ("first_order" or TVM's "higher_order").
    """
    if mode not in ("first_order", "higher_order"):
        raise ValueError(f"mode is first_order or higher_order, not {mode}")
    from ..ir import IRModule

    typed = IRModule.from_expr(expr) if mod is None else mod
    typed = get_pass("InferType")(typed)
    return get_global_func("relay._transform.gradient")(typed["main"] if mod is None else expr)


def build_config(opt_level: int = 2, required_pass: _Sequence[str] | None = None,
                 disabled_pass: _Sequence[str] | None = None, trace: _typing.Any = None) -> PassContext:
    """A PassContext, by its old name."""
    return PassContext(opt_level, required_pass, disabled_pass)
