# SPDX-License-Identifier: Apache-2.0
"""Rows 1 to 12: the graph IR, its passes, fusion and devices. See conftest.py."""
import re

import numpy as np
import pytest

import treadle as tvm
from treadle import relay
from treadle.relay import transform

HEADER = '#[version = "0.0.5"]\n'


def parse(text):
    return tvm.parser.parse(HEADER + text)


def typed(body, params):
    return transform.InferType()(tvm.IRModule.from_expr(relay.Function(params, body)))


def groups(mod):
    """The operators of each fused function, in order of their text."""
    found = []

    def visit(node):
        if isinstance(node, relay.Function) and node.attrs is not None and "Primitive" in node.attrs:
            names = []
            relay.analysis.post_order_visit(node.body, lambda e: names.append(e.op.name) if isinstance(
                e, relay.Call) and hasattr(e.op, "name") else None)
            found.append(names)

    relay.analysis.post_order_visit(mod["main"], visit)
    return found


def fused(mod, **config):
    with tvm.transform.PassContext(opt_level=3, config=config):
        return transform.FuseOps()(transform.InferType()(mod))


def test_row_01_ir_and_text(row):
    """Graph IR and its text form."""
    text = HEADER + """
type List[A] {
  Cons(A, List[A]),
  Nil,
}

def @main(%x: Tensor[(2, 3), float32], %layer.0.weight: Tensor[(4, 3), float32]) -> Tensor[(2, 4), float32] {
  let %y = nn.dense(%x, %layer.0.weight, units=None);
  %0 = fn (%z) { tanh(%z) };
  %1 = ref(%0(%y));
  if (less(1f, 2f)) { ref_read(%1) } else { (%y, %y).1 }
}
"""
    mod = transform.InferType()(tvm.parser.parse(text))
    once = mod.astext()
    again = tvm.parser.parse(once)
    assert again.astext() == transform.InferType()(again).astext() == once
    assert tvm.ir.structural_equal(mod, transform.InferType()(again))
    row.works("data types, lets, closures, references, branches and tuples parse, print and parse to the same")
    for value in ("1e-45f", "0.123456789f64", "-9223372036854775807i64", "inff", "metal"):
        body = f"def @main(%{value}: Tensor[(2), float32]) {{ %{value} }}" if value == "metal" else (
            f"def @main() {{ {value} }}")
        printed = parse(body).astext()
        assert tvm.parser.parse(printed).astext() == printed
    assert "subtract" in parse("def @main(%x: Tensor[(2), float32]) { %x -1f }").astext()
    x = relay.var("x", shape=(2,))
    values = np.array([0.1, 1e-45, 3.4028234663852886e38, -0.0], "float32")
    for value in [*values, np.float16(0.1), np.int8(-7), np.int64(2**62 + 1), np.float64(0.1)]:
        text = tvm.IRModule.from_expr(relay.Function([], relay.const(value, str(value.dtype)))).astext()
        back = tvm.parser.parse(text)["main"].body.data.numpy()
        assert back.dtype == value.dtype and back.tobytes() == value.tobytes(), text
    chain = x
    for _ in range(20_000):
        chain = relay.exp(chain)
    printed = tvm.IRModule.from_expr(relay.Function([x], chain)).astext()
    assert tvm.parser.parse(printed).astext().count("exp(") == 20_000
    row.better("numbers of every type keep their bits, names may hold dots or begin with meta, chains of 20 000 operators "
               "print and parse")


