// SPDX-License-Identifier: Apache-2.0
// Random index expressions.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "treadle/ir/prim_ops.h"

namespace treadle::testing_util {

/// Expressions of three variables; each choice takes one number of the source.
class IndexExprGenerator {
 public:
  explicit IndexExprGenerator(std::function<unsigned()> source) : source_(std::move(source)) {}
  std::vector<tir::Var> vars{tir::Var("i"), tir::Var("j"), tir::Var("k")};

  PrimExpr Expr(int depth) {
    if (depth == 0) return Pick(3) == 0 ? PrimExpr(Pick(20) - 8) : PrimExpr(vars[Pick(3)]);
    PrimExpr a = Expr(depth - 1);
    switch (Pick(10)) {
      case 0:
      case 1:
        return tir::Add(a, Expr(depth - 1));
      case 2:
        return tir::Sub(a, Expr(depth - 1));
      case 3:
      case 4:
        return tir::Mul(a, PrimExpr(Pick(12) - 3));
      case 5:
        return tir::FloorDiv(a, PrimExpr(1 + Pick(9)));
      case 6:
        return tir::FloorMod(a, PrimExpr(1 + Pick(9)));
      case 7:
        return tir::Min(a, Expr(depth - 1));
      case 8:
        return tir::Max(a, Expr(depth - 1));
      default:
        return Pick(2)   ? PrimExpr(tir::Select(Condition(depth - 1), a, Expr(depth - 1)))
               : Pick(2) ? PrimExpr(tir::Div(a, PrimExpr(1 + Pick(9))))
                         : PrimExpr(tir::Mod(a, PrimExpr(1 + Pick(9))));
    }
  }
  PrimExpr Condition(int depth) {
    PrimExpr a = Expr(depth), b = Expr(depth);
    switch (Pick(7)) {
      case 0:
        return tir::LT(a, b);
      case 1:
        return tir::LE(a, b);
      case 2:
        return tir::EQ(a, b);
      case 3:
        return tir::NE(a, b);
      case 4:
        return tir::GE(a, b);
      case 5:
        return depth > 0 ? PrimExpr(tir::And(Condition(depth - 1), Condition(depth - 1))) : tir::GT(a, b);
      default:
        return tir::Not(tir::GT(a, b));
    }
  }
  int Pick(int n) { return static_cast<int>(source_() % static_cast<unsigned>(n)); }

 private:
  std::function<unsigned()> source_;
};

}  // namespace treadle::testing_util
