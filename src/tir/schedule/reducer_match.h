// SPDX-License-Identifier: Apache-2.0
// The combiner of a reduction, recognized in the body of its block.
#pragma once

#include <functional>
#include <vector>

#include "treadle/tir/stmt.h"

namespace treadle::tir {

/// A reduction of one or several results.
struct Reducer {
  /// The stores of the results, in the order of the body.
  std::vector<const BufferStoreNode*> stores;
  /// What each result of a part starts from; null where that is the init of the whole (minima, tuples).
  std::vector<PrimExpr> identities;
  /// How two lists of results, one value for each store, become one.
  std::function<Array<PrimExpr>(const Array<PrimExpr>&, const Array<PrimExpr>&)> combine;
  /// Whether results (apart from rounding) don't depend on the order of parts: not where ties between tuples go by it.
  bool any_order = true;
};

/// The stores that a statement consists of; none where there are others.
std::vector<const BufferStoreNode*> StoresOf(const Stmt& stmt);

/// Recognizes sums, products, minima and maxima of each result by itself, and the selection of one of two tuples by
/// an order of them (argmax: select(a[1] > b[1] || (a[1] == b[1] && a[0] <= b[0]), a, b)). Where ties go to the earlier
/// tuple (a[1] >= b[1]) and one of the results is the position along the only reduced axis, parts are told by that.
/// Others throw ScheduleError that names `primitive` and the block.
Reducer MatchReducer(const BlockNode* block, const char* primitive);

}  // namespace treadle::tir