def test_row_02_type_inference(row):
    """Type inference with relations."""
    x, y = relay.var("x", shape=(10, 4)), relay.var("y", shape=(5, 10, 1))
    result = typed(x + y, [x, y])["main"].ret_type
    assert [int(d) for d in result.shape] == [5, 10, 4]
    n = relay.Any()
    z = relay.var("z", shape=(n, 4))
    assert "?" in str(typed(z + x, [z, x])["main"].ret_type) or "10" in str(typed(z + x, [z, x])["main"].ret_type)
    row.works("(10, 4) + (5, 10, 1) is (5, 10, 4); unknown dimensions pass through")
    bad = "\n".join(f"def @f{i}(%a: Tensor[({i + 2}), float32], %b: Tensor[(9, 7), float32]) {{ add(%a, %b) }}"
                    for i in range(3))
    with pytest.raises(tvm.Error) as error:
        transform.InferType()(parse(bad))
    assert all(f"({size}" in str(error.value) for size in (2, 3, 4)) and "(9, 7)" in str(error.value)
    assert all(re.search(rf":{line}:\d+", str(error.value)) for line in (2, 3, 4))
    row.better("three errors of one module are reported at once, each with its place and both shapes")
    known = transform.InferType()(parse("def @g(%x: Tensor[(2), float32]) { exp(%x) }\n"
                                        "def @main(%x: Tensor[(2), float32]) { @g(%x) }"))
    changed = tvm.IRModule(dict(known.functions.items()))
    changed["main"] = relay.Function([x], relay.tanh(x))
    again = transform.InferType()(changed)
    assert again["g"].same_as(known["g"]) and again["main"].checked_type is not None
    long = x
    for _ in range(30_000):
        long = relay.tanh(long)
    assert [int(d) for d in typed(long, [x])["main"].ret_type.shape] == [10, 4]
    row.better("functions that a pass leaves alone aren't inferred again; 30 000 calls are inferred")


def test_row_03_passes(row):
    """Passes, contexts and instruments."""
    ran, entered = [], []

    @tvm.instrument.pass_instrument
    class Watch:
        def enter_pass_ctx(self):
            entered.append("in")

        def exit_pass_ctx(self):
            entered.append("out")

        def should_run(self, mod, info):
            return info.name != "SimplifyExpr"

        def run_before_pass(self, mod, info):
            ran.append(info.name)

    x = relay.var("x", shape=(4,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(x) + relay.const(0.0)))
    several = tvm.transform.Sequential([transform.FastMath(), transform.FoldConstant(), transform.SimplifyExpr()])
    with tvm.transform.PassContext(opt_level=1, required_pass=["FastMath"], disabled_pass=["FoldConstant"],
                                   instruments=[Watch()]):
        several(mod)
    assert "FastMath" in ran and "FoldConstant" not in ran and "SimplifyExpr" not in ran and entered == ["in", "out"]
    row.works("required, disabled and vetoed passes; instruments are entered and left")
    with pytest.raises(tvm.Error, match="did you mean"):
        tvm.transform.PassContext(config={"relay.FuseOps.max_dept": 3})
    timing = tvm.instrument.PassTimingInstrument()
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["FuseOps"], instruments=[timing]):
        assert not groups(relay.optimize(mod, "llvm")[0])
        assert "FoldConstant" in timing.render()
    row.better("unknown options name near ones, every pass of a build can be disabled, times are by pass")
    changes = []
    with tvm.transform.PassContext(opt_level=4, instruments=[tvm.instrument.PrintDiff(write=changes.append)]):
        transform.Sequential([transform.SimplifyExpr(), transform.FoldConstant(), transform.FastMath()])(mod)
    assert changes and all(text.startswith("--- before ") for text in changes)
    assert any("+" in text and "fast_exp" in text for text in changes)
    assert not any("before FoldConstant" in text for text in changes)
    row.better("an instrument prints what each pass changes, as a diff")


