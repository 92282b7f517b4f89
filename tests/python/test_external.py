# SPDX-License-Identifier: Apache-2.0
"""External code generators from Python: partitioning under TVM's names, building, exporting, loading."""
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import treadle
from treadle import relay
from treadle.contrib import graph_executor
from treadle.relay import transform
from treadle.runtime import load_module

CODEGENS = relay.external.list_codegens()


def needs(name):
    return pytest.mark.skipif(name not in CODEGENS, reason=f"this build has no code generator {name}")


def chains():
    """Three chains of subtractions, additions and multiplications on (10, 10)."""
    x = relay.var("x", shape=(10, 10))
    w = [relay.var(f"w{i}", shape=(10, 10)) for i in range(8)]
    z0, z1 = relay.add(x, w[0]), relay.add(x, w[3])
    q0 = relay.multiply(relay.subtract(z0, w[1]), w[2])
    q1 = relay.multiply(relay.subtract(z1, w[4]), w[5])
    q2 = relay.subtract(relay.add(x, w[6]), w[7])
    return treadle.IRModule.from_expr(relay.Function([x, *w], relay.concatenate((q0, q1, q2), axis=0)))


def chain_values():
    rng = np.random.default_rng(0)
    values = {"x": rng.random((10, 10), "float32")}
    values.update({f"w{i}": rng.random((10, 10), "float32") for i in range(8)})
    x, w = values["x"], [values[f"w{i}"] for i in range(8)]
    expected = np.concatenate([(x + w[0] - w[1]) * w[2], (x + w[3] - w[4]) * w[5], x + w[6] - w[7]])
    return values, expected


def run(lib, values):
    module = graph_executor.GraphModule(lib["default"](treadle.cpu()))
    module.run(**values)
    return module.get_output(0).numpy()


@pytest.mark.parametrize("name", ["c", "json", "ccompiler", "examplejsoncompiler"])
def test_chains_of_the_article(name):
    values, expected = chain_values()
    np.testing.assert_allclose(run(relay.build(chains(), external=[name]), values), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["c", "json"])
