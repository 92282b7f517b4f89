# SPDX-License-Identifier: Apache-2.0
"""Runs models that Treadle compiled (`treadle compile model.onnx -o model.so`), without the compiler.

    model = treadle_runtime.load("model.so", threads=2)
    outputs = model(x=image)                     # dict: name -> array

A model may be used by one thread at a time; `clone` makes further ones, which share its weights.
"""
import ctypes
import pathlib

import numpy as np

__all__ = ["Error", "Model", "load", "version"]


class Error(Exception):
    """What the runtime refused: `kind` is its class, such as "ShapeError"."""

    def __init__(self, message, kind="Error"):
        super().__init__(message)
        self.kind = kind


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    """DLTensor of DLPack."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("dtype", _DataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}


def _library():
    library = ctypes.CDLL(str(pathlib.Path(__file__).parent / "lib" / "libtreadle_runtime.so"))
    for name in ("TreadleGetLastError", "TreadleGetLastErrorKind", "TreadleVersion"):
        getattr(library, name).restype = ctypes.c_char_p
    for name in ("TreadleModelFree", "TreadleTensorFree"):
        getattr(library, name).restype, getattr(library, name).argtypes = None, [ctypes.c_void_p]
    return library


_lib = _library()


def _check(status):
    if status != 0:
        raise Error(_lib.TreadleGetLastError().decode(), _lib.TreadleGetLastErrorKind().decode())


def _numpy_type(dtype):
    kind = _KINDS.get(dtype.code)
    if kind is None or dtype.lanes != 1 or dtype.bits < 8:
        raise Error(f"NumPy has no type for elements of code {dtype.code}, {dtype.bits} bits")
    return np.dtype("bool" if kind == "b" else f"{kind}{dtype.bits // 8}")


def version():
    """The runtime's version, such as "0.1.0"."""
    return _lib.TreadleVersion().decode()


class Model:
    """A compiled model. `inputs` and `outputs`: (name, shape, NumPy type) of each; -1 for sizes that may vary."""

    def __init__(self, handle):
        self._handle = handle
        self.inputs = self._infos(_lib.TreadleModelInputInfo, _lib.TreadleModelNumInputs(handle))
        self.outputs = self._infos(_lib.TreadleModelOutputInfo, _lib.TreadleModelNumOutputs(handle))
        self._types = {name: dtype for name, _, dtype in self.inputs}

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            _lib.TreadleModelFree(handle)

    def _infos(self, function, count):
        infos = []
        for i in range(count):
            name, ndim, shape, dtype = ctypes.c_char_p(), ctypes.c_int(), ctypes.POINTER(ctypes.c_int64)(), _DataType()
            _check(function(self._handle, i, *map(ctypes.byref, (name, ndim, shape, dtype))))
            infos.append((name.value.decode(), tuple(shape[: ndim.value]), _numpy_type(dtype)))
        return infos

    def __call__(self, **inputs):
        """The outputs by name, arrays of their own. An input that isn't given keeps its value of the last run."""
        for name, value in inputs.items():
            if name not in self._types:
                raise Error(f"no input '{name}'; the inputs are: {', '.join(self._types)}")
            array = np.ascontiguousarray(value, None if hasattr(value, "dtype") else self._types[name])
            shape = (ctypes.c_int64 * max(1, array.ndim))(*np.shape(value))
            if array.dtype.kind not in _CODES:
                raise Error(f"input '{name}': no tensor has elements of type {array.dtype}", "DTypeError")
            dtype = _DataType(_CODES[array.dtype.kind], 8 * array.dtype.itemsize, 1)
            tensor = _Tensor(array.ctypes.data, 1, 0, np.ndim(value), dtype, shape, None, 0)
            _check(_lib.TreadleModelSetInput(self._handle, name.encode(), ctypes.byref(tensor)))
        _check(_lib.TreadleModelRun(self._handle))
        return {name: self._output(i) for i, (name, _, _) in enumerate(self.outputs)}

    def _output(self, index):
        pointer = ctypes.POINTER(_Tensor)()
        _check(_lib.TreadleModelGetOutput(self._handle, index, ctypes.byref(pointer)))
        tensor = pointer.contents
        result = np.empty(tuple(tensor.shape[: tensor.ndim]), _numpy_type(tensor.dtype))
        status = _lib.TreadleTensorCopyToBytes(pointer, result.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(result.nbytes))
        _lib.TreadleTensorFree(pointer)
        _check(status)
        return result

    def clone(self):
        """Another model with inputs and outputs of its own, for another thread; code and weights are shared."""
        handle = ctypes.c_void_p()
        _check(_lib.TreadleModelClone(self._handle, ctypes.byref(handle)))
        return Model(handle)


def load(path, threads=0):
    """Loads a compiled model. threads: that runs use, 0 for all. Errors: Error that names the file."""
    handle = ctypes.c_void_p()
    _check(_lib.TreadleModelLoad(str(path).encode(), ctypes.byref(handle)))
    _check(_lib.TreadleModelSetNumThreads(handle, int(threads)))
    return Model(handle)
