// SPDX-License-Identifier: Apache-2.0
// Reductions that no kernel and no other schedule is for: along contiguous memory in lanes of partial results, else
// with vectors of neighbouring results; rows are divided among threads.
#include <algorithm>

#include "targets/cpu/schedule/block_reads.h"
#include "targets/cpu/schedule/cpu.h"
#include "targets/cpu/schedule/rows.h"
#include "tir/schedule/reducer_match.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::ops::cpu {
namespace {

constexpr int kTailLanes = 8;

/// Rows that are summed at once: what all rows are multiplied with is read once, steps that wait for one another
/// (tuples) overlap, and memory is read faster in several streams. `rows`: axes up to that of the rows, `extent`:
/// elements of a row.
int64_t RowsAtOnce(Schedule& sch, const BlockRV& block, size_t rows, int64_t extent) {
  constexpr int64_t kRows = 4, kLeastExtent = 256;
  constexpr double kLeastWork = 1 << 18, kInCaches = 1 << 22;  // elements that don't stay in near caches, or in any
  const double work = Work(sch, block);
  if (rows == 0 || extent < kLeastExtent || work < kLeastWork) return 1;
  const tir::Block node = sch.Get(block);
  const std::vector<const tir::BufferLoadNode*> loads = LoadsOf(node);
  const bool shares = std::any_of(loads.begin(), loads.end(), [&](const tir::BufferLoadNode* load) {
    return StrideAlong(node, load, node->iter_vars[rows - 1]->var) == 0;
  });
  if (!shares && node->writes.size() == 1 && work < kInCaches) return 1;
  const int64_t neighbours = Extent(sch, sch.GetLoops(block)[rows - 1]);
  return neighbours > kRows && neighbours % kRows == 0 ? kRows : 1;
}

/// Lanes of partial results: of long rows what is left of the vectors is a masked one.
int LanesAlong(const tir::Block& node, int64_t extent) {
  constexpr int64_t kLeastMasked = 32, kFewest = 4, kLong = 256;
  constexpr int kBits = 512;
  int bits = 1;
  for (const tir::BufferRegion& written : node->writes) bits = std::max(bits, written->buffer->dtype.bits());
  const bool is_long = extent >= kLeastMasked || extent < 0;
  if (extent >= kLong) return std::max(kTailLanes, kBits / bits);
  for (int lanes = std::max(kTailLanes, kBits / bits); lanes >= (is_long ? kTailLanes : kFewest); lanes /= 2) {
    if (extent > lanes && extent % lanes == 0) return lanes;
  }
  return is_long ? kTailLanes : 0;
}

/// Reduces along contiguous memory: partial results in the lanes of a vector, combined at the end.
bool VectorizeAlongReduction(Schedule& sch, const BlockRV& block, int axis) {
  const LoopRV k = JoinedReduction(sch, block, static_cast<size_t>(axis));
  if (!k.defined()) return false;
  const int64_t extent = Extent(sch, k);
  PartialVectors vectors = ChoosePartialVectors(sch.Get(block), extent);
  if (vectors.lanes == 0) return false;
  tir::Block node = sch.Get(block);
  const size_t spatial = SpatialAxesOf(node);
  size_t row = spatial;  // axes up to the last one that isn't just one element
  while (row > 0 && tir::is_const_int(node->iter_vars[row - 1]->dom->extent, 1)) --row;
  const int64_t rows = RowsAtOnce(sch, block, row, extent);
  if (rows > 1) vectors.count = std::min(vectors.count, 2);
  const Partials partials = FactorReduction(sch, block, k, vectors);
  const BlockRV& partial = partials.lanes;
  std::vector<LoopRV> final_loops = sch.GetLoops(block);
  LoopRV row_loop;
  if (spatial > 0) {
    LoopRV at = final_loops[rows > 1 ? row - 1 : spatial - 1], inner = final_loops[spatial - 1];
    if (rows > 1) {
      const std::vector<LoopRV> split = sch.Split(at, {kRest, PrimExpr(rows)});
      if (row == spatial) inner = split[1];
      at = split[0];
    }
    std::set<std::string> made;
    ComputeFewerAt(sch, partials, inner, &made);
    sch.ComputeAt(partial, at);
    if (rows > 1) row_loop = LoopsUnder(sch, partial, at)[row - 1];
  }
  for (size_t i = 0; i < node->writes.size(); ++i) sch.SetScope(partial, static_cast<int>(i), "local");
  VectorizePartial(sch, partial, AxisLoops(sch, partial), row_loop, vectors);
  return true;
}

/// Rows of what is summed that are added to a row of results at once: memory is read in so many streams. Results are
/// loaded and stored once for all of them.
int64_t StepsAtOnce(int64_t steps) {
  for (int64_t n : {8, 10, 7, 9, 6, 5, 4, 3, 2}) {
    if (steps % n == 0) return n;
  }
  return 1;
}

/// Neighbouring results read neighbouring elements. Few of them stay in registers for the whole reduction; of more, a
/// stretch stays in the first-level cache, so that memory is read in long runs. `parts_of_row`: stretches of a long row
/// of results, for threads to share.
void VectorizeResults(Schedule& sch, const BlockRV& block, const LoopRV& last, std::vector<LoopRV> reduce, int lanes,
                      int64_t parts_of_row) {
  constexpr int64_t kRegisters = 4, kShortest = 16, kStretch = 256;
  int64_t vectors = Extent(sch, last) / lanes, steps = Extent(sch, reduce.back());
  if (Extent(sch, last) % lanes != 0) vectors = 1;
  const int64_t at_once = StepsAtOnce(steps);
  bool stream = vectors > kRegisters && at_once > 1 && steps > at_once;
  // Long stretches, but enough of them for threads to share.
  const int64_t most = stream ? std::clamp(vectors / parts_of_row, kShortest, kStretch) : kRegisters;
  int64_t inner = 1;
  for (int64_t n = 1; n <= most; ++n) {
    if (vectors % n == 0) inner = n;
  }
  std::vector<LoopRV> parts = sch.Split(last, {kRest, PrimExpr(inner), PrimExpr(int64_t{lanes})});
  std::vector<LoopRV> order;
  if (stream) {
    std::vector<LoopRV> split = sch.Split(reduce.back(), {kRest, PrimExpr(at_once)});
    reduce.back() = split[0];
    order = reduce;
    order.insert(order.end(), {parts[1], split[1], parts[2]});
  } else {
    order = reduce;
    order.insert(order.end(), {parts[1], parts[2]});
  }
  sch.Reorder(order);
  BlockRV init = sch.DecomposeReduction(block, reduce[0]);
  for (size_t i = reduce.size(); i + 1 < order.size(); ++i) {
    if (!stream || i != reduce.size()) sch.Unroll(order[i]);
  }
  sch.Vectorize(parts[2]);
  LoopRV lane = sch.GetLoops(init).back();
  if (Extent(sch, lane) == lanes) sch.Vectorize(lane);
}

/// Rows of results that aren't whole vectors, or of a length that only a run knows: each vector is reduced in a
/// register, the last one of a row under a mask. Whether that was done.
bool ReduceInRegisters(Schedule& sch, const BlockRV& block, const BlockRV& epilogue, size_t spatial, double work) {
  constexpr int64_t kLeast = 8, kWord = 32, kBits = 512, kEnoughParts = 16;
  const tir::Block node = sch.Get(block);
  const std::vector<LoopRV> nest = sch.GetLoops(block);
  if (node->writes.size() != 1 || nest.size() != node->iter_vars.size()) return false;
  const int64_t extent = Extent(sch, nest[spatial - 1]);
  // Of wide elements two vectors: two chains of sums.
  int64_t lanes = kBits / std::clamp<int64_t>(node->writes[0]->buffer->dtype.bits(), kLeast, kWord);
  while (extent >= 0 && lanes > extent) lanes /= 2;
  const BlockRV out = epilogue.defined() ? epilogue : sch.CacheWrite(block, 0, "local");
  const std::vector<LoopRV> loops = sch.GetLoops(out);
  const std::vector<LoopRV> row = sch.Split(loops[spatial - 1], {kRest, PrimExpr(lanes)});
  ComputeTile(sch, block, row[0], {}, static_cast<int>(spatial) - 1);
  sch.Vectorize(row[1]);
  std::vector<LoopRV> outer(loops.begin(), loops.end() - 1);
  // Of dynamic extents the first is often a batch of one.
  int64_t parts = 1;
  for (size_t i = 0; i < outer.size(); ++i) {
    const int64_t count = Extent(sch, outer[i]);
    parts *= count >= 0 ? count : i == 0 ? 1 : kEnoughParts;
  }
  if (parts < kEnoughParts && work >= kParallelWork) outer.push_back(row[0]);
  if (!outer.empty()) FuseParallel(sch, outer, work);
  return true;
}

/// One long row of results: threads share what is summed instead of the results, so that memory is read in the longest
/// runs. Whether that was done.
bool SumInParts(Schedule& sch, const BlockRV& block, size_t spatial, int lanes) {
  constexpr int64_t kLeastResults = 512, kLeastSteps = 256;
  std::vector<LoopRV> loops = sch.GetLoops(block);
  if (loops.size() != spatial + 1 || Work(sch, block) < kParallelWork || !IsAnyOrder(sch.Get(block))) return false;
  const int64_t results = Extent(sch, loops[spatial - 1]), steps = Extent(sch, loops[spatial]);
  for (size_t i = 0; i + 1 < spatial; ++i) {
    if (Extent(sch, loops[i]) != 1) return false;
  }
  int64_t parts = 0;
  for (int64_t n : {4, 5, 6, 3, 2}) {
    if (parts == 0 && steps % n == 0 && StepsAtOnce(steps / n) > 3) parts = n;
  }
  if (results < kLeastResults || results % lanes != 0 || steps < kLeastSteps || parts == 0) return false;
  LoopRV part = sch.Split(loops[spatial], {PrimExpr(parts), kRest})[0];
  BlockRV partial = sch.RFactor(part, 0);
  LoopRV n, k;
  for (const LoopRV& axis : AxisLoops(sch, partial)) {
    const int64_t extent = axis.defined() ? Extent(sch, axis) : 1;
    if (extent == parts) part = axis;
    if (extent == results) n = axis;
  }
  k = AxisLoops(sch, partial).back();
  if (!n.defined() || !k.defined() || k->var.same_as(n->var)) return true;
  sch.Reorder({part, n, k});
  sch.Parallel(part);
  VectorizeResults(sch, partial, n, {k}, lanes, 1);
  std::vector<LoopRV> sum = AxisLoops(sch, block);
  if (sum[spatial - 1].defined()) sch.Vectorize(sch.Split(sum[spatial - 1], {kRest, PrimExpr(int64_t{lanes})})[1]);
  return true;
}

}  // namespace

