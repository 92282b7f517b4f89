// SPDX-License-Identifier: Apache-2.0
// What dynamic sizes are worth a kernel of their own.
#pragma once

#include "treadle/ir/op.h"

namespace treadle::ops {

/// Calls whose dynamic dimensions are all 1 when they run (a decoder's step, one sequence) take a kernel that is
/// compiled for that: reading a weight for one row wants other loops than a product of many.
inline constexpr OpAttrKey<bool> kFormForOne{"TFormForOne"};

}  // namespace treadle::ops
