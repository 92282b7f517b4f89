// SPDX-License-Identifier: Apache-2.0
// How many threads this process may usefully run, and what instructions its processor has.
#pragma once

#include <string>
#include <vector>

namespace treadle::runtime {

/// CPUs that the calling thread may run on (sched_getaffinity), ascending.
std::vector<int> AllowedCpus();
/// Distinct physical cores among `cpus`; their number where the topology under `sysfs` can't be read.
int PhysicalCores(const std::vector<int>& cpus, const std::string& sysfs = "/sys");
/// CPU bandwidth limit of this process's control group (v1 or v2, the tightest of all ancestors), rounded up to whole
/// CPUs; 0 when there is none. `root` is prefixed to /proc and /sys.
int CgroupCpuLimit(const std::string& root = "");
/// Threads to use when nobody says otherwise: TREADLE_NUM_THREADS, else the physical cores that affinity and control
/// group allow. Throws Error when the variable isn't a positive number.
int DefaultThreads();

/// Instruction-set extensions of this machine that the operating system enables, by LLVM's names ("avx2", "fma"),
/// sorted.
const std::vector<std::string>& HostCpuFeatures();
/// Those of `required` that this machine lacks.
std::vector<std::string> MissingCpuFeatures(const std::vector<std::string>& required);

}  // namespace treadle::runtime
