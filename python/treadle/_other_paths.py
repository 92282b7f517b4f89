# SPDX-License-Identifier: Apache-2.0
"""Modules where TVM has, under another path, what stands elsewhere here: `from treadle.relay.ty import TensorType`."""
import importlib.machinery
import sys
import types

# path: (where its names are, and which; none: all public ones)
_PATHS = {
    "_ffi.base": ("treadle.error", "TVMError"),
    "arith.analyzer": ("treadle.arith", ""),
    "driver.build_module": ("treadle.build_module", ""),
    **dict.fromkeys(("arith.bound", "arith.int_set", "arith.int_solver", "arith.pattern"), ("treadle.arith", "")),
    "ir.adt": ("treadle.ir", "Constructor TypeData"),
    "ir.container": ("treadle.ir", "Array Map"),
    "ir.function": ("treadle.ir", "BaseFunc"),
    "ir.tensor_type": ("treadle.ir", "TensorType"),
    "relay.adt": ("treadle.relay", "Clause Constructor Match Pattern PatternConstructor PatternTuple PatternVar PatternWildcard "
                                   "TypeData"),
    "relay.backend.interpreter": ("treadle._values", "Closure ConstructorValue RefValue TupleValue"),
    "relay.backend.vm": ("treadle.relay.vm", ""),
    **dict.fromkeys(("relay.analysis.analysis", "relay.analysis.call_graph", "relay.analysis.annotated_regions"),
                    ("treadle.relay.analysis", "")),
    "relay.base": ("treadle.ir", "Node Span"),
    "relay.frontend.onnx": ("treadle.relay.frontend", "from_onnx"),
    "relay.function": ("treadle.relay", "Function"),
    "relay.op.op": ("treadle.relay.op", ""),
    "relay.op.strategy.generic": ("treadle.relay.op.strategy", ""),
    "relay.ty": ("treadle.ir", "FuncType GlobalTypeVar IncompleteType RelayRefType TensorType TupleType Type TypeCall "
                               "TypeData TypeKind TypeVar"),
    "relay.data_dep_optimization": ("treadle.relay.passes.data_dep_optimization", ""),
    "relay.transform.transform": ("treadle.relay.transform", ""),
    "rpc.base": ("treadle.rpc", ""),
    "container": ("treadle.runtime", "Array Map"),
    "runtime.container": ("treadle._container", "ADT Array Map ShapeTuple String tuple_object"),
    "runtime.module": ("treadle.runtime", "BenchmarkResult Module enabled load_module"),
    "runtime.ndarray": ("treadle.nd", ""),
    "runtime.object": ("treadle.runtime", "Object"),
    "runtime.params": ("treadle.runtime", "load_param_dict save_param_dict"),
    "runtime.profiling": ("treadle.contrib.debugger.debug_executor", "Report"),
    "runtime.packed_func": ("treadle._ffi", "PackedFunc"),
    "target.datatype": ("treadle.tir.datatype", ""),
    "target.generic_func": ("treadle.target", "GenericFunc generic_func get_native_generic_func "
                                              "override_native_generic_func"),
    "target.tag": ("treadle.target", ""),
    "target.target": ("treadle.target", ""),
    "te.autodiff": ("treadle.te", "gradient"),
    "tir.analysis.analysis": ("treadle.tir.analysis", ""),
    "tir.buffer": ("treadle.tir", "Buffer decl_buffer"),
    "tir.op": ("treadle.tir.expr", ""),
    "tir.schedule.schedule": ("treadle.tir.schedule", ""),
    "tir.schedule.testing": ("treadle.tir.schedule", "verify_trace_roundtrip"),
    "tir.schedule.trace": ("treadle.tir.schedule", "Trace"),
    "tir.transform.function_pass": ("treadle.tir.transform", "PrimFuncPass prim_func_pass"),
    "tir.transform.transform": ("treadle.tir.transform", ""),
    "topi.broadcast": ("treadle.topi", ""),
    "topi.math": ("treadle.topi", ""),
    "topi.reduction": ("treadle.topi", ""),
    "topi.tag": ("treadle.te.tag", ""),
    "topi.transform": ("treadle.topi", ""),
}

# Attributes that are modules in TVM.
_ATTRIBUTES = ("relay.qnn", "relay.qnn.op", "relay.quantize", "topi.arm_cpu", "topi.bifrost", "topi.cuda", "topi.gpu", "topi.image",
               "topi.intel_graphics", "topi.mali", "topi.vision", "topi.x86")


def add(paths):
    """Puts modules where `import` and attributes find them: {path: (where its names are, and which; none: all)}."""
    for path, (source, names) in paths.items():
        origin = sys.modules[source]
        module = types.ModuleType(f"treadle.{path}", f"Names of {source}.")
        if names:
            vars(module).update({name: getattr(origin, name) for name in names.split()})
        else:
            module.__getattr__ = lambda name, origin=origin: getattr(origin, name)
            module.__dir__ = lambda origin=origin: dir(origin)
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
        sys.modules[module.__name__] = module
        parent, _, name = module.__name__.rpartition(".")
        if name not in vars(sys.modules[parent]):  # target.generic_func is a function, too
            setattr(sys.modules[parent], name, module)


def install():
    """All of those whose names are imported with the package."""
    add(_PATHS)
    for path in _ATTRIBUTES:
        parent, _, name = f"treadle.{path}".rpartition(".")
        sys.modules[f"treadle.{path}"] = getattr(sys.modules[parent], name)
