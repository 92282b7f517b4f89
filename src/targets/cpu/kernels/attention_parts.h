// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention share: parts of schedules, of plans and of the graph around them.
#pragma once

#include <string>
#include <vector>

#include "targets/cpu/kernels/kernels.h"
#include "targets/cpu/kernels/packing.h"
#include "treadle/relay/expr.h"

namespace treadle::ops::cpu {

/// Lanes of maxima and sums; columns of a panel.
inline constexpr int64_t kLanes = kPackedColumns;

/// AttentionProblemNode::not_packed of operands of which some dimension is dynamic.
inline constexpr const char* kDynamic = "sizes are dynamic";

/// Sizes of equal parts of `count`, the largest, of at most `most`, first; of those near each other one.
std::vector<int64_t> PartsOf(int64_t count, int64_t most);

/// The block's loops under `under`: its axes, outermost first; some may be missing.
struct Nest {
  BlockRV block;
  std::vector<LoopRV> axes;
};

Nest At(Schedule& sch, const BlockRV& block, const LoopRV& loop);
/// The last axis as vectors, where it divides; dynamic ones consist of panels.
void VectorizeLast(Schedule& sch, const LoopRV& last);
/// The lanes of a maximum or sum, which are under `loop`: of several vectors at once, or by themselves.
void VectorizeParts(Schedule& sch, const Stages& stages, const std::string& role, const LoopRV& loop);

/// A product of tiles, computed under `block` by the intrinsic: its axes are (.., m, n, k).
void ScheduleTiles(Schedule& sch, const BlockRV& product, const LoopRV& block, const tir::TensorIntrin& intrin);
/// The softmax between two products of tiles, "products" and "mixed", under `block`: row by row, so that the scores of
/// a row stay in the L1 cache from its maximum to its sum.
void ScheduleTileSoftmax(Schedule& sch, const Stages& stages, const LoopRV& block);

/// `data` of `rank` dimensions, of which `dim` has `missing` more elements, of `value`.
relay::Expr PadDim(const relay::Expr& data, size_t rank, size_t dim, int64_t missing, double value,
                   DataType dtype = DataType::Float(32));

}  // namespace treadle::ops::cpu
