// SPDX-License-Identifier: Apache-2.0
// Loops for runs in which rows of a length that only a run knows have few elements.
#pragma once

#include <optional>

#include "treadle/schedule/short_form.h"

namespace treadle::ops {

/// Another form of a function that the default schedule computes in vectors along rows of dynamic length: in vectors or
/// plain loops across rows, for runs whose rows would fill little of a vector. Nothing where there are no such rows, or
/// where they are a kernel's.
std::optional<schedule::ShortForm> ScheduleShortRows(const tir::PrimFunc& func);

}  // namespace treadle::ops
