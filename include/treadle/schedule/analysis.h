// SPDX-License-Identifier: Apache-2.0
// Analyses of blocks that the default schedules of all targets use, and the inlining that all of them begin with.
#pragma once

#include <vector>

#include "treadle/te/tag.h"
#include "treadle/tir/schedule.h"

namespace treadle::schedule {

using tir::BlockRV;
using tir::LoopRV;
using tir::Schedule;

/// The tag of the tensor computation that the block was made of (block annotation "tag").
te::Tag TagOf(Schedule& sch, const BlockRV& block);
bool IsReduction(Schedule& sch, const BlockRV& block);
/// Product of the extents of the block's axes; symbolic extents are guessed.
double Work(Schedule& sch, const BlockRV& block);
/// Cost of an element of the block, in simple operations of one or two operands; at least 1.
double ElementCost(Schedule& sch, const BlockRV& block);
/// Constant extent of a loop, or -1.
int64_t Extent(Schedule& sch, const LoopRV& loop);
/// For each axis of the block, the innermost loop that its binding uses; null if it uses none (extent 1).
std::vector<LoopRV> AxisLoops(Schedule& sch, const BlockRV& block);
/// As AxisLoops, but also null for loops that aren't inside `under`.
std::vector<LoopRV> LoopsUnder(Schedule& sch, const BlockRV& block, const LoopRV& under);
/// Whether the block only copies or combines elements at the same index of buffers of equal shape.
bool IsFlatElementwise(Schedule& sch, const BlockRV& block);
/// The axis along which every read is contiguous or stays at one element, or -1. The last spatial axis is preferred to
/// reduction axes.
int ContiguousAxis(Schedule& sch, const BlockRV& block);
/// For a block that moves data: the axis along which its reads are contiguous, if that isn't its last axis; else -1.
int TransposedAxis(Schedule& sch, const BlockRV& block);

/// Inlines injective blocks into their consumers unless that would repeat work. Those that can't be inlined are noted
/// in the ChoiceLog (kernel.h).
void InlineInjective(Schedule& sch);
/// The only consumer of `block` if it reads the result element by element; else null.
BlockRV EpilogueOf(Schedule& sch, const BlockRV& block);

}  // namespace treadle::schedule
