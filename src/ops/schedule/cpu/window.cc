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

/// Computes `block` under `tile` into registers: reductions outside, then axis `row` (-1: none) unrolled, then axis
/// `vector` as a vector (`blocks` of them, unrolled).
void ComputeTile(Schedule& sch, const BlockRV& block, const LoopRV& tile, int row, int vector, int64_t blocks = 1) {
  sch.SetScope(block, 0, "local");
  sch.ComputeAt(block, tile);
  tir::Block node = sch.Get(block);
  // Loops of the block's axes that lie under the tile: an axis of one iteration there has none.
  std::vector<LoopRV> nest = sch.GetLoops(block);
  auto under_tile = [&](const LoopRV& loop) {
    bool below = false;
    for (const LoopRV& l : nest) {
      if (below && loop.defined() && l->var.same_as(loop->var)) return true;
      if (l->var.same_as(tile->var)) below = true;
    }
    return false;
  };
  std::vector<LoopRV> axes = AxisLoops(sch, block);
  std::vector<LoopRV> reduce, order;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (node->iter_vars[i]->iter_type == tir::IterVarType::kCommReduce && under_tile(axes[i])) reduce.push_back(axes[i]);
  }
  order = reduce;
  bool has_row = row >= 0 && under_tile(axes[static_cast<size_t>(row)]);
  bool has_vector = under_tile(axes[static_cast<size_t>(vector)]);
  if (has_row) order.push_back(axes[static_cast<size_t>(row)]);
  if (has_vector) order.push_back(axes[static_cast<size_t>(vector)]);
  if (order.size() > 1) sch.Reorder(order);
  auto finish = [&](const LoopRV& row_loop, LoopRV vector_loop) {
    if (row_loop.defined()) sch.Unroll(row_loop);
    if (!vector_loop.defined()) return;
    if (blocks > 1) {
      std::vector<LoopRV> parts = sch.Split(vector_loop, {PrimExpr(blocks), kRest});
      sch.Unroll(parts[0]);
      vector_loop = parts[1];
    }
    sch.Vectorize(vector_loop);
  };
  if (!reduce.empty()) {
    BlockRV init = sch.DecomposeReduction(block, reduce[0]);
    std::vector<LoopRV> init_axes = AxisLoops(sch, init);
    finish(has_row ? init_axes[static_cast<size_t>(row)] : LoopRV(),
           has_vector ? init_axes[static_cast<size_t>(vector)] : LoopRV());
  }
  finish(has_row ? axes[static_cast<size_t>(row)] : LoopRV(), has_vector ? axes[static_cast<size_t>(vector)] : LoopRV());
}

}  // namespace

void ScheduleBlockedWindow(Schedule& sch, const BlockRV& block, BlockRV epilogue, const TargetFeatures& features) {
  double work = Work(sch, block);
  if (!epilogue.defined()) epilogue = sch.CacheWrite(block, 0, "local");
  std::vector<LoopRV> out = sch.GetLoops(epilogue);  // n, oc, oh, ow, oci
  TREADLE_ICHECK(out.size() == 5) << "blocked outputs have five loops";
  int64_t t = TileWidth(Extent(sch, out[3]), Extent(sch, out[4]), features);
  std::vector<LoopRV> width = sch.Split(out[3], {kRest, PrimExpr(t)});
  ComputeTile(sch, block, width[0], 3, 4);
  sch.Vectorize(out[4]);
  sch.Unroll(width[1]);
  FuseParallel(sch, {out[0], out[1], out[2]}, work);
}

namespace {

constexpr int64_t kRowBytes = 256 << 10;

/// Product of the extents that a block reduces over.
int64_t InnerExtent(Schedule& sch, const BlockRV& block) {
  int64_t product = 1;
  for (const tir::IterVar& axis : sch.Get(block)->iter_vars) {
    const int64_t* extent = AsConstInt(axis->dom->extent);
    if (axis->iter_type == tir::IterVarType::kCommReduce && extent != nullptr) product *= std::max<int64_t>(1, *extent);
  }
  return product;
}

}  // namespace

