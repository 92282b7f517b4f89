// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu_topology.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>

#include "treadle/base/error.h"
#include "treadle/base/int_math.h"

namespace treadle::runtime {
namespace {

std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// CPUs that a quota per period amounts to, rounded up; 0 for no limit or nonsense.
int CpusOfQuota(const std::string& quota, const std::string& period) {
  char* end = nullptr;
  long long q = std::strtoll(quota.c_str(), &end, 10);
  if (end == quota.c_str() || q <= 0) return 0;  // "max", "-1" and ""
  long long p = std::strtoll(period.c_str(), &end, 10);
  if (end == period.c_str() || p <= 0) return 0;
  return static_cast<int>(std::min<long long>(CeilDiv(q, p), 1 << 16));
}

void TakeTighter(int* limit, int candidate) {
  if (candidate > 0 && (*limit == 0 || candidate < *limit)) *limit = candidate;
}

/// The tightest limit of the group `path` below `mount` and of its ancestors.
int LimitOfGroup(const std::string& mount, std::string path, bool v2) {
  int limit = 0;
  for (;;) {
    std::string directory = mount + path;
    if (v2) {
      const std::vector<std::string> fields = SplitWords(ReadLine(directory + "/cpu.max"));
      if (fields.size() == 2) TakeTighter(&limit, CpusOfQuota(fields[0], fields[1]));
    } else {
      TakeTighter(&limit,
                  CpusOfQuota(ReadLine(directory + "/cpu.cfs_quota_us"), ReadLine(directory + "/cpu.cfs_period_us")));
    }
    if (path.empty() || path == "/") return limit;
    path = path.substr(0, path.rfind('/'));
  }
}

}  // namespace

std::vector<int> AllowedCpus(int thread) {
  for (int capacity = 1024; capacity <= 1 << 20; capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    if (set == nullptr) break;
    size_t bytes = CPU_ALLOC_SIZE(capacity);
    std::vector<int> cpus;
    bool ok = sched_getaffinity(thread, bytes, set) == 0;
    for (int cpu = 0; ok && cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set)) cpus.push_back(cpu);
    }
    CPU_FREE(set);
    if (ok && !cpus.empty()) return cpus;
  }
  if (thread != 0) return AllowedCpus();  // it has ended
  std::vector<int> all(std::max<long>(1, sysconf(_SC_NPROCESSORS_ONLN)));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  return all;
}

const std::vector<int>& ProcessCpus() {
  static const auto* cpus = new std::vector<int>(AllowedCpus(getpid()));
  return *cpus;
}

void AllowProcessCpus() {
  const std::vector<int>& cpus = ProcessCpus();
  if (AllowedCpus() == cpus) return;
  cpu_set_t* set = CPU_ALLOC(cpus.back() + 1);
  if (set == nullptr) return;
  const size_t bytes = CPU_ALLOC_SIZE(cpus.back() + 1);
  CPU_ZERO_S(bytes, set);
  for (int cpu : cpus) CPU_SET_S(cpu, bytes, set);
  sched_setaffinity(0, bytes, set);  // where it is refused the thread stays where it is
  CPU_FREE(set);
}

int PhysicalCores(const std::vector<int>& cpus, const std::string& sysfs) {
  std::set<std::string> cores;
  for (int cpu : cpus) {
    std::string siblings = ReadLine(StrCat(sysfs, "/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
    if (siblings.empty()) return static_cast<int>(cpus.size());
    cores.insert(siblings);
  }
  return static_cast<int>(cores.size());
}

int CgroupCpuLimit(const std::string& root) {
  int limit = 0;
  std::ifstream groups(root + "/proc/self/cgroup");
  // Lines "<id>:<controllers>:<path>"; version 2 has id 0 and no controllers.
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':');
    size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers == ",,") {
      TakeTighter(&limit, LimitOfGroup(root + "/sys/fs/cgroup", path, true));
    } else if (controllers.find(",cpu,") != std::string::npos) {
      TakeTighter(&limit, LimitOfGroup(root + "/sys/fs/cgroup/cpu", path, false));
      // In a container the path is the host's and isn't visible: the mount's root is the container's group.
      TakeTighter(&limit, LimitOfGroup(root + "/sys/fs/cgroup/cpu", "", false));
    }
  }
  return limit;
}

