// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/prim_functor.h"

namespace treadle::tir {

template class ExprFunctor<void(const PrimExpr&)>;
template class ExprFunctor<PrimExpr(const PrimExpr&)>;

void ExprVisitor::VisitExpr_(const VarNode*) {}
void ExprVisitor::VisitExpr_(const IntImmNode*) {}
void ExprVisitor::VisitExpr_(const FloatImmNode*) {}
void ExprVisitor::VisitExpr_(const StringImmNode*) {}
void ExprVisitor::VisitExpr_(const CastNode* op) { VisitExpr(op->value); }

#define TREADLE_BINARY_KINDS(X) \
  X(Add)                        \
  X(Sub) X(Mul) X(Div) X(Mod) X(FloorDiv) X(FloorMod) X(Min) X(Max) X(EQ) X(NE) X(LT) X(LE) X(GT) X(GE) X(And) X(Or)
#define TREADLE_VISIT_BINARY(Name)                     \
  void ExprVisitor::VisitExpr_(const Name##Node* op) { \
    VisitExpr(op->a);                                  \
    VisitExpr(op->b);                                  \
  }
TREADLE_BINARY_KINDS(TREADLE_VISIT_BINARY)

void ExprVisitor::VisitExpr_(const NotNode* op) { VisitExpr(op->a); }
void ExprVisitor::VisitExpr_(const SelectNode* op) {
  VisitExpr(op->condition);
  VisitExpr(op->true_value);
  VisitExpr(op->false_value);
}
void ExprVisitor::VisitExpr_(const RampNode* op) {
  VisitExpr(op->base);
  VisitExpr(op->stride);
}
void ExprVisitor::VisitExpr_(const BroadcastNode* op) { VisitExpr(op->value); }
void ExprVisitor::VisitExpr_(const ShuffleNode* op) {
  for (const PrimExpr& e : op->vectors) VisitExpr(e);
  for (const PrimExpr& e : op->indices) VisitExpr(e);
}
void ExprVisitor::VisitExpr_(const LetNode* op) {
  VisitExpr(op->value);
  VisitExpr(op->body);
}
void ExprVisitor::VisitExpr_(const CallNode* op) {
  for (const PrimExpr& e : op->args) VisitExpr(e);
}
void ExprVisitor::VisitExpr_(const BufferLoadNode* op) {
  for (const PrimExpr& e : op->indices) VisitExpr(e);
}
void ExprVisitor::VisitExpr_(const ProducerLoadNode* op) {
  for (const PrimExpr& e : op->indices) VisitExpr(e);
}
void ExprVisitor::VisitExpr_(const ReduceNode* op) {
  for (const IterVar& axis : op->axis) {
    VisitExpr(axis->dom->min);
    VisitExpr(axis->dom->extent);
  }
  for (const PrimExpr& e : op->source) VisitExpr(e);
  for (const PrimExpr& e : op->init) VisitExpr(e);
  VisitExpr(op->condition);
}
void ExprVisitor::VisitExpr_(const IterVarNode* op) { VisitExpr(op->var); }

PrimExpr ExprMutator::VisitExpr_(const VarNode* op) { return GetRef<PrimExpr>(op); }
PrimExpr ExprMutator::VisitExpr_(const IntImmNode* op) { return GetRef<PrimExpr>(op); }
PrimExpr ExprMutator::VisitExpr_(const FloatImmNode* op) { return GetRef<PrimExpr>(op); }
PrimExpr ExprMutator::VisitExpr_(const StringImmNode* op) { return GetRef<PrimExpr>(op); }

PrimExpr ExprMutator::VisitExpr_(const CastNode* op) {
  PrimExpr value = VisitExpr(op->value);
  if (value.same_as(op->value)) return GetRef<PrimExpr>(op);
  return Cast(op->dtype, std::move(value), op->span);
}

#define TREADLE_MUTATE_BINARY(Name)                                        \
  PrimExpr ExprMutator::VisitExpr_(const Name##Node* op) {                 \
    PrimExpr a = VisitExpr(op->a);                                         \
    PrimExpr b = VisitExpr(op->b);                                         \
    if (a.same_as(op->a) && b.same_as(op->b)) return GetRef<PrimExpr>(op); \
    return Name(std::move(a), std::move(b), op->span);                     \
  }
TREADLE_BINARY_KINDS(TREADLE_MUTATE_BINARY)

PrimExpr ExprMutator::VisitExpr_(const NotNode* op) {
  PrimExpr a = VisitExpr(op->a);
  if (a.same_as(op->a)) return GetRef<PrimExpr>(op);
  return Not(std::move(a), op->span);
}
PrimExpr ExprMutator::VisitExpr_(const SelectNode* op) {
  PrimExpr condition = VisitExpr(op->condition);
  PrimExpr true_value = VisitExpr(op->true_value);
  PrimExpr false_value = VisitExpr(op->false_value);
  if (condition.same_as(op->condition) && true_value.same_as(op->true_value) && false_value.same_as(op->false_value)) {
    return GetRef<PrimExpr>(op);
  }
  return Select(std::move(condition), std::move(true_value), std::move(false_value), op->span);
}
PrimExpr ExprMutator::VisitExpr_(const RampNode* op) {
  PrimExpr base = VisitExpr(op->base);
  PrimExpr stride = VisitExpr(op->stride);
  if (base.same_as(op->base) && stride.same_as(op->stride)) return GetRef<PrimExpr>(op);
  return Ramp(std::move(base), std::move(stride), op->lanes, op->span);
}
PrimExpr ExprMutator::VisitExpr_(const BroadcastNode* op) {
  PrimExpr value = VisitExpr(op->value);
  if (value.same_as(op->value)) return GetRef<PrimExpr>(op);
  return Broadcast(std::move(value), op->lanes, op->span);
}
PrimExpr ExprMutator::VisitExpr_(const ShuffleNode* op) {
  auto visit = [this](const PrimExpr& e) { return VisitExpr(e); };
  Array<PrimExpr> vectors = op->vectors.Map(visit);
  Array<PrimExpr> indices = op->indices.Map(visit);
  if (vectors.same_as(op->vectors) && indices.same_as(op->indices)) return GetRef<PrimExpr>(op);
  return Shuffle(std::move(vectors), std::move(indices), op->span);
}
PrimExpr ExprMutator::VisitExpr_(const LetNode* op) {
  PrimExpr value = VisitExpr(op->value);
  PrimExpr body = VisitExpr(op->body);
  if (value.same_as(op->value) && body.same_as(op->body)) return GetRef<PrimExpr>(op);
  return Let(op->var, std::move(value), std::move(body), op->span);
}
PrimExpr ExprMutator::VisitExpr_(const CallNode* op) {
  Array<PrimExpr> args = op->args.Map([this](const PrimExpr& e) { return VisitExpr(e); });
  if (args.same_as(op->args)) return GetRef<PrimExpr>(op);
  return Call(op->dtype, op->op, std::move(args), op->span);
}
PrimExpr ExprMutator::VisitExpr_(const BufferLoadNode* op) {
  Array<PrimExpr> indices = op->indices.Map([this](const PrimExpr& e) { return VisitExpr(e); });
  if (indices.same_as(op->indices)) return GetRef<PrimExpr>(op);
  return BufferLoad(op->buffer, std::move(indices), op->span);
}
PrimExpr ExprMutator::VisitExpr_(const ProducerLoadNode* op) {
  Array<PrimExpr> indices = op->indices.Map([this](const PrimExpr& e) { return VisitExpr(e); });
  if (indices.same_as(op->indices)) return GetRef<PrimExpr>(op);
  return ProducerLoad(op->producer, std::move(indices), op->span);
}
PrimExpr ExprMutator::VisitExpr_(const ReduceNode* op) {
  auto visit = [this](const PrimExpr& e) { return VisitExpr(e); };
  Array<IterVar> axis = op->axis.Map([&](const IterVar& iv) {
    PrimExpr min = VisitExpr(iv->dom->min);
    PrimExpr extent = VisitExpr(iv->dom->extent);
    if (min.same_as(iv->dom->min) && extent.same_as(iv->dom->extent)) return iv;
    return IterVar(Range::FromMinExtent(min, extent), iv->var, iv->iter_type, iv->thread_tag, iv->span);
  });
  Array<PrimExpr> source = op->source.Map(visit);
  Array<PrimExpr> init = op->init.Map(visit);
  PrimExpr condition = VisitExpr(op->condition);
  if (axis.same_as(op->axis) && source.same_as(op->source) && init.same_as(op->init) &&
      condition.same_as(op->condition)) {
    return GetRef<PrimExpr>(op);
  }
  return Reduce(op->combiner, std::move(source), std::move(axis), std::move(condition), op->value_index,
                std::move(init), op->span);
}
PrimExpr ExprMutator::VisitExpr_(const IterVarNode* op) {
  PrimExpr var = VisitExpr(op->var);
  if (var.same_as(op->var)) return GetRef<PrimExpr>(op);
  return var;
}

}  // namespace treadle::tir
