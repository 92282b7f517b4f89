// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "treadle/ir/op.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

/// The pattern of a typed call, where it is another than its operator's (kOpPattern); nothing where it is that.
using FCallPattern = std::optional<OpPatternKind> (*)(const CallNode* call);
inline constexpr OpAttrKey<FCallPattern> kCallPattern{"FCallPattern"};

}  // namespace treadle::relay
