# SPDX-License-Identifier: Apache-2.0
"""What commands write: nothing that mustn't be replaced, nothing half, nothing left behind."""
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"


def small_model(path, layers=1):
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((32, 32)).astype("float32"), f"w{i}") for i in range(layers)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(layers)]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 32])  # noqa: E731
    graph = helper.make_graph(nodes, "g", [value("x0")], [value(f"x{layers}")], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("model") / "m.onnx")


def run(*arguments, **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120, **options)


def leftovers(folder):
    return [path.name for path in folder.iterdir() if "treadle-tmp" in path.name]


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_the_model_is_never_the_output(tmp_path, model, link):
    path = tmp_path / "m.onnx"
    path.write_bytes(model.read_bytes())
    output = path
    if link is not None:
        output = tmp_path / "other.so"
        link(path, output)
    result = run("compile", path, "-o", output)
    assert result.returncode == 2 and "it is the input" in result.stderr
    assert path.read_bytes() == model.read_bytes()


def test_files_of_another_kind_are_kept(tmp_path, model):
    np.savez(tmp_path / "weights.npz", a=np.ones(3))
    before = (tmp_path / "weights.npz").read_bytes()
    result = run("compile", model, "-o", tmp_path / "weights.npz")
    assert result.returncode == 2 and "isn't a shared library" in result.stderr
    assert (tmp_path / "weights.npz").read_bytes() == before


def test_devices_pipes_and_folders_are_refused(tmp_path, model):
    os.mkfifo(tmp_path / "pipe")
    os.symlink("/dev/null", tmp_path / "null.so")
    for output in ("pipe", "null.so", "."):
        result = run("compile", model, "-o", tmp_path / output)
        assert result.returncode == 2 and "can't write" in result.stderr, result.stderr
    assert pathlib.Path("/dev/null").is_char_device()
    assert leftovers(tmp_path) == []


def test_results_never_replace_an_input(tmp_path, model):
    np.savez(tmp_path / "x.npz", x0=np.ones((4, 32), "float32"))
    result = run("run", model, "-i", tmp_path / "x.npz", "-o", tmp_path / "x.npz")
    assert result.returncode == 2 and "it is the input" in result.stderr
    assert list(np.load(tmp_path / "x.npz")) == ["x0"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_stays_behind_after_a_signal(tmp_path, number):
    path = small_model(tmp_path / "m.onnx", layers=30)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "TREADLE_CACHE": "0"}
    for delay in (0.1, 0.3, 0.5):
        process = subprocess.Popen([PROGRAM, "compile", str(path), "-o", str(tmp_path / "m.so")], env=environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(number)
        process.wait(60)
        if number != signal.SIGKILL:
            assert leftovers(tmp_path) == leftovers(temporary) == []
    assert run("compile", path, "-o", tmp_path / "m.so", env=environment).returncode == 0  # sweeps
    assert leftovers(tmp_path) == leftovers(temporary) == []
    assert treadle.load(tmp_path / "m.so")


INTERRUPTED = pytest.mark.parametrize("arguments", [("quantize", "--dynamic", "-o", "q.onnx"),
                                                    ("compile", "--precision", "auto", "-o", "q.so")])


@INTERRUPTED
def test_an_interrupt_shows_no_place_in_python(tmp_path, arguments):
    path = small_model(tmp_path / "m.onnx", layers=30)
    for delay in (0.05, 0.2, 0.6):  # Ctrl-C of a terminal reaches the program and the Python that it runs
        process = subprocess.Popen([PROGRAM, arguments[0], str(path), *arguments[1:]], stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, cwd=tmp_path, env={**os.environ, "TREADLE_PYTHON": sys.executable})
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)
        assert "Traceback" not in process.communicate(timeout=60)[1]
        assert leftovers(tmp_path) == []


@INTERRUPTED
def test_no_interrupt_is_raised_while_an_extension_starts(tmp_path, arguments):
    (tmp_path / "sitecustomize.py").write_text("""
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "onnx.onnx_cpp2py_export":
            print("imported", file=sys.stderr, flush=True)
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                print("raised", file=sys.stderr, flush=True)
sys.meta_path.insert(0, Finder())
""")
    path = small_model(tmp_path / "m.onnx", layers=1)
    environment = {**os.environ, "TREADLE_PYTHON": sys.executable, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([PROGRAM, arguments[0], path, *arguments[1:]], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode != 0 and "imported" in done.stderr and "raised" not in done.stderr


def test_threads_may_export_to_one_path(tmp_path, model):
    compiled = treadle.compile(str(model))
    path = tmp_path / "m.so"
    failures = []

    def export():
        try:
            for _ in range(10):
                compiled.export_library(str(path))
                treadle.load(str(path))
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = [threading.Thread(target=export) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and leftovers(tmp_path) == []


def test_libraries_for_another_machine_are_written_and_refused(tmp_path, model):
    path = tmp_path / "arm.so"
    result = run("compile", model, "-o", path, "--target", "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=generic")
    assert result.returncode == 0, result.stderr
    assert path.read_bytes()[18] == 183  # EM_AARCH64
    with pytest.raises(treadle.ModelFormatError, match="another processor architecture .aarch64"):
        treadle.load(path)


def test_options_of_targets_are_in_range(tmp_path, model):
    for option in ("-num-cores=0", "-num-cores=4294967296", "-vector-width=96", "-mattr=+foo"):
        result = run("compile", model, "-o", tmp_path / "m.so", "--target", f"llvm {option}")
        assert result.returncode == 2, (option, result.returncode, result.stderr)
        assert option.split("=")[0] in result.stderr
