# SPDX-License-Identifier: Apache-2.0
"""Names that programs import from onnxruntime.capi.onnxruntime_pybind11_state: exceptions above all."""
from .._errors import (DeviceReset, EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, ModelLoadCanceled,
                       ModelLoaded, ModelRequiresCompilation, NoModel, NoSuchFile, NotFound, NotImplemented,
                       RuntimeException)
from .._options import (ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions,
                        get_all_providers, get_available_providers, get_device)
from .._session import ModelMetadata, NodeArg
from .._values import IOBinding as SessionIOBinding
from .._values import OrtDevice, OrtValue
