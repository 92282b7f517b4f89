# SPDX-License-Identifier: Apache-2.0
"""Names that programs import from onnxruntime.capi.onnxruntime_pybind11_state: exceptions above all."""
from .._errors import (EngineError, EPFail, Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, ModelLoaded, NoModel,
                       NoSuchFile, NotImplemented, RuntimeException)
from .._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from .._session import ModelMetadata, NodeArg
from .._values import IOBinding as SessionIOBinding
from .._values import OrtDevice, OrtValue


def get_available_providers():
    return ["CPUExecutionProvider"]


def get_device():
    return "CPU"
