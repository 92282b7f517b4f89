// SPDX-License-Identifier: Apache-2.0
// Register tiles for convolutions and pooling on channel-blocked activations.
//
// A tile holds `t` neighbouring outputs of one row times one block of output channels in vector registers. Per input
// element and tap, one vector of weights is loaded and multiplied with `t` broadcast inputs: t independent
// accumulations hide the latency of the multiply-add, and loads stay well below what a core can do per cycle.
#include <algorithm>

#include "ops/schedule/cpu/cpu.h"

namespace treadle::ops::cpu {
namespace {

const PrimExpr kRest{ObjectPtr<Object>()};

/// Width of the tile for rows of `width` outputs with `channels` lanes. A vector of channels takes `registers` of the
/// machine's; about 8 accumulators must be in flight, and some registers are left for operands.
int64_t TileWidth(int64_t width, int64_t channels, const TargetFeatures& features) {
  int64_t lanes = std::max(1, features.vector_lanes(32));
  int64_t registers = std::max<int64_t>(1, (channels + lanes - 1) / lanes);
  int64_t widest = std::max<int64_t>(1, (features.vector_registers - 4) / registers);
  widest = std::min<int64_t>(widest, 14);
  int64_t least = std::max<int64_t>(1, 8 / registers);
  auto cost = [&](int64_t t) {
    int64_t full = width / t, tail = width % t;
    return full * std::max(t, least) + (tail != 0 ? std::max(tail, least) : 0);
  };
  if (width <= widest) return width;
  int64_t best = widest;
  for (int64_t t = widest; t >= std::max<int64_t>(1, widest / 2); --t) {
    bool exact = width % t == 0, best_exact = width % best == 0;
    if (cost(t) < cost(best) || (cost(t) == cost(best) && exact && !best_exact)) best = t;
  }
  return best;
}

}  // namespace

void ScheduleBlockedWindow(Schedule& sch, const BlockRV& block, BlockRV epilogue, const TargetFeatures& features) {
  double work = Work(sch, block);
  if (!epilogue.defined()) epilogue = sch.CacheWrite(block, 0, "local");
  std::vector<LoopRV> out = sch.GetLoops(epilogue);  // n, oc, oh, ow, oci
  TREADLE_ICHECK(out.size() == 5) << "blocked outputs have five loops";
  int64_t channels = Extent(sch, out[4]), width = Extent(sch, out[3]);
  int64_t t = TileWidth(width, channels, features);
  LoopRV tile = out[3];
  LoopRV row = out[3];
  std::vector<LoopRV> parts = sch.Split(out[3], {kRest, PrimExpr(t)});
  tile = parts[0];
  row = parts[1];
  sch.SetScope(block, 0, "local");
  sch.ComputeAt(block, tile);

  // Reduction outside, the tile inside.
  tir::Block node = sch.Get(block);
  std::vector<LoopRV> axes = AxisLoops(sch, block);
  std::vector<LoopRV> own = sch.GetLoops(block);
  std::vector<LoopRV> reduce, spatial;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i].defined()) continue;
    if (node->iter_vars[i]->iter_type == tir::IterVarType::kCommReduce) {
      reduce.push_back(axes[i]);
    } else if (i >= 3) {
      spatial.push_back(axes[i]);
    }
  }
  std::vector<LoopRV> order = reduce;
  // A row of one output has no loop of its own under the tile.
  std::vector<LoopRV> inner;
  for (const LoopRV& loop : spatial) {
    bool under_tile = false, below = false;
    for (const LoopRV& l : own) {
      if (below && l.same_as(loop)) under_tile = true;
      if (l.same_as(tile)) below = true;
    }
    if (under_tile) inner.push_back(loop);
  }
  order.insert(order.end(), inner.begin(), inner.end());
  sch.Reorder(order);
  if (!reduce.empty()) {
    BlockRV init = sch.DecomposeReduction(block, reduce[0]);
    std::vector<LoopRV> init_axes = AxisLoops(sch, init);
    if (init_axes.size() >= 5) {
      if (init_axes[4].defined()) sch.Vectorize(init_axes[4]);
      if (t > 1 && init_axes[3].defined() && !init_axes[3].same_as(tile)) sch.Unroll(init_axes[3]);
    }
  }
  if (axes[4].defined()) sch.Vectorize(axes[4]);
  if (t > 1 && axes[3].defined()) sch.Unroll(axes[3]);
  sch.Vectorize(out[4]);
  if (t > 1) sch.Unroll(row);
  FuseParallel(sch, {out[0], out[1], out[2]}, work);
}

}  // namespace treadle::ops::cpu
