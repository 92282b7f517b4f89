// SPDX-License-Identifier: Apache-2.0
// Default schedules: how each class of computation runs on a target, without tuning.
#pragma once

#include "treadle/ir/target.h"
#include "treadle/tir/function.h"

namespace treadle::ops {

/// Schedules a function of blocks as te::CreatePrimFunc makes it. Its blocks are recognised by the tags of their
/// computations (block annotation "tag"). Targets without schedules of their own get the function unchanged.
tir::PrimFunc SchedulePrimFunc(const tir::PrimFunc& func, const Target& target);

}  // namespace treadle::ops
