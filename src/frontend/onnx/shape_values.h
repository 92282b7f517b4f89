// SPDX-License-Identifier: Apache-2.0
// What an import knows of the integers that shapes are computed with, element by element, where dimensions are
// symbolic.
#pragma once

#include <optional>
#include <vector>

#include "treadle/relay/expr.h"

namespace treadle::onnx {

/// Elements of a small integer or bool tensor (of rank 0 or 1) as int64 expressions of symbolic dimensions; null where
/// an element isn't known. Nothing where not even their number is.
std::optional<std::vector<PrimExpr>> ShapeElements(const relay::Expr& expr);

/// The value, if all elements are known constants.
std::optional<std::vector<int64_t>> KnownElements(const relay::Expr& expr);

}  // namespace treadle::onnx
