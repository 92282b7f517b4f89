// SPDX-License-Identifier: Apache-2.0
// Partial results of reductions.
#pragma once

#include <string>
#include <vector>

#include "tir/schedule/reducer_match.h"
#include "tir/schedule/tree.h"

namespace treadle::tir::primitive {

/// A reduction, and one of the loops that drive it.
struct Reduction {
  PlacedBlock placed;
  const ForNode* loop;
  Reducer reducer;
  std::vector<const BufferStoreNode*> inits;  ///< one for each store of the reducer
};
/// Throws a ScheduleError in the name of `primitive` where the reducer isn't one that MatchReducer knows, or where the
/// loop drives axes that aren't reduced, or none.
Reduction ReductionOver(const PlacedBlock& placed, const ForNode* loop, const char* primitive);

/// A block, named `name`, to stand in place of the original: its data axis for the loop is dimension `axis` of the
/// buffers `partial` (by that of the result), where it adds up what that iteration of the loop gives. Its predicate is
/// that part of the original's which reduced loops don't matter to.
BlockRealize PartialBlock(const Reduction& p, const Map<Buffer, Buffer>& partial, size_t axis, const std::string& name);

}  // namespace treadle::tir::primitive