def test_row_04_pipeline(row):
    """The passes of relay.build."""
    x = relay.var("x", shape=(1, 3, 8, 8))
    w = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype("float32")
    y = relay.nn.conv2d(x, relay.const(w), padding=(1, 1), channels=4, kernel_size=(3, 3))
    y = relay.nn.relu(relay.nn.bias_add(y, relay.const(np.arange(4, dtype="float32"))))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.batch_flatten(relay.nn.max_pool2d(y, (2, 2), (2, 2)))))
    value = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype("float32")
    expected = relay.create_executor("debug", mod=mod).evaluate()(value).numpy()
    for level in range(5):
        with tvm.transform.PassContext(opt_level=level):
            lib = relay.build(mod, "llvm")
        module = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
        module.run(x=value)
        np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-5)
    row.works("levels 0 to 4 compute what the interpreter does without any pass")
    texts = {relay.optimize(mod, "llvm")[0].astext() for _ in range(2)}
    assert len(texts) == 1
    size = transform.FoldConstant()(typed(relay.ndarray_size(relay.const(3.0)), []))["main"].body
    assert int(size.data.numpy()) == 1
    u = relay.var("u", shape=(4,))
    twice = typed(relay.exp(u) + relay.tanh(relay.exp(u)) + relay.tanh(relay.exp(u)), [u])
    for skip, count in ((None, (1, 1)), (lambda call: call.op.name == "exp", (3, 2))):
        text = transform.EliminateCommonSubexpr(skip)(twice).astext()
        assert (text.count("exp("), text.count("tanh(")) == count, text
    row.better("two runs give the same text; the size of a scalar folds to 1; what CSE is asked to skip stays")


class _Names(relay.expr_functor.ExprFunctor):
    def visit_call(self, call):
        return f"call of {call.op.name}"


def test_row_05_functor(row):
    """ExprFunctor: dispatch by kind of node."""
    x = relay.var("x", shape=(2,))
    assert _Names().visit(relay.exp(x)) == "call of exp"
    row.works("a subclass's function is called for its kind of node")
    with pytest.raises(Exception, match="(?i)var|NotImplemented|kind"):
        _Names().visit(x)
    with pytest.raises(Exception, match="(?i)none|null"):
        _Names().visit(None)
    row.better("a kind without a function is an error that names it, and so is a null expression; in C++, "
               "ExhaustiveExprFunctor doesn't compile until all kinds are there")


def test_row_06_visitor_and_mutator(row):
    """ExprVisitor and ExprMutator: each node once, sharing kept."""
    x = relay.var("x", shape=(2,))
    value = x
    for _ in range(60):
        value = relay.add(value, value)
    calls = []

    class Count(relay.expr_functor.ExprVisitor):
        def visit_call(self, call):
            calls.append(call)
            super().visit_call(call)

    Count().visit(value)
    assert len(calls) == 60
    assert relay.expr_functor.ExprMutator().visit(value).same_as(value)
    row.works("a diamond of depth 60 has 60 calls; a mutator that changes nothing gives the same object")
    chain = x
    for _ in range(100_000):
        chain = relay.exp(chain)
    seen = []
    relay.analysis.post_order_visit(chain, seen.append)
    assert len([e for e in seen if isinstance(e, relay.Call)]) == 100_000
    assert relay.analysis.well_formed(relay.Function([x], chain))
    row.better("chains of 100 000 calls are visited and checked")
    chain = x
    for _ in range(5_000):
        chain = relay.negative(chain)
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([x], chain)), "llvm")
    module = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(x=np.array([1, 2], "float32"))
    np.testing.assert_array_equal(module.get_output(0).numpy(), [1, 2])
    row.better("5 000 calls in a row pass all of a build: passes, memory plan, code, and run")