/// Whether the reduction can be one of partial results.
bool IsAnyOrder(const tir::Block& node) {
  try {
    return tir::MatchReducer(node.get(), "rfactor").any_order;
  } catch (const tir::ScheduleError&) {
    return false;  // a combiner of the user's own
  }
}

/// The loop of a reduced axis, as one with those of the axes before it where they are one run of memory.
LoopRV JoinedReduction(Schedule& sch, const BlockRV& block, size_t axis) {
  const tir::Block node = sch.Get(block);
  std::vector<LoopRV> axes = AxisLoops(sch, block);
  std::vector<LoopRV> run{axes[axis]};
  for (size_t after = axis; after > 0; --after) {
    const size_t i = after - 1;
    const bool reduced = node->iter_vars[i]->iter_type == tir::IterVarType::kCommReduce;
    if (!reduced || !axes[i].defined() || !AreOneRow(node, static_cast<int>(i))) break;
    run.insert(run.begin(), axes[i]);
  }
  return run.size() == 1 || !run.back().defined() ? axes[axis] : sch.Fuse(run);
}

PartialVectors ChoosePartialVectors(const tir::Block& node, int64_t extent) {
  PartialVectors vectors;
  vectors.lanes = LanesAlong(node, extent);
  if (vectors.lanes == 0) return vectors;
  // Several vectors of partial results hide the latency of the additions; combining them must stay cheap.
  int& count = vectors.count;
  if (extent < 0) count = 4;
  while (count < 4 && extent >= vectors.lanes * count * 8) count *= 2;
  return vectors;
}

