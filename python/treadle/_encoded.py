# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs that aren't tensors of numbers as bytes, in the form that src/runtime/vm/host/values.cc describes:
strings, sequences (lists), optionals (a value or None), maps (dicts)."""
import re
import struct

import numpy as np

from ._dtype import DataType, of_numpy, to_numpy
from ._nd import NDArray, as_tensor
from .error import DTypeError, ModelFormatError

NOTHING, TENSOR, STRINGS, SEQUENCE, MAP = range(5)


def _shape(array):
    return struct.pack(f"<I{array.ndim}q", array.ndim, *array.shape)


def _string(text):
    data = text if isinstance(text, bytes) else str(text).encode(errors="surrogateescape")
    return len(data).to_bytes(8, "little") + data


def _strings(array):
    texts = array.ravel().tolist()
    if set(map(type, texts)) <= {str, np.str_}:  # others may be equal and have different texts: 1 and 1.0
        known = {text: _string(text) for text in set(texts)}  # categories come again and again
        parts = [known[text] for text in texts]
    else:
        parts = [_string(text) for text in texts]
    return b"".join([bytes([STRINGS]), _shape(array), *parts])


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


def _type_name(code, bits):
    if (code, bits) == (1, 1):
        return "bool"
    return {0: "int", 1: "uint", 2: "float", 4: "bfloat"}.get(code, "?") + str(bits)


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
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def shape(self):
        rank, = self.unpack("I")
        return self.unpack(f"{rank}q")

    def strings(self):
        shape = self.shape()
        parts, data, at = [], self.data, self.at
        for _ in range(int(np.prod(shape))):
            begin = at + 8
            at = begin + int.from_bytes(data[at:begin], "little")
            if at > len(data):
                raise ModelFormatError(f"truncated value: a string up to offset {at} of {len(data)}")
            parts.append(data[begin:at])
        self.at = at
        texts = {part: part.decode(errors="surrogateescape") for part in set(parts)}  # labels come again and again
        array = np.empty(len(parts), object)
        array[:] = [texts[part] for part in parts]
        return array.reshape(shape)

    def maps(self, count):
        """Elements of a sequence that are maps of numbers with the same keys, taken apart all at once: classifiers give
        one for each row. None for others."""
        begin = self.at
        if count < 2 or self.data[begin:begin + 1] != bytes([MAP]):
            return None
        self.at += 1
        keys, values = self.value(), self.value()
        size, self.at = self.at - begin, begin
        head = size - values.nbytes
        if values.dtype == object or values.size == 0 or count * size > len(self.data) - begin:
            return None
        rows = np.frombuffer(self.data, np.uint8, count * size, begin).reshape(count, size)
        if not (rows[:, :head] == rows[0, :head]).all():
            return None
        self.at = begin + count * size
        names, table = keys.tolist(), np.ascontiguousarray(rows[:, head:]).view(values.dtype).tolist()
        return [dict(zip(names, row)) for row in table]

    def value(self):
        kind, = self.unpack("B")
        if kind == NOTHING:
            return None
        if kind == SEQUENCE:
            count, = self.unpack("Q")
            maps = self.maps(count)
            return [self.value() for _ in range(count)] if maps is None else maps
        if kind == MAP:
            keys, values = self.value(), self.value()
            return dict(zip(keys.tolist(), values.tolist()))
        if kind == STRINGS:
            return self.strings()
        if kind != TENSOR:
            raise ModelFormatError(f"kind {kind} of value")
        code, bits = self.unpack("BB")
        shape, dtype = self.shape(), to_numpy(DataType(_type_name(code, bits)))
        count = int(np.prod(shape))
        return np.frombuffer(self.take(count * dtype.itemsize), dtype).reshape(shape).copy()


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
    return _Reader(np.asarray(array).tobytes()).value()