def test_row_07_fusion(row):
    """FuseOps: groups as the original's."""
    x = relay.var("x", shape=(10, 20))
    assert groups(fused(tvm.IRModule.from_expr(relay.Function([x], relay.squeeze(relay.exp(x + relay.const(1.0))))))) == [
        ["add", "exp", "squeeze"]]
    chain = x
    for _ in range(300):
        chain = relay.exp(chain)
    sizes = sorted(len(g) for g in groups(fused(tvm.IRModule.from_expr(relay.Function([x], chain)))))
    assert sizes == [44, 256]
    a = relay.exp(x)
    both = fused(tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.sqrt(a), relay.log(a)]))))
    assert sorted(groups(both)) == [["exp"], ["log"], ["sqrt"]]
    row.works("the worked cases: [add, exp, squeeze]; 300 in a row are 256 + 44; no kernel of several results")
    chain = x
    for _ in range(20):
        chain = relay.exp(chain)
    limited = fused(tvm.IRModule.from_expr(relay.Function([x], chain)), **{"relay.FuseOps.max_depth": 10})
    assert [len(g) for g in groups(limited)] == [10, 10]
    value = np.random.default_rng(0).random((10, 20), "float32")
    parts = relay.concatenate([relay.transpose(relay.tanh(x + x)), relay.transpose(relay.exp(x))], 1)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.sum(parts * parts, 1)))
    results = []
    for level in (0, 3):
        with tvm.transform.PassContext(opt_level=level):
            module = tvm.contrib.graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
        module.run(x=value)
        results.append(module.get_output(0).numpy())
    np.testing.assert_allclose(*results, rtol=1e-5)
    image, vectors = relay.var("image", shape=(1, 4, 8, 8)), [relay.const(np.ones(4, "float32")) for _ in range(4)]
    normal = relay.nn.relu(relay.nn.batch_norm(image, *vectors)[0])
    apart = fused(tvm.IRModule.from_expr(relay.Function([image], normal)))
    assert sorted(groups(apart)) == [["nn.batch_norm"], ["nn.relu"]]
    row.better("limits are options; operators without a pattern, such as batch_norm, stay by themselves; fused moves, joins "
               "and sums give what the operators one by one do")
    large = relay.var("large", shape=(512, 2048))
    readers = tvm.IRModule.from_expr(relay.Function([large], relay.Tuple([relay.exp(large), relay.tanh(large)])))
    with tvm.transform.PassContext(opt_level=3, config={"relay.FuseSiblings": True}):
        several = relay.build(readers, "llvm")
        apart = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.exp(x), relay.tanh(x)]))), "llvm")
    assert several.get_graph_json().count('"tvm_op"') == 1 and apart.get_graph_json().count('"tvm_op"') == 2
    module = tvm.contrib.graph_executor.GraphModule(several["default"](tvm.cpu()))
    value = np.random.default_rng(1).random((512, 2048), "float32")
    module.run(large=value)
    np.testing.assert_allclose(module.get_output(1).numpy(), np.tanh(value), rtol=1e-5)
    row.better("kernels of several results on request, where a tensor is too large to be read twice")


def test_row_08_post_dominators(row):
    """The forward graph and its post-dominator tree."""
    x = relay.var("x", shape=(1, 16, 8, 8))
    w1, w2 = relay.var("w1", shape=(16, 16, 3, 3)), relay.var("w2", shape=(16, 16, 1, 1))
    a = relay.nn.conv2d(x, w1, kernel_size=(3, 3), padding=(1, 1), channels=16)
    b = relay.nn.conv2d(x, w2, kernel_size=(1, 1), channels=16)
    mod = tvm.IRModule.from_expr(relay.Function([x, w1, w2], relay.nn.relu(a + b)))
    assert sorted(groups(fused(mod)), key=len) == [["nn.conv2d"], ["nn.conv2d", "add", "nn.relu"]]
    row.works("of two convolutions that meet in a sum, one absorbs it")
    value = relay.var("v", shape=(4,))
    wide = value
    for _ in range(3000):
        wide = relay.tanh(wide) + wide
    assert groups(fused(tvm.IRModule.from_expr(relay.Function([value], wide))))
    row.better("6 000 operators in nested diamonds are analysed without quadratic walks")


