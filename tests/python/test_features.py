# SPDX-License-Identifier: Apache-2.0
"""What the program, the Python package and what is installed offer: a row each, with what is run and what has to come of it.
Details of a row have tests of their own elsewhere."""
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(treadle.__file__).parent
PROGRAM = PACKAGE / "bin/treadle"
SIZES = ("--dim", "batch=1", "--dim", "height=8")
ROWS = {}


def row(name):
    def add(function):
        ROWS[name] = function
        return function
    return add


class Folder:
    """m.onnx (open batch and height), s.so (batch 1, height 8) and d.so (open), and the program run beside them."""

    def __init__(self, path):
        self.path = path
        rng = np.random.default_rng(1)

        def weights(name, *shape):
            return numpy_helper.from_array(rng.standard_normal(shape, dtype=np.float32), name)

        nodes = [helper.make_node("Conv", ["x", "k"], ["c"], name="conv", pads=[1, 1, 1, 1]),
                 helper.make_node("Relu", ["c"], ["r"], name="act"),
                 helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
                 helper.make_node("Flatten", ["p"], ["f"], name="flat"),
                 helper.make_node("MatMul", ["f", "w"], ["scores"], name="head")]
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, "height", 10])],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 5])],
            [weights("k", 8, 3, 3, 3), weights("w", 8, 5)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path / "m.onnx")
        self.run("compile", "m.onnx", *SIZES, "-o", "s.so")
        self.run("compile", "m.onnx", "-o", "d.so")

    def __call__(self, *args):
        environment = {**os.environ, "TREADLE_PYTHON": sys.executable, "PYTHONPATH": str(PACKAGE.parent)}
        return subprocess.run([PROGRAM, *map(str, args)], cwd=self.path, env=environment, capture_output=True, text=True,
                              timeout=300, check=False)

    def run(self, *args):
        """What it prints, and fails where it fails."""
        done = self(*args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *args):
        return json.loads(self.run(*args))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return Folder(tmp_path_factory.mktemp("features"))


# The program's verbs.

@row("compile, run and bench in one program")
def _(folder):
    assert "one.so" in folder.run("compile", "m.onnx", *SIZES, "-o", "one.so")
    assert "scores: float32 (1, 5)" in folder.run("run", "one.so", "-i", "random")
    assert re.search(r"median of \d+ runs", folder.run("bench", "one.so", "--repeat", 3))


@row("verify against a reference, and in float64")
def _(folder):
    pytest.importorskip("onnxruntime")
    assert "scores: agrees" in folder.run("verify", "m.onnx", *SIZES)
    assert "scores" in folder.run("verify", "m.onnx", *SIZES, "--float64")
    np.savez(folder.path / "wrong.npz", scores=np.full((1, 5), 1e6, np.float32))
    assert folder("verify", "m.onnx", *SIZES, "--reference", "wrong.npz").returncode == 1


@row("compare layer by layer, reduce to a model of one operator")
def _(folder):
    pytest.importorskip("onnxruntime")
    text = folder.run("verify", "m.onnx", *SIZES, "--layers")
    assert "scores: agrees" in text and re.search(r"all \d+ intermediate values agree", text)
    assert "--reduce" in folder.run("verify", "--help")


@row("profile: table, JSON, CSV, trace, by nodes of the model")
def _(folder):
    table = folder.run("profile", "s.so", "--csv", "p.csv", "--trace", "t.json")
    assert "conv, act" in table and "in all" in table
    assert (folder.path / "p.csv").read_text().startswith("name,function,nodes,calls,ms,percent,gflops,shapes,bound_ms\n")
    assert json.loads((folder.path / "t.json").read_text())["traceEvents"]
    assert folder.json("profile", "s.so", "--json")["rows"]
    assert "% bound" not in table and "% bound" in folder.run("profile", "s.so", "--bound")
    assert "conv, act" in folder.run("profile", "d.so", "--dim", "height=8")


