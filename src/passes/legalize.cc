// SPDX-License-Identifier: Apache-2.0
// Legalize: each operator may state a rule that rewrites its calls into a form that can be lowered.
#include "passes/pass_util.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::relay {
namespace {

class Legalizer : public MixedModeMutator {
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* op = pre->op.as<OpNode>();
    const FLegalize* rule = op == nullptr ? nullptr : GetRef<Op>(op).GetAttr(kLegalize);
    return ReplaceByRule(rule, pre, post);
  }
};

}  // namespace

namespace transform {

Pass Legalize() {
  return MutatorPass<Legalizer>(
      {"Legalize", 1, {"InferType"}, "Rewrites calls by their operators' legalisation rules"});
}

}  // namespace transform
}  // namespace treadle::relay
