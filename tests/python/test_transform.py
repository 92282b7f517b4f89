# SPDX-License-Identifier: Apache-2.0
"""Passes and instruments written in Python."""
import numpy as np
import pytest

import treadle
from treadle import relay
from treadle.instrument import (PassInstrument, PassPrintingInstrument, PassTimingInstrument, PassVerifier,
                                pass_instrument)
from treadle.ir.transform import PassContext, Sequential
from treadle.relay.passes import rewrites


def example():
    x = relay.var("x", shape=(2, 3))
    return treadle.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.exp(x) + relay.const(1.0))))


def test_timing_is_a_tree_and_outlives_the_context():
    timing = PassTimingInstrument()
    with PassContext(opt_level=3, instruments=[timing]):
        relay.build(example(), "llvm")
    lines = timing.render().splitlines()
    assert lines[0].startswith("optimize: ")
    assert any(line.startswith("  FuseOps: ") for line in lines)


def test_function_passes_made_of_classes_keep_their_attributes():
    @relay.transform.function_pass(opt_level=1, required=["InferType"])
    class Replace:
        """Replaces a function's body."""

        def __init__(self, number):
            self.number = number

        def transform_function(self, func, mod, ctx):
            return relay.Function(func.params, func.params[0] + relay.const(self.number))

    made = Replace(2.0)
    assert isinstance(made, Replace) and isinstance(made, relay.transform.FunctionPass)
    assert (made.number, made.info.name, made.info.opt_level) == (2.0, "Replace", 1)
    assert list(made.info.required) == ["InferType"]
    assert "add(%x, 2f" in str(made(example()))


def test_module_passes_get_module_and_context():
    seen = []

    @treadle.transform.module_pass(opt_level=2, name="Mine")
    def note(mod, ctx):
        seen.append((mod["main"].params[0].name_hint, ctx.opt_level))
        return mod

    with PassContext(opt_level=1):
        Sequential([note])(example())
        assert seen == []
        note(example())
    with PassContext(opt_level=2):
        Sequential([note])(example())
    assert seen == [("x", 1), ("x", 2)]


def test_required_and_disabled_passes():
    ran = []

    @pass_instrument
    class Watch:
        def run_before_pass(self, mod, info):
            ran.append(info.name)

    passes = Sequential([relay.transform.FastMath(), relay.transform.FoldConstant(), relay.transform.SimplifyExpr()])
    with PassContext(opt_level=0, required_pass=["FastMath"], disabled_pass=["SimplifyExpr"], instruments=[Watch()]):
        passes(example())
    assert "FastMath" in ran
    assert "FoldConstant" not in ran and "SimplifyExpr" not in ran


def test_an_unknown_option_names_near_ones():
    with pytest.raises(treadle.Error, match=r"did you mean 'relay\.FuseOps\.max_depth'\?"):
        PassContext(config={"relay.FuseOps.max_dept": 3})
    with pytest.raises(treadle.Error, match="max_depth.*must be of type int, got"):
        PassContext(config={"relay.FuseOps.max_depth": "deep"})
    assert PassContext.list_configs()["relay.FuseOps.max_depth"]["type"] == "int"


def test_options_of_lowering():
    a = treadle.te.placeholder((4,), name="a")
    b = treadle.te.compute((4,), lambda i: a[i] + 1.0, name="b")
    schedule = treadle.te.create_schedule(b.op)
    with PassContext(config={"tir.UnrollLoop": {"auto_max_step": 16}}):
        assert "for" not in str(treadle.lower(schedule, [a, b])["main"])
    with PassContext(config={"tir.UnrollLoop": {"steps": 16}}), pytest.raises(treadle.Error, match="auto_max_step"):
        treadle.lower(schedule, [a, b])
    schedule[b].vectorize(b.op.axis[0])
    with PassContext(config={"tir.disable_vectorize": True}):
        assert "for" in str(treadle.lower(schedule, [a, b])["main"])


def test_a_pass_must_return_something():
    @treadle.transform.module_pass(opt_level=0, name="Empty")
    def empty(mod, ctx):
        return None

    @relay.transform.function_pass(opt_level=0, name="EmptyToo")
    def empty_too(func, mod, ctx):
        return None

    for run, message in ((empty, "Empty returned nothing"), (empty_too, "EmptyToo returned nothing")):
        with pytest.raises(treadle.Error, match=message):
            run(example())


def test_instruments_are_classes_too():
    events = []

    class Watch(PassInstrument):
        def enter_pass_ctx(self):
            events.append("enter")

        def exit_pass_ctx(self):
            events.append("exit")

        def should_run(self, mod, info):
            return info.name != "FuseOps"

        def run_after_pass(self, mod, info):
            events.append(info.name)

    with PassContext(instruments=[Watch()]):
        relay.transform.FuseOps()(relay.transform.InferType()(example()))
        PassContext.current().override_instruments([])
        relay.transform.InferType()(example())
    assert events == ["enter", "InferType", "exit"]


