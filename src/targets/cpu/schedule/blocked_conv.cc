// SPDX-License-Identifier: Apache-2.0
// Convolutions on channel-blocked activations: register tiles (cpu.h), and around them the order of loops in which what
// is used again stays in a near cache.
#include <algorithm>
#include <cmath>

#include "targets/cpu/schedule/cpu.h"

namespace treadle::ops::cpu {
namespace {

const PrimExpr kRest{ObjectPtr<Object>()};

/// Where threads find less to do than this many parts, positions are divided among them too.
constexpr int64_t kLeastParallel = 16;

/// What the cost of an order of loops depends on.
struct ConvSizes {
  int64_t batch = 1;
  int64_t rows = 0, columns = 0;    ///< of the output
  int64_t sharing = 1, blocks = 1;  ///< blocks of output channels: of one group, of all
  int64_t lanes = 1;                ///< channels in a block
  int64_t steps = 0, inner = 1;     ///< blocks of input channels; multiply-adds for each
  double input = 0, weights = 0;    ///< bytes
};

/// The order: strips of `rows`; within them, groups of `group` tiles of channels; for each, chunks of `chunk` blocks of
/// input channels (0: all at once).
struct ConvPlan {
  int64_t rows = 0, group = 1, chunk = 0;
  double cost = HUGE_VAL;
};

/// Groups of a convolution, as its computation notes.
int64_t GroupsOf(Schedule& sch, const BlockRV& block) {
  tir::Block node = sch.Get(block);
  auto groups = node->annotations.Get("groups");
  const auto* count = groups ? groups->as<IntImmNode>() : nullptr;
  return count != nullptr ? count->value : 1;
}

/// Bytes of a buffer from axis `from` on; 0 where only the run tells.
double BytesOf(const tir::Buffer& buffer, size_t from) {
  double bytes = 4;
  for (size_t i = from; i < buffer->shape.size(); ++i) {
    const int64_t* extent = AsConstInt(buffer->shape[i]);
    bytes *= extent != nullptr ? static_cast<double>(*extent) : 0;
  }
  return bytes;
}

ConvSizes SizesOf(Schedule& sch, const BlockedConv& conv, const std::vector<LoopRV>& out) {
  constexpr size_t kDataRank = 5, kWeightRank = 6;
  ConvSizes s;
  s.batch = std::max<int64_t>(1, Extent(sch, out[0]));
  s.rows = Extent(sch, out[2]);
  s.columns = Extent(sch, out[3]);
  s.blocks = Extent(sch, out[1]);
  s.lanes = Extent(sch, out[4]);
  // Blocks of one group share inputs.
  s.sharing = s.blocks / GroupsOf(sch, conv.block);
  tir::Block node = sch.Get(conv.block);
  for (const tir::IterVar& axis : node->iter_vars) {
    if (axis->iter_type != tir::IterVarType::kCommReduce) continue;
    const int64_t extent = *AsConstInt(axis->dom->extent);
    if (s.steps == 0) {
      s.steps = extent;
    } else {
      s.inner *= extent;
    }
  }
  const auto used = static_cast<double>(4 * s.steps * s.inner * std::max<int64_t>(0, s.rows * s.columns));
  for (const tir::BufferRegion& region : node->reads) {
    const size_t rank = region->buffer->shape.size();
    if (rank == kDataRank) s.input = std::min(used, BytesOf(region->buffer, 1));
    if (rank == kWeightRank) s.weights = BytesOf(region->buffer, 0);
  }
  if (s.weights == 0) s.input = 0;  // plain data: few channels
  return s;
}

RegisterTile TileOf(const ConvSizes& s, int64_t rows, int positions, const TargetFeatures& features) {
  return ChooseTile(positions == 1 && rows > 0 ? rows * s.columns : s.columns, s.lanes, s.sharing, features);
}

/// Tiles of a strip of `rows` that use the same weights.
int64_t Repeats(const ConvSizes& s, int64_t rows, int positions, const RegisterTile& tile) {
  if (rows < 0 || s.columns < 0) return kSymbolicWidth;
  return positions == 1 ? rows * s.columns / tile.width : rows * (s.columns / tile.width);
}

/// Blocks of input channels whose weights for a tile stay in the L1 cache; 0 where all do, or few tiles use them.
int64_t ChannelChunk(const ConvSizes& s, const RegisterTile& tile, int64_t repeats, const TargetFeatures& features) {
  constexpr int64_t kLeastTiles = 3;
  if (repeats < kLeastTiles) return 0;
  const int64_t bytes = s.inner * tile.blocks * s.lanes * 4;
  if (s.steps * bytes <= features.l1_bytes * 3 / 4) return 0;  // inputs need room too
  int64_t chunk = std::max<int64_t>(1, features.l1_bytes / 2 / bytes);
  while (s.steps % chunk != 0) --chunk;
  return chunk == s.steps ? 0 : chunk;
}

/// Cycles of one image with strips of `rows`: of the multiply-adds, and of what passes from beyond the L2 cache.
/// `group`: tiles of channels that take turns at one chunk of input channels.
double CostOf(const ConvSizes& s, int64_t rows, int64_t group, int64_t chunk, const RegisterTile& tile,
              const TargetFeatures& features) {
  // Of a byte, most of whose way is hidden by what is computed meanwhile: measured on Zen 3.
  constexpr double kFar = 0.023, kNear = 0.004;
  const double cache = static_cast<double>(features.l2_bytes) * 0.6;
  const auto strips = static_cast<double>((s.rows + rows - 1) / rows);
  const double work =
      tile.cost * static_cast<double>(s.steps * s.inner * s.blocks * s.rows) / static_cast<double>(rows);
  const auto passes = static_cast<double>(s.sharing / tile.blocks);
  const double strip = s.input * static_cast<double>(rows) / static_cast<double>(s.rows);
  const double sums = static_cast<double>(group * tile.blocks * s.lanes * 4) * static_cast<double>(rows * s.columns);
  const double near = group > 1 ? strip * static_cast<double>(chunk) / static_cast<double>(s.steps) + sums : strip;
  const double inputs =
      near <= cache ? s.input * std::ceil(passes / static_cast<double>(group > 1 ? group : passes)) : s.input * passes;
  const double weights = s.weights <= static_cast<double>(features.l2_bytes) / 4 ? s.weights : s.weights * strips;
  const auto again = chunk > 0 ? static_cast<double>(s.steps) / static_cast<double>(chunk) : 1;
  const double stored = 4 * static_cast<double>(s.blocks * s.lanes * s.rows * s.columns);
  return work + kFar * (inputs + weights) + kNear * again * stored;
}

/// Cycles that all of `threads` take together where one takes `alone`, with strips of `rows`, of each of which `parts`
/// groups of channels are computed at a time.
double SharedCost(const ConvSizes& s, int64_t rows, int64_t parts, bool chunks, double alone, int64_t threads) {
  const auto count = static_cast<double>(threads);
  const int64_t strips = (s.rows + rows - 1) / rows;
  double cost = alone;
  // Where there are few parts, positions are divided too.
  if (chunks || s.batch * strips * parts >= kLeastParallel) {
    const double last = static_cast<double>(s.rows - (strips - 1) * rows) / static_cast<double>(rows);
    cost *= Unevenness(strips, last, parts, s.batch, threads);
  }
  // Threads that have rows of their own find them where they have left them, but all of them load all weights.
  if (s.batch * strips >= threads) return cost + kFirstWeight * count * s.weights;
  return cost + kFirstWeight * s.weights + kOtherCore * (count - 1) * s.input;
}

/// The cheapest order of loops.
ConvPlan PlanOf(const ConvSizes& s, int positions, const TargetFeatures& features) {
  constexpr int64_t kMostStrips = 64, kMostThreads = 16;
  constexpr double kGain = 0.99;
  const int64_t threads = std::min<int64_t>(features.num_cores, kMostThreads);
  ConvPlan best{s.rows, 1, 0, HUGE_VAL};
  RegisterTile whole = TileOf(s, s.rows, positions, features);
  best.chunk = ChannelChunk(s, whole, Repeats(s, s.rows, positions, whole), features);
  if (s.rows < 0 || s.columns < 0) return best;
  for (int64_t strips = 1; strips <= std::min(s.rows, kMostStrips); ++strips) {
    const int64_t rows = (s.rows + strips - 1) / strips;
    if ((s.rows + rows - 1) / rows != strips) continue;
    RegisterTile tile = TileOf(s, rows, positions, features);
    if (positions == 2) tile.cost *= static_cast<double>(rows);
    const int64_t chunk = ChannelChunk(s, tile, Repeats(s, rows, positions, tile), features);
    auto consider = [&](int64_t group) {
      double cost = CostOf(s, rows, group, chunk, tile, features);
      // The time on one thread and that on all cores count alike.
      if (threads > 1) {
        const int64_t parts = s.blocks / (tile.blocks * group);
        cost = (cost + SharedCost(s, rows, parts, chunk > 0, cost, threads)) / 2;
      }
      if (cost < best.cost * kGain) best = {rows, group, chunk, cost};
    };
    consider(1);
    // Groups that leave every thread several.
    const int64_t passes = s.sharing / tile.blocks, most = s.blocks / tile.blocks * strips / (2 * features.num_cores);
    for (int64_t group = 2; chunk > 0 && group <= std::min(passes, most); ++group) {
      if (passes % group == 0) consider(group);
    }
  }
  return best;
}

/// The loops of a convolution while it is scheduled.
struct ConvLoops {
  std::vector<LoopRV> out;       ///< n, oc, oh, ow, oci
  LoopRV strip, row;             ///< strip is null where there is one; the row that tiles divide
  std::vector<LoopRV> channels;  ///< groups of blocks, blocks
  RegisterTile tile{1, 1};
  std::vector<int> unrolled;  ///< axes of the block's output
  int64_t repeats = 1;        ///< tiles that use the same weights
  ConvPlan plan;

