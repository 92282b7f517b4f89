// SPDX-License-Identifier: Apache-2.0
// The target llvm: native code for CPUs.
#include "targets/builtin.h"
#include "targets/cpu/graph/passes.h"
#include "targets/cpu/machine.h"
#include "targets/cpu/machine_costs.h"
#include "targets/cpu/schedule/cpu.h"
#include "targets/llvm/codegen.h"
#include "targets/llvm/main_function.h"

namespace treadle::targets {
namespace {

std::vector<TargetOption> Options() {
  using Type = TargetOption::Type;
  return {
      {"mcpu", Type::kText, "LLVM's name of the processor; native: this one"},
      {"mattr", Type::kList, "single features, such as +avx2,-avx512f"},
      {"mtriple", Type::kText, "another machine, such as aarch64-linux-gnu"},
      {.name = "mfloat-abi",
       .doc = "how floats are passed, on machines that have a choice",
       .values = {"soft", "hard"}},
      {"mabi", Type::kText, "calling convention, on machines that have a choice"},
      {"fast-math", Type::kFlag, "sums may be reordered, NaN and infinity are taken not to occur"},
      {"vector-width", Type::kInteger, "bits of the vectors that schedules make", 64, 2048},
      {"debug-info", Type::kFlag, "functions have names in debuggers and profilers"},
      {"emulate-intrinsics", Type::kFlag, "instructions of newer machines are put together from others, for tests"},
  };
}

LinkOptions HowToLink(const Target& target) {
  return {ResolveLLVMTarget(target).triple, target->GetIntAttr("debug-info", 0) != 0};
}

/// Which processor "native" is, and what LLVM is told of it.
std::string Machine(const Target& target) {
  const LLVMTargetInfo machine = ResolveLLVMTarget(target);
  return StrCat(machine.triple, " ", machine.cpu, " ", machine.features);
}

}  // namespace

TargetSpec LLVMTarget() {
  TargetSpec spec;
  spec.kind.name = "llvm";
  spec.kind.doc = "native code for CPUs (x86-64, aarch64)";
  spec.kind.keys = {"cpu"};
  spec.kind.options = Options();
  spec.kind.tags = {
      {"host", "llvm -mcpu=native"},
      {"x86-64-v2", "llvm -mcpu=x86-64-v2 -mtriple=x86_64-unknown-linux-gnu"},
      {"x86-64-v3", "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu"},
      {"x86-64-v4", "llvm -mcpu=x86-64-v4 -mtriple=x86_64-unknown-linux-gnu"},
      {"aarch64", "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=generic"},
  };
  spec.kind.features = CpuFeatures;
  spec.form = ModuleForm::kObjects;
  spec.on_register = relay::transform::RegisterCpuPasses;
  spec.graph_passes = CpuGraphPasses;
  spec.schedule = [](const tir::PrimFunc& func, const Target& target) {
    return ops::ScheduleForCpu(func, ops::cpu::MachineOf(target));
  };
  spec.codegen = CodegenLLVM;
  spec.texts = {"ll", "asm"};
  spec.imports = {"llvm"};
  spec.link_options = HowToLink;
  spec.jit = JitObject;
  spec.main_function = MakeMainObject;
  spec.launches_kernels = true;
  spec.required_cpu_features = CpuFeatureNames;
  spec.cache_key = Machine;
  return spec;
}

}  // namespace treadle::targets
