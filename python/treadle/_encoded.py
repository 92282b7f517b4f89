# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs that aren't tensors of numbers as bytes, in the form that src/runtime/vm/host/values.cc describes:
strings, sequences (lists), optionals (a value or None), maps (dicts)."""
import functools
import math
import re
import struct

import numpy as np

from ._core import pack_strings, read_maps, read_strings, zip_rows
from ._dtype import DataType, of_numpy, to_numpy
from ._nd import NDArray, as_tensor
from .error import DTypeError, ModelFormatError

NOTHING, TENSOR, STRINGS, SEQUENCE, MAP, MAPS = range(6)
_MAPS = bytes([MAPS])
_U8, _U32, _U64, _TYPE = map(struct.Struct, ("<B", "<I", "<Q", "<BB"))


def _shape(array):
    return struct.pack(f"<I{array.ndim}q", array.ndim, *array.shape)


def _strings(array):
    return bytes([STRINGS]) + _shape(array) + pack_strings(array.ravel().tolist())


def encode(value):
    """The bytes of an array, a list, a dict or None."""
    if value is None:
        return bytes([NOTHING])
    if isinstance(value, dict):
        keys, values = list(value), list(value.values())
        return bytes([MAP]) + encode(np.array(keys)) + encode(np.array(values))
    if isinstance(value, (list, tuple)):
        return b"".join([bytes([SEQUENCE]), struct.pack("<Q", len(value))] + [encode(item) for item in value])
    if isinstance(value, NDArray):
        value = value.numpy()
    array = np.asarray(value)
    if array.dtype.kind in "OUS" or array.dtype.kind == "T":
        return _strings(array)
    code, bits = _core_type(array.dtype)
    array = np.ascontiguousarray(array).reshape(array.shape)
    return bytes([TENSOR, code, bits]) + _shape(array) + array.reshape(-1).view(np.uint8).tobytes()


def _core_type(dtype):
    """DLPack's type code and number of bits; bool is an unsigned integer of one bit."""
    name = str(DataType(of_numpy(dtype)))
    if name == "bool":
        return 1, 1
    code = {"int": 0, "uint": 1, "float": 2, "bfloat": 4}.get(name.rstrip("0123456789"))
    if code is None:
        raise DTypeError(f"elements of type {name} can't be part of a sequence, an optional or a map")
    return code, DataType(name).bits


@functools.cache
def _dtype(code, bits):
    name = "bool" if (code, bits) == (1, 1) else {0: "int", 1: "uint", 2: "float", 4: "bfloat"}.get(code, "?") + str(bits)
    return to_numpy(DataType(name))


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if count < 0 or count > len(self.data) - self.at:
            raise ModelFormatError(f"truncated value: {count} bytes wanted at offset {self.at} of {len(self.data)}")
        part = self.data[self.at:self.at + count]
        self.at += count
        return part

    def unpack(self, form):
        begin = self.at
        if form.size > len(self.data) - begin:
            raise ModelFormatError(f"truncated value: {form.size} bytes wanted at offset {begin} of {len(self.data)}")
        self.at += form.size
        return form.unpack_from(self.data, begin)

    def shape(self):
        rank, = self.unpack(_U32)
        return struct.unpack(f"<{rank}q", self.take(8 * rank))

    def strings(self):
        shape = self.shape()
        texts, self.at = read_strings(self.data, self.at, math.prod(shape))
        array = np.empty(len(texts), object)
        array[:] = texts
        return array.reshape(shape)

    def value(self):
        kind, = self.unpack(_U8)
        if kind == NOTHING:
            return None
        if kind == SEQUENCE:
            count, = self.unpack(_U64)
            return [self.value() for _ in range(count)]
        if kind == MAP:
            keys, values = self.value(), self.value()
            return dict(zip(keys.tolist(), values.tolist()))
        if kind == MAPS:
            keys, rows = self.value(), self.value()
            if keys.ndim != 1 or rows.ndim != 2 or rows.shape[1] != keys.size:
                raise ModelFormatError(f"maps of keys {keys.shape} with values {rows.shape}")
            return zip_rows(keys.tolist(), rows.tolist())
        if kind == STRINGS:
            return self.strings()
        if kind != TENSOR:
            raise ModelFormatError(f"kind {kind} of value")
        dtype = _dtype(*self.unpack(_TYPE))
        shape = self.shape()
        return np.frombuffer(self.take(math.prod(shape) * dtype.itemsize), dtype).reshape(shape).copy()


_MAP = re.compile(r"map\((\w+),tensor\((\w+)\)\)")
_ONNX_NAMES = {"float": "float32", "double": "float64"}


def _column(values, name):
    """Keys or values of a map as an array of the type that the model declares; Python's numbers fit any of their kind."""
    array = np.array(values, object if name == "string" else None)
    if name == "string":
        fits = all(isinstance(text, (str, bytes)) for text in values)
        return array if fits else _refuse(type(values[0]).__name__, name)
    dtype = np.dtype(_ONNX_NAMES.get(name, name))
    fits = array.size == 0 or array.ndim == 1 and array.dtype.kind in "biuf" and np.can_cast(array.dtype, dtype, "same_kind")
    return array.astype(dtype) if fits else _refuse(array.dtype, name)


def _refuse(given, wanted):
    raise DTypeError(f"a map has elements of type {given}; expected {wanted}")


def to_bytes(value, value_type):
    """What the model takes for a value of that type."""
    declared = _MAP.fullmatch(value_type)
    if declared and isinstance(value, dict):
        columns = _column(list(value), declared[1]), _column(list(value.values()), declared[2])
        return as_tensor(np.frombuffer(bytes([MAP]) + encode(columns[0]) + encode(columns[1]), np.uint8).copy())
    if value_type.startswith("tensor("):
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            raise DTypeError(f"an array of {value.dtype}; expected strings")
        value = np.asarray(value, object)
    return as_tensor(np.frombuffer(encode(value), np.uint8).copy())


def from_bytes(array):
    """The value that a model gave."""
    data = np.asarray(array).tobytes()
    maps = read_maps(data, 1) if data[:1] == _MAPS else None
    return _Reader(data).value() if maps is None else maps
