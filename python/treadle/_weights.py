# SPDX-License-Identifier: Apache-2.0
"""Weights from elsewhere in place of a model's initializers."""
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _arguments
from .error import DTypeError, Error, ModelFormatError, ShapeError


def _read(weights: Any) -> dict[str, Any]:
    """Arrays by name, of a dict or a file of safetensors."""
    if not isinstance(weights, (str, os.PathLike)):
        return _arguments.mapping("weights", weights, "{'w': array}, or the path of a .safetensors file")
    path = _arguments.path("weights", weights)
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError:
        raise Error("files of weights need the package safetensors: pip install safetensors") from None
    if not pathlib.Path(path).is_file():
        raise Error(f"weights: can't open {path}: no such file")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as problem:
        raise ModelFormatError(f"weights: {path} isn't a file of safetensors: {problem}") from None


def replaced(model: Any, weights: Mapping[str, Any] | str | os.PathLike[str]) -> bytes:
    """The serialised model with arrays in place of the initializers of their names; types and shapes stay as they are."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError:
        raise Error("weights are put into models by the package onnx: pip install onnx") from None
    given = _read(weights)
    if hasattr(model, "SerializeToString"):
        proto = onnx.ModelProto()
        proto.CopyFrom(model)
    elif isinstance(model, (str, os.PathLike)):
        try:
            proto = onnx.load(_arguments.path("model", model))
        except OSError as problem:
            raise Error(f"can't open {os.fspath(model)}: {problem.strerror}") from None
        except Exception as problem:
            raise ModelFormatError(f"{os.fspath(model)}: {problem}") from None
    else:
        proto = onnx.load_from_string(bytes(model))
    known = {tensor.name: tensor for tensor in proto.graph.initializer}
    for name, value in given.items():
        if name not in known:
            raise Error(f"weights: the model has no initializer '{name}'" + _arguments.suggest(name, known))
        array, old = np.asarray(value), known[name]
        if list(array.shape) != list(old.dims):
            raise ShapeError(f"weights: '{name}' is {list(array.shape)}, the model's {list(old.dims)}")
        new = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        if new.data_type != old.data_type:
            types = onnx.TensorProto.DataType
            raise DTypeError(f"weights: '{name}' is {types.Name(new.data_type)}, the model's {types.Name(old.data_type)}")
        old.CopyFrom(new)
    return proto.SerializeToString()
