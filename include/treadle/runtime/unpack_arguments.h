/* SPDX-License-Identifier: Apache-2.0
 * Checks of a compiled function's arguments against a table. As the functions of c_backend_api.h, it is called through
 * a pointer that the loader fills. */
#ifndef TREADLE_RUNTIME_UNPACK_ARGUMENTS_H_
#define TREADLE_RUNTIME_UNPACK_ARGUMENTS_H_

#include "treadle/runtime/c_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  kTreadleArgTensor =
      0, /**< a DLTensor* in the CPU's memory; in the table follow type code, bits, lanes, rank, sizes */
  kTreadleArgPointer = 1, /**< v_handle */
  kTreadleArgFloat = 2,   /**< v_float64 */
  kTreadleArgInt = 3,     /**< v_int64 */
} TreadleArgKind;

enum { kTreadleArgMultiple = 65536 };

/** `table`: the number of arguments, then for each a TreadleArgKind and what follows it there. A size of -1 - s is
 * scalar s: its first use gives the scalar that value, where it isn't an argument itself; the others must equal it.
 * A size of -1 - s - (m - 1) * kTreadleArgMultiple is m times scalar s, s below kTreadleArgMultiple.
 * `names`: lines: the function's name, those of its tensors, of its scalars. `data` receives the data pointers of
 * tensors; `scalars` first the arguments that aren't tensors (a float as its 64 bits), then the other ones.
 * Tensors have to be compact, of byte_offset 0. Returns 0, or -1 after TreadleBackendSetLastError. */
TREADLE_API int TreadleBackendUnpackArguments(const TreadleValue* args, const int* type_codes, int num_args,
                                              const int64_t* table, const char* names, void** data, int64_t* scalars);

typedef int (*TreadleBackendUnpackArgumentsFn)(const TreadleValue*, const int*, int, const int64_t*, const char*,
                                               void**, int64_t*);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TREADLE_RUNTIME_UNPACK_ARGUMENTS_H_ */
