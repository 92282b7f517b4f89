# SPDX-License-Identifier: Apache-2.0
"""What scripts of users of tensor expressions rely on: parameters that aren't plain tensors, vectors, targets in scope,
intrinsics and code of one's own, loops written in Python."""
import shutil

import numpy as np
import pytest

import treadle as tvm
from treadle import te, tir, topi

targets = pytest.mark.parametrize("target", ["llvm", "c", "stackvm"])


def random(*shape):
    return np.random.default_rng(0).random(shape, "float32")


def add_one(n=4):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    return a, b, te.create_schedule(b.op)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_scalars_are_parameters_in_any_place(target):
    a, n = te.placeholder((4,), name="A"), te.var("n")
    b = te.compute((4,), lambda i: a[i] + n, name="B")
    f = tvm.build(tvm.lower(te.create_schedule(b.op), [n, a, b], name="scaled"), target=target)
    result = tvm.nd.empty((4,))
    f["scaled"](3, tvm.nd.array(np.zeros(4, "float32")), result)
    np.testing.assert_array_equal(result.numpy(), np.full(4, 3))


def test_what_is_no_parameter_is_named():
    a, b, s = add_one()
    for wrong in (3, None, "A"):
        with pytest.raises(TypeError, match="argument 1 of the function: expected a tensor, buffer or variable"):
            tvm.lower(s, [a, wrong, b])
    with pytest.raises(tvm.Error, match="argument 0: buffer X belongs to no tensor"):
        tvm.lower(s, [tir.decl_buffer((4,), name="X"), b])


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_tensors_live_in_buffers_of_the_callers(target):
    n, m = te.size_var("n"), te.size_var("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    buffer = tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=8, strides=[te.var("s1"), te.var("s2")])
    f = tvm.build(te.create_schedule(b.op), [buffer, b], target, binds={a: buffer})
    x, result = random(6, 8), tvm.nd.empty((3, 8))
    f(tvm.nd.from_dlpack(x[::2]), result)
    np.testing.assert_array_equal(result.numpy(), x[::2] + 1)


def test_buffers_fit_their_tensors():
    a, b, s = add_one()
    with pytest.raises(tvm.ShapeError, match=r"bound to tensor A, has shape \(5\); expected \(4\)"):
        tvm.lower(s, [a, b], binds={a: tir.decl_buffer((5,), name="A")})
    with pytest.raises(tvm.DTypeError, match="bound to tensor A, has dtype int8; expected float32"):
        tvm.lower(s, [a, b], binds={a: tir.decl_buffer((4,), "int8", name="A")})


def test_arguments_of_a_lambda_with_defaults_are_no_indices():
    a = te.placeholder((4,), name="A")
    tensors = [te.compute((4,), lambda i, scale=scale: a[i] * scale) for scale in (2.0, 3.0)]
    assert [t.shape[0].value for t in tensors] == [4, 4]


def test_targets_in_scope_are_what_is_built_for():
    a, b, s = add_one()
    with tvm.target.Target({"kind": "c"}) as target:
        assert tvm.target.Target.current().kind.name == "c" == target.kind
        assert "treadle target: c" in tvm.build(s, [a, b]).get_source()
    assert tvm.target.Target.current() is None


def test_intrinsics_of_ones_own():
    tvm.ir.register_op_attr("tir.test_scripts_log", "TCallEffectKind", tir.CallEffectKind.Pure)

    @tvm.ir.register_intrin_lowering("tir.test_scripts_log", target="llvm")
    def rule(call):
        return tir.call_pure_extern("float32", "logf", call.args[0])

    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: tir.call_intrin("float32", "tir.test_scripts_log", a[i]), name="B")
    x, result = random(4), tvm.nd.empty((4,))
    tvm.build(te.create_schedule(b.op), [a, b], "llvm")(tvm.nd.array(x), result)
    np.testing.assert_allclose(result.numpy(), np.log(x), rtol=1e-5)


