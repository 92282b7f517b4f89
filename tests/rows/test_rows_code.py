# SPDX-License-Identifier: Apache-2.0
"""Rows 21 to 30: tensor expressions, code generators, ONNX and the executor. See conftest.py."""
import concurrent.futures
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap

import numpy as np
import onnx
import onnxruntime
import pytest
import zoo

import treadle as tvm
from treadle import relay, te
from treadle.contrib import graph_executor

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(tvm.__file__).parent
CXX = next((c for c in ("c++", "g++", "clang++", "clang++-19") if shutil.which(c)), None)
CC = next((c for c in ("cc", "gcc", "clang", "clang-19") if shutil.which(c)), None)
needs_cxx = pytest.mark.skipif(CXX is None or CC is None, reason="no compiler")


def product(n):
    k = te.reduce_axis((0, n), name="k")
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    return a, b, te.compute((n, n), lambda x, y: te.sum(a[x, k] * b[k, y], axis=k), name="C")


def add_one():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    return te.create_schedule(b.op), [a, b]


def test_row_21_tensor_expressions(row):
    """Tensor expressions, schedules and the text of loops."""
    a, b, c = product(1024)
    text = str(tvm.lower(te.create_schedule(c.op), [a, b, c], name="mmult"))
    assert "for (x: int32, 0, 1024) {" in text and "C_2[((x*1024) + y)] = 0f32" in text
    a, b, c = product(64)
    s = te.create_schedule(c.op)
    x, y = s[c].op.axis
    xo, yo, xi, yi = s[c].tile(x, y, 16, 16)
    s[c].reorder(xo, yo, s[c].op.reduce_axis[0], xi, yi)
    s[c].vectorize(yi)
    s[c].parallel(xo)
    values = [np.random.default_rng(i).random((64, 64), "float32") for i in range(2)]
    out = tvm.nd.empty((64, 64))
    tvm.build(s, [a, b, c], "llvm", name="mmult")(*map(tvm.nd.array, values), out)
    np.testing.assert_allclose(out.numpy(), values[0] @ values[1], rtol=1e-4)
    row.works("the article's product lowers to its text; tiled, vectorised and parallel it computes the same")
    z = te.placeholder((8,), name="Z")
    with pytest.raises(tvm.Error, match="stage 'C' reads Z outside of it"):
        te.create_schedule(te.compute((8,), lambda i: z[i + 4], name="C").op)
    row.better("reads outside of a tensor are refused when the schedule is made, with the stage and both ranges")
    a, b, c = product(256)
    unscheduled = tvm.build([a, b, c], target="llvm -mcpu=x86-64-v3", name="mmult")
    values = [np.random.default_rng(i).random((256, 256), "float32") for i in range(2)]
    out = tvm.nd.empty((256, 256))
    unscheduled(*map(tvm.nd.array, values), out)
    np.testing.assert_allclose(out.numpy(), values[0] @ values[1], rtol=1e-4)
    fmas = [len(re.findall(r"vfmadd\w+ps\s.*%ymm", module.get_source("asm"))) for module in (
        unscheduled, tvm.build(te.create_schedule(c.op), [a, b, c], "llvm -mcpu=x86-64-v3", name="mmult"))]
    assert fmas[0] >= 12 and fmas[1] <= 2
    row.better("a product without a schedule gets one: register tiles of vectors, where the plain loops have none")


