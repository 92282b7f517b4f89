# SPDX-License-Identifier: Apache-2.0
"""Building and transforming graphs from Python."""
import pytest

import treadle
from treadle import relay


def typed(expr):
    return relay.transform.InferType()(treadle.IRModule.from_expr(expr))["main"].body.checked_type


def x(shape=(4, 4)):
    return relay.var("x", shape=shape)


def test_arithmetic_makes_calls():
    assert typed(relay.exp(x() + 1.0) * 2.0).concrete_shape == (4, 4)
    assert (x() + 1.0).op.name == "add"


def test_attributes_by_position_and_name():
    assert typed(relay.reshape(x(), (2, 8))).concrete_shape == (2, 8)
    assert typed(relay.concatenate([x(), x()], axis=1)).concrete_shape == (4, 8)


def test_operators_with_several_results():
    value = x()
    first, second = relay.split(value, 2)
    fields = typed(relay.Tuple([first, second])).fields
    assert [field.concrete_shape for field in fields] == [(2, 4), (2, 4)]


def test_wrong_attributes_are_named():
    with pytest.raises(treadle.Error, match="nn.conv2d has no attribute 'stride'; it has: strides"):
        relay.nn.conv2d(x(), x(), stride=1)
    with pytest.raises(treadle.Error, match="takes 2 operands"):
        relay.nn.conv2d(x())
    with pytest.raises(AttributeError, match="nn.conv2e"):
        relay.nn.conv2e


def test_operands_that_do_not_fit_are_an_error():
    with pytest.raises(treadle.Error):
        typed(relay.add(x(), relay.var("y", shape=(3, 3))))


def test_passes_return_new_modules():
    module, _ = relay.testing.mlp.get_workload()
    before = treadle.ir.structural_hash(module)
    fused = relay.transform.FuseOps(fuse_opt_level=2)(relay.transform.SimplifyInference()(module))
    assert treadle.ir.structural_hash(module) == before
    assert treadle.ir.structural_hash(fused) != before


def test_function_passes_of_python():
    seen = []

    @relay.transform.function_pass(opt_level=0)
    def note(function, module, context):
        seen.append(len(function.params))
        return function

    note(treadle.IRModule.from_expr(relay.Function([], relay.const(1.0))))
    assert seen == [0]


def test_unknown_parameters_of_passes_are_named():
    with pytest.raises(TypeError, match="fuse_opt_level"):
        relay.transform.FuseOps(level=1)
    with pytest.raises(AttributeError, match="FuseOpz"):
        relay.transform.FuseOpz


def test_variables_of_expressions():
    value = x()
    assert [var.name_hint for var in relay.analysis.free_vars(value + 1.0)] == ["x"]
    count = []
    relay.analysis.post_order_visit(value + value, lambda node: count.append(node))
    assert [node._type_key() for node in count].count("relay.Var") == 1


def test_resnet_of_the_testing_package_is_well_typed():
    module, params = relay.testing.resnet.get_workload(num_layers=18)
    assert module["main"].checked_type.ret_type.concrete_shape == (1, 1000)
    assert len(params) == 99
