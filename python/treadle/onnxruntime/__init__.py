# SPDX-License-Identifier: Apache-2.0
"""A drop-in replacement for the package onnxruntime: `import treadle.onnxruntime as onnxruntime`, or call
`treadle.onnxruntime.install()` before other packages import it."""
import importlib.util
import numbers
import sys
import typing as _typing
from collections.abc import Callable
from typing import Any

from . import capi
from ._devices import (OrtAllocatorType, OrtArenaCfg, OrtDeviceMemoryType, OrtDeviceVendorId,
                       OrtExecutionProviderDevicePolicy, OrtHardwareDeviceType, OrtMemoryInfo, OrtMemoryInfoDeviceType,
                       OrtMemType, create_and_register_allocator, create_and_register_allocator_v2, get_ep_devices,
                       has_collective_ops)
from ._options import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions,
                       get_all_providers, get_available_providers, get_device, set_global_thread_pool_sizes)
from ._refused import STAND_INS as _STAND_INS
from ._session import InferenceSession, ModelMetadata, NodeArg
from ._values import IOBinding, OrtDevice, OrtValue, copy_tensors

# The version of ONNX Runtime whose interface this follows: programs compare it.
__version__ = version = "1.31.1"
package_name = "onnxruntime"
cuda_version = ""
import_capi_exception: Exception | None = None
SessionIOBinding = IOBinding
globals().update(_STAND_INS)
_severity = {"level": 2, "verbosity": 0}


def get_version_string() -> str:
    """The onnxruntime version whose interface is implemented."""
    return __version__


def get_build_info() -> str:
    """Treadle and its version."""
    from .._version import __version__ as own

    return f"Treadle {own}"


def set_default_logger_severity(level: int) -> None:
    """0 (verbose) to 4 (fatal). Stored without effect: Treadle logs nothing."""
    if level not in range(5):
        raise capi.onnxruntime_pybind11_state.InvalidArgument(f"Invalid logging severity {level}; expected 0 to 4")
    _severity["level"] = level


def set_default_logger_verbosity(level: int) -> None:
    """Has no effect: there are no verbose messages."""
    _severity["verbosity"] = level


def set_default_logger_callback(callback: Callable[..., object] | None, severity: int = 2) -> None:
    """Treadle logs nothing; the callback is never called."""


def print_debug_info() -> None:
    """Prints what a bug report should contain; `treadle doctor` prints more."""
    import platform

    print(f"onnxruntime {__version__} as {get_build_info()} has it")
    print("platform:", platform.platform())


def set_seed(seed: int) -> None:
    """Without effect: random operators use the seeds in the model."""
    if not isinstance(seed, numbers.Integral):
        raise TypeError(f"seed: expected a whole number, got {type(seed).__name__}")


def disable_telemetry_events() -> None:
    """There is no telemetry."""


def enable_telemetry_events() -> None:
    """There is no telemetry."""


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None) -> None:
    """There is nothing to load."""


def install() -> None:
    """Makes `import onnxruntime` return this module in this process. ImportError if onnxruntime is loaded already.

    If onnxruntime is installed, its Python tools (onnxruntime.quantization, onnxruntime.transformers) remain available.
    """
    loaded = sys.modules.get("onnxruntime")
    this = sys.modules[__name__]
    if loaded is this:
        return
    if loaded is not None:
        raise ImportError("the package onnxruntime is loaded already; call treadle.onnxruntime.install() first")
    spec = importlib.util.find_spec("onnxruntime")
    __path__.extend(path for path in (spec and spec.submodule_search_locations) or () if path not in __path__)
    for name, module in list(sys.modules.items()):
        if name == __name__ or name.startswith(__name__ + ".capi"):
            sys.modules["onnxruntime" + name[len(__name__):]] = module


if not _typing.TYPE_CHECKING:  # a type checker finds such names itself
    def __getattr__(name: str) -> Any:
        from .._arguments import suggest

        raise AttributeError(f"treadle.onnxruntime has no '{name}'{suggest(name, __all__)}")


__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata",
    "NodeArg", "OrtAllocatorType", "OrtArenaCfg", "OrtDevice", "OrtDeviceMemoryType", "OrtDeviceVendorId",
    "OrtExecutionProviderDevicePolicy", "OrtHardwareDeviceType", "OrtMemType", "OrtMemoryInfo",
    "OrtMemoryInfoDeviceType", "OrtValue", "RunOptions", "SessionIOBinding", "SessionOptions", "capi", "copy_tensors",
    "create_and_register_allocator", "create_and_register_allocator_v2", "disable_telemetry_events",
    "enable_telemetry_events", "get_all_providers", "get_available_providers", "get_build_info", "get_device",
    "get_ep_devices", "get_version_string", "has_collective_ops", "install", "preload_dlls", "print_debug_info",
    "set_default_logger_callback", "set_default_logger_severity", "set_default_logger_verbosity",
    "set_global_thread_pool_sizes", "set_seed", "version"]