@row("explain: fusion, layout, kernel with candidates and costs, precision, device, external")
def _(folder):
    text = folder.run("explain", "m.onnx", *SIZES)
    assert "# Run by the graph executor; code for llvm" in text
    assert re.search(r"#   conv, act: nn.contrib_conv2d_NCHWc, nn.relu; NCHW -> NCHW\d+c, weights OIHW\d+o; float32; cpu", text)
    assert "# Not fused, and why." in text
    assert re.search(r"#   \* conv2d.\w+: \d+ cycles", text) and "conv2d.depthwise: not one channel in each group" in text
    assert "Run by the virtual machine, since the type of %x isn't static" in folder.run("explain", "m.onnx")
    external = folder.run("explain", "m.onnx", *SIZES, "--external", "ccompiler")
    assert "#   act: nn.relu; float32; external code generator ccompiler\n" in external
    assert "#   nn.conv2d 'conv': ccompiler: not an operator of ccompiler\n" in external
    assert "bfloat16" in folder.run("explain", "m.onnx", *SIZES, "--precision", "bf16")


@row("tune: budget, records, used afterwards")
def _(folder):
    folder.run("tune", "m.onnx", *SIZES, "-o", "r.jsonl", "--time", "1s", "-q")
    folder.run("compile", "m.onnx", *SIZES, "--records", "r.jsonl", "-o", "tuned.so")
    assert folder("records", "check", "r.jsonl").returncode == 0


@row("bench: for a time, warm-up, percentiles")
def _(folder):
    own = bench(folder, "-t", 0.05, "--warm-up", 2)["engines"]["treadle"]
    assert own["min_ms"] <= own["p25_ms"] <= own["median_ms"] <= own["p75_ms"] <= own["p99_ms"] <= own["max_ms"]
    assert bench(folder, "--repeat", 7)["engines"]["treadle"]["runs"] == 7


def bench(folder, *options):
    folder.run("bench", "s.so", *options, "--json", "b.json")
    return json.loads((folder.path / "b.json").read_text())


@row("bench: throughput of several requests")
def _(folder):
    assert bench(folder, "-t", 0.05, "--requests", 2)["engines"]["treadle"]["runs_per_s"] > 0
    assert re.search(r"runs/s of 2 requests of \d+ thread", folder.run("bench", "s.so", "-t", 0.05, "--requests", 2))


@row("bench: compile, load and first run, peak memory, what was measured")
def _(folder):
    text = folder.run("bench", "m.onnx", *SIZES, "--repeat", 2, "--threads", 1)
    assert re.search(r"x float32 \(1, 3, 8, 10\); 1 thread; llvm -keys=cpu -mcpu=native", text)
    assert re.search(r"compile [\d.]+ s, load [\d.]+ ms, first run [\d.]+ ms, peak memory \d+ MiB", text)


@row("bench beside peers")
def _(folder):
    pytest.importorskip("onnxruntime")
    assert "x its time" in folder.run("bench", "m.onnx", *SIZES, "--repeat", 2, "--compare", "onnxruntime")


@row("inputs: random with seed and range, fills, numbers, arrays, pictures")
def _(folder):
    np.save(folder.path / "x.npy", np.ones((1, 3, 8, 10), np.float32))
    for source in ("random", "random:0..255", "ones", "zeros", "0.5", "x=x.npy"):
        folder.run("run", "s.so", "-i", source, "--seed", 3)
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (10, 8), "red").save(folder.path / "p.png")
    folder.run("run", "s.so", "-i", "x=p.png", "--mean", "123.7,116.3,103.5", "--scale", "58.4,57.1,57.4")


@row("top-k with labels")
def _(folder):
    (folder.path / "labels.txt").write_text("ant\nbee\ncat\ndog\nelk\n")
    text = folder.run("run", "s.so", "-i", "random", "--top-k", 2, "--labels", "labels.txt")
    assert len(re.findall(r"ant|bee|cat|dog|elk", text)) == 2


@row("sizes: by name, as ranges, from inputs")
def _(folder):
    assert "(2, 5)" in folder.run("run", "m.onnx", "--dim", "batch=2,height=8", "-i", "random")
    folder.run("compile", "m.onnx", "--dim", "batch=1..4,height=4..16:4k", "-o", "range.so")
    refused = folder("run", "range.so", "--dim", "batch=5", "--dim", "height=8", "-i", "random")
    assert refused.returncode == 2 and "batch" in refused.stderr
    np.save(folder.path / "x3.npy", np.ones((3, 3, 6, 10), np.float32))
    assert "(3, 5)" in folder.run("run", "m.onnx", "-i", "x=x3.npy")


@row("bench of a dynamic model without shapes is refused with the flag to give")
def _(folder):
    refused = folder("bench", "m.onnx")
    assert refused.returncode == 2
    assert "note: input 'x': batch = 1 (assumed)" in refused.stderr and "--dim height=" in refused.stderr


