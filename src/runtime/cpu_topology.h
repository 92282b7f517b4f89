// SPDX-License-Identifier: Apache-2.0
// How many threads this process may usefully run, and what instructions its processor has.
#pragma once

#include <string>
#include <vector>

namespace treadle::runtime {

/// CPUs that a thread may run on (sched_getaffinity; 0: the calling one), ascending.
std::vector<int> AllowedCpus(int thread = 0);
/// CPUs that the process's first thread was allowed when this was first called: those of the process, whichever CPUs
/// other threads are bound to.
const std::vector<int>& ProcessCpus();
/// Allows the calling thread all of ProcessCpus; a thread begins with what its creator was bound to.
void AllowProcessCpus();
/// Distinct physical cores among `cpus`; their number where the topology under `sysfs` can't be read.
int PhysicalCores(const std::vector<int>& cpus, const std::string& sysfs = "/sys");
/// CPU bandwidth limit of this process's control group (v1 or v2, the tightest of all ancestors), rounded up to whole
/// CPUs; 0 when there is none. `root` is prefixed to /proc and /sys.
int CgroupCpuLimit(const std::string& root = "");
/// Bytes of memory that this process may use: the machine's, or what its control group (version 2) allows. `root` is
/// prefixed to /proc and /sys.
int64_t MachineMemory(const std::string& root = "");
/// Threads to use when nobody says otherwise: TREADLE_NUM_THREADS, else the physical cores among `cpus` as far as the
/// control group allows. Throws Error when the variable isn't a positive number.
int DefaultThreads(const std::vector<int>& cpus);

/// Instruction-set extensions of this machine that the operating system enables, by LLVM's names ("avx2", "fma"),
/// sorted. The first call asks for what a process must ask for before it is used (AMX's registers).
const std::vector<std::string>& HostCpuFeatures();
/// Those of `required` that this machine lacks.
std::vector<std::string> MissingCpuFeatures(const std::vector<std::string>& required);

}  // namespace treadle::runtime