@pytest.mark.skipif(shutil.which("clang-19") is None, reason="no clang that fits")
def test_code_of_ones_own_as_llvm_ir():
    from treadle.contrib import clang

    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: tir.call_extern("float32", "thrice", a[i]), name="B")
    s = te.create_schedule(b.op)
    s[b].pragma(b.op.axis[0], "import_llvm", clang.create_llvm('extern "C" float thrice(float x) { return 3 * x; }'))
    x, result = random(4), tvm.nd.empty((4,))
    tvm.build(s, [a, b], "llvm")(tvm.nd.array(x), result)
    np.testing.assert_allclose(result.numpy(), x * 3)
    s[b].pragma(b.op.axis[0], "import_llvm", "no IR at all")
    with pytest.raises(tvm.Error, match="import_llvm: line 1"):
        tvm.build(s, [a, b], "llvm")


def test_facts_about_expressions():
    analyzer, x = tvm.arith.Analyzer(), te.var("x")
    analyzer.bind(x, tvm.ir.Range(0, 10))
    assert analyzer.can_prove(x < 10)
    bound = analyzer.const_int_bound(x * 2 + 1)
    assert (bound.min_value, bound.max_value) == (1, 19)


def test_passes_of_lowering_by_name():
    a, b, s = add_one(8)
    s[b].vectorize(b.op.axis[0])
    with tvm.transform.PassContext(config={"tir.disable_vectorize": True}):
        assert "ramp" not in str(tir.transform.VectorizeLoop()(tvm.lower(s, [a, b])))


def test_a_library_function_by_name():
    from treadle.contrib import cblas

    a, b = te.placeholder((4, 3), name="A"), te.placeholder((5, 3), name="B")
    c = cblas.matmul(a, b, transb=True)
    x, y, result = random(4, 3), random(5, 3), tvm.nd.empty((4, 5))
    tvm.build(te.create_schedule(c.op), [a, b, c], "llvm")(tvm.nd.array(x), tvm.nd.array(y), result)
    np.testing.assert_allclose(result.numpy(), x @ y.T, rtol=1e-5)


@te.hybrid.script
def running_sum(a, start):
    c = output_tensor((a.shape[0],), "float32")
    total = float32(start)
    for i in range(a.shape[0]):
        if a[i] > 0.5:
            total += a[i]
        else:
            total = total - sqrt(a[i])
        c[i] = total
    return c


@targets
def test_loops_written_in_python(target):
    a = te.placeholder((9,), name="A")
    c = running_sum(a, 1.0)
    x, result = random(9), tvm.nd.empty((9,))
    tvm.build(te.create_schedule(c.op), [a, c], target)(tvm.nd.array(x), result)
    np.testing.assert_allclose(result.numpy(), np.cumsum(np.where(x > 0.5, x, -np.sqrt(x))) + 1, rtol=1e-5)
    np.testing.assert_allclose(running_sum(x, 1.0), result.numpy(), rtol=1e-5)


@te.hybrid.script
def unknown_name(a):
    c = output_tensor((4,), "float32")
    c[0] = undefined_thing
    return c


def test_loops_that_cannot_be_are_refused_with_their_line():
    with pytest.raises(tvm.Error, match=r"unknown_name, line \d+: 'undefined_thing' isn't defined here"):
        unknown_name(te.placeholder((4,), name="A"))


def test_lists_of_the_wrong_things_are_refused():
    with pytest.raises(tvm.DTypeError, match="element 0: expected te.Tensor"):
        tvm.get_global_func("topi.Compute")(tvm.relay.Function([], tvm.relay.const(1)), [1], "llvm")
    assert topi.utils.get_const_tuple(te.placeholder((3, 4)).shape) == (3, 4)


def test_numpy_arrays_are_written():
    a, b, s = add_one()
    f, x, result = tvm.build(s, [a, b], "llvm"), random(4), np.zeros(4, "float32")
    f(x, result)
    np.testing.assert_array_equal(result, x + 1)
    with pytest.raises(tvm.ShapeError, match="argument 1: a NumPy array that isn't contiguous"):
        f(x, np.zeros(8, "float32")[::2])
    result.flags.writeable = False
    with pytest.raises(tvm.Error, match="argument 1: a read-only NumPy array"):
        f(x, result)


def stage_of_add_one():
    a, b, s = add_one(16)
    return s[b], b.op.axis[0], a, b, s


