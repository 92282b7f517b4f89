// SPDX-License-Identifier: Apache-2.0
#include "treadle/relay/expr_functor.h"

namespace treadle::relay {

template class ExprFunctor<void(const Expr&)>;
template class ExprFunctor<Expr(const Expr&)>;

void CollectChildren(const Expr& expr, std::vector<Expr>* children) {
  if (const auto* call = expr.as<CallNode>()) {
    children->push_back(call->op);
    for (const Expr& arg : call->args) children->push_back(arg);
  } else if (const auto* tuple = expr.as<TupleNode>()) {
    for (const Expr& field : tuple->fields) children->push_back(field);
  } else if (const auto* item = expr.as<TupleGetItemNode>()) {
    children->push_back(item->tuple);
  } else if (const auto* func = expr.as<FunctionNode>()) {
    for (const Var& param : func->params) children->push_back(param);
    children->push_back(func->body);
  } else if (const auto* let = expr.as<LetNode>()) {
    children->insert(children->end(), {let->value, let->var, let->body});
  } else if (const auto* branch = expr.as<IfNode>()) {
    children->insert(children->end(), {branch->cond, branch->true_branch, branch->false_branch});
  } else if (const auto* create = expr.as<RefCreateNode>()) {
    children->push_back(create->value);
  } else if (const auto* read = expr.as<RefReadNode>()) {
    children->push_back(read->ref);
  } else if (const auto* write = expr.as<RefWriteNode>()) {
    children->insert(children->end(), {write->ref, write->value});
  } else if (const auto* match = expr.as<MatchNode>()) {
    children->push_back(match->data);
    for (const Clause& clause : match->clauses) children->push_back(clause->rhs);
  }
}

// ExprVisitor

void ExprVisitor::VisitExpr(const Expr& expr) {
  auto it = visit_counter_.find(expr.get());
  if (it != visit_counter_.end()) {
    ++it->second;
    return;
  }
  ExprFunctor::VisitExpr(expr);
  visit_counter_.emplace(expr.get(), 1);
}

void ExprVisitor::VisitExpr_(const VarNode* op) {
  VisitSpan(op->span);
  if (op->type_annotation.defined()) VisitType(op->type_annotation);
}
void ExprVisitor::VisitExpr_(const GlobalVarNode* op) { VisitSpan(op->span); }
void ExprVisitor::VisitExpr_(const ConstantNode* op) { VisitSpan(op->span); }
void ExprVisitor::VisitExpr_(const TupleNode* op) {
  VisitSpan(op->span);
  for (const Expr& field : op->fields) VisitExpr(field);
}
void ExprVisitor::VisitExpr_(const FunctionNode* op) {
  VisitSpan(op->span);
  for (const Var& param : op->params) VisitExpr(param);
  VisitExpr(op->body);
}
void ExprVisitor::VisitExpr_(const CallNode* op) {
  VisitSpan(op->span);
  VisitExpr(op->op);
  for (const Type& type : op->type_args) VisitType(type);
  for (const Expr& arg : op->args) VisitExpr(arg);
}
void ExprVisitor::VisitExpr_(const LetNode* op) {
  VisitSpan(op->span);
  VisitExpr(op->value);
  VisitExpr(op->var);
  VisitExpr(op->body);
}
void ExprVisitor::VisitExpr_(const IfNode* op) {
  VisitSpan(op->span);
  VisitExpr(op->cond);
  VisitExpr(op->true_branch);
  VisitExpr(op->false_branch);
}
void ExprVisitor::VisitExpr_(const OpNode*) {}
void ExprVisitor::VisitExpr_(const TupleGetItemNode* op) {
  VisitSpan(op->span);
  VisitExpr(op->tuple);
}
void ExprVisitor::VisitExpr_(const RefCreateNode* op) {
  VisitSpan(op->span);
  VisitExpr(op->value);
}
void ExprVisitor::VisitExpr_(const RefReadNode* op) {
  VisitSpan(op->span);
  VisitExpr(op->ref);
}
void ExprVisitor::VisitExpr_(const RefWriteNode* op) {
  VisitSpan(op->span);
  VisitExpr(op->ref);
  VisitExpr(op->value);
}
void ExprVisitor::VisitExpr_(const ConstructorNode* op) {
  for (const Type& type : op->inputs) VisitType(type);
}
void ExprVisitor::VisitExpr_(const MatchNode* op) {
  VisitSpan(op->span);
  VisitExpr(op->data);
  for (const Clause& clause : op->clauses) VisitClause(clause);
}
void ExprVisitor::VisitExpr_(const TempExprNode*) {}
void ExprVisitor::VisitType(const Type&) {}
void ExprVisitor::VisitSpan(const Span&) {}
void ExprVisitor::VisitClause(const Clause& clause) {
  VisitPattern(clause->lhs);
  VisitExpr(clause->rhs);
}
void ExprVisitor::VisitPattern(const Pattern& pattern) {
  WithEnoughStack([&] {
    if (const auto* var = pattern.as<PatternVarNode>()) {
      VisitExpr(var->var);
    } else if (const auto* constructor = pattern.as<PatternConstructorNode>()) {
      VisitExpr(constructor->constructor);
      for (const Pattern& p : constructor->patterns) VisitPattern(p);
    } else if (const auto* tuple = pattern.as<PatternTupleNode>()) {
      for (const Pattern& p : tuple->patterns) VisitPattern(p);
    }
  });
}

// ExprMutator

Expr ExprMutator::VisitExpr(const Expr& expr) {
  auto it = memo_.find(expr);
  if (it != memo_.end()) return it->second;
  Expr result = ExprFunctor::VisitExpr(expr);
  memo_[expr] = result;
  return result;
}

Expr ExprMutator::VisitExpr_(const VarNode* op) {
  if (op->type_annotation.defined()) {
    Type type = VisitType(op->type_annotation);
    if (!type.same_as(op->type_annotation)) return Var(op->vid, type, op->span);
  }
  return GetRef<Expr>(op);
}
Expr ExprMutator::VisitExpr_(const ConstantNode* op) { return GetRef<Expr>(op); }
Expr ExprMutator::VisitExpr_(const GlobalVarNode* op) { return GetRef<Expr>(op); }
Expr ExprMutator::VisitExpr_(const OpNode* op) { return GetRef<Expr>(op); }
Expr ExprMutator::VisitExpr_(const ConstructorNode* op) { return GetRef<Expr>(op); }
Expr ExprMutator::VisitExpr_(const TempExprNode* op) { return GetRef<Expr>(op); }

Expr ExprMutator::VisitExpr_(const TupleNode* op) {
  auto fields = op->fields.Map([this](const Expr& e) { return VisitExpr(e); });
  if (fields.same_as(op->fields)) return GetRef<Expr>(op);
  return Tuple(fields, op->span);
}

Expr ExprMutator::VisitExpr_(const FunctionNode* op) {
  auto type_params = op->type_params.Map([this](const TypeVar& v) { return Downcast<TypeVar>(VisitType(v)); });
  auto params = op->params.Map([this](const Var& v) { return Downcast<Var>(VisitExpr(v)); });
  Type ret_type = op->ret_type.defined() ? VisitType(op->ret_type) : op->ret_type;
  Expr body = VisitExpr(op->body);
  if (type_params.same_as(op->type_params) && params.same_as(op->params) && ret_type.same_as(op->ret_type) &&
      body.same_as(op->body)) {
    return GetRef<Expr>(op);
  }
  return Function(params, body, ret_type, type_params, op->attrs, op->span);
}

Expr ExprMutator::VisitExpr_(const CallNode* op) {
  Expr callee = VisitExpr(op->op);
  auto type_args = op->type_args.Map([this](const Type& t) { return VisitType(t); });
  auto args = op->args.Map([this](const Expr& e) { return VisitExpr(e); });
  if (callee.same_as(op->op) && type_args.same_as(op->type_args) && args.same_as(op->args)) return GetRef<Expr>(op);
  return Call(callee, args, op->attrs, type_args, op->span);
}

Expr ExprMutator::VisitExpr_(const LetNode* op) {
  Var var = Downcast<Var>(VisitExpr(op->var));
  Expr value = VisitExpr(op->value);
  Expr body = VisitExpr(op->body);
  if (var.same_as(op->var) && value.same_as(op->value) && body.same_as(op->body)) return GetRef<Expr>(op);
  return Let(var, value, body, op->span);
}

Expr ExprMutator::VisitExpr_(const IfNode* op) {
  Expr cond = VisitExpr(op->cond);
  Expr true_branch = VisitExpr(op->true_branch);
  Expr false_branch = VisitExpr(op->false_branch);
  if (cond.same_as(op->cond) && true_branch.same_as(op->true_branch) && false_branch.same_as(op->false_branch)) {
    return GetRef<Expr>(op);
  }
  return If(cond, true_branch, false_branch, op->span);
}

Expr ExprMutator::VisitExpr_(const TupleGetItemNode* op) {
  Expr tuple = VisitExpr(op->tuple);
  if (tuple.same_as(op->tuple)) return GetRef<Expr>(op);
  return TupleGetItem(tuple, op->index, op->span);
}

Expr ExprMutator::VisitExpr_(const RefCreateNode* op) {
  Expr value = VisitExpr(op->value);
  if (value.same_as(op->value)) return GetRef<Expr>(op);
  return RefCreate(value, op->span);
}

Expr ExprMutator::VisitExpr_(const RefReadNode* op) {
  Expr ref = VisitExpr(op->ref);
  if (ref.same_as(op->ref)) return GetRef<Expr>(op);
  return RefRead(ref, op->span);
}

Expr ExprMutator::VisitExpr_(const RefWriteNode* op) {
  Expr ref = VisitExpr(op->ref);
  Expr value = VisitExpr(op->value);
  if (ref.same_as(op->ref) && value.same_as(op->value)) return GetRef<Expr>(op);
  return RefWrite(ref, value, op->span);
}

Expr ExprMutator::VisitExpr_(const MatchNode* op) {
  Expr data = VisitExpr(op->data);
  auto clauses = op->clauses.Map([this](const Clause& c) { return VisitClause(c); });
  if (data.same_as(op->data) && clauses.same_as(op->clauses)) return GetRef<Expr>(op);
  return Match(data, clauses, op->complete, op->span);
}

Type ExprMutator::VisitType(const Type& type) { return type; }

Clause ExprMutator::VisitClause(const Clause& clause) {
  Pattern lhs = VisitPattern(clause->lhs);
  Expr rhs = VisitExpr(clause->rhs);
  if (lhs.same_as(clause->lhs) && rhs.same_as(clause->rhs)) return clause;
  return Clause(lhs, rhs);
}

Pattern ExprMutator::VisitPattern(const Pattern& pattern) {
  return WithEnoughStack([&]() -> Pattern {
    auto visit = [this](const Pattern& p) { return VisitPattern(p); };
    if (const auto* var = pattern.as<PatternVarNode>()) {
      Var v = Downcast<Var>(VisitExpr(var->var));
      return v.same_as(var->var) ? pattern : PatternVar(v, var->span);
    }
    if (const auto* constructor = pattern.as<PatternConstructorNode>()) {
      auto c = Downcast<Constructor>(VisitExpr(constructor->constructor));
      auto patterns = constructor->patterns.Map(visit);
      if (c.same_as(constructor->constructor) && patterns.same_as(constructor->patterns)) return pattern;
      return PatternConstructor(c, patterns, constructor->span);
    }
    if (const auto* tuple = pattern.as<PatternTupleNode>()) {
      auto patterns = tuple->patterns.Map(visit);
      return patterns.same_as(tuple->patterns) ? pattern : PatternTuple(patterns, tuple->span);
    }
    return pattern;
  });
}

// MixedModeMutator

namespace {

bool IsDataFlow(const Expr& expr) {
  return expr->IsInstance<CallNode>() || expr->IsInstance<TupleNode>() || expr->IsInstance<TupleGetItemNode>();
}

}  // namespace

Expr MixedModeMutator::RewriteDataFlow(const Expr& root) {
  struct Frame {
    Expr expr;
    std::vector<Expr> children;
    size_t next = 0;
  };
  auto enter = [](const Expr& expr) {
    Frame frame{expr, {}, 0};
    CollectChildren(expr, &frame.children);
    return frame;
  };
  std::vector<Frame> stack;
  stack.push_back(enter(root));
  while (true) {
    Frame& top = stack.back();
    if (top.next < top.children.size()) {
      Expr child = top.children[top.next++];
      if (memo_.count(child) != 0) continue;
      if (IsDataFlow(child)) {
        stack.push_back(enter(child));
      } else {
        VisitExpr(child);
      }
      continue;
    }
    Expr expr = top.expr;
    stack.pop_back();
    Expr result;
    if (const auto* call = expr.as<CallNode>()) {
      result = Rewrite_(call, ExprMutator::VisitExpr_(call));
    } else if (const auto* tuple = expr.as<TupleNode>()) {
      result = Rewrite_(tuple, ExprMutator::VisitExpr_(tuple));
    } else {
      const auto* item = static_cast<const TupleGetItemNode*>(expr.get());
      result = Rewrite_(item, ExprMutator::VisitExpr_(item));
    }
    memo_[expr] = result;
    if (stack.empty()) return result;
  }
}

Expr MixedModeMutator::VisitExpr_(const TupleNode* op) { return RewriteDataFlow(GetRef<Expr>(op)); }
Expr MixedModeMutator::VisitExpr_(const CallNode* op) { return RewriteDataFlow(GetRef<Expr>(op)); }
Expr MixedModeMutator::VisitExpr_(const TupleGetItemNode* op) { return RewriteDataFlow(GetRef<Expr>(op)); }

}  // namespace treadle::relay
