// SPDX-License-Identifier: Apache-2.0
// What broadcasting asks of sizes that only a run knows.
#pragma once

#include <optional>

#include "treadle/ir/expr.h"

namespace treadle::ops {

/// What has to equal `to` so that a dimension is 1 or `to`, which it is broadcast to. Nothing where it is known to be,
/// or known not to be, and where AnyDim leaves nothing to compare.
std::optional<PrimExpr> BroadcastSize(const PrimExpr& dim, const PrimExpr& to);

}  // namespace treadle::ops
