// SPDX-License-Identifier: Apache-2.0
// Dispatch, visiting and rewriting of graph IR.
//
// ExprFunctor dispatches on the node kind through a table per functor type. ExprVisitor visits each object once;
// ExprMutator rewrites and returns the identical object where nothing changed. All of them walk chains of any depth:
// the recursion continues on a fresh stack segment when the current one runs out (base/stack_guard.h).
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "treadle/base/stack_guard.h"
#include "treadle/ir/functor.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

template <typename FType>
class ExprFunctor;
// clang-format off
/// The node kinds, in one list.
#define TREADLE_RELAY_EXPR_KINDS(X)                                                                          \
  X(ConstantNode)                                                                                            \
  X(TupleNode)                                                                                               \
  X(VarNode) X(GlobalVarNode) X(FunctionNode) X(CallNode) X(LetNode) X(IfNode) X(OpNode) X(TupleGetItemNode) \
      X(RefCreateNode) X(RefReadNode) X(RefWriteNode) X(ConstructorNode) X(MatchNode) X(TempExprNode)
// clang-format on
template <typename R, typename... Args>
class ExprFunctor<R(const Expr& n, Args...)> {
 public:
  virtual ~ExprFunctor() = default;
  R operator()(const Expr& n, Args... args) { return VisitExpr(n, std::forward<Args>(args)...); }

  virtual R VisitExpr(const Expr& n, Args... args) {
    TREADLE_ICHECK(n.defined()) << "null expression: a pass before this one may have produced invalid IR";
    static const FType table = MakeTable();
    return WithEnoughStack([&]() -> R { return table(n, this, std::forward<Args>(args)...); });
  }

#define TREADLE_DECLARE_VISIT(Node) \
  virtual R VisitExpr_(const Node* op, Args... args) { return VisitExprDefault_(op, std::forward<Args>(args)...); }
  TREADLE_RELAY_EXPR_KINDS(TREADLE_DECLARE_VISIT)
#undef TREADLE_DECLARE_VISIT

  /// Called for kinds that the subclass doesn't handle: throws an InternalError that names the kind.
  virtual R VisitExprDefault_(const Object* op, Args...) {
    throw InternalError(StrCat("internal error: functor doesn't handle node kind ", op->type_key()));
  }

 private:
  using Self = ExprFunctor<R(const Expr& n, Args...)>;
  using FType = NodeFunctor<R(const ObjectRef& n, Self* self, Args...)>;

  static FType MakeTable() {
    FType table;
#define TREADLE_SET_DISPATCH(Node)                                                           \
  table.template set_dispatch<Node>([](const ObjectRef& n, Self* self, Args... args) {       \
    return self->VisitExpr_(static_cast<const Node*>(n.get()), std::forward<Args>(args)...); \
  });
    TREADLE_RELAY_EXPR_KINDS(TREADLE_SET_DISPATCH)
#undef TREADLE_SET_DISPATCH
    return table;
  }
};

extern template class ExprFunctor<void(const Expr&)>;
extern template class ExprFunctor<Expr(const Expr&)>;

/// Appends the direct subexpressions of `expr` in visiting order: call op, args; function params, body; let
/// value, var, body; if cond, true, false; match data, then the clauses' right-hand sides.
void CollectChildren(const Expr& expr, std::vector<Expr>* children);

/// Visits each node once, children first where it may be deep. Override the VisitExpr_ of the kinds of interest and
/// call the base's to go on into the children.
class ExprVisitor : public ExprFunctor<void(const Expr& n)> {
 public:
  void VisitExpr(const Expr& expr) override;
  void VisitExpr_(const VarNode* op) override;
  void VisitExpr_(const GlobalVarNode* op) override;
  void VisitExpr_(const ConstantNode* op) override;
  void VisitExpr_(const TupleNode* op) override;
  void VisitExpr_(const FunctionNode* op) override;
  void VisitExpr_(const CallNode* op) override;
  void VisitExpr_(const LetNode* op) override;
  void VisitExpr_(const IfNode* op) override;
  void VisitExpr_(const OpNode* op) override;
  void VisitExpr_(const TupleGetItemNode* op) override;
  void VisitExpr_(const RefCreateNode* op) override;
  void VisitExpr_(const RefReadNode* op) override;
  void VisitExpr_(const RefWriteNode* op) override;
  void VisitExpr_(const ConstructorNode* op) override;
  void VisitExpr_(const MatchNode* op) override;
  void VisitExpr_(const TempExprNode* op) override;
  virtual void VisitType(const Type& t);
  virtual void VisitClause(const Clause& c);
  virtual void VisitPattern(const Pattern& p);
  virtual void VisitSpan(const Span& span);