@needs_cxx
def test_row_22_c_target(row, tmp_path):
    """Target c."""
    s, args = add_one()
    module = tvm.build(s, args, "c", name="add_one")
    source = tmp_path / "k.c"
    source.write_text(module.get_source())
    subprocess.run([CC, "-O2", "-Wall", "-Wextra", "-Werror", "-c", source, "-o", tmp_path / "k.o",
                    f"-I{ROOT / 'include'}"], check=True)
    out = tvm.nd.empty((8,))
    module["add_one"](tvm.nd.array(np.arange(8, dtype="float32")), out)
    np.testing.assert_array_equal(out.numpy(), np.arange(8) + 1)
    row.works("the text compiles without a warning and computes the right thing")
    with pytest.raises(tvm.Error, match="arg0"):
        module["add_one"](tvm.nd.empty((3,)), out)
    assert "restrict" in module.get_source()
    source.write_text(tvm.build(s, args, "c").get_source())  # without a name: not main, which C has other ideas of
    subprocess.run([CC, "-Wall", "-Wextra", "-Werror", "-c", source, "-o", tmp_path / "k.o"], check=True)
    x = te.placeholder((4096,), name="X")
    y = te.compute((4096,), lambda i: x[i] * 2.0 + 1.0, name="Y")
    s = te.create_schedule(y.op)
    outer, inner = s[y].split(y.op.axis[0], 16)
    s[y].vectorize(inner)
    s[y].parallel(outer)
    module = tvm.build(s, [x, y], "c", name="scale")
    value, out = np.random.default_rng(0).random(4096).astype("float32"), tvm.nd.empty((4096,))
    module["scale"](tvm.nd.array(value), out)
    np.testing.assert_allclose(out.numpy(), value * 2 + 1, rtol=1e-6)
    text = module.get_source()
    assert "TreadleBackendParallelLaunch(" in text and not re.search(r"if \([^;{]*\) \{\s*\}", text)
    source.write_text(text)
    subprocess.run([CC, "-O3", "-Wall", "-Wextra", "-Werror", "-S", source, "-o", tmp_path / "k.s"], check=True)
    if platform.machine() == "x86_64":
        assert re.search(r"\bv?mulps\b|\bv?addps\b", (tmp_path / "k.s").read_text())
    row.better("it checks its arguments, pointers are restrict, no condition is empty, functions without a name compile; "
               "parallel loops run on threads, and C compilers turn those over vectors into vector instructions")


def test_row_23_native_code(row):
    """Native code."""
    s, args = add_one()
    function = tvm.build(s, args, "llvm", name="f")
    good = tvm.nd.empty((8,))
    for dtype in ("float64", "int8", "uint16", "int64", "float16"):
        a = te.placeholder((19,), dtype, name="A")
        b = te.compute((19,), lambda i, a=a: a[i] + a[i], name="B")
        t = te.create_schedule(b.op)
        outer, inner = t[b].split(b.op.axis[0], factor=4)
        t[b].vectorize(inner)
        value, out = np.arange(19).astype(dtype), tvm.nd.empty((19,), dtype)
        tvm.build(t, [a, b], "llvm")(tvm.nd.array(value), out)
        np.testing.assert_array_equal(out.numpy(), value + value)
    row.works("five element types, vectorised, with a tail")
    for args, message in (((good,), "f: num_args should be 2"), ((1, good), "f: .*arg"),
                          ((tvm.nd.empty((8, 1)), good), "f: arg0.ndim is expected to equal 1"),
                          ((tvm.nd.empty((8,), "int32"), good), "f: arg0.dtype is expected to be float32"),
                          ((tvm.nd.empty((9,)), good), r"f: arg0.shape\[0\] is expected to equal 8")):
        with pytest.raises(tvm.Error, match="^" + message):
            function(*args)
    row.better("five wrong calls are errors that name the function once, the argument and what was expected")


def test_row_24_stackvm(row, tmp_path):
    """The interpreter StackVM."""
    a = te.placeholder((8,), name="A")
    t = te.compute((8,), lambda i: te.exp(a[i]), name="T")
    b = te.compute((8,), lambda i: t[i] * t[7 - i], name="B")
    module = tvm.build(te.create_schedule(b.op), [a, b], "stackvm", name="f")
    value, out = np.random.default_rng(0).random(8).astype("float32"), tvm.nd.empty((8,))
    module.save(str(tmp_path / "f.stackvm"))
    tvm.runtime.load_module(tmp_path / "f.stackvm")["f"](tvm.nd.array(value), out)
    expected = np.exp(value) * np.exp(value[::-1])
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)
    row.works("a function is saved, loaded and run")
    row.better("it computes in float32 and allocates memory")


def article_graph(kind, symbol=None):
    inputs = [relay.var(f"{kind}_input{i}", shape=(10, 10)) for i in range(4)]
    body = (inputs[0] + inputs[1] - inputs[2]) * inputs[3]
    if symbol is None:
        return tvm.IRModule.from_expr(relay.Function(inputs, body))
    function = relay.Function(inputs, body)
    for key, value in {"Primitive": 1, "Compiler": kind, "global_symbol": symbol}.items():
        function = function.with_attr(key, value)
    outer = [relay.var(f"x{i}", shape=(10, 10)) for i in range(4)]
    return tvm.IRModule.from_expr(relay.Function(outer, relay.tanh(relay.Call(function, outer))))


