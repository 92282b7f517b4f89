// SPDX-License-Identifier: Apache-2.0
// Walks that concern variables: order of visits, free and bound variables, substitution, scoping.
#include <unordered_set>

#include "treadle/relay/expr_functor.h"

namespace treadle::relay {

void PostOrderVisit(const Expr& expr, const std::function<void(const Expr&)>& visit) {
  struct Frame {
    Expr expr;
    std::vector<Expr> children;
    size_t next = 0;
  };
  std::unordered_set<const Object*> seen;
  std::vector<Frame> stack;
  auto enter = [&](const Expr& e) {
    TREADLE_ICHECK(e.defined()) << "null expression";
    if (!seen.insert(e.get()).second) return;
    Frame frame{e, {}, 0};
    CollectChildren(e, &frame.children);
    stack.push_back(std::move(frame));
  };
  enter(expr);
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next < top.children.size()) {
      Expr child = top.children[top.next++];
      enter(child);
      continue;
    }
    Expr done = std::move(top.expr);
    stack.pop_back();
    visit(done);
  }
}

namespace {

/// Collects variables in order of first occurrence, each once by identity.
class VarCollector {
 public:
  void Walk(const Expr& root) {
    std::vector<Expr> stack{root};
    std::vector<Expr> children;
    while (!stack.empty()) {
      Expr expr = std::move(stack.back());
      stack.pop_back();
      if (!visited_.insert(expr.get()).second) continue;
      if (const auto* var = expr.as<VarNode>()) {
        if (known_.insert(var->vid.get()).second) all_.push_back(GetRef<Var>(var));
        continue;
      }
      if (const auto* func = expr.as<FunctionNode>()) {
        for (const Var& param : func->params) bound_.insert(param->vid.get());
      } else if (const auto* let = expr.as<LetNode>()) {
        bound_.insert(let->var->vid.get());
      } else if (const auto* match = expr.as<MatchNode>()) {
        // Pattern variables come after what is matched and before the arms.
        children.clear();
        for (const Clause& clause : match->clauses) {
          CollectPattern(clause->lhs, &children);
          children.push_back(clause->rhs);
        }
        for (size_t i = children.size(); i-- > 0;) stack.push_back(children[i]);
        stack.push_back(match->data);
        continue;
      }
      children.clear();
      CollectChildren(expr, &children);
      for (size_t i = children.size(); i-- > 0;) stack.push_back(children[i]);
    }
  }
  Array<Var> All() const { return Array<Var>(all_); }
  Array<Var> Free() const { return Select(false); }
  Array<Var> Bound() const { return Select(true); }

 private:
  void CollectPattern(const Pattern& root, std::vector<Expr>* vars) {
    std::vector<Pattern> stack{root};
    while (!stack.empty()) {
      Pattern pattern = std::move(stack.back());
      stack.pop_back();
      if (const auto* var = pattern.as<PatternVarNode>()) {
        bound_.insert(var->var->vid.get());
        vars->push_back(var->var);
      } else if (const auto* constructor = pattern.as<PatternConstructorNode>()) {
        for (size_t i = constructor->patterns.size(); i-- > 0;) stack.push_back(constructor->patterns[i]);
      } else if (const auto* tuple = pattern.as<PatternTupleNode>()) {
        for (size_t i = tuple->patterns.size(); i-- > 0;) stack.push_back(tuple->patterns[i]);
      }
    }
  }
  Array<Var> Select(bool bound) const {
    Array<Var> result;
    for (const Var& var : all_) {
      if ((bound_.count(var->vid.get()) != 0) == bound) result.push_back(var);
    }
    return result;
  }

  std::unordered_set<const Object*> visited_, known_, bound_;
  std::vector<Var> all_;
};

/// Replaces variables by identity.
class Binder : public MixedModeMutator {
 public:
  explicit Binder(const Map<Var, Expr>& args) {
    for (const auto& [var, value] : args) values_[var->vid.get()] = value;
  }
  bool Binds(const Var& var) const { return values_.count(var->vid.get()) != 0; }

  using MixedModeMutator::VisitExpr_;
  Expr VisitExpr_(const VarNode* op) final {
    auto it = values_.find(op->vid.get());
    return it != values_.end() ? it->second : GetRef<Expr>(op);
  }
  Expr VisitExpr_(const LetNode* op) final {
    CheckNotBound(op->var, "a let");
    return ExprMutator::VisitExpr_(op);
  }
  Expr VisitExpr_(const FunctionNode* op) final {
    for (const Var& param : op->params) CheckNotBound(param, "a parameter of an inner function");
    return ExprMutator::VisitExpr_(op);
  }
  Pattern VisitPattern(const Pattern& pattern) final {
    if (const auto* var = pattern.as<PatternVarNode>()) CheckNotBound(var->var, "a pattern");
    return ExprMutator::VisitPattern(pattern);
  }

