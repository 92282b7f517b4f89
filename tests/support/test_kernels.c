/* SPDX-License-Identifier: Apache-2.0
 * Functions as the compiler makes them, for tests of the runtime: packed convention, no undefined symbols. */
#include <string.h>

#include "treadle/runtime/c_backend_api.h"

TREADLE_API TreadleBackendParallelLaunchFn __TreadleBackendParallelLaunch;
TREADLE_API TreadleBackendAllocWorkspaceFn __TreadleBackendAllocWorkspace;
TREADLE_API TreadleBackendFreeWorkspaceFn __TreadleBackendFreeWorkspace;
TREADLE_API TreadleBackendSetLastErrorFn __TreadleBackendSetLastError;
TREADLE_API TreadleBackendGetFuncFromEnvFn __TreadleBackendGetFuncFromEnv;
TREADLE_API TreadleBackendFuncCallFn __TreadleBackendFuncCall;
TREADLE_API void* __treadle_module_ctx;

#define KERNEL(name)                                                                                   \
  TREADLE_API int name(TreadleValue* args, int* codes, int num_args, TreadleValue* ret, int* ret_code, \
                       void* resource);                                                                \
  int name(TreadleValue* args, int* codes, int num_args, TreadleValue* ret, int* ret_code, void* resource)
#define UNUSED (void)codes, (void)num_args, (void)ret, (void)ret_code, (void)resource

static int64_t Size(const DLTensor* t) {
  int64_t size = 1;
  for (int i = 0; i < t->ndim; ++i) size *= t->shape[i];
  return size;
}

/* c = a + b */
KERNEL(test_add) {
  UNUSED;
  const DLTensor *a = args[0].v_handle, *b = args[1].v_handle, *c = args[2].v_handle;
  if (Size(a) != Size(c) || Size(b) != Size(c)) {
    __TreadleBackendSetLastError("test_add: sizes differ");
    return -1;
  }
  for (int64_t i = 0, n = Size(c); i < n; ++i) ((float*)c->data)[i] = ((float*)a->data)[i] + ((float*)b->data)[i];
  return 0;
}

typedef struct {
  const float* from;
  float* to;
  int64_t size;
} DoubleArgs;

static int DoubleTask(int task, TreadleParallelGroupEnv* env, void* data) {
  const DoubleArgs* a = data;
  int64_t part = (a->size + env->num_task - 1) / env->num_task;
  int64_t end = part * (task + 1) < a->size ? part * (task + 1) : a->size;
  for (int64_t i = part * task; i < end; ++i) a->to[i] = 2 * a->from[i];
  return 0;
}

/* b = 2 * a, in parallel, by way of a workspace */
KERNEL(test_double) {
  UNUSED;
  const DLTensor *a = args[0].v_handle, *b = args[1].v_handle;
  size_t bytes = (size_t)Size(a) * sizeof(float);
  float* scratch = __TreadleBackendAllocWorkspace(1, 0, bytes, 2, 32);
  if (scratch == NULL) return -1;
  memcpy(scratch, a->data, bytes);
  DoubleArgs launch = {scratch, b->data, Size(a)};
  int status = __TreadleBackendParallelLaunch(DoubleTask, &launch, 0);
  if (__TreadleBackendFreeWorkspace(1, 0, scratch) != 0) return -1;
  return status;
}

/* Rank of the tensor, for flattened arguments. */
KERNEL(test_rank) {
  UNUSED;
  const DLTensor *a = args[0].v_handle, *b = args[1].v_handle;
  *(float*)b->data = (float)a->ndim;
  return 0;
}

/* b = a / 0 * 0 */
KERNEL(test_nan) {
  UNUSED;
  const DLTensor* b = args[1].v_handle;
  float zero = 0.0f;
  for (int64_t i = 0, n = Size(b); i < n; ++i) ((float*)b->data)[i] = zero / zero;
  return 0;
}

KERNEL(test_fail) {
  UNUSED;
  (void)args;
  __TreadleBackendSetLastError("index 7 is out of bounds");
  return -1;
}

/* Calls the function "test.env.twice" with its argument. */
KERNEL(test_env) {
  (void)resource;
  void* function;
  if (__TreadleBackendGetFuncFromEnv(__treadle_module_ctx, "test.env.twice", &function) != 0) return -1;
  return __TreadleBackendFuncCall(function, args, codes, num_args, ret, ret_code);
}
