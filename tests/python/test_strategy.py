# SPDX-License-Identifier: Apache-2.0
"""Strategies: implementations of operators that users bring, with schedules, levels and conditions; new operators."""
import numpy as np
import pytest

import treadle as tvm
from treadle import relay, te, topi
from treadle.contrib import graph_executor


def run(mod, **values):
    module = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    module.run(**values)
    return module.get_output(0).numpy()


def exp_of(shape=(4, 8)):
    x = relay.var("x", shape=shape)
    return tvm.IRModule.from_expr(relay.Function([x], relay.sqrt(relay.exp(x))))


def shifted(by):
    def compute(attrs, inputs, out_type):
        return [te.compute(inputs[0].shape, lambda *i: te.exp(inputs[0](*i)) + by, name=f"shifted{by}")]

    return compute


@pytest.fixture
def strategy_of_exp():
    yield lambda function, level=10: relay.op.register_strategy("exp", function, level=level)
    relay.op.remove_strategy("exp")


def test_the_highest_level_is_taken(strategy_of_exp):
    def strategy(attrs, inputs, out_type, target):
        assert str(target.kind) == "llvm" and tvm.target.Target.current() is not None
        made = relay.op.OpStrategy()
        made.add_implementation(shifted(3), None, name="exp.three", plevel=12)
        made.add_implementation(shifted(8), None, name="exp.eight", plevel=15)
        return made

    strategy_of_exp(strategy)
    np.testing.assert_allclose(run(exp_of(), x=np.zeros((4, 8), "float32")), np.full((4, 8), 3), rtol=1e-6)
    text = relay.backend.compile_engine.explain(exp_of()["main"], "llvm")
    assert "* exp.eight, level 15" in text and "exp.three, level 12" in text and "exp.generic, level 10" in text
    relay.op.remove_strategy("exp")
    np.testing.assert_allclose(run(exp_of(), x=np.zeros((4, 8), "float32")), np.ones((4, 8)), rtol=1e-6)


def test_the_schedule_of_the_implementation_is_used(strategy_of_exp):
    seen = []

    def schedule(attrs, outs, target):
        s = te.create_schedule([out.op for out in outs])
        out = outs[0]
        s[out].split(out.op.axis[1], factor=4)
        seen.append(out.op.name)
        return s

    def strategy(attrs, inputs, out_type, target):
        made = relay.op.OpStrategy()
        made.add_implementation(shifted(0), schedule, name="exp.scheduled", plevel=11)
        return made

    strategy_of_exp(strategy)
    lib = relay.build(exp_of(), "llvm")
    assert len(seen) == 1
    assert "outer" in str(list(lib.lowered_ir_mods.values())[0])
    np.testing.assert_allclose(run(exp_of(), x=np.zeros((4, 8), "float32")), np.ones((4, 8)), rtol=1e-6)


def test_conditions_that_do_not_hold_leave_the_others(strategy_of_exp):
    def strategy(attrs, inputs, out_type, target):
        made = relay.op.OpStrategy()
        rows = inputs[0].shape[0]
        with te.SpecializedCondition(rows > 16):
            made.add_implementation(shifted(8), None, name="exp.many_rows", plevel=20)
        made.add_implementation(shifted(3), None, name="exp.rows", plevel=10)
        assert [s.condition is None for s in made.specializations] == [False, True]
        return made

    strategy_of_exp(strategy)
    few, many = (run(exp_of((rows, 8)), x=np.zeros((rows, 8), "float32"))[0, 0] for rows in (4, 32))
    np.testing.assert_allclose([few, many], [2, 3], rtol=1e-6)
    assert "isn't known to hold" in relay.backend.compile_engine.explain(exp_of()["main"], "llvm")


def test_a_lower_registration_does_not_replace_a_higher_one(strategy_of_exp):
    def made(by):
        def strategy(attrs, inputs, out_type, target):
            result = relay.op.OpStrategy()
            result.add_implementation(shifted(by), None, name=f"exp.{by}", plevel=11)
            return result

        return strategy

    strategy_of_exp(made(8), level=15)
    strategy_of_exp(made(3), level=10)
    np.testing.assert_allclose(run(exp_of(), x=np.zeros((4, 8), "float32")), np.full((4, 8), 3), rtol=1e-6)


def test_a_new_operator():
    name = "test.weighted_sum"
    op = relay.op.register(name, "x * w + y")
    op.set_num_inputs(3)
    for operand in "xwy":
        op.add_argument(operand, "Tensor", "An operand.")
    op.set_attrs_type_key("DictAttrs")
    op.set_support_level(1)
    op.add_type_rel("SameAsFirst", lambda types, attrs: types[0])
    relay.op.register_pattern(name, relay.op.OpPattern.BROADCAST)

    @relay.op.register_compute(name)
    def compute(attrs, inputs, out_type):
        return [topi.add(topi.multiply(inputs[0], inputs[1]), inputs[2])]

    variables = [relay.var(n, shape=(3, 5)) for n in "xwy"]
    call = relay.Call(tvm.ir.Op.get(name), [*variables[:2], relay.exp(variables[2])])
    mod = tvm.IRModule.from_expr(relay.Function(variables, relay.tanh(call)))
    typed = relay.transform.InferType()(mod)
    assert [int(d) for d in typed["main"].ret_type.shape] == [3, 5]
    values = {n: np.random.default_rng(i).random((3, 5), "float32") for i, n in enumerate("xwy")}
    expected = np.tanh(values["x"] * values["w"] + np.exp(values["y"]))
    lib = relay.build(mod, "llvm")
    assert len(list(lib.lowered_ir_mods.values())[0].get_global_vars()) == 1  # fused
    np.testing.assert_allclose(run(mod, **values), expected, rtol=1e-5)
    with pytest.raises(tvm.Error, match="already"):
        relay.op.register(name)
    relay.op.remove_strategy(name)


