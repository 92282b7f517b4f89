// SPDX-License-Identifier: Apache-2.0
// Rematerialize: cheap arithmetic on one large operand that is in memory anyway, a reduction of which is wanted as well
// as the values, is computed for each of them: to store it takes longer than to compute it again. Differences from the
// mean, in norms, are the usual case.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "passes/pass_util.h"
#include "treadle/ops/traits.h"

namespace treadle::relay {
namespace {

/// The calls that use each expression, each of them once; null for other uses.
using Consumers = std::unordered_map<const Object*, std::vector<const CallNode*>>;

Consumers FindConsumers(const Expr& root) {
  Consumers consumers;
  auto add = [&](const Expr& used, const CallNode* by) {
    std::vector<const CallNode*>& all = consumers[used.get()];
    if (by == nullptr || std::find(all.begin(), all.end(), by) == all.end()) all.push_back(by);
  };
  std::vector<Expr> children;
  PostOrderVisit(root, [&](const Expr& e) {
    if (const auto* call = e.as<CallNode>()) {
      for (const Expr& arg : call->args) add(arg, call);
      return;
    }
    children.clear();
    CollectChildren(e, &children);
    for (const Expr& child : children) add(child, nullptr);
  });
  add(root, nullptr);
  return consumers;
}

class Rematerializer : public MixedModeMutator {
 public:
  explicit Rematerializer(const Expr& root) : consumers_(FindConsumers(root)) {}

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = static_cast<const CallNode*>(post.get());
    Array<Expr> args = call->args;
    std::unordered_map<const Object*, Expr> own;
    for (size_t i = 0; i < pre->args.size(); ++i) {
      const auto* arg = pre->args[i].as<CallNode>();
      if (arg == nullptr || !IsWorthwhile(arg)) continue;
      Expr& copy = own[arg];
      const auto* made = args[i].as<CallNode>();
      if (made == nullptr) continue;
      if (!copy.defined()) copy = Call(made->op, made->args, made->attrs, made->type_args, made->span);
      args.Set(i, copy);
    }
    return own.empty() ? post : Expr(Call(call->op, args, call->attrs, call->type_args, call->span));
  }

  std::vector<const CallNode*> UsersOf(const Object* e) const {
    const auto it = consumers_.find(e);
    return it == consumers_.end() ? std::vector<const CallNode*>() : it->second;
  }

  /// Whether each consumer shall have the call for itself.
  bool IsWorthwhile(const CallNode* call) const {
    const std::string& name = OpName(call);
    if (name != "subtract" && name != "add" && name != "multiply") return false;
    const std::vector<const CallNode*> users = UsersOf(call);
    if (users.size() < 2 || std::find(users.begin(), users.end(), nullptr) != users.end()) return false;
    return HasOneLargeOperand(call) &&
           std::any_of(users.begin(), users.end(), [&](const CallNode* user) { return IsReducedBy(user); });
  }

  /// Whether one operand has the size of the result and is in memory, and the other one is small.
  bool HasOneLargeOperand(const CallNode* call) const {
    const auto *type = call->type_as<TensorTypeNode>(), *a = TensorTypeOf(call->args[0]),
               *b = TensorTypeOf(call->args[1]);
    if (type == nullptr || a == nullptr || b == nullptr || !type->dtype.is_float()) return false;
    const auto is_small = [&](const TensorTypeNode* other) {
      const size_t more = type->shape.size() - other->shape.size();
      for (size_t i = 0; i < other->shape.size(); ++i) {
        if (tir::is_one(other->shape[i]) && !tir::is_one(type->shape[more + i])) return true;
      }
      return false;
    };
    const bool first = ShapesEqual(a->shape, type->shape) && is_small(b);
    if (!first && !(ShapesEqual(b->shape, type->shape) && is_small(a))) return false;
    const Expr& large = call->args[first ? 0 : 1];
    return large.as<VarNode>() != nullptr || UsersOf(large.get()).size() > 1;
  }

  /// Whether the call is a reduction, or what nothing but one follows from.
  bool IsReducedBy(const CallNode* call) const {
    constexpr int kMost = 4;
    for (int i = 0; i < kMost && call != nullptr; ++i) {
      if (PatternOf(call) == OpPatternKind::kCommReduce) return true;
      if (PatternOf(call) > OpPatternKind::kBroadcast) return false;
      const std::vector<const CallNode*> users = UsersOf(call);
      if (users.size() != 1) return false;
      call = users[0];
    }
    return false;
  }

  Consumers consumers_;
};

}  // namespace

namespace transform {

Pass Rematerialize() {
  return MutatorPass<Rematerializer>(
      {"Rematerialize", 2, {"InferType"}, "Computes again what is cheaper than to store, as differences from means"});
}

}  // namespace transform
}  // namespace treadle::relay
