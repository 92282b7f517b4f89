// SPDX-License-Identifier: Apache-2.0
// Conditions taken apart.
#pragma once

#include <vector>

#include "treadle/ir/prim_expr.h"

namespace treadle::tir {

/// The conditions that a conjunction consists of, in order; likely() is taken off or stays around them.
enum class Likely { kTakeOff, kKeep };
std::vector<PrimExpr> SplitConjunction(const PrimExpr& condition, Likely likely = Likely::kTakeOff);

}  // namespace treadle::tir
