// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include <memory>

#include "backends/conformance/cases.h"
#include "backends/llvm/codegen.h"
#include "backends/stackvm/stackvm.h"
#include "driver/lower_tir.h"
#include "treadle/runtime/c_types.h"
#include "treadle/runtime/packed_func.h"

namespace treadle::conformance {
namespace {

using runtime::NDArray;

std::vector<tir::PrimFunc> LowerAll(const std::vector<tir::PrimFunc>& funcs, const Target& target) {
  std::vector<tir::PrimFunc> result;
  for (const tir::PrimFunc& func : funcs) result.push_back(driver::LowerPrimFunc(func, target));
  return result;
}

/// Through the packed calling convention, so that argument checks run too.
void CallPacked(void* function, const std::vector<NDArray>& args) {
  std::vector<TreadleValue> values(args.size());
  std::vector<int> codes(args.size(), kTreadleDLTensor);
  for (size_t i = 0; i < args.size(); ++i) values[i].v_handle = args[i].handle();
  TreadleValue result;
  int result_code = kTreadleNull;
  auto f = reinterpret_cast<TreadlePackedCFunc>(function);
  if (f(values.data(), codes.data(), static_cast<int>(args.size()), &result, &result_code, nullptr) != 0) {
    throw RuntimeError("the compiled function failed");
  }
}

Compiler WithLLVM(const std::string& target_text) {
  return [target_text](const std::vector<tir::PrimFunc>& funcs) -> Runner {
    const Target target(target_text);
    std::shared_ptr<backends::JitModule> module = backends::JitLLVM(LowerAll(funcs, target), target);
    return [module](size_t k, const std::vector<NDArray>& args) {
      CallPacked(module->GetSymbol("f" + std::to_string(k)), args);
    };
  };
}

/// Through the system's C compiler with all warnings as errors; skipped where there is none.
Runner WithC(const std::vector<tir::PrimFunc>& funcs) {
  const Target target("c");
  backends::RegisterAllBackends();
  backends::CodegenOptions options;
  const std::string text = backends::GetBackend("c").codegen(LowerAll(funcs, target), target, options).code;
  char path[] = "/tmp/treadle-c-XXXXXX";
  EXPECT_NE(mkdtemp(path), nullptr);
  const std::string base = std::string(path) + "/k";
  std::ofstream(base + ".c") << text;
  const std::string command = "cc -std=c99 -O1 -Wall -Wextra -Wpedantic -Werror -ffp-contract=off -fPIC -shared " +
                              base + ".c -o " + base + ".so -lm";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  void* library = dlopen((base + ".so").c_str(), RTLD_NOW);
  if (library == nullptr) throw RuntimeError(dlerror());
  std::remove((base + ".so").c_str());
  std::remove((base + ".c").c_str());
  std::remove(path);
  return [library](size_t k, const std::vector<NDArray>& args) {
    CallPacked(dlsym(library, ("f" + std::to_string(k)).c_str()), args);
  };
}

TEST(ConformanceTest, C) {
  if (std::system("cc --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no C compiler";
  ExpectConformance(WithC);
}
TEST(ConformanceTest, LLVM) { ExpectConformance(WithLLVM("llvm -mcpu=native -opt-level=2")); }
TEST(ConformanceTest, LLVMWithoutAvx) { ExpectConformance(WithLLVM("llvm -mcpu=x86-64-v2 -opt-level=1")); }
TEST(ConformanceTest, StackVMAfterLowering) {
  ExpectConformance([](const std::vector<tir::PrimFunc>& funcs) -> Runner {
    auto lowered = LowerAll(funcs, Target("stackvm"));
    return [lowered](size_t k, const std::vector<NDArray>& args) {
      backends::VmProgram::Load(backends::CompileToVm(lowered[k]).Save()).Run(args);
    };
  });
}

}  // namespace
}  // namespace treadle::conformance
