// SPDX-License-Identifier: Apache-2.0
// Winograd convolution. The image is cut into strips of some rows of tiles, so that transformed inputs and products of
// a strip stay in the L2 cache: each strip is transformed, multiplied (one matrix product per point of the tile) and
// transformed back, together with what follows the convolution.
#include <algorithm>
#include <cmath>

#include "targets/cpu/schedule/cpu.h"

namespace treadle::ops::cpu {
namespace {

const PrimExpr kRest{ObjectPtr<Object>()};

std::vector<LoopRV> Defined(const std::vector<LoopRV>& loops) {
  std::vector<LoopRV> result;
  for (const LoopRV& loop : loops) {
    if (loop.defined()) result.push_back(loop);
  }
  return result;
}

/// A transform in registers: all its points unrolled, channels as vectors. The last three axes are the points and the
/// channels.
void UnrollTransform(Schedule& sch, const BlockRV& block, const LoopRV& under) {
  std::vector<LoopRV> axes = LoopsUnder(sch, block, under);
  size_t n = axes.size();
  for (size_t i = n - 3; i < n - 1; ++i) {
    if (axes[i].defined()) sch.Unroll(axes[i]);
  }
  if (axes[n - 1].defined()) sch.Vectorize(axes[n - 1]);
}

/// How an image is cut, in tiles. `by_block`: products of one block of output channels at a time.
struct Strip {
  int64_t rows, columns;
  bool by_block;
  bool apart = false;  ///< each thread has strips of its own; else they share each, step by step
};

/// What the choice of strips looks at: tiles of an image, points of a tile, channels.
struct StripSizes {
  int64_t batch, rows, columns, points, in_channels, block, out_blocks;

