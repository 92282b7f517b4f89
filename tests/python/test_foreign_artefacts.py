# SPDX-License-Identifier: Apache-2.0
"""What TVM 0.8 writes for a model (mod.so, .json and .params, as its users save them) runs. The three are made here by
other means: C in the form of its kernels, JSON and bytes by hand."""
import json
import shutil
import struct
import subprocess

import numpy as np
import pytest

import treadle
from treadle.contrib import graph_executor

CC = next((c for c in ("cc", "gcc", "clang", "clang-19") if shutil.which(c)), None)
pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")

# What its code generator emits calls the run time through pointers that the loader sets.
KERNELS = """
#include <stdint.h>
typedef union { int64_t v_int64; double v_float64; void* v_handle; } Value;
typedef struct { int32_t type, id; } Device;
typedef struct { void* data; Device device; int32_t ndim; uint32_t dtype; int64_t *shape, *strides; uint64_t offset; } Tensor;
typedef struct { void* sync_handle; int32_t num_task; } Env;
void* __tvm_module_ctx = 0;
void* (*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int) = 0;
int (*__TVMBackendFreeWorkspace)(int, int, void*) = 0;
int (*__TVMBackendParallelLaunch)(int (*)(int, Env*, void*), void*, int) = 0;
void (*__TVMAPISetLastError)(const char*) = 0;
typedef struct { float *a, *b, *out; } Closure;
static int lambda(int task, Env* env, void* data) {
  Closure* c = data;
  for (int i = task; i < 6; i += env->num_task) c->out[i] = c->a[i] + c->b[i];
  return 0;
}
int32_t tvmgen_default_fused_add(Value* args, int* codes, int num, Value* ret, int* ret_code, void* resource) {
  if (num != 3) { __TVMAPISetLastError("tvmgen_default_fused_add: num_args should be 3"); return -1; }
  float* space = __TVMBackendAllocWorkspace(1, 0, 24, 2, 32);
  Closure c = {((Tensor*)args[0].v_handle)->data, ((Tensor*)args[1].v_handle)->data, space};
  if (!space || !__tvm_module_ctx || __TVMBackendParallelLaunch(lambda, &c, 0)) return -1;
  for (int i = 0; i < 6; ++i) ((float*)((Tensor*)args[2].v_handle)->data)[i] = space[i];
  return __TVMBackendFreeWorkspace(1, 0, space);
}
"""


def library(folder, text):
    source, path = folder / "mod.c", folder / "mod.so"
    source.write_text(text)
    subprocess.run([CC, "-shared", "-fPIC", "-O1", source, "-o", path], check=True)
    return path


def params(name, array):
    tensor = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim, 2, 32, 1)
    tensor += struct.pack(f"<{array.ndim}qq", *array.shape, array.nbytes) + array.tobytes()
    return struct.pack("<QQQQ", 0xF7E58D4F05049CB7, 0, 1, len(name)) + name.encode() + struct.pack("<Q", 1) + tensor


def graph():
    op = {"op": "tvm_op", "name": "tvmgen_default_fused_add", "inputs": [[0, 0, 0], [1, 0, 0]],
          "attrs": {"num_outputs": "1", "num_inputs": "2", "flatten_data": "0", "func_name": "tvmgen_default_fused_add",
                    "hash": "6ecf6f2d0f4bc1c8"}}
    inputs = [{"op": "null", "name": name, "inputs": []} for name in ("x", "p0")]
    attrs = {"dltype": ["list_str", ["float32"] * 3], "device_index": ["list_int", [1, 1, 1]],
             "storage_id": ["list_int", [0, 1, 2]], "shape": ["list_shape", [[2, 3]] * 3]}
    return json.dumps({"nodes": [*inputs, op], "arg_nodes": [0, 1], "heads": [[2, 0, 0]], "attrs": attrs,
                       "node_row_ptr": [0, 1, 2, 3]})


def test_the_three_files_run(tmp_path):
    weight = np.random.default_rng(0).random((2, 3), "float32")
    lib = treadle.runtime.load_module(library(tmp_path, KERNELS))
    module = graph_executor.create(graph(), lib, treadle.cpu())
    module.load_params(params("p0", weight))
    value = np.random.default_rng(1).random((2, 3), "float32")
    module.run(x=value)
    np.testing.assert_array_equal(module.get_output(0).numpy(), value + weight)
    with pytest.raises(treadle.Error, match="num_args should be 3"):
        lib["tvmgen_default_fused_add"](1)
    assert not lib.implements_function("__TVMBackendAllocWorkspace")


def test_stored_modules_are_refused_by_name(tmp_path):
    path = library(tmp_path, KERNELS + "const unsigned char __tvm_dev_mblob[8] = {0};\n")
    with pytest.raises(treadle.Error, match="library of kernels alone"):
        treadle.runtime.load_module(path)