@pytest.mark.parametrize("wrong, message", [
    (lambda st, i, *_: st.split(i, 0), r"split: factor 0 of axis 'i' of stage 'B'; expected a positive number"),
    (lambda st, i, *_: st.split(i, nparts=-2), r"split: nparts -2 of axis 'i' of stage 'B'"),
    (lambda st, i, *_: st.split(i, 2.5), r"split: the factor of axis 'i' of stage 'B' is .*; expected an integer"),
    (lambda st, *_: st.split("i", 4), r"split: 'i' isn't an axis of stage 'B'; expected one of its axes \(i\)"),
    (lambda st, *_: st.vectorize(None), r"vectorize: None isn't an axis of stage 'B'"),
    (lambda st, i, *_: st.compute_at(3, i), r"compute_at: stage 'B' can't be put into 3; expected a stage"),
    (lambda st, i, *_: st.tile(i, i, 4, 4), r"tile: axis 'i' of stage 'B' is given twice"),
    (lambda st, i, *_: st.bind(i, te.thread_axis("foo")), r"bind of axis 'i' of stage 'B': .*no thread axis 'foo'"),
    (lambda st, *_: st.set_scope("foo"), r"set_scope of stage 'B': there is no storage scope 'foo'"),
    (lambda st, i, *_: st.tensorize(i, None), r"tensorize: stage 'B': expected an intrinsic"),
    (lambda st, i, *_: st.pragma(i, "auto_unroll_max_step", "x"), r"pragma auto_unroll_max_step of axis 'i' of stage"),
    (lambda st, i, a, b, s: s.cache_read(a, "local", []), r"cache_read of tensor A: no readers"),
    (lambda st, i, a, b, s: s["B"], r"a stage of the schedule: expected an operation or a tensor, not 'B'"),
    (lambda st, i, a, b, s: s[a].compute_at(st, i), r"compute_at: stage 'A' is a placeholder"),
    (lambda *_: te.create_schedule([]), r"create_schedule: no operations"),
    (lambda *_: te.create_schedule(None), r"create_schedule: expected an operation or a tensor, not None"),
])
def test_wrong_steps_of_schedules_name_stage_and_axis(wrong, message):
    with pytest.raises((tvm.Error, ValueError), match=message):
        wrong(*stage_of_add_one())


@pytest.mark.parametrize("wrong, message", [
    (lambda s, b, i: s.split(b, [None, 2]), r"split: expected a loop \(get_loops\), not a block"),
    (lambda s, b, i: s.split(i, [None, 2.5]), r"split: factor 1 is .*; expected an integer"),
    (lambda s, b, i: s.bind(i, "foo"), r"bind: there is no thread axis 'foo'"),
    (lambda s, b, i: s.cache_write(b, 0, "foo"), r"cache_write: there is no storage scope 'foo'"),
    (lambda s, b, i: s.annotate(None, "key", 1), r"annotate: expected a loop"),
    (lambda s, b, i: s.get_loops(3), r"expected a block \(get_block\) or its name, not 3"),
])
def test_wrong_steps_over_blocks_say_what_was_expected(wrong, message):
    a, b, _ = add_one(16)
    s = tir.Schedule(te.create_prim_func([a, b]))
    with pytest.raises(tvm.Error, match=message):
        wrong(s, s.get_block("B"), s.get_loops("B")[0])


def test_wrong_expressions_say_what_was_expected():
    a, k = te.placeholder((4, 4), name="A"), te.reduce_axis((0, 4), "k")
    with pytest.raises(tvm.ShapeError, match="tensor A has 2 dimensions but 1 index"):
        te.compute((4,), lambda i: a[i] + 1)
    with pytest.raises(tvm.DTypeError, match="if_then_else: the condition must be bool, not float32"):
        te.compute((4,), lambda i: te.if_then_else(a[i, i], 1.0, 2.0))
    with pytest.raises(TypeError, match="sum: 3 isn't a reduction axis"):
        te.compute((4,), lambda i: te.sum(a[i, k], axis=3))
    with pytest.raises(TypeError, match="pair: 2 values are reduced together"):
        pair = te.comm_reducer(lambda x, y: (x[0],), lambda t, u: (0, 0), name="pair")
        te.compute((4,), lambda i: pair((a[i, k], a[i, k]), axis=k))


