// SPDX-License-Identifier: Apache-2.0
// What default schedules of every target ask about the blocks of a function, and the fusion that all of them begin
// with.
#pragma once

#include <vector>

#include "treadle/te/tag.h"
#include "treadle/tir/schedule.h"

namespace treadle::schedule {

using tir::BlockRV;
using tir::LoopRV;
using tir::Schedule;

/// The tag of the tensor computation that the block comes from (block annotation "tag").
te::Tag TagOf(Schedule& sch, const BlockRV& block);
bool IsReduction(Schedule& sch, const BlockRV& block);
/// Product of the extents of the block's axes; of symbolic ones a guess.
double Work(Schedule& sch, const BlockRV& block);
/// What an element of the block costs, in units of a simple operation of one or two operands; at least 1.
double ElementCost(Schedule& sch, const BlockRV& block);
/// Constant extent of a loop, or -1.
int64_t Extent(Schedule& sch, const LoopRV& loop);
/// For each axis of the block, the innermost loop that its binding uses; null where it uses none (extent 1).
std::vector<LoopRV> AxisLoops(Schedule& sch, const BlockRV& block);
/// As AxisLoops, but null too for loops that aren't inside `under`.
std::vector<LoopRV> LoopsUnder(Schedule& sch, const BlockRV& block, const LoopRV& under);
/// Whether the block copies or combines elements at the same index of equally shaped buffers only.
bool IsFlatElementwise(Schedule& sch, const BlockRV& block);
/// The axis along which every read walks contiguous memory or stays at one element, or -1; the last of the results'
/// axes is preferred to those that are reduced.
int ContiguousAxis(Schedule& sch, const BlockRV& block);
/// Of a block that moves data, the axis along which what it reads is contiguous, where its own last axis isn't; else
/// -1.
int TransposedAxis(Schedule& sch, const BlockRV& block);

/// Computes injective blocks inside their consumers where that doesn't repeat work. Those that can't be are noted in
/// the ChoiceLog (kernel.h).
void InlineInjective(Schedule& sch);
/// The block that consumes the result of `block` element by element and writes the output, if it is the only consumer.
BlockRV EpilogueOf(Schedule& sch, const BlockRV& block);

}  // namespace treadle::schedule
