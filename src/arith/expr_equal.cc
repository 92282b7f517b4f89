// SPDX-License-Identifier: Apache-2.0
#include "treadle/arith/analyzer.h"

#include <cmath>

#include "treadle/ir/prim_functor.h"

namespace treadle::arith {

using namespace tir;  // NOLINT(google-build-using-namespace): one line per node kind follows

namespace {

bool ArraysEqual(const Array<PrimExpr>& a, const Array<PrimExpr>& b) {
  if (a.same_as(b)) return true;
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!ExprDeepEqual(a[i], b[i])) return false;
  }
  return true;
}

class EqualTo : public ExprFunctor<bool(const PrimExpr&)> {
 public:
  explicit EqualTo(const PrimExpr& other) : other_(other) {}

 protected:
  bool VisitExpr_(const VarNode*) override { return false; }  // identity is checked before
  bool VisitExpr_(const IterVarNode*) override { return false; }
  bool VisitExpr_(const ReduceNode*) override { return false; }
  bool VisitExpr_(const LetNode*) override { return false; }
  bool VisitExpr_(const IntImmNode* op) override { return op->value == other_.as<IntImmNode>()->value; }
  bool VisitExpr_(const FloatImmNode* op) override {
    double x = op->value, y = other_.as<FloatImmNode>()->value;
    return x == y && std::signbit(x) == std::signbit(y);
  }
  bool VisitExpr_(const StringImmNode* op) override { return op->value == other_.as<StringImmNode>()->value; }
  bool VisitExpr_(const CastNode* op) override { return ExprDeepEqual(op->value, other_.as<CastNode>()->value); }
#define TREADLE_EQUAL_BINARY(Name)                                   \
  bool VisitExpr_(const Name##Node* op) override {                   \
    const auto* o = other_.as<Name##Node>();                         \
    return ExprDeepEqual(op->a, o->a) && ExprDeepEqual(op->b, o->b); \
  }
  TREADLE_EQUAL_BINARY(Add)
  TREADLE_EQUAL_BINARY(Sub)
  TREADLE_EQUAL_BINARY(Mul)
  TREADLE_EQUAL_BINARY(Div)
  TREADLE_EQUAL_BINARY(Mod)
  TREADLE_EQUAL_BINARY(FloorDiv)
  TREADLE_EQUAL_BINARY(FloorMod)
  TREADLE_EQUAL_BINARY(Min)
  TREADLE_EQUAL_BINARY(Max)
  TREADLE_EQUAL_BINARY(EQ)
  TREADLE_EQUAL_BINARY(NE)
  TREADLE_EQUAL_BINARY(LT)
  TREADLE_EQUAL_BINARY(LE)
  TREADLE_EQUAL_BINARY(GT)
  TREADLE_EQUAL_BINARY(GE)
  TREADLE_EQUAL_BINARY(And)
  TREADLE_EQUAL_BINARY(Or)
#undef TREADLE_EQUAL_BINARY
  bool VisitExpr_(const NotNode* op) override { return ExprDeepEqual(op->a, other_.as<NotNode>()->a); }
  bool VisitExpr_(const SelectNode* op) override {
    const auto* o = other_.as<SelectNode>();
    return ExprDeepEqual(op->condition, o->condition) && ExprDeepEqual(op->true_value, o->true_value) &&
           ExprDeepEqual(op->false_value, o->false_value);
  }
  bool VisitExpr_(const RampNode* op) override {
    const auto* o = other_.as<RampNode>();
    return ExprDeepEqual(op->base, o->base) && ExprDeepEqual(op->stride, o->stride);
  }
  bool VisitExpr_(const BroadcastNode* op) override {
    return ExprDeepEqual(op->value, other_.as<BroadcastNode>()->value);
  }
  bool VisitExpr_(const ShuffleNode* op) override {
    const auto* o = other_.as<ShuffleNode>();
    return ArraysEqual(op->vectors, o->vectors) && ArraysEqual(op->indices, o->indices);
  }
  bool VisitExpr_(const CallNode* op) override {
    const auto* o = other_.as<CallNode>();
    return op->op.same_as(o->op) && ArraysEqual(op->args, o->args);
  }
  bool VisitExpr_(const BufferLoadNode* op) override {
    const auto* o = other_.as<BufferLoadNode>();
    return op->buffer.same_as(o->buffer) && ArraysEqual(op->indices, o->indices);
  }
  bool VisitExpr_(const ProducerLoadNode* op) override {
    const auto* o = other_.as<ProducerLoadNode>();
    return op->producer.same_as(o->producer) && ArraysEqual(op->indices, o->indices);
  }

 private:
  const PrimExpr& other_;
};

class VarFinder : public ExprVisitor {
 public:
  explicit VarFinder(const std::function<bool(const VarNode*)>& is_wanted) : is_wanted_(is_wanted) {}
  bool found = false;

 protected:
  void VisitExpr(const PrimExpr& e) override {
    if (!found) ExprVisitor::VisitExpr(e);
  }
  void VisitExpr_(const VarNode* op) override { found |= is_wanted_(op); }

 private:
  const std::function<bool(const VarNode*)>& is_wanted_;
};

class DataFinder : public ExprVisitor {
 public:
  bool found = false;

 protected:
  void VisitExpr(const PrimExpr& e) override {
    if (!found) ExprVisitor::VisitExpr(e);
  }
  void VisitExpr_(const BufferLoadNode*) override { found = true; }
  void VisitExpr_(const ProducerLoadNode*) override { found = true; }
  void VisitExpr_(const CallNode* op) override {
    if (IsCallTo(op, "tir.if_then_else") || IsCallTo(op, "tir.likely")) {
      ExprVisitor::VisitExpr_(op);
    } else {
      found = true;
    }
  }
};

}  // namespace

bool ExprDeepEqual(const PrimExpr& a, const PrimExpr& b) {
  if (a.same_as(b)) return true;
  if (!a.defined() || !b.defined()) return false;
  if (a->type_info() != b->type_info() || a.dtype() != b.dtype()) return false;
  return EqualTo(b)(a);
}

bool UsesVar(const PrimExpr& expr, const std::function<bool(const VarNode*)>& is_wanted) {
  VarFinder finder(is_wanted);
  finder(expr);
  return finder.found;
}

bool ReadsData(const PrimExpr& expr) {
  DataFinder finder;
  finder(expr);
  return finder.found;
}

}  // namespace treadle::arith