@row("options from a file, and written to one")
def _(folder):
    (folder.path / "c.toml").write_text('repeat = 2\n[bench]\ndim = ["batch=1", "height=8"]\n')
    assert "median of 2 runs" in folder.run("bench", "m.onnx", "--config", "c.toml")
    assert folder.run("bench", "m.onnx", "--repeat", 2, "--dump-config") == '[bench]\nmodel="m.onnx"\nrepeat=2\n'


@row("inspect a dynamic model: names, kernels with their nodes, virtual machine, weights")
def _(folder):
    text = folder.run("inspect", "d.so", "--ops", "--memory")
    assert 'input        x float32 ["batch",3,"height",10]' in text
    assert re.search(r"run by the virtual machine .*: 1 function, \d+ calls of \d+ kernels", text)
    assert re.search(r"1 x \w+conv2d\w+  \(conv, act\)", text) and re.search(r"function     main: \d+ instructions", text)
    assert len(re.findall(r"^constant ", text, re.MULTILINE)) == 2
    assert folder.json("inspect", "d.so", "--json")["functions"][0]["name"] == "main"


@row("report of memory")
def _(folder):
    text = folder.run("inspect", "s.so", "--memory")
    assert re.search(r"constant +p0 float32 .* k$", text, re.MULTILINE) and "bytes for each context" in text
    assert re.search(r"weights +\d+ KiB in the model, \d+ KiB packed for the kernels", text)


@row("a page about a model, with timeline and memory")
def _(folder):
    pytest.importorskip("vl_convert", reason="the build has no libraries of report pages")
    folder.run("report", "m.onnx", *SIZES, "-o", "page.html")
    page = (folder.path / "page.html").read_text(encoding="utf-8")
    assert "conv, act" in page and "http://" not in re.sub(r"http://www\.w3\.org", "", page[:2000])
    for verb in ("profile", "bench"):
        folder.run(verb, "s.so", "--repeat", 2, "--report", f"{verb}.html")
        assert (folder.path / f"{verb}.html").stat().st_size > 10000


@row("where a compiled model comes from")
def _(folder):
    text = folder.run("inspect", "s.so")
    assert "source hash  blake3:" in text and "command      treadle compile m.onnx" in text
    assert re.search(r"^cpu +\S+", text, re.MULTILINE) and "source       m.onnx" in text


@row("operators: of a model, of an opset, as Markdown")
def _(folder):
    assert folder.run("ops", "--model", "m.onnx").endswith("all nodes can be imported\n")
    assert "Conv" in folder.run("ops", "--opset", 17) and "| Conv |" in folder.run("ops", "--markdown")


@row("doctor")
def _(folder):
    names = {entry["name"] for entry in folder.json("doctor", "--json")}
    assert {"processor", "instructions", "caches", "LLVM", "external codegens", "opencl", "cache", "plug-ins",
            "largest tensor", "python", "memory", "cores"} <= names


@row("the cache: show, limit, clear")
def _(folder, monkeypatch):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(folder.path / "cache"))
    folder.run("compile", "m.onnx", *SIZES, "-o", "c.so")
    treadle.InferenceSession(str(folder.path / "m.onnx"))
    shown = folder.json("cache", "show", "--json")
    assert shown["kernels"] > 0 and shown["models"] == 1
    folder.run("cache", "limit", "64MiB")
    folder.run("cache", "clear")
    shown = folder.json("cache", "show", "--json")
    assert shown["kernels"] == shown["models"] == shown["bytes"] == 0


@row("help, completion, manual pages, colour, progress")
def _(folder):
    assert folder.run("help", "bench") == folder.run("bench", "--help")
    for shell in ("bash", "zsh", "fish"):
        assert "requests" in folder.run("completion", shell)
    assert folder.run("man", "bench").startswith(".TH treadle")
    assert "\x1b[1;31merror" in folder("run", "none.so", "--color", "always").stderr
    assert re.search(r"\d+/\d+ kernels", folder("compile", "m.onnx", *SIZES, "-o", "v.so", "-v").stderr)


# The Python package.

@row("every public name and method of onnxruntime")
def _(_):
    reference = pytest.importorskip("onnxruntime")
    import treadle.onnxruntime as ort

    imported = {"contextlib", "onnxruntime_validation"}  # what the package itself imports
    assert [name for name in dir(reference) if not name.startswith("_") and not hasattr(ort, name)
            and name not in imported] == []
    methods = [name for name in dir(reference.InferenceSession) if not name.startswith("_")]
    assert len(methods) >= 25 and all(hasattr(ort.InferenceSession, name) for name in methods)


