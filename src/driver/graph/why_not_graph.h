// SPDX-License-Identifier: Apache-2.0
// What the graph executor can run.
#pragma once

#include <functional>
#include <string>

#include "treadle/ir/module.h"
#include "treadle/relay/expr.h"

namespace treadle::driver {

/// Why the graph executor can't run the module; "" where it can: control flow, calls of functions, dimensions that
/// aren't constants, values that aren't tensors.
std::string WhyNotGraph(const IRModule& module);

/// Calls `visit` once for each expression that isn't inside a kernel or a region of an external code generator, those
/// functions themselves included. What is inside (composite functions, lets) is for others to compile.
void VisitOutsideKernels(const relay::Expr& root, const std::function<void(const relay::Expr&)>& visit);

}  // namespace treadle::driver
