// SPDX-License-Identifier: Apache-2.0
// Gives each place that binds a variable one of its own, so that analyses and printers may go by identity.
#include "tir/passes/convert_ssa.h"

#include <unordered_map>
#include <unordered_set>

#include "tir/passes/pass_util.h"

namespace treadle::tir {
namespace {

class SSAConverter : public StmtExprMutator {
 public:
  PrimFunc Run(PrimFunc func) {
    for (const Var& param : func->params) bound_.insert(param.get());
    for (const auto& [param, buffer] : func->buffer_map) bound_.insert(buffer->data.get());
    return WithBody(func, VisitStmt(func->body));
  }

 protected:
  using StmtExprMutator::VisitExpr_;
  using StmtExprMutator::VisitStmt_;

  // What a shared expression becomes is kept until other variables are renamed, unless it binds a variable itself.
  PrimExpr VisitExpr(const PrimExpr& e) override {
    if (e.as<VarNode>() || e->use_count() <= 1) return StmtExprMutator::VisitExpr(e);
    auto it = memo_.find(e.get());
    if (it != memo_.end()) return it->second.second;
    const int lets = lets_;
    PrimExpr result = StmtExprMutator::VisitExpr(e);
    if (lets == lets_) memo_.emplace(e.get(), std::make_pair(e, result));
    return result;
  }
  PrimExpr VisitExpr_(const VarNode* op) override {
    auto it = renamed_.find(op);
    return it == renamed_.end() ? GetRef<PrimExpr>(op) : it->second.to;
  }
  PrimExpr VisitExpr_(const LetNode* op) override {
    ++lets_;
    PrimExpr value = VisitExpr(op->value);
    return Within(op->var, [&](const Var& var) -> PrimExpr {
      PrimExpr body = VisitExpr(op->body);
      if (var.same_as(op->var) && value.same_as(op->value) && body.same_as(op->body)) return GetRef<PrimExpr>(op);
      return Let(var, value, body, op->span);
    });
  }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr load = StmtExprMutator::VisitExpr_(op);
    Buffer buffer = Renamed(op->buffer);
    return buffer.same_as(op->buffer) ? load : BufferLoad(buffer, load.as<BufferLoadNode>()->indices, op->span);
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Stmt stmt = StmtExprMutator::VisitStmt_(op);
    Buffer buffer = Renamed(op->buffer);
    if (buffer.same_as(op->buffer)) return stmt;
    const auto* store = stmt.as<BufferStoreNode>();
    return BufferStore(buffer, store->value, store->indices, op->span);
  }
  Stmt VisitStmt_(const LetStmtNode* op) override {
    PrimExpr value = VisitExpr(op->value);
    return Within(op->var, [&](const Var& var) -> Stmt {
      Stmt body = VisitStmt(op->body);
      if (var.same_as(op->var) && value.same_as(op->value) && body.same_as(op->body)) return GetRef<Stmt>(op);
      return LetStmt(var, value, body, op->span);
    });
  }
  Stmt VisitStmt_(const ForNode* op) override {
    PrimExpr min = VisitExpr(op->min), extent = VisitExpr(op->extent);
    IterVar thread = op->thread_binding;
    if (thread.defined() && !bound_.insert(thread->var.get()).second) thread.CopyOnWrite()->var = Fresh(thread->var);
    return Within(op->loop_var, [&](const Var& var) -> Stmt {
      Stmt body = VisitStmt(op->body);
      if (var.same_as(op->loop_var) && min.same_as(op->min) && extent.same_as(op->extent) && body.same_as(op->body) &&
          thread.same_as(op->thread_binding)) {
        return GetRef<Stmt>(op);
      }
      return For(var, min, extent, op->kind, body, thread, op->annotations, op->span);
    });
  }
  Stmt VisitStmt_(const AllocateNode* op) override {
    return Within(op->buffer->data, [&](const Var&) -> Stmt {
      Stmt body = VisitStmt(op->body);
      Buffer buffer = Renamed(op->buffer);
      if (buffer.same_as(op->buffer) && body.same_as(op->body)) return GetRef<Stmt>(op);
      return Allocate(buffer, body, op->annotations, op->span);
    });
  }
  Stmt VisitStmt_(const AttrStmtNode* op) override {
    if (const auto* axis = op->node.as<IterVarNode>()) {
      return Within(axis->var, [&](const Var& var) {
        Stmt stmt = StmtExprMutator::VisitStmt_(op);
        if (var.same_as(axis->var)) return stmt;
        IterVar renamed = GetRef<IterVar>(axis);
        renamed.CopyOnWrite()->var = var;
        return WithNode(stmt, renamed);
      });
    }
    Stmt stmt = StmtExprMutator::VisitStmt_(op);
    if (const auto* buffer = op->node.as<BufferNode>()) return WithNode(stmt, Renamed(GetRef<Buffer>(buffer)));
    if (const auto* var = op->node.as<VarNode>()) return WithNode(stmt, VisitExpr_(var));
    return stmt;
  }

 private:
  struct Renaming {
    Var to;
    std::unordered_map<const Object*, Buffer> buffers;  ///< those whose data pointer it is
  };

  /// What `visit` makes of the scope in which `var` is bound, given the variable to bind there.
  template <typename F>
  auto Within(const Var& var, const F& visit) -> decltype(visit(var)) {
    if (bound_.insert(var.get()).second) return visit(var);
    const Var fresh = Fresh(var);
    auto outer = renamed_.extract(var.get());
    renamed_.emplace(var.get(), Renaming{fresh, {}});
    memo_.clear();
    auto result = visit(fresh);
    renamed_.erase(var.get());
    if (outer) renamed_.insert(std::move(outer));
    memo_.clear();
    return result;
  }
  static Var Fresh(const Var& var) {
    if (var->type_annotation.defined()) return Var(var->name_hint, var->type_annotation, var->span);
    return Var(var->name_hint, var.dtype(), var->span);
  }
  Buffer Renamed(const Buffer& buffer) {
    auto it = renamed_.find(buffer->data.get());
    if (it == renamed_.end()) return buffer;
    auto [known, added] = it->second.buffers.emplace(buffer.get(), buffer);
    if (added) known->second.CopyOnWrite()->data = it->second.to;
    return known->second;
  }
  static Stmt WithNode(const Stmt& stmt, const ObjectRef& node) {
    const auto* attr = stmt.as<AttrStmtNode>();
    return node.same_as(attr->node) ? stmt : AttrStmt(node, attr->attr_key, attr->value, attr->body, attr->span);
  }

  std::unordered_set<const Object*> bound_;
  std::unordered_map<const Object*, Renaming> renamed_;
  std::unordered_map<const Object*, std::pair<PrimExpr, PrimExpr>> memo_;  ///< node, kept alive, and its result
  int lets_ = 0;
};

}  // namespace

PrimFunc ConvertSSA(PrimFunc func, const LowerConfig&) { return SSAConverter().Run(std::move(func)); }

}  // namespace treadle::tir
