// SPDX-License-Identifier: Apache-2.0
// Matrix products with a packed right operand. A tile of some rows and one or two vectors of columns is summed in
// registers. Its columns of the right operand (a panel) are used by all tiles of rows before the next panel, whose
// memory is prefetched meanwhile.
//
// Where many columns use them, rows are packed, too: in the order in which a tile reads them, they are one stream of
// memory instead of one per row, and rows don't share sets of the first-level cache. And where there are too few tiles
// of rows to make up for fetching a long panel, the sum is made in chunks: the chunk of a panel stays in the
// first-level cache, and results of some panels in the second-level cache, until they are complete (Goto & van de Geijn
// 2008, "Anatomy of High-Performance Matrix Multiplication").
#include <algorithm>

#include "ops/packed.h"
#include "targets/cpu/schedule/cpu.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::ops::cpu {
namespace {

const PrimExpr kRest{ObjectPtr<Object>()};

/// Rows in unknown number are scheduled as if they were so many.
constexpr int64_t kSymbolicRows = 840;
constexpr int64_t kLanes = kPackedColumns;
constexpr int64_t kRowBytes = 4 << 20;
/// Addresses so far apart share a set of the first-level cache.
constexpr int64_t kSetBytes = 4096;

/// Rows of a tile with `channels` lanes, for `width` rows in all. A vector of channels takes `registers` of the
/// machine's; two multiply-adds start per cycle, each takes four, and some registers are left for operands.
int64_t TileWidth(int64_t width, int64_t channels, const TargetFeatures& features) {
  constexpr double kLatency = 4, kPerStep = 0.5;  // cycles; of the loop around the tile
  int64_t lanes = std::max(1, features.vector_lanes(32));
  int64_t registers = std::max<int64_t>(1, (channels + lanes - 1) / lanes);
  int64_t widest = std::max<int64_t>(1, (features.vector_registers - 4) / registers);
  widest = std::min<int64_t>(widest, 14);
  auto step = [&](int64_t t) { return std::max(static_cast<double>(t * registers) / 2, kLatency) + kPerStep; };
  // Rows that the last tile lacks are computed, too, and dropped.
  auto cost = [&](int64_t t) { return static_cast<double>((width + t - 1) / t) * step(t); };
  if (width <= widest) return width;
  int64_t best = widest;
  for (int64_t t = widest; t >= std::max<int64_t>(1, widest / 2); --t) {
    if (cost(t) < cost(best)) best = t;
  }
  return best;
}

/// Steps of a sum that are written out: the more, the fewer places that weights are prefetched at.
constexpr int64_t kSteps = 4, kUnfetchedSteps = 2;

/// Product of the extents that a block reduces over.
int64_t InnerExtent(Schedule& sch, const BlockRV& block) {
  int64_t product = 1;
  for (const tir::IterVar& axis : sch.Get(block)->iter_vars) {
    const int64_t* extent = AsConstInt(axis->dom->extent);
    if (axis->iter_type == tir::IterVarType::kCommReduce && extent != nullptr) product *= std::max<int64_t>(1, *extent);
  }
  return product;
}

/// Index among the buffers that `block` reads of the one that it reads per row, (.., m, k), of a product with a packed
/// weight; -1 where there is none.
int RowsOperand(Schedule& sch, const BlockRV& block, size_t rank) {
  tir::Block node = sch.Get(block);
  const tir::IterVar& row = node->iter_vars[rank - 2];
  for (size_t i = 0; i < node->reads.size(); ++i) {
    const tir::BufferRegion& region = node->reads[i];
    if (region->buffer.same_as(node->writes[0]->buffer) || region->region.size() != rank) continue;
    if (region->region[rank - 2]->min.same_as(row->var)) return static_cast<int>(i);
  }
  return -1;
}

/// Whether an operand is of bytes.
bool ReadsBytes(Schedule& sch, const BlockRV& block) {
  tir::Block node = sch.Get(block);
  return std::any_of(node->reads.begin(), node->reads.end(),
                     [](const tir::BufferRegion& region) { return region->buffer->dtype.bits() == 8; });
}

/// How a product of (.., m, k) and (.., n / 16, k, 16) is cut.
struct Tiling {
  int64_t rows;    ///< of a tile
  int64_t blocks;  ///< of 16 columns in a tile
  int64_t parts;   ///< of all rows: each passes over all panels
  int64_t panels;  ///< tiles of rows in a part
  int64_t chunk;   ///< elements that are summed at a time; 0: all
  bool pack;       ///< whether rows are packed
};

/// A divisor of `k` so that that much of a panel stays in the first-level cache beside rows; 0 for all of it.
int64_t ChunkOf(int64_t k, int64_t columns, const TargetFeatures& features) {
  const int64_t fit = features.l1_bytes / 2 / (columns * 4);
  if (k <= fit * 3 / 2) return 0;
  for (int64_t chunk = fit * 5 / 4; chunk >= fit / 2; --chunk) {
    if (k % chunk == 0) return chunk;
  }
  return 0;
}

Tiling ChooseTiling(int64_t rows, int64_t units, int64_t k, bool packing, const TargetFeatures& features) {
  constexpr int64_t kLeastPackedUnits = 512, kLeastPackedTiles = 4, kMostChunkedRows = 768, kShortRow = 512;
  const bool symbolic = rows < 0;
  Tiling result{};
  result.rows = TileWidth(symbolic ? kSymbolicRows : rows, kLanes, features);
  // A vector register that holds a whole block leaves room for sums of two: half the loads per sum.
  result.blocks = features.vector_lanes(32) >= kLanes && units % (2 * kLanes) == 0 ? 2 : 1;
  // Rows that stay in a cache near by while panels of the weight pass over them: the fewer parts the better, for each
  // reads all of the weight. Of rows in unknown number as many as the second-level cache holds.
  const int64_t bytes = symbolic ? features.l2_bytes / 2 : std::max(kRowBytes, features.l3_bytes / 4);
  const int64_t most = std::max<int64_t>(1, bytes / (k * 4 * result.rows));
  const int64_t tiles = (std::max<int64_t>(rows, 0) + result.rows - 1) / result.rows;
  result.parts = packing ? 1 : (tiles + most - 1) / most;
  result.panels = symbolic ? most : (tiles + result.parts - 1) / result.parts;
  result.pack = !symbolic && units >= kLeastPackedUnits && tiles >= kLeastPackedTiles;
  // Panels that are packed just now are in the second-level cache: short rows have to be packed only where all of a
  // tile fall into the same sets of the first-level cache.
  if (packing) result.pack = result.pack && (k > kShortRow || k * 4 % kSetBytes == 0);
  if (result.pack && !packing && rows < kMostChunkedRows) result.chunk = ChunkOf(k, result.blocks * kLanes, features);
  return result;
}

/// Copies the operand whose rows meet vectors of the other: (.., k / chunk, m / rows, chunk, rows).
void PackRows(Schedule& sch, const BlockRV& block, size_t rank, const Tiling& tiling, double work) {
  const int operand = RowsOperand(sch, block, rank);
  if (operand < 0) return;
  BlockRV copy = sch.CacheRead(block, operand, "global");
  std::vector<tir::Var> at;
  std::vector<PrimExpr> to;
  for (size_t i = 0; i < rank; ++i) {
    at.emplace_back(StrCat("i", i), DataType::Int(64));
    if (i + 2 < rank) to.push_back(at.back());
  }
  const PrimExpr m = at[rank - 2], k = at[rank - 1], rows(tiling.rows), chunk(tiling.chunk);
  const PrimExpr tile = tir::floordiv(m, rows), row = tir::floormod(m, rows);
  if (tiling.chunk == 0) {
    to.insert(to.end(), {tile, k, row});
  } else {
    to.insert(to.end(), {tir::floordiv(k, chunk), tile, tir::floormod(k, chunk), row});
  }
  sch.TransformLayout(copy, true, 0, at, to);
  std::vector<LoopRV> loops = sch.GetLoops(copy);
  std::vector<LoopRV> parts = sch.Split(loops[rank - 2], {kRest, rows});
  sch.Reorder({parts[0], loops[rank - 1], parts[1]});
  sch.Unroll(parts[1]);
  std::vector<LoopRV> outer(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(rank) - 2);
  outer.push_back(parts[0]);
  FuseParallel(sch, outer, work);
}

/// The block that packs the right operand of `block`; null where that comes packed.
BlockRV PackingOf(Schedule& sch, const BlockRV& block) {
  for (const BlockRV& producer : sch.GetProducers(block)) {
    if (TagOf(sch, producer) == "packed_columns") return producer;
  }
  return BlockRV();
}

/// Panels that are packed together, of `panels` in all: rows of the right operand are read in runs of some cache lines,
/// what is packed stays in the second-level cache, and threads have enough to share.
int64_t PanelsAtOnce(int64_t panels, int64_t panel_bytes, const TargetFeatures& features) {
  constexpr int64_t kMost = 8, kEnough = 8;
  for (int64_t n = kMost; n > 1; --n) {
    const bool fair = panels / n >= kEnough || panels / n % 2 == 0;
    if (panels % n == 0 && fair && n * panel_bytes <= std::max(features.l2_bytes, 2 * panel_bytes)) return n;
  }
  return 1;
}

/// Packs columns of the right operand under `group`, which uses them.
void PackColumns(Schedule& sch, const BlockRV& packing, const LoopRV& group) {
  sch.ComputeAt(packing, group);
  std::vector<LoopRV> axes = LoopsUnder(sch, packing, group);  // batch.., n / 16, k, 16
  const size_t n = axes.size();
  if (axes[n - 2].defined() && TransposedAxis(sch, packing) == static_cast<int>(n) - 2) {
    TransposeTile(sch, axes[n - 2], axes[n - 1]);
    return;
  }
  if (axes[n - 3].defined() && axes[n - 2].defined()) sch.Reorder({axes[n - 2], axes[n - 3]});
  sch.Vectorize(axes[n - 1]);
}

/// Sums of one row: bound by reading the other operand. Several blocks of columns at once are several streams of memory
/// and as many chains of sums.
void ScheduleVectorProduct(Schedule& sch, const BlockRV& block, const std::vector<LoopRV>& out, double work,
                           const TargetFeatures& features) {
  const int64_t panels = (Extent(sch, out.back()) + kLanes - 1) / kLanes;
  int64_t blocks = 1;
  for (int64_t n = 1; n <= (features.vector_lanes(32) >= kLanes ? 8 : 5); ++n) {
    if (panels % n == 0) blocks = n;
  }
  std::vector<LoopRV> parts = sch.Split(out.back(), {kRest, PrimExpr(blocks), PrimExpr(kLanes)});
  ComputeTile(sch, block, parts[0], {}, static_cast<int>(out.size()) - 1, blocks);
  sch.Vectorize(parts[2]);
  sch.Unroll(parts[1]);
  std::vector<LoopRV> outer(out.begin(), out.end() - 1);
  outer.push_back(parts[0]);
  FuseParallel(sch, outer, work);
}

/// The sum of a chunk for all tiles of some panels before the next chunk. What follows the product runs once these
/// results are complete.
void ScheduleChunks(Schedule& sch, const BlockRV& block, const BlockRV& packing, const std::vector<LoopRV>& out,
                    const Tiling& tiling, double work) {
  constexpr int64_t kMostPanels = 4;
  const size_t rank = out.size();
  const int64_t units = Extent(sch, out[rank - 1]),
                tiles = (units + tiling.blocks * kLanes - 1) / (tiling.blocks * kLanes);
  int64_t panels = 1;
  for (int64_t n = 1; n <= kMostPanels; ++n) {
    if (tiles % n == 0) panels = n;
  }
  std::vector<LoopRV> loops = sch.GetLoops(block);
  LoopRV chunks = sch.Split(loops[rank], {kRest, PrimExpr(tiling.chunk)})[0];
  BlockRV partial = sch.RFactor(chunks, 0);
  const int64_t lanes = tiling.blocks * kLanes;
  std::vector<LoopRV> columns = sch.Split(out[rank - 1], {kRest, PrimExpr(panels * lanes / kLanes), PrimExpr(kLanes)});
  sch.Reorder({columns[0], out[rank - 2], columns[1], columns[2]});
  sch.ComputeAt(block, columns[0]);
  std::vector<LoopRV> axes = LoopsUnder(sch, block, columns[0]);  // .., m, n, chunk
  LoopRV sum = axes[rank];
  std::vector<LoopRV> m = sch.Split(axes[rank - 2], {kRest, PrimExpr(tiling.rows)});
  std::vector<LoopRV> n = sch.Split(axes[rank - 1], {kRest, PrimExpr(tiling.blocks), PrimExpr(kLanes)});
  sch.Reorder({sum, n[0], m[0], m[1], n[1], n[2]});
  ComputeTile(sch, partial, m[0], {static_cast<int>(rank) - 2}, static_cast<int>(rank) - 1, tiling.blocks, kSteps);
  sch.Vectorize(n[2]);
  sch.Unroll(n[1]);
  sch.Unroll(m[1]);
  if (packing.defined()) {
    PackColumns(sch, packing, columns[0]);
  } else {
    PrefetchWeights(sch, partial, m[0], tiling.panels, tiling.chunk % kSteps == 0);
  }
  sch.DecomposeReduction(block, sum);
  sch.Vectorize(columns[2]);
  std::vector<LoopRV> outer(out.begin(), out.end() - 2);
  outer.push_back(columns[0]);
  FuseParallel(sch, outer, work);
}

}  // namespace

