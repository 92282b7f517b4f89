# SPDX-License-Identifier: Apache-2.0
"""Tensors and devices, exchanged with NumPy and, by DLPack, with everyone else."""
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import _core
from ._core import Device
from ._dtype import DataType, of_numpy, to_numpy
from .error import DTypeError, Error, ShapeError


def cpu(index: int = 0) -> Device:
    """The CPU."""
    return device("cpu", index)


def cuda(index: int = 0) -> Device:
    """A CUDA device."""
    return device("cuda", index)


def opencl(index: int = 0) -> Device:
    """An OpenCL device."""
    return device("opencl", index)


cl = opencl


def _no_device(name):
    def make(index: int = 0) -> Device:
        return device(name, index)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A device of kind {name}; `exist` says whether there is one."
    return make


vulkan, metal, vpi, rocm, ext_dev, hexagon, webgpu = (
    _no_device(name) for name in ("vulkan", "metal", "vpi", "rocm", "ext_dev", "hexagon", "webgpu"))
mtl = metal


def device(name: str | int, index: int | None = None) -> Device:
    """The device called `name`: "cpu", "cuda:1", ..., or a target's name such as "llvm"."""
    if index is not None and not isinstance(index, numbers.Integral):
        raise DTypeError(f"devices are numbered from 0: expected an int, got {index!r}")
    if index is not None and index < 0:
        raise Error(f"device {name}: its number is {index}; devices are numbered from 0")
    found = Device(str(name).split()[0]) if isinstance(name, str) else Device(int(name), 0)
    return found if index is None else Device(found.device_type, index)


def _device_of(given: Any) -> Device:
    """A device, or the one of a name."""
    if isinstance(given, Device):
        return given
    if not isinstance(given, str):
        raise DTypeError(f"expected a device such as treadle.cpu(), or its name, got {given!r}")
    return device(given)


