// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/op.h"

namespace treadle::relay {

/// The operator reads operand 0 at places that it computes, several elements for each result. Producers aren't fused
/// into that operand: they would be computed again and again, with indices that nothing is known of.
inline constexpr OpAttrKey<bool> kGathersData{"TGathersData"};

}  // namespace treadle::relay
