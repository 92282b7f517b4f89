// SPDX-License-Identifier: Apache-2.0
// Index arithmetic in normal form; conditions that the ranges of loops decide; loops of one iteration; dead code.
#include <unordered_set>

#include "arith/loop_scope.h"
#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"

namespace treadle::tir {
namespace {

class Simplifier : public StmtExprMutator {
 public:
  Stmt Run(const Stmt& body) { return VisitStmt(body); }

 protected:
  using StmtExprMutator::VisitStmt_;

  PrimExpr VisitExpr(const PrimExpr& e) override {
    if (e.as<IntImmNode>() || e.as<FloatImmNode>() || e.as<VarNode>()) return e;
    return analyzer_.Simplify(e);
  }

  Stmt VisitStmt_(const ForNode* op) override {
    PrimExpr min = VisitExpr(op->min), extent = VisitExpr(op->extent);
    if (is_zero(extent)) return NoOp();
    if (is_one(extent) && op->kind != ForKind::kThreadBinding) {
      Map<Var, PrimExpr> vmap;
      vmap.Set(op->loop_var, min);
      return VisitStmt(Substitute(op->body, vmap));
    }
    arith::LoopScope loop(analyzer_, op->loop_var, Range::FromMinExtent(min, extent));
    Stmt body = VisitStmt(op->body);
    if (IsNoOp(body)) return body;
    if (min.same_as(op->min) && extent.same_as(op->extent) && body.same_as(op->body)) return GetRef<Stmt>(op);
    return For(op->loop_var, min, extent, op->kind, body, op->thread_binding, op->annotations, op->span);
  }

  Stmt VisitStmt_(const IfThenElseNode* op) override {
    PrimExpr condition = VisitExpr(op->condition);
    if (is_const_int(condition)) {
      if (!is_zero(condition)) return VisitStmt(op->then_case);
      return op->else_case.defined() ? VisitStmt(op->else_case) : NoOp();
    }
    Stmt else_case;
    const Stmt then_case = VisitUnder(condition, op->then_case);
    if (op->else_case.defined()) else_case = VisitUnder(logical_not(condition), op->else_case);
    const bool no_else = !else_case.defined() || IsNoOp(else_case);
    if (IsNoOp(then_case) && no_else && HasNoSideEffect(condition)) return NoOp();
    return IfThenElse(condition, then_case, no_else ? Stmt() : else_case, op->span);
  }

  Stmt VisitStmt_(const LetStmtNode* op) override {
    PrimExpr value = VisitExpr(op->value);
    if (is_const_int(value) || value.as<VarNode>()) {
      Map<Var, PrimExpr> vmap;
      vmap.Set(op->var, value);
      return VisitStmt(Substitute(op->body, vmap));
    }
    Stmt body = VisitStmt(op->body);
    if (value.same_as(op->value) && body.same_as(op->body)) return GetRef<Stmt>(op);
    return LetStmt(op->var, value, body, op->span);
  }

  Stmt VisitStmt_(const AssertStmtNode* op) override {
    PrimExpr condition = VisitExpr(op->condition);
    if (is_one(condition)) return VisitStmt(op->body);
    const Stmt body = VisitUnder(condition, op->body);
    return AssertStmt(condition, op->message, body, op->span);
  }

 private:
  /// `body` where the condition holds when it begins: what it says of memory that the body writes isn't known there.
  Stmt VisitUnder(const PrimExpr& condition, const Stmt& body) {
    PrimExpr known;
    for (const PrimExpr& part : SplitConjunction(condition)) {
      if (arith::ReadsData(part) && MayChange(part, body)) continue;
      known = known.defined() ? known && part : part;
    }
    if (!known.defined()) return VisitStmt(body);
    arith::Analyzer::Constraint holds(analyzer_, known);
    return VisitStmt(body);
  }

  /// Whether the body stores to a buffer that the expression loads from, or calls what may.
  static bool MayChange(const PrimExpr& e, const Stmt& body) {
    std::unordered_set<const Object*> read;
    PostOrderVisit(e, [&](const ObjectRef& node) {
      if (const auto* load = node.as<BufferLoadNode>()) read.insert(load->buffer->data.get());
    });
    bool changes = false;
    PostOrderVisit(body, [&](const ObjectRef& node) {
      const auto* store = node.as<BufferStoreNode>();
      changes = changes || node.as<EvaluateNode>() != nullptr ||
                (store != nullptr && read.count(store->buffer->data.get()) != 0);
    });
    return changes;
  }

  arith::Analyzer analyzer_;
};

/// Removes statements without effect.
class NoOpRemover : public StmtExprMutator {
 public:
  Stmt Run(const Stmt& body) { return VisitStmt(body); }

 protected:
  using StmtExprMutator::VisitStmt_;
  PrimExpr VisitExpr(const PrimExpr& e) override { return e; }

  template <typename Node>
  Stmt DropIfEmpty(const Node* op) {
    Stmt stmt = StmtExprMutator::VisitStmt_(op);
    const auto* node = stmt.as<Node>();
    return node != nullptr && IsNoOp(node->body) ? NoOp() : stmt;
  }
  Stmt VisitStmt_(const ForNode* op) override { return DropIfEmpty(op); }
  Stmt VisitStmt_(const AllocateNode* op) override { return DropIfEmpty(op); }
  Stmt VisitStmt_(const AttrStmtNode* op) override {
    Stmt stmt = DropIfEmpty(op);
    const auto* attr = stmt.as<AttrStmtNode>();
    // Pragmas have been obeyed by now.
    if (attr != nullptr && attr->attr_key.rfind(attr::kPragmaPrefix, 0) == 0) return attr->body;
    return stmt;
  }
  Stmt VisitStmt_(const LetStmtNode* op) override {
    Stmt stmt = StmtExprMutator::VisitStmt_(op);
    const auto* let = stmt.as<LetStmtNode>();
    return IsNoOp(let->body) && HasNoSideEffect(let->value) ? NoOp() : stmt;
  }
  Stmt VisitStmt_(const IfThenElseNode* op) override {
    Stmt stmt = StmtExprMutator::VisitStmt_(op);
    const auto* branch = stmt.as<IfThenElseNode>();
    const bool no_else = !branch->else_case.defined() || IsNoOp(branch->else_case);
    if (IsNoOp(branch->then_case) && no_else && HasNoSideEffect(branch->condition)) return NoOp();
    return stmt;
  }
  Stmt VisitStmt_(const SeqStmtNode* op) override {
    Array<Stmt> kept;
    for (const Stmt& stmt : op->seq) {
      Stmt visited = VisitStmt(stmt);
      if (!IsNoOp(visited)) kept.push_back(visited);
    }
    return kept.empty() ? NoOp() : SeqStmt::Flatten(kept);
  }
};

}  // namespace

PrimFunc SimplifyFunc(PrimFunc func, const LowerConfig&) {
  Stmt body = Simplifier().Run(func->body);
  return WithBody(std::move(func), body);
}

PrimFunc RemoveNoOp(PrimFunc func, const LowerConfig&) {
  Stmt body = NoOpRemover().Run(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