def test_row_25_partitioning(row):
    """Parts of a graph for external code generators."""
    mod = article_graph("ccompiler")
    for step in (relay.transform.AnnotateTarget(["ccompiler"]), relay.transform.MergeCompilerRegions(),
                 relay.transform.PartitionGraph()):
        mod = step(mod)
    (name,) = [var.name_hint for var in mod.get_global_vars() if var.name_hint != "main"]
    assert name == "tvmgen_default_ccompiler_main_0"
    assert mod[name].attrs["Compiler"] == "ccompiler" and len(mod[name].params) == 4
    row.works("(a + b - c) * d is @tvmgen_default_ccompiler_main_0 with four parameters")
    x = relay.var("x", shape=(2, 4))
    lib = relay.build(relay.Function([x], relay.nn.softmax(relay.exp(x) + x)), "llvm", external=["ccompiler"])
    report = lib.get_source("partition")
    assert re.search(r"(?m)nn.softmax.*not an operator of ccompiler", report), report
    row.better("the report says for each operator that stayed why")
    if "dnnl" not in relay.external.list_codegens():
        return
    image, weight = relay.var("image", shape=(1, 3, 8, 8)), relay.var("weight", shape=(4, 3, 3, 3))
    body = relay.nn.relu(relay.nn.conv2d(image, weight, padding=(1, 1), channels=4, kernel_size=(3, 3)))
    chosen = relay.build(relay.Function([image, weight], body), "llvm", external=["auto"])
    assert len(re.findall(r"\d+\.\d+ ms", chosen.get_source("partition"))) >= 2, chosen.get_source("partition")
    values = {"image": np.random.default_rng(0).random((1, 3, 8, 8), "float32"),
              "weight": np.random.default_rng(1).random((4, 3, 3, 3), "float32")}
    plain = relay.build(relay.Function([image, weight], body), "llvm")
    results = []
    for each in (chosen, plain):
        module = graph_executor.GraphModule(each["default"](tvm.cpu()))
        module.run(**values)
        results.append(module.get_output(0).numpy())
    np.testing.assert_allclose(*results, rtol=1e-4)
    row.better("with \"auto\" a region goes where it is faster: both ways are compiled, run and reported with their times")


def compiled_article(name, tmp_path):
    """The article's classes, with other include lines and namespaces, as a library beside the package."""
    library = tmp_path / f"lib{name}.so"
    folder = (PACKAGE / "lib").resolve()
    subprocess.run([CXX, "-std=c++20", "-O0", "-shared", "-fPIC", f"-I{ROOT / 'include'}",
                    ROOT / "tests" / "rows" / f"{name}.cc", "-o", library, f"-L{folder}", "-ltreadle",
                    "-ltreadle_runtime", f"-Wl,-rpath,{folder}"], check=True)
    return library


def in_a_process(library, kind, symbol, more):
    """Builds, exports, loads and runs the article's graph in a process that has loaded `library`."""
    script = textwrap.dedent(f"""
        import ctypes, sys
        import numpy as np
        import treadle as tvm
        from treadle import relay
        from treadle.contrib import graph_executor
        sys.path[:0] = [{str(ROOT / 'tests' / 'rows')!r}, {str(ROOT / 'bench')!r}]
        ctypes.CDLL({str(library)!r}, ctypes.RTLD_GLOBAL)
        from test_rows_code import article_graph
        lib = relay.build(article_graph({kind!r}, {symbol!r}), "llvm")
        external = lib.get_external_modules()[0]
        source = external.get_source()
        values = {{f"x{{i}}": np.random.default_rng(i).random((10, 10), "float32") for i in range(4)}}
        inner = (values["x0"] + values["x1"] - values["x2"]) * values["x3"]
        lib.export_library("o.so")
        for each in (lib, tvm.runtime.load_module("o.so")):
            module = graph_executor.GraphModule(each["default"](tvm.cpu()))
            module.run(**values)
            np.testing.assert_allclose(module.get_output(0).numpy(), np.tanh(inner), rtol=1e-5, atol=1e-6)
    """) + textwrap.dedent(more)
    done = subprocess.run([sys.executable, "-c", script], cwd=library.parent, capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=str(PACKAGE.parent)))
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_cxx
def test_row_26_c_code_generator(row, tmp_path):
    """The article's code generator that writes C."""
    library = compiled_article("article_codegen_c", tmp_path)
    source = in_a_process(library, "ccompiler", "gcc_0", "print(source)")
    for line in ("CSOURCE_BINARY_OP_2D(gcc_0_0, *, 10, 10);", "CSOURCE_BINARY_OP_2D(gcc_0_2, +, 10, 10);",
                 "gcc_0_2(ccompiler_input0, ccompiler_input1, buf_0);", "int gcc_0_wrapper_(DLTensor* arg0"):
        assert line in source.replace(", , ", ", "), source
    row.works("CodegenC and CSourceCodegen of the article compile, with other include lines and namespaces, and run")
    x = relay.var("x", shape=(7,))
    y = relay.var("y", shape=(3, 7))
    lib = relay.build(relay.Function([x, y], (x + y) - x), "llvm", external=["ccompiler"])
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    values = {"x": np.ones(7, "float32"), "y": np.random.default_rng(0).random((3, 7), "float32")}
    module.run(**values)
    np.testing.assert_allclose(module.get_output(0).numpy(), values["y"], atol=1e-6)
    assert "0 with Treadle" in lib.get_source("partition")
    row.better("memory that can't be had is an error; Treadle's own writes any rank, broadcasts and reused inputs")