@row("programs that import onnxruntime start unchanged")
def _(folder):
    program = """
import treadle.onnxruntime; treadle.onnxruntime.install()
import onnxruntime as ort
from onnxruntime import ExecutionMode, GraphOptimizationLevel, InferenceSession, RunOptions, SessionOptions
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
ort.disable_telemetry_events(); ort.set_default_logger_severity(3)
assert ort.get_device() == "CPU" and "CPUExecutionProvider" in ort.get_available_providers()
options = SessionOptions()
options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
options.execution_mode = ExecutionMode.ORT_SEQUENTIAL
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.log_severity_level = 4
options.add_session_config_entry("session.disable_prepacking", "1")
session = InferenceSession("m.onnx", options, providers=["CPUExecutionProvider"])
assert session.get_modelmeta().custom_metadata_map == {}
x = [[[[0] * 10] * 8] * 3]                      # lists take the declared type
assert session.run(["scores"], {session.get_inputs()[0].name: x}, RunOptions())[0].shape == (1, 5)
binding = session.io_binding()
binding.bind_cpu_input("x", __import__("numpy").zeros((1, 3, 8, 10), "float32")); binding.bind_output("scores")
session.run_with_iobinding(binding)
assert binding.copy_outputs_to_cpu()[0].shape == (1, 5)
try: session.run(None, {"x": __import__("numpy").zeros((1, 3, 8, 10))})
except InvalidArgument: pass
else: raise SystemExit("float64 was taken for float32")
"""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", program], cwd=folder.path, env=environment, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@row("works without the package onnx")
def _(folder):
    program = ("import sys; sys.modules['onnx'] = None\nimport numpy as np, treadle\n"
               "x = np.ones((2, 3, 6, 10), 'float32')\n"
               "print(treadle.compile('m.onnx')(x=x)['scores'].shape, treadle.InferenceSession('m.onnx').run(None, {'x': x})[0].shape)")
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", program], cwd=folder.path, env=environment, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.stdout == "(2, 5) (2, 5)\n", done.stderr


@row("help(treadle) lists what there is")
def _(_):
    import pydoc

    text = pydoc.plain(pydoc.render_doc(treadle))
    for name in ("compile(", "load(", "class Model(", "class InferenceSession(", "tune("):
        assert name in text


def public_things():
    """Names, functions and classes of all modules of the package that aren't private, where they are defined."""
    import importlib
    import pkgutil

    for info in pkgutil.walk_packages(treadle.__path__, "treadle."):
        if any(part.startswith("_") for part in info.name.split(".")):
            continue
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]:
            thing = getattr(module, name)
            if isinstance(thing, (types.FunctionType, type)) and thing.__module__ == info.name:
                yield f"{info.name}.{name}", thing


@row("every public function and class has a docstring")
@pytest.mark.filterwarnings("ignore")
def _(_):
    things = dict(public_things())
    assert len(things) > 900
    assert sorted(name for name, thing in things.items() if not inspect.getdoc(thing)) == []


@row("docstrings of the API with shapes or types, errors and examples; annotations, py.typed")
def _(_):
    methods = [getattr(treadle.Model, name) for name in ("run", "save", "benchmark", "profile", "explain", "verify", "run_async")]
    for thing in [treadle.compile, treadle.load, *methods]:
        text = inspect.getdoc(thing)
        assert ">>>" in text or thing in (treadle.compile, treadle.load), thing
        assert inspect.signature(thing).return_annotation is not inspect.Signature.empty, thing
        assert re.search(r"Error|raise", text), thing
    assert (PACKAGE / "py.typed").exists()


@row("treadle.Model: save, benchmark, profile, explain, verify, run_async, bind_output")
def _(folder):
    model = treadle.compile(folder.path / "m.onnx", dims={"batch": 1, "height": 8})
    x = np.ones((1, 3, 8, 10), np.float32)
    model.save(folder.path / "p.so")
    assert model.benchmark(repeat=2).median > 0 and model.profile()[0].nodes == "conv, act" and "# Kernels" in model.explain()
    expected = model(x)["scores"]
    assert model.verify({"x": x}, {"scores": expected})[0].agrees
    np.testing.assert_array_equal(model.run_async(x).result(60)["scores"], expected)
    context, out = model.create_context(), np.zeros((1, 5), np.float32)
    context.bind_output("scores", out)
    context(x=x)
    np.testing.assert_array_equal(out, expected)
    assert context.profile()


