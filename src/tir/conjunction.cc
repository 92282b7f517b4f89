// SPDX-License-Identifier: Apache-2.0
#include "tir/conjunction.h"

#include "treadle/ir/prim_ops.h"

namespace treadle::tir {

std::vector<PrimExpr> SplitConjunction(const PrimExpr& condition, Likely likely) {
  std::vector<PrimExpr> result, todo{condition};
  while (!todo.empty()) {
    PrimExpr e = todo.back();
    todo.pop_back();
    if (const auto* op = e.as<AndNode>()) {
      todo.push_back(op->b);
      todo.push_back(op->a);
    } else if (const auto* call = e.as<CallNode>();
               likely == Likely::kTakeOff && call != nullptr && IsCallTo(call, "tir.likely")) {
      todo.push_back(call->args[0]);
    } else {
      result.push_back(e);
    }
  }
  return result;
}

}  // namespace treadle::tir
