// SPDX-License-Identifier: Apache-2.0
// Attention: for a block of queries, scores of all keys, their softmax and its product with the values, all in cache.
// With packed keys and values both products are register tiles; else a query at a time reads them as they are (a
// decoder's step, bound by memory).
#include <algorithm>

#include "targets/cpu/schedule/cpu.h"

namespace treadle::ops::cpu {
namespace {

const PrimExpr kRest{ObjectPtr<Object>()};
constexpr int64_t kLanes = 16;

/// The block's loops under `under`: its axes, outermost first; some may be missing.
struct Stage {
  BlockRV block;
  std::vector<LoopRV> axes;
};

Stage At(Schedule& sch, const char* name, const LoopRV& loop) {
  BlockRV block = sch.GetBlock(name);
  sch.ComputeAt(block, loop);
  return {block, LoopsUnder(sch, block, loop)};
}

/// The last axis as vectors, where it divides.
void VectorizeLast(Schedule& sch, const LoopRV& last) {
  if (!last.defined()) return;
  int lanes = VectorLanes(Extent(sch, last));
  if (lanes == 0) return;
  sch.Vectorize(Extent(sch, last) == lanes ? last : sch.Split(last, {kRest, PrimExpr(int64_t{lanes})})[1]);
}

/// A maximum or sum per row: lanes first, where there are such.
void ScheduleRowReduction(Schedule& sch, const std::string& name, const LoopRV& loop) {
  At(sch, name.c_str(), loop);
  if (!sch.HasBlock(name + "_lanes")) return;
  Stage lanes = At(sch, (name + "_lanes").c_str(), loop);
  size_t n = lanes.axes.size();
  LoopRV lane = lanes.axes[n - 2], k = lanes.axes[n - 1];
  if (!k.defined()) return sch.Vectorize(lane);
  sch.Reorder({k, lane});
  BlockRV init = sch.DecomposeReduction(lanes.block, k);
  sch.Vectorize(lane);
  sch.Vectorize(sch.GetLoops(init).back());
}

/// Rows of a query block: whole tiles, so many that scores stay in half of the second-level cache and threads have
/// enough to share.
int64_t RowsOfBlock(int64_t rows, int64_t tile, int64_t keys, const TargetFeatures& features) {
  const int64_t most = std::max(tile, features.l2_bytes / 4 / (keys * 8));
  int64_t best = tile;
  for (int64_t r = tile; r <= std::min(rows, most); r += tile) {
    if (rows % r == 0) best = r;
  }
  return best;
}

int64_t RowTile(int64_t rows, const TargetFeatures& features) {
  int64_t registers = std::max<int64_t>(1, kLanes / std::max(1, features.vector_lanes(32)));
  int64_t widest = std::max<int64_t>(1, (features.vector_registers - 4) / registers);
  int64_t best = 1;
  for (int64_t t = 1; t <= std::min<int64_t>(widest, 14); ++t) {
    if (rows % t == 0) best = t;
  }
  return best;
}

/// A product with a packed operand: tiles of `tile` rows and 16 columns, panels of columns outside.
/// `consumer`'s last two axes, rows and columns, are under the block's loop.
void ScheduleProduct(Schedule& sch, const char* name, const LoopRV& rows, const LoopRV& columns, int64_t tile) {
  BlockRV product = sch.GetBlock(name);
  std::vector<LoopRV> r = sch.Split(rows, {kRest, PrimExpr(tile)});
  std::vector<LoopRV> c = sch.Split(columns, {kRest, PrimExpr(kLanes)});
  sch.Reorder({c[0], r[0], r[1], c[1]});
  const int rank = static_cast<int>(sch.Get(product)->writes[0]->buffer->shape.size());
  ComputeTile(sch, product, r[0], {rank - 2}, rank - 1);
  sch.SetScope(product, 0, "local");
  sch.Vectorize(c[1]);
  sch.Unroll(r[1]);
}

void SchedulePacked(Schedule& sch, const TargetFeatures& features) {
  BlockRV output = sch.GetBlock("attention_output");
  std::vector<LoopRV> out = sch.GetLoops(output);  // batch.., m, d
  const size_t rank = out.size();
  const double work = Work(sch, sch.GetBlock("attention_products")) + Work(sch, sch.GetBlock("attention_mixed"));
  const int64_t rows = Extent(sch, out[rank - 2]);
  const int64_t keys = *AsConstInt(sch.Get(sch.GetBlock("attention_scores"))->writes[0]->buffer->shape[rank - 1]);
  const int64_t tile = RowTile(rows, features);
  std::vector<LoopRV> m = sch.Split(out[rank - 2], {kRest, PrimExpr(RowsOfBlock(rows, tile, keys, features))});
  const LoopRV block = m[0];
  ScheduleProduct(sch, "attention_mixed", m[1], out[rank - 1], tile);
  ScheduleRowReduction(sch, "attention_sum", block);
  VectorizeLast(sch, At(sch, "attention_exp", block).axes.back());
  ScheduleRowReduction(sch, "attention_max", block);
  Stage scores = At(sch, "attention_scores", block);
  ScheduleProduct(sch, "attention_products", scores.axes[rank - 2], scores.axes[rank - 1], tile);
  std::vector<LoopRV> outer(out.begin(), out.end() - 2);
  outer.push_back(block);
  FuseParallel(sch, outer, work);
}

void SchedulePlain(Schedule& sch) {
  std::vector<LoopRV> out = sch.GetLoops(sch.GetBlock("attention_output"));  // batch.., m, d
  const size_t rank = out.size();
  const LoopRV query = out[rank - 2];
  const double work = 2 * Work(sch, sch.GetBlock("attention_mixed"));
  VectorizeLast(sch, out[rank - 1]);
  // Neighbouring results of a row of values; all of them stay in registers.
  Stage mixed = At(sch, "attention_mixed", query);
  LoopRV d = mixed.axes[rank - 1], n = mixed.axes[rank];
  if (n.defined() && d.defined()) {
    sch.Reorder({n, d});
    sch.SetScope(mixed.block, 0, "local");
    const int lanes = VectorLanes(Extent(sch, d));
    BlockRV init = sch.DecomposeReduction(mixed.block, n);
    VectorizeLast(sch, sch.GetLoops(init).back());
    if (lanes != 0 && Extent(sch, d) > lanes) {
      std::vector<LoopRV> parts = sch.Split(d, {kRest, PrimExpr(int64_t{lanes})});
      if (Extent(sch, parts[0]) <= 8) sch.Unroll(parts[0]);
      sch.Vectorize(parts[1]);
    } else {
      VectorizeLast(sch, d);
    }
  }
  ScheduleRowReduction(sch, "attention_sum", query);
  VectorizeLast(sch, At(sch, "attention_exp", query).axes.back());
  ScheduleRowReduction(sch, "attention_max", query);
  LoopRV key = At(sch, "attention_scores", query).axes[rank - 1];
  const LoopRV under = key.defined() ? key : query;
  At(sch, "attention_products", under);
  sch.SetScope(sch.GetBlock("attention_products"), 0, "local");
  Stage dots = At(sch, "attention_dots", under);
  sch.SetScope(dots.block, 0, "local");
  LoopRV lane = dots.axes[rank], s = dots.axes[rank + 1];
  if (lane.defined() && s.defined()) {
    sch.Reorder({s, lane});
    BlockRV init = sch.DecomposeReduction(dots.block, s);
    sch.Vectorize(lane);
    sch.Vectorize(sch.GetLoops(init).back());
  } else if (lane.defined()) {
    sch.Vectorize(lane);
  }
  FuseParallel(sch, std::vector<LoopRV>(out.begin(), out.end() - 1), work);
}

}  // namespace

bool IsAttention(Schedule& sch) { return sch.HasBlock("attention_output"); }

void ScheduleAttention(Schedule& sch, const TargetFeatures& features) {
  if (sch.HasBlock("attention_dots")) return SchedulePlain(sch);
  SchedulePacked(sch, features);
}

}  // namespace treadle::ops::cpu
