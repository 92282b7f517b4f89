// SPDX-License-Identifier: Apache-2.0
#include "treadle/tir/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests_common/interpret.h"
#include "tests_common/sample_functions.h"

namespace treadle::tir {
namespace {

using testing_util::Chain;
using testing_util::ConvRelu;
using testing_util::Matmul;
using testing_util::SameResults;
using testing_util::Softmax;

const PrimExpr kOpen{ObjectPtr<Object>()};

template <typename F>
std::string ErrorOf(F&& f) {
  try {
    f();
  } catch (const ScheduleError& e) {
    return e.what();
  }
  return "";
}

TEST(Split, UnevenFactorKeepsResult) {
  PrimFunc f = Matmul(7, 9, 5);
  Schedule s(f);
  auto loops = s.GetLoops(s.GetBlock("C"));
  s.Split(loops[0], {kOpen, 4});
  s.Split(loops[2], {2, kOpen});
  EXPECT_TRUE(SameResults(f, s.func()));
}

TEST(Split, TooFewIterationsIsRefused) {
  Schedule s(Matmul(7, 9, 5));
  auto loops = s.GetLoops(s.GetBlock("C"));
  EXPECT_THAT(ErrorOf([&] { s.Split(loops[0], {2, 3}); }), testing::HasSubstr("'i0'"));
}

TEST(Split, GoneLoopIsNamed) {
  Schedule s(Matmul(8, 8, 8));
  auto loops = s.GetLoops(s.GetBlock("C"));
  s.Split(loops[0], {kOpen, 4});
  EXPECT_THAT(ErrorOf([&] { s.Split(loops[0], {kOpen, 2}); }), testing::HasSubstr("'i0' is no longer"));
}

TEST(Primitives, RefuseNullLoops) {
  Schedule s(Matmul(8, 8, 8));
  const auto block = s.GetBlock("C");
  const auto loops = s.GetLoops(block);
  const LoopRV null(ObjectPtr<Object>{});
  const std::vector<std::function<void()>> calls{[&] { s.Split(null, {kOpen, 4}); },
                                                 [&] { s.Fuse({loops[0], null}); },
                                                 [&] { s.Reorder({loops[0], null}); },
                                                 [&] { s.Vectorize(null); },
                                                 [&] { s.Unroll(null); },
                                                 [&] { s.Parallel(null); },
                                                 [&] { s.ComputeAt(block, null); },
                                                 [&] { s.RFactor(null, 0); },
                                                 [&] { s.DecomposeReduction(block, null); }};
  for (const auto& call : calls) EXPECT_NE(ErrorOf(call), "");
}

TEST(Fuse, KeepsResult) {
  PrimFunc f = Matmul(7, 9, 5);
  Schedule s(f);
  auto loops = s.GetLoops(s.GetBlock("C"));
  auto fused = s.Fuse({loops[0], loops[1]});
  s.Split(fused, {kOpen, 4});
  EXPECT_TRUE(SameResults(f, s.func()));
}

TEST(Fuse, SplitOfFusedCancels) {
  Schedule s(Chain(64, 2));
  auto loops = s.GetLoops(s.GetBlock("T0"));
  auto parts = s.Split(loops[0], {kOpen, 8});
  s.Fuse(parts);
  auto realize = s.GetLoops(s.GetBlock("T0"));
  EXPECT_EQ(realize.size(), 1u);
}

TEST(Reorder, MatmulTiled) {
  PrimFunc f = Matmul(8, 12, 6);
  Schedule s(f);
  auto loops = s.GetLoops(s.GetBlock("C"));
  auto tile = s.Tile(loops[0], loops[1], 4, 4);
  s.Reorder({tile[0], tile[1], loops[2], tile[2], tile[3]});
  s.Vectorize(tile[3]);
  s.Parallel(tile[0]);
  EXPECT_TRUE(SameResults(f, s.func()));
}

TEST(Vectorize, ReductionAxisIsRefused) {
  Schedule s(Matmul(8, 12, 6));
  auto loops = s.GetLoops(s.GetBlock("C"));
  EXPECT_THAT(ErrorOf([&] { s.Vectorize(loops[2]); }),
              testing::AllOf(testing::HasSubstr("'k'"), testing::HasSubstr("'C'"), testing::HasSubstr("reduction")));
}

TEST(ComputeInline, RepeatedSquaresStayLinear) {
  PrimFunc f = Chain(8, 40);
  Schedule s(f);
  for (int i = 0; i < 39; ++i) s.ComputeInline(s.GetBlock(StrCat("T", i)));
  EXPECT_EQ(s.GetBlocks().size(), 1u);
  int nodes = 0;
  PostOrderVisit(s.func(), [&](const ObjectRef&) { ++nodes; });
  EXPECT_LT(nodes, 400);
}

TEST(ComputeInline, KeepsResult) {
  PrimFunc f = ConvRelu(6, 3);
  Schedule s(f);
  s.ComputeInline(s.GetBlock("pad"));
  EXPECT_TRUE(SameResults(f, s.func()));
}

TEST(ComputeInline, ReductionIsRefused) {
  Schedule s(ConvRelu(6, 3));
  EXPECT_THAT(ErrorOf([&] { s.ComputeInline(s.GetBlock("conv")); }), testing::HasSubstr("'conv'"));
}

TEST(ComputeInline, OutputIsRefused) {
  Schedule s(Chain(8, 2));
  EXPECT_THAT(ErrorOf([&] { s.ComputeInline(s.GetBlock("T1")); }), testing::HasSubstr("output"));
}

TEST(ReverseComputeInline, KeepsResult) {
  PrimFunc f = Chain(8, 3);
  Schedule s(f);
  s.ReverseComputeInline(s.GetBlock("T2"));
  s.ReverseComputeInline(s.GetBlock("T1"));
  EXPECT_EQ(s.GetBlocks().size(), 1u);
  EXPECT_TRUE(SameResults(f, s.func()));
}

TEST(ReverseComputeAt, EpilogueRunsInTile) {
  PrimFunc f = ConvRelu(7, 3);
  Schedule s(f);
  s.ComputeInline(s.GetBlock("pad"));
  auto conv = s.GetBlock("conv");
  auto loops = s.GetLoops(conv);
  auto parts = s.Split(loops[1], {kOpen, 4});
  s.ReverseComputeAt(s.GetBlock("relu"), parts[0]);
  EXPECT_TRUE(SameResults(f, s.func()));
}

TEST(ReverseComputeAt, IncompleteReductionIsRefused) {
  Schedule s(ConvRelu(6, 3));
  auto loops = s.GetLoops(s.GetBlock("conv"));
  EXPECT_THAT(ErrorOf([&] { s.ReverseComputeAt(s.GetBlock("relu"), loops.back()); }),
              testing::AllOf(testing::HasSubstr("reduction"), testing::HasSubstr("'relu'")));
}

TEST(ComputeAt, WindowIsComputedPerTile) {
  PrimFunc f = ConvRelu(9, 3);
  Schedule s(f);
  auto relu_loops = s.GetLoops(s.GetBlock("relu"));
  auto parts = s.Split(relu_loops[1], {kOpen, 4});
  s.ComputeAt(s.GetBlock("conv"), parts[0]);
  s.ComputeAt(s.GetBlock("pad"), parts[0]);
  EXPECT_TRUE(SameResults(f, s.func()));
}

TEST(ComputeAt, SoftmaxByRow) {
  PrimFunc f = Softmax(5, 7);
  Schedule s(f);
  auto rows = s.GetLoops(s.GetBlock("softmax"))[0];
  s.ComputeAt(s.GetBlock("sum"), rows);
  s.ComputeAt(s.GetBlock("exp"), rows);
  s.ComputeAt(s.GetBlock("max"), rows);
  s.Parallel(rows);
  EXPECT_TRUE(SameResults(f, s.func()));
}

TEST(CacheWrite, AccumulatesInLocalBuffer) {
  PrimFunc f = Matmul(8, 12, 6);
  Schedule s(f);
  auto c = s.GetBlock("C");
  auto copy = s.CacheWrite(c, 0, "local");
  auto loops = s.GetLoops(c);
  auto tile = s.Tile(loops[0], loops[1], 4, 4);
  s.Reorder({tile[0], tile[1], loops[2], tile[2], tile[3]});
  s.ReverseComputeAt(copy, tile[1]);
  s.DecomposeReduction(c, loops[2]);
  EXPECT_TRUE(SameResults(f, s.func()));
}

TEST(CacheRead, CopyIsRead) {
  PrimFunc f = Matmul(4, 4, 4);
  Schedule s(f);
  auto c = s.GetBlock("C");
  auto copy = s.CacheRead(c, 0, "local");
  s.ComputeAt(copy, s.GetLoops(c)[0]);
  EXPECT_TRUE(SameResults(f, s.func()));
}

TEST(DecomposeReduction, InitMustBeOutsideAllReductionLoops) {
  PrimFunc f = Matmul(4, 4, 4);
  Schedule s(f);
  auto c = s.GetBlock("C");
  auto loops = s.GetLoops(c);
  s.Reorder({loops[2], loops[0], loops[1]});
  EXPECT_THAT(ErrorOf([&] { s.DecomposeReduction(c, loops[1]); }), testing::HasSubstr("'k'"));
}

TEST(RFactor, PartialSumsOfUnevenSplit) {
  PrimFunc f = Matmul(3, 4, 10);
  Schedule s(f);
  auto loops = s.GetLoops(s.GetBlock("C"));
  auto parts = s.Split(loops[2], {kOpen, 4});
  auto partial = s.RFactor(parts[1]);
  s.Vectorize(parts[1]);
  EXPECT_EQ(s.Get(partial)->writes[0]->buffer->shape.size(), 3u);
  EXPECT_TRUE(SameResults(f, s.func()));
}

TEST(RFactor, DataLoopIsRefused) {
  Schedule s(Matmul(3, 4, 10));
  auto loops = s.GetLoops(s.GetBlock("C"));
  EXPECT_THAT(ErrorOf([&] { s.RFactor(loops[0]); }), testing::HasSubstr("isn't reduced"));
}

TEST(Trace, ReplayGivesEqualFunction) {
  PrimFunc f = Matmul(8, 12, 6);
  Schedule s(f);
  auto c = s.GetBlock("C");
  auto copy = s.CacheWrite(c, 0, "local");
  auto loops = s.GetLoops(c);
  auto tile = s.Tile(loops[0], loops[1], 4, 4);
  s.Reorder({tile[0], tile[1], loops[2], tile[2], tile[3]});
  s.ReverseComputeAt(copy, tile[1]);
  Schedule again(Matmul(8, 12, 6));
  again.Replay(s.TraceJson());
  EXPECT_EQ(again.TraceText(), s.TraceText());
  EXPECT_TRUE(SameResults(s.func(), again.func()));
  EXPECT_EQ(again.GetLoops(again.GetBlock("C")).size(), 5u);
}

}  // namespace
}  // namespace treadle::tir
