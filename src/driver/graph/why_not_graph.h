// SPDX-License-Identifier: Apache-2.0
// What the graph executor can run.
#pragma once

#include <string>

#include "treadle/ir/module.h"

namespace treadle::driver {

/// Why the graph executor can't run the module; "" where it can: control flow, calls of functions, dimensions that
/// aren't constants, values that aren't tensors.
std::string WhyNotGraph(const IRModule& module);

}  // namespace treadle::driver
