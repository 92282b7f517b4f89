// SPDX-License-Identifier: Apache-2.0
// Sharing made explicit: expressions are trees to most passes, so what is used several times is bound once.
#pragma once

#include "treadle/ir/prim_expr.h"

namespace treadle::tir {

/// `expr`, in which a node that is costly and reached several ways (as the same object) is computed once by a Let.
/// Lets stand as far out as evaluation allows: nothing moves out of an arm of if_then_else or of the right side of
/// && and ||. Time is linear in the number of distinct nodes.
PrimExpr BindShared(const PrimExpr& expr);

}  // namespace treadle::tir
