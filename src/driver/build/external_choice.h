// SPDX-License-Identifier: Apache-2.0
// --external auto: which regions external code generators run faster than Treadle's own code.
#pragma once

#include "external/partition.h"
#include "treadle/driver/compile.h"

namespace treadle::driver {

/// The name that stands for "whichever is faster".
inline constexpr char kAutoExternal[] = "auto";

/// The code generators that "auto" stands for: libraries that are there on this machine, the preferred one first.
std::vector<std::string> AutoCodegens();

/// Compiles each region both ways, runs both on this machine and keeps the faster; `report` receives a line for each.
/// A region that one of them can't compile goes to the other.
external::RegionJudge MeasuringJudge(const CompileOptions& options, std::string* report);

}  // namespace treadle::driver
