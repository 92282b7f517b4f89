// SPDX-License-Identifier: Apache-2.0
// Schedules that random draws once found to be compiled wrongly, or not at all.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "driver/lower/lower_tir.h"
#include "targets/llvm/codegen.h"
#include "targets/stackvm/stackvm.h"
#include "tir/passes/split_host_device.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/structural.h"
#include "treadle/runtime/dlpack.h"
#include "treadle/te/schedule.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/schedule.h"
#include "treadle/tir/text.h"

namespace treadle {
namespace {

using runtime::NDArray;
using Indices = Array<tir::Var>;

const DataType kI32 = DataType::Int(32);

/// T = 2 A, then D[j, i] = T[i, j] - B[i], of 6 x 9 integers.
tir::PrimFunc TwoStages() {
  const Array<PrimExpr> shape{PrimExpr(6), PrimExpr(9)}, turned{PrimExpr(9), PrimExpr(6)};
  te::Tensor a = te::Placeholder(shape, kI32, "A"), b = te::Placeholder({PrimExpr(6)}, kI32, "B");
  te::Tensor t = te::Compute(shape, [&](const Indices& i) { return a(i[0], i[1]) * 2; }, "T");
  te::Tensor d = te::Compute(turned, [&](const Indices& i) { return t(i[1], i[0]) - b(i[1]); }, "D");
  return te::CreatePrimFunc({a, b, d}, "f");
}

NDArray Count(const std::vector<int64_t>& shape) {
  NDArray a = NDArray::Empty(shape, kI32);
  for (int64_t i = 0; i < a.size(); ++i) a.Data<int32_t>()[i] = static_cast<int32_t>(i * 7 % 23 - 11);
  return a;
}

void ExpectSameResult(const std::function<void(tir::Schedule&)>& steps) {
  const tir::PrimFunc func = TwoStages();
  tir::Schedule schedule(func);
  steps(schedule);
  const Target target("llvm -mcpu=native -opt-level=1");
  auto module = targets::JitLLVM({driver::LowerPrimFunc(schedule.func(), target)}, target);
  NDArray a = Count({6, 9}), b = Count({6}), expected = Count({9, 6}), got = Count({9, 6});
  targets::RunPrimFunc(func, {a, b, expected});
  void* data[] = {a.data_ptr(), b.data_ptr(), got.data_ptr()};
  ASSERT_EQ(reinterpret_cast<targets::RawFunction>(module->GetSymbol("f__raw"))(data, nullptr), 0);
  EXPECT_EQ(std::memcmp(got.data_ptr(), expected.data_ptr(), static_cast<size_t>(got.nbytes())), 0);
}

TEST(ScheduleRegressionTest, VectorsWithinVectors) {
  ExpectSameResult([](tir::Schedule& s) {
    const auto loops = s.GetLoops(s.GetBlock("D"));
    s.Vectorize(loops[0]);
    s.Vectorize(loops[1]);
  });
}

TEST(ScheduleRegressionTest, VectorsOfEqualLengthWithinVectors) {
  ExpectSameResult([](tir::Schedule& s) {
    const auto loops = s.GetLoops(s.GetBlock("D"));
    const auto outer = s.Split(loops[0], {PrimExpr(), PrimExpr(3)});
    const auto inner = s.Split(loops[1], {PrimExpr(), PrimExpr(3)});
    s.Reorder({outer[0], inner[0], outer[1], inner[1]});
    s.Vectorize(outer[1]);
    s.Vectorize(inner[1]);
  });
}

TEST(ScheduleRegressionTest, PrefetchOfWhatIsInlinedLater) {
  ExpectSameResult([](tir::Schedule& s) {
    const auto d = s.GetBlock("D");
    s.Prefetch(d, 0, s.GetLoops(d)[0], PrimExpr(1));
    s.ComputeInline(s.GetBlock("T"));
  });
}

/// The sum of rows, of a matrix of unknown height.
tir::PrimFunc SymbolicSum() {
  const tir::Var n("n", kI32);
  te::Tensor a = te::Placeholder({n, PrimExpr(5)}, kI32, "A");
  tir::IterVar q = te::ReduceAxis(tir::Range(n), "q");
  te::Tensor s = te::Compute({PrimExpr(5)}, [&](const Indices& i) { return te::Sum(a(q->var, i[0]), {q}); }, "S");
  return te::CreatePrimFunc({a, s}, "f");
}

TEST(ScheduleRegressionTest, LoopsOfUnknownLengthAreNotUnrolled) {
  tir::Schedule s(SymbolicSum());
  const auto loops = s.GetLoops(s.GetBlock("S"));
  EXPECT_THROW(s.Unroll(loops[1]), tir::ScheduleError);
}

TEST(ScheduleRegressionTest, NothingToPadInAResultOfRankZero) {
  te::Tensor a = te::Placeholder({}, kI32, "A"), b = te::Placeholder({}, kI32, "B");
  te::Tensor c = te::Compute({}, [&](const Indices&) { return a(Array<PrimExpr>{}) * b(Array<PrimExpr>{}); }, "C");
  tir::Schedule s(te::CreatePrimFunc({a, b, c}));
  EXPECT_THROW(s.PadEinsum(s.GetBlock("C"), {}), tir::ScheduleError);
}

TEST(ScheduleRegressionTest, DoubleBufferIsFilledInALoopThatWasCut) {
  ExpectSameResult([](tir::Schedule& s) {
    const auto d = s.GetBlock("D"), t = s.GetBlock("T");
    const auto outer = s.Split(s.GetLoops(d)[0], {PrimExpr(), PrimExpr(4)});
    s.ComputeAt(t, outer[0], true);
    s.DoubleBuffer(t, 0);
    const auto loops = s.GetLoops(t);
    s.Split(loops[1], {PrimExpr(), PrimExpr(4)});
    s.Split(loops[2], {PrimExpr(), PrimExpr(4)});
  });
}

TEST(ScheduleRegressionTest, InliningABlockTakesTheBlockAroundItAlong) {
  tir::Schedule s(TwoStages());
  s.Blockize(s.GetLoops(s.GetBlock("T"))[1]);
  s.ComputeInline(s.GetBlock("T"));
  EXPECT_EQ(tir::AsText(s.func()).find("T_o"), std::string::npos);
  ExpectSameResult([](tir::Schedule& same) {
    same.Blockize(same.GetLoops(same.GetBlock("T"))[1]);
    same.ComputeInline(same.GetBlock("T"));
  });
}

TEST(ScheduleRegressionTest, BlocksInsideOthersAreNotCached) {
  tir::Schedule s(TwoStages());
  s.Blockize(s.GetLoops(s.GetBlock("T"))[1]);
  EXPECT_THROW(s.CacheWrite(s.GetBlock("T"), 0, "global"), tir::ScheduleError);
}

TEST(ScheduleRegressionTest, ThreadsOfDecomposedReductionsReadBack) {
  tir::Schedule s(SymbolicSum());
  const auto block = s.GetBlock("S");
  const auto loops = s.GetLoops(block);
  s.VThread(loops[0]);
  s.DecomposeReduction(block, loops[0]);
  EXPECT_TRUE(StructuralEqual(tir::ParsePrimFunc(tir::AsText(s.func())), s.func()));
}

TEST(ScheduleRegressionTest, ThreadsOfInitsReadBack) {
  tir::Schedule s(SymbolicSum());
  s.Bind(s.GetLoops(s.GetBlock("S"))[0], "threadIdx.x");
  const tir::PrimFunc lowered = driver::LowerPrimFunc(s.func(), Target("stackvm"));
  EXPECT_TRUE(StructuralEqual(tir::ParsePrimFunc(tir::AsText(lowered)), lowered));
}

TEST(ScheduleRegressionTest, ThreadsThatWaitForEachOtherRunLoopsEquallyOften) {
  tir::Schedule s(TwoStages());
  const auto loops = s.GetLoops(s.GetBlock("T"));
  s.Bind(s.Split(loops[0], {PrimExpr(4), PrimExpr(ObjectPtr<Object>())})[0], "threadIdx.x");
  s.Bind(loops[1], "threadIdx.y");
  const Target target("opencl");
  const tir::PrimFunc named = WithAttr(s.func(), attr::kGlobalSymbol, String("f"));
  EXPECT_NO_THROW(tir::SplitHostDevice(driver::LowerPrimFunc(named, target), kDLOpenCL));
}

TEST(ScheduleRegressionTest, SumsOfNothingAreInitialisedAroundBlocksOfLoops) {
  te::Tensor a = te::Placeholder({PrimExpr(0), PrimExpr(8)}, kI32, "A");
  tir::IterVar p = te::ReduceAxis(tir::Range(PrimExpr(0)), "p"), q = te::ReduceAxis(tir::Range(PrimExpr(8)), "q");
  te::Tensor sum = te::Compute({}, [&](const Indices&) { return te::Sum(a(p->var, q->var), {p, q}); }, "S");
  tir::Schedule s(te::CreatePrimFunc({a, sum}, "f"));
  s.Blockize(s.GetLoops(s.GetBlock("S"))[1]);
  for (const tir::PrimFunc& func : {s.func(), driver::LowerPrimFunc(s.func(), Target("stackvm"))}) {
    NDArray empty = Count({0, 8}), result = Count({});
    targets::RunPrimFunc(func, {empty, result});
    EXPECT_EQ(result.Data<int32_t>()[0], 0);
  }
}

TEST(ScheduleRegressionTest, LoopsThatMayHaveNoFirstElementAreNotFusedWithOthers) {
  tir::Schedule s(SymbolicSum());
  EXPECT_THROW(s.Fuse(s.GetLoops(s.GetBlock("S"))), tir::ScheduleError);
}

TEST(ScheduleRegressionTest, LongLoopsAreNotUnrolled) {
  te::Tensor a = te::Placeholder({PrimExpr(5000)}, kI32, "A");
  te::Tensor t = te::Compute({PrimExpr(5000)}, [&](const Indices& i) { return a(i[0]) * 2; }, "T");
  tir::Schedule s(te::CreatePrimFunc({a, t}, "f"));
  EXPECT_THROW(s.Unroll(s.GetLoops(s.GetBlock("T"))[0]), tir::ScheduleError);
}

TEST(ScheduleRegressionTest, StagesThatNothingReadsAreInlinedIntoNothing) {
  const Array<PrimExpr> shape{PrimExpr(4)};
  te::Tensor a = te::Placeholder(shape, kI32, "A");
  te::Tensor t = te::Compute(shape, [&](const Indices& i) { return a(i[0]) * 2; }, "T");
  te::TeSchedule s = te::CreateSchedule({t->op});
  const te::Tensor unread = s.CacheRead(t, "local", {});
  s[unread->op].ReverseComputeInline();
  EXPECT_NO_THROW(s.Apply({a, t}));
}

TEST(ScheduleRegressionTest, CopiesAreMadeForReadersBesideEachOther) {
  tir::Schedule s(TwoStages());
  s.Blockize(s.GetLoops(s.GetBlock("T"))[1]);
  EXPECT_THROW(s.CacheRead(s.GetBlock("D"), 0, "local", {s.GetBlock("T"), s.GetBlock("D")}), tir::ScheduleError);
}

TEST(ScheduleRegressionTest, QuotientsAndRemaindersByZeroAreZero) {
  const Array<PrimExpr> shape{PrimExpr(4)};
  te::Tensor a = te::Placeholder(shape, kI32, "A"), b = te::Placeholder(shape, kI32, "B");
  te::Tensor t = te::Compute(
      shape,
      [&](const Indices& i) { return tir::floordiv(a(i[0]), b(i[0])) * b(i[0]) + tir::floormod(a(i[0]), b(i[0])); },
      "T");
  const tir::PrimFunc func = te::CreatePrimFunc({a, b, t}, "f");
  NDArray zeros = Count({4}), result = Count({4});
  std::memset(zeros.data_ptr(), 0, static_cast<size_t>(zeros.nbytes()));
  targets::RunPrimFunc(driver::LowerPrimFunc(func, Target("stackvm")), {Count({4}), zeros, result});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(result.Data<int32_t>()[i], 0);
}

TEST(ScheduleRegressionTest, TracesKeepListsAndDtypesOfNotes) {
  const tir::PrimFunc func = TwoStages();
  tir::Schedule s(func), again(func);
  s.Annotate(s.GetBlock("T"), "numbers", Array<ObjectRef>{IntImm(DataType::Int(64), 2), String("two")});
  again.Replay(s.TraceJson());
  EXPECT_TRUE(StructuralEqual(again.func(), s.func()));
}

TEST(ScheduleRegressionTest, ConsumersDoNotMoveToElementsScatteredOverRows) {
  tir::Schedule s(TwoStages());
  const auto t = s.GetBlock("T"), d = s.GetBlock("D");
  const auto flat = s.Fuse(s.GetLoops(t));
  const auto parts = s.Split(flat, {PrimExpr(), PrimExpr(4)});
  EXPECT_THROW(s.ReverseComputeAt(d, parts[0]), tir::ScheduleError);
}

TEST(ScheduleRegressionTest, ConsumersMoveToWholeRowsThatWereFused) {
  ExpectSameResult([](tir::Schedule& s) {
    const auto t = s.GetBlock("T");
    const auto flat = s.Fuse(s.GetLoops(t));
    const auto parts = s.Split(flat, {PrimExpr(), PrimExpr(18)});
    s.ReverseComputeAt(s.GetBlock("D"), parts[0]);
  });
}

TEST(ScheduleRegressionTest, ConsumersMoveToTilesWithTails) {
  ExpectSameResult([](tir::Schedule& s) {
    const auto loops = s.GetLoops(s.GetBlock("T"));
    const auto tiles = s.Tile(loops[0], loops[1], PrimExpr(4), PrimExpr(5));
    s.ReverseComputeAt(s.GetBlock("D"), tiles[1]);
  });
}

TEST(ScheduleRegressionTest, LoopsThatHoldAProducerAreNotPadded) {
  const Array<PrimExpr> shape{PrimExpr(3), PrimExpr(3)};
  te::Tensor a = te::Placeholder(shape, kI32, "A"), b = te::Placeholder(shape, kI32, "B");
  te::Tensor t = te::Compute(shape, [&](const Indices& i) { return a(i[0], i[1]) * 2; }, "T");
  tir::IterVar q = te::ReduceAxis(tir::Range(PrimExpr(3)), "q");
  te::Tensor c =
      te::Compute(shape, [&](const Indices& i) { return te::Sum(t(i[0], q->var) * b(q->var, i[1]), {q}); }, "C");
  tir::Schedule s(te::CreatePrimFunc({a, b, c}, "f"));
  const auto block = s.GetBlock("C");
  s.ComputeAt(s.GetBlock("T"), s.GetLoops(block)[2]);
  EXPECT_THROW(s.PadEinsum(block, {2, 2, 4}), tir::ScheduleError);
}

/// S, the sums of the rows of a matrix of 7 x 3, and D[i, j] = S[i] + S[i + 1] of 6 x 4.
tir::PrimFunc SumsOfNeighbours() {
  te::Tensor a = te::Placeholder({PrimExpr(7), PrimExpr(3)}, kI32, "A");
  tir::IterVar q = te::ReduceAxis(tir::Range(PrimExpr(3)), "q");
  te::Tensor s = te::Compute({PrimExpr(7)}, [&](const Indices& i) { return te::Sum(a(i[0], q->var), {q}); }, "S");
  te::Tensor d = te::Compute({PrimExpr(6), PrimExpr(4)}, [&](const Indices& i) { return s(i[0]) + s(i[0] + 1); }, "D");
  return te::CreatePrimFunc({a, d}, "f");
}

TEST(ScheduleRegressionTest, SumsThatLoopsComputeAgainAreNotInitialisedOnceForAll) {
  for (size_t at : {0, 1}) {
    tir::Schedule s(SumsOfNeighbours());
    const auto block = s.GetBlock("S");
    s.ComputeAt(block, s.GetLoops(s.GetBlock("D"))[at]);
    const auto loops = s.GetLoops(block);
    for (size_t i = 0; i <= at; ++i) EXPECT_THROW(s.DecomposeReduction(block, loops[i]), tir::ScheduleError);
    EXPECT_NO_THROW(s.DecomposeReduction(block, loops[at + 1]));
  }
}

TEST(ScheduleRegressionTest, SumsThatQuotientsComputeAgainAreNotInitialisedOnceForAll) {
  te::Tensor x = te::Placeholder({PrimExpr(8)}, kI32, "X");
  tir::IterVar q = te::ReduceAxis(tir::Range(PrimExpr(3)), "q");
  te::Tensor y = te::Compute({PrimExpr(6)}, [&](const Indices& i) { return te::Sum(x(i[0] + q->var), {q}); }, "Y");
  te::Tensor z =
      te::Compute({PrimExpr(12)}, [&](const Indices& i) { return y(tir::floordiv(i[0], PrimExpr(2))) + 1; }, "Z");
  tir::Schedule s(te::CreatePrimFunc({x, z}, "f"));
  const auto loop = s.GetLoops(s.GetBlock("Z"))[0];
  s.ComputeAt(s.GetBlock("Y"), loop);
  EXPECT_THROW(s.DecomposeReduction(s.GetBlock("Y"), loop), tir::ScheduleError);
  EXPECT_NO_THROW(s.DecomposeReduction(s.GetBlock("Y"), s.GetLoops(s.GetBlock("Y")).back()));
}

TEST(ScheduleRegressionTest, LoopsThatStandInConditionsOnlyComputeSumsAgain) {
  tir::Schedule s(SumsOfNeighbours());
  const auto block = s.GetBlock("S"), result = s.GetBlock("D");
  s.ComputeAt(block, s.GetLoops(result)[1]);
  s.Split(s.GetLoops(result)[1], {PrimExpr(), PrimExpr(3)});
  EXPECT_THROW(s.DecomposeReduction(block, s.GetLoops(block)[2]), tir::ScheduleError);
}

TEST(ScheduleRegressionTest, SumsUnderAConditionOnLanesAreNotVectorized) {
  tir::Schedule s(SumsOfNeighbours());
  const auto sum = s.GetBlock("S"), result = s.GetBlock("D");
  s.ComputeAt(sum, s.GetLoops(result)[1]);
  const auto parts = s.Split(s.GetLoops(result)[1], {PrimExpr(), PrimExpr(3)});
  EXPECT_THROW(s.Vectorize(parts[1]), tir::ScheduleError);
}

TEST(ScheduleRegressionTest, ConditionsOnSumsAndElementsTogetherAreNotDropped) {
  tir::Schedule s(SumsOfNeighbours());
  const auto block = s.GetBlock("S");
  const auto parts = s.Split(s.Fuse(s.GetLoops(block)), {PrimExpr(8), PrimExpr(ObjectPtr<Object>()), PrimExpr(3)});
  EXPECT_THROW(s.DecomposeReduction(block, parts[2]), tir::ScheduleError);
}

TEST(ScheduleRegressionTest, ConditionsMayLetOneIterationThrough) {
  te::Tensor a = te::Placeholder({PrimExpr(1), PrimExpr(3)}, kI32, "A");
  tir::IterVar q = te::ReduceAxis(tir::Range(PrimExpr(3)), "q");
  te::Tensor sums = te::Compute({PrimExpr(1)}, [&](const Indices& i) { return te::Sum(a(i[0], q->var), {q}); }, "S");
  tir::Schedule s(te::CreatePrimFunc({a, sums}, "f"));
  const auto block = s.GetBlock("S");
  const auto parts = s.Split(s.GetLoops(block)[0], {PrimExpr(), PrimExpr(4)});
  EXPECT_NO_THROW(s.DecomposeReduction(block, parts[1]));
}

TEST(ScheduleRegressionTest, InitReadsWhatTheLoopsMakeForIt) {
  te::Tensor a = te::Placeholder({PrimExpr(4), PrimExpr(3)}, kI32, "A"), b = te::Placeholder({PrimExpr(4)}, kI32, "B");
  tir::IterVar q = te::ReduceAxis(tir::Range(PrimExpr(3)), "q");
  te::Tensor sums =
      te::Compute({PrimExpr(4)}, [&](const Indices& i) { return te::Sum(a(i[0], q->var), {q}, {b(i[0])}); }, "S");
  const tir::PrimFunc func = te::CreatePrimFunc({a, b, sums}, "f");
  tir::Schedule s(func);
  const auto block = s.GetBlock("S");
  const std::string text = tir::AsText(func);
  for (int read = 0; read < 2; ++read) {
    if (s.Get(block)->reads[static_cast<size_t>(read)]->buffer->name != "B") continue;
    s.ComputeAt(s.CacheRead(block, read, "local"), s.GetLoops(block)[1]);
  }
  EXPECT_NE(tir::AsText(s.func()), text);
  NDArray x = Count({4, 3}), y = Count({4}), expected = Count({4}), got = Count({4});
  targets::RunPrimFunc(func, {x, y, expected});
  targets::RunPrimFunc(driver::LowerPrimFunc(s.func(), Target("stackvm")), {x, y, got});
  EXPECT_EQ(std::memcmp(got.data_ptr(), expected.data_ptr(), static_cast<size_t>(got.nbytes())), 0);
  EXPECT_THROW(s.DecomposeReduction(block, s.GetLoops(block)[1]), tir::ScheduleError);
}

}  // namespace
}  // namespace treadle
