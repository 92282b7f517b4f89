// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "treadle/relay/expr.h"
#include "treadle/runtime/vm/program.h"

namespace treadle::driver {

/// The multiply-adds of the kernel `func` (of SymbolicKernel) in dimensions of its tensors, parameters first, then
/// results. Nothing where they depend on what is no dimension of these.
std::optional<std::vector<runtime::vm::MacTerm>> MacTermsOf(const relay::Function& func);

}  // namespace treadle::driver
