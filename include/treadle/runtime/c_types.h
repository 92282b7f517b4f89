/* SPDX-License-Identifier: Apache-2.0
 * The packed calling convention: what every compiled function, and every function called by name, looks like. */
#ifndef TREADLE_RUNTIME_C_TYPES_H_
#define TREADLE_RUNTIME_C_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#include "treadle/runtime/dlpack.h"

#if defined(_WIN32)
#define TREADLE_API __declspec(dllexport)
#else
#define TREADLE_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** One argument or result; a TreadleTypeCode beside it says which member is set. */
typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
  const char* v_str;
  DLDataType v_type;
  DLDevice v_device;
} TreadleValue;

typedef enum {
  kTreadleInt = 0,           /**< v_int64; bools too */
  kTreadleFloat = 2,         /**< v_float64 */
  kTreadleHandle = 3,        /**< v_handle: a plain pointer */
  kTreadleNull = 4,          /**< nothing */
  kTreadleDataType = 5,      /**< v_type */
  kTreadleDevice = 6,        /**< v_device */
  kTreadleDLTensor = 7,      /**< v_handle: a DLTensor* that the caller keeps alive */
  kTreadleObject = 8,        /**< v_handle: a reference to an object */
  kTreadleModule = 9,        /**< v_handle: a module */
  kTreadlePackedFunc = 10,   /**< v_handle: a function */
  kTreadleStr = 11,          /**< v_str: zero-terminated UTF-8 */
  kTreadleBytes = 12,        /**< v_handle: a TreadleByteArray* */
  kTreadleNDArray = 13,      /**< v_handle: the DLTensor* inside a reference-counted tensor */
  kTreadleObjectRValue = 14, /**< v_handle: a pointer to a reference that the callee may take over */
} TreadleTypeCode;

typedef struct {
  const char* data;
  size_t size;
} TreadleByteArray;

/** A function in the packed calling convention. Returns 0, or -1 after TreadleBackendSetLastError.
 * `ret_code` is kTreadleNull on entry; an object that is returned carries a reference that the caller releases. */
typedef int (*TreadlePackedCFunc)(TreadleValue* args, int* type_codes, int num_args, TreadleValue* ret, int* ret_code,
                                  void* resource);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TREADLE_RUNTIME_C_TYPES_H_ */
