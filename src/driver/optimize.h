// SPDX-License-Identifier: Apache-2.0
// THE list of passes that a module goes through on its way to kernels.
#pragma once

#include <vector>

#include "treadle/ir/target.h"
#include "treadle/ir/transform.h"

namespace treadle::driver {

/// In order, with the levels from which they run.
std::vector<transform::Pass> OptimizationPasses(const Target& target);

/// Runs the passes that the current context enables. The result's main consists of calls of fused functions.
IRModule Optimize(IRModule module, const Target& target);

}  // namespace treadle::driver
