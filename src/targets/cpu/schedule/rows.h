// SPDX-License-Identifier: Apache-2.0
// What reductions along contiguous memory are made of.
#pragma once

#include <vector>

#include "targets/cpu/schedule/cpu.h"

namespace treadle::ops::cpu {

/// Whether the reduction can be one of partial results.
bool IsAnyOrder(const tir::Block& node);
/// The loop of a reduced axis, as one with those of the axes before it where they are one run of memory.
LoopRV JoinedReduction(Schedule& sch, const BlockRV& block, size_t axis);
/// Vectors of partial results of `extent` elements; lanes = 0: too few.
struct PartialVectors {
  int lanes = 0, count = 1;
};
PartialVectors ChoosePartialVectors(const tir::Block& node, int64_t extent);
/// A reduction in parts.
struct Partials {
  BlockRV lanes;  ///< results in vectors
  PartialVectors vectors;
  std::vector<BlockRV> fewer;  ///< of those a quarter, and so on, so that few are combined one after another
};
/// Factors the reduction over loop `k`, the last of the block's reduced ones.
Partials FactorReduction(Schedule& sch, const BlockRV& block, const LoopRV& k, const PartialVectors& vectors);
/// Computes Partials::fewer under `at`, one of the loops around the block that combines them all.
void ComputeFewerAt(Schedule& sch, const Partials& partials, const LoopRV& at, std::set<std::string>* done);
/// Vectors for the partial results of a block made by RFactor: `axes` are its loops (null: not to be touched), `rows`
/// (may be null) that of neighbouring rows. The block that initialises them; null where nothing was done.
BlockRV VectorizePartial(Schedule& sch, const BlockRV& partial, const std::vector<LoopRV>& axes, const LoopRV& rows,
                         const PartialVectors& vectors);

/// Computations of rows, of which `output` is the last: softmax, norms and the like, where a row is reduced and read
/// again. All that is computed of a row is computed while the row is in the near caches. The blocks are added to
/// `done`. False, and nothing done, where there is no such chain. What it did may be a part of it where a ScheduleError
/// is thrown.
bool ScheduleRows(Schedule& sch, const BlockRV& output, const schedule::Machine& machine, std::set<std::string>* done);

}  // namespace treadle::ops::cpu
