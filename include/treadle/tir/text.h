// SPDX-License-Identifier: Apache-2.0
// The text form of loop-level code: nested `for`, buffers indexed in brackets.
#pragma once

#include <string>

#include "treadle/tir/function.h"

namespace treadle::tir {

/// Of a function, a module whose functions are all loop-level, a statement, expression, buffer, range or axis.
std::string AsText(const ObjectRef& node, bool show_version = true);

}  // namespace treadle::tir
