# SPDX-License-Identifier: Apache-2.0
"""The program where its surroundings are odd: streams that are closed or full, limits of the shell, names that aren't text,
another program for Python. What is said is compared word for word."""
import json
import os
import pathlib
import signal
import subprocess
import sys

import onnx
import pytest
from onnx import TensorProto, helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("surroundings")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "small", infos[:1], infos[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path / "m.onnx")
    subprocess.run([PROGRAM, "compile", "m.onnx", "-o", "m.so"], cwd=path, check=True, capture_output=True)
    return path


def shell(folder, command, **variables):
    """(status, standard error) of a line of bash in which $T is the program."""
    environment = {**os.environ, "T": str(PROGRAM), "TREADLE_PYTHON": sys.executable, **variables}
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=120, check=False,
                          env=environment)
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", [
    "run m.so -i random", "--help", "help bench", "--version", "ops --json", "inspect m.so --json", "compile m.onnx -o a.so",
    "bench m.so -t 0.01", "man", "completion bash", "doctor", "targets", "cache show"])
@pytest.mark.parametrize("stream, why", [("/dev/full", ": No space left on device"), ("&-", ": Bad file descriptor")])
def test_output_that_is_lost_is_an_error(folder, arguments, stream, why):
    """The reason is known where it isn't a part of the output that failed before the end."""
    status, said = shell(folder, f"$T {arguments} >{stream}")
    assert status == 5
    assert said.splitlines()[-1] in ("error: can't write to standard output" + why, "error: can't write to standard output")


def test_files_do_not_get_the_numbers_of_closed_streams(folder):
    """What is printed would land in them."""
    for closed in ("<&-", "2>&-", "<&- 2>&-"):
        assert shell(folder, f"$T compile m.onnx -o closed.so -v {closed}")[0] == 0
        assert shell(folder, "$T run closed.so -i x=ones") == (0, "")


@pytest.mark.parametrize("command, text", [
    ("ulimit -f 0; $T run m.so -i random -o big.npz", "error: can't write 'big.npz': File too large\n"),
    ("ulimit -f 1; $T compile m.onnx -o big.so --no-cache", ": File too large\n"),
])
def test_files_beyond_the_limit_of_the_shell(folder, command, text):
    before = sorted(os.listdir(folder))
    status, said = shell(folder, command)
    assert status in (2, 5) and said.startswith("error: can't write ") and said.endswith(text)
    assert sorted(os.listdir(folder)) == before


def test_names_that_are_not_text(folder):
    name = os.fsencode(folder) + b"/bad\xff.onnx"
    with open(name, "wb") as file:
        file.write((folder / "m.onnx").read_bytes())
    subprocess.run([PROGRAM, "compile", name, "-o", folder / "bad.so"], check=True, capture_output=True)
    found = subprocess.run([PROGRAM, "inspect", folder / "bad.so", "--json"], check=True, capture_output=True)
    assert "bad\ufffd.onnx" in json.dumps(json.loads(found.stdout), ensure_ascii=False)


@pytest.mark.parametrize("program, text", [
    ("/bin/true", "error: /bin/true isn't a Python: it ended without the reference's outputs\n"
                  "help: TREADLE_PYTHON names a Python that has onnxruntime\n"),
    ("/nonexistent", "error: can't start /nonexistent, which runs ONNX Runtime; set TREADLE_PYTHON\n"),
])
def test_other_programs_for_python(folder, program, text):
    assert shell(folder, "$T verify m.onnx", TREADLE_PYTHON=program) == (5, text)


def test_short_flags_take_an_equals_sign(folder):
    """As other programs do; the file was called =e.so."""
    assert shell(folder, "$T compile m.onnx -o=e.so && $T run e.so -i=x=ones -o=e.npz") == (0, "")
    assert (folder / "e.so").exists() and (folder / "e.npz").exists() and not (folder / "=e.so").exists()


def test_records_without_a_better_plan_say_so(folder):
    (folder / "none.jsonl").write_text("")
    assert shell(folder, "$T records best none.jsonl") == (0, "note: no record is in use: default plans are at least as fast, or "
                                                          "records are of other machines\n")


def test_no_environment_at_all(folder):
    assert shell(folder, "env -i $T compile m.onnx -o none.so && env -i $T run none.so -i random")[0] == 0


@pytest.mark.parametrize("home", ["", "/nonexistent", "/proc"])
def test_no_home(folder, home):
    status, said = shell(folder, "$T compile m.onnx -o home.so", HOME=home)
    assert (status, said) == (0, "")


@pytest.mark.parametrize("seen", ["treadle._core", "treadle.te", "treadle.topi"])
def test_interrupts_while_the_package_is_imported_are_silent(folder, seen):
    command = [sys.executable, "-X", "importtime", "-m", "treadle", "compile", "m.onnx", "-o", "interrupted.so"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment) as process:
        for line in process.stderr:
            if line.split("|")[-1].strip() == seen:
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert "Traceback" not in rest
    assert process.returncode in (-signal.SIGINT, 0)
