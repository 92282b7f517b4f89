// SPDX-License-Identifier: Apache-2.0
#include "ops/schedule/schedule.h"

#include "ops/schedule/cpu/cpu.h"

namespace treadle::ops {

tir::PrimFunc SchedulePrimFunc(const tir::PrimFunc& func, const Target& target) {
  if (target->HasKey("cpu") && target->kind == "llvm") return ScheduleForCpu(func, target->Features());
  return func;
}

}  // namespace treadle::ops
