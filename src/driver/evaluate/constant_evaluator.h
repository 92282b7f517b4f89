// SPDX-License-Identifier: Apache-2.0
// Computes operators on constants for the pass FoldConstant.
#pragma once

#include "treadle/relay/expr.h"

namespace treadle::driver {

/// Value of a typed call whose arguments are constants or tuples of constants: a Constant, or a Tuple of them. Null
/// where it isn't worth it or not allowed: results above kMaxFoldedBytes and above twice the operands (a large weight
/// may be packed, a small value must not fill the memory), operators without a tensor compute or of data-dependent
/// shape. What only moves elements, and element-wise arithmetic on float32, is done directly since weights are large;
/// everything else runs in the StackVM.
relay::Expr EvaluateConstant(const relay::Expr& expr);

inline constexpr int64_t kMaxFoldedBytes = int64_t{512} << 20;

}  // namespace treadle::driver