  /// The loops that threads divide.
  std::vector<LoopRV> Outer() const {
    std::vector<LoopRV> outer{out[0]};
    if (strip.defined()) outer.push_back(strip);
    outer.push_back(channels[0]);
    return outer;
  }
};

/// Groups whose blocks of outputs make one tile: the padded input of some rows is made just before use, as little is
/// computed per element of it.
void ScheduleGroups(Schedule& sch, const BlockedConv& conv, ConvLoops& loops, const BlockRV& pad, double work) {
  std::vector<LoopRV>& out = loops.out;
  std::vector<LoopRV> rows = sch.Split(out[2], {kRest, PrimExpr(StripRows(Extent(sch, out[2])))});
  std::vector<LoopRV> parts = sch.Split(loops.row, {kRest, PrimExpr(loops.tile.width)});
  sch.Reorder({loops.channels[0], rows[0], rows[1], parts[0], loops.channels[1], parts[1], out[4]});
  ComputeTile(sch, conv.block, parts[0], loops.unrolled, 2 + conv.positions);
  sch.Vectorize(out[4]);
  sch.Unroll(parts[1]);
  sch.Unroll(loops.channels[1]);
  sch.ComputeAt(pad, rows[0]);
  std::vector<LoopRV> axes = LoopsUnder(sch, pad, rows[0]);
  if (axes[4].defined()) sch.Vectorize(axes[4]);
  FuseParallel(sch, {out[0], loops.channels[0], rows[0]}, work);
}

/// All of a sum at once.
void ScheduleAtOnce(Schedule& sch, const BlockedConv& conv, ConvLoops& loops, double work) {
  std::vector<LoopRV>& out = loops.out;
  std::vector<LoopRV> parts = sch.Split(loops.row, {kRest, PrimExpr(loops.tile.width)});
  std::vector<LoopRV> order{loops.channels[0]};
  if (loops.strip.defined()) order.insert(order.begin(), loops.strip);
  if (conv.positions == 2) order.push_back(out[2]);
  order.insert(order.end(), {parts[0], loops.channels[1], parts[1], out[4]});
  sch.Reorder(order);
  ComputeTile(sch, conv.block, parts[0], loops.unrolled, 2 + conv.positions);
  sch.Vectorize(out[4]);
  sch.Unroll(parts[1]);
  sch.Unroll(loops.channels[1]);
  std::vector<LoopRV> outer = loops.Outer();
  int64_t divided = 1;
  for (const LoopRV& loop : outer) divided *= std::max<int64_t>(1, Extent(sch, loop));
  const bool many = divided >= kLeastParallel;
  if (many) PrefetchWeights(sch, conv.block, parts[0], loops.repeats);
  if (conv.positions == 2 && !many) outer.push_back(out[2]);
  if (conv.positions == 1 && !many) outer.push_back(parts[0]);
  FuseParallel(sch, outer, work);
}

/// The sum over some input channels is added up for all positions, with weights from the L1 cache, before the next.
void ScheduleInChunks(Schedule& sch, const BlockedConv& conv, ConvLoops& loops, double work) {
  const int last = 1 + conv.positions, lanes = 2 + conv.positions;
  std::vector<LoopRV>& out = loops.out;
  const LoopRV steps = sch.GetLoops(conv.block)[static_cast<size_t>(lanes) + 1];
  LoopRV chunks = sch.Split(steps, {kRest, PrimExpr(loops.plan.chunk)})[0];
  BlockRV partial = sch.RFactor(chunks, 0);
  if (loops.strip.defined()) {
    std::vector<LoopRV> order{loops.strip, loops.channels[0], loops.channels[1]};
    if (conv.positions == 2) order.push_back(out[2]);
    order.insert(order.end(), {loops.row, out[4]});
    sch.Reorder(order);
  }
  sch.ComputeAt(conv.block, loops.channels[0]);
  std::vector<LoopRV> axes = LoopsUnder(sch, conv.block, loops.channels[0]);  // n, oc, positions, oci, chunk
  LoopRV sum = axes[static_cast<size_t>(lanes) + 1];
  std::vector<LoopRV> parts = sch.Split(axes[static_cast<size_t>(last)], {kRest, PrimExpr(loops.tile.width)});
  std::vector<LoopRV> order{sum};
  LoopRV blocks = axes[1];
  if (blocks.defined() && loops.plan.group > 1) {
    std::vector<LoopRV> tiles = sch.Split(blocks, {kRest, PrimExpr(loops.tile.blocks)});
    order.push_back(tiles[0]);
    blocks = tiles[1];
  }
  if (conv.positions == 2 && axes[2].defined()) order.push_back(axes[2]);
  order.push_back(parts[0]);
  if (blocks.defined()) order.push_back(blocks);
  order.insert(order.end(), {parts[1], axes[static_cast<size_t>(lanes)]});
  sch.Reorder(order);
  ComputeTile(sch, partial, parts[0], loops.unrolled, lanes);
  sch.Vectorize(axes[static_cast<size_t>(lanes)]);
  sch.Unroll(parts[1]);
  if (blocks.defined()) sch.Unroll(blocks);
  PrefetchWeights(sch, partial, parts[0], loops.repeats);
  sch.DecomposeReduction(conv.block, sum);
  sch.Vectorize(out[4]);
  FuseParallel(sch, loops.Outer(), work);
}

}  // namespace

void ScheduleBlockedConv(Schedule& sch, const BlockedConv& conv, const TargetFeatures& features) {
  double work = Work(sch, conv.block);
  const BlockRV pad = PaddingOf(sch, conv.block);
  ConvLoops loops;
  loops.out = sch.GetLoops(conv.output);
  TREADLE_ICHECK(loops.out.size() == 5) << "blocked outputs have five loops";
  std::vector<LoopRV>& out = loops.out;
  const ConvSizes sizes = SizesOf(sch, conv, out);
  loops.plan = PlanOf(sizes, conv.positions, features);
  loops.tile = TileOf(sizes, loops.plan.rows, conv.positions, features);
  if (loops.plan.rows < sizes.rows) {
    std::vector<LoopRV> parts = sch.Split(out[2], {kRest, PrimExpr(loops.plan.rows)});
    loops.strip = parts[0];
    out[2] = parts[1];
  }
  loops.row = conv.positions == 1 ? sch.Fuse({out[2], out[3]}) : out[3];
  loops.repeats = Repeats(sizes, loops.plan.rows, conv.positions, loops.tile);
  loops.channels = sch.Split(out[1], {kRest, PrimExpr(loops.tile.blocks * loops.plan.group)});
  // The inner of the two stays in registers while the outer passes.
  const int last = 1 + conv.positions;
  loops.unrolled = loops.tile.blocks > loops.tile.width ? std::vector<int>{1, last} : std::vector<int>{last, 1};
  const bool one_tile = sizes.sharing < sizes.blocks && sizes.sharing == loops.tile.blocks && conv.positions == 2;
  if (pad.defined() && one_tile && loops.plan.chunk == 0 && !loops.strip.defined()) {
    ScheduleGroups(sch, conv, loops, pad, work);
    return;
  }
  if (pad.defined()) ScheduleInjective(sch, pad);
  if (loops.plan.chunk == 0) {
    ScheduleAtOnce(sch, conv, loops, work);
  } else {
    ScheduleInChunks(sch, conv, loops, work);
  }
}

}  // namespace treadle::ops::cpu
