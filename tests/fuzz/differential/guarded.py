# SPDX-License-Identifier: Apache-2.0
"""Arrays that end where memory ends: what reads beyond the last vector of one, or writes there, ends the process; other
writes around them are seen afterwards."""
import ctypes
import mmap

import numpy as np

ALIGNMENT = 64  # of tensors that are used in place
PATTERN = 0xA5
_libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """`array`: one of this shape in memory of its own, filled with the pattern or with what is given."""

    def __init__(self, shape, dtype, values=None):
        dtype = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        size = count * dtype.itemsize
        length = -(-max(size, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        self.memory = mmap.mmap(-1, length + mmap.PAGESIZE)
        self.bytes = np.frombuffer(self.memory, np.uint8, length)
        self.bytes[:] = PATTERN
        end = ctypes.c_void_p(self.bytes.ctypes.data + length)
        if _libc.mprotect(end, ctypes.c_size_t(mmap.PAGESIZE), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
        self.begin = (length - size) // ALIGNMENT * ALIGNMENT
        self.end = self.begin + size
        self.array = np.frombuffer(self.memory, dtype, count, self.begin).reshape(shape)
        if values is not None:
            self.array[...] = values

    def is_whole(self):
        """Whether nothing around the array was written."""
        return bool((self.bytes[:self.begin] == PATTERN).all() and (self.bytes[self.end:] == PATTERN).all())


def guards(array):
    """Whether there is something to guard: text isn't used in place."""
    return isinstance(array, np.ndarray) and array.size > 0 and array.dtype.kind in "fiub"


def guarded_feeds(feeds):
    """Operands by name, and the guards of those that have them."""
    held = {name: Guarded(a.shape, a.dtype, a) for name, a in feeds.items() if guards(a)}
    return {name: held[name].array if name in held else a for name, a in feeds.items()}, held


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and (
        a.tobytes() == b.tobytes() or (a.dtype.kind == "f" and np.array_equal(a, b, equal_nan=True)))


def run(model, feeds, expected):
    """Results of a run whose operands and results (as the `expected` ones by name) end where memory ends, and what was
    wrong with it in words, or None."""
    operands, held = guarded_feeds(feeds)
    first = [np.array(a, copy=True) if guards(a) else a for a in (np.asarray(r) for r in model.run(None, operands))]
    places = {info.name: Guarded(expected[info.name].shape, expected[info.name].dtype)
              for info, result in zip(model.outputs, first)
              if guards(result) and result.shape == expected[info.name].shape and result.dtype == expected[info.name].dtype}
    for name, place in places.items():
        model.bind_output(name, place.array)
    try:
        results = [np.asarray(a) for a in model.run(None, operands)]
    finally:
        for name in places:
            model.bind_output(name, None)
    results = [np.array(a, copy=True) if guards(a) else a for a in results]
    wrong = None
    for info, a, b in zip(model.outputs, first, results):
        if guards(a) and not same_bits(a, b):
            wrong = f"{info.name} differs between two runs"
    for name, guard in {**held, **places}.items():
        if not guard.is_whole():
            wrong = f"bytes around {name} were written"
    for name, guard in held.items():
        if not same_bits(guard.array, feeds[name]):
            wrong = f"operand {name} was written"
    return results, wrong