@targets
def test_variables_that_nothing_defines_are_named(target):
    a, n = te.placeholder((4,), name="A"), te.var("n")
    b = te.compute((4,), lambda i: a[i] + n, name="B")
    with pytest.raises(tvm.Error, match="function (main|default_function) isn't well formed: .*n") as caught:
        tvm.build(te.create_schedule(b.op), [a, b], target)
    assert not isinstance(caught.value, tvm.InternalError)


def test_functions_that_nobody_has_are_named():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: tir.call_pure_extern("float32", "nobody_has_this", a[i]), name="B")
    with pytest.raises(tvm.Error, match="nobody_has_this"):
        tvm.build(te.create_schedule(b.op), [a, b], "llvm")(tvm.nd.empty((4,)), tvm.nd.empty((4,)))


@targets
def test_arguments_of_calls_are_checked_alike(target):
    a, n = te.placeholder((4,), name="A"), te.var("n", "int64")
    b = te.compute((4,), lambda i: a[i] + n, name="B")
    f = tvm.build(te.create_schedule(b.op), [a, n, b], target, name="f")
    x, result = tvm.nd.array(random(4)), tvm.nd.empty((4,))
    f(x, 2**33, result)
    np.testing.assert_allclose(result.numpy(), np.full(4, 2.0**33))
    for args, message in [((x, 1), "f: num_args should be 3"), ((3, 1, result), r"f: Expect arg\[0\] to be pointer"),
                          ((None, 1, result), "f: arg0 is expected to be a tensor, not null"),
                          ((x, 1.5, result), r"f: Expect arg\[1\] to be int"),
                          ((tvm.nd.empty((4, 4)), 1, result), "f: arg0.ndim is expected to equal 1"),
                          ((x, 1, tvm.nd.empty((4,), "int8")), "f: arg2.dtype is expected to be float32")]:
        with pytest.raises(tvm.Error, match=message):
            f(*args)


def test_objects_linked_by_hand_have_an_entry(tmp_path):
    from treadle.contrib import cc

    a, b, s = add_one()
    tvm.build(s, [a, b], "llvm", name="by_hand").save(str(tmp_path / "f.o"))
    cc.create_shared(str(tmp_path / "f.so"), [str(tmp_path / "f.o")])
    x, result = tvm.nd.array(random(4)), tvm.nd.empty((4,))
    tvm.runtime.load_module(str(tmp_path / "f.so"))(x, result)
    np.testing.assert_array_equal(result.numpy(), x.numpy() + 1)


def test_vectors_are_loaded_and_stored():
    a, b = tir.decl_buffer((8,), "float32", name="A"), tir.decl_buffer((8,), "float32", name="B")
    ib = tir.ir_builder.create()
    with ib.for_range(0, 2, "i") as i:
        ib.emit(b.vstore([i * 4], a.vload([i * 4], "float32x4") * tir.const(2.0, "float32x4")))
    func = tir.PrimFunc([a, b], ib.get()).with_attr("global_symbol", "main")
    x, result = tvm.nd.array(random(8)), tvm.nd.empty((8,))
    tvm.build(func, target="llvm")(x, result)
    np.testing.assert_array_equal(result.numpy(), x.numpy() * 2)
    with pytest.raises(tvm.TargetError, match="vector expression"):
        tvm.build(func, target="c")


def test_chains_of_selections_share_what_they_repeat():
    from treadle import relay

    x = y = relay.var("x", shape=(1, 64))
    for _ in range(40):
        y = relay.where(relay.greater(y, relay.const(0.5)), relay.multiply(y, y), relay.add(y, relay.const(0.25)))
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(tvm.IRModule.from_expr(relay.Function([x], y)), "llvm")  # as copies: no end to it
    module = tvm.graph_executor.GraphModule(library["default"](tvm.cpu()))
    data = random(1, 64)
    module.set_input("x", data)
    module.run()
    for _ in range(40):
        data = np.where(data > 0.5, data * data, data + np.float32(0.25))
    np.testing.assert_allclose(module.get_output(0).numpy(), data, rtol=1e-5)