int64_t MachineMemory(const std::string& root) {
  int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    // The tightest of the group and of those around it.
    for (std::string path = line.substr(3);;) {
      const auto limit = ParseInt(ReadLine(StrCat(root, "/sys/fs/cgroup", path == "/" ? "" : path, "/memory.max")));
      if (limit && *limit > 0) bytes = std::min(bytes, *limit);
      if (path.empty() || path == "/") break;
      path = path.substr(0, path.rfind('/'));
    }
  }
  return bytes;
}

int DefaultThreads(const std::vector<int>& cpus) {
  if (const char* text = std::getenv("TREADLE_NUM_THREADS"); text != nullptr && *text != '\0') {
    char* end = nullptr;
    long threads = std::strtol(text, &end, 10);
    if (*end != '\0' || threads < 1 || threads > 4096) {
      throw Error(StrCat("TREADLE_NUM_THREADS must be a number from 1 to 4096, got \"", text, "\""));
    }
    return static_cast<int>(threads);
  }
  int threads = PhysicalCores(cpus);
  TakeTighter(&threads, CgroupCpuLimit());
  return std::max(threads, 1);
}

namespace {

/// Asks the operating system for AMX's registers, which a process has to do once for all of its threads (Linux 5.16,
/// Documentation/arch/x86/xstate.rst). False where it doesn't give them.
[[maybe_unused]] bool AllowTileRegisters() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

std::vector<std::string> DetectCpuFeatures() {
  std::vector<std::string> features;
#if defined(__x86_64__)
  __builtin_cpu_init();
#define TREADLE_CPU_FEATURE(name) \
  if (__builtin_cpu_supports(name)) features.push_back(name)
  TREADLE_CPU_FEATURE("sse3");
  TREADLE_CPU_FEATURE("ssse3");
  TREADLE_CPU_FEATURE("sse4.1");
  TREADLE_CPU_FEATURE("sse4.2");
  TREADLE_CPU_FEATURE("popcnt");
  TREADLE_CPU_FEATURE("avx");
  TREADLE_CPU_FEATURE("avx2");
  TREADLE_CPU_FEATURE("fma");
  TREADLE_CPU_FEATURE("bmi");
  TREADLE_CPU_FEATURE("bmi2");
  TREADLE_CPU_FEATURE("f16c");
  TREADLE_CPU_FEATURE("lzcnt");
  TREADLE_CPU_FEATURE("movbe");
  TREADLE_CPU_FEATURE("gfni");
  TREADLE_CPU_FEATURE("sse4a");
  TREADLE_CPU_FEATURE("fma4");
  TREADLE_CPU_FEATURE("xop");
  TREADLE_CPU_FEATURE("tbm");
  TREADLE_CPU_FEATURE("avx512f");
  TREADLE_CPU_FEATURE("avx512vl");
  TREADLE_CPU_FEATURE("avx512bw");
  TREADLE_CPU_FEATURE("avx512dq");
  TREADLE_CPU_FEATURE("avx512cd");
  TREADLE_CPU_FEATURE("avx512vnni");
  TREADLE_CPU_FEATURE("avx512bf16");
  TREADLE_CPU_FEATURE("avx512vbmi");
  TREADLE_CPU_FEATURE("avx512vbmi2");
  TREADLE_CPU_FEATURE("avx512bitalg");
  TREADLE_CPU_FEATURE("avx512vpopcntdq");
  TREADLE_CPU_FEATURE("avx512ifma");
#if defined(__clang__) || __GNUC__ >= 13
  TREADLE_CPU_FEATURE("avxvnni");
  TREADLE_CPU_FEATURE("avx512fp16");
  if (__builtin_cpu_supports("amx-tile") && AllowTileRegisters()) {
    TREADLE_CPU_FEATURE("amx-tile");
    TREADLE_CPU_FEATURE("amx-int8");
    TREADLE_CPU_FEATURE("amx-bf16");
  }
#endif
#undef TREADLE_CPU_FEATURE
#endif
  std::sort(features.begin(), features.end());
  return features;
}

}  // namespace

const std::vector<std::string>& HostCpuFeatures() {
  static const auto* features = new std::vector<std::string>(DetectCpuFeatures());
  return *features;
}

std::vector<std::string> MissingCpuFeatures(const std::vector<std::string>& required) {
  const std::vector<std::string>& host = HostCpuFeatures();
  std::vector<std::string> missing;
  for (const std::string& feature : required) {
    if (!std::binary_search(host.begin(), host.end(), feature)) missing.push_back(feature);
  }
  return missing;
}

}  // namespace treadle::runtime
