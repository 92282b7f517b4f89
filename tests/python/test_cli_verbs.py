# SPDX-License-Identifier: Apache-2.0
"""Verbs of the command line that measure, read pictures and describe the program itself."""
import csv
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"


def run(*args):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """scores = w . mean of a picture's channels, compiled."""
    folder = tmp_path_factory.mktemp("verbs")
    rng = np.random.default_rng(1)
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("GlobalAveragePool", ["r"], ["p"]),
             helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["scores"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 10])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 5])],
                              [numpy_helper.from_array(rng.standard_normal((3, 5)).astype("float32"), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    result = run("compile", folder / "m.onnx", "-o", folder / "m.so")
    assert result.returncode == 0, result.stderr
    return folder / "m.so"


def test_profile_writes_tables_and_traces(library, tmp_path):
    result = run("profile", library, "--csv", tmp_path / "p.csv", "--trace", tmp_path / "t.json", "--top", 1)
    assert result.returncode == 0, result.stderr
    assert "in all" in result.stdout and "more (--top 0 shows all)" in result.stdout
    with open(tmp_path / "p.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 1
    assert sum(float(row["percent"]) for row in rows) == pytest.approx(100, abs=0.1)
    assert all("float32 (" in row["shapes"] for row in rows)
    assert len(json.loads((tmp_path / "t.json").read_text())["traceEvents"]) == len(rows)


def test_profile_by_kernel_as_json(library):
    report = json.loads(run("profile", library, "--by", "kernel", "--repeat", 2, "--json").stdout)
    assert report["run"]["runs"] == 2
    assert all(row["function"] == row["name"] and row["calls"] >= 1 for row in report["rows"])


def test_bench_measures_for_a_time_and_several_requests(library, tmp_path):
    result = run("bench", library, "-t", 0.1, "--requests", 2, "--threads", 1, "--json", tmp_path / "b.json")
    assert result.returncode == 0, result.stderr
    report = json.loads((tmp_path / "b.json").read_text())
    own = report["engines"]["treadle"]
    assert own["runs"] > 0 and own["runs_per_s"] > 0
    assert own["min_ms"] <= own["median_ms"] <= own["p90_ms"] <= own["p99_ms"] <= own["max_ms"]
    assert report["load_ms"] > 0 and report["first_run_ms"] > 0 and report["peak_memory_bytes"] > 0


def test_seeds_choose_random_inputs(library, tmp_path):
    def outputs(seed):
        assert run("run", library, "-i", "random", "--seed", seed, "-o", tmp_path / "o.npz").returncode == 0
        return np.load(tmp_path / "o.npz")["scores"]

    assert np.array_equal(outputs(3), outputs(3))
    assert not np.array_equal(outputs(3), outputs(4))


def test_pictures_are_inputs_and_labels_name_results(library, tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(2).integers(0, 256, (8, 10, 3)).astype("uint8")
    image.fromarray(pixels).save(tmp_path / "p.png")
    mean, scale = np.float32([10, 20, 30]), np.float32([50, 60, 70])
    np.save(tmp_path / "x.npy", ((pixels - mean) / scale).transpose(2, 0, 1)[None].astype("float32"))
    (tmp_path / "labels.txt").write_text("a\nb\nc\r\nd\ne\n")
    expected = run("run", library, "-i", tmp_path / "x.npy", "-o", tmp_path / "e.npz")
    result = run("run", library, "-i", f"x={tmp_path / 'p.png'}", "--mean", "10,20,30", "--scale", "50,60,70", "-o",
                 tmp_path / "o.npz", "--top-k", 2, "--labels", tmp_path / "labels.txt")
    assert expected.returncode == 0 and result.returncode == 0, result.stderr
    scores = np.load(tmp_path / "o.npz")["scores"]
    np.testing.assert_allclose(scores, np.load(tmp_path / "e.npz")["scores"], rtol=1e-5, atol=1e-6)
    best = [line.split()[1:] for line in result.stdout.splitlines() if line.startswith("  ")]
    assert best == [[str(i), "abcde"[i]] for i in np.argsort(-scores[0])[:2]]


def test_pictures_are_resized(library, tmp_path):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(3)
    picture = image.fromarray(rng.integers(0, 256, (40, 30, 3)).astype("uint8"))
    picture.save(tmp_path / "p.bmp")
    pixels = np.asarray(picture.resize((10, 8), image.Resampling.BILINEAR), "float32") / 255
    np.save(tmp_path / "x.npy", pixels.transpose(2, 0, 1)[None])
    scores = []
    for source in ("x.npy", "p.bmp"):
        assert run("run", library, "-i", tmp_path / source, "-o", tmp_path / "o.npz").returncode == 0
        scores.append(np.load(tmp_path / "o.npz")["scores"])
    np.testing.assert_allclose(*scores, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("args, message", [
    (["--mean", "1,2"], "error: --mean has 2 values; the input has 3 channels"),
    (["--mean", "1,x"], "error: --mean: expected numbers such as 0.485,0.456,0.406, got 'x'"),
    (["--scale", "0"], "error: --scale divides: it can't be 0"),
])
def test_flags_of_pictures_are_checked(library, tmp_path, args, message):
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (3, 3)).save(tmp_path / "p.png")
    result = run("run", library, "-i", tmp_path / "p.png", *args)
    assert (result.returncode, result.stderr.splitlines()[0]) == (2, message)


def test_files_that_only_look_like_pictures_are_refused(library, tmp_path):
    (tmp_path / "p.jpg").write_bytes(b"\xff\xd8\xff\xe0 and then nothing")
    result = run("run", library, "-i", tmp_path / "p.jpg")
    assert result.returncode == 2 and "not a picture that can be read" in result.stderr


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_verbs_and_flags(tmp_path):
    (tmp_path / "completion").write_text(run("completion", "bash").stdout)

    def complete(*words):
        line = " ".join(map(repr, ("treadle", *words)))
        script = (f"source {tmp_path / 'completion'}; compopt() {{ :; }}; COMP_WORDS=({line}); "
                  f"COMP_CWORD={len(words)}; _treadle; echo ${{COMPREPLY[@]}}")
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()

    assert complete("pro") == ["profile"]
    assert "--requests" in complete("bench", "--req")
    assert complete("help", "verif") == complete("man", "verif") == ["verify"]
    assert complete("compile", "m.onnx", "--precision", "m") == ["mixed"]
    assert complete("cache", "cl") == ["clear"]
    assert complete("run", "--col") == ["--color"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_verb(shell):
    script = run("completion", shell).stdout
    assert all(verb in script for verb in ("compile", "profile", "doctor", "input-shapes"))


def test_other_shells_get_short_flags_and_choices():
    zsh, fish = run("completion", "zsh").stdout, run("completion", "fish").stdout
    assert "'*-o[" in zsh and ":value:(f32 bf16 f16 mixed auto)'" in zsh and "'2:action:(show clear limit)'" in zsh
    assert " -s o -l output -r " in fish and " -l precision -x -a 'f32 bf16 f16 mixed auto' " in fish
    for shell, script in (("zsh", zsh), ("fish", fish)):
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish_completes(tmp_path):
    (tmp_path / "treadle.fish").write_text(run("completion", "fish").stdout)

    def complete(line):
        script = f"source {tmp_path / 'treadle.fish'}; complete -C '{line}'"
        return [row.split("\t")[0] for row in subprocess.run(["fish", "-c", script], capture_output=True, text=True,
                                                              check=True).stdout.splitlines()]

    assert complete("treadle pro") == ["profile"]
    assert complete("treadle compile --precision m") == ["mixed"]
    assert complete("treadle cache cl") == ["clear"]


def test_unknown_shells_are_refused():
    assert run("completion", "csh").stderr == "error: no completion for the shell 'csh'\nhelp: there are: bash, zsh, fish\n"


def test_manual_pages_have_every_flag():
    page = run("man", "bench").stdout
    assert page.startswith('.TH treadle\\-bench 1 ""')
    for flag in ("\\-\\-requests", "\\-\\-compare", "\\-i, \\-\\-input"):
        assert flag in page
    assert "\\fBbench\\fR" in run("man").stdout
    assert "did you mean 'bench'" in run("man", "bnch").stderr


VERBS = ("compile", "explain", "run", "verify", "bench", "profile", "report", "inspect", "tune", "records", "cache", "ops",
         "doctor")


@pytest.mark.parametrize("verb", VERBS)
def test_examples_of_help_are_right(verb):
    text = run(verb, "--help").stdout
    examples = re.findall(r"^  treadle (.*)$", text, re.MULTILINE)
    assert examples and not re.search(r"[A-Z]:[A-Z{]|\{false\}", text)
    for example in examples:
        result = run(*shlex.split(example), "--dump-config")
        assert (result.returncode, result.stderr) == (0, "") and result.stdout.startswith(f"[{verb}]")


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "treadle.toml"
    path.write_text('threads = 1 # of all\ntarget = "llvm -mcpu=x86-64-v3"\n[bench]  # this "verb"\njson = "a # b"\nrepeat = 5\nquick = true\nthreads = 2\n'
                    'compare = ["onnxruntime", "openvino"]\n[run]\ntop-k = 3\n', encoding="utf-8")
    return path


def test_options_come_from_a_file_behind_the_command_line(config, library, tmp_path):
    dumped = run("bench", "m.onnx", "--config", config, "--repeat", 7, "--dump-config").stdout
    assert dumped.splitlines() == ["[bench]", 'model="m.onnx"', "repeat=7", "threads=2", 'compare=["onnxruntime", "openvino"]', 'json="a # b"',
                                   'target="llvm -mcpu=x86-64-v3"', "quick=true"]
    (tmp_path / "again.toml").write_text(dumped, encoding="utf-8")
    assert run("--config", tmp_path / "again.toml", "bench", "--dump-config").stdout == dumped
    result = run("compile", library.with_suffix(".onnx"), "-o", tmp_path / "c.so", "--config", config)
    assert result.returncode == 0, result.stderr
    assert "mcpu=x86-64-v3" in json.loads(run("inspect", tmp_path / "c.so", "--json").stdout)["target"]


@pytest.mark.parametrize("text, message", [
    ("thread = 1", "no verb has an option 'thread'; did you mean 'threads'?"),
    ("[bnch]\nrepeat = 1", "there is no verb [bnch]; did you mean 'bench'?"),
    ("[bench]\nrepeet = 1", "bench has no option 'repeet'; did you mean 'repeat'?"),
    ("[run]\ncompare = 1", "run has no option 'compare'"),
    ("[bench]\nrepeat = x", "--repeat: expected a number of 1 or more, got 'x'"),
    ("these aren't options", "no verb has an option 'these aren't options'"),
])
def test_mistakes_in_such_a_file(tmp_path, text, message):
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    result = run("bench", "m.onnx", "--config", tmp_path / "c.toml")
    assert (result.returncode, result.stderr.splitlines()[0]) == (2, f"error: {tmp_path / 'c.toml'}: {message}")


def test_colours_are_for_terminals_and_on_request(tmp_path):
    plain = run("run", tmp_path / "none.so")
    assert plain.stderr.startswith("error: ")
    assert run("run", tmp_path / "none.so", "--color", "always").stderr == plain.stderr.replace("error:", "\x1b[1;31merror:\x1b[0m")


@pytest.mark.parametrize("dtype, source, low, high", [
    ("float32", "random:0..255", 0, 255), ("int8", "random:-5..5", -5, 5), ("uint8", "random:200..255", 200, 255),
    ("float32", "2.5", 2.5, 2.5), ("int64", "16000", 16000, 16000), ("bool", "1", 1, 1), ("float32", "nan", None, None),
])
def test_inputs_are_filled(tmp_path, dtype, source, low, high):
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    infos = [helper.make_tensor_value_info(name, element, [40, 50]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", infos[:1], infos[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    result = run("run", tmp_path / "m.onnx", "-i", f"x={source}", "-o", tmp_path / "y.npz")
    assert result.returncode == 0, result.stderr
    y = np.load(tmp_path / "y.npz")["y"]
    if low is None:
        assert np.isnan(y).all()
        return
    assert low <= y.min() and y.max() <= high
    assert low == high or len(np.unique(y)) > 0.8 * min(2000, high - low)


def test_versions_of_operators_by_opset():
    rows = {row["name"]: row["text"] for row in json.loads(run("ops", "--opset", 12, "--json").stdout)}
    assert rows["Clip"] == "version 12" and rows["Relu"] == "version 6" and "LayerNormalization" not in rows
    table = run("ops", "--opset", 17, "--markdown").stdout
    assert "| LayerNormalization | version 17 |" in table.splitlines()


def test_compiling_says_how_far_it_is(library, tmp_path):
    model = library.with_suffix(".onnx")
    verbose = run("compile", model, "-o", tmp_path / "v.so", "-v")
    lines = verbose.stderr.splitlines()
    assert verbose.returncode == 0 and "FuseOps" in lines
    total = lines[-1].split("/")[1].split()[0]
    assert lines[-1].startswith(f"{total}/{total} kernels")
    # Nothing but errors where nobody watches, or on request.
    assert run("compile", model, "-o", tmp_path / "n.so").stderr == ""
    assert run("compile", model, "-o", tmp_path / "q.so", "-q").stderr == ""
    refused = run("compile", model, "-o", tmp_path / "b.so", "-q", "-v")
    assert refused.stderr.startswith("error: --quiet and --verbose contradict each other")


def test_bars_of_terminals_end_at_the_whole(library, tmp_path):
    import pty

    parent, child = pty.openpty()
    with subprocess.Popen([PROGRAM, "compile", library.with_suffix(".onnx"), "-o", tmp_path / "t.so", "--no-cache"],
                          stdout=subprocess.DEVNULL, stderr=child, env={**os.environ, "TERM": "xterm"}) as process:
        os.close(child)
        shown = b""
        while True:
            try:
                shown += os.read(parent, 4096)
            except OSError:  # the other end is closed
                break
        process.wait()
    os.close(parent)
    last = shown.decode().split("\r")[-2]
    assert last.startswith("[========================]") and shown.endswith(b"\r\x1b[K")


def test_doctor_says_what_there_is():
    rows = {row["name"]: row["text"] for row in json.loads(run("doctor", "--json").stdout)}
    assert rows["treadle"].startswith(treadle.__version__)
    assert rows["LLVM"].startswith("19.") and rows["-mcpu=native"] and rows["instructions"]
    assert {"cores", "memory", "compiler", "cache", "largest tensor", "plug-ins", "python", "opencl"} <= set(rows)
    assert "kernels" in rows["cache"] or rows["cache"] == "off" or rows["cache"].startswith("not used")


def test_doctor_calibrates(tmp_path, monkeypatch):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))

    def stored():
        return next(row["text"] for row in json.loads(run("doctor", "--json").stdout) if row["name"] == "calibration")

    assert stored().startswith("none")
    measured = json.loads(run("doctor", "--calibrate", "--json").stdout)[0]["text"]
    assert stored() == measured and {"bits", "multiply-adds", "l2", "memory"} <= {w.split("=")[0] for w in measured.split()}
    assert run("doctor", "--forget-calibration").stdout == "the calibration is forgotten\n"
    assert stored().startswith("none")


def test_version_names_the_commit():
    text = run("--version").stdout.strip()
    assert text == treadle.__version__ or text.startswith(f"{treadle.__version__} (commit ")


def test_models_know_how_they_were_made(library, tmp_path):
    source = library.with_suffix(".onnx")
    report = json.loads(run("inspect", library, "--json").stdout)
    made = report["provenance"]
    assert (made["source"], made["weights"]) == ("m.onnx", str(3 * 5 * 4))
    assert made["cpu"] not in ("", "native")
    assert report["source_hash"].startswith("blake3:") and len(report["source_hash"]) == 7 + 64
    text = run("inspect", library).stdout
    assert "source hash  blake3:" in text and "weights      0 KiB in the model" in text


def test_weights_in_constant_nodes_count(tmp_path):
    """As PaddlePaddle exports them."""
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[2, 4] x) => (float[2, 64] y) { y = MatMul(x, w) }')
    weights = onnx.numpy_helper.from_array(np.ones((4, 64), np.float32), "w")
    model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["w"], value=weights))
    onnx.save(model, tmp_path / "m.onnx")
    run("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so")
    assert json.loads(run("inspect", tmp_path / "m.so", "--json").stdout)["provenance"]["weights"] == "1024"


def test_constants_of_external_functions_are_listed(library, tmp_path):
    if "dnnl" not in treadle.relay.external.list_codegens():
        pytest.skip("this build has no oneDNN")
    assert run("compile", library.with_suffix(".onnx"), "-o", tmp_path / "e.so", "--external", "dnnl").returncode == 0
    text = run("inspect", tmp_path / "e.so", "--memory").stdout
    assert re.search(r"^constant     tvmgen_default_dnnl_main_\d+_const_0 float32 \[3,5\] 60 bytes", text, re.M), text
    assert "\nconstant " not in run("inspect", tmp_path / "e.so").stdout
    (constant,) = json.loads(run("inspect", tmp_path / "e.so", "--json").stdout)["modules"]["constants"]
    assert (constant["dtype"], constant["shape"], constant["bytes"]) == ("float32", [3, 5], 60)


def test_the_command_that_a_model_remembers_compiles_it_again(library, tmp_path):
    source = library.with_suffix(".onnx")
    command = json.loads(run("inspect", library, "--json").stdout)["provenance"]["command"]
    words = [str(source) if word == "m.onnx" else word for word in shlex.split(command)[1:]]
    result = run(*words, "-o", tmp_path / "again.so")
    assert result.returncode == 0, result.stderr


def test_inspect_names_open_dimensions(tmp_path):
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 3])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "d.onnx")
    text = run("inspect", tmp_path / "d.onnx").stdout
    assert 'input        x float32 ["rows",3]' in text
    assert "program      run by the virtual machine" in text


