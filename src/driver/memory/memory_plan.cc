// SPDX-License-Identifier: Apache-2.0
#include "driver/memory/memory_plan.h"

#include <algorithm>
#include <map>

#include "driver/memory/memory_arena.h"
#include "driver/memory/memory_program.h"
#include "treadle/runtime/device.h"

namespace treadle::driver {
namespace {

/// Blocks are reused for tensors up to so many times smaller or larger.
constexpr int64_t kMatchRange = 16;

/// The free list of Relay's planner: a block is taken when a tensor needs it, and returned when its last use is
/// done. Of blocks large enough the smallest one is taken, else the largest of the others, which grows.
class BlockPlanner {
 public:
  explicit BlockPlanner(const MemoryProgram& program) : program_(program), block_of_(program.tensors.size(), -1) {}

  std::vector<int64_t> Plan() {
    for (size_t i = 0; i < program_.num_params; ++i) TakeForEver(static_cast<int>(i));
    for (const PlannedStep& step : program_.steps) {
      if (step.call == nullptr) {
        for (int id : step.outputs) TakeForEver(id);
        continue;
      }
      for (int id : step.outputs) {
        int alias = program_.tensors[id].alias_of;
        if (alias >= 0) {
          block_of_[id] = block_of_[alias];
          blocks_[block_of_[id]].uses += program_.tensors[id].uses;
        } else {
          Take(id);
        }
      }
      for (int id : step.outputs) ReleaseIfUnused(block_of_[id]);
      for (int id : step.inputs) {
        --blocks_[block_of_[id]].uses;
        ReleaseIfUnused(block_of_[id]);
      }
    }
    return block_of_;
  }

 private:
  struct Block {
    int64_t bytes;
    int64_t uses;
    int device_type;
  };

  int64_t NewBlock(int tensor) {
    const PlannedTensor& t = program_.tensors[tensor];
    blocks_.push_back({t.bytes, t.uses, t.device_type});
    return static_cast<int64_t>(blocks_.size()) - 1;
  }
  void TakeForEver(int tensor) {
    block_of_[tensor] = NewBlock(tensor);
    ++blocks_.back().uses;
  }
  void ReleaseIfUnused(int64_t block) {
    if (blocks_[block].uses == 0) free_.emplace(blocks_[block].bytes, block);
  }

  void Take(int tensor) {
    const PlannedTensor& t = program_.tensors[tensor];
    auto take = [&](std::multimap<int64_t, int64_t>::iterator it) {
      Block& block = blocks_[it->second];
      block.bytes = std::max(block.bytes, t.bytes);
      block.uses = t.uses;
      block_of_[tensor] = it->second;
      free_.erase(it);
    };
    auto smallest = free_.lower_bound(t.bytes / kMatchRange);
    auto enough = free_.lower_bound(t.bytes);
    auto largest = free_.upper_bound(t.bytes * kMatchRange);
    for (auto it = enough; it != largest; ++it) {
      if (blocks_[it->second].device_type == t.device_type) return take(it);
    }
    for (auto it = enough; it != smallest;) {
      --it;
      if (blocks_[it->second].device_type == t.device_type) return take(it);
    }
    block_of_[tensor] = NewBlock(tensor);
  }

  const MemoryProgram& program_;
  std::vector<Block> blocks_;
  std::vector<int64_t> block_of_;
  std::multimap<int64_t, int64_t> free_;  ///< bytes -> block
};

bool IsAliasOfPersistent(const MemoryProgram& program, int tensor) {
  while (program.tensors[tensor].alias_of >= 0) tensor = program.tensors[tensor].alias_of;
  return program.tensors[tensor].persistent;
}

/// An arena on the CPU; tensors of other devices, whose memory can't be addressed inside, have blocks.
std::vector<TensorPlace> PlanByDevice(const MemoryProgram& program, int default_device, const InPlaceRule& rule) {
  std::vector<TensorPlace> places = PlanArena(program, rule);
  std::vector<int64_t> blocks;
  std::map<int64_t, int64_t> id_of_block;
  int64_t next_id = 0;
  for (const TensorPlace& place : places) next_id = std::max(next_id, place.storage_id + 1);
  for (size_t i = 0; i < places.size(); ++i) {
    const PlannedTensor& tensor = program.tensors[i];
    const int device = tensor.device_type == 0 ? default_device : tensor.device_type;
    if (device == kDLCPU || IsAliasOfPersistent(program, static_cast<int>(i))) continue;
    if (blocks.empty()) blocks = BlockPlanner(program).Plan();
    auto [it, inserted] = id_of_block.emplace(blocks[i], next_id);
    if (inserted) ++next_id;
    places[i] = {it->second, 0};
  }
  return places;
}

}  // namespace

MemoryPlan GraphPlanMemory(const relay::Function& func, MemoryPlanner planner, bool share_reshapes, int default_device,
                           const InPlaceRule& rule) {
  return PlanMemory(LinearizeForMemory(func, share_reshapes), planner, default_device, rule);
}

MemoryPlan PlanMemory(const MemoryProgram& program, MemoryPlanner planner, int default_device,
                      const InPlaceRule& rule) {
  std::vector<TensorPlace> places;
  if (planner == MemoryPlanner::kRelay) {
    for (int64_t id : BlockPlanner(program).Plan()) places.push_back({id, 0});
  } else {
    places = PlanByDevice(program, default_device, rule);
  }
  MemoryPlan plan;
  for (const auto& [expr, tensors] : program.tensors_of) {
    StorageInfo& info = plan[expr];
    for (int id : tensors) {
      info.storage_ids.push_back(places[id].storage_id);
      info.offsets.push_back(places[id].offset);
      info.device_types.push_back(program.tensors[id].device_type);
      info.sizes.push_back(program.tensors[id].bytes);
    }
  }
  for (const PlannedStep& step : program.steps) {
    if (planner == MemoryPlanner::kArena && step.call != nullptr && IsInPlace(program, step, places)) {
      plan[GetRef<relay::Expr>(step.call)].moves_nothing = true;
    }
  }
  return plan;
}

std::unordered_map<int64_t, int64_t> StorageSizes(const MemoryPlan& plan) {
  std::unordered_map<int64_t, int64_t> sizes;
  for (const auto& [expr, info] : plan) {
    for (size_t i = 0; i < info.storage_ids.size(); ++i) {
      int64_t& bytes = sizes[info.storage_ids[i]];
      bytes = std::max(bytes, info.offsets[i] + info.sizes[i]);
    }
  }
  return sizes;
}

}  // namespace treadle::driver
