// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/ir/op.h"

namespace treadle::relay {

/// The operator reads operand 0 at places that it computes, several elements for each result. Producers aren't fused
/// into that operand: they would be computed again and again, with indices that nothing is known of.
inline constexpr OpAttrKey<bool> kGathersData{"TGathersData"};

/// The operator, which isn't element-wise, reads each element of operand 0 once: element-wise producers are computed as
/// it reads them.
inline constexpr OpAttrKey<bool> kReadsDataOnce{"TReadsDataOnce"};

}  // namespace treadle::relay
