// SPDX-License-Identifier: Apache-2.0
// Loop nests built for a block that moves elsewhere.
#pragma once

#include <vector>

#include "tir/schedule/tree.h"

namespace treadle::tir::primitive {

/// The values that an axis takes at the new place, both ends included; it may reach beyond the axis' own domain, a
/// predicate then keeps to that.
struct AxisDomain {
  PrimExpr min, max;
};

/// Each axis over its own domain.
std::vector<AxisDomain> FullDomains(const BlockNode* block);
/// Serial loops (data-parallel axes first, then reductions) around the block, running through the domains, or, if
/// `may_do_more`, through more where that makes simpler loops.
Stmt BuildNest(const Block& block, const std::vector<AxisDomain>& domains, bool may_do_more, bool keep_unit_loops,
               arith::Analyzer& analyzer);
/// Takes the block out of where it is (with loops left empty) and replaces `old_loop` by `new_loop`.
void MoveTo(ScheduleState& state, const PlacedBlock& placed, const ForNode* old_loop, const Stmt& new_loop);

}  // namespace treadle::tir::primitive
