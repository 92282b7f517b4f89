// SPDX-License-Identifier: Apache-2.0
// Access patterns of a block's loads: the strides along its axes. Schedules of computations without a kernel depend on
// them.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "treadle/tir/schedule.h"

namespace treadle::ops::cpu {

/// StrideAlong of a load whose stride is the dynamic length of a row.
inline constexpr int64_t kFarApart = int64_t{1} << 40;

/// The loads of the block, except those of the buffers that it writes.
std::vector<const tir::BufferLoadNode*> LoadsOf(const tir::Block& node);
/// The number of the block's data-parallel axes.
size_t SpatialAxesOf(const tir::Block& node);
/// Constant extent of an axis of the block, or -1.
int64_t ExtentOf(const tir::Block& node, size_t axis);
/// The stride of a load along an axis of the block, in elements; nothing if it isn't the same for all iterations.
std::optional<int64_t> StrideAlong(const tir::Block& node, const tir::BufferLoadNode* load, const tir::Var& axis);
/// The innermost of the first `count` axes along which all of the loads have stride 0; -1 if there is none.
int InnermostAxisOf(const tir::Block& node, size_t count, const std::vector<const tir::BufferLoadNode*>& loads);
/// As InnermostAxisOf, for an axis along which each `part` neighbours read the same elements (the outputs of a group of
/// channels): the axis and the part; {-1, 0} if there is none.
std::pair<int, int64_t> InnermostAxisInParts(const tir::Block& node, size_t count,
                                             const std::vector<const tir::BufferLoadNode*>& loads);
/// Whether axes `first` and `first` + 1 can be fused: in each load they index neighbouring dimensions over their full
/// extents.
bool AreOneRow(const tir::Block& node, int first);
/// The number of loops around the block, from the outermost, that are around other blocks as well (the steps of a
/// scan).
size_t SharedLoops(tir::Schedule& sch, const tir::BlockRV& block);

}  // namespace treadle::ops::cpu
