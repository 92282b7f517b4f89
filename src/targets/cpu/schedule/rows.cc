// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/schedule/rows.h"

#include <algorithm>

#include "targets/cpu/schedule/block_reads.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/schedule/stage.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::ops::cpu {
namespace {

constexpr int64_t kWidest = 16;

/// What is computed of each row before the output is.
struct RowChain {
  size_t axes = 0;               ///< the leading ones, which say which row it is
  std::vector<BlockRV> members;  ///< the last one first
  size_t reductions = 0;
  int64_t bytes = 0;  ///< of a row of everything that is stored between them
  double work = 0;
};

/// The data-parallel axes up to the last one that isn't just one element.
size_t RowAxes(const tir::Block& node) {
  size_t axes = SpatialAxesOf(node);
  while (axes > 0 && ExtentOf(node, axes - 1) == 1) --axes;
  return axes;
}

bool HasLeadingAxes(const tir::Block& node, size_t axes) {
  if (SpatialAxesOf(node) < axes) return false;
  for (size_t i = 0; i < axes; ++i) {
    if (node->iter_vars[i]->iter_type != tir::IterVarType::kDataPar) return false;
  }
  return true;
}

/// Whether `consumer` reads of `buffer` only what belongs to the same row.
bool ReadsItsRow(const tir::Block& consumer, const tir::Buffer& buffer, size_t axes) {
  if (!HasLeadingAxes(consumer, axes)) return false;
  bool same = true;
  for (const tir::BufferLoadNode* load : LoadsOf(consumer)) {
    if (!load->buffer.same_as(buffer)) continue;
    same = same && load->indices.size() >= axes;
    for (size_t i = 0; same && i < axes; ++i) {
      const bool only = tir::is_zero(load->indices[i]) && ExtentOf(consumer, i) == 1;
      same = only || load->indices[i].same_as(consumer->iter_vars[i]->var);
    }
  }
  return same;
}

/// Whether the block reduces contiguous rows, each to one result.
bool ReducesRows(Schedule& sch, const BlockRV& block, size_t axes) {
  const tir::Block node = sch.Get(block);
  const int contiguous = ContiguousAxis(sch, block);
  return RowAxes(node) == axes && contiguous >= 0 && IsAnyOrder(node) &&
         node->iter_vars[static_cast<size_t>(contiguous)]->iter_type == tir::IterVarType::kCommReduce &&
         static_cast<size_t>(contiguous) + 1 == node->iter_vars.size() &&
         ExtentOf(node, node->iter_vars.size() - 1) != 0;
}

/// Whether vectors of neighbours along the last axis are loaded as such.
bool IsVectorRow(const tir::Block& node) {
  const tir::Var last = node->iter_vars.back()->var;
  const std::vector<const tir::BufferLoadNode*> loads = LoadsOf(node);
  return std::all_of(loads.begin(), loads.end(), [&](const tir::BufferLoadNode* load) {
    const auto stride = StrideAlong(node, load, last);
    return stride && (*stride == 0 || *stride == 1);
  });
}

bool IsPlainNest(Schedule& sch, const BlockRV& block) {
  const tir::Block node = sch.Get(block);
  return !node->iter_vars.empty() && node->writes.size() == 1 && SharedLoops(sch, block) == 0 &&
         sch.GetLoops(block).size() == node->iter_vars.size();
}

/// Whether the block can be computed row by row. Rows of a length that only a run knows may be the result's, but aren't
/// stored between.
bool IsOfRows(Schedule& sch, const BlockRV& block, size_t axes, bool is_output) {
  if (!IsPlainNest(sch, block) || !schedule::StageOf(sch, block).kernel.empty()) return false;
  const tir::Block node = sch.Get(block);
  if (!HasLeadingAxes(node, axes)) return false;
  if (IsReduction(sch, block)) return ReducesRows(sch, block, axes);
  const size_t rank = node->iter_vars.size();
  if (SpatialAxesOf(node) != rank) return false;
  for (size_t i = axes; i < rank; ++i) {
    if (const int64_t extent = ExtentOf(node, i); extent == 0 || (extent < 0 && !is_output)) return false;
  }
  return rank == axes || IsVectorRow(node);
}

RowChain FindChain(Schedule& sch, const BlockRV& output, size_t axes, const std::set<std::string>& done) {
  RowChain chain;
  chain.axes = axes;
  if (!IsOfRows(sch, output, axes, true)) return chain;
  const std::vector<BlockRV> blocks = sch.GetBlocks();
  std::set<std::string> in{output->name};
  chain.work = Work(sch, output) * ElementCost(sch, output);
  auto belongs = [&](const BlockRV& block) {
    if (done.count(block->name) != 0 || in.count(block->name) != 0 || sch.IsOutput(block)) return false;
    const std::vector<BlockRV> consumers = sch.GetConsumers(block);
    if (consumers.empty() || !IsOfRows(sch, block, axes, false)) return false;
    const tir::Buffer buffer = sch.Get(block)->writes[0]->buffer;
    return std::all_of(consumers.begin(), consumers.end(), [&](const BlockRV& consumer) {
      return in.count(consumer->name) != 0 && ReadsItsRow(sch.Get(consumer), buffer, axes);
    });
  };
  // Those that read a block come after it.
  for (size_t i = blocks.size(); i-- > 0;) {
    if (!belongs(blocks[i])) continue;
    const tir::Block node = sch.Get(blocks[i]);
    in.insert(blocks[i]->name);
    chain.members.push_back(blocks[i]);
    chain.reductions += IsReduction(sch, blocks[i]);
    int64_t elements = 1;
    for (size_t axis = axes; axis < SpatialAxesOf(node); ++axis) elements *= ExtentOf(node, axis);
    chain.bytes += elements * node->writes[0]->buffer->dtype.bits() / 8;
    chain.work += Work(sch, blocks[i]) * ElementCost(sch, blocks[i]);
  }
  return chain;
}

/// The chain of the most reductions that ends in the block.
RowChain BestChain(Schedule& sch, const BlockRV& output, const std::set<std::string>& done) {
  RowChain best;
  const size_t rank = SpatialAxesOf(sch.Get(output));
  for (size_t axes = rank; axes > 0; --axes) {
    RowChain chain = FindChain(sch, output, axes, done);
    if (chain.reductions > best.reductions) best = std::move(chain);
  }
  return best;
}

/// Whether computing it row by row gains: a row is read again, or its results are.
bool IsWorthIt(Schedule& sch, const BlockRV& output, const RowChain& chain, const schedule::Machine& machine) {
  if (chain.reductions == 0 || chain.bytes > machine.l2_bytes / 2) return false;
  const tir::Block node = sch.Get(output);
  const bool writes_rows = !IsReduction(sch, output) && RowAxes(node) > chain.axes;
  if (!writes_rows && chain.reductions + (IsReduction(sch, output) ? 1 : 0) < 2) return false;
  // Few long rows are shared by threads block by block.
  constexpr int64_t kRowsPerThread = 2;
  int64_t rows = 1;
  for (size_t i = 0; i < chain.axes && rows > 0; ++i) {
    const int64_t extent = ExtentOf(node, i);
    rows = extent < 0 ? -1 : rows * extent;
  }
  return rows < 0 || chain.work < kParallelWork || machine.num_cores <= 1 || rows >= kRowsPerThread * machine.num_cores;
}

/// Vectors along the last of the loops of a row, with those before it where all are one run of memory.
void VectorizeRow(Schedule& sch, const BlockRV& block, std::vector<LoopRV> loops, size_t axes) {
  const tir::Block node = sch.Get(block);
  while (loops.size() > 1 && axes + 2 <= node->iter_vars.size()) {
    const size_t first = axes + loops.size() - 2;
    if (!AreOneRow(node, static_cast<int>(first))) break;
    loops[loops.size() - 2] = sch.Fuse({loops[loops.size() - 2], loops.back()});
    loops.pop_back();
    break;  // of more than two the block's axes are no longer neighbours
  }
  const int64_t extent = Extent(sch, loops.back());
  int64_t lanes = extent < 0 ? kWidest : VectorLanes(extent);
  if (lanes == 0) lanes = kWidest;
  while (extent >= 0 && lanes > extent) lanes /= 2;
  if (lanes < 2) return;
  if (lanes == extent) return sch.Vectorize(loops.back());
  sch.Vectorize(sch.Split(loops.back(), {kRest, PrimExpr(lanes)})[1]);
}

}  // namespace

