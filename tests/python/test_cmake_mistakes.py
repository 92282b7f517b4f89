# SPDX-License-Identifier: Apache-2.0
"""Mistakes in a CMakeLists.txt that uses find_package(treadle): what CMake prints, and at which line."""
import shutil
import subprocess

import onnx
import onnx.parser
import pytest

import treadle

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("cc") is None, reason="no CMake or C compiler")
USAGE = "expected treadle_add_model(target model.onnx [OUTPUT model.so] [OPTIONS flags of treadle compile])"


def configure(folder, lines):
    """(status, what CMake says on standard error, in one line)."""
    (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.25)\nproject(p C)\n{lines}\n")
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    model = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(model), folder / "m o.onnx")
    done = subprocess.run(["cmake", "-S", folder, "-B", folder / "out", f"-DCMAKE_PREFIX_PATH={treadle.cmake_prefix_path}"],
                          capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, " ".join(done.stderr.split())


@pytest.mark.parametrize("line, text", [
    ("treadle_add_model()", "the target or the model is missing; " + USAGE),
    ("treadle_add_model(app)", "the target or the model is missing; " + USAGE),
    ('treadle_add_model(app MODEL "m o.onnx")', "not expected: m o.onnx; " + USAGE),
    ('treadle_add_model(app "m o.onnx" TARGT llvm)', "not expected: TARGT llvm; " + USAGE),
    ('treadle_add_model(ap "m o.onnx")', "there is no target ap; the first argument is the executable or library that uses the "
     "model, which add_executable or add_library makes before"),
    ('treadle_add_model(app "m o.onnx")\ntreadle_add_model(app "m o.onnx")', "app has a model m o already; OUTPUT gives another name"),
])
def test_models_of_targets(tmp_path, line, text):
    status, said = configure(tmp_path, "find_package(treadle REQUIRED)\nadd_executable(app main.c)\n" + line)
    assert status == 1 and f"treadle_add_model: {text} Call Stack" in said, said


def test_a_model_that_is_not_there(tmp_path):
    status, said = configure(tmp_path, "find_package(treadle REQUIRED)\nadd_executable(app main.c)\ntreadle_add_model(app n.onnx)")
    assert status == 1 and f"treadle_add_model: there is no model {tmp_path}/n.onnx" in said


def test_components_that_there_are_not(tmp_path):
    status, said = configure(tmp_path, "find_package(treadle REQUIRED COMPONENTS compiler)")
    assert status == 1
    assert "there is no component compiler; treadle::treadle_runtime and treadle::treadle are always there" in said
    assert configure(tmp_path, "find_package(treadle REQUIRED OPTIONAL_COMPONENTS compiler)")[0] == 0


def test_models_in_folders_and_names_with_spaces(tmp_path):
    status, said = configure(tmp_path, 'find_package(treadle REQUIRED)\nadd_executable(app main.c)\n'
                             'treadle_add_model(app "m o.onnx" OUTPUT "sub folder/a b.so")')
    assert status == 0, said
    subprocess.run(["cmake", "--build", tmp_path / "out"], check=True, capture_output=True, timeout=120)
    assert treadle.load(tmp_path / "out/sub folder/a b.so")([-1, 2])["y"].tolist() == [0, 2]
