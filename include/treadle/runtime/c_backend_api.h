/* SPDX-License-Identifier: Apache-2.0
 * What compiled code calls. A compiled library links against nothing: for each function it uses, it defines a global
 * variable of pointer type named "__" + the function's name, such as
 *
 *     __attribute__((visibility("default"))) TreadleBackendParallelLaunchFn __TreadleBackendParallelLaunch;
 *
 * and the loader stores the function's address there before anything runs. It also fills `void* __treadle_module_ctx`
 * (when present) with what TreadleBackendGetFuncFromEnv takes as its first argument. Libraries that do link against
 * libtreadle_runtime.so may call the functions directly. */
#ifndef TREADLE_RUNTIME_C_BACKEND_API_H_
#define TREADLE_RUNTIME_C_BACKEND_API_H_

#include "treadle/runtime/c_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The group of tasks that a parallel lambda is one of. */
typedef struct {
  void* reserved;
  int32_t num_task;
} TreadleParallelGroupEnv;

/** Runs task `task_id` of `env->num_task`; 0, or -1 after TreadleBackendSetLastError. */
typedef int (*TreadleParallelLambda)(int task_id, TreadleParallelGroupEnv* env, void* cdata);

/** Runs `lambda` for each task and waits. `num_task` 0 leaves the number of tasks to the runtime, and so does -n, but
 * for at most n tasks; the lambda must divide its work by env->num_task. Nested launches run their tasks one after the
 * other. Returns 0, or -1 with the error of the first task that failed. */
TREADLE_API int TreadleBackendParallelLaunch(TreadleParallelLambda lambda, void* cdata, int num_task);
/** Scratch memory of the calling thread, aligned to 128 bytes; freed by the same thread in reverse order.
 * `dtype_code_hint` and `dtype_bits_hint` say what it will hold. Null, with the last error set, when there is none. */
TREADLE_API void* TreadleBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                                               int dtype_bits_hint);
TREADLE_API int TreadleBackendFreeWorkspace(int device_type, int device_id, void* ptr);
/** Sets the calling thread's error text; the failing function then returns -1. */
TREADLE_API void TreadleBackendSetLastError(const char* message);
/** Finds a function in the imports of the module `mod_node`, then in the global registry. The result is borrowed: it
 * lives as long as the module. */
TREADLE_API int TreadleBackendGetFuncFromEnv(void* mod_node, const char* func_name, void** out);
/** Calls a function that TreadleBackendGetFuncFromEnv or the C API returned. */
TREADLE_API int TreadleBackendFuncCall(void* func, TreadleValue* args, int* type_codes, int num_args, TreadleValue* ret,
                                       int* ret_code);

typedef int (*TreadleBackendParallelLaunchFn)(TreadleParallelLambda, void*, int);
typedef void* (*TreadleBackendAllocWorkspaceFn)(int, int, uint64_t, int, int);
typedef int (*TreadleBackendFreeWorkspaceFn)(int, int, void*);
typedef void (*TreadleBackendSetLastErrorFn)(const char*);
typedef int (*TreadleBackendGetFuncFromEnvFn)(void*, const char*, void**);
typedef int (*TreadleBackendFuncCallFn)(void*, TreadleValue*, int*, int, TreadleValue*, int*);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TREADLE_RUNTIME_C_BACKEND_API_H_ */