Partials PartialsOf(Schedule& sch, const BlockRV& block) {
  const tir::Block node = sch.Get(block);
  const LoopRV k = JoinedReduction(sch, block, static_cast<size_t>(ContiguousAxis(sch, block)));
  const PartialVectors vectors = k.defined() ? ChoosePartialVectors(node, Extent(sch, k)) : PartialVectors();
  return vectors.lanes == 0 ? Partials() : FactorReduction(sch, block, k, vectors);
}

void ComputePartialsAt(Schedule& sch, const Partials& partials, const LoopRV& at, std::set<std::string>* done) {
  if (!partials.lanes.defined()) return;
  ComputeFewerAt(sch, partials, at, done);
  sch.ComputeAt(partials.lanes, at);
  sch.SetScope(partials.lanes, 0, "local");
  const BlockRV init =
      VectorizePartial(sch, partials.lanes, LoopsUnder(sch, partials.lanes, at), LoopRV(), partials.vectors);
  done->insert(partials.lanes->name);
  if (init.defined()) done->insert(init->name);
}

bool ScheduleRows(Schedule& sch, const BlockRV& output, const schedule::Machine& machine, std::set<std::string>* done) {
  if (SpatialAxesOf(sch.Get(output)) == 0 || !IsPlainNest(sch, output)) return false;
  const RowChain chain = BestChain(sch, output, *done);
  if (!IsWorthIt(sch, output, chain, machine)) return false;
  std::set<std::string> made{output->name};
  const bool reduces = IsReduction(sch, output);
  const Partials last = reduces ? PartialsOf(sch, output) : Partials();
  const std::vector<LoopRV> loops = sch.GetLoops(output);
  const auto rows_end = loops.begin() + static_cast<std::ptrdiff_t>(chain.axes);
  if (!reduces && rows_end != loops.end()) VectorizeRow(sch, output, {rows_end, loops.end()}, chain.axes);
  const LoopRV at = *(rows_end - 1);
  ComputePartialsAt(sch, last, at, &made);
  for (const BlockRV& member : chain.members) {
    made.insert(member->name);
    if (IsReduction(sch, member)) {
      const Partials partials = PartialsOf(sch, member);
      sch.ComputeAt(member, at);
      sch.SetScope(member, 0, "local");
      ComputePartialsAt(sch, partials, at, &made);
      continue;
    }
    sch.ComputeAt(member, at);
    std::vector<LoopRV> row;
    for (const LoopRV& loop : LoopsUnder(sch, member, at)) {
      if (loop.defined()) row.push_back(loop);
    }
    const bool all = row.size() + chain.axes == sch.Get(member)->iter_vars.size();
    if (!row.empty()) VectorizeRow(sch, member, all ? row : std::vector<LoopRV>{row.back()}, chain.axes);
  }
  // At last: what is computed within a fused loop of dynamic extents would be tested for being a row.
  FuseParallel(sch, {loops.begin(), rows_end}, chain.work);
  done->insert(made.begin(), made.end());
  return true;
}

}  // namespace treadle::ops::cpu
