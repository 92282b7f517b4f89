# SPDX-License-Identifier: Apache-2.0
"""The layer that everything in Python is built on: tensors, functions, nodes, errors; the size of its library."""
import os
import pathlib
import re
import struct
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import treadle
from treadle import nd


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
                                   "float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_tensors_keep_type_and_values(dtype):
    numpy_type = getattr(ml_dtypes, dtype, None) or np.dtype(dtype)
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(numpy_type)
    tensor = nd.array(values)
    assert tensor.shape == (2, 3)
    assert tensor.dtype == dtype
    np.testing.assert_array_equal(tensor.numpy(), values)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1, 1)])
def test_tensors_of_odd_shapes(shape):
    tensor = nd.array(np.ones(shape, "float32"))
    assert tensor.shape == shape
    assert tensor.numpy().shape == shape


def test_arrays_that_are_not_contiguous_are_copied_in_order():
    values = np.arange(12, dtype="float32").reshape(3, 4).T[::2]
    np.testing.assert_array_equal(nd.array(values).numpy(), values)


def test_dlpack_shares_memory_both_ways():
    tensor = nd.array(np.zeros(4, "float32"))
    view = np.from_dlpack(tensor)
    tensor.copyfrom(np.arange(4, dtype="float32"))
    np.testing.assert_array_equal(view, [0, 1, 2, 3])
    source = np.arange(3.0)
    imported = nd.from_dlpack(source)
    source[0] = 7
    assert imported.numpy()[0] == 7


def test_memory_outlives_its_maker():
    view = np.from_dlpack(nd.array(np.arange(1000, dtype="int64")))
    assert view.sum() == 499500


def test_strings_are_not_tensors():
    with pytest.raises(treadle.DTypeError):
        nd.array(np.array(["a"]))


def test_negative_dimension_is_a_shape_error():
    with pytest.raises(treadle.ShapeError, match="-1"):
        nd.empty((-1, 2))


def test_registered_functions_take_and_return_every_kind_of_value():
    @treadle.register_func("test.identity", override=True)
    def identity(value):
        return value

    function = treadle.get_global_func("test.identity")
    for value in (None, 3, -2.5, "text", "", b"by\0tes", treadle.cpu(0), True):
        assert function(value) == value
    assert list(function([1, 2])) == [1, 2] or [int(x.value) for x in function([1, 2])] == [1, 2]
    assert function({"a": "b"})["a"] == "b"
    assert function(nd.array([1.0, 2.0])).numpy().tolist() == [1.0, 2.0]
    assert function(lambda x: x + 1)(41) == 42
    treadle._ffi.remove_global_func("test.identity")


def test_python_errors_pass_through_unchanged():
    class MyError(Exception):
        pass

    def fail():
        raise MyError("mine")

    with pytest.raises(MyError, match="mine"):
        treadle.runtime.PackedFunc(fail)()


def test_unknown_function_names_similar_ones():
    with pytest.raises(treadle.Error, match="runtime.ModuleLoadFromFile"):
        treadle.get_global_func("runtime.ModuleLoadFromFil")
    assert treadle.get_global_func("no.such", allow_missing=True) is None


def test_functions_are_called_from_many_threads():
    function = treadle.runtime.PackedFunc(lambda x: x * 2)
    results = []
    threads = [threading.Thread(target=lambda i=i: results.append(function(i))) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(0, 16, 2))


def test_missing_module_file_is_an_error_that_names_it():
    with pytest.raises(treadle.Error, match="/no/such/module.so"):
        treadle.runtime.load_module("/no/such/module.so")


def test_the_runtime_is_smaller_than_a_megabyte():
    """What is loaded of the file, which is what is left of it when it is stripped."""
    data = (pathlib.Path(treadle.__file__).parent / "lib/libtreadle_runtime.so").read_bytes()
    (table,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    assert max(offset + length for kind, _, offset, _, _, length in headers if kind == 1) < 1_000_000


@pytest.mark.parametrize("loader", ["program", "package"])
def test_libraries_are_not_looked_for_in_the_current_directory(loader, tmp_path):
    folder = pathlib.Path(treadle.__file__).parent
    command = [folder / "bin/treadle", "ops"]  # loads the compiler
    if loader == "package":
        libraries = [str(path) for path in sorted((folder / "lib").glob("*.so"))]
        command = [sys.executable, "-c", f"import ctypes, treadle\nfor path in {libraries}: ctypes.CDLL(path)"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
                         env={**os.environ, "LD_DEBUG": "libs", "PYTHONPATH": str(folder.parent)})
    searched = re.findall(r"search path=(\S*)\s+\(R(?:UN)?PATH from file (.*)\)", run.stderr)
    ours = [(path, file) for path, file in searched if "treadle" in pathlib.Path(file).name or "_core" in file]
    assert ours and [(path, file) for path, file in ours if not all(entry.startswith("/") for entry in path.split(":"))] == []