  double weights() const { return 4 * static_cast<double>(points * in_channels * block * out_blocks); }
  double bytes(int64_t channels) const {
    return 4 * static_cast<double>(batch * points * rows * columns) * static_cast<double>(channels);
  }
};

/// Cycles of one image cut into strips: of the products, and of what passes from beyond the L2 cache.
double CostOf(const StripSizes& s, const Strip& strip, const TargetFeatures& features) {
  // Of a byte, part of whose way is hidden by what is computed meanwhile: measured on Zen 3.
  constexpr double kFar = 0.025;
  const auto cache = static_cast<double>(features.l2_bytes);
  const int64_t tiles = strip.rows * strip.columns;
  const auto strips = static_cast<double>((s.rows + strip.rows - 1) / strip.rows * (s.columns / strip.columns));
  const RegisterTile tile = ChooseTile(tiles, s.block, s.out_blocks, features);
  const double share = static_cast<double>(s.rows * s.columns) / static_cast<double>(tiles);
  double products = tile.cost * std::floor(share);
  if (s.rows % strip.rows != 0) {
    products += ChooseTile(s.rows % strip.rows * s.columns, s.block, s.out_blocks, features).cost;
  }
  const double work = products * static_cast<double>(s.points * s.in_channels * s.out_blocks);
  const auto per_channel = static_cast<double>(4 * s.points * tiles);
  const double input = per_channel * static_cast<double>(s.in_channels);
  const double product = per_channel * static_cast<double>(s.block * (strip.by_block ? tile.blocks : s.out_blocks));
  double far = 0;
  if (input + product > cache * 0.8) {
    far = strip.by_block ? input * static_cast<double>(s.out_blocks / tile.blocks) : 2 * (input + product);
  }
  double weights = s.weights();
  if (weights > cache / 4) weights *= strips;
  return static_cast<double>(s.batch) * (work + kFar * (far * share + weights));
}

/// Cycles of `threads` threads, where one takes `alone`.
double SharedCost(const StripSizes& s, const Strip& strip, double alone, int64_t threads,
                  const TargetFeatures& features) {
  constexpr double kStep = 5000;  // of beginning and ending a step together
  const auto count = static_cast<double>(threads);
  const int64_t groups = (s.rows + strip.rows - 1) / strip.rows, columns = s.columns / strip.columns;
  if (strip.apart) {
    // All load all weights, at the same time.
    const double last = static_cast<double>(s.rows - (groups - 1) * strip.rows) / static_cast<double>(strip.rows);
    return alone / count * Unevenness(groups, last, columns, s.batch, threads) + 2 * kFirstWeight * s.weights();
  }
  const double input = s.bytes(s.in_channels), product = s.bytes(s.block * s.out_blocks);
  const RegisterTile tile = ChooseTile(strip.rows * strip.columns, s.block, s.out_blocks, features);
  const int64_t parts = strip.by_block ? s.out_blocks / tile.blocks : s.points;
  const double crossing = strip.by_block ? input * (count + 1) : 2 * (input + product);
  const double steps = static_cast<double>(s.batch * groups * columns) * (strip.by_block ? 2 : 3);
  return alone / count * Unevenness(parts, 1, 1, 1, threads) + kStep * steps + kFirstWeight / count * s.weights() +
         kOtherCore * crossing * (1 - 1 / count) / count;
}

/// The transformed input of a strip should stay in the L2 cache beside products of one block of channels; where so few
/// tiles fit that weights would be loaded again and again, the strip is larger, and each point of the tile is
/// multiplied for all channels at once: what goes through slower memory is then used as often as there are channels.
/// The time on one thread and that on all cores count alike.
Strip ChooseStrip(const StripSizes& s, const TargetFeatures& features) {
  constexpr int64_t kMostTiles = 256, kLeastTiles = 12, kMostThreads = 16, kLeastParts = 4;
  const int64_t threads = std::clamp<int64_t>(features.num_cores, 1, kMostThreads);
  Strip best{1, 1, true};
  double least = HUGE_VAL;
  for (int64_t rows = 1; rows <= s.rows; ++rows) {
    for (int64_t parts = 1; parts <= s.columns; ++parts) {
      if (s.columns % parts != 0 || (parts > 1 && rows > 1)) continue;
      const int64_t columns = s.columns / parts;
      if (rows * columns > kMostTiles && columns > 1) continue;
      for (const bool by_block : {true, false}) {
        Strip strip{rows, columns, by_block};
        const int64_t strips = (s.rows + rows - 1) / rows * parts;
        // Not known how many threads there will be: enough for some.
        if (threads == 1 && by_block && strips < kLeastParts && s.out_blocks < 2 * kLeastParts) continue;
        const double alone = CostOf(s, strip, features);
        for (const bool apart : {true, false}) {
          if (apart && s.batch * strips == 1) continue;
          // Of few tiles each, all weights would be loaded by every thread for little.
          if (apart && threads > 1 && strips > 1 && rows * columns < kLeastTiles) continue;
          if (threads == 1 && apart != (s.batch * strips == 2 || s.batch * strips >= kLeastParts)) continue;
          strip.apart = apart;
          double cost = alone;
          if (threads > 1) cost += static_cast<double>(threads) * SharedCost(s, strip, alone, threads, features);
          if (cost >= least) continue;
          least = cost;
          best = strip;
        }
      }
    }
  }
  return best;
}

}  // namespace

bool IsWinograd(Schedule& sch) { return sch.HasBlock("winograd_product"); }

void ScheduleWinograd(Schedule& sch, const TargetFeatures& features) {
  BlockRV pad = sch.GetBlock("winograd_pad"), rows = sch.GetBlock("winograd_rows");
  BlockRV input = sch.GetBlock("winograd_input"), product = sch.GetBlock("winograd_product");
  BlockRV columns = sch.GetBlock("winograd_columns"), tile = sch.GetBlock("winograd_tile");
  double work = Work(sch, product);
  std::vector<BlockRV> last = sch.GetConsumers(tile);
  TREADLE_ICHECK(last.size() == 1) << "a Winograd tile has one consumer";
  BlockRV output = last[0];
  std::vector<LoopRV> out = sch.GetLoops(output);  // n, oc, oh, ow, oci
  TREADLE_ICHECK(out.size() == 5) << "blocked outputs have five loops";

  tir::Block node = sch.Get(product), last_tile = sch.Get(tile);
  auto extent = [](const tir::Block& block, size_t axis) { return *AsConstInt(block->iter_vars[axis]->dom->extent); };
  const int64_t side = extent(node, 0), m = extent(last_tile, 4);
  const Strip strip =
      ChooseStrip({std::max<int64_t>(1, Extent(sch, out[0])), extent(last_tile, 2), extent(last_tile, 3), side * side,
                   extent(node, 6) * extent(node, 7), extent(node, 5), extent(node, 3)},
                  features);

  const RegisterTile size = ChooseTile(strip.rows * strip.columns, extent(node, 5), extent(node, 3), features);

  BlockRV store = sch.CacheWrite(product, 0, "local");
  std::vector<LoopRV> oh = sch.Split(out[2], {kRest, PrimExpr(strip.rows), PrimExpr(m)});
  std::vector<LoopRV> ow = sch.Split(out[3], {kRest, PrimExpr(strip.columns), PrimExpr(m)});
  std::vector<LoopRV> oc = sch.Split(out[1], {kRest, PrimExpr(size.blocks)});
  sch.Reorder({out[0], oh[0], ow[0], oc[0], oc[1], oh[1], ow[1], oh[2], ow[2], out[4]});
  const LoopRV strip_loop = ow[0], tile_loop = ow[1];
  sch.Unroll(oh[2]);
  sch.Unroll(ow[2]);
  sch.Vectorize(out[4]);

  sch.SetScope(tile, 0, "local");
  sch.ComputeAt(tile, tile_loop);
  UnrollTransform(sch, tile, tile_loop);
  sch.SetScope(columns, 0, "local");
  sch.ComputeAt(columns, tile_loop);
  UnrollTransform(sch, columns, tile_loop);

  const LoopRV product_loop = strip.by_block ? oc[0] : strip_loop;
  sch.ComputeAt(store, product_loop);
  // Now, as the tiles of registers reach beyond the end of a strip: no more is transformed than is used.
  sch.ComputeAt(product, product_loop);
  sch.ComputeAt(input, strip_loop);
  std::vector<LoopRV> to = LoopsUnder(sch, store, product_loop);  // i, j, n, oc, tile, oci
  std::vector<LoopRV> tiles = sch.Split(to[4], {kRest, PrimExpr(size.width)});
  std::vector<LoopRV> inner{tiles[0]};
  if (to[3].defined()) {
    std::vector<LoopRV> blocks = sch.Split(to[3], {kRest, PrimExpr(size.blocks)});
    inner = {blocks[0], tiles[0], blocks[1]};
    sch.Unroll(blocks[1]);
  }
  inner.insert(inner.end(), {tiles[1], to[5]});
  sch.Reorder(inner);
  ComputeTile(sch, product, tiles[0], {4, 3}, 5);
  sch.Vectorize(to[5]);
  sch.Unroll(tiles[1]);
  PrefetchWeights(sch, product, tiles[0], Extent(sch, tiles[0]));

  std::vector<LoopRV> in = LoopsUnder(sch, input, strip_loop);  // i, j, n, cb, tile, ci
  std::vector<LoopRV> at = sch.Split(in[4], {kRest, PrimExpr(strip.columns)});
  sch.Reorder(Defined({in[3], at[0], at[1], in[0], in[1], in[5]}));
  sch.Unroll(in[0]);
  sch.Unroll(in[1]);
  sch.Vectorize(in[5]);
  sch.SetScope(rows, 0, "local");
  sch.ComputeAt(rows, at[1]);
  UnrollTransform(sch, rows, at[1]);
  LoopRV pad_at = in[3].defined() ? in[3] : strip_loop;
  sch.ComputeAt(pad, pad_at);
  std::vector<LoopRV> padded = LoopsUnder(sch, pad, pad_at);
  if (padded[4].defined()) sch.Vectorize(padded[4]);

  if (work < kParallelWork) return;
  if (strip.apart) {
    FuseParallel(sch, {out[0], oh[0], ow[0]}, work);
    return;
  }
  if (in[3].defined()) sch.Parallel(in[3]);
  if (!strip.by_block) FuseParallel(sch, {to[0], to[1]}, work);
  if (Extent(sch, oc[0]) > 1) sch.Parallel(oc[0]);
}

}  // namespace treadle::ops::cpu
