# SPDX-License-Identifier: Apache-2.0
"""Intervals and constraints of integer expressions under the original's names."""
import pytest

import treadle as tvm
from treadle import arith, te, tir

N, M = te.var("n"), te.var("m")


def ends(interval):
    return [None if v is None else int(v) for v in (interval.min_value, interval.max_value)]


def test_bounds_that_are_told():
    a = arith.Analyzer()
    a.update(N, arith.ConstIntBound(0, 10))
    bound = a.const_int_bound(N * 2 + 1)
    assert (bound.min_value, bound.max_value) == (1, 21)
    with pytest.raises(ValueError, match="override"):
        a.update(N, arith.ConstIntBound(0, 3))
    a.update(N, arith.ConstIntBound(0, 3), override=True)
    assert a.can_prove(N < 4)


def test_conditions_that_hold_for_a_while():
    a = arith.Analyzer()
    with a.constraint_scope(tir.all(M > 3, M * 2 <= 19)):
        assert a.can_prove(M >= 4) and a.can_prove(M <= 9) and not a.can_prove(M <= 8)
    assert not a.can_prove(M > 3)


def test_intervals_of_expressions():
    a = arith.Analyzer()
    sets = {N: arith.IntervalSet(0, 3), M: arith.IntervalSet(-1, 1)}
    assert ends(a.int_set(N * 2 - M + 1, sets)) == [0, 8]
    assert a.int_set(N * N, sets).is_everything()
    symbolic = a.int_set(N + 1, {N: arith.IntervalSet(0, M)})
    assert tvm.ir.structural_equal(symbolic.max_value, arith.simplify(M + 1), map_free_vars=True)
    assert arith.IntervalSet(2, 1).is_nothing() and ends(arith.IntSet.single_point(4)) == [4, 4]


def test_what_conditions_say_of_a_variable():
    assert ends(arith.deduce_bound(N, N + M < 10, {}, {M: arith.IntervalSet(0, 3)})) == [None, 6]
    assert ends(arith.deduce_bound(N, N * 2 - M >= 1, {}, {M: arith.IntervalSet(0, 3)})) == [2, None]
    assert [int(v) for v in arith.detect_clip_bound(tir.all(N > 1, N < 5), [N])] == [2, 4]
    assert arith.detect_clip_bound(N < 5, [M]) == [None, None]
    with pytest.raises(tvm.UnsupportedOpError, match="there is no arith.detect_iter_map"):
        arith.detect_iter_map([N], {})


def test_plans_by_the_articles_name():
    x = tvm.relay.var("x", shape=(4,))
    fused = tvm.relay.transform.FuseOps(0)(tvm.IRModule.from_expr(tvm.relay.Function([x], tvm.relay.exp(x))))["main"]
    assert tvm.relay.backend._backend.GraphPlanMemory(fused) is not None
    assert tvm.relay.backend.GraphPlanMemory(fused) is not None
