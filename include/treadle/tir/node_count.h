// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/tir/stmt.h"

namespace treadle::tir {

/// Nodes of an expression, what stands in it twice counted twice, as what goes through it as a tree takes it: a square
/// of a square of .. is small in memory alone. Counts no further than `limit` + 1.
int64_t CountNodes(const PrimExpr& e, int64_t limit);
/// As above, with the nodes of all expressions of a statement.
int64_t CountNodes(const Stmt& s, int64_t limit);

}  // namespace treadle::tir