def test_fresh_process_without_the_compiler(name, tmp_path):
    values, expected = chain_values()
    relay.build(chains(), external=[name]).export_library(tmp_path / "m.so")
    np.savez(tmp_path / "in.npz", **values)
    program = os.path.join(os.path.dirname(treadle.__file__), "bin", "treadle")
    command = [program, "run", tmp_path / "m.so", "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz"]
    out = subprocess.run(command, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    result = np.load(tmp_path / "out.npz")
    np.testing.assert_allclose(result[result.files[0]], expected, rtol=1e-6)


def test_graphs_without_types_are_partitioned():
    a, b = (relay.var(n, shape=(10, 10)) for n in "ab")
    begin, end = (lambda value, mark=mark: getattr(relay.annotation, mark)(value, "ccompiler")
                  for mark in ("compiler_begin", "compiler_end"))
    func = relay.Function([a, b], end(relay.add(begin(a), begin(b))))
    region = transform.PartitionGraph()(treadle.IRModule.from_expr(func))["tvmgen_default_ccompiler_main_0"]
    assert [str(p.checked_type) for p in region.params] == ["Tensor[(10, 10), float32]"] * 2


def test_predicates_and_regions_under_the_originals_names():
    for op in ("add", "subtract", "multiply"):
        treadle.ir.register_op_attr(op, "target.ccompiler")(lambda call: True)
    a, b, c, d = (relay.var(n, shape=(10, 10)) for n in "abcd")
    mod = treadle.IRModule.from_expr(relay.Function([a, b, c, d], (a + b - c) * d))
    mod = transform.AnnotateTarget(["ccompiler"])(mod)
    mod = transform.MergeCompilerRegions()(mod)
    mod = transform.PartitionGraph()(mod)
    region = mod["tvmgen_default_ccompiler_main_0"]
    assert region.attrs["Compiler"] == "ccompiler"
    assert region.attrs["global_symbol"] == "tvmgen_default_ccompiler_main_0"
    values = {n: np.random.rand(10, 10).astype("float32") for n in "abcd"}
    expected = (values["a"] + values["b"] - values["c"]) * values["d"]
    np.testing.assert_allclose(run(relay.build(mod), values), expected, rtol=1e-6)


def test_predicate_of_attributes_and_operands():
    treadle.ir.register_op_attr("nn.relu", "target.onlysmall")(
        lambda attrs, args: int(args[0].checked_type.shape[0]) < 5)

    def regions(size):
        x = relay.var("x", shape=(size,))
        mod = treadle.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
        mod = transform.InferType()(mod)
        mod = transform.PartitionGraph()(transform.AnnotateTarget(["onlysmall"])(mod))
        return len(mod.get_global_vars()) - 1

    assert regions(4) == 1
    assert regions(6) == 0


def test_a_code_generator_in_python():
    source = textwrap.dedent("""
        #include "treadle/runtime/c_types.h"
        TREADLE_API int {symbol}(TreadleValue* args, int* codes, int n, TreadleValue* ret, int* ret_code, void* r) {{
          const float* in = (const float*)((DLTensor*)args[0].v_handle)->data;
          float* out = (float*)((DLTensor*)args[1].v_handle)->data;
          for (int i = 0; i < 4; ++i) out[i] = in[i] < 0 ? 0 : in[i];
          return 0;
        }}
        """)

    @treadle.register_func("relay.ext.pyrelu", override=True)
    def compile_region(function):
        symbol = str(function.attrs["global_symbol"])
        create = treadle.get_global_func("runtime.CSourceModuleCreate")
        return create(source.format(symbol=symbol), "c", [symbol], [])

    treadle.ir.register_op_attr("nn.relu", "target.pyrelu")(lambda call: True)
    x = relay.var("x", shape=(4,))
    lib = relay.build(treadle.IRModule.from_expr(relay.Function([x], relay.exp(relay.nn.relu(x)))), external="pyrelu")
    value = np.array([-1, 0, 1, 2], "float32")
    np.testing.assert_allclose(run(lib, {"x": value}), np.exp(np.maximum(value, 0)), rtol=1e-6)


def test_errors_name_the_code_generator():
    @treadle.register_func("relay.ext.pybroken", override=True)
    def compile_region(function):
        raise ValueError("not today")

    treadle.ir.register_op_attr("nn.relu", "target.pybroken")(lambda call: True)
    x = relay.var("x", shape=(4,))
    mod = treadle.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    with pytest.raises(treadle.Error, match="(?s)pybroken.*not today"):
        relay.build(mod, external=["pybroken"])
    with pytest.raises(treadle.Error, match="nosuch"):
        relay.build(mod, external=["nosuch"])


def test_report_says_why():
    treadle.ir.register_op_attr("nn.relu", "target.pyreason")(lambda call: "relu is beneath us")
    treadle.register_func("relay.ext.pyreason", lambda function: None, override=True)
    x = relay.var("x", shape=(4,))
    _, report = relay.external.partition(relay.Function([x], relay.nn.relu(x)), "pyreason")
    assert "kept nn.relu: pyreason: relu is beneath us" in report


def test_pattern_tables_group_operators():
    from treadle.relay.dataflow_pattern import is_op, wildcard

    @relay.op.contrib.register_pattern_table("pytable")
    def table():
        return [("pytable.scaled_relu", is_op("multiply")(is_op("nn.relu")(wildcard()), wildcard()),
                 lambda call: int(call.checked_type.shape[0]) == 4)]

    treadle.register_func("relay.ext.pytable", lambda function: None, override=True)

    def composites(size):
        x = relay.var("x", shape=(size,))
        mod = treadle.IRModule.from_expr(relay.Function([x], relay.nn.relu(x) * relay.const(2.0)))
        by_hand = transform.MergeComposite(relay.op.contrib.get_pattern_table("pytable"))(transform.InferType()(mod))
        return str(by_hand), relay.external.partition(transform.InferType()(mod), "pytable")[1]

    text, report = composites(4)
    assert 'Composite="pytable.scaled_relu"' in text
    assert 'PartitionedFromPattern="nn.relu_multiply_"' in text
    assert "1 regions" in report
    text, report = composites(5)
    assert "Composite" not in text
    assert "0 regions" in report


def test_modules_from_files(tmp_path):
    path = tmp_path / "mysubgraph.examplejson"
    path.write_text("subgraph_0\n  input 0 2 2\n  input 1 2 2\n  sub 2 inputs: 0 1 shape: 2 2\n")
    module = load_module(path, "examplejson")
    x, y = (treadle.nd.array(np.random.rand(2, 2).astype("float32")) for _ in range(2))
    out = treadle.nd.empty((2, 2))
    module["subgraph_0"](x, y, out)
    np.testing.assert_allclose(out.numpy(), x.numpy() - y.numpy())
    assert module.get_source().startswith("subgraph_0")
    assert not module.implements_function("subgraph_1")


@needs("cblas")
def test_cblas_products():
    a = relay.var("a", shape=(5, 7))
    b = relay.var("b", shape=(9, 7))
    c = relay.var("c", shape=(3, 5, 4))
    d = relay.var("d", shape=(3, 6, 4))
    body = relay.Tuple([relay.nn.dense(a, b), relay.nn.batch_matmul(c, d)])
    lib = relay.build(treadle.IRModule.from_expr(relay.Function([a, b, c, d], body)), external="cblas")
    rng = np.random.default_rng(1)
    values = {"a": rng.random((5, 7), "float32"), "b": rng.random((9, 7), "float32"),
              "c": rng.random((3, 5, 4), "float32"), "d": rng.random((3, 6, 4), "float32")}
    module = graph_executor.GraphModule(lib["default"](treadle.cpu()))
    module.run(**values)
    np.testing.assert_allclose(module.get_output(0).numpy(), values["a"] @ values["b"].T, rtol=1e-5)
    np.testing.assert_allclose(module.get_output(1).numpy(), values["c"] @ values["d"].transpose(0, 2, 1), rtol=1e-5)


def conv_block():
    """A residual block: convolutions with bias, sum and activations, grouped and depthwise ones, pooling."""
    x = relay.var("x", shape=(1, 16, 12, 12))
    rng = np.random.default_rng(2)

    def weight(*shape):
        return relay.const(rng.standard_normal(shape).astype("float32") * 0.2)

    y = relay.nn.conv2d(x, weight(16, 16, 3, 3), padding=(1, 1), kernel_size=(3, 3), channels=16)
    y = relay.nn.relu(relay.nn.bias_add(y, weight(16)))
    y = relay.nn.conv2d(y, weight(16, 4, 3, 3), padding=(1, 1), groups=4, kernel_size=(3, 3), channels=16)
    y = relay.nn.relu(relay.add(y, x))
    z = relay.nn.conv2d(y, weight(16, 1, 3, 3), padding=(1, 1), groups=16, kernel_size=(3, 3), channels=16)
    z = relay.clip(z, 0, 6)
    z = z * relay.sigmoid(z)
    z = relay.concatenate((relay.nn.max_pool2d(z, (2, 2), (2, 2)), relay.nn.avg_pool2d(y, (2, 2), (2, 2))), axis=1)
    z = relay.nn.conv2d_transpose(z, weight(32, 8, 2, 2), strides=(2, 2), kernel_size=(2, 2), channels=8)
    z = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(z))
    z = relay.nn.softmax(relay.nn.dense(z, weight(10, 8)))
    return treadle.IRModule.from_expr(relay.Function([x], z))


