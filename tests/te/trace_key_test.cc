// SPDX-License-Identifier: Apache-2.0
#include "treadle/tir/trace_key.h"

#include <gtest/gtest.h>

#include "treadle/ir/prim_ops.h"
#include "treadle/ir/structural.h"
#include "treadle/te/schedule.h"
#include "treadle/te/tensor.h"

namespace treadle::tir {
namespace {

PrimFunc Doubled(const std::string& block) {
  te::Tensor x = te::Placeholder({PrimExpr(int64_t{8})}, DataType::Float(32), "x");
  te::Tensor y =
      te::Compute({PrimExpr(int64_t{8})}, [&](const Array<Var>& i) { return tir::add(x(i[0]), x(i[0])); }, block);
  return te::CreatePrimFunc({x, y}, "main");
}

// Structural equality leaves out names, but traces find blocks by them.
TEST(TraceKeyTest, DiffersByTheNamesOfBlocks) {
  EXPECT_EQ(StructuralHash(Doubled("y")), StructuralHash(Doubled("z")));
  EXPECT_EQ(TraceKey(Doubled("y")), TraceKey(Doubled("y")));
  EXPECT_NE(TraceKey(Doubled("y")), TraceKey(Doubled("z")));
}

}  // namespace
}  // namespace treadle::tir
