// SPDX-License-Identifier: Apache-2.0
// Reductions and copies that the threads of a block work on together: the lowered function means the same where its
// threads run one after the other, and its kernel has the barriers that it needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/lower/lower_tir.h"
#include "targets/stackvm/stackvm.h"
#include "tir/passes/pass_util.h"
#include "tir/passes/split_host_device.h"
#include "tir/thread_axis.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/runtime/dlpack.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/schedule.h"
#include "treadle/tir/stmt_functor.h"
#include "treadle/tir/text.h"

namespace treadle {
namespace {

using runtime::NDArray;
using testing::HasSubstr;
using Indices = Array<tir::Var>;

const DataType kI32 = DataType::Int(32);

NDArray Count(const std::vector<int64_t>& shape) {
  NDArray a = NDArray::Empty(shape, kI32);
  for (int64_t i = 0; i < a.size(); ++i) a.Data<int32_t>()[i] = static_cast<int32_t>(i * 7 % 23 - 11);
  return a;
}

/// S[i] = `first` + the sum of row i of A.
tir::PrimFunc RowSums(const PrimExpr& rows, const PrimExpr& columns, int first = 0) {
  te::Tensor a = te::Placeholder({rows, columns}, kI32, "A");
  tir::IterVar k = te::ReduceAxis(tir::Range(columns), "k");
  const Array<PrimExpr> init = first == 0 ? Array<PrimExpr>() : Array<PrimExpr>{PrimExpr(first)};
  te::Tensor s = te::Compute({rows}, [&](const Indices& i) { return te::Sum(a(i[0], k->var), {k}, init); }, "S");
  return te::CreatePrimFunc({a, s}, "f");
}

tir::PrimFunc LowerForThreads(const tir::Schedule& s) {
  return driver::LowerPrimFunc(WithAttr(s.func(), attr::kGlobalSymbol, String("f")), Target("opencl"));
}

/// The schedule's function, lowered for threads, gives the sums of the rows; returns its kernels' text.
std::string CheckRowSums(const tir::Schedule& s, int64_t rows, int64_t columns, int32_t first = 0) {
  const tir::PrimFunc lowered = LowerForThreads(s);
  const NDArray a = Count({rows, columns}), sums = Count({rows});
  targets::RunPrimFunc(lowered, {a, sums});
  for (int64_t i = 0; i < rows; ++i) {
    int32_t sum = first;
    for (int64_t k = 0; k < columns; ++k) sum += a.Data<int32_t>()[i * columns + k];
    EXPECT_EQ(sums.Data<int32_t>()[i], sum) << "row " << i;
  }
  std::string text;
  for (const tir::PrimFunc& kernel : tir::SplitHostDevice(lowered, kDLOpenCL).kernels) text += tir::AsText(kernel);
  return text;
}

TEST(ThreadScheduleTest, ThreadsAddUpTheirParts) {
  for (const int threads : {1, 6, 8}) {
    tir::Schedule s(RowSums(5, 21));
    const auto loops = s.GetLoops(s.GetBlock("S"));
    const auto parts = s.Split(loops[1], {PrimExpr(), PrimExpr(threads)});
    s.Bind(loops[0], "blockIdx.x");
    s.Bind(parts[1], "threadIdx.x");
    EXPECT_THAT(CheckRowSums(s, 5, 21), HasSubstr("tvm_storage_sync"));
  }
}

TEST(ThreadScheduleTest, TwoAxesOfThreadsReduceOneAfterTheOther) {
  tir::Schedule s(RowSums(3, 26));
  const auto parts = s.Split(s.GetLoops(s.GetBlock("S"))[1], {PrimExpr(), PrimExpr(3), PrimExpr(4)});
  s.Bind(parts[1], "threadIdx.y");
  s.Bind(parts[2], "threadIdx.x");
  CheckRowSums(s, 3, 26);
}

TEST(ThreadScheduleTest, RowsOfThreadsReduceBesideEachOther) {
  tir::Schedule s(RowSums(7, 21));
  const auto loops = s.GetLoops(s.GetBlock("S"));
  const auto rows = s.Split(loops[0], {PrimExpr(), PrimExpr(4)});
  const auto parts = s.Split(loops[1], {PrimExpr(), PrimExpr(8)});
  s.Bind(rows[0], "blockIdx.x");
  s.Bind(rows[1], "threadIdx.y");
  s.Bind(parts[1], "threadIdx.x");
  CheckRowSums(s, 7, 21);
}

TEST(ThreadScheduleTest, SumsStartFromAGivenValueOnce) {
  tir::Schedule s(RowSums(5, 16, 3));
  s.Bind(s.GetLoops(s.GetBlock("S"))[1], "threadIdx.x");
  CheckRowSums(s, 5, 16, 3);
}

TEST(ThreadScheduleTest, BlocksAndVirtualThreadsDoNotReduce) {
  tir::Schedule s(RowSums(5, 16));
  const auto loops = s.GetLoops(s.GetBlock("S"));
  EXPECT_THROW(s.Bind(loops[1], "blockIdx.x"), tir::ScheduleError);
  EXPECT_THROW(s.VThread(loops[1]), tir::ScheduleError);
}

TEST(ThreadScheduleTest, ThreadsThatReduceKeepTheInit) {
  tir::Schedule s(RowSums(5, 16));
  const auto block = s.GetBlock("S");
  const auto parts = s.Split(s.GetLoops(block)[1], {PrimExpr(), PrimExpr(4)});
  s.Bind(parts[1], "threadIdx.x");
  for (const auto& part : parts) EXPECT_THROW(s.DecomposeReduction(block, part), tir::ScheduleError);
  CheckRowSums(s, 5, 16);
}

TEST(ThreadScheduleTest, ThreadsDoNotUpdateWhatAnotherBlockInitialises) {
  tir::Schedule s(RowSums(5, 16));
  const auto block = s.GetBlock("S");
  const auto parts = s.Split(s.GetLoops(block)[1], {PrimExpr(), PrimExpr(4)});
  s.DecomposeReduction(block, parts[0]);
  // As a script may say it: binding the loop by the schedule is refused.
  class Bound : public tir::StmtExprMutator {
   protected:
    using tir::StmtExprMutator::VisitStmt_;
    tir::Stmt VisitStmt_(const tir::ForNode* op) override {
      tir::Stmt body = VisitStmt(op->body);
      if (!tir::is_const_int(op->extent, 4)) return tir::For(op->loop_var, op->min, op->extent, op->kind, body);
      return tir::For(op->loop_var, op->min, op->extent, tir::ForKind::kThreadBinding, body,
                      tir::ThreadAxis("threadIdx.x", op->loop_var.dtype()));
    }
  };
  const tir::PrimFunc bound = WithBody(s.func(), Bound()(s.func()->body));
  try {
    driver::LowerPrimFunc(WithAttr(bound, attr::kGlobalSymbol, String("f")), Target("opencl"));
    FAIL() << "threads would update the same element at once";
  } catch (const TargetError& error) {
    EXPECT_THAT(error.what(), HasSubstr("block 'S' is reduced, is bound to threadIdx.x"));
  }
}

TEST(ThreadScheduleTest, SharedCopiesHoldWhatAllThreadsNeed) {
  te::Tensor a = te::Placeholder({PrimExpr(32)}, kI32, "A");
  te::Tensor b = te::Compute({PrimExpr(32)}, [&](const Indices& i) { return a(31 - i[0]) + 1; }, "B");
  tir::Schedule s(te::CreatePrimFunc({a, b}, "f"));
  const auto block = s.GetBlock("B");
  const auto copy = s.CacheRead(block, 0, "shared");
  const auto loops = s.Split(s.GetLoops(block)[0], {PrimExpr(), PrimExpr(8)});
  s.Bind(loops[0], "blockIdx.x");
  s.Bind(loops[1], "threadIdx.x");
  s.ComputeAt(copy, loops[1]);
  s.Bind(s.GetLoops(copy).back(), "threadIdx.x");
  const tir::PrimFunc lowered = LowerForThreads(s);
  const NDArray x = Count({32}), y = Count({32});
  targets::RunPrimFunc(lowered, {x, y});
  for (int i = 0; i < 32; ++i) EXPECT_EQ(y.Data<int32_t>()[i], x.Data<int32_t>()[31 - i] + 1);
  const auto kernels = tir::SplitHostDevice(lowered, kDLOpenCL).kernels;
  ASSERT_EQ(kernels.size(), 1u);
  const std::string text = tir::AsText(kernels[0]);
  EXPECT_THAT(text, HasSubstr("int32, [8]"));
  EXPECT_THAT(text, HasSubstr("tvm_storage_sync"));
}

TEST(ThreadScheduleTest, SumsOfNothingWithTailsAreInitialised) {
  const tir::Var n("n", kI32), m("m", kI32);
  tir::Schedule s(RowSums(n, m));
  s.Split(s.GetLoops(s.GetBlock("S"))[1], {PrimExpr(), PrimExpr(4)});
  for (const tir::PrimFunc& func : {s.func(), driver::LowerPrimFunc(s.func(), Target("stackvm"))}) {
    const NDArray empty = Count({3, 0}), sums = Count({3});
    targets::RunPrimFunc(func, {empty, sums});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(sums.Data<int32_t>()[i], 0);
  }
}

}  // namespace
}  // namespace treadle
