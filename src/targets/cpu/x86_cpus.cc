// SPDX-License-Identifier: Apache-2.0
// Sizes of caches are those of the makers' optimisation manuals (of hybrid processors those of the fast cores).
#include "targets/cpu/x86_cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "runtime/cpu_topology.h"

namespace treadle {
namespace {

enum class Level { kV1, kV2, kV3, kV4 };

void ApplyLevel(Level level, TargetFeatures* f) {
  f->vector_bits = level == Level::kV4 ? 512 : level == Level::kV3 ? 256 : 128;
  f->vector_registers = level == Level::kV4 ? 32 : 16;
  f->fma = level >= Level::kV3;
  f->f16_convert = level >= Level::kV3;
}

/// Caches in KiB: first and second level of one core, third level of the cores that share one.
struct Cpu {
  Level level;
  bool vnni;
  int l1, l2, l3;
};

const std::map<std::string, Cpu>& Cpus() {
  using enum Level;
  static const std::map<std::string, Cpu> cpus = {
      {"x86-64", {kV1, false, 32, 512, 8192}},
      {"generic", {kV1, false, 32, 512, 8192}},
      {"x86-64-v2", {kV2, false, 32, 512, 8192}},
      {"x86-64-v3", {kV3, false, 32, 512, 8192}},
      {"x86-64-v4", {kV4, false, 32, 1024, 8192}},
      // Intel
      {"nehalem", {kV2, false, 32, 256, 8192}},
      {"corei7", {kV2, false, 32, 256, 8192}},
      {"westmere", {kV2, false, 32, 256, 12288}},
      {"sandybridge", {kV2, false, 32, 256, 8192}},
      {"corei7-avx", {kV2, false, 32, 256, 8192}},
      {"ivybridge", {kV2, false, 32, 256, 8192}},
      {"core-avx-i", {kV2, false, 32, 256, 8192}},
      {"silvermont", {kV2, false, 24, 512, 0}},
      {"slm", {kV2, false, 24, 512, 0}},
      {"goldmont", {kV2, false, 24, 512, 0}},
      {"goldmont-plus", {kV2, false, 24, 1024, 0}},
      {"tremont", {kV2, false, 32, 1024, 4096}},
      {"haswell", {kV3, false, 32, 256, 8192}},
      {"core-avx2", {kV3, false, 32, 256, 8192}},
      {"broadwell", {kV3, false, 32, 256, 8192}},
      {"skylake", {kV3, false, 32, 256, 8192}},
      {"alderlake", {kV3, true, 48, 1280, 30720}},
      {"raptorlake", {kV3, true, 48, 2048, 36864}},
      {"meteorlake", {kV3, true, 48, 2048, 24576}},
      {"arrowlake", {kV3, true, 48, 3072, 36864}},
      {"arrowlake-s", {kV3, true, 48, 3072, 36864}},
      {"lunarlake", {kV3, true, 48, 2560, 12288}},
      {"pantherlake", {kV3, true, 48, 3072, 18432}},
      {"gracemont", {kV3, true, 32, 512, 6144}},
      {"sierraforest", {kV3, true, 32, 1024, 98304}},
      {"grandridge", {kV3, true, 32, 1024, 16384}},
      {"clearwaterforest", {kV3, true, 32, 1024, 98304}},
      {"skylake-avx512", {kV4, false, 32, 1024, 22528}},
      {"skx", {kV4, false, 32, 1024, 22528}},
      {"cascadelake", {kV4, true, 32, 1024, 36608}},
      {"cooperlake", {kV4, true, 32, 1024, 36608}},
      {"cannonlake", {kV4, false, 32, 256, 4096}},
      {"icelake-client", {kV4, true, 48, 512, 8192}},
      {"rocketlake", {kV4, true, 48, 512, 16384}},
      {"tigerlake", {kV4, true, 48, 1280, 12288}},
      {"icelake-server", {kV4, true, 48, 1280, 49152}},
      {"sapphirerapids", {kV4, true, 48, 2048, 61440}},
      {"emeraldrapids", {kV4, true, 48, 2048, 163840}},
      {"graniterapids", {kV4, true, 48, 2048, 147456}},
      {"graniterapids-d", {kV4, true, 48, 2048, 147456}},
      // AMD
      {"bdver1", {kV2, false, 16, 1024, 8192}},
      {"bdver2", {kV2, false, 16, 1024, 8192}},
      {"bdver3", {kV2, false, 16, 1024, 0}},
      {"bdver4", {kV3, false, 32, 1024, 0}},
      {"btver2", {kV2, false, 32, 512, 0}},
      {"znver1", {kV3, false, 32, 512, 8192}},
      {"znver2", {kV3, false, 32, 512, 16384}},
      {"znver3", {kV3, false, 32, 512, 32768}},
      {"znver4", {kV4, true, 32, 1024, 32768}},
      {"znver5", {kV4, true, 48, 1024, 32768}},
  };
  return cpus;
}

void ApplyCpu(const Cpu& cpu, TargetFeatures* f) {
  ApplyLevel(cpu.level, f);
  f->vnni = cpu.vnni;
  f->l1_bytes = int64_t{cpu.l1} << 10;
  f->l2_bytes = int64_t{cpu.l2} << 10;
  f->l3_bytes = int64_t{cpu.l3} << 10;
}

/// The processor that this thread may run on whose number is the least: on hybrid machines that is a fast one.
int FirstAllowedCpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) return cpu;
  }
  return 0;
}