class NDArray(_core.Object):
    """A tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        return _core.nd_shape(self)

    @property
    def dtype(self) -> DataType:
        return DataType(_core.nd_dtype(self))

    @property
    def device(self) -> Device:
        return _core.nd_device(self)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def numpy(self) -> np.ndarray:
        """A NumPy array with a copy of the elements."""
        return _view(self).copy()

    asnumpy = numpy

    def copyfrom(self, source: Any) -> "NDArray":
        """Replaces the elements by those of an array of the same shape and type."""
        source = source if isinstance(source, NDArray) else array(np.asarray(source, dtype=to_numpy(self.dtype)))
        _core.nd_copy_from(self, source)
        return self

    def copyto(self, target: "Device | NDArray") -> "NDArray":
        """Copies to another tensor, or to a new one on a device."""
        if isinstance(target, Device):
            return _core.nd_copy(self, target)
        if not hasattr(target, "copyfrom"):
            raise DTypeError(f"copyto: expected a tensor or a device, got {target!r}")
        return target.copyfrom(self)

    def __setitem__(self, key: slice, value: Any) -> None:
        if not isinstance(key, slice) or key != slice(None):
            raise Error("only x[:] = value is supported; change a NumPy copy instead")
        self.copyfrom(value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        result = self.numpy()
        return result if dtype is None else result.astype(dtype)

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the tensor is on {self.device}")
        tensor = _core.nd_copy(self, self.device) if copy else self
        return _core.nd_to_capsule(tensor, max_version is not None and max_version[0] >= 1)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device.device_type, self.device.device_id)

    def to_dlpack(self) -> Any:
        """A DLPack capsule of the tensor, which shares its memory."""
        return self.__dlpack__()

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<treadle.nd.NDArray shape={self.shape}, {self.device}>\n{self.numpy()!r}"

    # A tensor equals only itself; compare elements through numpy().
    __eq__ = _core.Object.__eq__
    __hash__ = _core.Object.__hash__


_core.register_object("runtime.NDArray", NDArray)


def _view(tensor: NDArray) -> np.ndarray:
    """A NumPy array over the elements of a tensor (copied first when they aren't on the CPU)."""
    shared = _core.nd_to_numpy(tensor)
    if shared is not None:
        return shared
    host = tensor if tensor.device.device_type == 1 else _core.nd_copy(tensor, cpu())
    return _core.nd_bytes(host).view(to_numpy(tensor.dtype)).reshape(tensor.shape)


def _refuse_masked(value: Any) -> None:
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise Error("a masked array with masked elements: give them values first, by filled(..)")


def as_tensor(value: Any) -> NDArray:
    """A tensor that shares the memory of `value` where it can; `value`: NDArray, NumPy or DLPack array, number, list."""
    if isinstance(value, NDArray):
        return value
    _refuse_masked(value)
    if not isinstance(value, np.ndarray):
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array_interface__"):
            return from_dlpack(value)
        value = np.asarray(value)
    tensor = _core.nd_from_numpy(value)
    if tensor is not None:
        return tensor
    if value.dtype.byteorder == ">":
        value = value.astype(value.dtype.newbyteorder("="))
    name = of_numpy(value.dtype)
    compact = np.ascontiguousarray(value).reshape(value.shape)
    flat = compact.reshape(-1).view(np.uint8)
    if not flat.flags.writeable:
        return array(compact)
    return _core.nd_from_bytes(flat, compact.shape, name, False, compact)


def argument(index: int, value: Any) -> Any:
    """An argument of a compiled function: a NumPy array as a tensor over its memory, which the function may write."""
    if not isinstance(value, np.ndarray):
        return value
    if not value.flags.c_contiguous:
        raise ShapeError(f"argument {index}: a NumPy array that isn't contiguous (strides {value.strides}); expected a "
                         "contiguous one, such as numpy.ascontiguousarray gives, or a tensor (nd.array)")
    if not value.flags.writeable:
        raise Error(f"argument {index}: a read-only NumPy array; expected one that can be written, or a tensor (nd.array)")
    return as_tensor(value)


def array(value: Any, device: Device | None = None, dtype: Any = None) -> NDArray:
    """A new tensor with a copy of `value` (array, list or number), of its element type or of `dtype`.

    device: one of this process, or of a session (treadle.rpc). Errors: DTypeError for what isn't numbers, Error for
    masked elements.

    >>> tensor = treadle.nd.array([1, 2, 3], dtype="float32")
    >>> tensor.shape, tensor.dtype, tensor.numpy().sum()
    ((3,), 'float32', np.float32(6.0))
    """
    session = getattr(device, "rpc_session", None)
    if session is not None:
        return session.array(value, device, dtype)
    if device is not None and not isinstance(device, _core.Device):
        device = _device_of(device)
    if isinstance(value, NDArray):
        return _core.nd_copy(value, device or cpu())
    _refuse_masked(value)
    given, value = value, np.asarray(value, dtype=None if dtype is None else to_numpy(dtype))
    if value.dtype == object:
        raise DTypeError(f"can't make a tensor of a {type(given).__name__}")
    result = empty(value.shape, of_numpy(value.dtype))
    if value.size:
        _view(result)[...] = value
    return result if device is None or device == cpu() else _core.nd_copy(result, device)


def empty(shape: int | Iterable[int], dtype: Any = "float32", device: Device | None = None) -> NDArray:
    """A new tensor with unspecified elements.

    >>> treadle.nd.empty((2, 3), "int8").shape
    (2, 3)
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(isinstance(dim, numbers.Integral) and dim < 2**63 for dim in shape):
        raise ShapeError(f"a shape is a tuple of whole numbers below 2**63, not {shape!r}")
    shape = tuple(int(dim) for dim in shape)
    session = getattr(device, "rpc_session", None)
    if session is not None:
        return session.empty(shape, dtype, device)
    return _core.nd_empty(shape, str(dtype) if isinstance(dtype, str) else of_numpy(dtype), _device_of(device or cpu()))


def from_dlpack(value: Any) -> NDArray:
    """A tensor over the memory of an array of another library (or over a DLPack capsule): nothing is copied.

    >>> values = np.zeros(2)
    >>> tensor = treadle.nd.from_dlpack(values)
    >>> values[0] = 7
    >>> tensor.numpy()
    array([7., 0.])
    """
    if not hasattr(value, "__dlpack__"):
        return _core.nd_from_capsule(value)
    try:
        capsule = value.__dlpack__(max_version=(1, 1))  # the form that can say "read only"
    except TypeError:  # a producer from before DLPack 1.0
        capsule = value.__dlpack__()
    return _core.nd_from_capsule(capsule)