def test_row_09_limits(row):
    """Limits of fusion: depth and number of arguments."""
    inputs = [relay.var(f"x{i}", shape=(4,)) for i in range(60)]
    tree = list(inputs)
    while len(tree) > 1:
        tree = [tree[i] + tree[i + 1] if i + 1 < len(tree) else tree[i] for i in range(0, len(tree), 2)]
    mod = tvm.IRModule.from_expr(relay.Function(inputs, tree[0]))
    for limit in (3, 5, 31):
        result = fused(mod, **{"relay.FuseOps.max_function_args": limit})
        counts = []
        relay.analysis.post_order_visit(result["main"].body, lambda e, counts=counts: counts.append(
            len(e.params) + 1) if isinstance(e, relay.Function) else None)
        assert counts and max(counts) <= limit
    row.works("a tree of 60 inputs keeps arguments and results within 3, 5 and 31")
    parts = relay.concatenate([relay.var(f"p{i}", shape=(2,)) for i in range(70)], 0)
    split = transform.SplitArgs(32)(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(parts), parts)))
    assert str(split).count("concatenate(") == 4
    row.better("the limit holds for all operators; concatenations of many are split")


def test_row_10_primitive_functions(row):
    """Fused functions."""
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    bias = relay.var("b", shape=(4,))
    body = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w, kernel_size=(3, 3), channels=4), bias))
    mod = transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, w, bias], body)))
    before = mod.astext()
    text = fused(mod).astext()
    assert re.search(r"fn \(%p0: .*%p1: .*%p2: .*Primitive=1\)", text) and mod.astext() == before
    row.works("conv2d, bias_add and relu are one function of %p0, %p1, %p2; the input stays as it is")
    y = relay.var("y", shape=(64,))
    square = y
    for _ in range(40):
        square = square * square
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([y], square)), "llvm")
    assert lib.kernel_counts[0] == 1
    row.better("y = y * y, 40 times, is one kernel, compiled at once: the values inside are shared, not copied")


def _on(device, value):
    return relay.annotation.on_device(value, device)


def test_row_11_device_copies(row):
    """Copies between devices, from annotations."""
    x = relay.var("x", shape=(4,))
    total = _on(2, relay.exp(x))
    function = transform.RewriteAnnotatedOps(1)(tvm.IRModule.from_expr(
        relay.Function([x], relay.tanh(total) + relay.log(total))))["main"]
    text = str(function)
    assert text.count("device_copy") == 1 and "src_dev_type=2, dst_dev_type=1" in text and "on_device" not in text
    row.works("annotations become copies where a value moves")
    row.better("two readers on one device share one copy")


def test_row_12_device_map(row):
    """The device of every value."""
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    total = relay.add(x, y)
    left, right = _on(2, relay.sqrt(total)), _on(3, relay.log(total))
    body = _on(1, relay.exp(_on(1, relay.subtract(left, right))))
    function = transform.RewriteAnnotatedOps(1)(tvm.IRModule.from_expr(relay.Function([x, y], body)))["main"]
    devices = relay.analysis.collect_device_info(function)
    by_name = {e.op.name: d for e, d in devices.items() if isinstance(e, relay.Call) and e.op.name != "device_copy"}
    assert by_name == {"add": 1, "sqrt": 2, "log": 3, "subtract": 1, "exp": 1}
    row.works("the article's program: add on 1, sqrt on 2, log on 3, subtract and exp where their copies go")
    assert [devices[p] for p in function.params] == [1, 1]
    with pytest.raises(tvm.Error, match=r"add\(%x, %y\) is annotated"):
        transform.RewriteAnnotatedOps(1)(tvm.IRModule.from_expr(
            relay.Function([x, y], _on(1, total) + _on(2, total))))
    row.better("parameters are where they are read, as the articles say; a conflict names the value")
    if not tvm.opencl().exist:
        return
    flag = relay.var("flag", shape=(), dtype="bool")
    branch = relay.If(flag, _on(4, relay.exp(x)), _on(4, relay.sqrt(x)))
    program = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x, flag], branch)),
                               {"cpu": "llvm", "opencl": "opencl"})
    assert "alloc_tensor float32 on opencl" in program.bytecode
    result = tvm.runtime.vm.VirtualMachine(program, tvm.opencl()).run(np.full(4, 4, "float32"), np.array(False))
    np.testing.assert_allclose(result.numpy(), np.full(4, 2), rtol=1e-6)
    row.better("programs with branches run on several devices, each value where it is computed")
