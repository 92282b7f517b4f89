// SPDX-License-Identifier: Apache-2.0
// Constant factors along one dimension of a tensor, as normalisations leave them.
#pragma once

#include <optional>

#include "treadle/relay/expr.h"

namespace treadle::relay {

/// A constant factor along one dimension of a tensor.
struct Scale {
  Expr vector;  ///< rank 1, of the dimension's size
  int axis = 0;
  bool positive = false;  ///< all factors are known to be above zero
};

/// Whether `expr` is built of constants by pure operators: what SimplifyInference leaves before folding.
bool IsConstantish(const Expr& expr);
/// The factor when `factor` (typed) broadcasts along exactly one dimension of `data`.
std::optional<Scale> AsChannelScale(const Expr& factor, const TensorTypeNode* data);

}  // namespace treadle::relay
