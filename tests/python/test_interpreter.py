# SPDX-License-Identifier: Apache-2.0
"""relay.create_executor."""
import numpy as np
import pytest

import treadle
from treadle import relay

TEXT = '''#[version = "0.0.5"]
def @fact(%n: int32) -> int32 { if (%n == 0) { 1 } else { %n * @fact(%n - 1) } }
def @main(%x: Tensor[(2), float32], %n: int32) { (%x + 1f, @fact(%n)) }
'''


@pytest.fixture(name="module")
def fixture_module():
    return relay.parse(TEXT)


def test_debug_executor_runs_main(module):
    y, n = relay.create_executor("debug", module).evaluate()(np.array([1, 2], "float32"), 5)
    assert y.numpy().tolist() == [2, 3] and n.numpy() == 120


def test_arguments_by_name(module):
    y, n = relay.create_executor("debug", module).evaluate()(n=3, x=np.zeros(2, "float32"))
    assert y.numpy().tolist() == [1, 1] and n.numpy() == 6


def test_evaluates_expressions():
    x = relay.var("x", shape=(2,), dtype="float32")
    executor = relay.create_executor()
    assert executor.evaluate(relay.Function([x], relay.exp(x)))(np.zeros(2, "float32")).numpy().tolist() == [1, 1]
    assert executor.evaluate(relay.const(2.0) * relay.const(3.0)).numpy() == 6
    assert executor.evaluate(x + x, binds={x: np.ones(2, "float32")}).numpy().tolist() == [2, 2]


def test_closures_are_callable():
    a, b = relay.var("a", shape=(), dtype="int32"), relay.var("b", shape=(), dtype="int32")
    add = relay.create_executor().evaluate(relay.Function([a], relay.Function([b], a + b)))
    assert add(3)(4).numpy() == 7


def test_data_types():
    module = relay.parse("def @main(%n: int32) { ref((%n, fn () { %n })) }")
    value = relay.create_executor(mod=module).evaluate()(7)
    assert value.value[0].numpy() == 7


def test_graph_executor():
    x = relay.var("x", shape=(2,), dtype="float32")
    function = relay.create_executor("graph").evaluate(relay.Function([x], relay.exp(x)))
    assert function(np.zeros(2, "float32")).numpy().tolist() == [1, 1]


def test_errors(module):
    with pytest.raises(TypeError, match=r"takes 2 arguments \(x, n\), got 1"):
        relay.create_executor(mod=module).evaluate()(1)
    with pytest.raises(ValueError, match="no executor"):
        relay.create_executor("quick")
