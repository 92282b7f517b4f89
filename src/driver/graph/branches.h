// SPDX-License-Identifier: Apache-2.0
// Parts of a graph that don't depend on each other, which the graph executor runs side by side.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "driver/memory/memory_program.h"
#include "treadle/ir/target.h"

namespace treadle::driver {

/// Option of the pass context: whether branches may run side by side (default: where the cost model expects a gain).
inline constexpr const char* kParallelBranches = "relay.parallel_branches";

/// Steps begin .. end - 1 of a program, which fall into branches: no step reads what one of another branch computes.
struct BranchStage {
  int begin = 0, end = 0;
  std::vector<int> branch_of;  ///< by step - begin; -1: a constant
};

/// Cycles of one core that a step takes.
struct StepCost {
  double cycles = 0;
  bool parallel = false;  ///< its kernel divides the work among threads itself
};

/// An estimate from the multiply-adds, elements and bytes of a call's function.
StepCost EstimateStep(const PlannedStep& step, const TargetFeatures& features);

/// The stages of a program, in order and disjoint, that take less time with one thread per branch than step by step:
/// by more than what beginning and ending them costs. `costs` by step.
std::vector<BranchStage> FindBranchStages(const MemoryProgram& program, const std::vector<StepCost>& costs,
                                          int threads);

/// Lets what a stage reads and writes keep its memory from the stage's first step to the one after its last.
void KeepThroughStages(const std::vector<BranchStage>& stages, MemoryProgram* program);

/// By call: "<stage>.<branch>", the graph's attribute kBranch (treadle/runtime/graph_spec.h).
using BranchNames = std::unordered_map<const relay::CallNode*, std::string>;
BranchNames NamesOfBranches(const std::vector<BranchStage>& stages, const MemoryProgram& program);

}  // namespace treadle::driver
