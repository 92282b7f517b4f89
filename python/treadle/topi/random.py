# SPDX-License-Identifier: Apache-2.0
"""Random numbers from keys as tensor expressions: relay.random's operators on tensors."""
import numpy as np

from .. import nd, te, tir
from ..build_module import build
from ._operators import operator_of


def threefry_generate(gen, out_shape):
    """(the next key, uint64 numbers of that shape) for a key, a tensor of ten uint64."""
    return operator_of("random.threefry_generate")(gen, _ints(out_shape))


def threefry_split(gen):
    """Two keys for one."""
    return operator_of("random.threefry_split")(gen)


def uniform(gen, low, high, out_shape, out_dtype):
    """(the next key, numbers in [low, high)): low and high are tensors without dimensions, of out_dtype."""
    return operator_of("random.uniform")(gen, _ints(out_shape), out_dtype, low, high)


def threefry_test_wrapping(target, device):
    """Whether sums of uint64 wrap around on a target: keys need that."""
    one = te.placeholder((1,), dtype="uint64", name="one")
    total = te.compute((1,), lambda i: one[i] + tir.const(1, "uint64"), name="total")
    out = nd.array(np.ones(1, "uint64"), device)
    build(te.create_schedule(total.op), [one, total], target)(nd.array(np.array([2**64 - 1], "uint64"), device), out)
    return out.numpy()[0] == 0


def _ints(shape):
    return [int(dim) for dim in shape]
