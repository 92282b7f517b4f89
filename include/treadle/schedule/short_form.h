// SPDX-License-Identifier: Apache-2.0
// Functions that have another schedule for short dimensions.
#pragma once

#include "treadle/tir/function.h"

namespace treadle::schedule {

/// A schedule of a function for some of the sizes that it takes.
struct ShortForm {
  PrimExpr condition;  ///< in terms of the function's dimensions: whether it is for a run's
  tir::PrimFunc func;
};

}  // namespace treadle::schedule
