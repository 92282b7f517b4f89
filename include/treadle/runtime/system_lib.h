/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that are linked into the program: objects compiled with -system-lib call these when they are loaded and
 * unloaded; "runtime.SystemLib" is a module of what is there. */
#ifndef TREADLE_RUNTIME_SYSTEM_LIB_H_
#define TREADLE_RUNTIME_SYSTEM_LIB_H_

#include "treadle/runtime/c_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A function in the packed calling convention, under its symbol; the last one of a name is found. */
TREADLE_API void TreadleBackendRegisterSystemLibSymbol(const char* name, void* function);
/** The function is about to go. */
TREADLE_API void TreadleBackendForgetSystemLibSymbol(const char* name, void* function);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TREADLE_RUNTIME_SYSTEM_LIB_H_ */
