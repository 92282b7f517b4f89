// SPDX-License-Identifier: Apache-2.0
// The text form of loop-level code: nested `for`, buffers indexed in brackets.
#pragma once

#include <string>

#include "treadle/ir/module.h"
#include "treadle/tir/function.h"

namespace treadle::tir {

/// Of a function, a module whose functions are all loop-level, a statement, expression, buffer, range or axis.
std::string AsText(const ObjectRef& node, bool show_version = true);

/// The function that AsText printed. Names the source `name` in errors, which are ModelFormatError with line, column
/// and the line itself.
PrimFunc ParsePrimFunc(const std::string& source, const std::string& name = "text");
/// A module of printed functions, each called by its global_symbol.
IRModule ParseModule(const std::string& source, const std::string& name = "text");

}  // namespace treadle::tir
