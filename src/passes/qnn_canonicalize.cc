// SPDX-License-Identifier: Apache-2.0
// QnnCanonicalize: operators on quantised tensors become plain ones, by the rule that each states.
#include <algorithm>

#include "passes/pass_util.h"
#include "passes/qnn_passes.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::relay {
namespace {

/// Whether nothing but constants is in `expr`, of few operators.
bool IsClosed(const Expr& expr, int depth = 4) {
  if (expr.as<ConstantNode>() != nullptr) return true;
  const auto* call = expr.as<CallNode>();
  if (call == nullptr || depth == 0) return false;
  return std::all_of(call->args.begin(), call->args.end(), [&](const Expr& arg) { return IsClosed(arg, depth - 1); });
}

class QnnCanonicalizer : public MixedModeMutator {
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* op = pre->op.as<OpNode>();
    if (op == nullptr) return post;
    if (op->name == "add" || op->name == "nn.bias_add") return Joined(pre, post);
    return ReplaceByRule(GetRef<Op>(op).GetAttr(kQnnCanonicalize), pre, post);
  }

  /// A bias of integers and what zero points contribute to the sums are one constant: (x - c) + b is x + (b - c).
  static Expr Joined(const CallNode* pre, const Expr& post) {
    const auto* type = TensorTypeOf(GetRef<Expr>(pre));
    const auto* sum = post.as<CallNode>();
    if (type == nullptr || type->dtype != DataType::Int(32) || sum == nullptr || !IsClosed(sum->args[1])) return post;
    const CallNode* difference = AsCallOf(sum->args[0], "subtract");
    if (difference == nullptr || !IsClosed(difference->args[1])) return post;
    Expr bias = sum->args[1];
    if (pre->op.as<OpNode>()->name == "nn.bias_add") {
      const size_t rank = type->shape.size();
      const int trailing = static_cast<int>(rank) - PositiveAxis(sum->attrs_as<ops::BiasAddAttrs>()->axis, rank) - 1;
      if (trailing > 0) bias = ops::MakeExpandDims(bias, 1, trailing);
    }
    Expr constant = ops::CallOp("subtract", {bias, difference->args[1]});
    return ops::CallOp("add", {difference->args[0], constant}, Attrs(), sum->span);
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
