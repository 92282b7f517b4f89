// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/tir/function.h"

namespace treadle::tir {

/// Numbers at constant places of operands that the function doesn't write, as conditions in loops read them (the width
/// of a border that a run gives), and what is computed with them alone, are read once, into variables. Only where
/// parameters don't overlap.
PrimFunc HoistReads(PrimFunc func);

}  // namespace treadle::tir
