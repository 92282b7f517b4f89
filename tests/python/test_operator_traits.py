# SPDX-License-Identifier: Apache-2.0
"""What operators state of themselves, seen in what passes make of calls."""
import numpy as np
import pytest

import treadle
from treadle import relay
from treadle.ir import IRModule, Op
from treadle.ir.transform import PassContext, Sequential
from treadle.relay import transform


def conv(x, channels_in, channels_out, rng):
    weight = rng.standard_normal((channels_out, channels_in, 3, 3)).astype("float32")
    return relay.nn.conv2d(x, relay.const(weight), padding=(1, 1))


def planned(activation, channels=32, before=()):
    """conv - activation - conv with layouts planned, as text."""
    rng = np.random.default_rng(1)
    x = relay.var("x", shape=(1, 16, 20, 20), dtype="float32")
    y = conv(activation(conv(x, 16, channels, rng)), channels, 32, rng)
    module = IRModule.from_expr(relay.Function([x], y))
    passes = Sequential([transform.InferType(), *before, transform.PlanLayout(), transform.FoldConstant()])
    with PassContext(opt_level=4):
        return passes(module).astext()


ACTIVATIONS = {
    "relu": relay.nn.relu, "tanh": relay.tanh, "tan": relay.tan, "asin": relay.asin, "sinh": relay.sinh,
    "log2": relay.log2, "atanh": relay.atanh, "isfinite": lambda x: relay.cast(relay.isfinite(x), "float32"),
    "floor_divide": lambda x: relay.floor_divide(x, relay.const(2.0)),
    "mod": lambda x: relay.mod(x, relay.const(3.0)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_elementwise_operators_follow_blocked_layouts(name):
    """The input is blocked for the first convolution, the result made plain after the second: nothing between."""
    assert planned(ACTIVATIONS[name]).count("layout_transform") == 2


@pytest.mark.parametrize("name", ["tanh", "exp", "erf"])
def test_fast_forms_follow_layouts_too(name):
    text = planned(getattr(relay, name), before=[transform.FastMath()])
    assert f"fast_{name}" in text
    assert text.count("layout_transform") == 2


@pytest.mark.parametrize("name, follows", [("tan", True), ("tanh", True), ("log2", False), ("sinh", False)])
def test_channels_that_fill_a_block_stay_finite(name, follows):
    text = planned(ACTIVATIONS[name], channels=28)
    assert (text.count("layout_transform") == 2) == follows


def elementwise_operators():
    """Of one operand, without attributes that have to be given."""
    names = []
    for name in Op.list_op_names():
        op = Op.get(name)
        if op.num_inputs != 1 or op.get_attr("TOpPattern") != 0:
            continue
        x = relay.var("x", shape=(1, 28, 3, 3), dtype="float32")
        try:
            typed = transform.InferType()(IRModule.from_expr(relay.Function([x], relay.Call(op, [x]))))
        except treadle.Error:
            continue
        if typed["main"].ret_type.dtype == "float32":
            names.append(name)
    return names


def test_what_fills_blocks_stays_finite_under_all_operators_that_keep_it():
    """A statement of an operator that isn't so would be NaN in the next convolution: each is tried on what a convolution
    without inputs gives, its bias."""
    values = np.array([0.0, -0.0, 1e-40, 1e-3, -1e-3, 0.5, -0.5, 1, -1, 1.5, -1.5, 3, -3, 30, -30], np.float32)
    names = elementwise_operators()
    assert {"tanh", "sigmoid", "nn.relu", "exp", "log"} <= set(names)
    following = [n for n in names if planned(lambda x, n=n: relay.Call(Op.get(n), [x]), channels=28).count("layout_transform") == 2]
    assert {"tanh", "nn.relu"} <= set(following)
    assert not {"log", "sqrt", "rsqrt", "exp"} & set(following)
    x = relay.var("x", shape=values.shape, dtype="float32")
    for name in following:
        module = IRModule.from_expr(relay.Function([x], relay.Call(Op.get(name), [x])))
        result = relay.create_executor(mod=module, target="llvm").evaluate()(values)
        assert np.isfinite(result.numpy()).all(), name


def test_number_of_results():
    x = relay.var("x", shape=(6, 4), dtype="float32")
    assert len(relay.split(x, 3, axis=0)) == 3
    assert len(relay.split(x, (1, 4), axis=0)) == 3
    assert len(relay.topk(x, 2)) == 2
    assert not hasattr(relay.topk(x, 2, ret_type="values"), "tuple_value")
    assert len(relay.unique(relay.var("v", shape=(5,), dtype="int32"), return_counts=True)) == 5
    assert not hasattr(relay.nn.relu(x), "tuple_value")
