// SPDX-License-Identifier: Apache-2.0
// Computations of operators that users add. They are kernels (kernel.h) with a level and a computation, and nothing
// else.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "treadle/schedule/kernel.h"

namespace treadle::schedule {

/// One more way to compute an operator.
struct Implementation {
  std::string name;            ///< "softmax.table"
  int plevel = kDefaultLevel;  ///< Kernel::level: of those that can be used, the one of the highest is
  /// Why it can't be used here, or ""; null: it can always be.
  std::function<std::string(const CallContext&)> why_not;
  ops::FTECompute compute;
};

/// Adds an implementation, for all targets, besides the kernels that there are and the operator's own compute, which is
/// called "<operator>.generic" and has kDefaultLevel. One of the same name is replaced. An operator that doesn't exist
/// is an Error. Thread-safe.
void AddImplementation(const std::string& op_name, Implementation implementation);

/// Gives the implementations of a call, those that can't be used with the reason (why_not).
using FStrategy = std::function<std::vector<Implementation>(const CallContext&)>;
/// Sets an operator's strategy; null takes it away. Of equal level its implementations come before all others. An
/// operator that doesn't exist is an Error. Thread-safe.
void SetStrategy(const std::string& op_name, FStrategy strategy);

}  // namespace treadle::schedule
