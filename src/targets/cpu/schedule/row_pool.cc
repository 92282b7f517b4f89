// SPDX-License-Identifier: Apache-2.0
// Pooling on NC spatial: vectors of neighbouring results of a row, which stay in registers for the whole window, and
// padding of one image of one channel at a time, which its windows find in the cache.
#include <algorithm>

#include "targets/cpu/schedule/block_reads.h"
#include "targets/cpu/schedule/cpu.h"
#include "treadle/base/int_math.h"
#include "treadle/tir/loop_hints.h"

namespace treadle::ops::cpu {
namespace {

constexpr int64_t kFewTaps = 32;  ///< windows of as many are written out
constexpr int kVectorBits = 512, kLeastLanes = 4;

/// Whether neighbouring results are those of neighbouring windows in rows of memory, less than `kFarApart` apart.
bool IsRowOfWindows(const tir::Block& node, size_t last) {
  constexpr int64_t kApart = 4;
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

}  // namespace

bool ScheduleRowPool(Schedule& sch, const BlockRV& block, BlockRV epilogue) {
  const tir::Block node = sch.Get(block);
  const size_t spatial = SpatialAxesOf(node), taps = node->iter_vars.size() - spatial, last = spatial - 1;
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
  const BlockRV pad = PaddingOf(sch, block);
  ComputeTile(sch, block, row[0], {}, static_cast<int>(last));
  if (count <= kFewTaps) {
    for (const LoopRV& loop : LoopsUnder(sch, block, row[0])) {
      if (loop.defined() && sch.Get(loop)->kind == tir::ForKind::kSerial) sch.Unroll(loop);
    }
  }
  sch.Vectorize(row[1]);
  if (pad.defined()) {
    sch.ComputeAt(pad, out[1]);
    const LoopRV along = LoopsUnder(sch, pad, out[1]).back();
    if (along.defined()) sch.Vectorize(sch.Split(along, {kRest, PrimExpr(int64_t{kDynamicLanes})})[1]);
  }
  FuseParallel(sch, {out[0], out[1]}, work);
  return true;
}

}  // namespace treadle::ops::cpu