def test_strategies_are_attributes_of_operators():
    def strategy(attrs, inputs, out_type, target):
        made = relay.op.OpStrategy()
        made.add_implementation(shifted(3), None, name="exp.three", plevel=12)
        return made

    exp, zeros = tvm.ir.Op.get("exp"), np.zeros((4, 8), "float32")
    exp.set_attr("FTVMStrategy", strategy, 11)
    assert exp.has_attr("FTVMStrategy") and exp.get_attr("FTVMStrategy") is strategy
    np.testing.assert_allclose(run(exp_of(), x=zeros), np.full((4, 8), 2), rtol=1e-6)
    exp.reset_attr("FTVMStrategy")
    assert not exp.has_attr("FTVMStrategy") and exp.get_attr("FTVMStrategy") is None
    np.testing.assert_allclose(run(exp_of(), x=zeros), np.ones((4, 8)), rtol=1e-6)


def test_type_relations_by_name():
    op = relay.op.register("test.absolute_difference", "|x - y|")
    op.set_num_inputs(2)
    for operand in "xy":
        op.add_argument(operand, "Tensor", "An operand.")
    op.add_type_rel("Broadcast")
    with pytest.raises(ValueError, match="no type relation 'Squared'.*Broadcast, BroadcastComp, Identity"):
        op.add_type_rel("Squared")
    relay.op.register_pattern(op.name, relay.op.OpPattern.BROADCAST)
    relay.op.register_compute(op.name, lambda attrs, inputs, out_type: [topi.abs(topi.subtract(*inputs))])
    x, y = relay.var("x", shape=(4, 1)), relay.var("y", shape=(3,))
    mod = tvm.IRModule.from_expr(relay.Function([x, y], relay.Call(op, [x, y])))
    values = {"x": np.arange(4, dtype="float32").reshape(4, 1), "y": np.full(3, 2, "float32")}
    np.testing.assert_array_equal(run(mod, **values), np.abs(values["x"] - values["y"]))
    relay.op.remove_strategy(op.name)


def test_implementations_of_a_call_are_listed_and_selected():
    from treadle.relay.backend import te_compiler
    from treadle.relay.testing import run_infer_type

    call = run_infer_type(relay.nn.dense(relay.var("x", shape=(3, 4)), relay.var("w", shape=(5, 4))))
    inputs = [te.placeholder((3, 4), name="x"), te.placeholder((5, 4), name="w")]
    args = (call.op, call.attrs, inputs, call.checked_type, "llvm")
    assert [each.name for each in te_compiler.get_valid_implementations(*args)] == ["nn.dense.generic"]

    @relay.op.strategy.register_strategy("nn.dense")
    def strategy(attrs, inputs, out_type, target):
        made = relay.op.strategy.OpStrategy()
        compute = relay.op.strategy.wrap_compute(lambda x, w: tvm.topi.matmul(x, w, False, True))
        made.add_implementation(compute, relay.op.strategy.naive_schedule, name="dense.low", plevel=5)
        made.add_implementation(compute, relay.op.strategy.naive_schedule, name="dense.high", plevel=15)
        with te.SpecializedCondition(inputs[0].shape[0] > 100):
            made.add_implementation(compute, relay.op.strategy.naive_schedule, name="dense.many", plevel=20)
        return made

    try:
        names = [each.name for each in te_compiler.get_valid_implementations(*args)]
        assert names == ["dense.low", "dense.high", "nn.dense.generic"]
        chosen, _ = te_compiler.select_implementation(*args, use_autotvm=False)
        lowered = te_compiler.lower_call(call, inputs, "llvm")
        assert chosen.name == lowered.implement.name == "dense.high"
    finally:
        relay.op.strategy.remove_strategy("nn.dense")
    schedule = lowered.implement.schedule(call.attrs, lowered.outputs, "llvm")
    x, w, y = np.ones((3, 4), "float32"), np.ones((5, 4), "float32"), tvm.nd.empty((3, 5))
    tvm.build(schedule, [*inputs, *lowered.outputs], "llvm")(tvm.nd.array(x), tvm.nd.array(w), y)
    np.testing.assert_allclose(y.numpy(), x @ w.T)


def test_computes_of_operators_of_tuples():
    from treadle.relay.backend import te_compiler
    from treadle.relay.testing import run_infer_type

    call = run_infer_type(relay.concatenate([relay.var("a", shape=(1, 3)), relay.var("b", shape=(2, 3))], 0))
    for inputs, rows in (([te.placeholder((1, 3)), te.placeholder((2, 3))], 3), ([te.placeholder((1, 3))], 1)):
        chosen, outputs = te_compiler.select_implementation("concatenate", call.attrs, inputs, call.checked_type, "llvm")
        assert chosen.name == "concatenate.generic" and [int(d) for d in outputs[0].shape] == [rows, 3]


@pytest.mark.parametrize("args, message", [
    (("nn.dense", None, [te.placeholder((2, 3))], None, "llvm"), "takes 2 arguments"),
    (("exp", 3, [te.placeholder((2, 3))], None, "llvm"), "attrs of exp: expected Attrs"),
    (("exp", None, [], None, "llvm"), "inputs of exp: expected tensor expressions"),
    ((3, None, [te.placeholder((2, 3))], None, "llvm"), "expected an operator or its name")])
def test_wrong_questions_for_implementations(args, message):
    with pytest.raises((tvm.Error, TypeError), match=message):
        relay.backend.te_compiler.select_implementation(*args)
