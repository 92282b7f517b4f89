// SPDX-License-Identifier: Apache-2.0
// Products of weights of few bits: for 16 columns and some rows, block after block of the weights, whose sums stay in
// registers. Few rows are bound by reading the weights, of which each is read once; more pass in tiles while the
// weights of their columns are in the first-level cache.
#include <algorithm>

#include "targets/cpu/schedule/cpu.h"

namespace treadle::ops::cpu {
namespace {

constexpr int64_t kLanes = 16;

/// Rows of a tile: each has two sums in registers, or three.
int64_t RowsOfTile(int64_t rows, const TargetFeatures& features) {
  constexpr int64_t kMost = 8;
  const int64_t each = 3 * std::max<int64_t>(1, kLanes / std::max(1, features.vector_lanes(32)));
  const int64_t most = std::clamp<int64_t>((features.vector_registers - 6) / each, 1, kMost);
  if (rows < 0) return most;
  const int64_t tiles = (rows + most - 1) / most;
  return (rows + tiles - 1) / tiles;
}

}  // namespace

bool IsBlockDense(Schedule& sch) { return sch.HasBlock("block_dots"); }

void ScheduleBlockDense(Schedule& sch, const TargetFeatures& features) {
  const BlockRV product = sch.GetBlock("block_dense");
  const double work = Work(sch, product) * 16;
  const BlockRV output = sch.GetConsumers(product).at(0);
  std::vector<LoopRV> out = sch.GetLoops(output);  // rows, columns
  const size_t rank = out.size();
  const int64_t tile = RowsOfTile(Extent(sch, out[rank - 2]), features);
  std::vector<LoopRV> rows = sch.Split(out[rank - 2], {kRest, PrimExpr(tile)});
  std::vector<LoopRV> columns = sch.Split(out[rank - 1], {kRest, PrimExpr(kLanes)});
  sch.Reorder({columns[0], rows[0], rows[1], columns[1]});
  ComputeTile(sch, product, rows[0], {0}, 2);
  // The loop over blocks is the one that the sums' block is in.
  LoopRV blocks;
  for (const LoopRV& loop : sch.GetLoops(product)) {
    if (sch.Get(loop)->kind == tir::ForKind::kSerial) blocks = loop;
  }
  for (const char* name : {"block_dots_low", "block_dots"}) {
    if (sch.HasBlock(name)) ComputeTile(sch, sch.GetBlock(name), blocks, {0}, 3, 1, 4);
  }
  sch.Vectorize(columns[1]);
  sch.Unroll(rows[1]);
  std::vector<LoopRV> outer(out.begin(), out.end() - 2);
  outer.push_back(columns[0]);
  FuseParallel(sch, outer, work);
}

}  // namespace treadle::ops::cpu
