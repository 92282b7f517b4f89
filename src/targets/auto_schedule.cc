// SPDX-License-Identifier: Apache-2.0
#include "treadle/targets/auto_schedule.h"

#include <algorithm>

#include "targets/cpu/kernels/products.h"
#include "treadle/schedule/kernel.h"
#include "treadle/targets/target_spec.h"
#include "treadle/tir/any_expressions.h"
#include "treadle/tir/schedule.h"

namespace treadle::targets {
namespace {

bool IsCpu(const Target& target) {
  return std::find(target->keys.begin(), target->keys.end(), "cpu") != target->keys.end();
}

}  // namespace

Array<te::Tensor> WithKernels(const Array<te::Tensor>& tensors, const Target& target) {
  return IsCpu(target) && GetTargetSpec(target).schedule ? ops::cpu::WithPackedProducts(tensors) : tensors;
}

tir::PrimFunc AutoSchedule(const tir::PrimFunc& func, const Target& target) {
  const TargetSpec& spec = GetTargetSpec(target);
  if (!spec.schedule) return func;
  try {
    return spec.schedule(WithAttr(func, tir::kAnyExpressions, IntImm(DataType::Bool(), 1)), target);
  } catch (const tir::ScheduleError& e) {
    schedule::ChoiceLog::Note(StrCat("# not scheduled: ", e.what()));
    return func;
  }
}

}  // namespace treadle::targets
