# SPDX-License-Identifier: Apache-2.0
"""Element types that users define: what computes with them is a library."""
import ctypes

import numpy as np
import pytest

import treadle as tvm
from treadle import relay, te
from treadle.contrib import cc, graph_executor
from treadle.relay.frontend.change_datatype import ChangeDatatype
from treadle.target import datatype

# Fixed-point numbers of 32 bits, 12 of them behind the point: nothing that an integer or a float computes by itself.
SOURCE = """
#include <stdint.h>
#include <math.h>
extern "C" {
static double real(uint32_t x) { return (int32_t)x / 4096.0; }
static uint32_t fixed(double x) { return (uint32_t)(int32_t)lrint(x * 4096.0); }
uint32_t fixed_from_float(float x) { return fixed(x); }
float fixed_to_float(uint32_t x) { return (float)real(x); }
uint32_t fixed_add(uint32_t a, uint32_t b) { return a + b; }
uint32_t fixed_sub(uint32_t a, uint32_t b) { return a - b; }
uint32_t fixed_mul(uint32_t a, uint32_t b) { return (uint32_t)(((int64_t)(int32_t)a * (int32_t)b) >> 12); }
uint32_t fixed_div(uint32_t a, uint32_t b) { return fixed(real(a) / real(b)); }
uint32_t fixed_max(uint32_t a, uint32_t b) { return (int32_t)a > (int32_t)b ? a : b; }
uint32_t fixed_exp(uint32_t a) { return fixed(exp(real(a))); }
bool fixed_less(uint32_t a, uint32_t b) { return (int32_t)a < (int32_t)b; }
uint32_t fixed_least() { return 0x80000000u; }
}
"""
FIXED = "custom[fixed]32"


@pytest.fixture(scope="module", autouse=True)
def fixed_point(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fixed")
    (folder / "fixed.cc").write_text(SOURCE)
    library = str(folder / "libfixed.so")
    cc.create_shared(library, str(folder / "fixed.cc"), options=["-O2", "-lm"])
    ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
    datatype.register("fixed", 160)
    for op, function in [("Add", "add"), ("Sub", "sub"), ("Mul", "mul"), ("Div", "div"), ("Max", "max"), ("LT", "less"),
                         ("FloatImm", "from_float")]:
        datatype.register_op(datatype.create_lower_func({32: f"fixed_{function}"}), op, "llvm", "fixed")
    datatype.register_op(datatype.create_lower_func({(32, 32): "fixed_from_float"}), "Cast", "llvm", "float", "fixed")
    datatype.register_op(datatype.create_lower_func({(32, 32): "fixed_to_float"}), "Cast", "llvm", "fixed", "float")
    datatype.register_op(datatype.create_lower_func({32: "fixed_exp"}), "Call", "llvm", "fixed",
                         intrinsic_name="tir.exp")
    datatype.register_min_func(datatype.create_min_lower_func({32: "fixed_least"}, "fixed"), "fixed")


def fixed(array):
    return np.rint(np.asarray(array, "float64") * 4096) / 4096


def in_fixed_point(function, *inputs):
    """function of inputs that are cast to fixed point, its result cast back."""
    params = [relay.var(f"x{i}", shape=x.shape) for i, x in enumerate(inputs)]
    body = relay.cast(function(*[relay.cast(p, FIXED) for p in params]), "float32")
    mod = tvm.IRModule.from_expr(relay.Function(params, body))
    return relay.create_executor("graph", mod=mod, target="llvm").evaluate()(*inputs).numpy()


def test_names_and_codes():
    assert datatype.get_type_name(160) == "fixed" and datatype.get_type_code("fixed") == 160
    assert datatype.get_type_registered(160) and not datatype.get_type_registered(161)
    x = relay.var("x", shape=(3,), dtype=FIXED)
    mod = tvm.IRModule.from_expr(relay.Function([x], x + x))
    text = mod.astext()
    assert f"Tensor[(3), {FIXED}]" in text
    assert tvm.ir.structural_equal(tvm.parser.parse(text), relay.transform.InferType()(mod))


@pytest.mark.parametrize("name, code, message", [
    ("fixed", 161, "has code 160 already"), ("other", 160, "is that of custom data type fixed"),
    ("other", 5, "expected 129 to 255"), ("a]b", 170, "letters, digits and underscores")])
def test_registrations_that_clash(name, code, message):
    with pytest.raises(tvm.DTypeError, match=message):
        datatype.register(name, code)


def test_what_is_not_registered_is_named():
    with pytest.raises(tvm.DTypeError, match='unknown custom data type "posit"'):
        relay.var("x", shape=(3,), dtype="custom[posit]32")
    with pytest.raises(tvm.Error, match=r"tir.tanh of custom\[fixed\]32 .*Call.intrin.tir.tanh.fixed"):
        in_fixed_point(relay.tanh, np.zeros(3, "float32"))
    x = relay.var("x", shape=(3,), dtype="float64")
    with pytest.raises(tvm.Error, match=r"the key \(64, 32\) isn't among"):
        relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.cast(relay.cast(x, FIXED), "float32"))), "llvm")


def test_arithmetic():
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(1, 4, (5, 33)).astype("float32") for _ in range(2))
    np.testing.assert_array_equal(in_fixed_point(lambda x, y: x + y - relay.exp(x), a, b),
                                  fixed(a) + fixed(b) - fixed(np.exp(fixed(a))))
    np.testing.assert_allclose(in_fixed_point(lambda x, y: relay.nn.relu(x * y / y), a, b), a, atol=1e-3)
    np.testing.assert_array_equal(in_fixed_point(lambda x, y: relay.where(x < y, x, y), a, b),
                                  np.minimum(fixed(a), fixed(b)))


