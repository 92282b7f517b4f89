# SPDX-License-Identifier: Apache-2.0
"""The module of the wheel treadle_runtime: models by ctypes, without the package treadle."""
import pathlib
import shutil
import sys
import threading

import numpy as np
import onnx.parser
import pytest

import treadle

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(ROOT / "packaging/runtime/treadle_runtime", folder / "treadle_runtime")
    (folder / "treadle_runtime/lib").symlink_to(pathlib.Path(treadle.__file__).parent / "lib")
    sys.path.insert(0, str(folder))
    try:
        import treadle_runtime
    finally:
        sys.path.remove(str(folder))
    return treadle_runtime


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "relu.so"
    model = '<ir_version: 8, opset_import: ["": 17]> g (float[n, 2] x, int64[1] k) => (float[n, 2] y, int64[1] l) ' \
            '{ y = Relu(x) l = Neg(k) }'
    treadle.compile(onnx.parser.parse_model(model)).save(path)
    return path


def test_runs_any_shape_that_the_model_takes(runtime, path):
    model = runtime.load(path, threads=1)
    assert model.inputs == [("x", (-1, 2), np.dtype("float32")), ("k", (1,), np.dtype("int64"))]
    for rows in (1, 3):
        x = np.arange(2 * rows, dtype="float32").reshape(rows, 2) - 1
        outputs = model(x=x, k=[5])
        np.testing.assert_array_equal(outputs["y"], np.maximum(x, 0))
        assert outputs["l"] == -5
    strided = np.arange(12, dtype="float32").reshape(3, 4)[:, ::2]
    np.testing.assert_array_equal(model(x=strided, k=[0])["y"], strided)


def test_errors_have_their_kind(runtime, path):
    model = runtime.load(path)
    with pytest.raises(runtime.Error, match="x") as refused:
        model(x=np.zeros((2, 3), "float32"), k=[0])
    assert refused.value.kind == "ShapeError"
    with pytest.raises(runtime.Error, match="no input 'z'; the inputs are: x, k"):
        model(z=1)
    with pytest.raises(runtime.Error, match="no tensor has elements of type"):
        model(x=np.array([["a", "b"]]))
    with pytest.raises(runtime.Error, match="none.so"):
        runtime.load(path.parent / "none.so")


def test_clones_run_at_the_same_time(runtime, path):
    model = runtime.load(path, threads=1)
    x = np.full((1, 2), 3, "float32")
    results = []
    threads = [threading.Thread(target=lambda own=model.clone(): results.append(own(x=x, k=[1])["y"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all((result == 3).all() for result in results)


def test_has_the_version_of_the_compiler(runtime):
    assert runtime.version() == treadle.__version__
