// SPDX-License-Identifier: Apache-2.0
#include "passes/split_reshapes.h"

#include "passes/pass_util.h"

namespace treadle::relay {
namespace {

/// Whether `e` reshapes what is computed, to sizes that it states itself.
bool IsReshapeOfCall(const Expr& e) {
  const auto* call = e.as<CallNode>();
  const auto* op = call == nullptr ? nullptr : call->op.as<OpNode>();
  return op != nullptr && call->args.size() == 1 && call->args[0].as<CallNode>() != nullptr &&
         GetRef<Op>(op).GetAttr(kReshapeOp, false);
}

class ReshapeSplitter : public MixedModeMutator {
 private:
  Expr VisitExpr_(const FunctionNode* func) override {
    return func->is_primitive() ? GetRef<Expr>(func) : MixedModeMutator::VisitExpr_(func);
  }
  using MixedModeMutator::VisitExpr_;

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = static_cast<const CallNode*>(post.get());
    if (!IsFusedCall(pre)) return post;
    const auto* func = call->op.as<FunctionNode>();
    Expr computed = func->body;
    std::vector<const CallNode*> reshapes;
    while (IsReshapeOfCall(computed)) {
      reshapes.push_back(computed.as<CallNode>());
      computed = reshapes.back()->args[0];
    }
    if (reshapes.empty()) return post;
    const Call kernel = CallPrimitive(func->params, computed, call->args, computed->span);
    const Var param("p0", computed->checked_type());
    return CallPrimitive({param}, ApplyAll(reshapes, param), {kernel}, call->span, /*reshape_only=*/true);
  }
};

}  // namespace

namespace transform {

Pass SplitReshapes() {
  return MutatorPass<ReshapeSplitter>(
      {"SplitReshapes", 0, {"InferType"}, "Makes reshapes at the ends of kernels views of what they compute"});
}

}  // namespace transform
}  // namespace treadle::relay
