# SPDX-License-Identifier: Apache-2.0
"""Tensors of other libraries: what is refused is freed by its producer, once."""
import ctypes
import gc

import numpy as np
import pytest

import treadle


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Managed._fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]
NEW = ctypes.pythonapi.PyCapsule_New
NEW.restype, NEW.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, DESTRUCTOR]
IS_VALID = ctypes.pythonapi.PyCapsule_IsValid
IS_VALID.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


class Producer:
    """A tensor of 2 x 3 floats in a capsule that frees it, as producers do, unless its name says that it was taken."""

    def __init__(self, **changes):
        self.freed = 0
        self.data = np.ones(6, "float32")
        self.shape = (ctypes.c_int64 * 65)(*([2, 3] + [1] * 63))
        tensor = dict(data=self.data.ctypes.data, device_type=1, device_id=0, ndim=2, code=2, bits=32, lanes=1,
                      shape=ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64)), strides=None, byte_offset=0)
        for key, value in changes.pop("dims", {}).items():
            self.shape[key] = value
        tensor.update(changes)
        self.deleter = DELETER(self._free)
        self.managed = Managed(DLTensor(**tensor), None, self.deleter)
        self.destructor = DESTRUCTOR(self._destroy)
        self.name = ctypes.c_char_p(b"dltensor")

    def _free(self, _):
        self.freed += 1

    def _destroy(self, capsule):
        if IS_VALID(capsule, b"dltensor"):
            self._free(None)

    def __dlpack__(self):
        return NEW(ctypes.addressof(self.managed), self.name, self.destructor)


FAULTS = [dict(data=None), dict(ndim=-1), dict(ndim=65), dict(shape=None), dict(dims={0: -2}), dict(dims={0: 1 << 50}),
          dict(dims={0: 1 << 62, 1: 1 << 62}), dict(lanes=0), dict(bits=0), dict(code=200), dict(code=3, bits=64),
          dict(bits=33), dict(code=0, bits=4), dict(device_id=-3), dict(device_type=2), dict(device_type=9999),
          dict(byte_offset=1 << 63)]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_faulty_tensors_are_refused_and_freed_once(fault):
    producer = Producer(**fault)
    with pytest.raises(treadle.Error):
        treadle.nd.from_dlpack(producer)
    gc.collect()
    assert producer.freed == 1


def test_sound_tensors_are_freed_once_with_the_last_reference():
    producer = Producer()
    tensor = treadle.nd.from_dlpack(producer)
    gc.collect()
    assert producer.freed == 0
    np.testing.assert_array_equal(tensor.numpy(), np.ones((2, 3), "float32"))
    del tensor
    gc.collect()
    assert producer.freed == 1


def test_capsules_are_taken_once():
    producer = Producer()
    capsule = producer.__dlpack__()
    tensor = treadle.nd.from_dlpack(capsule)
    with pytest.raises(treadle.DTypeError, match="isn't used yet"):
        treadle.nd.from_dlpack(capsule)
    del tensor, capsule
    gc.collect()
    assert producer.freed == 1


def test_read_only_arrays_stay_read_only():
    array = np.arange(6, dtype="float32")
    array.flags.writeable = False
    tensor = treadle.nd.from_dlpack(array)
    with pytest.raises(treadle.Error, match="read-only"):
        tensor.copyfrom(np.zeros(6, "float32"))
