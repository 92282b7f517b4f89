// SPDX-License-Identifier: Apache-2.0
// ToANormalForm, ToGraphNormalForm and ToBasicBlockNormalForm: the same program with sharing expressed by lets, by
// object identity, or by lets only where a value crosses scopes.
#include <algorithm>

#include "passes/pass_util.h"
#include "relay/analysis/scopes.h"

namespace treadle::relay {
namespace {

/// Emits lets scope by scope. A node is evaluated in the innermost scope that contains all its uses, so what only one
/// branch needs stays in that branch.
class LetInserter {
 public:
  /// `bind_all`: each intermediate value gets a let; else only those used from several scopes.
  LetInserter(const Expr& root, bool bind_all) : scopes_(root), uses_(CountUses(root)), bind_all_(bind_all) {}

  Expr RunFunction(const Function& root) {
    if (!bind_all_ && !scopes_.AnyCrosses()) return root;
    return ConvertFunction(root);
  }

 private:
  struct Block {
    std::vector<std::pair<Var, Expr>> lets;
  };

  bool NeedsLet(const Expr& expr) {
    if (expr.as<VarNode>() || expr.as<GlobalVarNode>() || expr.as<OpNode>() || expr.as<ConstructorNode>()) return false;
    if (bind_all_) return expr.as<ConstantNode>() == nullptr;
    return expr.as<ConstantNode>() == nullptr && scopes_.CrossesScopes(expr);
  }

  /// The expression that stands for `expr` where it is used.
  Expr Convert(const Expr& expr) {
    return WithEnoughStack([&]() -> Expr {
      auto it = memo_.find(expr);
      if (it != memo_.end()) return it->second;
      if (const auto* let = expr.as<LetNode>()) return memo_[expr] = ConvertLet(let);
      Expr result = Rebuild(expr);
      if (NeedsLet(expr)) {
        Var var("x", Type(), expr->span);
        blocks_[scopes_.ScopeOf(expr)].lets.emplace_back(var, result);
        result = var;
      }
      return memo_[expr] = result;
    });
  }

  /// Existing lets keep their variables; they go into the block of the current scope in order.
  Expr ConvertLet(const LetNode* op) {
    std::vector<Expr> chain;
    Expr rest = GetRef<Expr>(op);
    // A let within the chain may have been met before, by another user.
    while (rest.as<LetNode>() != nullptr && memo_.count(rest) == 0) {
      const auto* let = rest.as<LetNode>();
      Expr value = ConvertInPlace(let->value);
      blocks_[scopes_.ScopeOf(rest)].lets.emplace_back(let->var, value);
      chain.push_back(rest);
      rest = let->body;
    }
    Expr result = Convert(rest);
    for (const Expr& let : chain) memo_[let] = result;
    return result;
  }

  Expr InScope(int scope, const Expr& body) {
    Expr result = Convert(body);
    auto& lets = blocks_[scope].lets;
    for (size_t i = lets.size(); i-- > 0;) result = Let(lets[i].first, lets[i].second, result, lets[i].second->span);
    blocks_.erase(scope);
    return result;
  }

  Expr ConvertFunction(const Expr& expr) {
    const auto* func = expr.as<FunctionNode>();
    if (func->is_primitive() || func->GetAttr<ObjectRef>(attr::kCompiler)) return expr;
    Expr body = InScope(scopes_.InnerScope(expr, 0), func->body);
    return WithBody(GetRef<Function>(func), body);
  }

  /// A function literal that is used once stays where it is, kernels always do; other values may get a let.
  Expr ConvertInPlace(const Expr& expr) {
    const auto* func = expr.as<FunctionNode>();
    if (func == nullptr) return Convert(expr);
    if (func->is_primitive() || func->GetAttr<ObjectRef>(attr::kCompiler)) return expr;
    return uses_.at(expr.get()) == 1 ? ConvertFunction(expr) : Convert(expr);
  }

