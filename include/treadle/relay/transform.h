// SPDX-License-Identifier: Apache-2.0
// Passes over graph IR: how to make them, and type inference as a pass. The others are in passes.h.
#pragma once

#include <functional>

#include "treadle/ir/transform.h"
#include "treadle/relay/expr.h"

namespace treadle::relay::transform {

using treadle::transform::Pass;
using treadle::transform::PassContext;
using treadle::transform::PassInfo;

/// A pass over each graph function of the module, apart from those with the attributes Compiler or SkipOptimization.
/// Types are inferred again afterwards.
Pass CreateFunctionPass(std::function<Function(Function, IRModule, PassContext)> run, PassInfo info);

/// Infers types (level 0).
Pass InferType();

}  // namespace treadle::relay::transform
