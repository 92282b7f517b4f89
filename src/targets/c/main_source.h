// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "treadle/targets/target_spec.h"

namespace treadle::targets {

/// C99 that defines kMainFunction for the calls in this order; their kernels are undefined in it.
std::string MakeMainSource(const std::vector<MainCall>& calls);

}  // namespace treadle::targets