 protected:
  /// How often each node was met.
  std::unordered_map<const Object*, size_t> visit_counter_;
};

/// Rewrites bottom-up with a memo; sharing is preserved, an unchanged node is returned as the identical object.
class ExprMutator : public ExprFunctor<Expr(const Expr&)> {
 public:
  Expr Mutate(const Expr& expr) { return VisitExpr(expr); }
  Expr VisitExpr(const Expr& expr) override;
  Expr VisitExpr_(const VarNode* op) override;
  Expr VisitExpr_(const ConstantNode* op) override;
  Expr VisitExpr_(const GlobalVarNode* op) override;
  Expr VisitExpr_(const OpNode* op) override;
  Expr VisitExpr_(const TupleNode* op) override;
  Expr VisitExpr_(const FunctionNode* op) override;
  Expr VisitExpr_(const CallNode* op) override;
  Expr VisitExpr_(const LetNode* op) override;
  Expr VisitExpr_(const IfNode* op) override;
  Expr VisitExpr_(const TupleGetItemNode* op) override;
  Expr VisitExpr_(const RefCreateNode* op) override;
  Expr VisitExpr_(const RefReadNode* op) override;
  Expr VisitExpr_(const RefWriteNode* op) override;
  Expr VisitExpr_(const ConstructorNode* op) override;
  Expr VisitExpr_(const MatchNode* op) override;
  Expr VisitExpr_(const TempExprNode* op) override;
  virtual Type VisitType(const Type& t);
  virtual Clause VisitClause(const Clause& c);
  virtual Pattern VisitPattern(const Pattern& p);

 protected:
  std::unordered_map<Expr, Expr, ObjectPtrHash, ObjectPtrEqual> memo_;
};

/// Rewrites data flow: `Rewrite_(pre, post)` receives the node and its copy with rewritten children. Other kinds are
/// rebuilt as by ExprMutator.
class MixedModeMutator : public ExprMutator {
 public:
  using ExprMutator::VisitExpr_;
  Expr VisitExpr_(const TupleNode* op) final;
  Expr VisitExpr_(const CallNode* op) final;
  Expr VisitExpr_(const TupleGetItemNode* op) final;
  virtual Expr Rewrite_(const TupleNode* pre, const Expr& post) { return (void)pre, post; }
  virtual Expr Rewrite_(const CallNode* pre, const Expr& post) { return (void)pre, post; }
  virtual Expr Rewrite_(const TupleGetItemNode* pre, const Expr& post) { return (void)pre, post; }

 private:
  Expr RewriteDataFlow(const Expr& root);
};
using MixedModeVisitor = ExprVisitor;

/// Visits each distinct node once, children first.
void PostOrderVisit(const Expr& expr, const std::function<void(const Expr&)>& visit);

/// Replaces variables. A function loses the parameters that are bound and gains the free variables that come in.
Expr Bind(const Expr& expr, const Map<Var, Expr>& args);
/// Variables used but not bound, in order of first use.
Array<Var> FreeVars(const Expr& expr);
/// All variables, bound ones included, in order of first occurrence.
Array<Var> AllVars(const Expr& expr);
Array<Var> BoundVars(const Expr& expr);
/// Whether each variable is bound at most once and used within its scope; `message` receives the reason.
bool WellFormed(const Expr& expr, std::string* message = nullptr);

}  // namespace treadle::relay
