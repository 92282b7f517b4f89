// SPDX-License-Identifier: Apache-2.0
// The text form of loop-level code: nested `for`, buffers indexed in brackets. What is printed parses to a
// structurally equal value (tensor-level nodes, Reduce and ProducerLoad, are printed only).
#pragma once

#include <string>

#include "treadle/tir/function.h"

namespace treadle::tir {

/// Of a function, a module whose functions are all loop-level, a statement, expression, buffer, range or axis.
std::string AsText(const ObjectRef& node, bool show_version = true);

/// Reads a function. Throws ModelFormatError with line, column and what was expected.
PrimFunc ParsePrimFunc(const std::string& text, const std::string& source_name = "text");

}  // namespace treadle::tir