  Expr Rebuild(const Expr& expr) {
    if (expr.as<FunctionNode>()) return ConvertFunction(expr);
    if (const auto* branch = expr.as<IfNode>()) {
      Expr cond = Convert(branch->cond);
      Expr yes = InScope(scopes_.InnerScope(expr, 0), branch->true_branch);
      Expr no = InScope(scopes_.InnerScope(expr, 1), branch->false_branch);
      return If(cond, yes, no, branch->span);
    }
    if (const auto* match = expr.as<MatchNode>()) {
      Expr data = Convert(match->data);
      Array<Clause> clauses;
      for (size_t i = 0; i < match->clauses.size(); ++i) {
        Clause clause = match->clauses[i];
        clauses.push_back(Clause(clause->lhs, InScope(scopes_.InnerScope(expr, static_cast<int>(i)), clause->rhs)));
      }
      return Match(data, clauses, match->complete, match->span);
    }
    if (const auto* call = expr.as<CallNode>()) {
      Expr op = ConvertInPlace(call->op);
      Array<Expr> args = call->args.Map([this](const Expr& arg) { return Convert(arg); });
      if (op.same_as(call->op) && args.same_as(call->args)) return expr;
      return Call(op, args, call->attrs, call->type_args, call->span);
    }
    if (const auto* tuple = expr.as<TupleNode>()) {
      Array<Expr> fields = tuple->fields.Map([this](const Expr& field) { return Convert(field); });
      return fields.same_as(tuple->fields) ? expr : Tuple(fields, tuple->span);
    }
    if (const auto* item = expr.as<TupleGetItemNode>()) {
      Expr tuple = Convert(item->tuple);
      return tuple.same_as(item->tuple) ? expr : TupleGetItem(tuple, item->index, item->span);
    }
    if (const auto* create = expr.as<RefCreateNode>()) return RefCreate(Convert(create->value), create->span);
    if (const auto* read = expr.as<RefReadNode>()) return RefRead(Convert(read->ref), read->span);
    if (const auto* write = expr.as<RefWriteNode>()) {
      Expr ref = Convert(write->ref);
      return RefWrite(ref, Convert(write->value), write->span);
    }
    return expr;
  }

  ScopeAnalysis scopes_;
  std::unordered_map<const Object*, int> uses_;
  bool bind_all_;
  std::unordered_map<int, Block> blocks_;
  std::unordered_map<Expr, Expr, ObjectPtrHash, ObjectPtrEqual> memo_;
};

/// Replaces variables bound by let by their values, one object per value. Values with effects keep their let.
class LetRemover : public ExprMutator {
 public:
  using ExprMutator::VisitExpr_;
  Expr VisitExpr_(const VarNode* op) override {
    auto it = values_.find(op->vid.get());
    return it == values_.end() ? GetRef<Expr>(op) : it->second;
  }
  Expr VisitExpr_(const LetNode* op) override {
    std::vector<LetWithValue> kept;
    Expr rest = GetRef<Expr>(op);
    while (const auto* let = rest.as<LetNode>()) {
      Expr value = Mutate(let->value);
      if (effects_.MayHaveEffect(let->value) || IsRecursive(let)) {
        kept.emplace_back(let, value);
      } else {
        values_[let->var->vid.get()] = value;
      }
      rest = let->body;
    }
    return RebuildLets(kept, Mutate(rest));
  }

 private:
  static bool IsRecursive(const LetNode* let) {
    if (let->value.as<FunctionNode>() == nullptr) return false;
    for (const Var& var : FreeVars(let->value)) {
      if (var->vid.same_as(let->var->vid)) return true;
    }
    return false;
  }
  std::unordered_map<const Object*, Expr> values_;
  EffectFinder effects_;
};

}  // namespace

namespace transform {

Pass ToANormalForm() {
  return CreateFunctionPass(
      [](const Function& func, const IRModule&, const PassContext&) {
        return Downcast<Function>(LetInserter(func, true).RunFunction(func));
      },
      {"ToANormalForm", 1, {}, "Binds each intermediate value by a let"});
}

Pass ToBasicBlockNormalForm() {
  return CreateFunctionPass(
      [](const Function& func, const IRModule&, const PassContext&) {
        return Downcast<Function>(LetInserter(func, false).RunFunction(func));
      },
      {"ToBasicBlockNormalForm", 1, {}, "Binds values that several scopes share"});
}

Pass ToGraphNormalForm() { return MutatorPass<LetRemover>({"ToGraphNormalForm", 1, {}, "Replaces lets by sharing"}); }

}  // namespace transform
}  // namespace treadle::relay