 private:
  void CheckNotBound(const Var& var, const char* where) const {
    if (Binds(var)) throw Error(StrCat("can't replace variable ", var->name_hint(), ": it is bound by ", where));
  }
  std::unordered_map<const Object*, Expr> values_;
};

}  // namespace

Array<Var> FreeVars(const Expr& expr) {
  VarCollector collector;
  collector.Walk(expr);
  return collector.Free();
}

Array<Var> AllVars(const Expr& expr) {
  VarCollector collector;
  collector.Walk(expr);
  return collector.All();
}

Array<Var> BoundVars(const Expr& expr) {
  VarCollector collector;
  collector.Walk(expr);
  return collector.Bound();
}

Expr Bind(const Expr& expr, const Map<Var, Expr>& args) {
  Binder binder(args);
  const auto* func = expr.as<FunctionNode>();
  if (func == nullptr) return binder.VisitExpr(expr);
  Expr body = binder.VisitExpr(func->body);
  Array<Var> params;
  for (const Var& param : func->params) {
    if (!binder.Binds(param)) params.push_back(param);
  }
  if (body.same_as(func->body) && params.size() == func->params.size()) return expr;
  Function result(params, body, func->ret_type, func->type_params, func->attrs, func->span);
  // Variables that came in with the values become parameters, unless the function already had them from outside.
  std::unordered_set<const Object*> outer;
  for (const Var& var : FreeVars(expr)) outer.insert(var->vid.get());
  bool added = false;
  for (const Var& var : FreeVars(result)) {
    if (outer.count(var->vid.get()) == 0) {
      params.push_back(var);
      added = true;
    }
  }
  if (added) result = Function(params, body, func->ret_type, func->type_params, func->attrs, func->span);
  return result;
}

namespace {

class ScopeChecker : public ExprVisitor {
 public:
  explicit ScopeChecker(std::unordered_set<const Object*> free) : in_scope_(std::move(free)) {}
  std::string message;

  void VisitExpr_(const VarNode* op) final {
    if (in_scope_.count(op->vid.get()) == 0) Fail(op, "is used outside of its scope");
  }
  void VisitExpr_(const FunctionNode* op) final {
    for (const Var& param : op->params) Define(param);
    VisitExpr(op->body);
    for (const Var& param : op->params) Leave(param);
  }
  void VisitExpr_(const LetNode* op) final {
    std::vector<Var> bound;
    Expr expr = GetRef<Expr>(op);
    while (const auto* let = expr.as<LetNode>()) {
      // A function may call itself, so the variable is in scope in its own value.
      Define(let->var);
      bound.push_back(let->var);
      VisitExpr(let->value);
      expr = let->body;
    }
    VisitExpr(expr);
    for (const Var& var : bound) Leave(var);
  }
  void VisitClause(const Clause& clause) final {
    std::vector<Var> outer;
    std::swap(outer, pattern_vars_);
    VisitPattern(clause->lhs);
    std::vector<Var> bound = std::move(pattern_vars_);
    pattern_vars_ = std::move(outer);
    VisitExpr(clause->rhs);
    for (const Var& var : bound) Leave(var);
  }
  void VisitPattern(const Pattern& pattern) final {
    if (const auto* var = pattern.as<PatternVarNode>()) {
      Define(var->var);
      pattern_vars_.push_back(var->var);
    } else {
      ExprVisitor::VisitPattern(pattern);
    }
  }

 private:
  void Define(const Var& var) {
    if (!ever_bound_.insert(var->vid.get()).second) Fail(var.get(), "is bound more than once");
    in_scope_.insert(var->vid.get());
  }
  void Leave(const Var& var) { in_scope_.erase(var->vid.get()); }
  void Fail(const VarNode* var, const char* what) {
    if (!message.empty()) return;
    message = StrCat("variable %", var->name_hint(), " ", what);
    if (var->span.defined()) message += StrCat(" (at ", var->span.str(), ")");
  }
  std::unordered_set<const Object*> in_scope_, ever_bound_;
  std::vector<Var> pattern_vars_;
};

}  // namespace

bool WellFormed(const Expr& expr, std::string* message) {
  std::unordered_set<const Object*> free;
  for (const Var& var : FreeVars(expr)) free.insert(var->vid.get());
  ScopeChecker checker(std::move(free));
  checker.VisitExpr(expr);
  if (message != nullptr) *message = checker.message;
  return checker.message.empty();
}

}  // namespace treadle::relay
