// SPDX-License-Identifier: Apache-2.0
// Which values of a fused function share memory.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/memory/memory_program.h"
#include "treadle/relay/expr.h"

namespace treadle::driver {

/// Where the tensors of one expression live: one entry per tensor, tuples flattened.
struct StorageInfo {
  std::vector<int64_t> storage_ids;
  std::vector<int> device_types;  ///< DLDeviceType; 0: no devices were planned
  std::vector<int64_t> sizes;     ///< bytes of the tensor itself
  std::vector<int64_t> offsets;   ///< bytes from the start of the storage
  bool moves_nothing = false;     ///< a call that joins or splits tensors which lie in place already
};

using MemoryPlan = std::unordered_map<relay::Expr, StorageInfo, ObjectPtrHash, ObjectPtrEqual>;

enum class MemoryPlanner {
  kRelay,  ///< the allocation of Relay's graph executor: one block per storage, taken from a free list
  kArena,  ///< offsets in an arena on the CPU, blocks on other devices; element-wise operators work in place
};

/// Plans the memory of `func`, whose calls are of primitive or external functions, for a sequential run in the order
/// of a depth-first walk (arguments left to right). Each parameter, constant, call and projected value gets storage;
/// parameters and constants never share theirs. A result of `relay.reshape_only` functions is its input
/// unless `share_reshapes` is false (as Relay plans functions that aren't lowered yet).
///
/// Throws Error for If and other control flow, and for types of unknown size. Only some tensors on devices (attribute
/// device annotations) and others not is an Error. `default_device` (DLDeviceType) is where everything is when there
/// are no annotations. `rule` says which calls kArena may let write over an operand (without one: element-wise ones).
MemoryPlan GraphPlanMemory(const relay::Function& func, MemoryPlanner planner = MemoryPlanner::kRelay,
                           bool share_reshapes = true, int default_device = 1, const InPlaceRule& rule = {});

/// The same of a function's steps, whose tensors may have been made to live longer.
MemoryPlan PlanMemory(const MemoryProgram& program, MemoryPlanner planner, int default_device, const InPlaceRule& rule);

/// Bytes of each storage that the plan uses: the largest of the ends of its tensors.
std::unordered_map<int64_t, int64_t> StorageSizes(const MemoryPlan& plan);

}  // namespace treadle::driver
