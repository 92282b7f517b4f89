# SPDX-License-Identifier: Apache-2.0
"""Options of the pass context that lowering looks at: they have an effect or are refused by name."""
import numpy as np
import pytest

import treadle as tvm
from treadle import te
from treadle.script import tir as T


@T.prim_func
def checked(A: T.Buffer((4,), "int32"), n: T.int32):
    assert n < 4, "n is too large"
    for i in range(4):
        A[i] = n


def build(**config):
    with tvm.transform.PassContext(config=config):
        return tvm.build(checked)


def test_assertions_are_left_out():
    values = tvm.nd.array(np.zeros(4, "int32"))
    with pytest.raises(tvm.Error, match="n is too large"):
        build()(values, 7)
    build(**{"tir.disable_assert": True})(values, 7)
    np.testing.assert_array_equal(values.numpy(), [7] * 4)
    with pytest.raises(tvm.Error, match="num_args"):  # checks of arguments stay
        build(**{"tir.disable_assert": True})(values)


@pytest.mark.parametrize("key,value", [("tir.HoistIfThenElse", {"support_block_scope_hosting": False}),
                                       ("tir.InjectDoubleBuffer", {"split_loop": 1})])
def test_options_with_the_only_value(key, value):
    build(**{key: value})


@pytest.mark.parametrize("key,value,message", [
    ("tir.detect_global_barrier", True, "tir.detect_global_barrier must be false: no target has a barrier"),
    ("tir.HoistIfThenElse", {"support_block_scope_hosting": True}, "support_block_scope_hosting must be false: .*barriers"),
    ("tir.InjectDoubleBuffer", {"split_loop": 2}, "split_loop is 2; expected 1: .*schedule"),
    ("tir.InjectDoubleBuffer", {"loop": 2}, "no integer option 'loop'; it has: split_loop"),
    ("tir.disable_assert", 3.5, "disable_assert"),
])
def test_refused_options(key, value, message):
    with pytest.raises(tvm.Error, match=message):
        build(**{key: value})


@pytest.mark.parametrize("width,lanes", [(14, 5), (14, 8), (20, 6), (11, 4), (9, 7)])
@pytest.mark.parametrize("outer", [None, 16])
def test_tails_of_rows_in_local_buffers(width, lanes, outer):
    """Rows of a local buffer follow one another: what lies beyond the end of one belongs to the next."""
    x = te.placeholder((6, width), name="x")
    y = te.compute((6, width), lambda i, j: x[i, j] * 2.0, name="y")
    s = te.create_schedule(y.op)
    local = s.cache_write(y, "local")
    rows, row = s[y].split(y.op.axis[0], factor=2)
    at = rows
    if outer is not None:  # the end depends on the tile
        at, inner = s[y].split(y.op.axis[1], factor=outer)
        s[y].reorder(rows, at, row, inner)
    s[local].compute_at(s[y], at)
    i, j = local.op.axis
    parts, vector = s[local].split(j, factor=lanes)
    s[local].unroll(i)
    s[local].unroll(parts)
    s[local].vectorize(vector)
    values = np.random.default_rng(0).standard_normal((6, width)).astype(np.float32)
    out = tvm.nd.array(np.zeros((6, width), np.float32))
    tvm.build(s, [x, y], target="llvm -mcpu=x86-64-v3")(tvm.nd.array(values), out)
    np.testing.assert_array_equal(out.numpy(), values * 2)