Partials FactorReduction(Schedule& sch, const BlockRV& block, const LoopRV& k, const PartialVectors& vectors) {
  constexpr int64_t kAtOnce = 4;
  Partials partials;
  partials.vectors = vectors;
  const tir::Block node = sch.Get(block);
  const auto spatial = static_cast<int>(SpatialAxesOf(node));
  int64_t left = int64_t{vectors.lanes} * vectors.count;
  partials.lanes = sch.RFactor(sch.Split(k, {kRest, PrimExpr(left)})[1], spatial);
  if (spatial == 0 || node->writes.size() != 1) return partials;
  while (left % kAtOnce == 0 && left / kAtOnce > 1) {
    left /= kAtOnce;
    const LoopRV lane = sch.Split(AxisLoops(sch, block).back(), {PrimExpr(kAtOnce), PrimExpr(left)})[1];
    partials.fewer.push_back(sch.RFactor(lane, spatial));
  }
  return partials;
}

void ComputeFewerAt(Schedule& sch, const Partials& partials, const LoopRV& at, std::set<std::string>* done) {
  for (size_t i = partials.fewer.size(); i-- > 0;) {
    const BlockRV& fewer = partials.fewer[i];
    sch.ComputeAt(fewer, at);
    sch.SetScope(fewer, 0, "local");
    done->insert(fewer->name);
    const LoopRV lane = LoopsUnder(sch, fewer, at)[SpatialAxesOf(sch.Get(fewer)) - 1];
    const LoopRV step = LoopsUnder(sch, fewer, at).back();
    if (!lane.defined() || !step.defined()) continue;
    sch.Reorder({step, lane});
    const BlockRV init = sch.DecomposeReduction(fewer, step);
    done->insert(init->name);
    sch.Unroll(step);
    sch.Vectorize(lane);
    sch.Vectorize(sch.GetLoops(init).back());
  }
}

