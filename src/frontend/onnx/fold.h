// SPDX-License-Identifier: Apache-2.0
// Computes calls of operators on small known values: what models compute shapes, axes and sizes with.
#pragma once

#include <optional>
#include <vector>

#include "treadle/ir/attrs.h"
#include "treadle/ir/op.h"
#include "treadle/relay/expr.h"

namespace treadle::onnx {

/// Most elements that an operand or result of a folded call may have.
inline constexpr int64_t kMaxFoldedElements = 4096;

/// The result of `op` applied to `args` (Constants, or Tuples of them), whose inferred type is `type`; nothing when it
/// isn't known or is better left to constant folding on the graph. Arithmetic is in float64 or int64, rounded to the
/// result's type.
std::optional<NDArray> FoldCall(const Op& op, const Array<relay::Expr>& args, const Attrs& attrs, const Type& type);

}  // namespace treadle::onnx
