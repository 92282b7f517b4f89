// SPDX-License-Identifier: Apache-2.0
// CanonicalizeOps: bias_add becomes expand_dims and add. CanonicalizeCast: an upcast with several element-wise
// consumers is cloned into each.
#include "passes/pass_util.h"

namespace treadle::relay {
namespace {

class BiasAddExpander : public MixedModeMutator {
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    if (AsCallOf(post, "nn.bias_add") == nullptr) return post;
    const auto* call = static_cast<const CallNode*>(post.get());
    const auto* type = pre->args[0]->type_as<TensorTypeNode>();
    if (type == nullptr) return post;
    size_t rank = type->shape.size();
    int trailing = static_cast<int>(rank) - PositiveAxis(call->attrs_as<ops::BiasAddAttrs>()->axis, rank) - 1;
    Expr bias = trailing > 0 ? ops::MakeExpandDims(call->args[1], 1, trailing) : call->args[1];
    return ops::CallOp("add", {call->args[0], bias}, Attrs(), call->span);
  }
};

class CastCloner : public ExprMutator {
 public:
  explicit CastCloner(const Expr& root) : uses_(CountUses(root)) {}

 private:
  using ExprMutator::VisitExpr_;
  Expr VisitExpr_(const CallNode* op) override {
    const auto* callee = op->op.as<OpNode>();
    bool fuses = callee != nullptr &&
                 GetRef<Op>(callee).GetAttr(kOpPattern, OpPatternKind::kOpaque) <= OpPatternKind::kBroadcast;
    if (!fuses) return ExprMutator::VisitExpr_(op);
    bool cloned = false;
    Array<Expr> args;
    for (const Expr& arg : op->args) {
      Expr value = Mutate(arg);
      const auto* cast = AsCallOf(value, "cast");
      if (IsUpcast(arg) && uses_[arg.get()] > 1) {
        value = Call(cast->op, cast->args, cast->attrs, cast->type_args, cast->span);
        cloned = true;
      }
      args.push_back(value);
    }
    if (!cloned) return ExprMutator::VisitExpr_(op);
    return Call(op->op, args, op->attrs, op->type_args, op->span);
  }

  static bool IsUpcast(const Expr& expr) {
    const auto* cast = AsCallOf(expr, "cast");
    if (cast == nullptr) return false;
    const auto* from = cast->args[0]->type_as<TensorTypeNode>();
    const auto* to = cast->type_as<TensorTypeNode>();
    return from != nullptr && to != nullptr && from->dtype.bits() < to->dtype.bits();
  }

  std::unordered_map<const Object*, int> uses_;
};

}  // namespace

namespace transform {

Pass CanonicalizeOps() {
  return MutatorPass<BiasAddExpander>({"CanonicalizeOps", 3, {"InferType"}, "Turns bias_add into expand_dims and add"});
}

Pass CanonicalizeCast() {
  return MutatorPass<CastCloner>(
      {"CanonicalizeCast", 3, {"InferType"}, "Gives each element-wise consumer its own upcast"});
}

}  // namespace transform
}  // namespace treadle::relay
