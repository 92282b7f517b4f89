// SPDX-License-Identifier: Apache-2.0
// What external code generators tell the partitioning passes: which operators they take. (Bring your own codegen.)
#pragma once

#include <functional>
#include <string>

#include "treadle/ir/op.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

/// Whether an external code generator takes this typed call. `reason` receives why not, for reports.
using TargetPredicate = std::function<bool(const CallNode* call, std::string* reason)>;

/// Declares that `compiler` takes calls of operator `op_name` for which the predicate holds (null: all).
void RegisterExternalOp(const std::string& compiler, const std::string& op_name, TargetPredicate predicate = nullptr);
/// Whether `compiler` takes the call of an operator.
bool ExternalOpSupported(const std::string& compiler, const CallNode* call, std::string* reason = nullptr);

/// Calls of operators in `module` that `compiler` doesn't take, with the reason: one line per operator name.
std::string ExternalRejections(const IRModule& module, const std::string& compiler);

}  // namespace treadle::relay
