// SPDX-License-Identifier: Apache-2.0
// What a compiled function says about wrong arguments.
#include <gtest/gtest.h>

#include "driver/lower/lower_tir.h"
#include "targets/llvm/codegen.h"
#include "targets/stackvm/stackvm.h"
#include "tir/passes/argument_table.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/runtime/c_types.h"
#include "treadle/runtime/last_error.h"
#include "treadle/te/tensor.h"

namespace treadle {
namespace {

using runtime::NDArray;

const DataType kF32 = DataType::Float(32);

class PackedApiTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    tir::Var n("n", DataType::Int(64));
    te::Tensor a = te::Placeholder({n, PrimExpr(3)}, kF32, "A");
    te::Tensor b = te::Compute({n, PrimExpr(3)}, [&](const Array<tir::Var>& i) { return a(i[0], i[1]) * 2.0f; }, "B");
    const Target target("llvm -mcpu=native");
    module_ = targets::JitLLVM({driver::LowerPrimFunc(te::CreatePrimFunc({a, b}, "f"), target)}, target);
  }
  static void TearDownTestSuite() { module_.reset(); }

  /// "" when the call succeeds, else the message.
  static std::string Call(const std::vector<NDArray>& args, int code = kTreadleDLTensor) {
    std::vector<TreadleValue> values(args.size() + 1);
    std::vector<int> codes(args.size() + 1, code);
    for (size_t i = 0; i < args.size(); ++i) values[i].v_handle = args[i].handle();
    TreadleValue result;
    int result_code = kTreadleNull;
    auto f = reinterpret_cast<TreadlePackedCFunc>(module_->GetSymbol("f"));
    if (f(values.data(), codes.data(), static_cast<int>(args.size()), &result, &result_code, nullptr) == 0) return "";
    return runtime::LastErrorMessage();
  }
  static NDArray Tensor(const std::vector<int64_t>& shape, DataType t = kF32) { return NDArray::Empty(shape, t); }

  static std::unique_ptr<targets::JitModule> module_;
};
std::unique_ptr<targets::JitModule> PackedApiTest::module_;

TEST_F(PackedApiTest, TakesWhatFits) { EXPECT_EQ(Call({Tensor({4, 3}), Tensor({4, 3})}), ""); }
TEST_F(PackedApiTest, CountsArguments) { EXPECT_EQ(Call({Tensor({4, 3})}), "f: num_args should be 2, not 1"); }
TEST_F(PackedApiTest, ChecksCodes) {
  EXPECT_EQ(Call({Tensor({4, 3}), Tensor({4, 3})}, kTreadleInt), "f: Expect arg[0] to be pointer, not int");
}
TEST_F(PackedApiTest, ChecksRanks) {
  EXPECT_EQ(Call({Tensor({4, 3, 1}), Tensor({4, 3})}), "f: arg0.ndim is expected to equal 2, not 3 (tensor A)");
}
TEST_F(PackedApiTest, ChecksDTypes) {
  EXPECT_EQ(Call({Tensor({4, 3}), Tensor({4, 3}, DataType::Float(64))}),
            "f: arg1.dtype is expected to be float32, not float64 (tensor B)");
}
TEST_F(PackedApiTest, ChecksShapes) {
  EXPECT_EQ(Call({Tensor({4, 5}), Tensor({4, 3})}), "f: arg0.shape[1] is expected to equal 3, not 5 (tensor A)");
  EXPECT_EQ(Call({Tensor({4, 3}), Tensor({5, 3})}), "f: arg1.shape[0] is expected to equal n, not 5 (tensor B)");
}

TEST_F(PackedApiTest, ChecksStridesAndOffsets) {
  NDArray a = Tensor({4, 3}), b = Tensor({4, 3});
  int64_t strides[] = {1, 4};
  DLTensor turned = *a.handle();
  turned.strides = strides;
  const NDArray view = NDArray::Borrow(turned);
  EXPECT_EQ(Call({view, b}), "f: arg0.strides: expected to be compact array (tensor A)");
  DLTensor moved = *a.handle();
  moved.byte_offset = 8;
  EXPECT_EQ(Call({NDArray::Borrow(moved), b}), "f: arg0.byte_offset is expected to equal 0 (tensor A)");
}

TEST(ArgumentTableTest, HoldsWhatIsPlain) {
  tir::Var n("n", DataType::Int(64));
  te::Tensor a = te::Placeholder({n, PrimExpr(3)}, kF32, "A");
  te::Tensor b = te::Compute({n, PrimExpr(3)}, [&](const Array<tir::Var>& i) { return a(i[0], i[1]); }, "B");
  const auto table = tir::DescribeArguments(te::CreatePrimFunc({a, b}, "f"));
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(table->numbers, (std::vector<int64_t>{2, 0, 2, 32, 1, 2, -1, 3, 0, 2, 32, 1, 2, -1, 3}));
  EXPECT_EQ(table->names, "f\nA\nB\nn\n");
  auto is_plain = [](const PrimExpr& size) {
    te::Tensor from = te::Placeholder({size}, kF32, "T");
    te::Tensor to = te::Compute({size}, [&](const Array<tir::Var>& i) { return from(i[0]); }, "C");
    return tir::DescribeArguments(te::CreatePrimFunc({from, to}, "f")).has_value();
  };
  EXPECT_TRUE(is_plain(n * 2));
  EXPECT_FALSE(is_plain(n + 2));
}

TEST(BoundsCheckTest, NamesTheBuffer) {
  te::Tensor d = te::Placeholder({PrimExpr(4)}, kF32, "D"), k = te::Placeholder({PrimExpr(2)}, DataType::Int(32), "K");
  te::Tensor out = te::Compute({PrimExpr(2)}, [&](const Array<tir::Var>& i) { return d(k(i[0])); }, "O");
  driver::LowerOptions options;
  options.bounds_check = true;
  const Target target("llvm -mcpu=native");
  auto module =
      targets::JitLLVM({driver::LowerPrimFunc(te::CreatePrimFunc({d, k, out}, "f"), target, options)}, target);
  auto raw = reinterpret_cast<targets::RawFunction>(module->GetSymbol("f__raw"));
  float data[4] = {1, 2, 3, 4}, result[2];
  int32_t good[2] = {0, 3}, bad[2] = {0, 4};
  void* args[] = {data, good, result};
  EXPECT_EQ(raw(args, nullptr), 0);
  args[1] = bad;
  EXPECT_EQ(raw(args, nullptr), -1);
  EXPECT_NE(std::string(runtime::LastErrorMessage()).find("D"), std::string::npos);
}

TEST(StackVMTest, RefusesDamagedPrograms) {
  te::Tensor a = te::Placeholder({PrimExpr(4)}, kF32, "A");
  te::Tensor b = te::Compute({PrimExpr(4)}, [&](const Array<tir::Var>& i) { return a(i[0]) + 1.0f; }, "B");
  const std::string bytes = targets::CompileToVm(te::CreatePrimFunc({a, b}, "f")).Save();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(targets::VmProgram::Load(bytes.substr(0, length)), ModelFormatError);
  }
  EXPECT_NE(targets::VmProgram::Load(bytes).Disassemble().find("Function: f"), std::string::npos);
}

}  // namespace
}  // namespace treadle
