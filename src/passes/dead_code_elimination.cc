// SPDX-License-Identifier: Apache-2.0
// DeadCodeElimination: drops lets whose variable is never used; on request, puts the value of a let whose variable is
// used once in its place. Values with effects stay, in their order.
#include <unordered_set>

#include "passes/pass_util.h"

namespace treadle::relay {
namespace {

/// Uses of each let-bound variable from code that is itself alive.
class LiveUses {
 public:
  explicit LiveUses(const Expr& body) {
    stack_.push_back({body, 0});
    while (!stack_.empty()) {
      auto [expr, depth] = stack_.back();
      stack_.pop_back();
      Visit(expr, depth);
    }
  }
  int uses(const Var& var) const {
    auto it = uses_.find(var->vid.get());
    return it == uses_.end() ? 0 : it->second;
  }
  /// Whether all uses stand in the same function body, outside of branches, as the let itself.
  bool in_same_scope(const Var& var) const { return crosses_scope_.count(var->vid.get()) == 0; }

 private:
  void Visit(const Expr& expr, int depth) {
    if (const auto* var = expr.as<VarNode>()) {
      const Object* id = var->vid.get();
      if (++uses_[id] == 1) {
        // The value becomes alive with the first use.
        auto it = values_.find(id);
        if (it != values_.end()) stack_.push_back(it->second);
      }
      auto bound = depth_of_.find(id);
      if (bound != depth_of_.end() && bound->second != depth) crosses_scope_.insert(id);
      return;
    }
    if (!seen_.insert(expr.get()).second) return;
    if (const auto* let = expr.as<LetNode>()) {
      const Object* id = let->var->vid.get();
      depth_of_[id] = depth;
      values_.insert({id, {let->value, depth}});
      if (effects_.MayHaveEffect(let->value) || uses_.count(id) != 0) stack_.push_back({let->value, depth});
      stack_.push_back({let->body, depth});
      return;
    }
    bool scope = expr.as<FunctionNode>() || expr.as<IfNode>() || expr.as<MatchNode>();
    std::vector<Expr> children;
    CollectChildren(expr, &children);
    if (const auto* func = expr.as<FunctionNode>()) children = {func->body};
    for (const Expr& child : children) stack_.push_back({child, scope ? ++next_scope_ : depth});
  }

  std::vector<std::pair<Expr, int>> stack_;
  std::unordered_set<const Object*> seen_, crosses_scope_;
  std::unordered_map<const Object*, int> uses_, depth_of_;
  std::unordered_map<const Object*, std::pair<Expr, int>> values_;
  EffectFinder effects_;
  int next_scope_ = 0;
};

class Eliminator : public ExprMutator {
 public:
  Eliminator(const Expr& body, bool inline_once) : live_(body), inline_once_(inline_once) {}

 private:
  using ExprMutator::VisitExpr_;
  Expr VisitExpr_(const VarNode* op) override {
    auto it = replaced_.find(op->vid.get());
    return it == replaced_.end() ? GetRef<Expr>(op) : it->second;
  }
  Expr VisitExpr_(const LetNode* op) override {
    Expr rest = GetRef<Expr>(op);
    std::vector<LetWithValue> kept;
    while (const auto* let = rest.as<LetNode>()) {
      int uses = live_.uses(let->var);
      bool effect = effects_.MayHaveEffect(let->value);
      if (inline_once_ && uses == 1 && !effect && live_.in_same_scope(let->var)) {
        replaced_[let->var->vid.get()] = Mutate(let->value);
      } else if (uses > 0 || effect) {
        kept.emplace_back(let, Mutate(let->value));
      }
      rest = let->body;
    }
    return RebuildLets(kept, Mutate(rest));
  }

  LiveUses live_;
  EffectFinder effects_;
  bool inline_once_;
  std::unordered_map<const Object*, Expr> replaced_;
};

}  // namespace

namespace transform {

Pass DeadCodeElimination(bool inline_once) {
  return CreateFunctionPass(
      [inline_once](const Function& func, const IRModule&, const PassContext&) {
        return Downcast<Function>(Eliminator(func, inline_once).Mutate(func));
      },
      {"DeadCodeElimination", 1, {"InferType"}, "Drops lets that nobody uses"});
}

}  // namespace transform
}  // namespace treadle::relay
