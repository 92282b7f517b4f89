// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "treadle/tir/stmt.h"

namespace treadle::targets {

/// Variables that `stmt` uses and doesn't define, in order of first use.
std::vector<tir::Var> FreeVars(const tir::Stmt& stmt);

}  // namespace treadle::targets
