// SPDX-License-Identifier: Apache-2.0
#include "targets/free_vars.h"

#include <unordered_set>

#include "treadle/tir/stmt_functor.h"

namespace treadle::targets {

using tir::Var;

namespace {

class FreeVarFinder : public tir::StmtExprVisitor {
 public:
  std::vector<Var> free;

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;
  void VisitExpr(const PrimExpr& e) override {
    if (visited_.insert(e.get()).second) StmtExprVisitor::VisitExpr(e);
  }
  void Use(const Var& v) {
    if (defined_.count(v.get()) == 0 && seen_.insert(v.get()).second) free.push_back(v);
  }
  void VisitExpr_(const tir::VarNode* op) override { Use(GetRef<Var>(op)); }
  void VisitExpr_(const tir::LetNode* op) override {
    VisitExpr(op->value);
    defined_.insert(op->var.get());
    VisitExpr(op->body);
  }
  void VisitExpr_(const tir::BufferLoadNode* op) override {
    Use(op->buffer->data);
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitStmt_(const tir::BufferStoreNode* op) override {
    Use(op->buffer->data);
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const tir::LetStmtNode* op) override {
    VisitExpr(op->value);
    defined_.insert(op->var.get());
    VisitStmt(op->body);
  }
  void VisitStmt_(const tir::ForNode* op) override {
    defined_.insert(op->loop_var.get());
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const tir::AllocateNode* op) override {
    defined_.insert(op->buffer->data.get());
    StmtExprVisitor::VisitStmt_(op);
  }

 private:
  std::unordered_set<const Object*> defined_, seen_, visited_;
};

}  // namespace

std::vector<Var> FreeVars(const tir::Stmt& stmt) {
  FreeVarFinder finder;
  finder(stmt);
  return finder.free;
}

}  // namespace treadle::targets