def test_reductions_and_products():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (1, 4, 12, 12)).astype("float32")
    w = rng.uniform(-1, 1, (8, 4, 3, 3)).astype("float32")
    np.testing.assert_array_equal(in_fixed_point(lambda v: relay.sum(v, axis=[2, 3]), x), fixed(x).sum(axis=(2, 3)))
    np.testing.assert_array_equal(in_fixed_point(lambda v: relay.nn.max_pool2d(v, (2, 2), strides=(2, 2)), x),
                                  fixed(x).reshape(1, 4, 6, 2, 6, 2).max(axis=(3, 5)))

    def network(data, weight):
        conv = relay.nn.relu(relay.nn.conv2d(data, weight, padding=(1, 1), channels=8, kernel_size=(3, 3)))
        return relay.nn.softmax(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(conv)))

    data, weight = relay.var("d", shape=x.shape), relay.var("w", shape=w.shape)
    mod = tvm.IRModule.from_expr(relay.Function([data, weight], network(data, weight)))
    exact = relay.create_executor("graph", mod=mod, target="llvm").evaluate()(x, w).numpy()
    np.testing.assert_allclose(in_fixed_point(network, x, w), exact, atol=2e-3)


def test_whole_model_in_another_type():
    x, w = relay.var("x", shape=(2, 6)), relay.var("w", shape=(3, 6))
    function = relay.Function([x, w], relay.nn.dense(x, w) + relay.const(0.5))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    changed = ChangeDatatype("float32", FIXED).visit(mod["main"])
    assert str(relay.transform.InferType()(tvm.IRModule.from_expr(changed))["main"].ret_type.dtype) == FIXED
    a, b = (np.random.default_rng(2).uniform(-1, 1, s).astype("float32") for s in [(2, 6), (3, 6)])

    def convert(array, dtype):
        v = relay.var("v", shape=array.shape, dtype=str(array.dtype))
        return relay.create_executor("graph", target="llvm").evaluate(relay.Function([v], v.astype(dtype)))(array)

    result = relay.create_executor("graph", target="llvm").evaluate(changed)(convert(a, FIXED), convert(b, FIXED))
    assert str(result.dtype) == FIXED
    np.testing.assert_allclose(convert(result, "float32").numpy(), a @ b.T + 0.5, atol=3e-3)
    with pytest.raises(tvm.DTypeError, match="NumPy"):
        result.numpy()


def test_schedules_and_exported_libraries(tmp_path):
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: (a[i].astype(FIXED) * tvm.tir.const(1.5, FIXED)).astype("float32"), name="b")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 8)
    s[b].parallel(outer)
    s[b].vectorize(inner)
    f = tvm.build(s, [a, b], "llvm")
    x = np.linspace(-2, 2, 64, dtype="float32")
    out = tvm.nd.empty((64,))
    f(tvm.nd.array(x), out)
    np.testing.assert_allclose(out.numpy(), 1.5 * x, atol=1e-3)

    v = relay.var("v", shape=(4,), dtype=FIXED)
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([v], v + v)), "llvm")
    lib.export_library(str(tmp_path / "double.so"))
    module = graph_executor.GraphModule(tvm.runtime.load_module(str(tmp_path / "double.so"))["default"](tvm.cpu()))
    assert str(module.get_input(0).dtype) == FIXED
    with pytest.raises(tvm.Error, match="dtype|type"):
        module.set_input("v", np.zeros(4, "float32"))


def test_the_example_type_comes_along():
    """myfloat is float32 behind an integer: nobody loads its library, results are float32's bit by bit."""
    datatype.register("myfloat", 150)
    for op, function in [("Add", "Add"), ("Mul", "Mul"), ("Sub", "Sub"), ("Div", "Div"), ("Max", "Max")]:
        datatype.register_op(datatype.create_lower_func({32: f"Custom32{function}"}), op, "llvm", "myfloat")
    datatype.register_op(datatype.create_lower_func({(32, 32): "FloatToCustom32"}), "Cast", "llvm", "float", "myfloat")
    datatype.register_op(datatype.create_lower_func({(32, 32): "Custom32ToFloat"}), "Cast", "llvm", "myfloat", "float")
    datatype.register_op(datatype.create_lower_func({32: "FloatToCustom32"}), "FloatImm", "llvm", "myfloat")
    datatype.register_op(datatype.create_lower_func({32: "Custom32Sqrt"}), "Call", "llvm", "myfloat",
                         intrinsic_name="tir.sqrt")
    a, b = (np.random.default_rng(3).uniform(1, 2, (7, 5)).astype("float32") for _ in range(2))
    x, y = relay.var("x", shape=a.shape), relay.var("y", shape=a.shape)
    kind = "custom[myfloat]32"
    cast_x, cast_y = relay.cast(x, kind), relay.cast(y, kind)
    body = relay.cast(relay.sqrt(cast_x * cast_y) - cast_x / (cast_x + cast_y), "float32")
    mod = tvm.IRModule.from_expr(relay.Function([x, y], body))
    result = relay.create_executor("graph", mod=mod, target="llvm").evaluate()(a, b).numpy()
    np.testing.assert_array_equal(result, np.sqrt(a * b) - a / (a + b))