def products(path, tail):
    """A product of 64 x 64 and what `tail` adds: nodes and weights."""
    rng = np.random.default_rng(3)
    weights = {"w": rng.standard_normal((64, 64)).astype("float32")}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "product"), *tail(weights)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 64])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 64])],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


PYTHON = {**os.environ, "TREADLE_PYTHON": sys.executable}


def verify(*args):
    return subprocess.run([PROGRAM, "verify", *map(str, args)], capture_output=True, text=True, timeout=300, env=PYTHON)


def test_rounding_that_adds_up_is_no_alarm(tmp_path):
    def cancel(weights):
        weights["almost"] = weights["w"] * np.float32(1 + 2e-7)
        return [helper.make_node("MatMul", ["x", "almost"], ["b"], "other"), helper.make_node("Sub", ["a", "b"], ["c"], "difference"),
                helper.make_node("Add", ["a", "c"], ["y"], "sum")]

    model = products(tmp_path / "m.onnx", cancel)
    np.save(tmp_path / "x.npy", np.random.default_rng(4).standard_normal((8, 64)).astype("float32"))
    result = verify(model, "-i", tmp_path / "x.npy", "--layers", "--rtol", "1e-5")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "y: agrees" in result.stdout
    assert "each operator agrees by itself" in result.stdout or "all 4 intermediate values agree" in result.stdout


