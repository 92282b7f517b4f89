# SPDX-License-Identifier: Apache-2.0
"""What the pages of docs/ show works as printed."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import onnx
import onnx.parser
import pytest

import treadle

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", ["start", "dynamic-shapes", "from-onnxruntime"])
def test_every_block_of_a_page_runs(page, tmp_path):
    """In the order of the page, in one folder: shell by bash, Python in one process for all of its blocks."""
    if page == "start":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("vl_convert", reason="the build has no libraries of report pages")
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    program = pathlib.Path(treadle.__file__).parent / "bin"
    package = os.path.dirname(os.path.dirname(os.path.abspath(treadle.__file__)))
    environment = {**os.environ, "TREADLE_PYTHON": sys.executable, "PYTHONPATH": package,
                   "PATH": os.pathsep.join([str(program), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])}
    done = ""
    for language, block in re.findall(r"```(sh|python)\n(.*?)```", text, re.DOTALL):
        if language == "python":
            done += block
        command = ["bash", "-euo", "pipefail", "-c", block] if language == "sh" else [sys.executable, "-c", done]
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert result.returncode == 0, f"{block}\n{result.stdout}{result.stderr}"


# What stands before the blocks of a page: the program that reads it has models and graphs already.
MODEL = """
import numpy as np, treadle
from treadle import relay, runtime
from treadle.contrib import graph_executor
from treadle.target import datatype
"""
GRAPH = """
var = relay.var("data", shape=(4, 3))
mod = treadle.IRModule.from_expr(relay.Function([var], relay.nn.relu(var)))
x = image = np.ones((4, 3), "float32")
lib = relay.build(mod, target="llvm")
"""
BEFORE = {"report": "", "tuning": "", "schedules": "import ctypes", "virtual-machine": GRAPH, "rpc": GRAPH,
          "precision": "datatype.register('posit', 131)",
          "pytorch": "import torch\n'treadle' in torch._dynamo.list_backends() or "  # an entry point where it is installed
                     "torch._dynamo.register_backend(treadle.pytorch.backend, name='treadle')\nclass MyModule(torch.nn.Module):\n  def forward(self, x): return torch.relu(x)"}
ENDLESS = ("rpc_tracker --host", "connect_tracker")  # servers of other machines


@pytest.mark.parametrize("page", BEFORE)
def test_blocks_run_after_what_they_name(page, tmp_path):
    """In the order of the page; a search takes a second, not ten minutes."""
    if page == "report":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("vl_convert", reason="the build has no libraries of report pages")
    if page == "pytorch":
        pytest.importorskip("torch")
        pytest.importorskip("onnxscript")
    onnx.save(onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2, 8] x) => (float[2, 8] y) { y = Softmax(x) }'), tmp_path / "model.onnx")
    treadle.compile(tmp_path / "model.onnx").save(tmp_path / "model.so")
    program = pathlib.Path(treadle.__file__).parent / "bin"
    environment = {**os.environ, "TREADLE_PYTHON": sys.executable, "PYTHONPATH": str(pathlib.Path(treadle.__file__).parents[1]),
                   "PATH": os.pathsep.join([str(program), os.environ["PATH"]])}
    done, blocks = MODEL + BEFORE[page] + "\n", 0
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8").replace("10m", "1s")
    for language, block in re.findall(r"```(sh|python)\n(.*?)```", text, re.DOTALL):
        if any(word in block for word in ENDLESS):
            continue
        blocks += 1
        if language == "python":
            done += block
            (tmp_path / "program.py").write_text(done, encoding="utf-8")
        command = ["bash", "-euo", "pipefail", "-c", block] if language == "sh" else [sys.executable, "program.py"]
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert result.returncode == 0, f"{block}\n{result.stdout}{result.stderr}"
    assert blocks > 0


def block(page, language):
    return re.search(rf"```{language}\n(.*?)```", (ROOT / f"docs/{page}.md").read_text(encoding="utf-8"), re.DOTALL).group(1)


def done(*command, folder):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "packaging/runtime"), str(folder),
                                                                str(pathlib.Path(treadle.__file__).parents[1])])}
    result = subprocess.run([str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
                            check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def compiler():
    found = next(filter(None, map(shutil.which, ("clang++-19", "clang++", "g++"))), None)
    return found or pytest.skip("no C++ compiler")


def identity(shape):
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[{shape}] x) => (float[{shape}] y) {{ y = Relu(x) }}')


def test_the_page_of_the_runtime_in_cpp_and_python(tmp_path, compiler):
    treadle.compile(identity("2, 3")).save(tmp_path / "resnet50.so")
    lines = block("runtime", "cpp")
    includes, code = lines.split("using namespace", 1)
    (tmp_path / "page.cc").write_text(f"""#include <iostream>
{includes}using namespace{code.split(chr(10), 1)[0]}
int main() {{
  NDArray image = NDArray::Empty({{2, 3}}, treadle::DataType::Float(32));
  image.CopyFromBytes(std::vector<float>(6, 1).data(), 24);
  {code.split(chr(10), 1)[1]}
  return y[0].Data<float>()[5] == 1 ? 0 : 1;
}}
""", encoding="utf-8")
    package = pathlib.Path(treadle.__file__).parent
    include = next(path for path in (package / "include", ROOT / "include") if path.exists())
    done(compiler, "-std=c++20", "-O0", "page.cc", f"-I{include}", f"-L{package / 'lib'}", "-ltreadle_runtime",
         f"-Wl,-rpath,{(package / 'lib').resolve()}", "-o", "page", folder=tmp_path)
    assert "float32" in done(tmp_path / "page", folder=tmp_path)
    (tmp_path / "treadle_runtime").mkdir()
    shutil.copy(ROOT / "packaging/runtime/treadle_runtime/__init__.py", tmp_path / "treadle_runtime")
    (tmp_path / "treadle_runtime/lib").symlink_to(package / "lib")
    program = "import numpy as np\nimage = np.ones((2, 3), 'float32')\n" + block("runtime", "python") + "\nprint(outputs['y'].sum())"
    (tmp_path / "page.py").write_text(program, encoding="utf-8")
    assert done(sys.executable, "page.py", folder=tmp_path) == "6.0\n"


def test_the_page_of_targets_in_c(tmp_path):
    cc = shutil.which("cc") or pytest.skip("no C compiler")
    onnx.save(onnx.parser.parse_model('''
        <ir_version: 8, opset_import: ["": 17]> g (float[1, 3, 48, 192] x) => (float[2] y)
        <int64[4] b = {0, 0, 0, 0}, int64[4] e = {1, 1, 1, 2}, int64[1] n = {2}> {
            s = Slice (x, b, e)  r = Reshape (s, n)  y = Relu (r)
        }'''), tmp_path / "model.onnx")
    program = pathlib.Path(treadle.__file__).parent / "bin/treadle"
    done(program, "compile", "model.onnx", "--target", "c", "-o", "model/", folder=tmp_path)
    (tmp_path / "main.c").write_text(block("targets", "c"), encoding="utf-8")
    done(cc, "-std=c99", "-Wall", "-Wextra", "-Imodel", "main.c", *sorted((tmp_path / "model").glob("*.c")), "-lm", "-o", "main",
         folder=tmp_path)
    done(tmp_path / "main", folder=tmp_path)


@pytest.mark.skipif(not (ROOT / "build/compile_commands.json").exists(), reason="no build tree")
def test_the_page_on_development_times_a_file(tmp_path):
    if shutil.which("clang++-19") is None:
        pytest.skip("no clang")
    text = [script for script in re.findall(r"```sh\n(.*?)```", (ROOT / "docs/development.md").read_text(), re.DOTALL)
            if "ftime-trace" in script][0]
    text = text.replace("src/tir/passes/vectorize_loop.cc", "src/base/html.cc").replace("/tmp/trace", f"{tmp_path}/trace")
    assert "Total ExecuteCompiler" in done("bash", "-euo", "pipefail", "-c", f"cd {ROOT}; {text}", folder=tmp_path)


def test_links_lead_to_pages():
    generated = {"reference-cli.md", "reference-python.md", "reference-c.md", "reference-cpp.md", "reference-messages.md"}
    names = {page.name for page in PAGES} | generated
    for page in PAGES:
        for target in re.findall(r"\]\(([a-z0-9-]+\.md)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert target in names, f"{page.name}: {target}"


def test_every_page_is_in_the_site():
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES:
        assert f": {page.name}\n" in site, page.name


def test_references_are_generated(tmp_path):
    subprocess.run([sys.executable, ROOT / "tools/docs/generate.py", tmp_path], check=True, timeout=300)
    command_line = (tmp_path / "reference-cli.md").read_text(encoding="utf-8")
    assert all(f"## treadle {verb}\n" in command_line for verb in ("compile", "verify", "bench", "report", "doctor"))
    python = (tmp_path / "reference-python.md").read_text(encoding="utf-8")
    assert "### treadle.compile(" in python or "### treadle.model.compile(" in python
    assert "Model.benchmark(" in python and "Errors:" in python
    assert "TreadleModelLoad" in (tmp_path / "reference-c.md").read_text(encoding="utf-8")
    assert "class ModelContext" in (tmp_path / "reference-cpp.md").read_text(encoding="utf-8")
    assert "| can't open ..: .. | Error | 2 |" in (tmp_path / "reference-messages.md").read_text(encoding="utf-8")


def test_messages_of_troubleshooting_are_those_of_the_program():
    text = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    sources = "".join(path.read_text(encoding="utf-8") for folder in ("src", "include", "python")
                      for path in (ROOT / folder).rglob("*") if path.suffix in (".cc", ".h", ".py"))
    sources = re.sub(r'"\s*\n?\s*f?"', "", sources)  # literals that are broken into several
    messages = re.findall(r"^\| `(.*?)` (?:of `verify` )?\|", text, re.MULTILINE)
    assert len(messages) > 10
    for message in messages:
        for part in re.split(r"\.\.|`, `|'|\(.*\)", message):
            assert part.strip(" :,") in sources, f"{message}: {part}"


def test_the_page_of_messages_has_those_of_tests(monkeypatch):
    """What the tests of mistakes see was found in the sources; what the parser of arguments says is its own."""
    monkeypatch.syspath_prepend(ROOT / "tools/docs")
    monkeypatch.syspath_prepend(ROOT / "tests/python")
    import messages
    import test_cli_mistakes

    def pattern(message):
        return re.sub(r"(\w+)/(\w+)", r"(?:\1|\2)", re.escape(message.strip("."))).replace(r"\.\.", ".*?")

    known = [re.compile(pattern(row[0])) for _, rows in messages.messages() for row in rows]
    own = re.compile(r"is required$|are required$|needs a value$|has no option|unexpected argument|at most \d+|cannot open|"
                     "is given twice$|can't import|no verb has|contradict each other$|is one argument$")
    seen = [text for _, _, text in test_cli_mistakes.test_what_is_said.pytestmark[0].args[1]]
    assert len(known) > 2000 and len(seen) > 100
    assert [text for text in seen if not own.search(text) and not any(message.search(text) for message in known)] == []


def bench_results():
    """As bench/run.py writes them: a model that a peer refuses, and one with all that is measured."""
    times = {"median_ms": 2.0, "p25_ms": 1.9, "p75_ms": 2.1, "runs": 5, "gflops": 3.0}
    costs = {"compile_s": 1.0, "compile_memory_mb": 20, "artefact_mb": 3, "load_s": 0.001, "memory_mb": 8}
    rows = [{"model": name, "threads": 1, "flops": 6e9, "bytes": 1e8, "operators": [["k", 1.0, 0.5, None]], "engines": {
        "treadle": {**times, "of_peak": 0.5, "costs": costs}, "onnxruntime": {**times, "median_ms": 3.0},
        "openvino": {"error": "refused"}}} for name in ("one", "two")]
    entry = {"kind": "models", "threads": 1, "mean": 1.5, "least": 1.5, "worst": "one", "rows": 2}
    return {"machine": {"cpu": "a CPU", "cores": 2, "system": "Linux", "load": 0.0}, "rows": rows,
            "versions": {"onnxruntime": "1.0", "treadle": "0.1.0", "openvino": "2.0-3"},
            "fma_peak_gflops": {"1": 100.0}, "bandwidth_gb_s": {"1": 20.0}, "speeds": {"onnxruntime": [entry]},
            "precision": [{"name": "one (bf16)", "threads": 1, "ms": {"treadle": 1.0}, "decibels": None}],
            "gemm": {"n": 64, "peak": 10.0, "steps": [{"name": "tiled", "gflops": 5.0, "of_peak": 0.5}]}}


def test_the_page_of_numbers_is_made_of_results(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(bench_results()), encoding="utf-8")
    package = os.path.dirname(os.path.dirname(os.path.abspath(treadle.__file__)))
    subprocess.run([sys.executable, ROOT / "tools/docs/benchmarks.py", tmp_path / "results.json", tmp_path], check=True,
                   timeout=120, env={**os.environ, "PYTHONPATH": package})
    page = (tmp_path / "docs/benchmarks.md").read_text(encoding="utf-8")
    assert "| one | 1 | 2 ms | 3 ms (1.50 x) | fails |" in page and "1.50 x in the geometric mean of 2 models" in page


def test_the_page_of_make_bench_names_its_points():
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        import report
    finally:
        sys.path.remove(str(ROOT / "bench"))
    made = {section["title"]: section for section in report.sections(bench_results())}
    assert [section["kind"] for section in made.values()].count("table") == 5
    bars = made["Speed over the peers', 1 thread"]["spec"]
    assert [value["speed"] for value in bars["data"]["values"]] == [1.5, 1.5]
    names = made["Roofline, 1 thread"]["spec"]["layer"][2]
    assert {point["model"] for point in names["data"]["values"]} == {"one", "two"}
    assert made["Times"]["rows"][0][-2:] == [0.5, None]
