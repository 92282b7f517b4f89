// SPDX-License-Identifier: Apache-2.0
// Selects in indices whose condition is the same for all lanes of a vector: what is read is decided once per vector, as
// of operands that a run may broadcast.
#pragma once

#include <functional>

#include "treadle/ir/prim_expr.h"

namespace treadle::tir {

/// The condition of a select in `index` that `uses_lanes` doesn't hold for, if it does for the select; null where there
/// is none, and where there are so many that deciding each would multiply what is read.
PrimExpr SharedConditionIn(const PrimExpr& index, const std::function<bool(const PrimExpr&)>& uses_lanes);
/// `e` with one side of each select that has that condition.
PrimExpr TakeSide(const PrimExpr& e, const PrimExpr& condition, bool side);

}  // namespace treadle::tir
