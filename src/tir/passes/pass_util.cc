// SPDX-License-Identifier: Apache-2.0
#include "tir/passes/pass_util.h"

#include <cstdlib>
#include <numeric>

namespace treadle::tir {

PrimExpr FoldingMutator::VisitExpr(const PrimExpr& e) {
  if (e.as<VarNode>() || e.as<IntImmNode>() || e.as<FloatImmNode>() || e->use_count() <= 1) {
    return StmtExprMutator::VisitExpr(e);
  }
  auto it = memo_.find(e.get());
  if (it != memo_.end()) return it->second.second;
  PrimExpr result = StmtExprMutator::VisitExpr(e);
  memo_.emplace(e.get(), std::make_pair(e, result));
  return result;
}

#define TREADLE_FOLD_BINARY(Name, function)                                \
  PrimExpr FoldingMutator::VisitExpr_(const Name##Node* op) {              \
    PrimExpr a = VisitExpr(op->a);                                         \
    PrimExpr b = VisitExpr(op->b);                                         \
    if (a.same_as(op->a) && b.same_as(op->b)) return GetRef<PrimExpr>(op); \
    return function(std::move(a), std::move(b));                           \
  }
TREADLE_FOLD_BINARY(Add, add)
TREADLE_FOLD_BINARY(Sub, sub)
TREADLE_FOLD_BINARY(Mul, mul)
TREADLE_FOLD_BINARY(Min, min)
TREADLE_FOLD_BINARY(Max, max)
TREADLE_FOLD_BINARY(EQ, equal)
TREADLE_FOLD_BINARY(NE, not_equal)
TREADLE_FOLD_BINARY(LT, less)
TREADLE_FOLD_BINARY(LE, less_equal)
TREADLE_FOLD_BINARY(GT, greater)
TREADLE_FOLD_BINARY(GE, greater_equal)
TREADLE_FOLD_BINARY(And, logical_and)
TREADLE_FOLD_BINARY(Or, logical_or)

// A divisor that became zero is left to run time, where the result is defined.
#define TREADLE_FOLD_DIVISION(Name, function)                              \
  PrimExpr FoldingMutator::VisitExpr_(const Name##Node* op) {              \
    PrimExpr a = VisitExpr(op->a);                                         \
    PrimExpr b = VisitExpr(op->b);                                         \
    if (a.same_as(op->a) && b.same_as(op->b)) return GetRef<PrimExpr>(op); \
    if (a.dtype().is_integral() && is_zero(b)) return Name(a, b);          \
    return function(std::move(a), std::move(b));                           \
  }
TREADLE_FOLD_DIVISION(Div, div)
TREADLE_FOLD_DIVISION(Mod, truncmod)
TREADLE_FOLD_DIVISION(FloorDiv, floordiv)
TREADLE_FOLD_DIVISION(FloorMod, floormod)

PrimExpr FoldingMutator::VisitExpr_(const NotNode* op) {
  PrimExpr a = VisitExpr(op->a);
  return a.same_as(op->a) ? GetRef<PrimExpr>(op) : logical_not(a);
}

PrimExpr FoldingMutator::VisitExpr_(const SelectNode* op) {
  PrimExpr condition = VisitExpr(op->condition);
  PrimExpr yes = VisitExpr(op->true_value);
  PrimExpr no = VisitExpr(op->false_value);
  if (condition.same_as(op->condition) && yes.same_as(op->true_value) && no.same_as(op->false_value)) {
    return GetRef<PrimExpr>(op);
  }
  return select(condition, yes, no);
}

PrimExpr FoldingMutator::VisitExpr_(const CastNode* op) {
  PrimExpr value = VisitExpr(op->value);
  return value.same_as(op->value) ? GetRef<PrimExpr>(op) : cast(op->dtype, value);
}

PrimExpr FoldingMutator::VisitExpr_(const CallNode* op) {
  PrimExpr result = StmtExprMutator::VisitExpr_(op);
  const auto* call = result.as<CallNode>();
  if (IsCallTo(call, "tir.likely") && is_const_int(call->args[0])) return call->args[0];
  if (IsCallTo(call, "tir.if_then_else") && is_const_int(call->args[0])) {
    return is_zero(call->args[0]) ? call->args[2] : call->args[1];
  }
  return result;
}

PrimFunc WithBody(PrimFunc func, Stmt body) {
  if (body.same_as(func->body)) return func;
  func.CopyOnWrite()->body = std::move(body);
  return func;
}

namespace {
class VarCollector : public SharedExprVisitor {
 public:
  explicit VarCollector(std::unordered_set<const Object*>* vars) : vars_(vars) {}

 protected:
  using StmtExprVisitor::VisitExpr_;
  void VisitExpr_(const VarNode* op) override { vars_->insert(op); }

 private:
  std::unordered_set<const Object*>* vars_;
};
}  // namespace

void CollectVars(const PrimExpr& e, std::unordered_set<const Object*>* vars) { VarCollector(vars).operator()(e); }

bool UsesAnyVar(const PrimExpr& e, const std::unordered_set<const Object*>& vars) {
  std::unordered_set<const Object*> used;
  CollectVars(e, &used);
  for (const Object* v : used) {
    if (vars.count(v) != 0) return true;
  }
  return false;
}

int64_t KnownDivisor(const PrimExpr& e) {
  if (const int64_t* value = AsConstInt(e)) return *value < 0 ? -*value : *value;
  if (const auto* op = e.as<MulNode>()) {
    int64_t result = 1;
    return __builtin_mul_overflow(KnownDivisor(op->a), KnownDivisor(op->b), &result) ? 1 : result;
  }
  if (const auto* op = e.as<AddNode>()) return std::gcd(KnownDivisor(op->a), KnownDivisor(op->b));
  if (const auto* op = e.as<SubNode>()) return std::gcd(KnownDivisor(op->a), KnownDivisor(op->b));
  if (const auto* op = e.as<FloorModNode>()) return std::gcd(KnownDivisor(op->a), KnownDivisor(op->b));
  return 1;
}

bool IsNoOp(const Stmt& stmt) {
  const auto* evaluate = stmt.as<EvaluateNode>();
  return evaluate != nullptr && (is_const_int(evaluate->value) || HasNoSideEffect(evaluate->value));
}

}  // namespace treadle::tir
