// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/schedule/cpu/cpu.h"

namespace treadle::ops::cpu {
namespace {

const PrimExpr kRest{ObjectPtr<Object>()};
constexpr int kTailLanes = 8;

/// Reduces along contiguous memory: partial results in the lanes of a vector, combined at the end.
bool VectorizeAlongReduction(Schedule& sch, const BlockRV& block, int axis) {
  std::vector<LoopRV> axes = AxisLoops(sch, block);
  LoopRV k = axes[static_cast<size_t>(axis)];
  if (!k.defined()) return false;
  int64_t extent = Extent(sch, k);
  int lanes = std::min(VectorLanes(extent), 8);
  if (lanes < 4 || extent <= lanes) return false;
  // Several vectors of partial results hide the latency of the additions; combining them must stay cheap.
  int unroll = 1;
  while (unroll < 4 && extent % (lanes * unroll * 2) == 0 && extent >= lanes * unroll * 8) unroll *= 2;
  size_t spatial = 0;
  tir::Block node = sch.Get(block);
  for (const tir::IterVar& v : node->iter_vars) spatial += v->iter_type == tir::IterVarType::kDataPar;
  std::vector<LoopRV> parts = sch.Split(k, {kRest, PrimExpr(int64_t{unroll} * lanes)});
  std::vector<LoopRV> loops = sch.GetLoops(block);
  BlockRV partial = sch.RFactor(parts[1], static_cast<int>(spatial));
  std::vector<LoopRV> final_loops = sch.GetLoops(block);
  if (spatial > 0) sch.ComputeAt(partial, final_loops[spatial - 1]);
  sch.SetScope(partial, 0, "local");
  // Within: other reduction loops, then the lanes.
  std::vector<LoopRV> inner = AxisLoops(sch, partial);
  tir::Block partial_node = sch.Get(partial);
  LoopRV lane_loop;
  std::vector<LoopRV> reduce_loops;
  for (size_t i = 0; i < inner.size(); ++i) {
    if (!inner[i].defined()) continue;
    if (partial_node->iter_vars[i]->iter_type == tir::IterVarType::kCommReduce) {
      reduce_loops.push_back(inner[i]);
    } else if (Extent(sch, inner[i]) == int64_t{unroll} * lanes) {
      lane_loop = inner[i];
    }
  }
  if (!lane_loop.defined() || reduce_loops.empty()) return true;
  std::vector<LoopRV> order = reduce_loops;
  order.push_back(lane_loop);
  sch.Reorder(order);
  BlockRV init = sch.DecomposeReduction(partial, reduce_loops[0]);
  auto vectorize = [&](const LoopRV& loop) {
    if (unroll == 1) return sch.Vectorize(loop);
    std::vector<LoopRV> split = sch.Split(loop, {PrimExpr(int64_t{unroll}), PrimExpr(int64_t{lanes})});
    sch.Unroll(split[0]);
    sch.Vectorize(split[1]);
  };
  vectorize(lane_loop);
  std::vector<LoopRV> init_loops = sch.GetLoops(init);
  if (!init_loops.empty() && Extent(sch, init_loops.back()) == int64_t{unroll} * lanes) vectorize(init_loops.back());
  return true;
}

/// Neighbouring results read neighbouring elements. Few of them stay in registers for the whole reduction; of more, a
/// stretch stays in the first-level cache, so that memory is read in long runs.
void VectorizeResults(Schedule& sch, const BlockRV& block, const LoopRV& last, std::vector<LoopRV> reduce, int lanes) {
  constexpr int64_t kRegisters = 4, kShortest = 16, kStretch = 128, kSteps = 4, kParts = 4;
  int64_t vectors = Extent(sch, last) / lanes, steps = Extent(sch, reduce.back());
  if (Extent(sch, last) % lanes != 0) vectors = 1;
  bool stream = vectors > kRegisters && steps % kSteps == 0 && steps > kSteps;
  // Long stretches, but enough of them for threads to share.
  const int64_t most = stream ? std::clamp(vectors / kParts, kShortest, kStretch) : kRegisters;
  int64_t inner = 1;
  for (int64_t n = 1; n <= most; ++n) {
    if (vectors % n == 0) inner = n;
  }
  std::vector<LoopRV> parts = sch.Split(last, {kRest, PrimExpr(inner), PrimExpr(int64_t{lanes})});
  std::vector<LoopRV> order;
  if (stream) {
    std::vector<LoopRV> split = sch.Split(reduce.back(), {kRest, PrimExpr(kSteps)});
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

}  // namespace

void ScheduleReduction(Schedule& sch, const BlockRV& block, const BlockRV& epilogue) {
  double work = Work(sch, block);
  tir::Block node = sch.Get(block);
  size_t spatial = 0;
  for (const tir::IterVar& v : node->iter_vars) spatial += v->iter_type == tir::IterVarType::kDataPar;
  int contiguous = ContiguousAxis(sch, block);

  if (contiguous >= 0 && static_cast<size_t>(contiguous) + 1 == spatial &&
      node->iter_vars[static_cast<size_t>(contiguous)]->iter_type == tir::IterVarType::kDataPar) {
    // Neighbouring results read neighbouring elements: a vector of results per pass over the reduction.
    std::vector<LoopRV> loops = sch.GetLoops(block);
    LoopRV last = loops[spatial - 1];
    int64_t extent = Extent(sch, last);
    int lanes = VectorLanes(extent);
    if (lanes == 0 && extent > kTailLanes) lanes = kTailLanes;  // the tail is split off
    std::vector<LoopRV> reduce(loops.begin() + static_cast<std::ptrdiff_t>(spatial), loops.end());
    if (lanes != 0) VectorizeResults(sch, block, last, reduce, lanes);
  } else if (contiguous >= 0 &&
             node->iter_vars[static_cast<size_t>(contiguous)]->iter_type == tir::IterVarType::kCommReduce) {
    VectorizeAlongReduction(sch, block, contiguous);
  }
  std::vector<LoopRV> loops = sch.GetLoops(block);
  // Outer loops that are still one nest run in parallel.
  std::vector<LoopRV> outer;
  for (size_t i = 0; i < spatial && i < loops.size(); ++i) {
    tir::For loop = sch.Get(loops[i]);
    if (loop->kind != tir::ForKind::kSerial) break;
    outer.push_back(loops[i]);
    if (loop->body.as<tir::ForNode>() == nullptr) break;
  }
  if (!outer.empty() && work >= kParallelWork) FuseParallel(sch, outer, work);
  if (epilogue.defined()) ScheduleInjective(sch, epilogue);
}

}  // namespace treadle::ops::cpu
