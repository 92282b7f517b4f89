// SPDX-License-Identifier: Apache-2.0
// Compiles candidates, in forked processes: one that crashes the compiler, or never ends, is one candidate less.
#pragma once

#include <string>
#include <vector>

#include "tune/task.h"

namespace treadle::tune {

struct BuildLimits {
  double seconds = 30;    ///< for a candidate
  int memory_mib = 4096;  ///< besides what this process has
  int jobs = 1;           ///< processes at once
  int opt_level = 3;
};

struct Built {
  std::string path;   ///< of a library with the function task.symbol; "" where there is none
  std::string error;  ///< why
  uint64_t hash = 0;  ///< of its bytes: equal code needs no second race
};

/// One library for each plan (JSON) in `folder`, under names that begin with `prefix`.
std::vector<Built> BuildCandidates(const Task& task, const std::vector<std::string>& plans, const std::string& folder,
                                   const std::string& prefix, const BuildLimits& limits);

}  // namespace treadle::tune
