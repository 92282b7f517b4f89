// SPDX-License-Identifier: Apache-2.0
// Schedules of the steps of scans that users state as tensor expressions.
#pragma once

#include "targets/cpu/schedule/cpu.h"

namespace treadle::ops::cpu {

/// The steps of a scan, where each element depends on earlier steps of itself alone. False, and nothing done, where the
/// block is none or takes its steps together with others. What it did may be a part of it where a ScheduleError is
/// thrown.
bool ScheduleScan(Schedule& sch, const BlockRV& block, const schedule::Machine& machine);
/// One of several computations that share the loop of a scan's steps, element by element.
void ScheduleStep(Schedule& sch, const BlockRV& block, const schedule::Machine& machine);

}  // namespace treadle::ops::cpu
