// SPDX-License-Identifier: Apache-2.0
// Functions that end with a value (tir.ret): the caller finds it where packed functions put theirs.
#pragma once

#include "treadle/tir/function.h"

namespace treadle::tir {

/// Whether a statement of the function is tir.ret(value).
bool ReturnsValue(const PrimFunc& func);

/// `body` with stores in place of tir.ret: the value, as int64 or as the bits of a float64, to value[0], its type code
/// (kTreadleInt, kTreadleFloat) to code[0]; then it ends without an error. value, code: pointers to int64 and int32.
/// DTypeError: a value that is neither a number nor a boolean.
Stmt StoreReturnValues(const Stmt& body, const Var& value, const Var& code);

}  // namespace treadle::tir