def test_a_hook_that_fails_on_entry_leaves_the_others():
    events = []

    @pass_instrument
    class Good:
        def enter_pass_ctx(self):
            events.append("enter")

        def exit_pass_ctx(self):
            events.append("exit")

    @pass_instrument
    class Bad:
        def enter_pass_ctx(self):
            raise RuntimeError("no")

    context = PassContext(instruments=[Good(), Bad(), Good()])
    with pytest.raises(RuntimeError, match="no"):
        with context:
            pass
    assert events == ["enter", "exit"]
    assert context.instruments == []


def test_the_verifier_names_the_pass_at_fault():
    @relay.transform.function_pass(opt_level=0)
    def stray(func, mod, ctx):
        return relay.Function(func.params, relay.var("y", shape=(2,)))

    with pytest.raises(treadle.Error, match="stray .*%y"):
        with PassContext(instruments=[PassVerifier()]):
            stray(example())


def test_printing(capsys):
    with PassContext(instruments=[PassPrintingInstrument(["InferType"], ["InferType"])]):
        relay.transform.InferType()(example())
    out = capsys.readouterr().out
    assert out.count("exp(%x)") == 2 and "before: InferType" in out
    treadle.transform.PrintIR()(example())
    assert "exp(%x)" in capsys.readouterr().out


def test_rules_of_operators():
    op = treadle.ir.Op.get("nn.relu")

    def rewrite(attrs, args, types):
        return relay.maximum(args[0], relay.const(0.0))

    op.set_attr("FTVMLegalize", rewrite)
    try:
        assert "maximum(" in str(relay.transform.Legalize()(relay.transform.InferType()(example())))
        assert op.get_attr("FTVMLegalize") is rewrite
    finally:
        op.reset_attr("FTVMLegalize")
    assert "nn.relu(" in str(relay.transform.Legalize()(relay.transform.InferType()(example())))


def test_each_pass_can_be_made_by_its_name():
    others = {"PrintIR", "ApplyPassToFunction", *rewrites.PASSES}  # those in Python take arguments (test_python_passes.py)
    for name in dir(relay.transform):
        made = getattr(relay.transform, name)
        if name[0].isupper() and not isinstance(made, type) and name not in others:
            arguments = {"MergeComposite": [[]]}.get(name, [])
            assert isinstance(made(*arguments), treadle.transform.Pass), name


def test_layouts_and_precision_have_parameters():
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    module = relay.transform.InferType()(treadle.IRModule.from_expr(relay.Function([x, w], relay.nn.conv2d(x, w))))
    nhwc = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "HWIO"]})(module)
    assert 'data_layout="NHWC", kernel_layout="HWIO"' in str(nhwc)
    assert "float16" in str(relay.transform.ToMixedPrecision("float16")(module))
    planned = relay.transform.PlanDevices(treadle.cpu())(module)
    assert list(planned["main"].attrs["param_device_types"]) == [1, 1]


def test_only_the_functions_named_are_changed():
    x = relay.var("x", shape=(2,))
    module = treadle.IRModule({"main": relay.Function([x], relay.exp(x)), "other": relay.Function([x], relay.exp(x))})
    fused = treadle.transform.ApplyPassToFunction(relay.transform.FuseOps(), "main")(module)
    assert "Primitive" in str(fused["main"]) and "Primitive" not in str(fused["other"])


def test_what_calls_make_of_a_shared_weight_is_one_constant():
    """Each step of an unrolled layer had a weight of its own: 2.6 GB of a model of 12 MB."""
    values = (np.arange(2000) % 100).astype(np.int8).reshape(1, 40, 50)
    x, weight = relay.var("x", shape=(50, 40)), relay.squeeze(relay.const(values), [0])
    steps = [relay.subtract(relay.cast(relay.transpose(weight), "float32"), relay.const(np.float32(1))) for _ in range(3)]
    sums = relay.add(relay.multiply(x, steps[0]), relay.add(relay.multiply(x, steps[1]), relay.multiply(x, steps[2])))
    module = treadle.transform.Sequential([relay.transform.InferType(), relay.transform.FoldConstant()])(
        treadle.IRModule.from_expr(relay.Function([x], sums)))
    constants = []
    relay.analysis.post_order_visit(
        module["main"].body, lambda e: constants.append(e) if isinstance(e, relay.Constant) else None)
    np.testing.assert_array_equal(constants[0].data.numpy(), values[0].T - 1.0)
    assert all(constant.same_as(constants[0]) for constant in constants)
