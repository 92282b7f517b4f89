// SPDX-License-Identifier: Apache-2.0
// Tensor expressions as a user writes them in C++: the example of docs/schedules.md.
#include <gtest/gtest.h>

#include "tests_common/interpret.h"
#include "treadle/te/schedule.h"
#include "treadle/tir/text.h"

namespace treadle {
namespace {

TEST(User, SchedulesAMatrixProduct) {
  const int n = 16;
  te::Tensor a = te::Placeholder({n, n}, DataType::Float(32), "A");
  te::Tensor b = te::Placeholder({n, n}, DataType::Float(32), "B");
  te::IterVar k = te::ReduceAxis(tir::Range::FromMinExtent(0, n), "k");
  te::Tensor c = te::Compute({n, n}, [&](const auto& i) { return te::Sum(a(i[0], k) * b(k, i[1]), {k}); }, "C");
  te::TeSchedule s = te::CreateSchedule({c->op});
  const auto* op = c->op.as<te::ComputeOpNode>();
  auto tiles = s[c].Tile(op->axis[0], op->axis[1], 8, 8);  // x outer, y outer, x inner, y inner
  s[c].Reorder({tiles[0], tiles[1], k, tiles[2], tiles[3]});
  s[c].Mark("vectorize", tiles[3]);
  tir::PrimFunc func = s.Apply({a, b, c}, "matmul");
  EXPECT_NE(tir::AsText(func).find("vectorized"), std::string::npos);
  EXPECT_TRUE(testing_util::SameResults(te::CreatePrimFunc({a, b, c}), func));
}

TEST(User, ParametersAreTensorsInBuffersAndScalars) {
  tir::Var scale("scale", DataType::Float(32));
  te::Tensor a = te::Placeholder({4}, DataType::Float(32), "A");
  te::Tensor b = te::Compute({4}, [&](const auto& i) { return a(i[0]) * scale; }, "B");
  tir::Buffer wrong = tir::DeclBuffer({5}, DataType::Float(32), "A");
  EXPECT_THROW(te::MakePrimFunc({te::Parameter(a, wrong), te::Parameter(scale), b}, "f"), ShapeError);
  tir::PrimFunc func = te::MakePrimFunc({a, te::Parameter(scale), b}, "f");
  ASSERT_EQ(func->params.size(), 3U);
  EXPECT_TRUE(func->params[1].same_as(scale));
}

}  // namespace
}  // namespace treadle
