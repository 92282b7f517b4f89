# SPDX-License-Identifier: Apache-2.0
"""relay.dataflow_pattern."""
import pytest

from treadle import relay
from treadle.relay.dataflow_pattern import (DFPatternCallback, is_constant, is_op, is_tuple, is_tuple_get_item, is_var,
                                            rewrite, wildcard)


@pytest.fixture(name="x")
def fixture_x():
    return relay.var("x", shape=(1, 3, 8, 8), dtype="float32")


def test_match(x):
    pattern = is_op("add")(wildcard(), is_constant())
    assert pattern.match(x + relay.const(1.0))
    assert pattern.match(relay.const(1.0) + x)
    assert not pattern.match(x + x)
    assert (is_op("exp") | is_op("log"))(is_var("x")).match(relay.log(x))
    assert is_tuple_get_item(is_tuple([wildcard(), wildcard()]), 1).match(relay.TupleGetItem(relay.Tuple([x, x]), 1))


def test_attributes(x):
    weight = relay.var("w", shape=(4, 3, 3, 3), dtype="float32")
    conv = relay.nn.conv2d(x, weight, padding=(1, 1))
    assert is_op("nn.conv2d")(None).has_attr({"data_layout": "NCHW", "groups": 1}).match(conv)
    assert not is_op("nn.conv2d")(None).has_attr({"data_layout": "NHWC"}).match(conv)
    assert wildcard().has_attr({"TOpPattern": 0})(wildcard()).match(relay.exp(x))


def test_types(x):
    assert is_var().has_shape((1, 3, 8, 8)).has_dtype("float32").match(x)
    assert not is_var().has_dtype("float16").match(x)


def test_dominates(x):
    elementwise = wildcard().has_attr({"TOpPattern": 0})(wildcard())
    pattern = is_op("add")(wildcard(), wildcard()).dominates(is_op("sigmoid")(wildcard()), elementwise)
    y = relay.sigmoid(x)
    assert pattern.match(relay.exp(y) + relay.log(relay.sqrt(y)))
    assert not pattern.match(relay.exp(y) + relay.log(x))


class DropRelu(DFPatternCallback):
    """relu(relu(x)) is relu(x)."""

    def __init__(self):
        super().__init__()
        self.x = wildcard()
        self.pattern = is_op("nn.relu")(is_op("nn.relu")(self.x))

    def callback(self, pre, post, node_map):
        return relay.nn.relu(node_map[self.x][0])


def test_rewrite(x):
    result = rewrite(DropRelu(), relay.nn.relu(relay.nn.relu(relay.nn.relu(x))))
    assert is_op("nn.relu")(is_var()).match(result)


def test_partition(x):
    weight = relay.var("w", shape=(4, 3, 3, 3), dtype="float32")
    pattern = is_op("nn.conv2d")(wildcard(), wildcard()).optional(lambda y: is_op("nn.relu")(y))
    call = pattern.partition(relay.nn.relu(relay.nn.conv2d(x, weight)), {"Composite": "t.conv"})
    assert call.op.attrs["PartitionedFromPattern"] == "nn.conv2d_nn.relu_"
    assert call.op.attrs["Composite"] == "t.conv"


def test_merge_composite(x):
    module = relay.transform.InferType()(treadle_module(relay.nn.relu(x + x)))
    table = [("t.add_relu", is_op("nn.relu")(is_op("add")(wildcard(), wildcard())), lambda call: True),
             ("t.exp", is_op("exp")(wildcard()))]
    assert 'Composite="t.add_relu"' in relay.transform.MergeComposite(table)(module).astext()
    never = [(name, pattern, lambda call: False) for name, pattern, *_ in table]
    assert "Composite" not in relay.transform.MergeComposite(never)(module).astext()


def treadle_module(expr):
    from treadle.ir import IRModule
    return IRModule.from_expr(expr)
