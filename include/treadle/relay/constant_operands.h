// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "treadle/ir/op.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

/// Checks what a typed call's kernel relies on in operands that say where it reads: passes make them as constants, but
/// text and Python may give anything. A ShapeError where they don't fit.
using FCheckConstants = void (*)(const CallNode* call);
inline constexpr OpAttrKey<FCheckConstants> kCheckConstants{"FCheckConstants"};

/// Checks that operand `arg` of the call is a constant of integers; element i is from 0 to limit(i) - 1.
void CheckConstantOperand(const CallNode* call, size_t arg, const char* name,
                          const std::function<int64_t(int64_t)>& limit);

}  // namespace treadle::relay
