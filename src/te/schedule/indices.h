// SPDX-License-Identifier: Apache-2.0
// Axes of an operation and the axes that a stage's steps made of them, each in terms of the other.
#pragma once

#include <vector>

#include "treadle/ir/prim_ops.h"
#include "treadle/te/schedule.h"

namespace treadle::te {

inline bool IsReduce(const IterVar& iv) { return iv->iter_type == tir::IterVarType::kCommReduce; }

/// Axes of an operation, the reduction axes or the others, in terms of those that the steps made of them.
struct StageIndices {
  Map<Var, PrimExpr> values;
  PrimExpr condition = tir::make_bool(true);  ///< of the indices that imperfect splits don't cut off
  std::vector<StageStep> other_steps;         ///< those of axes of the other kind
};
/// Throws ScheduleError, in the name of `primitive`, where reduction axes were reordered or fused with data axes. The
/// order of data axes is that of the stage's leaves.
StageIndices IndicesOf(const StageNode* stage, const Array<IterVar>& axes, bool reduced, const char* primitive);

/// The position along each axis that the steps made of data axes, the leaves among them, in terms of the operation's.
Map<Var, PrimExpr> PositionsOf(const StageNode* stage, const Array<IterVar>& axes);

}  // namespace treadle::te
