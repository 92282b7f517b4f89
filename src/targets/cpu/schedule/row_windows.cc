// SPDX-License-Identifier: Apache-2.0
// Windows along rows: vectors of neighbouring results, which stay in registers for the whole window. Pooling on NC
// spatial, where padding of one image of one channel at a time is found in the cache by its windows, and sums of
// elements whose places are read from a table, as those of resampling.
#include <algorithm>

#include "targets/cpu/schedule/block_reads.h"
#include "targets/cpu/schedule/cpu.h"
#include "treadle/arith/analyzer.h"
#include "treadle/base/int_math.h"
#include "treadle/tir/loop_hints.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::ops::cpu {
namespace {

constexpr int64_t kFewTaps = 32;  ///< windows of as many are written out
constexpr int kVectorBits = 512, kLeastLanes = 4;

/// Whether neighbouring results are those of neighbouring windows in rows of memory, less than `kFarApart` apart.
bool IsRowOfWindows(const tir::Block& node, size_t last) {
  constexpr int64_t kApart = 8;
  const std::vector<const tir::BufferLoadNode*> loads = LoadsOf(node);
  const size_t spatial = SpatialAxesOf(node);
  if (loads.size() != 1 || node->writes.size() != 1) return false;
  const auto step = StrideAlong(node, loads[0], node->iter_vars[last]->var);
  const auto tap = StrideAlong(node, loads[0], node->iter_vars.back()->var);
  if (!step || *step < 1 || *step >= kApart || !tap || *tap < 1 || *tap >= kFarApart) return false;
  // Windows of constant size.
  for (size_t i = spatial; i < node->iter_vars.size(); ++i) {
    if (ExtentOf(node, i) < 0) return false;
  }
  return true;
}

/// Lanes for rows of `width` results: as few vectors as possible, the last of which is filled as well as possible.
int64_t LanesOfRow(int64_t width, int bits) {
  int64_t lanes = kVectorBits / std::max(8, bits);
  if (width < 0) return std::min<int64_t>(lanes, kDynamicLanes);
  const int64_t vectors = CeilDiv(width, lanes);
  while (lanes > kLeastLanes && CeilDiv(width, lanes / 2) <= vectors) lanes /= 2;
  return lanes;
}

/// Whether an index reads memory at a place that depends on `axis`.
bool IsLookedUp(const PrimExpr& index, const tir::Var& axis) {
  bool found = false;
  tir::PostOrderVisit(index, [&](const ObjectRef& e) {
    const auto* load = e.as<tir::BufferLoadNode>();
    if (load == nullptr) return;
    for (const PrimExpr& at : load->indices) {
      found |= arith::UsesVar(at, [&](const tir::VarNode* var) { return var == axis.get(); });
    }
  });
  return found;
}

/// Whether neighbouring results add up elements whose places steps of one reduction look up, and read all else as
/// neighbours.
bool IsSumOfLookups(const tir::Block& node) {
  const size_t spatial = SpatialAxesOf(node);
  if (spatial < 1 || spatial + 1 != node->iter_vars.size() || node->writes.size() != 1) return false;
  const tir::Var last = node->iter_vars[spatial - 1]->var, step = node->iter_vars[spatial]->var;
  bool looks_up = false;
  for (const tir::BufferLoadNode* load : LoadsOf(node)) {
    const bool here = std::any_of(load->indices.begin(), load->indices.end(),
                                  [&](const PrimExpr& index) { return IsLookedUp(index, step); });
    looks_up |= here;
    const auto stride = StrideAlong(node, load, last);
    if (!here && (!stride || (*stride != 0 && *stride != 1))) return false;
  }
  return looks_up;
}

/// The steps of windows under `tile` are written out.
void WriteOutSteps(Schedule& sch, const BlockRV& block, const LoopRV& tile) {
  for (const LoopRV& loop : LoopsUnder(sch, block, tile)) {
    if (loop.defined() && sch.Get(loop)->kind == tir::ForKind::kSerial) sch.Unroll(loop);
  }
}

}  // namespace

BlockRV ColumnsOf(Schedule& sch, const BlockRV& block) {
  for (const BlockRV& producer : sch.GetProducers(block)) {
    const bool reduces = IsReduction(sch, producer) && TagOf(sch, producer).kind == te::ComputeKind::kPool;
    if (reduces && !sch.IsOutput(producer)) return producer;
  }
  return BlockRV();
}

