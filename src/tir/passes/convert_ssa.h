// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tir/passes/passes.h"

namespace treadle::tir {

/// Variables and allocations that are bound at several places of a lowered function (by the copies that partition,
/// unrolling and virtual threads make) become one each, with the same name hint. Blocks are expected to be lowered.
PrimFunc ConvertSSA(PrimFunc func, const LowerConfig& config);

}  // namespace treadle::tir
