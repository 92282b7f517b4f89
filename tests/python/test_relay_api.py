# SPDX-License-Identifier: Apache-2.0
"""The package under TVM's names: operators, analyses, visitors, networks; and that each name it asks the
compiler for is there."""
import ast
import inspect
import pathlib

import numpy as np
import pytest

import treadle
from treadle import relay
from treadle._ffi import get_global_func
from treadle.relay import testing

PACKAGE = pathlib.Path(treadle.__file__).resolve().parent


def global_names():
    """(file, name) of the global functions that the sources of the package name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        prefixes = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                call = node.value
                if getattr(call.func, "id", "") == "Api" and isinstance(call.args[0], ast.Constant):
                    prefixes[node.targets[0].id] = call.args[0].value
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "get_global_func":
                if isinstance(node.args[0], ast.Constant) and len(node.args) == 1 and not node.keywords:
                    yield path.relative_to(PACKAGE), node.args[0].value
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in prefixes:
                yield path.relative_to(PACKAGE), f"{prefixes[node.value.id]}.{node.attr}"


def test_every_function_of_the_compiler_that_python_names_exists():
    names = list(global_names())
    assert len(names) > 100
    missing = sorted({f"{path}: {name}" for path, name in names if get_global_func(name, allow_missing=True) is None})
    assert missing == []


def test_operators_have_documentation_and_signatures():
    for namespace in (relay.op.root, relay.op.nn, relay.op.image, relay.op.vision):
        for name in dir(namespace):
            function = getattr(namespace, name)
            assert function.__doc__ and len(function.__doc__) > 5, name
            inspect.signature(function)
    assert list(inspect.signature(relay.nn.conv2d).parameters)[:4] == ["data", "weight", "strides", "padding"]


def typed(expr):
    return testing.run_infer_type(expr)


@pytest.mark.parametrize("make, shape", [
    (lambda x: relay.sum(x, axis=1), (2, 4)),
    (lambda x: relay.mean(x, [0, 2], True), (1, 3, 1)),
    (lambda x: relay.argmax(x, axis=-1), (2, 3)),
    (lambda x: relay.reshape(x, (0, -1)), (2, 12)),
    (lambda x: relay.transpose(x), (4, 3, 2)),
    (lambda x: relay.squeeze(relay.expand_dims(x, 0), axis=0), (2, 3, 4)),
    (lambda x: relay.strided_slice(x, [0, 1], [2, 3], strides=[1, 1]), (2, 2, 4)),
    (lambda x: relay.strided_slice(x, begin=[1], end=[3], axes=[2]), (2, 3, 2)),
    (lambda x: relay.concatenate([x, x], axis=1), (2, 6, 4)),
    (lambda x: relay.stack((x, x), axis=0), (2, 2, 3, 4)),
    (lambda x: relay.split(x, 2, axis=2)[1], (2, 3, 2)),
    (lambda x: relay.split(x, (1, 3), axis=2)[1], (2, 3, 2)),
    (lambda x: relay.take(x, relay.const([0, 1], "int32"), axis=2), (2, 3, 2)),
    (lambda x: relay.nn.pad(x, ((0, 0), (1, 1), (0, 2))), (2, 5, 6)),
    (lambda x: relay.zeros((2, 5), "float32"), (2, 5)),
    (lambda x: relay.full(relay.const(1.0), (2, 5)), (2, 5)),
    (lambda x: relay.arange(relay.const(0), relay.const(5), relay.const(2), "int32"), (3,)),
    (lambda x: relay.one_hot(relay.const([1, 2], "int32"), relay.const(1.0), relay.const(0.0), 4, -1, "float32"), (2, 4)),
    (lambda x: relay.topk(x, k=2, axis=1)[0], (2, 2, 4)),
    (lambda x: relay.topk(x, k=2, axis=1, ret_type="indices"), (2, 2, 4)),
    (lambda x: relay.nn.dropout(x, 0.3), (2, 3, 4)),
    (lambda x: relay.variance(x, axis=1), (2, 4)),
    (lambda x: relay.std(x, axis=1, keepdims=True), (2, 1, 4)),
    (lambda x: relay.mean_variance(x, axis=1)[1], (2, 4)),
    (lambda x: relay.op.tensor.exp(relay.op.transform.tile(x, (1, 2, 1))), (2, 6, 4)),
    (lambda x: relay.broadcast_to(x, (5, 2, 3, 4)), (5, 2, 3, 4)),
    (lambda x: relay.clip(x, 0, 1), (2, 3, 4)),
    (lambda x: relay.cast(x, "int8"), (2, 3, 4)),
    (lambda x: relay.image.resize2d(relay.expand_dims(x, 0), (6, 8)), (1, 2, 6, 8)),
    (lambda x: relay.nn.upsampling(relay.expand_dims(x, 0), 2, 2), (1, 2, 6, 8)),
    (lambda x: relay.nn.global_avg_pool2d(relay.expand_dims(x, 0)), (1, 2, 1, 1)),
    (lambda x: relay.nn.max_pool2d(relay.expand_dims(x, 0), 2, strides=2), (1, 2, 1, 2)),
    (lambda x: relay.layout_transform(relay.expand_dims(x, 0), "NCHW", "NHWC"), (1, 3, 4, 2)),
])
def test_functions_of_operators(make, shape):
    x = relay.var("x", shape=(2, 3, 4))
    body = make(x)
    body = body.astuple() if isinstance(body, relay.TupleWrapper) else body
    assert typed(relay.Function([x], body)).body.checked_type.concrete_shape == shape


def test_shapes_that_are_computed_make_dynamic_operators():
    x, shape = relay.var("x", shape=(2, 3)), relay.var("s", shape=(2,), dtype="int64")
    assert "dyn.reshape" in str(relay.reshape(x, shape))
    assert "dyn." not in str(relay.reshape(x, relay.const([3, 2], "int64")))
    assert "dyn.ones" in str(relay.ones(shape, "float32"))


def test_an_empty_result_type_follows_from_the_operands():
    x, w = relay.var("x", shape=(1, 2, 3, 3), dtype="float16"), relay.var("w", shape=(4, 2, 1, 1), dtype="float16")
    y = relay.nn.conv2d(x, w, out_dtype="")
    assert relay.transform.InferType()(treadle.IRModule.from_expr(y))["main"].body.checked_type.dtype == "float16"
    with pytest.raises(treadle.error.Error, match="cast needs the attribute 'dtype'"):
        relay.cast(x, "")


def test_scope_builder():
    cond, x = relay.var("c", dtype="bool", shape=()), relay.var("x", shape=())
    sb = relay.ScopeBuilder()
    with sb.if_scope(cond):
        one = sb.let("one", relay.const(1.0))
        sb.ret(relay.add(one, x))
    with sb.else_scope():
        sb.ret(x)
    func = relay.Function([cond, x], sb.get())
    run = relay.create_executor("debug", mod=treadle.IRModule.from_expr(func)).evaluate()
    assert run(np.array(True), np.float32(2)).numpy() == 3
    assert run(np.array(False), np.float32(2)).numpy() == 2
    with pytest.raises(RuntimeError):
        relay.ScopeBuilder().get()


def test_visitors_see_each_expression_once():
    class Count(relay.ExprVisitor):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def visit_call(self, call):
            self.calls += 1
            super().visit_call(call)

    x = relay.var("x", shape=(2,))
    y = relay.exp(x)
    for _ in range(40):
        y = y + y
    counter = Count()
    counter.visit(y)
    assert counter.calls == 41


def test_mutators_share_and_keep():
    class ToLog(relay.ExprMutator):
        def visit_call(self, call):
            call = super().visit_call(call)
            return relay.log(call.args[0]) if call.op == relay.op.get("exp") else call

    x = relay.var("x", shape=(2,))
    func = relay.Function([x], relay.Let(relay.var("y"), relay.exp(x), relay.If(relay.const(True), x, x)))
    changed = ToLog().visit(func)
    assert "log(%x)" in str(changed) and "exp" not in str(changed)
    assert ToLog().visit(changed).same_as(changed)


def test_deep_data_flow_is_visited_without_recursion():
    x = relay.var("x", shape=(2,))
    y = x
    for _ in range(5000):
        y = relay.exp(y)

    class ToLog(relay.MixedModeMutator):
        def rewrite_call(self, pre, post):
            return relay.log(post.args[0])

    changed = ToLog().visit(y)
    assert relay.analysis.count_layers(changed, ["log"]) == 5000


def test_types_are_visited():
    class Double(relay.TypeMutator):
        def visit_tensor_type(self, tt):
            return relay.TensorType(tt.shape, "float64")

    kind = relay.FuncType([relay.TensorType((2,))], relay.TupleType([relay.TensorType((3,))]))
    assert str(Double().visit(kind)).count("float64") == 2


def test_analyses():
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    body = relay.exp(x) + relay.exp(y)
    func = relay.Function([x], body)
    assert [v.name_hint for v in relay.analysis.free_vars(func)] == ["y"]
    assert [v.name_hint for v in relay.analysis.bound_vars(func)] == ["x"]
    assert [v.name_hint for v in relay.analysis.all_vars(func)] == ["x", "y"]
    assert relay.analysis.well_formed(func)
    assert not relay.analysis.well_formed(relay.Let(x, relay.const(1), relay.Let(x, relay.const(2), x)))
    a = relay.TypeVar("a")
    assert relay.analysis.free_type_vars(relay.FuncType([a], a)) == [a]
    assert relay.analysis.free_type_vars(relay.FuncType([a], a, [a])) == []
    assert relay.analysis.check_kind(relay.TensorType((2,))) == relay.TypeKind.Type
    with pytest.raises(treadle.Error):
        relay.analysis.check_kind(relay.TupleType([relay.GlobalTypeVar("List")]))
    assert relay.analysis.list_op_freqs(treadle.IRModule.from_expr(func)) == {"exp": 2, "add": 1}
    net = typed(relay.Function([x], relay.nn.dense(x, relay.const(np.zeros((5, 3), "float32")))))
    assert relay.analysis.get_total_mac_number(net) == 30
    assert relay.analysis.all_dtypes(net) == {"float32"}


def test_fake_quantized_operators_are_counted():
    scale, zero = relay.const(0.1), relay.const(0)
    x, y = relay.var("x", shape=(4,), dtype="int8"), relay.var("y", shape=(4,))
    real = relay.qnn.op.dequantize(x, scale, zero)
    closed = relay.qnn.op.quantize(relay.nn.relu(relay.add(real, real)), scale, zero)
    openly = relay.qnn.op.quantize(relay.exp(relay.add(real, y)), scale, zero)
    mod = treadle.IRModule.from_expr(relay.Function([x, y], relay.Tuple([closed, openly])))
    assert relay.analysis.list_fake_quantized_op_freqs(mod) == {"nn.relu": 1, "add": 1}


@pytest.mark.parametrize("call, macs", [
    (lambda x: relay.nn.conv2d(x, relay.var("w", shape=(8, 4, 3, 3)), padding=(1, 1)), 8 * 6 * 6 * 4 * 9),
    (lambda x: relay.nn.conv2d(x, relay.var("w", shape=(8, 2, 3, 3)), strides=(2, 2), groups=2), 8 * 2 * 2 * 2 * 9),
    (lambda x: relay.nn.conv2d(x, relay.var("w", shape=(4, 1, 5, 5)), groups=4), 4 * 2 * 2 * 25),
    (lambda x: relay.nn.conv2d_transpose(x, relay.var("w", shape=(4, 3, 2, 2)), strides=(2, 2)), 4 * 6 * 6 * 3 * 4),
    (lambda x: relay.nn.batch_matmul(relay.reshape(x, (4, 6, 6)), relay.var("w", shape=(4, 5, 6))), 4 * 6 * 5 * 6),
    (lambda x: relay.nn.relu(x), 0),
])
def test_multiply_adds_of_an_operator(call, macs):
    x = relay.var("x", shape=(1, 4, 6, 6))
    body = call(x)
    assert relay.analysis.get_total_mac_number(typed(relay.Function(relay.analysis.free_vars(body), body))) == macs


@pytest.mark.parametrize("name, kwargs, layers, params", [
    ("mlp", {"batch_size": 1}, 3, 6),
    ("resnet", {"num_layers": 18}, 18, 99),
    ("resnet", {"num_layers": 50, "batch_size": 2}, 50, 259),
    ("mobilenet", {"batch_size": 1}, 28, 137),
    ("vgg", {"batch_size": 1, "num_layers": 11}, 11, 22),
    ("squeezenet", {"batch_size": 1, "version": "1.1"}, 18, 52),
    ("densenet", {"batch_size": 1}, 121, 606),
    ("inception_v3", {"batch_size": 1}, 48, 472),
    ("dqn", {"batch_size": 1}, 5, 10),
])
def test_networks(name, kwargs, layers, params):
    module, values = getattr(testing, name).get_workload(**kwargs)
    assert relay.analysis.count_layers(module, ["nn.conv2d", "nn.dense"]) == layers
    assert len(values) == params == len(module["main"].params) - 1


def test_dcgan_and_lstm():
    module, _ = testing.dcgan.get_workload(1, oshape=(3, 64, 64), ngf=8, random_len=10)
    assert module["main"].ret_type.concrete_shape == (1, 3, 64, 64)
    module, params = testing.lstm.get_workload(2, 4)
    data = np.ones((1, 4), "float32")
    result = relay.create_executor("debug", mod=module).evaluate()(data, **params)
    assert result.numpy().shape == (1, 4)


def test_gradients_agree_with_differences():
    x, w = relay.var("x", shape=(2, 3), dtype="float64"), relay.var("w", shape=(4, 3), dtype="float64")
    testing.check_grad(relay.Function([x, w], relay.tanh(relay.nn.dense(x, w))))


def test_rules_for_a_while():
    def to_nhwc(attrs, args, tinfos):
        return relay.nn.relu(args[0])

    x = relay.var("x", shape=(2,))
    func = relay.Function([x], relay.exp(x))
    with testing.TempOpAttr("exp", "FTVMAlterOpLayout", to_nhwc):
        assert "nn.relu" in str(testing.run_opt_pass(func, relay.transform.AlterOpLayout()))
    assert "exp" in str(testing.run_opt_pass(func, relay.transform.AlterOpLayout()))


def test_numeric_check_names_the_pass_at_fault():
    @relay.transform.function_pass(opt_level=0)
    def wrong(func, mod, ctx):
        return relay.Function(func.params, func.body * relay.const(2.0))

    x = relay.var("x", shape=(2,))
    module = treadle.IRModule.from_expr(relay.Function([x], relay.exp(x)))
    with treadle.transform.PassContext(instruments=[treadle.instrument.NumericCheck()]):
        relay.transform.ToANormalForm()(module)
        with pytest.raises(treadle.Error, match="pass wrong changed what main computes"):
            wrong(module)


@pytest.mark.parametrize("name, dtype, value", [("sum", "float32", 0), ("prod", "int32", 1), ("max", "bool", False),
                                                ("any", "bool", False), ("all", "bool", True), ("min", "int32", 2**31 - 1)])
def test_reductions_over_nothing(name, dtype, value):
    body = getattr(relay, name)(relay.const(np.zeros((0, 3), dtype)), axis=0)
    folded = testing.run_opt_pass(relay.Function([], body), relay.transform.FoldConstant()).body
    np.testing.assert_array_equal(folded.data.numpy(), np.full(3, value, dtype))


def test_the_prelude_has_lists_and_functions_on_them():
    prelude = relay.prelude.Prelude()
    _, cons, nil = prelude.mod.get_type("List")
    assert prelude.mod.get_constructor("Option", "Some").same_as(prelude.some)
    numbers = nil()
    for i in range(4):
        numbers = cons(relay.const(i), numbers)
    x, acc = relay.var("x", "int32"), relay.var("acc", "int32")
    step = relay.Function([acc, x], relay.Tuple([acc + x, acc * x]))
    prelude.mod["main"] = relay.Function([], relay.TupleGetItem(prelude.map_accuml(step, relay.const(10), numbers), 0))
    assert relay.create_executor("debug", mod=prelude.mod).evaluate()().numpy() == 16
    with pytest.raises(treadle.Error, match="no type Heap"):
        prelude.mod.get_type("Heap")


def test_operators_take_operands_in_the_original_order():
    x, i = relay.var("x", shape=(2, 3)), relay.var("i", shape=(2, 2), dtype="int64")
    assert "gather(%x, %i, axis=1)" in str(relay.gather(x, 1, i))
    assert "pad_width=[[1, 0], [0, 1]]" in str(relay.nn.mirror_pad(x, ((1, 0), (0, 1))))
    assert "k1=-1, k2=1" in str(relay.matrix_set_diag(x, x, k=(-1, 1), align="LEFT_RIGHT"))
    row = relay.var("r", shape=(1, 2, 8))
    assert "size=[16]" in str(relay.image.resize1d(row, 16, None, "NCW", "linear"))


def test_networks_of_closures_run_as_graphs():
    module, params = testing.lstm.get_workload(iterations=3, num_hidden=4)
    data = np.random.default_rng(0).standard_normal((1, 4)).astype("float32")
    expected = relay.create_executor("debug", mod=module).evaluate()(data, **params).numpy()
    graph = treadle.contrib.graph_executor.GraphModule(relay.build(module, "llvm", params=params)["default"](treadle.cpu()))
    graph.set_input("data", data)
    graph.run()
    np.testing.assert_allclose(graph.get_output(0).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_programs_that_are_no_graphs_say_so():
    x = relay.var("x", shape=(relay.Any(),))
    lib = relay.build(treadle.IRModule.from_expr(relay.Function([x], relay.exp(x))), "llvm")
    with pytest.raises(treadle.Error, match="the graph executor can't run this program: the type of %x isn't static"):
        lib["default"](treadle.cpu())


def test_layouts_of_hooks_reach_pools_and_joins():
    """What follows a convolution in blocks stays in blocks: broadcasts along any dimension, joins, pooling."""
    def in_blocks(attrs, inputs, tinfos, out_type):
        return relay.nn.conv2d(*inputs, **{**attrs, "data_layout": "NCHW16c"})

    shapes = {"x": (1, 32, 14, 14), "w": (32, 32, 3, 3), "scale": (32, 1, 1), "columns": (1, 14)}
    params = {name: relay.var(name, shape=shape) for name, shape in shapes.items()}
    conv = relay.nn.conv2d(params["x"], params["w"], padding=(1, 1), channels=32, kernel_size=(3, 3))
    value = relay.nn.relu(conv * params["scale"] + relay.const(1.5) + params["columns"])
    value = relay.nn.max_pool2d(relay.concatenate([value, relay.tanh(conv)], 1), (2, 2), (2, 2))
    value = relay.nn.global_avg_pool2d(relay.nn.avg_pool2d(value, (3, 3), (1, 1), padding=(1, 1)))
    mod = treadle.IRModule.from_expr(relay.Function(list(params.values()), value))
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype("float32") for shape in shapes.values()]
    expected = relay.create_executor("debug", mod=mod).evaluate()(*values).numpy()
    with testing.TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", in_blocks):
        altered = relay.transform.AlterOpLayout()(relay.transform.InferType()(mod))
        lib = relay.build(mod, "llvm")
    assert str(altered).count("layout_transform(") == 2  # of the input, and of the result
    module = treadle.contrib.graph_executor.GraphModule(lib["default"](treadle.cpu()))
    module.run(**dict(zip(shapes, values)))
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_blocks_that_are_not_whole_stay_apart():
    """A join of 16 and 8 channels, and a dimension that is broadcast along with another, keep their layout."""
    def in_blocks(attrs, inputs, tinfos, out_type):
        return relay.nn.conv2d(*inputs, **{**attrs, "data_layout": "NCHW16c"})

    x, w = relay.var("x", shape=(1, 16, 6, 6)), relay.var("w", shape=(16, 16, 1, 1))
    few, image = relay.var("few", shape=(1, 8, 6, 6)), relay.var("image", shape=(6, 6))
    conv = relay.nn.conv2d(x, w, channels=16, kernel_size=(1, 1))
    mod = treadle.IRModule.from_expr(relay.Function([x, w, few, image], relay.concatenate([conv + image, few], 1)))
    values = [np.random.default_rng(i).random(s, "float32") for i, s in enumerate(
        [(1, 16, 6, 6), (16, 16, 1, 1), (1, 8, 6, 6), (6, 6)])]
    expected = relay.create_executor("debug", mod=mod).evaluate()(*values).numpy()
    with testing.TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", in_blocks):
        altered = relay.transform.AlterOpLayout()(relay.transform.InferType()(mod))
    np.testing.assert_allclose(relay.create_executor("debug", mod=altered).evaluate()(*values).numpy(), expected,
                               rtol=1e-4, atol=1e-5)


def test_tuples_within_results_are_outputs_one_by_one():
    x = relay.var("x", shape=(10,))
    y = x + relay.const(1.0)
    halves = relay.split(x, 2).astuple()
    function = relay.Function([x], relay.Tuple([y, relay.Tuple([relay.Tuple([y * y, x]), halves])]))
    module, data = treadle.IRModule.from_expr(function), np.arange(10, dtype="float32")
    runner = treadle.contrib.graph_executor.GraphModule(relay.build(module, "llvm")["default"](treadle.cpu()))
    runner.run(x=data)
    expected = [data + 1, (data + 1) ** 2, data, data[:5], data[5:]]
    assert runner.get_num_outputs() == 5
    for i, value in enumerate(expected):
        np.testing.assert_array_equal(runner.get_output(i).numpy(), value)
    first, ((square, same), (left, right)) = relay.create_executor("graph", module).evaluate()(data)
    for got, value in zip((first, square, same, left, right), expected):
        np.testing.assert_array_equal(got.numpy(), value)


@pytest.mark.parametrize("rounding, expected", [("UPWARD", [1, 2, 3, 3, 4, 5, 6, 127]),
                                                ("TONEAREST", [0, 1, 2, 3, 4, 5, 6, 127]),
                                                ("TONEVEN", [1, 1, 3, 3, 3, 5, 5, 127])])
def test_requantize_rounds_halves_as_asked(rounding, expected):
    d = relay.var("d", shape=(8,), dtype="int32")
    scales = [relay.const(0.5), relay.const(0), relay.const(1.0), relay.const(3)]
    q = relay.qnn.requantize(d, *scales, out_dtype="int8", rounding=rounding)
    for passes in ([], [relay.qnn.transform.Legalize(), relay.qnn.transform.CanonicalizeOps()]):
        module = relay.transform.InferType()(treadle.IRModule.from_expr(relay.Function([d], q)))
        for each in passes:
            module = each(module)
        got = relay.create_executor("graph", module).evaluate()(np.array([-5, -3, -1, 0, 1, 3, 5, 999], "int32"))
        assert got.numpy().tolist() == expected
    assert "qnn.requantize" not in str(module)
    with pytest.raises(treadle.Error, match="TONEVEN, UPWARD or TONEAREST"):
        relay.transform.InferType()(treadle.IRModule.from_expr(relay.Function([d], relay.qnn.requantize(
            d, *scales, out_dtype="int8", rounding="DOWN"))))


def test_rules_of_quantised_operators():
    d = relay.var("d", shape=(2,), dtype="int8")
    module = treadle.IRModule.from_expr(relay.Function([d], relay.qnn.dequantize(d, relay.const(0.5), relay.const(0))))
    with relay.testing.TempOpAttr("qnn.dequantize", "FTVMQnnLegalize",
                                  lambda attrs, args, types: relay.cast(args[0], "float32")):
        assert "qnn.dequantize" not in str(relay.qnn.transform.Legalize()(relay.transform.InferType()(module)))
        got = relay.create_executor("graph", module).evaluate()(np.array([4, -3], "int8"))
        assert got.numpy().tolist() == [4, -3]
    got = relay.create_executor("graph", module).evaluate()(np.array([4, -3], "int8"))
    assert got.numpy().tolist() == [2, -1.5]


def test_pads_of_integers():
    d = relay.var("d", shape=(2,), dtype="int32")
    got = relay.create_executor("graph", treadle.IRModule.from_expr(relay.Function([d], relay.nn.pad(d, [[1, 0]])))).evaluate()
    assert got(np.array([4, -3], "int32")).numpy().tolist() == [0, 4, -3]


@pytest.mark.parametrize("kind", ["graph", "vm"])
def test_executors_take_the_parameters_that_no_value_is_given_for(kind):
    """Not the first ones, whose values may be given already; before, missing arguments of a graph were zeros."""
    x, w, b = (relay.var(name, shape=(2, 3)) for name in "xwb")
    mod = treadle.IRModule.from_expr(relay.Function([w, x, b], x * w + b))
    one = np.ones((2, 3), "float32")
    bound = relay.create_executor(kind, mod, treadle.cpu(), "llvm", params={"w": one * 3}).evaluate()
    np.testing.assert_array_equal(bound(one, one * 2).numpy(), one * 5)
    with pytest.raises((TypeError, treadle.Error), match=r"takes 2 arguments( \(x, b\))?, got 1"):
        bound(one)
