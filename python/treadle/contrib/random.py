# SPDX-License-Identifier: Apache-2.0
"""Tensors of random numbers: NumPy's, which code compiled in this process calls by name."""
from typing import Any

import numpy as np

from .._ffi import register_func
from ..te import extern
from ..tir import call_packed

_generator = np.random.default_rng()


def _draws(name, draw):
    full = f"tvm.contrib.random.{name}"

    def fill(*args):
        out = args[-1]
        out.copyfrom(np.asarray(draw(*args[:-1], tuple(out.shape))).astype(str(out.dtype), copy=False))

    register_func(full, fill, override=True)
    return full


_RANDINT = _draws("randint", lambda low, high, shape: _generator.integers(low, high, shape))
_UNIFORM = _draws("uniform", lambda low, high, shape: _generator.uniform(low, high, shape))
_NORMAL = _draws("normal", lambda loc, scale, shape: _generator.normal(loc, scale, shape))


def seed(value: Any) -> None:
    """Makes what is drawn from now on repeatable."""
    global _generator  # noqa: PLW0603 - one state for all functions, as the original has it
    _generator = np.random.default_rng(int(value))


register_func("tvm.contrib.random.seed", seed, override=True)


def _tensor(name, low, high, size, dtype):
    return extern(size, [], lambda ins, outs: call_packed(name, low, high, outs[0]), dtype=dtype)


def randint(low: Any, high: Any, size: Any, dtype: str = "int32") -> Any:
    """A tensor of integers from `low` up to but not including `high`."""
    return _tensor(_RANDINT, int(low), int(high), size, dtype)


def uniform(low: Any, high: Any, size: Any) -> Any:
    """A tensor of float32 between `low` and `high`."""
    return _tensor(_UNIFORM, float(low), float(high), size, "float32")


def normal(loc: Any, scale: Any, size: Any) -> Any:
    """A tensor of float32 of the normal distribution."""
    return _tensor(_NORMAL, float(loc), float(scale), size, "float32")
