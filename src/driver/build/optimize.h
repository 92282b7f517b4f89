// SPDX-License-Identifier: Apache-2.0
// THE list of passes that a module goes through on its way to kernels.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "driver/lower/build_targets.h"
#include "treadle/ir/transform.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::driver {

using ParamList = std::vector<std::pair<std::string, runtime::NDArray>>;

/// Replaces parameters of main by constants; the parameter's name becomes the constants' place. A name that main
/// doesn't have is an Error.
IRModule BindParams(IRModule module, const ParamList& params);

/// In order, with the levels from which they run.
/// `partition` (may be null) gives parts of the graph to external code generators.
std::vector<transform::Pass> OptimizationPasses(const BuildTargets& targets, const transform::Pass& partition = {});

/// Turns annotations (on_device) of main into copies between devices. Where all of it is on one device, that becomes
/// the default device of `targets`. An annotation for a device without target is a TargetError.
IRModule PlaceOnDevices(IRModule module, BuildTargets* targets);

/// Sees the module as fusion gets it.
using FusionObserver = std::function<void(const IRModule& module, const transform::PassContext& context)>;

/// Places main on devices, then runs the passes that the current context enables. The result's main consists of calls
/// of fused functions.
IRModule Optimize(IRModule module, BuildTargets* targets, const FusionObserver& before_fusion = nullptr,
                  const transform::Pass& partition = {});

}  // namespace treadle::driver