def test_equal_outputs_have_no_signal_to_noise_ratio(tmp_path):
    model = products(tmp_path / "m.onnx", lambda weights: [helper.make_node("Relu", ["a"], ["y"], "relu")])
    np.save(tmp_path / "x.npy", np.zeros((8, 64), "float32"))
    flags = ("-i", tmp_path / "x.npy", "--snr", "30")
    result = verify(model, *flags)
    assert result.returncode == 0 and result.stdout == "y: agrees (largest difference 0, identical)\n", result.stdout
    assert json.loads(verify(model, *flags, "--json").stdout)["outputs"][0]["snr_db"] is None
    assert "\na: identical\n" in "\n" + verify(model, *flags, "--layers").stdout


def test_the_operator_that_differs_becomes_a_model_of_its_own(tmp_path):
    model = products(tmp_path / "m.onnx", lambda weights: [helper.make_node("Relu", ["a"], ["y"], "relu")])
    result = verify(model, "--precision", "bf16", "--snr", "90", "--reduce", tmp_path / "case")
    assert result.returncode == 1, result.stdout + result.stderr
    assert "the first operator that differs by itself is MatMul 'product', which computes 'a'" in result.stdout
    alone = onnx.load(tmp_path / "case/node.onnx")
    assert [node.op_type for node in alone.graph.node] == ["MatMul"]
    operands, expected = np.load(tmp_path / "case/inputs.npz"), np.load(tmp_path / "case/expected.npz")
    weight = numpy_helper.to_array(alone.graph.initializer[0])
    np.testing.assert_allclose(operands["x"] @ weight, expected["a"], rtol=1e-4, atol=1e-4)
