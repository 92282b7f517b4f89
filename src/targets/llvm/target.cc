// SPDX-License-Identifier: Apache-2.0
// The target llvm: native code for CPUs.
#include "targets/builtin.h"
#include "targets/cpu/graph/passes.h"
#include "targets/cpu/machine.h"
#include "targets/cpu/machine_costs.h"
#include "targets/cpu/schedule/cpu.h"
#include "targets/cpu/schedule/short_rows.h"
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

/// Rented machines by their makers' names, as "aws/cpu/c5.large": processor and cores.
void AddCloudMachines(std::vector<TargetTag>* tags) {
  struct Family {
    const char* name;
    const char* triple;
    const char* cpu;
    std::vector<std::pair<const char*, int>> sizes;  ///< with cores
  };
  const char* x86 = "x86_64-unknown-linux-gnu";
  const char* arm = "aarch64-unknown-linux-gnu";
  // Two threads are a core with x86; with ARM each is one.
  const std::vector<std::pair<const char*, int>> pairs{{"large", 1},     {"xlarge", 2},    {"2xlarge", 4},
                                                       {"4xlarge", 8},   {"8xlarge", 16},  {"12xlarge", 24},
                                                       {"16xlarge", 32}, {"24xlarge", 48}, {"32xlarge", 64}};
  const std::vector<std::pair<const char*, int>> cores{{"large", 2},    {"xlarge", 4},   {"2xlarge", 8},
                                                       {"4xlarge", 16}, {"8xlarge", 32}, {"12xlarge", 48},
                                                       {"16xlarge", 64}};
  const std::vector<Family> families{{"c5",
                                      x86,
                                      "skylake-avx512",
                                      {{"large", 1},
                                       {"xlarge", 2},
                                       {"2xlarge", 4},
                                       {"4xlarge", 8},
                                       {"9xlarge", 18},
                                       {"12xlarge", 24},
                                       {"18xlarge", 36},
                                       {"24xlarge", 48}}},
                                     {"c6i", x86, "icelake-server", pairs},
                                     {"c7i", x86, "sapphirerapids", pairs},
                                     {"c6g", arm, "neoverse-n1", cores},
                                     {"c7g", arm, "neoverse-v1", cores},
                                     {"c8g", arm, "neoverse-v2", cores}};
  for (const Family& family : families) {
    for (const auto& [size, number] : family.sizes) {
      tags->push_back({StrCat("aws/cpu/", family.name, ".", size),
                       StrCat("llvm -mtriple=", family.triple, " -mcpu=", family.cpu, " -num-cores=", number)});
    }
  }
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
      {"raspberry-pi/4b-aarch64", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -mattr=+neon -num-cores=4"},
      {"raspberry-pi/5-aarch64", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=+neon -num-cores=4"},
  };
  AddCloudMachines(&spec.kind.tags);
  spec.kind.features = CpuFeatures;
  spec.form = ModuleForm::kObjects;
  spec.on_register = relay::transform::RegisterCpuPasses;
  spec.early_passes = CpuEarlyPasses;
  spec.graph_passes = CpuGraphPasses;
  spec.schedule = [](const tir::PrimFunc& func, const Target& target) {
    return ops::ScheduleForCpu(func, ops::cpu::MachineOf(target));
  };
  spec.schedule_short = [](const tir::PrimFunc& func, const Target&) { return ops::ScheduleShortRows(func); };
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
