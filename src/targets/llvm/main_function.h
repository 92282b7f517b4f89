// SPDX-License-Identifier: Apache-2.0
// A function that runs a whole graph: its kernels one after the other.
#pragma once

#include <string>
#include <vector>

#include "treadle/targets/target_spec.h"

namespace treadle::targets {

/// A relocatable object that defines kMainFunction for the calls in this order; their kernels are undefined in it.
std::string MakeMainObject(const std::vector<MainCall>& calls, const Target& target);

}  // namespace treadle::targets