void SchedulePackedDense(Schedule& sch, const BlockRV& block, BlockRV epilogue, const TargetFeatures& features) {
  double work = Work(sch, block);
  if (!epilogue.defined()) epilogue = sch.CacheWrite(block, 0, "local");
  std::vector<LoopRV> out = sch.GetLoops(epilogue);  // .., m, n
  constexpr int64_t kLanes = 16;
  size_t rank = out.size();
  LoopRV n = out[rank - 1];
  int64_t units = Extent(sch, n);
  if (rank == 1 || Extent(sch, out[rank - 2]) == 1) {
    // One row: bound by reading the weight. Several blocks of units at once keep several streams going.
    int64_t blocks = units % (4 * kLanes) == 0 ? 4 : units % (2 * kLanes) == 0 ? 2 : 1;
    std::vector<LoopRV> parts = sch.Split(n, {kRest, PrimExpr(blocks), PrimExpr(kLanes)});
    LoopRV tile = parts[0];
    ComputeTile(sch, block, tile, -1, static_cast<int>(rank) - 1, blocks);
    sch.Vectorize(parts[2]);
    sch.Unroll(parts[1]);
    std::vector<LoopRV> outer(out.begin(), out.end() - 1);
    outer.push_back(tile);
    FuseParallel(sch, outer, work);
    return;
  }
  LoopRV m = out[rank - 2];
  int64_t t = TileWidth(Extent(sch, m), kLanes, features);
  // Rows that stay in half of the second-level cache, if they divide: a panel of the weight passes over them in the
  // first-level one.
  int64_t tiles = (Extent(sch, m) + t - 1) / t, panels = tiles;
  if (Extent(sch, m) % t == 0) {
    int64_t most = std::max<int64_t>(1, kRowBytes / (InnerExtent(sch, block) * 4 * t));
    while (panels > most || tiles % panels != 0) --panels;
  }
  std::vector<LoopRV> rows = sch.Split(m, {kRest, PrimExpr(panels), PrimExpr(t)});
  std::vector<LoopRV> columns = sch.Split(n, {kRest, PrimExpr(kLanes)});
  sch.Reorder({rows[0], columns[0], rows[1], rows[2], columns[1]});
  ComputeTile(sch, block, rows[1], static_cast<int>(rank) - 2, static_cast<int>(rank) - 1);
  sch.Vectorize(columns[1]);
  sch.Unroll(rows[2]);
  std::vector<LoopRV> outer(out.begin(), out.end() - 2);
  outer.push_back(rows[0]);
  outer.push_back(columns[0]);
  FuseParallel(sch, outer, work);
}

void ScheduleRowWindow(Schedule& sch, const BlockRV& block, BlockRV epilogue) {
  double work = Work(sch, block);
  if (!epilogue.defined()) epilogue = sch.CacheWrite(block, 0, "local");
  std::vector<LoopRV> out = sch.GetLoops(epilogue);  // n, oc, oh, ow
  TREADLE_ICHECK(out.size() == 4) << "outputs in NCHW have four loops";
  int64_t channels = Extent(sch, out[1]), width = Extent(sch, out[3]);
  // Vectors of neighbouring outputs; some channels at once share what is loaded of the input.
  int64_t lanes = width % 16 == 0 || width >= 32 ? 16 : width >= 8 ? 8 : 4;
  int64_t tile = 1;
  for (int64_t t : {6, 4, 3, 2}) {
    if (tile == 1 && channels % t == 0) tile = t;
  }
  std::vector<LoopRV> oc = sch.Split(out[1], {kRest, PrimExpr(tile)});
  std::vector<LoopRV> ow = sch.Split(out[3], {kRest, PrimExpr(lanes)});
  sch.Reorder({oc[0], out[2], ow[0], oc[1], ow[1]});
  ComputeTile(sch, block, ow[0], 1, 3);
  sch.Vectorize(ow[1]);
  sch.Unroll(oc[1]);
  FuseParallel(sch, {out[0], oc[0], out[2]}, work);
}

}  // namespace treadle::ops::cpu
