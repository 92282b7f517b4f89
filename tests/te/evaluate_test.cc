// SPDX-License-Identifier: Apache-2.0
#include "treadle/te/evaluate.h"

#include <gtest/gtest.h>

#include "treadle/ir/prim_ops.h"

namespace treadle::te {
namespace {

/// Element 0 of x squared `times` times, where element 0 of x is the dimension n.
PrimExpr SquaredElement(int times) {
  const Tensor x = Placeholder({tir::make_const(DataType::Int(64), 1)}, DataType::Int(64), "x");
  Tensor y = x;
  for (int i = 0; i < times; ++i) {
    y = Compute(x->shape, [&](const Array<PrimExpr>& at) { return y(at) * y(at); }, "square");
  }
  const tir::Var n("n", DataType::Int(64));
  ElementEvaluator evaluator({x}, [&](size_t, int64_t) -> PrimExpr { return n; });
  return evaluator.Element(y, {0});
}

/// Only the few nodes of a product of products that are shared are small.
TEST(ElementEvaluator, GivesUpOnExpressionsThatGrowExponentially) {
  EXPECT_TRUE(SquaredElement(2).defined());
  EXPECT_FALSE(SquaredElement(60).defined());
}

}  // namespace
}  // namespace treadle::te