@needs("dnnl")
def test_dnnl_block_equals_treadle():
    value = np.random.default_rng(3).standard_normal((1, 16, 12, 12)).astype("float32")
    plain = run(relay.build(conv_block()), {"x": value})
    lib = relay.build(conv_block(), external="dnnl")
    for _ in range(2):
        np.testing.assert_allclose(run(lib, {"x": value}), plain, rtol=1e-4, atol=1e-6)
    assert "0 with Treadle" in lib.get_source("partition")


@needs("dnnl")
@pytest.mark.parametrize("channels", [8, 10, 24])
def test_dnnl_broadcasts_to_blocks_of_channels(channels):
    """A factor for all channels, one for each, and one that the model is given, on what a convolution wrote."""
    rng = np.random.default_rng(4)

    def model():
        x = relay.var("x", shape=(2, 3, 14, 14))
        factor = relay.var("factor", shape=(1, channels, 1, 1))
        weight = relay.const(weights)
        y = relay.nn.conv2d(x, weight, padding=(1, 1), kernel_size=(3, 3), channels=channels)
        y = relay.add(y * factor, relay.const(shift)) * relay.const(np.full((1, 1, 1, 1), 0.5, "float32"))
        y = relay.nn.max_pool2d(y, (2, 2), (2, 2))
        return treadle.IRModule.from_expr(relay.Function([x, factor], y))

    weights = rng.standard_normal((channels, 3, 3, 3)).astype("float32")
    shift = rng.standard_normal((1, channels, 1, 1)).astype("float32")
    values = {"x": rng.standard_normal((2, 3, 14, 14)).astype("float32"),
              "factor": rng.standard_normal((1, channels, 1, 1)).astype("float32")}
    lib = relay.build(model(), external="dnnl")
    assert "0 with Treadle" in lib.get_source("partition")
    np.testing.assert_allclose(run(lib, values), run(relay.build(model()), values), rtol=1e-4, atol=1e-5)


@needs("dnnl")
@pytest.mark.parametrize("scale", ["multiply", "divide"])
def test_dnnl_takes_gelu_by_the_error_function(scale):
    """A composite function inside a region leaves the graph one that the graph executor runs."""
    x = relay.var("x", shape=(4, 16))
    scaled = x * relay.const(np.sqrt(0.5, dtype="float32")) if scale == "multiply" else x / relay.const(np.float32(2**.5))
    y = x * relay.const(0.5) * (relay.erf(scaled) + relay.const(1.0))
    mod = treadle.IRModule.from_expr(relay.Function([x], relay.nn.relu(y)))
    values = {"x": np.random.default_rng(5).standard_normal((4, 16)).astype("float32")}
    lib = relay.build(mod, external="dnnl")
    assert "0 with Treadle" in lib.get_source("partition")
    np.testing.assert_allclose(run(lib, values), run(relay.build(mod), values), rtol=1e-5, atol=1e-6)


