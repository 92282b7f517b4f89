# SPDX-License-Identifier: Apache-2.0
"""Scalar functions, layouts and passes of loop-level code under the original's names."""
import numpy as np
import pytest

import treadle as tvm
from treadle import te, tir

X = np.array([[3, -1, 0.5, 8], [4, 2, -7, 1]], "float32")


def elementwise(function, values, dtype="float32", target="llvm"):
    tensors = [te.placeholder((values.shape[1],), name=f"x{i}", dtype=str(values.dtype)) for i in range(len(values))]
    out = te.compute((values.shape[1],), lambda i: function(*(t[i] for t in tensors)), name="out")
    result = tvm.nd.empty((values.shape[1],), str(out.dtype))
    tvm.build(te.create_schedule(out.op), [*tensors, out], target)(*(tvm.nd.array(v) for v in values), result)
    return result.numpy()


@pytest.mark.parametrize("target", ["llvm", "c", "stackvm"])
def test_functions_of_two_numbers(target):
    for function, reference in ((tir.hypot, np.hypot), (tir.copysign, np.copysign), (tir.nextafter, np.nextafter)):
        np.testing.assert_allclose(elementwise(function, X, target=target), reference(*X), rtol=1e-6)
    np.testing.assert_allclose(elementwise(lambda a, b: tir.ldexp(a, b), X, target=target), np.ldexp(X[0], X[1].astype(int)),
                               rtol=1e-6)


@pytest.mark.parametrize("target", ["llvm", "c", "stackvm"])
def test_bits(target):
    values = np.array([[0, 1, 255, 2 ** 31 - 1]], "int32")
    assert elementwise(tir.popcount, values, target=target).tolist() == [0, 1, 8, 31]
    assert elementwise(tir.clz, values, target=target).tolist() == [32, 31, 24, 1]
    numbers = np.array([[7, -7, 100, -100]], "int32")
    half = elementwise(lambda x: tir.q_multiply_shift(x, tir.const(2 ** 30, "int32"), 31, 0), numbers, target=target)
    assert half.tolist() == [4, -3, 50, -50]


def test_intrinsics_of_llvm():
    got = elementwise(lambda a, b: tir.call_llvm_pure_intrin("float32", "llvm.maxnum", tir.const(2, "uint32"), a, b), X)
    np.testing.assert_array_equal(got, np.maximum(*X))
    got = elementwise(lambda a, b: tir.call_llvm_intrin("float32", "llvm.fma", a, b, a), X)
    np.testing.assert_allclose(got, X[0] * X[1] + X[0], rtol=1e-6)
    for name, message in (("llvm.no_such", "has no intrinsic"), ("llvm.fma", "doesn't take")):
        with pytest.raises(tvm.TargetError, match=message):
            elementwise(lambda a, b: tir.call_llvm_pure_intrin("float32", name, a), X)


def test_layouts():
    layout = tir.layout("NCHW16c")
    assert len(layout) == 5 and layout.index_of("c") == 4 and layout.factor_of("C") == 16 and "W" in layout
    between = tir.bijective_layout("NCHW", "NCHW16c")
    assert [int(d) for d in between.forward_shape((1, 32, 7, 7))] == [1, 2, 7, 7, 16]
    assert [int(d) for d in between.backward_shape((1, 2, 7, 7, 16))] == [1, 32, 7, 7]
    assert [int(i) for i in between.forward_index([0, 18, 6, 6])] == [0, 1, 6, 6, 2]
    assert [int(i) for i in between.backward_index([0, 1, 6, 6, 2])] == [0, 18, 6, 6]
    for name in ("NC16c", "NCc", "16N", "N C", "NN"):
        if name != "NC16c":
            with pytest.raises(tvm.ShapeError, match="layout"):
                tir.layout(name)
    with pytest.raises(tvm.ShapeError, match="hasn't"):
        tir.bijective_layout("NCHW", "NCW")


def lowered(parallel=False):
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: tir.Select(i < 4, a[i], a[7 - i]), name="B")
    s = te.create_schedule(b.op)
    if parallel:
        s[b].parallel(b.op.axis[0])
    return tvm.lower(s, [a, b], name="f")


def test_passes_over_loops():
    mod = lowered(parallel=True)
    assert "parallel" in str(mod) and "parallel" not in str(tir.transform.ConvertForLoopsToSerial()(mod))
    safe = tir.transform.RewriteUnsafeSelect()(mod)
    assert "select(" in str(mod) and "select(" not in str(safe) and "if_then_else" in str(safe)
    packed = tir.transform.MakePackedAPI()(mod)
    assert sorted(var.name_hint for var in packed.get_global_vars()) == ["f", "f__compute"]
    assert "ndim" in str(packed["f"]) or "arg0" in str(packed["f"])
    unpacked = tir.transform.MakeUnpackedAPI()(mod)
    assert [len(f.params) for f in unpacked.functions.values()] == [2]
    with tvm.target.Target("opencl"):
        split = tir.transform.SplitHostDevice()(mod)
    assert len(split.get_global_vars()) == 2
    for name in ("ThreadSync", "CoProcSync", "InferFragment"):
        with pytest.raises(tvm.UnsupportedOpError, match=name):
            getattr(tir.transform, name)("shared")


def test_devices_and_other_names():
    assert not tvm.vulkan().exist and tvm.nd.rocm(1).device_id == 1 and tvm.runtime.metal().device_type == 8
    assert tvm.runtime.ShapeTuple([1, 2]) == (1, 2) and tvm.error.OpNotImplemented is tvm.UnsupportedOpError
    assert tvm.relay.scalar_type("int8").dtype == "int8" and tvm.relay.TempExpr and tvm.relay.Prelude
    calls = [tir.Evaluate(tir.call_extern("int32", f"f{i}")) for i in range(3)]
    assert len(tir.stmt_list(tir.stmt_seq(calls[0], tir.stmt_seq(*calls[1:])))) == 3


