// SPDX-License-Identifier: Apache-2.0
// Index arithmetic in fewer bits, where the ranges of the loops show that nothing overflows.
#pragma once

#include "treadle/tir/function.h"

namespace treadle::tir {

/// Loop variables, indices and comparisons of integers wider than `bits` (8, 16 or 32) are computed in `bits` where
/// every intermediate value fits. Values that are stored keep their type. Throws Error for other numbers of bits.
PrimFunc NarrowIndexTypes(PrimFunc func, int bits);

}  // namespace treadle::tir