@needs("dnnl")
@pytest.mark.parametrize("op", [relay.add, relay.multiply, relay.subtract, relay.maximum], ids=lambda op: op.__name__)
@pytest.mark.parametrize("ranks", [((4,), (1, 4)), ((1, 4), (4,)), ((3, 4), (1, 1, 3, 4)), ((2, 3, 4), (3, 1))], ids=str)
def test_dnnl_operands_of_different_rank(op, ranks):
    left, right = (relay.var(name, shape=shape) for name, shape in zip("ab", ranks))
    mod = treadle.IRModule.from_expr(relay.Function([left, right], relay.tanh(op(left, right))))
    rng = np.random.default_rng(6)
    values = {name: rng.standard_normal(shape).astype("float32") for name, shape in zip("ab", ranks)}
    np.testing.assert_allclose(run(relay.build(mod, external="dnnl"), values), run(relay.build(mod), values), rtol=1e-5)


@needs("dnnl")
def test_auto_reports_its_measurements():
    lib = relay.build(conv_block(), external="auto")
    assert "measured @" in lib.get_source("partition")


def test_without_arguments_nothing_is_offloaded():
    lib = relay.build(chains())
    assert "tvmgen_default_c_" not in lib.get_graph_json()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))


@pytest.mark.parametrize("name", [n for n in ("ccompiler", "examplejsoncompiler", "json", "dnnl", "cblas")
                                  if n in relay.external.list_codegens()])
def test_programs_of_the_virtual_machine_call_external_functions(name, tmp_path):
    x, flag = relay.var("x", shape=(10, 10)), relay.var("flag", shape=(), dtype="bool")
    rows = relay.var("rows", shape=(relay.Any(), 10))
    values = np.random.default_rng(0).random((3, 10, 10), dtype="float32")
    one, two = relay.const(values[0]), relay.const(values[1])
    taken = relay.nn.dense(x + one, two) if name == "cblas" else (x + one) * two
    body = relay.Tuple([relay.If(flag, taken, x - one), relay.nn.relu(rows)])
    mod = treadle.IRModule.from_expr(relay.Function([x, flag, rows], body))
    lib = relay.build(mod, "llvm", external=[name])
    assert "region @" in lib.get_source("partition")
    lib.export_library(tmp_path / "program.so")
    model = treadle.load(tmp_path / "program.so")
    for value in (True, False):
        got, kept = model(x=values[2], flag=np.array(value), rows=values[2][:3]).values()
        first = values[2] + values[0]
        expected = (first @ values[1].T if name == "cblas" else first * values[1]) if value else values[2] - values[0]
        np.testing.assert_allclose(got, expected, rtol=1e-5)
        np.testing.assert_array_equal(kept, values[2][:3])


def test_registrations_that_throw_anything_are_errors(tmp_path):
    """What isn't a std::exception left the plug-in taken for loaded."""
    source = tmp_path / "odd.cc"
    source.write_text("""#include "treadle/runtime/plugin.h"
static void Register() { throw 42; }
TREADLE_PLUGIN("odd", Register)
""")
    compiler = next((c for c in ("c++", "g++", "clang++", "clang++-19") if shutil.which(c)), None)
    if compiler is None:
        pytest.skip("no C++ compiler")
    root = pathlib.Path(__file__).resolve().parents[2]
    subprocess.run([compiler, "-std=c++20", "-shared", "-fPIC", f"-I{root / 'include'}", source, "-o", tmp_path / "odd.so"],
                   check=True)
    for _ in range(2):
        with pytest.raises(treadle.Error, match="'odd' .*failed to register: an exception of another type"):
            treadle.load_plugin(tmp_path / "odd.so")


@needs("ccompiler")
def test_external_functions_need_no_inline_attribute():
    x = relay.var("x", shape=(4,))
    square = relay.Function([x], x * x).with_attr("Primitive", 1).with_attr("Compiler", "ccompiler")
    var = relay.GlobalVar("square_0")
    mod = treadle.IRModule({var: square.with_attr("global_symbol", "square_0")})
    mod = transform.InferType()(mod)
    a, b = relay.var("a", shape=(4,)), relay.var("b", shape=(4,))
    mod["main"] = relay.Function([a, b], var(a) + relay.exp(var(var(b))))
    values = {name: np.random.default_rng(i).random(4, "float32") for i, name in enumerate("ab")}
    expected = values["a"] ** 2 + np.exp(values["b"] ** 4)
    np.testing.assert_allclose(run(relay.build(mod, "llvm"), values), expected, rtol=1e-5)