void SchedulePackedDense(Schedule& sch, const BlockRV& block, BlockRV epilogue, const TargetFeatures& features) {
  double work = Work(sch, block);
  if (!epilogue.defined()) epilogue = sch.CacheWrite(block, 0, "local");
  std::vector<LoopRV> out = sch.GetLoops(epilogue);  // .., m, n
  const size_t rank = out.size();
  if (rank == 1 || Extent(sch, out[rank - 2]) == 1) return ScheduleVectorProduct(sch, block, out, work, features);
  const BlockRV packing = PackingOf(sch, block);
  const int64_t k = InnerExtent(sch, block);
  Tiling tiling = ChooseTiling(Extent(sch, out[rank - 2]), Extent(sch, out[rank - 1]), k, packing.defined(), features);
  if (ReadsBytes(sch, block)) {
    // Rows are read as words of four neighbours, which packing would part.
    tiling.pack = false;
    tiling.chunk = 0;
  }
  if (tiling.pack) PackRows(sch, block, rank, tiling, work);
  if (tiling.chunk != 0) return ScheduleChunks(sch, block, packing, out, tiling, work);
  const int64_t panel = tiling.blocks * kLanes;
  const int64_t group =
      packing.defined() ? PanelsAtOnce((Extent(sch, out[rank - 1]) + panel - 1) / panel, k * panel * 4, features) : 1;
  std::vector<LoopRV> rows = sch.Split(out[rank - 2], {kRest, PrimExpr(tiling.panels), PrimExpr(tiling.rows)});
  std::vector<LoopRV> columns =
      sch.Split(out[rank - 1], {kRest, PrimExpr(group), PrimExpr(tiling.blocks), PrimExpr(kLanes)});
  // All rows use what is packed at a time.
  std::vector<LoopRV> outer{rows[0], columns[0]};
  if (packing.defined()) std::swap(outer[0], outer[1]);
  sch.Reorder({outer[0], outer[1], columns[1], rows[1], rows[2], columns[2], columns[3]});
  ComputeTile(sch, block, rows[1], {static_cast<int>(rank) - 2}, static_cast<int>(rank) - 1, tiling.blocks,
              packing.defined() ? kUnfetchedSteps : kSteps);
  sch.Vectorize(columns[3]);
  sch.Unroll(columns[2]);
  sch.Unroll(rows[2]);
  if (packing.defined()) {
    PackColumns(sch, packing, columns[0]);
    outer.pop_back();
  } else {
    PrefetchWeights(sch, block, rows[1], tiling.panels, k > kSteps && k % kSteps == 0);
  }
  outer.insert(outer.begin(), out.begin(), out.end() - 2);
  FuseParallel(sch, outer, work);
}

}  // namespace treadle::ops::cpu
