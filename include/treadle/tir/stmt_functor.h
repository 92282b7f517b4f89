// SPDX-License-Identifier: Apache-2.0
// Dispatch, visiting and rewriting of scalar expressions and statements.
#pragma once

#include <functional>
#include <optional>

#include "treadle/ir/prim_functor.h"
#include "treadle/tir/function.h"

namespace treadle::tir {
// clang-format off
#define TREADLE_TIR_STMT_KINDS(X)                                                                                  \
  X(LetStmtNode)                                                                                                   \
  X(AttrStmtNode)                                                                                                  \
  X(AssertStmtNode) X(BufferStoreNode) X(AllocateNode) X(SeqStmtNode) X(IfThenElseNode) X(EvaluateNode) X(ForNode) \
      X(WhileNode) X(BlockNode) X(BlockRealizeNode)
// clang-format on
template <typename FType>
class StmtFunctor;

template <typename R, typename... Args>
class StmtFunctor<R(const Stmt& n, Args...)> {
 public:
  virtual ~StmtFunctor() = default;
  R operator()(const Stmt& n, Args... args) { return VisitStmt(n, std::forward<Args>(args)...); }
  virtual R VisitStmt(const Stmt& n, Args... args) {
    TREADLE_ICHECK(n.defined()) << "null statement";
    static const FType table = MakeTable();
    return WithEnoughStack([&]() -> R { return table(n, this, std::forward<Args>(args)...); });
  }
#define TREADLE_DECLARE_VISIT(Node) \
  virtual R VisitStmt_(const Node* op, Args... args) { return VisitStmtDefault_(op, std::forward<Args>(args)...); }
  TREADLE_TIR_STMT_KINDS(TREADLE_DECLARE_VISIT)
#undef TREADLE_DECLARE_VISIT
  virtual R VisitStmtDefault_(const Object* op, Args...) {
    throw InternalError(StrCat("internal error: functor doesn't handle statement kind ", op->type_key()));
  }

 private:
  using Self = StmtFunctor<R(const Stmt& n, Args...)>;
  using FType = NodeFunctor<R(const ObjectRef& n, Self* self, Args...)>;
  static FType MakeTable() {
    FType table;
#define TREADLE_SET_DISPATCH(Node)                                                           \
  table.template set_dispatch<Node>([](const ObjectRef& n, Self* self, Args... args) {       \
    return self->VisitStmt_(static_cast<const Node*>(n.get()), std::forward<Args>(args)...); \
  });
    TREADLE_TIR_STMT_KINDS(TREADLE_SET_DISPATCH)
#undef TREADLE_SET_DISPATCH
    return table;
  }
};

extern template class StmtFunctor<void(const Stmt&)>;
extern template class StmtFunctor<Stmt(const Stmt&)>;

/// Visits statements; expressions inside go to VisitExpr (does nothing here; StmtExprVisitor visits them).
class StmtVisitor : public StmtFunctor<void(const Stmt&)> {
 protected:
  virtual void VisitExpr(const PrimExpr&) {}
#define TREADLE_OVERRIDE_VISIT(Node) void VisitStmt_(const Node* op) override;
  TREADLE_TIR_STMT_KINDS(TREADLE_OVERRIDE_VISIT)
#undef TREADLE_OVERRIDE_VISIT
};

/// Rewrites statements; returns the identical object where nothing changed. Expressions inside go to VisitExpr.
class StmtMutator : public StmtFunctor<Stmt(const Stmt&)> {
 protected:
  virtual PrimExpr VisitExpr(const PrimExpr& e) { return e; }
#define TREADLE_OVERRIDE_VISIT(Node) Stmt VisitStmt_(const Node* op) override;
  TREADLE_TIR_STMT_KINDS(TREADLE_OVERRIDE_VISIT)
#undef TREADLE_OVERRIDE_VISIT
};

class StmtExprVisitor : public StmtVisitor, public ExprVisitor {
 public:
  using StmtVisitor::operator();
  using ExprVisitor::operator();

 protected:
  using ExprVisitor::VisitExpr;
  using StmtVisitor::VisitStmt;
  void VisitExpr(const PrimExpr& e) override;
};

class StmtExprMutator : public StmtMutator, public ExprMutator {
 public:
  using StmtMutator::operator();
  using ExprMutator::operator();

 protected:
  using ExprMutator::VisitExpr;
  PrimExpr VisitExpr(const PrimExpr& e) override;
};

using VarSubstitution = std::function<std::optional<PrimExpr>(const Var&)>;
PrimExpr Substitute(const PrimExpr& expr, const VarSubstitution& vmap);
/// Also inside buffers' shapes, strides and offsets.
Stmt Substitute(const Stmt& stmt, const VarSubstitution& vmap);
PrimExpr Substitute(const PrimExpr& expr, const Map<Var, PrimExpr>& vmap);
Stmt Substitute(const Stmt& stmt, const Map<Var, PrimExpr>& vmap);

/// Visits every statement and expression once met, children first.
void PostOrderVisit(const ObjectRef& node, const std::function<void(const ObjectRef&)>& visit);

}  // namespace treadle::tir
