// SPDX-License-Identifier: Apache-2.0
#include "treadle/te/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests_common/interpret.h"
#include "tests_common/sample_functions.h"

namespace treadle::te {
namespace {

using testing_util::Dim;
using testing_util::SameResults;

struct MatmulGraph {
  Tensor a = Placeholder({Dim(8), Dim(6)}, DataType::Float(32), "A");
  Tensor b = Placeholder({Dim(6), Dim(12)}, DataType::Float(32), "B");
  IterVar k = ReduceAxis(Range(Dim(6)), "k");
  Tensor c = Compute({Dim(8), Dim(12)}, [&](const Array<Var>& i) { return Sum(a(i[0], k) * b(k, i[1]), {k}); }, "C", "",
                     {}, {"x", "y"});
  tir::PrimFunc Plain() { return CreatePrimFunc({a, b, c}); }
  IterVar Axis(int i) { return c->op.as<ComputeOpNode>()->axis[i]; }
};

const PrimExpr kNone{ObjectPtr<Object>()};

TEST(TeSchedule, TiledMatmul) {
  MatmulGraph g;
  TeSchedule s = CreateSchedule({g.c->op});
  Stage stage = s[g.c];
  auto tile = stage.Tile(g.Axis(0), g.Axis(1), 4, 4);
  auto [ko, ki] = stage.Split(g.k, 4, kNone);
  stage.Reorder({tile[0], tile[1], ko, ki, tile[2], tile[3]});
  stage.Mark("vectorize", tile[3]);
  stage.Mark("parallel", tile[0]);
  EXPECT_TRUE(SameResults(g.Plain(), s.Apply({g.a, g.b, g.c})));
}

TEST(TeSchedule, CacheWriteComputedInTile) {
  MatmulGraph g;
  TeSchedule s = CreateSchedule({g.c->op});
  Tensor cached = s.CacheWrite(g.c, "local");
  auto tile = s[g.c].Tile(g.Axis(0), g.Axis(1), 4, 4);
  s[cached].ComputeAt(s[g.c], tile[1]);
  const auto* op = s[cached]->op.as<ComputeOpNode>();
  s[cached].Reorder({op->reduce_axis[0], op->axis[0], op->axis[1]});
  s[cached].Mark("vectorize", op->axis[1]);
  EXPECT_TRUE(SameResults(g.Plain(), s.Apply({g.a, g.b, g.c})));
}

TEST(TeSchedule, CacheReadIsPlacedAtReductionLoop) {
  MatmulGraph g;
  TeSchedule s = CreateSchedule({g.c->op});
  Tensor copy = s.CacheRead(g.a, "local", {g.c->op});
  s[copy].ComputeAt(s[g.c], g.Axis(0));
  EXPECT_TRUE(SameResults(g.Plain(), s.Apply({g.a, g.b, g.c})));
}

TEST(TeSchedule, SplitAxisIsGone) {
  MatmulGraph g;
  TeSchedule s = CreateSchedule({g.c->op});
  s[g.c].Split(g.Axis(0), 4, kNone);
  try {
    s[g.c].Mark("unroll", g.Axis(0));
    FAIL();
  } catch (const tir::ScheduleError& e) {
    EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("'C'"), testing::HasSubstr("'x'")));
  }
}

}  // namespace
}  // namespace treadle::te
