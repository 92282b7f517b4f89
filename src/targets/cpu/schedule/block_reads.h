// SPDX-License-Identifier: Apache-2.0
// How a block's loads move with its axes: what schedules of computations that no operator stands for go by.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "treadle/tir/schedule.h"

namespace treadle::ops::cpu {

/// StrideAlong of a load whose neighbours are as far apart as a row of unknown length.
inline constexpr int64_t kFarApart = int64_t{1} << 40;

/// What the block reads besides what it writes.
std::vector<const tir::BufferLoadNode*> LoadsOf(const tir::Block& node);
/// The number of the block's data-parallel axes.
size_t SpatialAxesOf(const tir::Block& node);
/// Constant extent of an axis of the block, or -1.
int64_t ExtentOf(const tir::Block& node, size_t axis);
/// What a load's address moves by, in elements, from one iteration of an axis of the block to the next; nothing where
/// that isn't the same for all.
std::optional<int64_t> StrideAlong(const tir::Block& node, const tir::BufferLoadNode* load, const tir::Var& axis);
/// The innermost of the first `count` axes along which none of the loads moves; -1 where there is none.
int InnermostAxisOf(const tir::Block& node, size_t count, const std::vector<const tir::BufferLoadNode*>& loads);
/// The same of an axis along which each `part` neighbours read the same, and that part: outputs of a group of channels.
/// {-1, 0} where there is none.
std::pair<int, int64_t> InnermostAxisInParts(const tir::Block& node, size_t count,
                                             const std::vector<const tir::BufferLoadNode*>& loads);
/// Whether axes `first` and `first` + 1 can be taken as one: in each load, they are whole neighbouring dimensions.
bool AreOneRow(const tir::Block& node, int first);
/// How many of the loops around the block, from the outermost, are around others too: those of the steps of a scan.
size_t SharedLoops(tir::Schedule& sch, const tir::BlockRV& block);

}  // namespace treadle::ops::cpu
