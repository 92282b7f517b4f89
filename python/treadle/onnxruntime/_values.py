# SPDX-License-Identifier: Apache-2.0
"""Values and bindings: OrtValue, OrtDevice, IOBinding."""
import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._arguments import suggest
from .._dtype import to_numpy
from ._errors import InvalidArgument, NotImplemented

# TensorProto.DataType by NumPy name, and the names of types that differ from NumPy's.
_ELEM_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "object": 8,
               "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15,
               "bfloat16": 16}
_ORT_NAMES = {"float32": "float", "float64": "double", "object": "string"}


def _name_of_type(number: int) -> str:
    for name, known in _ELEM_TYPES.items():
        if known == number:
            return name
    raise InvalidArgument(f"there is no element type {number}; expected a number of onnx.TensorProto.DataType")


def type_string(dtype: Any) -> str:
    """"tensor(float)" of a NumPy dtype."""
    name = np.dtype(dtype).name if np.dtype(dtype).kind not in "OUS" else "object"
    return f"tensor({_ORT_NAMES.get(name, name)})"


def _check_device(name: str) -> None:
    if str(name).lower() not in ("cpu", "cuda_pinned"):
        raise NotImplemented(f"values are on the CPU; there is no device '{name}'")


class OrtDevice:
    """A device; there is the CPU only."""

    def __init__(self, device: str = "cpu", device_id: int = 0) -> None:
        _check_device(device)
        self._id = device_id

    @staticmethod
    def make(ort_device_name: str, device_id: int = 0, vendor_id: int = -1) -> "OrtDevice":
        return OrtDevice(ort_device_name, device_id)

    @staticmethod
    def cpu() -> int:
        return 0

    @staticmethod
    def default_memory() -> int:
        return 0

    def device_id(self) -> int:
        return self._id

    def device_type(self) -> int:
        return 0

    def device_mem_type(self) -> int:
        return 0

    def device_vendor_id(self) -> int:
        return 0


