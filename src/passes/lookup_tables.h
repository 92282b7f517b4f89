// SPDX-License-Identifier: Apache-2.0
// Functions of bytes as tables of 256 entries.
#pragma once

#include <functional>

#include "passes/pass_util.h"

namespace treadle::relay {

/// The call `quantize` (qnn.quantize) of `real` as a table that qnn.contrib_lookup reads, where `real` is made element
/// by element of one tensor of bytes, in a way that takes longer than a table; else null. What is quantised in between
/// is part of it: from `real` back to the nearest tensor of bytes on which alone it depends. `integers` gives the
/// element type that a call of qnn.dequantize converts. The table's entries are an expression of constants.
Expr AsLookup(const CallNode* quantize, const Expr& real, const std::function<DataType(const CallNode*)>& integers);

}  // namespace treadle::relay
