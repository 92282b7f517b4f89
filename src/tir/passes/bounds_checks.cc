// SPDX-License-Identifier: Apache-2.0
// Run-time checks of every index, for finding what went wrong.
#include "tir/passes/pass_util.h"

namespace treadle::tir {
namespace {

/// Conditions under which the accesses of a statement stay within their buffers.
class AccessCollector : public ExprVisitor {
 public:
  explicit AccessCollector(const std::unordered_map<const Object*, PrimExpr>& sizes) : sizes_(sizes) {}
  std::vector<std::pair<PrimExpr, std::string>> checks;

  void Add(const Buffer& buffer, const Array<PrimExpr>& indices) {
    auto it = sizes_.find(buffer->data.get());
    if (it == sizes_.end() || indices.size() != 1 || !indices[0].dtype().is_scalar()) return;
    const PrimExpr index = cast(DataType::Int(64), indices[0]);
    PrimExpr inside = index >= 0 && index < cast(DataType::Int(64), it->second);
    for (size_t i = conditions_.size(); i-- > 0;) inside = logical_not(conditions_[i]) || inside;
    if (!is_one(inside)) checks.emplace_back(inside, StrCat("index of buffer ", buffer->name, " is out of bounds"));
  }

 protected:
  void VisitExpr_(const BufferLoadNode* op) override {
    Add(op->buffer, op->indices);
    ExprVisitor::VisitExpr_(op);
  }
  void VisitExpr_(const LetNode* op) override {
    // What lies under a let uses its variable, which the check's place doesn't know.
    VisitExpr(op->value);
  }
  void VisitExpr_(const CallNode* op) override {
    if (!IsCallTo(op, "tir.if_then_else")) return ExprVisitor::VisitExpr_(op);
    VisitExpr(op->args[0]);
    for (int arm = 1; arm <= 2; ++arm) {
      conditions_.push_back(arm == 1 ? op->args[0] : logical_not(op->args[0]));
      VisitExpr(op->args[static_cast<size_t>(arm)]);
      conditions_.pop_back();
    }
  }

 private:
  const std::unordered_map<const Object*, PrimExpr>& sizes_;
  std::vector<PrimExpr> conditions_;
};

class BoundsInstrumenter : public StmtMutator {
 public:
  explicit BoundsInstrumenter(const PrimFunc& func) {
    for (const auto& [param, buffer] : func->buffer_map) {
      if (!buffer->strides.empty()) continue;
      sizes_[buffer->data.get()] = Count(buffer);
    }
  }
  Stmt Run(const Stmt& body) { return VisitStmt(body); }

 protected:
  Stmt VisitStmt_(const AllocateNode* op) override {
    sizes_[op->buffer->data.get()] = Count(op->buffer);
    return StmtMutator::VisitStmt_(op);
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    AccessCollector collector(sizes_);
    collector.Add(op->buffer, op->indices);
    for (const PrimExpr& index : op->indices) collector(index);
    collector(op->value);
    Stmt result = GetRef<Stmt>(op);
    for (size_t i = collector.checks.size(); i-- > 0;) {
      result = AssertStmt(collector.checks[i].first, StringImm(collector.checks[i].second), result);
    }
    return result;
  }

 private:
  static PrimExpr Count(const Buffer& buffer) {
    PrimExpr count = IntImm(DataType::Int(64), 1);
    for (const PrimExpr& extent : buffer->shape) count = count * cast(DataType::Int(64), extent);
    return count;
  }
  std::unordered_map<const Object*, PrimExpr> sizes_;
};

}  // namespace

PrimFunc InstrumentBoundsChecks(PrimFunc func, const LowerConfig& config) {
  if (!config.bounds_check) return func;
  Stmt body = BoundsInstrumenter(func).Run(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