class OrtValue:
    """A tensor, over a NumPy array."""

    def __init__(self, array: Any) -> None:
        self._array = array

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: Any, device_type: str = "cpu", device_id: int = 0,
                            vendor_id: int = -1) -> "OrtValue":
        _check_device(device_type)
        return cls(np.ascontiguousarray(numpy_obj).reshape(np.shape(numpy_obj)))

    @classmethod
    def ortvalue_from_shape_and_type(cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu",
                                     device_id: int = 0, vendor_id: int = -1) -> "OrtValue":
        _check_device(device_type)
        dtype = to_numpy(_name_of_type(element_type)) if isinstance(element_type, int) else np.dtype(element_type)
        return cls(np.zeros(shape, dtype))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: Any, /, onnx_element_type: int) -> "OrtValue":
        """Shares the memory of an array, interpreted as elements of a TensorProto.DataType of the same size."""
        name = _name_of_type(onnx_element_type)
        dtype = to_numpy(name)
        if dtype.itemsize != np.asarray(data).dtype.itemsize:
            raise InvalidArgument(f"elements of {np.asarray(data).dtype} can't be taken as {name}: their sizes differ")
        return cls(np.asarray(data).view(dtype))

    @staticmethod
    def ort_value_from_sparse_tensor(sparse_tensor: Any) -> "OrtValue":
        raise NotImplemented("values are dense; give the array that the sparse tensor stands for")

    def as_sparse_tensor(self) -> Any:
        raise NotImplemented("values are dense: there is no sparse tensor in this one")

    @classmethod
    def from_dlpack(cls, dlpack: Any, is_bool_tensor: bool = False) -> "OrtValue":
        array = np.from_dlpack(dlpack)
        return cls(array.view(np.bool_) if is_bool_tensor else array)

    def __dlpack__(self, **keywords: Any) -> Any:
        return self._array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def numpy(self) -> Any:
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._array, dtype)

    def shape(self) -> list[int]:
        return list(self._array.shape)

    def data_type(self) -> str:
        return type_string(self._array.dtype)

    def element_type(self) -> int:
        return _ELEM_TYPES[np.dtype(self._array.dtype).name]

    def data_ptr(self) -> int:
        return self._array.ctypes.data

    def tensor_size_in_bytes(self) -> int:
        return self._array.nbytes

    def device_name(self) -> str:
        return "cpu"

    def has_value(self) -> bool:
        return True

    def is_tensor(self) -> bool:
        return True

    def is_sparse_tensor(self) -> bool:
        return False

    def is_tensor_sequence(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<OrtValue {self.data_type()} {self.shape()}>"

    def update_inplace(self, np_arr: Any) -> None:
        if np.shape(np_arr) != self._array.shape or np.asarray(np_arr).dtype != self._array.dtype:
            raise InvalidArgument(f"the value is {self._array.dtype}{list(self._array.shape)}, not "
                                  f"{np.asarray(np_arr).dtype}{list(np.shape(np_arr))}")
        self._array[...] = np_arr


def to_array(value: Any) -> Any:
    """The NumPy array of an OrtValue; other values as they are."""
    return value.numpy() if isinstance(value, OrtValue) else value


def _array_at(pointer: int, shape: Sequence[int], dtype: Any) -> np.ndarray:
    dtype = np.dtype(dtype)
    if not pointer:
        raise InvalidArgument("a buffer at address 0 is bound")
    count = int(np.prod(shape, dtype=np.int64))
    buffer = (ctypes.c_char * max(1, count * dtype.itemsize)).from_address(pointer)
    return np.frombuffer(buffer, dtype, count).reshape(shape)


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copies values into others of their types and shapes."""
    if len(src) != len(dst):
        raise InvalidArgument(f"{len(src)} values are copied to {len(dst)}")
    for source, target in zip(src, dst):
        target.update_inplace(source.numpy())


def _as_value(value: Any) -> OrtValue:
    if not isinstance(value, OrtValue):
        raise TypeError(f"expected an OrtValue, got {type(value).__name__}; ortvalue_from_numpy makes one of an array")
    return value


class IOBinding:
    """Inputs and outputs of a session that are bound before it runs; they are read and written in place. Not
    thread-safe.

    >>> import onnx.parser, treadle.onnxruntime as ort
    >>> relu = onnx.parser.parse_model(
    ...     '<ir_version: 8, opset_import: ["": 17]> g (float[n, 2] x) => (float[n, 2] y) { y = Relu(x) }')
    >>> binding, y = ort.InferenceSession(relu).io_binding(), np.zeros((1, 2), np.float32)
    >>> binding.bind_cpu_input("x", np.float32([[-1, 2]]))
    >>> binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    >>> binding.run()
    >>> y
    array([[0., 2.]], dtype=float32)
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, np.ndarray | None] = {}
        self._results: list[Any] = []
        self._model: Any = None  # of the context
        self._context: Any = None

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        self._inputs[self._known(name, self._session.get_inputs())] = arr_on_cpu

    def bind_input(self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int],
                   buffer_ptr: int) -> None:
        _check_device(device_type)
        self._inputs[self._known(name, self._session.get_inputs())] = _array_at(buffer_ptr, shape, element_type)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        self._inputs[self._known(name, self._session.get_inputs())] = _as_value(ortvalue).numpy()

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
                    shape: Sequence[int] | None = None, buffer_ptr: int | None = None) -> None:
        _check_device(device_type)
        name = self._known(name, self._session.get_outputs())
        self._outputs[name] = None if buffer_ptr is None else _array_at(buffer_ptr, shape or (), element_type)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        self._outputs[self._known(name, self._session.get_outputs())] = _as_value(ortvalue).numpy()

    @staticmethod
    def _known(name, values):
        names = [value.name for value in values]
        if name not in names:
            raise InvalidArgument(f"the model has no '{name}'; it has: {', '.join(names)}{suggest(name, names)}")
        return name

    def clear_binding_inputs(self) -> None:
        self._inputs = {}

    def clear_binding_outputs(self) -> None:
        self._outputs, self._results = {}, []

    def synchronize_inputs(self) -> None:
        """Values are on the CPU: there is nothing to wait for."""

    def synchronize_outputs(self) -> None:
        """Values are on the CPU: there is nothing to wait for."""

    def run(self, run_options: Any = None) -> None:
        self._results = self._session._run_bound(self, run_options)

    def _run_in_context(self, model: Any, feed: dict[str, Any], cancel: Any) -> list[Any]:
        """The outputs that are bound, or all, of a model that the session chose for the inputs' shapes."""
        if model is not self._model:
            self._model, self._context = model, model.create_context()
        names = [info.name for info in model.outputs]
        for name in names:
            self._context.bind_output(name, self._outputs.get(name))
        results = self._context.run(feed, cancel=cancel)
        return [results[name] for name in self._outputs or names]

    def get_outputs(self) -> list[OrtValue]:
        return [OrtValue(result) for result in self._results]

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        return [np.array(result) for result in self._results]
