// SPDX-License-Identifier: Apache-2.0
// SimplifyInference: operators become what they are in inference (ops::kInferenceForm): norms arithmetic, dropout its
// input.
#include "passes/pass_util.h"
#include "treadle/ops/traits.h"

namespace treadle::relay {
namespace {

class InferenceSimplifier : public MixedModeMutator {
 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* op = pre->op.as<OpNode>();
    const auto* form = op == nullptr ? nullptr : GetRef<Op>(op).GetAttr(ops::kInferenceForm);
    const auto* type = form == nullptr || pre->args.empty() ? nullptr : pre->args[0]->type_as<TensorTypeNode>();
    return type == nullptr ? post : (*form)(static_cast<const CallNode*>(post.get()), type);
  }

  Expr Rewrite_(const TupleGetItemNode* pre, const Expr& post) override {
    // Fields of what was an operator with several results.
    const auto* tuple = static_cast<const TupleGetItemNode*>(post.get())->tuple.as<TupleNode>();
    if (tuple != nullptr && pre->tuple.as<CallNode>() != nullptr) return tuple->fields[static_cast<size_t>(pre->index)];
    return post;
  }
};

}  // namespace

namespace transform {

Pass SimplifyInference() {
  return CreateFunctionPass(
      [](const Function& func, const IRModule&, const PassContext&) {
        return Downcast<Function>(InferenceSimplifier().Mutate(func));
      },
      {"SimplifyInference", 0, {"InferType"}, "Turns normalisations into arithmetic and drops dropout"});
}

}  // namespace transform
}  // namespace treadle::relay