def test_small_names():
    n = te.var("n")
    assert int(tvm.arith.simplify(tir.stmt_functor.substitute(tir.ceildiv(n, 4), {n: tir.const(9, "int32")}))) == 3
    x = tvm.relay.var("x", shape=(2,))
    assert tvm.relay.testing.count_ops(tvm.relay.exp(tvm.relay.exp(x))) == {"exp": 2}
    assert tvm.relay.testing.enabled_targets()


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_functions_return_numbers(target):
    a, b = tir.Var("a", "float32"), tir.Var("b", "int32")
    ib = tir.ir_builder.create()
    with ib.if_scope(b > 3):
        ib.emit(tir.Evaluate(tir.ret(b * 2)))
    ib.emit(tir.Evaluate(tir.ret(a + tir.Cast("float32", b))))
    function = tvm.build(tvm.IRModule({"main": tir.PrimFunc([a, b], ib.get())}), target=target)
    assert function(1.5, 5) == 10 and isinstance(function(1.5, 5), int)
    assert function(1.5, 2) == 3.5 and function(-4.0, -9) == -13.0
    zero = tvm.build(tvm.IRModule({"main": tir.PrimFunc([], tir.Evaluate(tir.ret(tir.const(0))))}), target=target)
    assert zero() == 0


def test_what_cannot_return_a_number_says_so():
    a = tir.Var("a", "float32")
    module = tvm.IRModule({"main": tir.PrimFunc([a], tir.Evaluate(tir.ret(a)))})
    with pytest.raises(tvm.Error, match="stackvm: functions have no value"):
        tvm.build(module, target="stackvm")


def test_constants_of_64_bits_and_several_modules():
    a = te.placeholder((), dtype="uint64", name="a")
    b = te.compute((2,), lambda i: tir.const(2**63 + 5, "uint64") + a(), name="b")
    s = te.create_schedule(b.op)
    lib = tvm.build([tvm.lower(s, [a, b], name="one"), tvm.lower(s, [a, b], name="other")], "llvm")
    for name in ("one", "other"):
        out = tvm.nd.array(np.zeros(2, "uint64"))
        lib[name](tvm.nd.array(np.array(3, "uint64")), out)
        assert out.numpy().tolist() == [2**63 + 8] * 2
    with pytest.raises(tvm.Error, match="two of the modules have a function one"):
        tvm.build([tvm.lower(s, [a, b], name="one")] * 2)
    large = tir.const(2**64 - 1, "uint64")
    assert int(large) == 2**64 - 1 == large and str(large) == "18446744073709551615" and int(tir.const(-1, "int64")) == -1


def test_narrow_data_type():
    from treadle.script import tir as T

    @T.prim_func
    def func(a: T.Buffer((1000, 64), "float32"), b: T.Buffer((1000, 64), "int64"), n: T.int64):
        for i, j in T.grid(T.int64(1000), T.int64(64)):
            if i * T.int64(64) + j < T.int64(60000):
                b[i, j] = (i * T.int64(64) + j) * n + T.Cast("int64", a[i, (j + T.int64(3)) % T.int64(64)])

    module = tvm.IRModule({"func": func})
    narrow = tir.transform.NarrowDataType(32)(module)
    text = narrow["func"].script()
    assert "T.grid(1000, 64)" in text and "if i * 64 + j < 60000" in text and "b[i, j] = " in text
    assert "(j + 3) % 64" in text and "T.Cast(\"int64\", i) * T.int64(64)" in text  # what is stored keeps its type
    shorter = tir.transform.NarrowDataType(16)(module)["func"].script()
    assert "j + T.int16(3)" in shorter and "< T.int64(60000)" in shorter  # 60 000 isn't an int16
    values = np.random.default_rng(0).uniform(0, 100, (1000, 64)).astype("float32")
    index = np.arange(64000).reshape(1000, 64)
    expected = np.where(index < 60000, index * 10 ** 9 + np.roll(values, -3, 1).astype("int64"), 0)
    for each in (module, narrow, tir.transform.NarrowDataType(16)(module)):
        result = tvm.nd.array(np.zeros((1000, 64), "int64"))
        tvm.build(each["func"], target="llvm")(tvm.nd.array(values), result, 10 ** 9)
        np.testing.assert_array_equal(result.numpy(), expected)
    with pytest.raises(tvm.Error, match="7 bits; expected 8, 16 or 32"):
        tir.transform.NarrowDataType(7)(module)


def test_buffers_over_pointers():
    pointer = tir.Var("p", tvm.ir.PointerType(tvm.ir.PrimType("float32"), "shared"))
    buffer = tir.decl_buffer((4, 4), "float32", data=pointer, strides=[8, 1])
    assert buffer.data.same_as(pointer) and buffer.scope() == "shared" and int(buffer.strides[0]) == 8
    assert str(tir.Var("n", tvm.ir.PrimType("int64")).dtype) == "int64"
    with pytest.raises(tvm.DTypeError, match="data is 3; expected a pointer"):
        tir.decl_buffer((4,), "float32", data=3)
    with pytest.raises(tvm.DTypeError, match="expected a pointer"):
        tir.decl_buffer((4,), "float32", data=tir.Var("n", "int32"))
    with pytest.raises(ValueError, match="its data is in 'shared'"):
        tir.decl_buffer((4,), "float32", data=pointer, scope="local")
