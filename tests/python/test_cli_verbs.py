# SPDX-License-Identifier: Apache-2.0
"""Verbs of the command line that measure, read pictures and describe the program itself."""
import csv
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import onnx
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
    assert complete("help", "verif") == ["verify"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_verb(shell):
    script = run("completion", shell).stdout
    assert all(verb in script for verb in ("compile", "profile", "doctor", "input-shapes"))


def test_unknown_shells_are_refused():
    assert run("completion", "csh").stderr == "error: no completion for the shell 'csh'\nhelp: there are: bash, zsh, fish\n"


def test_manual_pages_have_every_flag():
    page = run("man", "bench").stdout
    assert page.startswith('.TH treadle\\-bench 1 ""')
    for flag in ("\\-\\-requests", "\\-\\-compare", "\\-i, \\-\\-input"):
        assert flag in page
    assert "\\fBbench\\fR" in run("man").stdout
    assert "did you mean 'bench'" in run("man", "bnch").stderr


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
