// SPDX-License-Identifier: Apache-2.0
#include "tir/conjunction.h"

#include "treadle/ir/prim_ops.h"

namespace treadle::tir {

std::vector<PrimExpr> SplitConjunction(const PrimExpr& condition, Likely likely) {
  std::vector<PrimExpr> result, pending{condition};
  while (!pending.empty()) {
    PrimExpr e = pending.back();
    pending.pop_back();
    if (const auto* op = e.as<AndNode>()) {
      pending.push_back(op->b);
      pending.push_back(op->a);
    } else if (const auto* call = e.as<CallNode>();
               likely == Likely::kTakeOff && call != nullptr && IsCallTo(call, "tir.likely")) {
      pending.push_back(call->args[0]);
    } else {
      result.push_back(e);
    }
  }
  return result;
}

}  // namespace treadle::tir
