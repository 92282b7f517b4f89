// SPDX-License-Identifier: Apache-2.0
// QnnCanonicalize: operators on quantised tensors become plain ones, by the rule that each states.
#include "passes/pass_util.h"
#include "passes/qnn_passes.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::relay {
namespace {

class QnnCanonicalizer : public MixedModeMutator {
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* op = pre->op.as<OpNode>();
    const FLegalize* rule = op == nullptr ? nullptr : GetRef<Op>(op).GetAttr(kQnnCanonicalize);
    return ReplaceByRule(rule, pre, post);
  }
};

}  // namespace

namespace transform {

Pass QnnCanonicalize() {
  return CreateFunctionPass(
      [](const Function& func, const IRModule&, const PassContext&) {
        return Downcast<Function>(QnnCanonicalizer().Mutate(func));
      },
      {"QnnCanonicalize", 0, {"InferType"}, "Writes operators on quantised tensors as plain ones"});
}

}  // namespace transform
}  // namespace treadle::relay
