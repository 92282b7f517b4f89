// SPDX-License-Identifier: Apache-2.0
// What lowering passes share.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tir/conjunction.h"
#include "tir/passes/passes.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::tir {

/// Rewrites; constants are folded where children change, and shared subexpressions are visited once (so that they
/// stay shared). What an expression becomes may depend on it alone: call Forget() where that changes.
class FoldingMutator : public StmtExprMutator {
 public:
  Stmt Rewrite(const Stmt& stmt) { return VisitStmt(stmt); }
  PrimExpr Rewrite(const PrimExpr& e) { return VisitExpr(e); }

 protected:
  using StmtExprMutator::VisitExpr_;
  using StmtExprMutator::VisitStmt_;

  PrimExpr VisitExpr(const PrimExpr& e) override;
#define TREADLE_DECLARE_FOLD(Node) PrimExpr VisitExpr_(const Node* op) override;
  TREADLE_DECLARE_FOLD(AddNode)
  TREADLE_DECLARE_FOLD(SubNode)
  TREADLE_DECLARE_FOLD(MulNode)
  TREADLE_DECLARE_FOLD(DivNode)
  TREADLE_DECLARE_FOLD(ModNode)
  TREADLE_DECLARE_FOLD(FloorDivNode)
  TREADLE_DECLARE_FOLD(FloorModNode)
  TREADLE_DECLARE_FOLD(MinNode)
  TREADLE_DECLARE_FOLD(MaxNode)
  TREADLE_DECLARE_FOLD(EQNode)
  TREADLE_DECLARE_FOLD(NENode)
  TREADLE_DECLARE_FOLD(LTNode)
  TREADLE_DECLARE_FOLD(LENode)
  TREADLE_DECLARE_FOLD(GTNode)
  TREADLE_DECLARE_FOLD(GENode)
  TREADLE_DECLARE_FOLD(AndNode)
  TREADLE_DECLARE_FOLD(OrNode)
  TREADLE_DECLARE_FOLD(NotNode)
  TREADLE_DECLARE_FOLD(SelectNode)
  TREADLE_DECLARE_FOLD(CastNode)
  TREADLE_DECLARE_FOLD(CallNode)
#undef TREADLE_DECLARE_FOLD
  void Forget() { memo_.clear(); }

 private:
  std::unordered_map<const Object*, std::pair<PrimExpr, PrimExpr>> memo_;  ///< node, kept alive, and its result
};

/// Visits shared subexpressions once.
class SharedExprVisitor : public StmtExprVisitor {
 protected:
  void VisitExpr(const PrimExpr& e) override {
    if (e->use_count() > 1 && !seen_.insert(e.get()).second) return;
    StmtExprVisitor::VisitExpr(e);
  }

 private:
  std::unordered_set<const Object*> seen_;
};

/// `func` with another body.
PrimFunc WithBody(PrimFunc func, Stmt body);
/// Variables used in an expression.
void CollectVars(const PrimExpr& e, std::unordered_set<const Object*>* vars);
bool UsesAnyVar(const PrimExpr& e, const std::unordered_set<const Object*>& vars);
/// A number that divides `e`, whatever the variables are (0 for the constant 0).
int64_t KnownDivisor(const PrimExpr& e);
inline Stmt NoOp() { return Evaluate(PrimExpr(0)); }
bool IsNoOp(const Stmt& stmt);

}  // namespace treadle::tir
