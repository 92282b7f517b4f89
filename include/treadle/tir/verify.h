// SPDX-License-Identifier: Apache-2.0
// Checks that a function is well formed, in either form.
#pragma once

#include <string>

#include "treadle/tir/function.h"

namespace treadle::tir {

/// "" when the function is well formed, else the first fault with where it is:
/// variables are defined where they are used and once only; buffers are parameters, allocated or declared by views;
/// blocks use their own axes, not the loops around them.
std::string FindFault(const PrimFunc& func);
/// Throws InternalError that names `after` (such as a pass) where there is a fault.
void VerifyWellFormed(const PrimFunc& func, const std::string& after);

}  // namespace treadle::tir
