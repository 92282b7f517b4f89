// SPDX-License-Identifier: Apache-2.0
#include "targets/schedule.h"

#include "targets/cpu/schedule/cpu.h"
#include "targets/gpu/schedule/gpu.h"

namespace treadle::ops {

tir::PrimFunc SchedulePrimFunc(const tir::PrimFunc& func, const Target& target) {
  if (target->HasKey("cpu") && target->kind == "llvm") return ScheduleForCpu(func, target->Features());
  if (target->HasKey("gpu")) return ScheduleForGpu(func, target);
  return func;
}

}  // namespace treadle::ops
