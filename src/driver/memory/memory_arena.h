// SPDX-License-Identifier: Apache-2.0
// The default memory planner: offsets in one arena per device.
#pragma once

#include <cstdint>
#include <vector>

#include "driver/memory/memory_program.h"

namespace treadle::driver {

struct TensorPlace {
  int64_t storage_id;
  int64_t offset;
};

/// Places all tensors. Parameters and constants get storages of their own, numbered first; then comes one storage
/// per device. Steps write over an operand that isn't needed any more where `rule` allows it
/// (without one: where they are element-wise); joining and splitting along the
/// outermost dimension moves nothing where that doesn't take more memory. Otherwise tensors that live at the same time
/// never overlap. Of two heuristics the better is taken: largest tensor first (up to some thousand tensors), and
/// best fit in order of time.
std::vector<TensorPlace> PlanArena(const MemoryProgram& program, const InPlaceRule& rule = {});

/// The joins and splits of `places` that move nothing: by step, whether all of its operands and results lie in place.
bool IsInPlace(const MemoryProgram& program, const PlannedStep& step, const std::vector<TensorPlace>& places);

/// The most bytes that are alive at one step (constants and parameters not counted): no plan can do with less,
/// writing in place apart.
int64_t PeakLiveBytes(const MemoryProgram& program);

}  // namespace treadle::driver
