// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/attention_parts.h"

#include <algorithm>

#include "targets/cpu/kernels/weight_forms.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/make.h"

namespace treadle::ops::cpu {

using relay::Expr;

std::vector<int64_t> PartsOf(int64_t count, int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t size = std::min(count, most); size >= 1; size = std::min(size - 1, size * 7 / 8)) {
    const int64_t part = CeilDiv(count, CeilDiv(count, size));
    if (sizes.empty() || part < sizes.back()) sizes.push_back(part);
  }
  return sizes;
}

Nest At(Schedule& sch, const BlockRV& block, const LoopRV& loop) {
  sch.ComputeAt(block, loop);
  return {block, LoopsUnder(sch, block, loop)};
}

void VectorizeLast(Schedule& sch, const LoopRV& last) {
  if (!last.defined()) return;
  const int64_t extent = Extent(sch, last);
  int lanes = extent < 0 ? static_cast<int>(kLanes) : VectorLanes(extent);
  if (lanes == 0) return;
  sch.Vectorize(Extent(sch, last) == lanes ? last : sch.Split(last, {kRest, PrimExpr(int64_t{lanes})})[1]);
}

namespace {

/// A maximum or sum by lanes: vectors.
void VectorizeLanes(Schedule& sch, const Nest& lanes) {
  size_t n = lanes.axes.size();
  LoopRV lane = lanes.axes[n - 2], k = lanes.axes[n - 1];
  if (!k.defined()) return sch.Vectorize(lane);
  sch.Reorder({k, lane});
  BlockRV init = sch.DecomposeReduction(lanes.block, k);
  sch.Vectorize(lane);
  sch.Vectorize(sch.GetLoops(init).back());
}

}  // namespace

void VectorizeParts(Schedule& sch, const Stages& stages, const std::string& role, const LoopRV& loop) {
  const BlockRV lanes = stages.At(role + "_lanes");
  if (!stages.Has(role + "_parts")) return VectorizeLanes(sch, {lanes, LoopsUnder(sch, lanes, loop)});
  VectorizeLast(sch, LoopsUnder(sch, lanes, loop).back());
  const BlockRV parts = stages.At(role + "_parts");
  VectorizeLanes(sch, {parts, LoopsUnder(sch, parts, loop)});
}

void ScheduleTiles(Schedule& sch, const BlockRV& product, const LoopRV& block, const tir::TensorIntrin& intrin) {
  const Nest nest = At(sch, product, block);
  sch.Tensorize(nest.axes[nest.axes.size() - 3], intrin);
}

void ScheduleTileSoftmax(Schedule& sch, const Stages& stages, const LoopRV& block) {
  for (const char* role : {"sum", "sum_lanes", "sum_parts"}) {
    if (stages.Has(role)) At(sch, stages.At(role), block);
  }
  const Nest exp = At(sch, stages.At("exp"), block);
  const size_t rank = exp.axes.size();
  const LoopRV& row = exp.axes[rank - 2];
  VectorizeLast(sch, exp.axes.back());
  for (const char* role : {"max", "max_lanes", "max_parts"}) {
    if (stages.Has(role)) At(sch, stages.At(role), row);
  }
  VectorizeParts(sch, stages, "max", row);
  for (const char* role : {"sum_parts", "sum_lanes", "sum"}) {
    if (stages.Has(role)) sch.ReverseComputeAt(stages.At(role), row);
  }
  VectorizeParts(sch, stages, "sum", row);
  // Rows an odd number of cache lines apart: those of a tile don't share sets of the L1 cache.
  constexpr int kLine = 16;  // of float32
  const int axis = static_cast<int>(rank) - 2;
  sch.StorageAlign(stages.At("products"), 0, axis, 2 * kLine, kLine);
  sch.StorageAlign(stages.At("exp"), 0, axis, 4 * kLine, 2 * kLine);
}

Expr PadDim(const Expr& data, size_t rank, size_t dim, int64_t missing, double value, DataType dtype) {
  if (missing == 0) return data;
  std::vector<std::pair<int64_t, int64_t>> widths(rank, {0, 0});
  widths[dim] = {0, missing};
  return MakePad(data, widths, ScalarConstant(dtype, value));
}

}  // namespace treadle::ops::cpu
