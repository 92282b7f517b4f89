# SPDX-License-Identifier: Apache-2.0
"""Treadle: a deep-learning compiler. `compile` an ONNX model, call it with NumPy arrays."""
from . import _core, error, nd, runtime
from ._core import Device, Object
from ._dtype import DataType
from ._ffi import convert, get_global_func, list_global_func_names, register_func, register_object
from .error import (DTypeError, Error, InternalError, ModelFormatError, ShapeError, TargetError, TVMError,
                    UnsupportedOpError, VerifyError)
from .nd import cl, cpu, cuda, device, gpu, opencl
from . import arith, contrib, instrument, ir, parser, relay, target, te, testing, tir, transform
from .build_module import build, lower
from . import topi
from .contrib import graph_executor
from .ir import IRModule
from ._progress import Progress
from .model import Model, compile, load, load_plugin
from . import onnxruntime, profiler_vm, rpc, script
from .onnxruntime import InferenceSession
from .quantization import graph_ir as _graph_ir, quantize
from .tuning import tune
from ._version import __version__

te.build = build
relay.quantize = _graph_ir