@needs_cxx
def test_row_27_examplejson(row, tmp_path):
    """The article's ExampleJSON: code generator and run-time module."""
    library = compiled_article("article_codegen_json", tmp_path)
    out = in_a_process(library, "examplejsoncompiler", "subgraph_0", """
        open("mysubgraph.examplejson", "w").write(source)
        function = tvm.runtime.load_module("mysubgraph.examplejson", "examplejson")["subgraph_0"]
        result = tvm.nd.empty((10, 10))
        function(*map(tvm.nd.array, values.values()), result)
        np.testing.assert_allclose(result.numpy(), inner, rtol=1e-6)
        print(source)
    """)
    assert out.split() == """subgraph_0 input 0 10 10 input 1 10 10 input 2 10 10 input 3 10 10
        add 4 inputs: 0 1 shape: 10 10 sub 5 inputs: 4 2 shape: 10 10 mul 6 inputs: 5 3 shape: 10 10""".split()
    row.works("ExampleJsonCodeGen and ExampleJsonModule of the article compile, write its lines, are stored and loaded")
    bad = tmp_path / "bad.examplejson"
    bad.write_text("g\n  input 0 2 -4\n")
    with pytest.raises(tvm.Error, match="line 2"):
        tvm.runtime.load_module(bad, "examplejson")
    row.better("Treadle's own reader names the line of what is wrong")
    several = tmp_path / "several.examplejson"
    several.write_text("one\n  input 0 2 3\n  input 1 2 3\n  add 2 inputs: 0 1 shape: 2 3\n  mul 3 inputs: 2 0 shape: 2 3\n"
                       "two\n  input 0 4\n  mul 1 inputs: 0 0 shape: 4\n")
    module = tvm.runtime.load_module(several, "examplejson")
    one, two = module["one"], module["two"]
    with pytest.raises(AttributeError):
        module["three"]

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(50):
            a, b, c = (rng.random(shape, "float32") for shape in ((2, 3), (2, 3), (4,)))
            first, second = tvm.nd.empty((2, 3)), tvm.nd.empty((4,))
            one(tvm.nd.array(a), tvm.nd.array(b), first)
            two(tvm.nd.array(c), second)
            np.testing.assert_allclose(first.numpy(), (a + b) * a, rtol=1e-6)
            np.testing.assert_allclose(second.numpy(), c * c, rtol=1e-6)
        return True

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    row.better("functions of one module keep nothing for each other: two of them, called in turns by four threads, are right")


