// SPDX-License-Identifier: Apache-2.0
// Reductions along contiguous memory: vectors of partial results, and rows that are reduced and read again.
#pragma once

#include <vector>

#include "targets/cpu/schedule/cpu.h"

namespace treadle::ops::cpu {

/// Whether the reduction may be reassociated, that is, combined from partial results.
bool IsAnyOrder(const tir::Block& node);
/// The loop of a reduction axis, fused with those of the axes before it if together they are contiguous in memory.
LoopRV JoinedReduction(Schedule& sch, const BlockRV& block, size_t axis);
/// Vectors of partial results; lanes = 0: there are too few elements.
struct PartialVectors {
  int lanes = 0, count = 1;
};
PartialVectors ChoosePartialVectors(const tir::Block& node, int64_t extent);
/// A reduction in steps: lanes, then ever fewer of them, then the result.
struct Partials {
  BlockRV lanes;  ///< computes the vectors of partial results
  PartialVectors vectors;
  std::vector<BlockRV> fewer;  ///< each combines four partial results of the block before: a tree, not a chain
};
/// Factors the reduction over loop `k`, the block's innermost reduction loop.
Partials FactorReduction(Schedule& sch, const BlockRV& block, const LoopRV& k, const PartialVectors& vectors);
/// Computes Partials::fewer under `at`, a loop around the block that combines the last of them.
void ComputeFewerAt(Schedule& sch, const Partials& partials, const LoopRV& at, std::set<std::string>* done);
/// Factors a reduction of contiguous rows; nothing where rows are too short.
Partials PartialsOf(Schedule& sch, const BlockRV& block);
/// Computes all partial results of a row under `at`, a loop around the block that combines the last of them.
void ComputePartialsAt(Schedule& sch, const Partials& partials, const LoopRV& at, std::set<std::string>* done);
/// Vectorises a block of partial results made by RFactor: `axes` are its loops (null: left as they are), `rows` (may be
/// null) is the loop over neighbouring rows. Returns the block that initialises the results; null if nothing was done.
BlockRV VectorizePartial(Schedule& sch, const BlockRV& partial, const std::vector<LoopRV>& axes, const LoopRV& rows,
                         const PartialVectors& vectors);

/// Schedules a chain of computations that reduces rows and reads them again (softmax, norms), of which `output` is the
/// last, row by row, so that a row stays in a near cache. Adds the blocks to `done`. False, with nothing changed, if
/// there is no such chain. If a ScheduleError is thrown, the schedule may be incomplete.
bool ScheduleRows(Schedule& sch, const BlockRV& output, const schedule::Machine& machine, std::set<std::string>* done);

}  // namespace treadle::ops::cpu
