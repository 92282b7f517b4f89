# SPDX-License-Identifier: Apache-2.0
"""Treadle: a deep-learning compiler. `compile` an ONNX model, call it with NumPy arrays."""
import os as _os
import signal as _signal
import sys as _sys
import typing as _typing

# `python -m treadle` is about to become the program, which an interrupt ends in silence.
if _sys.argv[:1] == ["-m"] and ("-m", "treadle") in zip(_sys.orig_argv, _sys.orig_argv[1:]):
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from . import _core, error, nd, runtime
from ._core import Device, Object
from ._dtype import DataType
from ._ffi import convert, get_global_func, list_global_func_names, register_func, register_object
from .error import (DTypeError, Error, InternalError, ModelFormatError, ShapeError, TargetError, TVMError,
                    UnsupportedOpError, VerifyError)
from .runtime import DataTypeCode
from .nd import cl, cpu, cuda, device, ext_dev, gpu, hexagon, metal, mtl, opencl, rocm, vpi, vulkan, webgpu
from . import arith, contrib, instrument, ir, parser, relay, target, te, testing, tir, transform
from .build_module import build, lower
from . import driver, topi
from .contrib import absent as _absent, graph_executor
from .ir import IRModule
from ._progress import Progress
from .model import CancelToken, Model, compile, limited, load, load_plugin
from . import pytorch
from .pytorch import from_torch
from . import onnxruntime, profiler_vm, report, rpc, script, support
from .onnxruntime import InferenceSession
from .quantization import graph_ir as _graph_ir, quantize
from .tuning import tune
from . import _container, _other_names, _other_paths
from .contrib.debugger.debug_executor import Report as _Report
from ._version import __version__

cmake_prefix_path: str = _os.path.dirname(_os.path.abspath(__file__))
"""For CMake's find_package(treadle): `cmake -DCMAKE_PREFIX_PATH=..`; headers, libraries, treadle_add_model."""

__all__ = [
    "CancelToken", "DTypeError", "DataType", "Device", "Error", "IRModule", "InferenceSession", "InternalError",
    "Model", "ModelFormatError", "Object", "Progress", "ShapeError", "TVMError", "TargetError", "UnsupportedOpError",
    "VerifyError", "arith", "build", "cl", "cmake_prefix_path", "compile", "contrib", "convert", "cpu", "cuda",
    "device", "error", "from_torch", "get_global_func", "gpu", "graph_executor", "instrument", "ir", "limited",
    "list_global_func_names", "load", "load_plugin", "lower", "nd", "onnxruntime", "opencl", "parser", "profiler_vm",
    "quantization", "quantize", "register_func", "register_object", "relay", "report", "rpc", "runtime", "target",
    "te", "testing", "tir", "topi", "transform", "tune"]


if not _typing.TYPE_CHECKING:  # a type checker finds such names itself
    def __getattr__(name: str) -> object:
        from ._arguments import suggest

        raise AttributeError(f"module 'treadle' has no attribute '{name}'{suggest(name, __all__)}")


te.build = build
runtime.Report = _Report  # type: ignore[attr-defined]
relay.quantize = _graph_ir
_other_paths.install()
_other_names.install()
