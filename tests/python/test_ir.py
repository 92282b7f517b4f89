# SPDX-License-Identifier: Apache-2.0
"""Nodes, modules and passes as Python sees them."""
import pytest

import treadle
from treadle import relay


def identity(name="x"):
    x = relay.var(name, shape=(2, 3))
    return relay.Function([x], x)


def test_fields_are_attributes_by_reflection():
    x = relay.var("x", shape=(2, 3), dtype="int8")
    assert x.name_hint == "x"
    assert x.type_annotation.concrete_shape == (2, 3)
    assert x.type_annotation.dtype == "int8"
    with pytest.raises(AttributeError, match="relay.Var has no attribute 'nothing'"):
        x.nothing


def test_equality_is_up_to_names():
    assert treadle.ir.structural_equal(identity("a"), identity("b"))
    assert treadle.ir.structural_hash(identity("a")) == treadle.ir.structural_hash(identity("b"))
    other = relay.var("x", shape=(2, 4))
    assert not treadle.ir.structural_equal(identity(), relay.Function([other], other))


def test_difference_is_located():
    other = relay.var("x", shape=(2, 4))
    with pytest.raises(ValueError, match="shape"):
        treadle.ir.assert_structural_equal(identity(), relay.Function([other], other))


def test_constants_take_narrow_types():
    assert relay.const(1.0).data.dtype == "float32"
    assert relay.const([1, 2]).data.dtype == "int32"
    assert relay.const(2**40).data.dtype == "int64"
    assert relay.const(1, "float16").data.dtype == "float16"


def test_modules_hold_functions_by_name():
    module = treadle.IRModule.from_expr(identity())
    before = module["main"]
    module["twice"] = identity()
    assert sorted(var.name_hint for var in module.get_global_vars()) == ["main", "twice"]
    assert module["main"].same_as(before)
    with pytest.raises(treadle.Error, match="'three'.*main, twice"):
        module["three"]


def test_contexts_nest():
    outside = treadle.transform.PassContext.current().opt_level
    with treadle.transform.PassContext(opt_level=3):
        with treadle.transform.PassContext(opt_level=0):
            assert treadle.transform.PassContext.current().opt_level == 0
        assert treadle.transform.PassContext.current().opt_level == 3
    assert treadle.transform.PassContext.current().opt_level == outside


def test_python_passes_run_and_are_watched():
    seen = []

    @treadle.transform.module_pass(opt_level=1)
    def note(module, context):
        seen.append(context.opt_level)
        return module

    @treadle.transform.pass_instrument
    class Watch:
        def run_before_pass(self, module, info):
            seen.append(f"before {info.name}")

        def run_after_pass(self, module, info):
            seen.append(f"after {info.name}")

    with treadle.transform.PassContext(opt_level=2, instruments=[Watch()]):
        note(treadle.IRModule.from_expr(identity()))
    assert seen == ["before note", 2, "after note"]


def test_an_instrument_that_vetoes():
    @treadle.transform.module_pass(opt_level=0)
    def fail(module, context):
        raise AssertionError("must not run")

    @treadle.transform.pass_instrument
    class Never:
        def should_run(self, module, info):
            return False

    module = treadle.IRModule.from_expr(identity())
    with treadle.transform.PassContext(instruments=[Never()]):
        assert fail(module).same_as(module)


def test_errors_of_python_passes_reach_the_caller():
    @treadle.transform.module_pass(opt_level=0)
    def fail(module, context):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail(treadle.IRModule.from_expr(identity()))


def test_targets_are_parsed():
    target = treadle.target.Target("llvm -mcpu=x86-64-v3")
    assert target.kind == "llvm"
    assert target.attrs["mcpu"] == "x86-64-v3"
    with pytest.raises(treadle.TargetError):
        treadle.target.Target("lvm")