BlockRV VectorizePartial(Schedule& sch, const BlockRV& partial, const std::vector<LoopRV>& axes, const LoopRV& rows,
                         const PartialVectors& vectors) {
  const int64_t together = int64_t{vectors.count} * vectors.lanes;
  // Within: other reduction loops, then the lanes.
  tir::Block node = sch.Get(partial);
  LoopRV lane_loop;
  std::vector<LoopRV> reduce_loops;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i].defined() || (rows.defined() && axes[i]->var.same_as(rows->var))) continue;
    if (node->iter_vars[i]->iter_type == tir::IterVarType::kCommReduce) {
      reduce_loops.push_back(axes[i]);
    } else if (Extent(sch, axes[i]) == together) {
      lane_loop = axes[i];
    }
  }
  if (!lane_loop.defined() || reduce_loops.empty()) return BlockRV();
  std::vector<LoopRV> order = reduce_loops;
  if (rows.defined()) order.push_back(rows);
  order.push_back(lane_loop);
  sch.Reorder(order);
  BlockRV init = sch.DecomposeReduction(partial, reduce_loops[0]);
  if (rows.defined()) sch.Unroll(rows);
  auto vectorize = [&](const LoopRV& loop) {
    if (vectors.count == 1) return sch.Vectorize(loop);
    std::vector<LoopRV> split = sch.Split(loop, {PrimExpr(int64_t{vectors.count}), PrimExpr(int64_t{vectors.lanes})});
    sch.Unroll(split[0]);
    sch.Vectorize(split[1]);
  };
  vectorize(lane_loop);
  std::vector<LoopRV> init_loops = sch.GetLoops(init);
  if (!init_loops.empty() && Extent(sch, init_loops.back()) == together) vectorize(init_loops.back());
  return init;
}

namespace {

/// Whether each result is reduced from more than `few` elements, or from as many as a run tells.
bool HasMoreSteps(const tir::Block& node, int64_t few) {
  int64_t steps = 1;
  for (size_t i = SpatialAxesOf(node); i < node->iter_vars.size() && steps <= few; ++i) {
    const int64_t extent = ExtentOf(node, i);
    if (extent < 0) return true;
    steps *= extent;
  }
  return steps > few;
}

/// The innermost axis of windows that are far from one another and have long rows in memory, which neighbouring results
/// read apart; -1 where there are none.
int RowOfWindow(const tir::Block& node) {
  constexpr int64_t kFarApart = 4, kLongRow = 8;
  const size_t spatial = SpatialAxesOf(node), last = node->iter_vars.size() - 1;
  const int64_t extent = ExtentOf(node, last);
  if (spatial == 0 || last < spatial || (extent >= 0 && extent < kLongRow) || !IsAnyOrder(node)) return -1;
  bool apart = false;
  for (const tir::BufferLoadNode* load : LoadsOf(node)) {
    const auto between = StrideAlong(node, load, node->iter_vars[spatial - 1]->var);
    const auto along = StrideAlong(node, load, node->iter_vars[last]->var);
    if (!along || (*along != 0 && *along != 1)) return -1;
    apart = apart || (*along == 1 && (!between || *between >= kFarApart));
  }
  return apart ? static_cast<int>(last) : -1;
}

}  // namespace

