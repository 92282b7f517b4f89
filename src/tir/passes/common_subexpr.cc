// SPDX-License-Identifier: Apache-2.0
// Common subexpressions are computed once. Within a stored value: any that is worth a variable. Among the statements
// of a loop's body: quotients and remainders of indices (what is cheaper, compilers of machine code share by
// themselves); those that the loop doesn't change are taken out of it.
#include <algorithm>

#include "tir/bind_shared.h"
#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"

namespace treadle::tir {
namespace {

class ChildCollector : public ExprVisitor {
 public:
  std::vector<PrimExpr> children;
  static std::vector<PrimExpr> Of(const PrimExpr& e) {
    ChildCollector collector;
    collector.ExprVisitor::VisitExpr(e);
    return std::move(collector.children);
  }
  void VisitExpr(const PrimExpr& e) override { children.push_back(e); }
};

bool IsVectorIndex(const PrimExpr& e) { return e.dtype().is_vector() && e.dtype().is_integral(); }

/// Equal subexpressions become one node. Vectors of indices stay apart: how they are made tells how memory is read.
class Interner : public ExprMutator {
 public:
  PrimExpr Run(const PrimExpr& e) { return VisitExpr(e); }

 protected:
  PrimExpr VisitExpr(const PrimExpr& e) override {
    // Operands of which the place counts, not the value.
    if (const auto* call = e.as<CallNode>()) {
      if (EffectOf(call) == CallEffect::kOpaque || IsCallTo(call, "tir.address_of") ||
          IsCallTo(call, "tir.masked_load")) {
        return e;
      }
    }
    auto known = memo_.find(e.get());
    if (known != memo_.end()) return known->second.second;
    PrimExpr result = ExprMutator::VisitExpr(e);
    if (!IsVectorIndex(result)) result = Canonical(result);
    memo_.emplace(e.get(), std::make_pair(e, result));
    return result;
  }

 private:
  PrimExpr Canonical(const PrimExpr& e) {
    if (e.as<VarNode>()) return e;
    size_t hash = e->type_index();
    auto mix = [&](size_t h) { hash = hash * 1000003u ^ h; };
    if (const int64_t* value = AsConstInt(e)) mix(static_cast<size_t>(*value));
    if (const auto* imm = e.as<FloatImmNode>()) mix(std::hash<double>()(imm->value));
    if (const auto* load = e.as<BufferLoadNode>()) mix(std::hash<const void*>()(load->buffer.get()));
    for (const PrimExpr& child : ChildCollector::Of(e)) {
      if (!IsVectorIndex(child)) mix(std::hash<const void*>()(child.get()));
    }
    for (const PrimExpr& other : table_[hash]) {
      if (other.dtype() == e.dtype() && arith::ExprDeepEqual(other, e)) return other;
    }
    table_[hash].push_back(e);
    return e;
  }
  std::unordered_map<const Object*, std::pair<PrimExpr, PrimExpr>> memo_;
  std::unordered_map<size_t, std::vector<PrimExpr>> table_;
};

/// Quotients and remainders of integers in the statements of one loop's body, in terms of what is known there.
class IndexFinder : public StmtExprVisitor {
 public:
  struct Found {
    PrimExpr e;
    int uses = 0;
    int size = 0;
  };
  std::vector<Found> found;
  bool threads = false;

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;
  void VisitStmt_(const ForNode* op) override {
    threads = threads || op->kind == ForKind::kThreadBinding;
    VisitExpr(op->min);
    VisitExpr(op->extent);
    own_.insert(op->loop_var.get());
    ++loops_;
    VisitStmt(op->body);
    --loops_;
  }
  void VisitStmt_(const LetStmtNode* op) override {
    VisitExpr(op->value);
    own_.insert(op->var.get());
    VisitStmt(op->body);
  }
  void VisitExpr_(const LetNode* op) override {
    VisitExpr(op->value);
    own_.insert(op->var.get());
    VisitExpr(op->body);
  }
  void VisitExpr(const PrimExpr& e) override {
    const bool divides = e.as<FloorDivNode>() || e.as<FloorModNode>() || e.as<DivNode>() || e.as<ModNode>();
    if (divides && e.dtype().is_scalar() && e.dtype().is_integral() && Note(e)) return;
    StmtExprVisitor::VisitExpr(e);
  }

 private:
  /// False where the value isn't known outside of the statement.
  bool Note(const PrimExpr& e) {
    int size = 0;
    bool known = true;
    std::vector<PrimExpr> todo{e};
    while (!todo.empty() && known) {
      PrimExpr at = todo.back();
      todo.pop_back();
      known = ++size <= kMaxSize && !at.as<BufferLoadNode>() && !at.as<CallNode>() && !at.as<LetNode>() &&
              own_.count(at.get()) == 0 && at.dtype().is_integral();
      for (PrimExpr& child : ChildCollector::Of(at)) todo.push_back(std::move(child));
    }
    if (!known) return false;
    for (Found& other : found) {
      if (!arith::ExprDeepEqual(other.e, e)) continue;
      other.uses += loops_ > 0 ? 2 : 1;
      return true;
    }
    if (found.size() < kMaxFound) found.push_back({e, loops_ > 0 ? 2 : 1, size});
    return true;
  }
  static constexpr int kMaxSize = 64;
  static constexpr size_t kMaxFound = 64;
  std::unordered_set<const Object*> own_;  ///< variables bound inside
  int loops_ = 0;
};

class Replacer : public FoldingMutator {
 public:
  explicit Replacer(const std::vector<std::pair<Var, PrimExpr>>& shared) : shared_(shared) {}

 protected:
  PrimExpr VisitExpr(const PrimExpr& e) override {
    if (e.dtype().is_scalar() && e.dtype().is_integral()) {
      for (const auto& [var, value] : shared_) {
        if (e->type_index() == value->type_index() && arith::ExprDeepEqual(e, value)) return var;
      }
    }
    return FoldingMutator::VisitExpr(e);
  }

 private:
  const std::vector<std::pair<Var, PrimExpr>>& shared_;
};

class Eliminator : public StmtMutator {
 public:
  Stmt Run(const Stmt& body) { return VisitStmt(WithSharedIndices(body)); }

 protected:
  using StmtMutator::VisitStmt_;
  Stmt VisitStmt_(const ForNode* op) override {
    For loop = GetRef<For>(op);
    Stmt body = VisitStmt(WithSharedIndices(op->body));
    if (!body.same_as(op->body)) loop.CopyOnWrite()->body = body;
    return loop;
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    PrimExpr value = BindShared(Interner().Run(op->value));
    if (value.same_as(op->value)) return GetRef<Stmt>(op);
    return BufferStore(op->buffer, value, op->indices, op->span);
  }

 private:
  static Stmt WithSharedIndices(const Stmt& body) {
    IndexFinder finder;
    finder(body);
    // Nothing stands between the loops of a grid of threads.
    if (finder.threads) return body;
    std::vector<std::pair<Var, PrimExpr>> shared;
    for (const IndexFinder::Found& f : finder.found) {
      if (f.uses > 1 && !is_const_int(f.e)) shared.emplace_back(Var("cse_var", f.e.dtype()), f.e);
    }
    if (shared.empty()) return body;
    Stmt result = Replacer(shared).Rewrite(body);
    for (size_t i = shared.size(); i-- > 0;) result = LetStmt(shared[i].first, shared[i].second, result);
    return result;
  }
};

}  // namespace

PrimFunc CommonSubexpr(PrimFunc func, const LowerConfig&) {
  Stmt body = Eliminator().Run(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
