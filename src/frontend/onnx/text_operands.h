// SPDX-License-Identifier: Apache-2.0
// Which operands of an operator may be strings. Strings are numbers of the run's table (values.h): where one that
// isn't expected got through, it would be computed with in silence.
#pragma once

#include <string>
#include <vector>

#include "frontend/onnx/node_import.h"

namespace treadle::onnx {

struct TextOperands {
  std::vector<size_t> inputs;  ///< that may be strings; none: all of them
  bool moves = true;           ///< all outputs are strings, then; else the rule says which (NodeImport::MarkText)
  bool same = true;            ///< all of those inputs are strings, or none; else the rule checks what it gets

  bool Allows(size_t input) const;
};
/// Of an operator, named with its domain; nullptr where none may be.
const TextOperands* TextOperandsOf(const std::string& op);

/// Whether the node moves strings, so that its outputs are strings. Throws ModelFormatError where some operands are
/// that have to be the same as others, which aren't.
bool MovesText(const NodeImport& n, const TextOperands& operands);

}  // namespace treadle::onnx
