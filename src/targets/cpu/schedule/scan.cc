// SPDX-License-Identifier: Apache-2.0
// Steps of scans that each element takes by itself: stretches of a row go through all steps while they are in the
// first-level cache, and are shared by threads.
#include "targets/cpu/schedule/scan.h"

#include <algorithm>

#include "targets/cpu/schedule/block_reads.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::ops::cpu {
namespace {

/// Elements of a row that take all steps before the next ones do: of rows of what is read, cache lines stay until they
/// are used up where neighbours are far apart, and long runs are read where they aren't.
int64_t Stretch(const tir::Block& node, int64_t width, int64_t lanes) {
  constexpr int64_t kLong = 1024, kShort = 64, kParts = 8;
  const tir::Var last = node->iter_vars.back()->var;
  const std::vector<const tir::BufferLoadNode*> loads = LoadsOf(node);
  const bool far = std::any_of(loads.begin(), loads.end(), [&](const tir::BufferLoadNode* load) {
    const auto stride = StrideAlong(node, load, last);
    return !stride || *stride > 1 || *stride < 0;
  });
  const int64_t most = far ? kShort : kLong;
  return std::clamp(width / kParts / lanes * lanes, std::min(lanes, width), most);
}

/// Lanes of the widest vector of results that a row of `width` fills; of an unknown width 1.
int64_t LanesOf(const tir::Block& node, int64_t width, const schedule::Machine& machine) {
  int64_t lanes = std::max(1, machine.vector_bits / node->writes[0]->buffer->dtype.bits());
  while (lanes > std::max<int64_t>(1, width)) lanes /= 2;
  return lanes;
}

}  // namespace

void ScheduleStep(Schedule& sch, const BlockRV& block, const schedule::Machine& machine) {
  const tir::Block node = sch.Get(block);
  const size_t shared = SharedLoops(sch, block);
  const std::vector<LoopRV> loops = sch.GetLoops(block);
  double work = Work(sch, block) * ElementCost(sch, block);
  for (size_t i = 0; i < shared; ++i) work /= static_cast<double>(std::max<int64_t>(1, Extent(sch, loops[i])));
  if (shared == loops.size()) return;
  const LoopRV last = loops.back();
  const int64_t lanes = LanesOf(node, Extent(sch, last), machine);
  if (lanes > 1) sch.Vectorize(sch.Split(last, {kRest, PrimExpr(lanes)})[1]);
  const std::vector<LoopRV> outer(loops.begin() + static_cast<std::ptrdiff_t>(shared), loops.end() - 1);
  if (!outer.empty()) FuseParallel(sch, outer, work);
}

bool ScheduleScan(Schedule& sch, const BlockRV& block, const schedule::Machine& machine) {
  const tir::Block node = sch.Get(block);
  const size_t rank = node->iter_vars.size();
  std::vector<LoopRV> loops = sch.GetLoops(block);
  if (loops.size() != rank || rank < 2 || node->writes.size() != 1 || IsReduction(sch, block)) return false;
  for (size_t i = 0; i < rank; ++i) {
    const bool ordered = node->iter_vars[i]->iter_type == tir::IterVarType::kOrdered;
    if (ordered != (i == 0) || !AxisLoops(sch, block)[i].defined()) return false;
  }
  const double work = Work(sch, block) * ElementCost(sch, block);
  const int64_t width = ExtentOf(node, rank - 1);
  if (width < 0) return false;  // a row of unknown length may be shorter than a stretch
  const int64_t lanes = LanesOf(node, width, machine);
  const int64_t stretch = Stretch(node, width, lanes);
  const std::vector<LoopRV> parts = sch.Split(loops.back(), {kRest, PrimExpr(stretch)});
  std::vector<LoopRV> outer(loops.begin() + 1, loops.end() - 1);
  outer.push_back(parts[0]);
  std::vector<LoopRV> order = outer;
  order.insert(order.end(), {loops[0], parts[1]});
  sch.Reorder(order);
  if (lanes > 1) sch.Vectorize(sch.Split(parts[1], {kRest, PrimExpr(lanes)})[1]);
  FuseParallel(sch, outer, work);
  return true;
}

}  // namespace treadle::ops::cpu