@row("models say the names of dynamic dimensions")
def _(folder):
    assert "x: float32['batch', 3, 'height', 10]" in repr(treadle.load(folder.path / "d.so"))


@row("arrays of every kind: strides, order, read-only, __array__, DLPack, torch")
def _(folder):
    model = treadle.load(folder.path / "s.so")
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 10), dtype=np.float32)
    expected = model(x)["scores"]
    read_only = x.copy()
    read_only.flags.writeable = False

    class Wrapped:
        def __array__(self, dtype=None, copy=None):
            return x

    class Exchanged:
        def __dlpack__(self, **options):
            return x.__dlpack__()

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    forms = [np.asfortranarray(x), x[..., ::-1].copy()[..., ::-1], np.repeat(x, 2, 3)[..., ::2], read_only, Wrapped(), Exchanged(),
             x.astype(">f4"), x.tolist(), treadle.nd.array(x)]
    try:
        import torch
    except ImportError:
        pass
    else:
        forms += [torch.from_numpy(x), torch.from_numpy(x).to(memory_format=torch.channels_last)]
    for form in forms:
        np.testing.assert_array_equal(model(form)["scores"], expected)
    tensor = treadle.nd.array(x)
    assert np.shares_memory(np.from_dlpack(tensor), np.from_dlpack(tensor))


# What is installed.

@row("the program and the runtime alone run models, and say what is missing for more")
def _(folder):
    alone = folder.path / "alone"
    alone.mkdir()
    shutil.copy(PACKAGE / "bin/treadle", alone)
    shutil.copy(PACKAGE / "lib/libtreadle_runtime.so", alone)
    environment = {"LD_LIBRARY_PATH": str(alone), "PATH": os.environ["PATH"]}

    def run(*args):
        return subprocess.run([alone / "treadle", *args], cwd=folder.path, env=environment, capture_output=True, text=True,
                              timeout=120, check=False)

    assert "scores: float32 (1, 5)" in run("run", "s.so", "-i", "random").stdout
    refused = run("compile", "m.onnx", "-o", "q.so")
    assert refused.returncode == 3
    assert refused.stderr.startswith("error: this installation has no compiler") and "\nhelp: " in refused.stderr


@row("find_package(treadle) of the Python package compiles models while a program is built")
@pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("cc") is None, reason="no CMake or C compiler")
def _(folder):
    project = folder.path / "project"
    project.mkdir()
    shutil.copy(ROOT / "examples/c_inference/main.c", project)
    (project / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.25)
project(outside C CXX)
find_package(treadle {treadle.__version__} REQUIRED)
add_executable(reader main.c)
treadle_add_model(reader {folder.path}/m.onnx OPTIONS --dim batch=1,height=8)
""")
    for command in (["cmake", "-S", project, "-B", project / "out", f"-DCMAKE_PREFIX_PATH={treadle.cmake_prefix_path}"],
                    ["cmake", "--build", project / "out"], [project / "out/reader", project / "out/m.so"]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "output 0, 20 bytes" in done.stdout


@row("python -m treadle is the program")
def _(folder):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    for arguments in (["--version"], ["run", "s.so"]):
        ours = subprocess.run([sys.executable, "-m", "treadle", *arguments], cwd=folder.path, env=environment,
                              capture_output=True, text=True, timeout=120, check=False)
        program = folder(*arguments)
        assert (ours.returncode, ours.stdout, ours.stderr) == (program.returncode, program.stdout, program.stderr)


@row("one source of the version, with the commit")
def _(folder):
    assert re.fullmatch(rf"{re.escape(treadle.__version__)}( \(commit [0-9a-f]+(, changed)?\))?\n", folder.run("--version"))
    written = [path for path in ("pyproject.toml", "CMakeLists.txt", "packaging/runtime/pyproject.toml", "cmake/Version.cmake",
                                 "python/treadle/__init__.py") if f'"{treadle.__version__}"' in (ROOT / path).read_text()]
    assert written == [], "the version is written in python/treadle/_version.py alone"


@pytest.mark.parametrize("name", ROWS)
def test_feature(name, folder, monkeypatch):
    function = ROWS[name]
    if "monkeypatch" in inspect.signature(function).parameters:
        function(folder, monkeypatch)
    else:
        function(folder)