int64_t ReadSize(const std::string& path) {
  std::ifstream in(path);
  int64_t size = 0;
  std::string unit;
  if (!(in >> size)) return 0;
  in >> unit;
  return unit == "K" ? size << 10 : unit == "M" ? size << 20 : size;
}

}  // namespace

void ApplyX86Cpu(const std::string& name, TargetFeatures* features) {
  std::string known = name;
  std::replace(known.begin(), known.end(), '_', '-');  // LLVM takes both
  auto it = Cpus().find(known);
  ApplyCpu(it == Cpus().end() ? Cpus().at("x86-64") : it->second, features);
}

void ApplyX86Host(TargetFeatures* features) {
  const char* name = "x86-64";
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq")) {
    name = "x86-64-v4";
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    name = "x86-64-v3";
  } else if (__builtin_cpu_supports("sse4.2")) {
    name = "x86-64-v2";
  }
#endif
  ApplyX86Cpu(name, features);
#if defined(__x86_64__)
  features->vnni = __builtin_cpu_supports("avx512vnni");
#endif
}

bool X86HasBFloat16(const std::string& name) {
#if defined(__x86_64__)
  if (name == "native") return __builtin_cpu_supports("avx512bf16") != 0;
#endif
  static const std::set<std::string> names = {"cooperlake",      "sapphirerapids", "emeraldrapids", "graniterapids",
                                              "graniterapids-d", "znver4",         "znver5"};
  return names.count(name) != 0;
}

std::string X86ProcessorWith(const std::string& name, const std::function<bool(const char*)>& has) {
  static const std::set<std::string> earlier = {"skylake-avx512", "cascadelake",    "cooperlake", "cannonlake",
                                                "icelake-client", "icelake-server", "rocketlake", "tigerlake"};
  const bool tiles = has("amx-int8") && has("amx-bf16");
  const bool later = tiles || (has("avx512fp16") && earlier.count(name) != 0);
  if (!later || X86HasTiles(name)) return name;
  return has("amx-fp16") ? "graniterapids" : "sapphirerapids";
}

bool X86HasTiles(const std::string& name) {
  if (name == "native") return runtime::MissingCpuFeatures({"amx-bf16", "amx-int8"}).empty();
  static const std::set<std::string> names = {"sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d",
                                              "diamondrapids"};
  return names.count(name) != 0;
}

namespace {

/// Bytes of the data caches of a processor, by level; 0 where the system doesn't say.
using CacheSizes = std::array<int64_t, 4>;

CacheSizes ReadCaches(int cpu) {
  CacheSizes sizes{};
  const std::string folder = StrCat("/sys/devices/system/cpu/cpu", cpu, "/cache/index");
  for (int i = 0; i < 5; ++i) {
    const std::string index = StrCat(folder, i);
    std::ifstream level_file(index + "/level"), type_file(index + "/type");
    size_t level = 0;
    std::string type;
    if (!(level_file >> level) || !(type_file >> type) || type == "Instruction" || level < 1 || level > 3) continue;
    sizes[level] = ReadSize(index + "/size");
  }
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  // Where containers hide these files, the C library may have asked the processor.
  const int names[4] = {0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  for (size_t level = 1; level <= 3; ++level) {
    if (sizes[level] <= 0) sizes[level] = sysconf(names[level]);
  }
#endif
  return sizes;
}

/// As ReadCaches, which reads fifteen files, once for each processor: every kernel asks.
CacheSizes CachesOf(int cpu) {
  static std::mutex mutex;
  static auto* known = new std::map<int, CacheSizes>;
  const std::lock_guard<std::mutex> lock(mutex);
  auto [at, is_new] = known->try_emplace(cpu);
  if (is_new) at->second = ReadCaches(cpu);
  return at->second;
}

}  // namespace

void ApplyHostCaches(TargetFeatures* features) {
  const CacheSizes sizes = CachesOf(FirstAllowedCpu());
  // Virtual machines may report what no processor has: tiles chosen by that would be slow.
  constexpr int64_t kKi = 1024;
  auto take = [](int64_t size, int64_t least, int64_t most, int64_t* to) {
    if (size >= least && size <= most) *to = size;
  };
  take(sizes[1], 16 * kKi, 192 * kKi, &features->l1_bytes);
  take(sizes[2], 128 * kKi, 16384 * kKi, &features->l2_bytes);
  take(sizes[3], 1024 * kKi, 4096 * kKi * kKi, &features->l3_bytes);
}

}  // namespace treadle
