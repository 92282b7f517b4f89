/* SPDX-License-Identifier: Apache-2.0
 * The C interface of libtreadle_runtime.so: compiled models, modules, functions and tensors. Plain C99.
 *
 * Functions that return int return 0, or -1 with the calling thread's error in TreadleGetLastError. Handles that are
 * returned are the caller's to free. Names and shapes that are returned live as long as the handle they came from.
 * A model handle must not be used by two threads at once; TreadleModelClone makes further ones that share its weights.
 */
#ifndef TREADLE_RUNTIME_C_API_H_
#define TREADLE_RUNTIME_C_API_H_

#include "treadle/runtime/c_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TreadleModel* TreadleModelHandle;
typedef struct TreadleModule* TreadleModuleHandle;
typedef struct TreadleFunc* TreadleFuncHandle;

/** Text of the calling thread's last error: one line. Valid until its next error. */
TREADLE_API const char* TreadleGetLastError(void);
/** Class of the last error, such as "ShapeError". */
TREADLE_API const char* TreadleGetLastErrorKind(void);
/** What a command should exit with for the last error: 2 wrong use, 4 bad file, 5 failure while running. */
TREADLE_API int TreadleGetLastErrorCode(void);
/** Such as "0.1.0". */
TREADLE_API const char* TreadleVersion(void);

/* Models. */

TREADLE_API int TreadleModelLoad(const char* path, TreadleModelHandle* out);
/** Another handle of the same model: shares code and weights, has inputs and outputs of its own. */
TREADLE_API int TreadleModelClone(TreadleModelHandle model, TreadleModelHandle* out);
TREADLE_API void TreadleModelFree(TreadleModelHandle model);
TREADLE_API int TreadleModelNumInputs(TreadleModelHandle model);
TREADLE_API int TreadleModelNumOutputs(TreadleModelHandle model);
/** Name, rank, shape (-1 where it may vary) and type of an input or output; any of the pointers may be null. */
TREADLE_API int TreadleModelInputInfo(TreadleModelHandle model, int index, const char** name, int* ndim,
                                      const int64_t** shape, DLDataType* dtype);
TREADLE_API int TreadleModelOutputInfo(TreadleModelHandle model, int index, const char** name, int* ndim,
                                       const int64_t** shape, DLDataType* dtype);
/** Threads that runs may use; 0: all that the process may. */
TREADLE_API int TreadleModelSetNumThreads(TreadleModelHandle model, int threads);
/** Copies a value. */
TREADLE_API int TreadleModelSetInput(TreadleModelHandle model, const char* name, const DLTensor* value);
TREADLE_API int TreadleModelRun(TreadleModelHandle model);
/** Later runs of the handle that take longer than so many seconds end with a RunTimeout; 0: no limit. */
TREADLE_API int TreadleModelSetTimeLimit(TreadleModelHandle model, double seconds);
/** `cancelled` != 0: the run of the handle that is going on ends with a RunCancelled, as do later ones, until this is
 * called with 0. Any thread may call it at any time before the handle is freed. */
TREADLE_API int TreadleModelCancel(TreadleModelHandle model, int cancelled);
/** An output of the last run, which must have succeeded, as a tensor of its own, to be freed with TreadleTensorFree. */
TREADLE_API int TreadleModelGetOutput(TreadleModelHandle model, int index, DLTensor** out);

/* Tensors: a DLTensor that was created here is reference-counted. */

TREADLE_API int TreadleTensorCreate(const int64_t* shape, int ndim, DLDataType dtype, DLDevice device, DLTensor** out);
TREADLE_API void TreadleTensorFree(DLTensor* tensor);
TREADLE_API size_t TreadleTensorNumBytes(const DLTensor* tensor);
TREADLE_API int TreadleTensorCopyFromBytes(DLTensor* tensor, const void* data, size_t bytes);
TREADLE_API int TreadleTensorCopyToBytes(const DLTensor* tensor, void* data, size_t bytes);
TREADLE_API int TreadleTensorCopy(const DLTensor* from, DLTensor* to);
/** Takes the DLPack tensor over. */
TREADLE_API int TreadleTensorFromDLPack(DLManagedTensor* managed, DLTensor** out);
/** The receiver calls the result's deleter. */
TREADLE_API int TreadleTensorToDLPack(DLTensor* tensor, DLManagedTensor** out);
/** Parses "float32", "int8", ... */
TREADLE_API int TreadleDataTypeFromString(const char* text, DLDataType* out);

/* Modules and functions. */

/** `format` may be null or empty: the file's extension tells it. */
TREADLE_API int TreadleModuleLoadFromFile(const char* path, const char* format, TreadleModuleHandle* out);
TREADLE_API void TreadleModuleFree(TreadleModuleHandle module);
TREADLE_API int TreadleModuleImport(TreadleModuleHandle module, TreadleModuleHandle other);
/** `*out` is null when there is no such function. */
TREADLE_API int TreadleModuleGetFunction(TreadleModuleHandle module, const char* name, int query_imports,
                                         TreadleFuncHandle* out);
/** Calls a function. Text that is returned lives until the thread's next call; an object (codes 8, 9, 10, 13) is the
 * caller's to free with TreadleObjectFree, TreadleModuleFree, TreadleFuncFree, TreadleTensorFree. */
TREADLE_API int TreadleFuncCall(TreadleFuncHandle func, TreadleValue* args, int* type_codes, int num_args,
                                TreadleValue* ret, int* ret_code);
/** Makes a function of a C function; `finalizer` (may be null) is called with `resource` when it is freed. */
TREADLE_API int TreadleFuncCreate(TreadlePackedCFunc function, void* resource, void (*finalizer)(void*),
                                  TreadleFuncHandle* out);
TREADLE_API void TreadleFuncFree(TreadleFuncHandle func);
/** `*out` is null when there is no such function. */
TREADLE_API int TreadleFuncGetGlobal(const char* name, TreadleFuncHandle* out);
TREADLE_API int TreadleFuncRegisterGlobal(const char* name, TreadleFuncHandle func, int override_existing);
/** `*removed` (may be null) tells whether there was one. */
TREADLE_API int TreadleFuncRemoveGlobal(const char* name, int* removed);
/** The names live until the thread's next call of this function. */
TREADLE_API int TreadleFuncListGlobalNames(int* count, const char* const** names);
TREADLE_API void TreadleObjectFree(void* object);
/** Limit of the calling thread's parallelism; 0: the default. */
TREADLE_API int TreadleSetNumThreads(int threads);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TREADLE_RUNTIME_C_API_H_ */
