# SPDX-License-Identifier: Apache-2.0
"""Passes over loop-level functions: those of lowering by name, such as VectorizeLoop(). PassContext(config={"tir.add_lower_pass": [(1, my_pass)]}) adds them to lowering."""
from .._ffi import Api
from ..error import Error
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


def Apply(ftransform):  # pylint: disable=invalid-name
    """ftransform(function) for each function."""
    return prim_func_pass(lambda function, module, context: ftransform(function), opt_level=0, name="Apply")


def Filter(fcond):  # pylint: disable=invalid-name
    """Keeps the functions for which fcond(function) holds."""

    def over_module(module, context):
        kept = {var: function for var, function in module.functions.items()
                if not isinstance(function, PrimFunc) or fcond(function)}
        return IRModule(kept, dict(module.type_definitions.items()))

    return _api.MakeModulePass(over_module, "tir.Filter", 0, [])


def SkipAssert():  # pylint: disable=invalid-name
    """Takes assertions away."""
    from .stmt_functor import ir_transform

    def run(function, module, context):
        body = ir_transform(function.body, None, lambda node: node.body, ["tir.AssertStmt"])
        return function.with_body(body)

    return prim_func_pass(run, opt_level=0, name="tir.SkipAssert")


def VerifyMemory():  # pylint: disable=invalid-name
    """An error where the host would touch memory of a device."""
    from .analysis import verify_memory

    def run(function, module, context):
        if not verify_memory(function):
            raise Error("a function for a device binds no thread axes: the host would touch the device's memory")
        return function

    return prim_func_pass(run, opt_level=0, name="tir.VerifyMemory")


# The original's names of passes that are called otherwise here, but do the same.
_OTHER_NAMES = {"BF16Legalize": "LegalizeNarrowFloat", "CompactBufferAllocation": "CompactBuffers",
                "InstrumentBoundCheckers": "InstrumentBoundsChecks", "LowerInitBlock": "LowerInit",
                "StorageFlatten": "FlattenBuffer"}


def __getattr__(name):
    name = _OTHER_NAMES.get(name, name)
    if not name.startswith("_") and name in list(_tir.ListLoweringPasses()):
        return _lowering_pass(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
