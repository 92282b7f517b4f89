# SPDX-License-Identifier: Apache-2.0
"""Passes over loop-level functions: those of lowering by name, such as VectorizeLoop(). PassContext(config={"tir.add_lower_pass": [(1, my_pass)]}) adds them to lowering."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._ffi import Api
from ..error import Error, UnsupportedOpError
from ..ir import IRModule
from ..ir.transform import Pass, _api, _info_arguments, make_pass_decorator
from .function import PrimFunc

_tir = Api("tir")


class PrimFuncPass(Pass):
    """A pass over each loop-level function of a module."""


def _build(run, info):
    def over_module(module, context):
        functions = {}
        for var, function in module.functions.items():
            functions[var] = run(function, module, context) if isinstance(function, PrimFunc) else function
        return IRModule(functions, dict(module.type_definitions.items()))

    return _api.MakeModulePass(over_module, *_info_arguments(info))


prim_func_pass = make_pass_decorator("transform_function", _build, PrimFuncPass)
prim_func_pass.__name__ = prim_func_pass.__qualname__ = "prim_func_pass"
prim_func_pass.__doc__ = """Decorator: a function (function, module, context) -> function, or a class with
`transform_function(self, function, module, context)`, becomes a pass."""


def _lowering_pass(name):
    def make(*arguments):
        def run(function, module, context):
            from ..target import Target

            return _tir.RunLoweringPass(name, function, str(Target.current() or "llvm"))

        return prim_func_pass(run, opt_level=0, name=f"tir.{name}")

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"The pass {name} of lowering, for the current target."
    return make


def Apply(ftransform: Callable[[PrimFunc], PrimFunc]) -> Pass:  # pylint: disable=invalid-name
    """ftransform(function) for each function."""
    return prim_func_pass(lambda function, module, context: ftransform(function), opt_level=0, name="Apply")


def Filter(fcond: Callable[[PrimFunc], bool]) -> Pass:  # pylint: disable=invalid-name
    """Keeps the functions for which fcond(function) holds."""

    def over_module(module, context):
        kept = {var: function for var, function in module.functions.items()
                if not isinstance(function, PrimFunc) or fcond(function)}
        return IRModule(kept, dict(module.type_definitions.items()))

    return _api.MakeModulePass(over_module, "tir.Filter", 0, [])


def SkipAssert() -> Pass:  # pylint: disable=invalid-name
    """Takes assertions away."""
    from .stmt_functor import ir_transform

    def run(function, module, context):
        body = ir_transform(function.body, None, lambda node: node.body, ["tir.AssertStmt"])
        return function.with_body(body)

    return prim_func_pass(run, opt_level=0, name="tir.SkipAssert")


def NarrowDataType(target_bits: int = 32) -> Pass:  # pylint: disable=invalid-name
    """Loop variables and indices of wider integers are computed in `target_bits` (8, 16 or 32), where the ranges of the
    loops show that no value overflows. Values that are stored keep their type."""
    return prim_func_pass(lambda function, module, context: _tir.NarrowDataType(function, target_bits), opt_level=0,
                          name="tir.NarrowDataType")


def VerifyMemory() -> Pass:  # pylint: disable=invalid-name
    """An error where the host would touch memory of a device."""
    from .analysis import verify_memory

    def run(function, module, context):
        if not verify_memory(function):
            raise Error("a function for a device binds no thread axes: the host would touch the device's memory")
        return function

    return prim_func_pass(run, opt_level=0, name="tir.VerifyMemory")


def ConvertForLoopsToSerial() -> Pass:  # pylint: disable=invalid-name
    """Parallel loops run one iteration after the other."""
    from .stmt import For, ForKind
    from .stmt_functor import ir_transform

    def serial(loop):
        if int(loop.kind) != ForKind.PARALLEL:
            return None
        return For(loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, loop.body)

    def run(function, module, context):
        return function.with_body(ir_transform(function.body, None, serial, ["tir.For"]))

    return prim_func_pass(run, opt_level=0, name="tir.ConvertForLoopsToSerial")


def RewriteUnsafeSelect() -> Pass:  # pylint: disable=invalid-name
    """Selections one side of which reads memory or calls a function compute only the side that is taken."""
    from .expr import BufferLoad, Call, if_then_else
    from .stmt_functor import ir_transform, post_order_visit

    def is_unsafe(expr):
        found = []
        post_order_visit(expr, lambda node: found.append(node) if isinstance(node, (BufferLoad, Call)) else None)
        return bool(found)

    def rewrite(select):
        if not (is_unsafe(select.true_value) or is_unsafe(select.false_value)):
            return None
        return if_then_else(select.condition, select.true_value, select.false_value)

    def run(function, module, context):
        return function.with_body(ir_transform(function.body, None, rewrite, ["tir.Select"]))

    return prim_func_pass(run, opt_level=0, name="tir.RewriteUnsafeSelect")


def _split(name, split, doc):
    """A pass that makes several functions of each: split(function) gives (name, function) pairs."""
    def over_module(module, context):
        functions = {}
        for var, function in module.functions.items():
            if not isinstance(function, PrimFunc):
                functions[var] = function
                continue
            for symbol, part in split(var, function):
                functions[symbol] = part
        return IRModule(functions, dict(module.type_definitions.items()))

    made = _api.MakeModulePass(over_module, f"tir.{name}", 0, [])
    made.__doc__ = doc
    return made


def _with_symbol(var, function):
    return function if "global_symbol" in function.attrs else function.with_attr("global_symbol", var.name_hint)


def MakePackedAPI(num_unpacked_args: int = 0) -> Pass:  # pylint: disable=invalid-name
    """Functions in low-level form (flat buffers) become a packed function, which checks its arguments, and
    <name>__compute, which it calls."""
    if num_unpacked_args > 0:
        raise UnsupportedOpError("MakePackedAPI: all arguments are packed; MakeUnpackedAPI gives a function of pointers")
    from ..ir import GlobalVar

    def split(var, function):
        packed, compute = _tir.MakePackedAPI(_with_symbol(var, function))
        return [(var, packed), (GlobalVar(f"{var.name_hint}__compute"), compute)]

    return _split("MakePackedAPI", split, "Packed functions.")


def MakeUnpackedAPI() -> Pass:  # pylint: disable=invalid-name
    """Functions in low-level form become functions of pointers and scalars, without checks."""
    return _split("MakeUnpackedAPI", lambda var, f: [(var, _tir.MakePackedAPI(_with_symbol(var, f))[1])],
                  "Functions of pointers.")


def SplitHostDevice() -> Pass:  # pylint: disable=invalid-name
    """Functions of devices in low-level form become one for the host, which launches kernels, and the kernels."""
    from ..ir import GlobalVar
    from ..target import Target

    def split(var, function):
        parts = list(_tir.SplitHostDevice(_with_symbol(var, function), str(Target.current() or "llvm")))
        return [(var, parts[0])] + [(GlobalVar(str(kernel.attrs["global_symbol"])), kernel) for kernel in parts[1:]]

    return _split("SplitHostDevice", split, "Host functions and kernels.")


# The original's names of passes that are called otherwise here, but do the same; LowerBlocks does in one what three do.
_OTHER_NAMES = {"BF16Legalize": "LegalizeNarrowFloat", "CompactBufferAllocation": "CompactBuffers",
                "ConvertBlocksToOpaque": "LowerBlocks", "InstrumentBoundCheckers": "InstrumentBoundsChecks",
                "LowerInitBlock": "LowerInit", "LowerMatchBuffer": "LowerBlocks",
                "PlanAndUpdateBufferAllocationLocation": "LowerBlocks", "StorageFlatten": "FlattenBuffer"}

_CODE = "code generation does it when it needs it"
_DEVICE = "SplitHostDevice does it"
_NO_MACHINE = "there is no machine that needs it"
_REFUSED = {
    "BF16Promote": "BF16Legalize does all of it", "BF16CastElimination": "BF16Legalize does all of it",
    "BF16TypeLowering": "BF16Legalize does all of it", "CoProcSync": _NO_MACHINE, "CombineContextCall": _NO_MACHINE,
    "DecorateDeviceScope": _DEVICE, "InferFragment": _NO_MACHINE, "InjectCopyIntrin": _NO_MACHINE,
    "InjectPrefetch": "prefetches of schedules are intrinsics from the start", "LegalizePackedCalls": _CODE,
    "LiftAttrScope": _NO_MACHINE, "LowerDeviceStorageAccessInfo": _NO_MACHINE, "LowerTVMBuiltin": _CODE,
    "LowerWarpMemory": _NO_MACHINE, "MergeDynamicSharedMemoryAllocations": "memory that blocks share has known sizes",
    "TextureFlatten": _NO_MACHINE,
    "ThreadSync": _DEVICE, "UnifyThreadBinding": _DEVICE}


def _refused(name):
    def refuse(*args, **kwargs):
        raise UnsupportedOpError(f"there is no pass tir.{name}: {_REFUSED[name]}")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def __getattr__(name: str) -> Callable[..., Pass]:
    if name in _REFUSED:
        return _refused(name)
    name = _OTHER_NAMES.get(name, name)
    if not name.startswith("_") and name in list(_tir.ListLoweringPasses()):
        return _lowering_pass(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
