# SPDX-License-Identifier: Apache-2.0
"""What users give and get as inputs and outputs of models, and the executors' tensors. `infos`: TensorInfo by name."""
from collections.abc import Mapping

import numpy as np

from . import _arguments, _core, _encoded
from ._nd import _view, as_tensor
from .error import DTypeError, Error


def _to_tensor(name, value, infos):
    """What the executor takes for an input of a model with inputs `infos`."""
    info = infos.get(name)
    if info is None:
        raise Error(f'no input "{name}"; the inputs are: {", ".join(infos) or "none"}' + _arguments.suggest(name, infos))
    if info.value_type:
        try:
            return _encoded.to_bytes(value, info.value_type)
        except DTypeError as error:
            raise DTypeError(f'input "{name}": {error}') from None
    if not _arguments.is_array(value):
        value = _arguments.converted(name, value, info.dtype)
    try:
        return as_tensor(value)
    except DTypeError as error:
        raise DTypeError(f'input "{name}": {error}; expected {info.dtype}') from None


def to_tensors(inputs, infos):
    if not isinstance(inputs, Mapping):
        raise DTypeError(f"inputs are given as a dict by name, not as {type(inputs).__name__}; the inputs are: "
                         f"{', '.join(infos) or 'none'}")
    tensors = {}
    for name, value in inputs.items():
        info = infos.get(name)
        # Most are arrays that can be shared as they are; of models with many inputs the rest takes noticeable time.
        shareable = type(value) is np.ndarray and info is not None and not info.value_type
        tensor = _core.nd_from_numpy(value) if shareable else None
        tensors[name] = _to_tensor(name, value, infos) if tensor is None else tensor
    return tensors


def to_python(tensor, info):
    """An array that shares the memory of a tensor without other writers; a list, dict or strings for outputs of these types."""
    array = _view(tensor)
    return _encoded.from_bytes(array) if info.value_type else array
