// SPDX-License-Identifier: Apache-2.0
// FastMath: exp, erf, tanh and softmax become their polynomial approximations (ops::kFastForm). Changes results within
// the error of these; so it only runs at a level, or when asked for.
#include "passes/pass_util.h"
#include "treadle/ops/traits.h"

namespace treadle::relay {
namespace {

class FastMathMutator : public MixedModeMutator {
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* op = pre->op.as<OpNode>();
    const auto* fast = op == nullptr ? nullptr : GetRef<Op>(op).GetAttr(ops::kFastForm);
    if (fast == nullptr) return post;
    const auto* call = static_cast<const CallNode*>(post.get());
    return Call(Op::Get(*fast), call->args, call->attrs, call->type_args, call->span);
  }
};

}  // namespace

namespace transform {

Pass FastMath() {
  return MutatorPass<FastMathMutator>(
      {"FastMath", 4, {"InferType"}, "Uses fast approximations of exp, erf, tanh and softmax"});
}

}  // namespace transform
}  // namespace treadle::relay
