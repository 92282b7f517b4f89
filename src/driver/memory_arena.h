// SPDX-License-Identifier: Apache-2.0
// The default memory planner: offsets in one arena per device.
#pragma once

#include <cstdint>
#include <vector>

#include "driver/memory_program.h"

namespace treadle::driver {

struct TensorPlace {
  int64_t storage_id;
  int64_t offset;
};

/// Alignment of every tensor in an arena, in bytes.
inline constexpr int64_t kArenaAlignment = 64;

/// Places all tensors. Parameters and constants get storages of their own, numbered first; then comes one storage
/// per device. Element-wise steps write over an operand that isn't needed any more. Tensors that live at the same
/// time never overlap. Of two heuristics the better is taken: largest tensor first (up to some thousand tensors), and
/// best fit in order of time.
std::vector<TensorPlace> PlanArena(const MemoryProgram& program);

/// The most bytes that are alive at one step (constants and parameters not counted): no plan can do with less,
/// writing in place apart.
int64_t PeakLiveBytes(const MemoryProgram& program);

}  // namespace treadle::driver
