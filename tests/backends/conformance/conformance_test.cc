// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backends/conformance/cases.h"
#include "backends/llvm/codegen.h"
#include "backends/stackvm/stackvm.h"
#include "driver/lower_tir.h"
#include "treadle/runtime/c_types.h"
#include "treadle/runtime/packed_func.h"

namespace treadle::conformance {
namespace {

using runtime::NDArray;

/// Through the packed calling convention, so that argument checks run too.
void RunLLVM(const tir::PrimFunc& func, const std::vector<NDArray>& args, const std::string& target_text) {
  Target target(target_text);
  auto module = backends::JitLLVM({driver::LowerPrimFunc(func, target)}, target);
  auto f = reinterpret_cast<TreadlePackedCFunc>(module->GetSymbol("f"));
  std::vector<TreadleValue> values(args.size());
  std::vector<int> codes(args.size(), kTreadleDLTensor);
  for (size_t i = 0; i < args.size(); ++i) values[i].v_handle = args[i].handle();
  TreadleValue result;
  int result_code = kTreadleNull;
  if (f(values.data(), codes.data(), static_cast<int>(args.size()), &result, &result_code, nullptr) != 0) {
    throw RuntimeError("the compiled function failed");
  }
}

TEST(ConformanceTest, LLVM) {
  ExpectConformance([](const tir::PrimFunc& f, const std::vector<NDArray>& a) { RunLLVM(f, a, "llvm -mcpu=native"); });
}
TEST(ConformanceTest, LLVMWithoutAvx) {
  ExpectConformance([](const tir::PrimFunc& f, const std::vector<NDArray>& a) {
    RunLLVM(f, a, "llvm -mcpu=x86-64-v2 -opt-level=1");
  });
}
TEST(ConformanceTest, StackVMAfterLowering) {
  ExpectConformance([](const tir::PrimFunc& f, const std::vector<NDArray>& a) {
    backends::RunPrimFunc(driver::LowerPrimFunc(f, Target("stackvm")), a);
  });
}

}  // namespace
}  // namespace treadle::conformance
