// SPDX-License-Identifier: Apache-2.0
#include "tir/passes/hoist_reads.h"

#include <algorithm>

#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/attrs.h"

namespace treadle::tir {
namespace {

/// Operands that may have been written to: those that something other than a load names.
class WriteCollector : public StmtExprVisitor {
 public:
  std::unordered_set<const Object*> written;

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;
  void VisitStmt_(const BufferStoreNode* op) override {
    written.insert(op->buffer->data.get());
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitExpr_(const VarNode* op) override { written.insert(op); }
};

/// Expressions of integers that read only what doesn't change.
class FixedReads {
 public:
  explicit FixedReads(const PrimFuncNode* func) {
    WriteCollector writes;
    writes(func->body);
    for (const auto& [param, buffer] : func->buffer_map) {
      if (writes.written.count(buffer->data.get()) == 0) operands_.insert(buffer->data.get());
    }
  }
  bool none() const { return operands_.empty(); }

  bool IsFixed(const PrimExpr& e, bool* reads) const {
    if (!e.dtype().is_int() || !e.dtype().is_scalar()) return false;
    if (e.as<IntImmNode>() != nullptr) return true;
    if (const auto* load = e.as<BufferLoadNode>()) {
      *reads = true;
      return IsInside(load);
    }
    if (const auto* cast = e.as<CastNode>()) return IsFixed(cast->value, reads);
    return OfBoth<AddNode>(e, reads) || OfBoth<SubNode>(e, reads) || OfBoth<MinNode>(e, reads) ||
           OfBoth<MaxNode>(e, reads);
  }

 private:
  template <typename T>
  bool OfBoth(const PrimExpr& e, bool* reads) const {
    const auto* op = e.as<T>();
    return op != nullptr && IsFixed(op->a, reads) && IsFixed(op->b, reads);
  }

  /// Whether the element exists, in an operand that isn't written.
  bool IsInside(const BufferLoadNode* load) const {
    if (operands_.count(load->buffer->data.get()) == 0) return false;
    for (size_t i = 0; i < load->indices.size(); ++i) {
      const int64_t *index = AsConstInt(load->indices[i]), *size = AsConstInt(load->buffer->shape[i]);
      if (index == nullptr || size == nullptr || *index < 0 || *index >= *size) return false;
    }
    return true;
  }

  std::unordered_set<const Object*> operands_;
};

/// The largest such expressions in conditions within loops.
class ReadCollector : public StmtExprVisitor {
 public:
  explicit ReadCollector(const FixedReads& fixed) : fixed_(fixed) {}
  std::vector<PrimExpr> found;

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;
  void VisitExpr(const PrimExpr& e) override {
    if (in_condition_) {
      bool reads = false;
      if (fixed_.IsFixed(e, &reads)) {
        if (reads) Add(e);
        return;
      }
    }
    StmtExprVisitor::VisitExpr(e);
  }
  void VisitStmt_(const ForNode* op) override {
    ++loops_;
    VisitStmt(op->body);
    --loops_;
  }
  void VisitStmt_(const IfThenElseNode* op) override {
    VisitCondition(op->condition);
    VisitStmt(op->then_case);
    if (op->else_case.defined()) VisitStmt(op->else_case);
  }
  void VisitExpr_(const CallNode* op) override {
    if (!IsCallTo(op, "tir.if_then_else")) return StmtExprVisitor::VisitExpr_(op);
    VisitCondition(op->args[0]);
    VisitExpr(op->args[1]);
    VisitExpr(op->args[2]);
  }

 private:
  void VisitCondition(const PrimExpr& condition) {
    const bool outer = std::exchange(in_condition_, loops_ > 0);
    VisitExpr(condition);
    in_condition_ = outer;
  }
  void Add(const PrimExpr& e) {
    const bool known =
        std::any_of(found.begin(), found.end(), [&](const auto& f) { return arith::ExprDeepEqual(f, e); });
    if (!known) found.push_back(e);
  }

  const FixedReads& fixed_;
  int loops_ = 0;
  bool in_condition_ = false;
};

class ReadReplacer : public FoldingMutator {
 public:
  explicit ReadReplacer(const std::vector<std::pair<PrimExpr, Var>>& vars) : vars_(vars) {}

 protected:
  PrimExpr VisitExpr(const PrimExpr& e) override {
    for (const auto& [value, var] : vars_) {
      if (arith::ExprDeepEqual(e, value)) return var;
    }
    return FoldingMutator::VisitExpr(e);
  }

 private:
  const std::vector<std::pair<PrimExpr, Var>>& vars_;
};

}  // namespace

PrimFunc HoistReads(PrimFunc func) {
  auto noalias = func->GetAttr<IntImm>(::treadle::attr::kNoAlias);
  if (!noalias || (*noalias)->value == 0) return func;
  const FixedReads fixed(func.get());
  if (fixed.none()) return func;
  ReadCollector collector(fixed);
  collector(func->body);
  if (collector.found.empty()) return func;
  std::vector<std::pair<PrimExpr, Var>> vars;
  for (const PrimExpr& e : collector.found) vars.emplace_back(e, Var("read", e.dtype()));
  Stmt body = ReadReplacer(vars).Rewrite(func->body);
  for (size_t i = vars.size(); i-- > 0;) body = LetStmt(vars[i].second, vars[i].first, body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
