// SPDX-License-Identifier: Apache-2.0
// A direct evaluator of integer expressions, for checking rewrites.
#pragma once

#include <algorithm>
#include <unordered_map>

#include "treadle/ir/prim_functor.h"

namespace treadle::testing_util {

using Env = std::unordered_map<const tir::VarNode*, int64_t>;

class IntEvaluator : public tir::ExprFunctor<int64_t(const PrimExpr&)> {
 public:
  explicit IntEvaluator(const Env& env) : env_(env) {}

 protected:
  static int64_t FloorDiv(int64_t a, int64_t b) {
    int64_t q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
  }
  int64_t VisitExpr_(const tir::VarNode* op) override { return env_.at(op); }
  int64_t VisitExpr_(const treadle::IntImmNode* op) override { return op->value; }
  int64_t VisitExpr_(const tir::CastNode* op) override { return VisitExpr(op->value); }
#define TREADLE_EVAL(Name, expression)                     \
  int64_t VisitExpr_(const tir::Name##Node* op) override { \
    int64_t a = VisitExpr(op->a), b = VisitExpr(op->b);    \
    return expression;                                     \
  }
  TREADLE_EVAL(Add, a + b)
  TREADLE_EVAL(Sub, a - b)
  TREADLE_EVAL(Mul, a* b)
  TREADLE_EVAL(Div, a / b)
  TREADLE_EVAL(Mod, a % b)
  TREADLE_EVAL(FloorDiv, FloorDiv(a, b))
  TREADLE_EVAL(FloorMod, a - FloorDiv(a, b) * b)
  TREADLE_EVAL(Min, std::min(a, b))
  TREADLE_EVAL(Max, std::max(a, b))
  TREADLE_EVAL(EQ, a == b)
  TREADLE_EVAL(NE, a != b)
  TREADLE_EVAL(LT, a < b)
  TREADLE_EVAL(LE, a <= b)
  TREADLE_EVAL(GT, a > b)
  TREADLE_EVAL(GE, a >= b)
  TREADLE_EVAL(And, a&& b)
  TREADLE_EVAL(Or, a || b)
#undef TREADLE_EVAL
  int64_t VisitExpr_(const tir::NotNode* op) override { return !VisitExpr(op->a); }
  int64_t VisitExpr_(const tir::SelectNode* op) override {
    return VisitExpr(op->condition) ? VisitExpr(op->true_value) : VisitExpr(op->false_value);
  }

 private:
  const Env& env_;
};

inline int64_t EvalInt(const PrimExpr& e, const Env& env) { return IntEvaluator(env)(e); }

}  // namespace treadle::testing_util
