// SPDX-License-Identifier: Apache-2.0
// THE list of passes that a module goes through on its way to kernels.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "treadle/ir/target.h"
#include "treadle/ir/transform.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::driver {

/// In order, with the levels from which they run.
std::vector<transform::Pass> OptimizationPasses(const Target& target);

/// Sees the module as fusion gets it.
using FusionObserver = std::function<void(const IRModule& module, const transform::PassContext& context)>;

/// Runs the passes that the current context enables. The result's main consists of calls of fused functions.
IRModule Optimize(IRModule module, const Target& target, const FusionObserver& before_fusion = nullptr);

/// Replaces parameters of main by constants; the parameter's name becomes the constants' place. A name that main
/// doesn't have, or has twice, is an Error.
IRModule BindParams(IRModule module, const std::vector<std::pair<std::string, runtime::NDArray>>& params);

}  // namespace treadle::driver
