// SPDX-License-Identifier: Apache-2.0
// Schedules of the steps of scans that users state as tensor expressions.
#pragma once

#include "targets/cpu/schedule/cpu.h"

namespace treadle::ops::cpu {

/// Schedules a scan in which each element depends only on its own earlier steps. False, with nothing changed, if the
/// block is none or shares the loop of its steps with others. If a ScheduleError is thrown, the schedule may be
/// incomplete.
bool ScheduleScan(Schedule& sch, const BlockRV& block, const schedule::Machine& machine);
/// Schedules one of several element-wise computations that share the loop of a scan's steps.
void ScheduleStep(Schedule& sch, const BlockRV& block, const schedule::Machine& machine);

}  // namespace treadle::ops::cpu
