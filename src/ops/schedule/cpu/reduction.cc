// SPDX-License-Identifier: Apache-2.0
#include "ops/schedule/cpu/cpu.h"

namespace treadle::ops::cpu {
namespace {

const PrimExpr kRest{ObjectPtr<Object>()};
constexpr int kTailLanes = 8;

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
    if (lanes != 0) {
      std::vector<LoopRV> parts{LoopRV(), last};
      if (Extent(sch, last) != lanes) parts = sch.Split(last, {kRest, PrimExpr(int64_t{lanes})});
      std::vector<LoopRV> order = reduce;
      order.push_back(parts[1]);
      sch.Reorder(order);
      BlockRV init = sch.DecomposeReduction(block, reduce[0]);
      sch.Vectorize(parts[1]);
      std::vector<LoopRV> init_loops = sch.GetLoops(init);
      if (Extent(sch, init_loops.back()) == lanes) sch.Vectorize(init_loops.back());
    }
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