void ReduceColumnsAt(Schedule& sch, const BlockRV& columns, const LoopRV& loop, int64_t lanes) {
  const tir::Block node = sch.Get(columns);
  const size_t last = SpatialAxesOf(node) - 1;
  int64_t count = 1;
  for (size_t i = last + 1; i < node->iter_vars.size(); ++i) count *= ExtentOf(node, i);
  const BlockRV stored = sch.CacheWrite(columns, 0, "local");
  sch.ComputeAt(stored, loop);
  const std::vector<LoopRV> axes = LoopsUnder(sch, stored, loop);
  LoopRV tile = loop, vector = axes[last];
  for (size_t i = 0; i < last; ++i) {
    if (axes[i].defined()) tile = axes[i];
  }
  if (lanes != 0 && vector.defined()) {
    const std::vector<LoopRV> vectors = sch.Split(vector, {kRest, PrimExpr(lanes)});
    tile = vectors[0];
    vector = vectors[1];
  }
  ComputeTile(sch, columns, tile, {}, static_cast<int>(last));
  if (count <= kFewTaps) WriteOutSteps(sch, columns, tile);
  if (vector.defined()) sch.Vectorize(vector);
}

bool ScheduleSumOfLookups(Schedule& sch, const BlockRV& block, BlockRV epilogue) {
  const tir::Block node = sch.Get(block);
  if (!IsSumOfLookups(node)) return false;
  const size_t spatial = SpatialAxesOf(node), last = spatial - 1;
  const double work = Work(sch, block);
  const int64_t steps = ExtentOf(node, spatial), width = ExtentOf(node, last);
  const int64_t lanes = LanesOfRow(width, node->writes[0]->buffer->dtype.bits());
  if (!epilogue.defined()) epilogue = sch.CacheWrite(block, 0, "local");
  const std::vector<LoopRV> out = sch.GetLoops(epilogue);
  if (out.size() != spatial || (width >= 0 && width < kLeastLanes)) return false;
  const std::vector<LoopRV> row = sch.Split(out[last], {kRest, PrimExpr(lanes)});
  ComputeTile(sch, block, row[0], {}, static_cast<int>(last));
  if (steps >= 0 && steps <= kFewTaps) WriteOutSteps(sch, block, row[0]);
  sch.Vectorize(row[1]);
  if (last > 0) FuseParallel(sch, {out.begin(), out.end() - 1}, work);
  return true;
}

bool ScheduleRowPool(Schedule& sch, const BlockRV& block, BlockRV epilogue) {
  const tir::Block node = sch.Get(block);
  const size_t spatial = SpatialAxesOf(node), last = spatial - 1;
  const BlockRV columns = ColumnsOf(sch, block);
  size_t taps = node->iter_vars.size() - spatial;
  if (columns.defined()) taps += sch.Get(columns)->iter_vars.size() - spatial;
  // One row of taps for each dimension of an image, after those of the batch and of channels.
  if (taps < 1 || spatial != taps + 2 || !IsRowOfWindows(node, last)) return false;
  const double work = Work(sch, block);
  int64_t count = 1;
  for (size_t i = spatial; i < node->iter_vars.size(); ++i) count *= ExtentOf(node, i);
  if (!epilogue.defined()) epilogue = sch.CacheWrite(block, 0, "local");
  const std::vector<LoopRV> out = sch.GetLoops(epilogue);
  const int64_t width = Extent(sch, out[last]);
  const int64_t lanes = LanesOfRow(width, node->writes[0]->buffer->dtype.bits());
  if (out.size() != spatial || (width >= 0 && width < kLeastLanes)) return false;
  const std::vector<LoopRV> row = sch.Split(out[last], {kRest, PrimExpr(lanes)});
  const BlockRV pad = PaddingOf(sch, columns.defined() ? columns : block);
  ComputeTile(sch, block, row[0], {}, static_cast<int>(last));
  if (count <= kFewTaps) WriteOutSteps(sch, block, row[0]);
  sch.Vectorize(row[1]);
  if (columns.defined()) {
    const tir::Buffer& sums = sch.Get(columns)->writes[0]->buffer;
    const int64_t* from = AsConstInt(sums->shape.back());
    ReduceColumnsAt(sch, columns, out[last - 1], LanesOfRow(from == nullptr ? -1 : *from, sums->dtype.bits()));
  }
  if (pad.defined()) {
    sch.ComputeAt(pad, out[1]);
    const LoopRV along = LoopsUnder(sch, pad, out[1]).back();
    if (along.defined()) sch.Vectorize(sch.Split(along, {kRest, PrimExpr(int64_t{kDynamicLanes})})[1]);
  }
  FuseParallel(sch, {out[0], out[1]}, work);
  return true;
}

}  // namespace treadle::ops::cpu
