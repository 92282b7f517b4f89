# SPDX-License-Identifier: Apache-2.0
"""Random numbers from keys as tensor expressions: relay.random's operators on tensors."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import nd, te, tir
from ..build_module import build
from ._operators import operator_of


def threefry_generate(gen: te.Tensor, out_shape: Sequence[int]) -> Any:
    """(the next key, uint64 numbers of that shape) for a key, a tensor of ten uint64."""
    return operator_of("random.threefry_generate")(gen, _ints(out_shape))


def threefry_split(gen: te.Tensor) -> Any:
    """Two keys for one."""
    return operator_of("random.threefry_split")(gen)


def uniform(gen: te.Tensor, low: te.Tensor, high: te.Tensor, out_shape: Sequence[int], out_dtype: str) -> Any:
    """(the next key, numbers in [low, high)): low and high are tensors without dimensions, of out_dtype."""
    return operator_of("random.uniform")(gen, _ints(out_shape), out_dtype, low, high)


def threefry_test_wrapping(target: Any, device: Any) -> bool:
    """Whether sums of uint64 wrap around on a target: keys need that."""
    one = te.placeholder((1,), dtype="uint64", name="one")
    total = te.compute((1,), lambda i: one[i] + tir.const(1, "uint64"), name="total")
    out = nd.array(np.ones(1, "uint64"), device)
    build(te.create_schedule(total.op), [one, total], target)(nd.array(np.array([2**64 - 1], "uint64"), device), out)
    return bool(out.numpy()[0] == 0)


def _ints(shape):
    return [int(dim) for dim in shape]
