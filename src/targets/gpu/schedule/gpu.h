// SPDX-License-Identifier: Apache-2.0
// Schedules for devices that run grids of threads.
#pragma once

#include "treadle/ir/target.h"
#include "treadle/tir/schedule.h"

namespace treadle::ops {

/// Each stage becomes a kernel with one thread per result: spatial axes are fused and bound to blocks of threads,
/// reductions run within a thread, in registers. A stage that can't be bound stays as it is.
tir::PrimFunc ScheduleForGpu(const tir::PrimFunc& func, const Target& target);

}  // namespace treadle::ops