def _defines_of_registry(use):
    """The names of code generators that src/external is compiled with, given -DUSE_CODEGENC: by CMake's own functions."""
    script = (f'set(USE_CODEGENC {use})\nset(CMAKE_SOURCE_DIR "{ROOT}")\n'
              "macro(find_library name)\nset(${name} OFF)\nendmacro()\nmacro(find_path name)\nset(${name} OFF)\nendmacro()\n"
              "macro(set_property)\nendmacro()\n"
              f'include("{ROOT}/cmake/ExternalCodegens.cmake")\n'
              "foreach(name C JSON CBLAS DNNL)\nif(TREADLE_HAS_${name})\nmessage(TREADLE_USE_${name}_CODEGEN)\nendif()\n"
              "endforeach()\n")
    with tempfile.NamedTemporaryFile("w", suffix=".cmake") as file:
        file.write(script)
        file.flush()
        said = subprocess.run(["cmake", "-P", file.name], check=True, capture_output=True, text=True).stderr
    return {line.strip() for line in said.splitlines() if line.startswith("TREADLE_USE_")}


@needs_cxx
def test_row_28_registration(row):
    """Registration of code generators."""
    names = relay.external.list_codegens()
    assert "ccompiler" in names and "examplejsoncompiler" in names
    # tools/ci/codegens.sh builds both ways; here the object that names the code generators is seen to depend on it.
    compiled = {use: _defines_of_registry(use) for use in ("ON", "OFF")}
    assert "TREADLE_USE_C_CODEGEN" in compiled["ON"] and "TREADLE_USE_C_CODEGEN" not in compiled["OFF"]
    assert compiled["ON"] - {"TREADLE_USE_C_CODEGEN"} == compiled["OFF"]
    row.works("each code generator has a switch of the build and a name: -DUSE_CODEGENC=OFF leaves ccompiler out")

    @tvm.register_func("relay.ext.rowtest", override=True)
    def compile_region(function):
        symbol = str(function.attrs["global_symbol"])
        code = ('#include "treadle/runtime/c_types.h"\nTREADLE_API int ' + symbol + "(TreadleValue* a, int* t, int n, "
                "TreadleValue* r, int* c, void* x) { float* in = ((DLTensor*)a[0].v_handle)->data; float* out = "
                "((DLTensor*)a[1].v_handle)->data; for (int i = 0; i < 4; ++i) out[i] = -in[i]; return 0; }\n")
        return tvm.get_global_func("runtime.CSourceModuleCreate")(code, "c", [symbol], [])

    tvm.ir.register_op_attr("negative", "target.rowtest", True)
    x = relay.var("x", shape=(4,))
    lib = relay.build(relay.Function([x], relay.negative(x)), "llvm", external=["rowtest"])
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(x=np.arange(4, dtype="float32"))
    np.testing.assert_array_equal(module.get_output(0).numpy(), -np.arange(4, dtype="float32"))
    assert len(lib.get_external_modules()) == 1
    row.better("a program adds one while it runs, without a change of Treadle")


# What the original's importer knew in version 0.8.
ORIGINAL_OPERATORS = """
    ATen Abs Acos Acosh Adagrad Adam Add Affine And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool
    BatchNormalization BitShift Cast Ceil Celu Clip Compress Concat Constant ConstantOfShape Conv ConvInteger
    ConvTranspose Cos Cosh CumSum DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear Einsum Elu Equal
    Erf Exp Expand EyeLike FC Flatten Floor GRU Gather GatherElements GatherND Gemm GlobalAveragePool GlobalLpPool
    GlobalMaxPool Greater GreaterOrEqual HardSigmoid Hardmax Identity If InstanceNormalization IsInf IsNaN LRN
    LSTM LeakyRelu Less LessOrEqual Log LogSoftmax Loop LpPool MatMul Max MaxPool MaxRoiPool MaxUnpool Mean Min
    Mod Momentum Mul Neg NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not OneHot Or PRelu Pad
    ParametricSoftplus Pow QLinearAdd QLinearAveragePool QLinearConcat QLinearConv QLinearGlobalAveragePool
    QLinearLeakyRelu QLinearMatMul QLinearMul QLinearSigmoid QuantizeLinear RandomUniform Range Reciprocal
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign Round Scale ScaledTanh Scatter ScatterElements
    ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign
    SpaceToDepth SpatialBN Split Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu Tile TopK Transpose Unique
    Unsqueeze Upsample Where Xor
"""