void ScheduleReduction(Schedule& sch, const BlockRV& block, const BlockRV& epilogue) {
  double work = Work(sch, block);
  tir::Block node = sch.Get(block);
  const size_t spatial = SpatialAxesOf(node), shared = SharedLoops(sch, block);
  for (size_t i = 0; i < shared; ++i) work /= static_cast<double>(std::max<int64_t>(1, ExtentOf(node, i)));
  int contiguous = ContiguousAxis(sch, block);
  if (const int row = RowOfWindow(node); row >= 0) contiguous = row;

  if (contiguous >= 0 && static_cast<size_t>(contiguous) + 1 == spatial &&
      node->iter_vars[static_cast<size_t>(contiguous)]->iter_type == tir::IterVarType::kDataPar) {
    // Neighbouring results read neighbouring elements: a vector of results per pass over the reduction.
    std::vector<LoopRV> loops = sch.GetLoops(block);
    LoopRV last = loops[spatial - 1];
    int64_t extent = Extent(sch, last);
    int lanes = VectorLanes(extent);
    // The tail is split off. Of rows whose length a run decides, LLVM makes vectors of very few steps itself, but not
    // of tuples.
    constexpr int64_t kVeryFew = 3;
    const bool is_vector = extent < 0 && (HasMoreSteps(node, kVeryFew) || node->writes.size() > 1);
    if (lanes == 0 && (extent > kTailLanes || is_vector)) lanes = kTailLanes;
    std::vector<LoopRV> reduce(loops.begin() + static_cast<std::ptrdiff_t>(spatial), loops.end());
    if (lanes != 0 && SumInParts(sch, block, spatial, lanes)) {
      if (epilogue.defined()) ScheduleInjective(sch, epilogue);
      return;
    }
    const bool whole = extent > 0 && lanes != 0 && extent % lanes == 0;
    if (lanes != 0 && !whole && shared == 0 && ReduceInRegisters(sch, block, epilogue, spatial, work)) return;
    if (lanes != 0) VectorizeResults(sch, block, last, reduce, lanes, 4);
  } else if (contiguous >= 0 &&
             node->iter_vars[static_cast<size_t>(contiguous)]->iter_type == tir::IterVarType::kCommReduce &&
             IsAnyOrder(node)) {
    VectorizeAlongReduction(sch, block, contiguous);
  }
  std::vector<LoopRV> loops = sch.GetLoops(block);
  // Outer loops that are still one nest run in parallel. An index of several is divided by dynamic extents, which costs
  // little where each iteration has many steps.
  constexpr int64_t kEnough = 16;
  std::vector<LoopRV> outer;
  int64_t parts = 1;
  bool dynamic = false;
  constexpr int64_t kFewSteps = 64;  // loops of as many are written out
  const bool many = HasMoreSteps(node, kFewSteps);
  for (size_t i = shared; i < spatial && i < loops.size(); ++i) {
    tir::For loop = sch.Get(loops[i]);
    if (loop->kind != tir::ForKind::kSerial) break;
    const int64_t extent = Extent(sch, loops[i]);
    dynamic |= extent < 0;
    if (dynamic && parts >= kEnough && !many) break;
    outer.push_back(loops[i]);
    // The first is often a batch of one.
    parts *= extent >= 0 ? extent : i == 0 ? 1 : kEnough;
    if (loop->body.as<tir::ForNode>() == nullptr) break;
  }
  if (!outer.empty() && work >= kParallelWork) FuseParallel(sch, outer, work);
  if (epilogue.defined()) ScheduleInjective(sch, epilogue);
}

}  // namespace treadle::ops::cpu
