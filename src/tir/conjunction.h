// SPDX-License-Identifier: Apache-2.0
// Conditions taken apart.
#pragma once

#include <vector>

#include "treadle/ir/prim_expr.h"

namespace treadle::tir {

/// What becomes of likely() around conditions.
enum class Likely { kTakeOff, kKeep };
/// The conditions that a conjunction consists of, in order.
std::vector<PrimExpr> SplitConjunction(const PrimExpr& condition, Likely likely = Likely::kTakeOff);

}  // namespace treadle::tir