def matmul_of_broadcast_batches():
    """Y of (2, 1, 3, 4) x (5, 4, 6), of opset 13 beside another domain that is listed first."""
    values = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, shape) for n, shape in (
        ("a", (2, 1, 3, 4)), ("b", (5, 4, 6)), ("y", (2, 5, 3, 6)))]
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["a", "b"], ["y"])], "g", values[:2], values[2:])
    opsets = [onnx.helper.make_opsetid("ai.onnx.ml", 1), onnx.helper.make_opsetid("", 13)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_row_29_onnx(row, tmp_path):
    """The article's script: an ONNX model, compiled, saved and run."""
    model = zoo.resnet18()
    name = model.graph.input[0].name
    data = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype("float32")
    mod, params = relay.frontend.from_onnx(model, {name: data.shape})
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target="llvm", params=params)
    lib.export_library(tmp_path / "mod.so")
    module = graph_executor.GraphModule(tvm.runtime.load_module(tmp_path / "mod.so")["default"](tvm.cpu()))
    module.set_input(name, data)
    module.run()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    assert zoo.compare(module.get_output(0).numpy(), session.run(None, {name: data})[0]) is None
    row.works("ResNet-18 gives what ONNX Runtime gives, after the library was saved and loaded")
    listed = subprocess.run([PACKAGE / "bin" / "treadle", "ops"], check=True, capture_output=True, text=True).stdout
    names = {line.split()[0].split(".")[-1] for line in listed.splitlines() if line.strip()}
    originals = ORIGINAL_OPERATORS.split()
    assert len(originals) == 159 and not set(originals) - names
    assert {"Trilu", "RNN", "Scan", "MatMulInteger", "SequenceAt"} <= names - set(originals) and len(names) >= 200
    a, b = (np.random.default_rng(i).random(shape, "float32") for i, shape in enumerate([(2, 1, 3, 4), (5, 4, 6)]))
    np.testing.assert_allclose(tvm.compile(matmul_of_broadcast_batches()).run(["y"], {"a": a, "b": b})[0], a @ b, rtol=1e-5)
    row.better("besides all 159 operators of the original's importer there are those that it lacked: Trilu, RNN, Scan, "
               "MatMulInteger, sequences; batches broadcast as NumPy's; opsets go by domain")


def test_row_30_graph_executor(row):
    """The graph executor."""
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    lib = relay.build(relay.Function([x, y], relay.tanh(x) * y), "llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    values = [np.random.default_rng(i).random((2, 3), "float32") for i in range(2)]
    module.set_input("x", values[0])
    module.set_input(1, values[1])
    module.run()
    out = tvm.nd.empty((2, 3))
    module.get_output(0, out)
    np.testing.assert_allclose(out.numpy(), np.tanh(values[0]) * values[1], rtol=1e-5)
    with pytest.raises(tvm.Error):
        module.get_output(0, tvm.nd.empty((3, 3)))
    from treadle.contrib.debugger import debug_executor

    debug = debug_executor.create(lib.get_graph_json(), lib.get_lib(), tvm.cpu())
    report = str(debug.profile(x=values[0], y=values[1]))
    assert all(column in report for column in ("Name", "Duration", "Percent", "Device", "Count", "Argument Shapes", "Hash"))
    row.works("inputs by name and number, outputs into tensors of the right shape, a profile by kernel")
    with pytest.raises(tvm.Error, match="no_such_input"):
        module.set_input("no_such_input", values[0])
    towers = [relay.var("x", shape=(1, 64))] * 3
    weights = [relay.var(f"w{i}", shape=(64, 64)) for i in range(3)]
    for _ in range(16):
        towers = [relay.tanh(relay.nn.dense(v, w)) for v, w in zip(towers, weights)]
    side_by_side = relay.build(relay.Function(relay.analysis.free_vars(relay.Tuple(towers)), relay.Tuple(towers)),
                               "llvm -num-cores=4")
    assert '"branch": "0.2"' in side_by_side.get_graph_json() and '"branch"' not in lib.get_graph_json()
    results = graph_executor.GraphModule(side_by_side["default"](tvm.cpu()))
    inputs = {name: np.random.default_rng(i).random(shape, "float32") / 8 for i, (name, shape) in
              enumerate([("x", (1, 64)), *((f"w{i}", (64, 64)) for i in range(3))])}
    results.run(**inputs)
    for i in range(3):
        expected = inputs["x"].astype("float64")
        for _ in range(16):
            expected = np.tanh(expected @ inputs[f"w{i}"].T)
        np.testing.assert_allclose(results.get_output(i).numpy(), expected, rtol=1e-3)
    row.better("an input that doesn't exist is an error; branches of small kernels run side by side, where that pays")
