// SPDX-License-Identifier: Apache-2.0
// Every backend runs the same programs with the same results. A backend joins with one line at the end.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "driver/lower/device_code.h"
#include "driver/lower/lower_tir.h"
#include "targets/conformance/cases.h"
#include "targets/stackvm/stackvm.h"
#include "treadle/driver/build_module.h"
#include "treadle/driver/compile.h"
#include "treadle/runtime/device.h"
#include "treadle/runtime/module.h"
#include "treadle/targets/c_toolchain.h"

namespace treadle::conformance {
namespace {

using runtime::NDArray;

/// Calls one of a module's functions through the packed calling convention, so that argument checks run too, with
/// tensors where the target's functions want them.
void Call(const runtime::Module& module, const std::string& name, const std::vector<NDArray>& args, int device_type) {
  const runtime::Device device{static_cast<DLDeviceType>(device_type), 0};
  std::vector<NDArray> there;
  for (const NDArray& a : args) there.push_back(device_type == kDLCPU ? a : a.Copy(device));
  std::vector<TreadleValue> values(args.size());
  std::vector<int> codes(args.size(), kTreadleDLTensor);
  for (size_t i = 0; i < args.size(); ++i) values[i].v_handle = there[i].handle();
  runtime::RetValue result;
  module.GetFunction(name).CallPacked({values.data(), codes.data(), static_cast<int>(args.size())}, &result);
  if (device_type == kDLCPU) return;
  for (size_t i = 0; i < args.size(); ++i) there[i].CopyTo(args[i]);
}

/// Builds all functions for a target as a user would.
Compiler WithTarget(const std::string& target_text) {
  return [target_text](const std::vector<tir::PrimFunc>& funcs) -> Runner {
    const Target target(target_text);
    driver::RegisterAll();
    IRModule functions = IRModule::Empty();
    for (size_t k = 0; k < funcs.size(); ++k) {
      functions.CopyOnWrite()->Add(GlobalVar("f" + std::to_string(k)), funcs[k]);
    }
    const runtime::Module module = driver::BuildModule(functions, target);
    const int device_type = targets::GetTargetSpec(target).device_type;
    return [module, device_type](size_t k, const std::vector<NDArray>& args) {
      Call(module, "f" + std::to_string(k), args, device_type);
    };
  };
}

bool HasCCompiler() {
  try {
    return !targets::FindCCompiler().empty();
  } catch (const TargetError&) {
    return false;
  }
}
bool HasOpenCL() {
  auto* api = runtime::DeviceAPI::Find(kDLOpenCL);
  if (api == nullptr) return false;
  const auto exists = api->GetAttr({kDLOpenCL, 0}, runtime::DeviceAttr::kExist);
  return std::get<int64_t>(exists) != 0;
}

TEST(ConformanceTest, C) {
  if (!HasCCompiler()) GTEST_SKIP() << "no C compiler";
  // Portable means that no compiler has anything to say.
  setenv("TREADLE_CC", "cc -Wall -Wextra -Wpedantic -Werror", 1);
  ExpectConformance(WithTarget("c -opt-level=1"));
  unsetenv("TREADLE_CC");
}
TEST(ConformanceTest, LLVM) { ExpectConformance(WithTarget("llvm -mcpu=native -opt-level=2")); }
TEST(ConformanceTest, LLVMWithoutAvx) { ExpectConformance(WithTarget("llvm -mcpu=x86-64-v2 -opt-level=1")); }
TEST(ConformanceTest, LLVMBaseline) { ExpectConformance(WithTarget("llvm -mcpu=x86-64 -opt-level=1")); }
TEST(ConformanceTest, OpenCL) {
  if (!HasOpenCL()) GTEST_SKIP() << "no OpenCL device";
  ExpectConformance(WithTarget("opencl"), 7);
}
TEST(ConformanceTest, StackVM) { ExpectConformance(WithTarget("stackvm")); }
TEST(ConformanceTest, StackVMFromItsStoredForm) {
  ExpectConformance([](const std::vector<tir::PrimFunc>& funcs) -> Runner {
    std::vector<tir::PrimFunc> lowered;
    for (const tir::PrimFunc& func : funcs) lowered.push_back(driver::LowerPrimFunc(func, Target("stackvm")));
    return [lowered](size_t k, const std::vector<NDArray>& args) {
      targets::VmProgram::Load(targets::CompileToVm(lowered[k]).Save()).Run(args);
    };
  });
}

}  // namespace
}  // namespace treadle::conformance
