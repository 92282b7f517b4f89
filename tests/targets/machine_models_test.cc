// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/machine_models.h"

#include <gtest/gtest.h>

#include <set>

#include "targets/cpu/machine.h"
#include "targets/cpu/machine_costs.h"
#include "targets/cpu/x86_cpus.h"
#include "targets/llvm/codegen.h"

namespace treadle::targets {
namespace {

Target TargetFor(const MachineModel& model, const std::string& cpu) {
  const char* triple = model.bits == 128 ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu";
  return Target(StrCat("llvm -mtriple=", triple, " -mcpu=", cpu, " -num-cores=1"));
}

TEST(MachineModelsTest, NoProcessorIsInTwo) {
  std::set<std::string> names, cpus;
  for (const MachineModel& model : MachineModels()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    for (const std::string& cpu : model.cpus) EXPECT_TRUE(cpus.insert(cpu).second) << cpu;
  }
}

TEST(MachineModelsTest, LLVMKnowsTheProcessors) {
  for (const MachineModel& model : MachineModels()) {
    for (const std::string& cpu : model.cpus) {
      EXPECT_NO_THROW(CodegenLLVM({}, TargetFor(model, cpu), {})) << cpu;
    }
  }
}

TEST(MachineModelsTest, VectorsAreThoseThatCodeHas) {
  for (const MachineModel& model : MachineModels()) {
    for (const std::string& cpu : model.cpus) {
      EXPECT_EQ(TargetFor(model, cpu)->Features().vector_bits, model.bits) << cpu;
    }
  }
}

TEST(MachineModelsTest, RatesAreThoseOfCores) {
  for (const MachineModel& model : MachineModels()) {
    EXPECT_GE(model.multiply_adds, 1) << model.name;
    EXPECT_LE(model.multiply_adds, 4) << model.name;
    EXPECT_GE(model.loads, 0.5) << model.name;
    EXPECT_LE(model.loads, 3) << model.name;
    EXPECT_GE(model.latency, 2) << model.name;
    EXPECT_LE(model.latency, 6) << model.name;
  }
}

TEST(MachineModelsTest, BothSpellingsOfANameAreOne) {
  EXPECT_EQ(FindMachineModel("skylake_avx512"), FindMachineModel("skylake-avx512"));
  EXPECT_EQ(FindMachineModel("no-such-processor"), nullptr);
}

/// Without a calibration too.
TEST(MachineModelsTest, ThisMachineHasTheModelOfItsProcessor) {
  const Target native("llvm -mcpu=native -num-cores=1");
  const std::string cpu = ResolveLLVMTarget(native).cpu;
  EXPECT_EQ(ProcessorOf(*native.get()), cpu);
  const MachineModel* model = FindMachineModel(cpu);
  EXPECT_EQ(ops::cpu::MachineOf(native).costs_of, model == nullptr ? "generic" : model->name);
}

/// A virtual machine gave a Sapphire Rapids the number of a Rocket Lake, which has no AMX, and half of its units.
TEST(MachineModelsTest, InstructionsSayMoreThanTheNumberOfAProcessor) {
  const auto processor = [](const char* name, const std::set<std::string>& instructions) {
    return X86ProcessorWith(name, [&](const char* feature) { return instructions.count(feature) != 0; });
  };
  EXPECT_EQ(processor("rocketlake", {"amx-int8", "amx-bf16", "avx512fp16"}), "sapphirerapids");
  EXPECT_EQ(processor("rocketlake", {"amx-int8", "amx-bf16", "amx-fp16"}), "graniterapids");
  EXPECT_EQ(processor("graniterapids", {"amx-int8", "amx-bf16"}), "graniterapids");
  EXPECT_EQ(processor("rocketlake", {"avx512f"}), "rocketlake");
  // One whose AMX isn't offered to virtual machines.
  EXPECT_EQ(processor("icelake-server", {"avx512f", "avx512fp16"}), "sapphirerapids");
  EXPECT_EQ(processor("znver4", {"avx512bf16"}), "znver4");
  const TargetFeatures host = Target("llvm -mcpu=native")->Features();
  EXPECT_TRUE(!X86HasTiles("native") || FindMachineModel(HostProcessor()) == FindMachineModel("sapphirerapids"));
  EXPECT_GE(host.vector_bits, X86HasTiles("native") ? 512 : 0);
}

/// Sapphire Rapids starts a quarter as many of them as multiply-adds; each makes two products.
TEST(MachineModelsTest, PairsPayWhereTheirDotsAreFaster) {
  const auto pays = [](const char* options) { return BFloat16DotPays(*Target(StrCat("llvm ", options)).get()); };
  EXPECT_TRUE(pays("-mcpu=znver4"));
  EXPECT_TRUE(pays("-mcpu=cooperlake"));
  EXPECT_TRUE(pays("-mcpu=x86-64-v4 -mattr=+avx512bf16"));
  EXPECT_FALSE(pays("-mcpu=sapphirerapids"));
  EXPECT_FALSE(pays("-mcpu=skylake-avx512"));
  const schedule::Machine machine = ops::cpu::MachineOf(Target("llvm -mcpu=sapphirerapids"));
  EXPECT_DOUBLE_EQ(machine.pair_dot_cycles, 4 * machine.fma_cycles);
}

/// Small tiles are little code.
TEST(MachineModelsTest, CodeThatIsSoonReplacedUsesFewRegisters) {
  const auto registers = [](const char* options) {
    return ops::cpu::MachineOf(Target(StrCat("llvm -mcpu=x86-64-v4", options))).vector_registers;
  };
  EXPECT_EQ(registers(""), 32);
  EXPECT_EQ(registers(" -opt-level=2"), 32);
  EXPECT_EQ(registers(" -opt-level=1"), registers(" -opt-level=0"));
  EXPECT_LE(registers(" -opt-level=1"), 16);
}

TEST(MachineModelsTest, CostsFollowTheModel) {
  const auto costs = [](const char* cpu) { return ops::cpu::MachineOf(TargetFor(*FindMachineModel(cpu), cpu)); };
  EXPECT_EQ(costs("znver4").costs_of, "zen4");
  EXPECT_DOUBLE_EQ(costs("znver4").fma_cycles, 2 * costs("znver5").fma_cycles);
  EXPECT_DOUBLE_EQ(costs("icelake-client").fma_cycles, 2 * costs("icelake-server").fma_cycles);
  EXPECT_DOUBLE_EQ(costs("neoverse-n1").fma_cycles, 2 * costs("neoverse-v1").fma_cycles);
  EXPECT_LT(costs("alderlake").load_cycles, costs("skylake").load_cycles);
}

TEST(MachineTest, InstructionsOfAProcessorAreRequired) {
  auto required = [](const std::string& options) {
    const std::vector<std::string> names = CpuFeatureNames(Target("llvm -mtriple=x86_64-unknown-linux-gnu " + options));
    return std::set<std::string>(names.begin(), names.end());
  };
  EXPECT_EQ(required("-mcpu=x86-64-v2"), std::set<std::string>());
  EXPECT_EQ(required("-mcpu=bdver2").count("xop"), 1U);
  // Processors of one level differ: permutations of bytes are of Ice Lake and later.
  EXPECT_EQ(required("-mcpu=icelake_server").count("avx512vbmi"), 1U);
  EXPECT_EQ(required("-mcpu=cascadelake").count("avx512vbmi"), 0U);
  EXPECT_EQ(required("-mcpu=cascadelake").count("avx512vnni"), 1U);
  EXPECT_EQ(required("-mcpu=icelake-server -mattr=-avx512vbmi").count("avx512vbmi"), 0U);
  EXPECT_EQ(required("-mcpu=icelake-server -mattr=-avx512f").count("avx512vbmi"), 0U);
  // Those that only AMD's have are left alone unless they are asked for.
  EXPECT_EQ(required("-mcpu=znver3").count("sse4a"), 0U);
  EXPECT_EQ(required("-mcpu=znver3 -mattr=+sse4a").count("sse4a"), 1U);
}

}  // namespace
}  // namespace treadle::targets
