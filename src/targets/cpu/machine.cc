// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/machine.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/ADT/StringRef.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/X86TargetParser.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <thread>

#include "targets/cpu/arm_cpus.h"
#include "targets/cpu/machine_models.h"
#include "targets/cpu/x86_cpus.h"

namespace treadle::targets {
namespace {

void ApplyFeatureFlags(const std::string& mattr, TargetFeatures* f) {
  std::istringstream in(mattr);
  for (std::string flag; std::getline(in, flag, ',');) {
    if (flag.empty()) continue;
    const bool on = flag[0] != '-';
    const std::string name = flag[0] == '+' || flag[0] == '-' ? flag.substr(1) : flag;
    if (name == "fma") f->fma = on;
    if (name == "f16c") f->f16_convert = on;
    if (name == "avx512vnni" || name == "avxvnni" || name == "dotprod") f->vnni = on;
    if (name == "avx" || name == "avx2") f->vector_bits = on ? std::max(f->vector_bits, 256) : 128;
    if (name == "avx512f") {
      f->vector_bits = on ? 512 : std::min(f->vector_bits, 256);
      f->vector_registers = on ? 32 : 16;
    }
  }
}

int UsableCores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

TargetFeatures Features(const TargetNode& target, bool native_code) {
  TargetFeatures f;
  const std::string triple = target.GetAttr("mtriple", "");
  const std::string cpu = target.GetAttr("mcpu", triple.empty() ? "native" : "generic");
#if defined(__aarch64__)
  f.arch = "aarch64";
#else
  f.arch = "x86_64";
#endif
  if (!triple.empty()) f.arch = triple.substr(0, triple.find('-'));
  const bool native = cpu == "native";
  if (f.arch == "x86_64") {
    if (native) {
      ApplyX86Host(&f);
    } else {
      ApplyX86Cpu(cpu, &f);
    }
  } else if (f.arch == "aarch64" || f.arch == "arm64") {
    f.vector_bits = 128;
    f.vector_registers = 32;
    f.fma = true;
    f.f16_convert = true;
    f.vnni = ArmInstructionsOf(cpu).dotprod;
  }
  f.native_code = native_code;
  if (!native_code) f.fma = f.f16_convert = false;
  ApplyFeatureFlags(target.GetAttr("mattr", ""), &f);
  f.vector_bits = static_cast<int>(target.GetIntAttr("vector-width", f.vector_bits));
  if (native) ApplyHostCaches(&f);
  f.num_cores = static_cast<int>(target.GetIntAttr("num-cores", native ? UsableCores() : 1));
  return f;
}

}  // namespace

TargetFeatures CpuFeatures(const TargetNode& target) { return Features(target, true); }
TargetFeatures PortableCpuFeatures(const TargetNode& target) { return Features(target, false); }

TargetFeatures CompilerCpuFeatures(const TargetNode& target) {
  TargetFeatures f = PortableCpuFeatures(target);
  f.vnni = false;  // C has no such instructions
  const std::string cpu = target.GetAttr("march", target.GetAttr("mcpu", ""));
  if (cpu == "native" || f.arch != "x86_64") return f;
  TargetFeatures named;
  ApplyX86Cpu(cpu, &named);  // the baseline where there is none
  f.vector_bits = named.vector_bits;
  f.vector_registers = named.vector_registers;
  return f;
}

namespace {

std::string CpuOf(const TargetNode& target) {
  return target.GetAttr("mcpu", target.GetAttr("mtriple").has_value() ? "generic" : "native");
}

/// `has`, unless -mattr says otherwise of one of the features.
bool AsAttributesSay(const TargetNode& target, const std::string& name, bool has) {
  std::istringstream in(target.GetAttr("mattr", ""));
  for (std::string flag; std::getline(in, flag, ',');) {
    if (flag == StrCat("+", name)) has = true;
    if (flag == StrCat("-", name)) has = false;
  }
  return has;
}

}  // namespace

bool HasBFloat16Dot(const TargetNode& target) {
  const TargetFeatures features = target.Features();
  if (!features.native_code) return false;
  const bool x86 = features.arch == "x86_64";
  const std::string cpu = CpuOf(target);
  const bool has =
      AsAttributesSay(target, x86 ? "avx512bf16" : "bf16", x86 ? X86HasBFloat16(cpu) : ArmInstructionsOf(cpu).bf16);
  constexpr int kAvx512Registers = 32;
  return has && (!x86 || features.vector_registers >= kAvx512Registers);
}

bool BFloat16DotPays(const TargetNode& target) {
  constexpr double kProductsOfDot = 2;
  if (!HasBFloat16Dot(target)) return false;
  const MachineModel* model = FindMachineModel(ProcessorOf(target));
  return model == nullptr || model->pair_dots == 0 || kProductsOfDot * model->pair_dots > model->multiply_adds;
}

bool IsForShortUse(const TargetNode& target) {
  constexpr int64_t kFewPasses = 1, kAllPasses = 3;
  return target.GetIntAttr("opt-level", kAllPasses) <= kFewPasses;
}

std::string ProcessorOf(const TargetNode& target) {
  const std::string cpu = target.GetAttr("mcpu", "");
  return cpu == "native" ? HostProcessor() : cpu;
}

const std::string& HostProcessor() {
  static const std::string host = [] {
    const std::string name = llvm::sys::getHostCPUName().str();  // reads /proc/cpuinfo on some machines
#if defined(__x86_64__)
    const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
    return X86ProcessorWith(name, [&](const char* feature) { return features.lookup(feature); });
#else
    return name;
#endif
  }();
  return host;
}

TileInstructions TilesOf(const TargetNode& target) {
  const TargetFeatures features = target.Features();
  if (!features.native_code || features.arch != "x86_64") return {};
  const bool has = X86HasTiles(CpuOf(target));
  return {AsAttributesSay(target, "amx-int8", has), AsAttributesSay(target, "amx-bf16", has)};
}

namespace {

/// Those instructions of a processor, beside the ones that levels of x86-64 have, which LLVM uses without being asked.
std::vector<std::string> OwnInstructions(const TargetNode& target, const TargetFeatures& features) {
  constexpr std::array kAny = {"lzcnt", "movbe", "gfni", "sse4a", "fma4", "xop", "tbm"};
  constexpr std::array kLong = {"avx512cd",   "avx512vnni",   "avx512vbmi",      "avx512vbmi2",
                                "avx512ifma", "avx512bitalg", "avx512vpopcntdq", "avx512fp16"};
  if (target.GetIntAttr("emulate-intrinsics", 0) != 0) return {};
  const std::string cpu = CpuOf(target);
  std::set<std::string> has;
  if (cpu == "native") {
    for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
      if (feature.second) has.insert(feature.first().str());
    }
  } else {
    llvm::SmallVector<llvm::StringRef> of_cpu;
    std::string name = cpu;
    std::replace(name.begin(), name.end(), '_', '-');
    if (llvm::X86::parseArchX86(name) != llvm::X86::CK_None) llvm::X86::getFeaturesForCPU(name, of_cpu);
    for (const llvm::StringRef feature : of_cpu) has.insert(feature.str());
  }
  std::vector<std::string> names;
  auto add = [&](const char* name) {
    if (AsAttributesSay(target, name, has.count(name) != 0)) names.emplace_back(name);
  };
  has.erase("sse4a");  // ResolveLLVMTarget does without
  for (const char* name : kAny) add(name);
  if (features.vector_bits >= 256) add("avxvnni");
  constexpr int kAvx512Registers = 32;
  if (features.vector_registers >= kAvx512Registers) {
    for (const char* name : kLong) add(name);
  }
  return names;
}

}  // namespace

std::vector<std::string> CpuFeatureNames(const Target& target) {
  const TargetFeatures features = target->Features();
  if (features.arch != "x86_64") return {};
  std::vector<std::string> names = OwnInstructions(*target.get(), features);
  if (features.fma) names.insert(names.end(), {"avx", "avx2", "bmi2"});
  // Code for such machines uses their instructions whatever the vectors' width.
  constexpr int kAvx512Registers = 32;
  if (features.vector_registers >= kAvx512Registers) {
    names.insert(names.end(), {"avx512f", "avx512vl", "avx512bw", "avx512dq"});
  }
  if (HasBFloat16Dot(*target.get())) names.push_back("avx512bf16");
  if (target->GetIntAttr("emulate-intrinsics", 0) == 0) {
    const TileInstructions tiles = TilesOf(*target.get());
    if (tiles.bytes) names.push_back("amx-int8");
    if (tiles.pairs) names.push_back("amx-bf16");
  }
  if (features.fma) names.push_back("fma");
  if (features.f16_convert) names.push_back("f16c");
  return names;
}

}  // namespace treadle::targets
