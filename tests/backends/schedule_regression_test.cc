// SPDX-License-Identifier: Apache-2.0
// Schedules that random draws once found to be compiled wrongly, or not at all.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "backends/llvm/codegen.h"
#include "backends/stackvm/stackvm.h"
#include "driver/lower_tir.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/schedule.h"

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
  auto module = backends::JitLLVM({driver::LowerPrimFunc(schedule.func(), target)}, target);
  NDArray a = Count({6, 9}), b = Count({6}), expected = Count({9, 6}), got = Count({9, 6});
  backends::RunPrimFunc(func, {a, b, expected});
  void* data[] = {a.data_ptr(), b.data_ptr(), got.data_ptr()};
  ASSERT_EQ(reinterpret_cast<backends::RawFunction>(module->GetSymbol("f__raw"))(data, nullptr), 0);
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

}  // namespace
}  // namespace treadle
