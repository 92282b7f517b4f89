// SPDX-License-Identifier: Apache-2.0
#include "targets/gpu/schedule/gpu.h"

#include <algorithm>
#include <set>

#include "treadle/schedule/analysis.h"
#include "treadle/schedule/kernel.h"

namespace treadle::ops {
namespace {

using tir::BlockRV;
using tir::LoopRV;
using tir::Schedule;

constexpr int64_t kThreadsPerBlock = 64;
const PrimExpr kRest{ObjectPtr<Object>()};

/// Loops of the block's data-parallel axes, which are its outermost.
std::vector<LoopRV> SpatialLoops(Schedule& sch, const BlockRV& block) {
  tir::Block node = sch.Get(block);
  std::vector<LoopRV> loops = sch.GetLoops(block), axes = schedule::AxisLoops(sch, block), spatial;
  for (const LoopRV& loop : loops) {
    bool data = false;
    for (size_t i = 0; i < axes.size(); ++i) {
      data |= axes[i].defined() && axes[i]->var.same_as(loop->var) &&
              node->iter_vars[i]->iter_type == tir::IterVarType::kDataPar;
    }
    if (!data) break;
    spatial.push_back(loop);
  }
  return spatial;
}

/// One thread per element; the loop of a block's threads, or null where there are no axes.
LoopRV BindSpatial(Schedule& sch, const BlockRV& block, const Target& target) {
  std::vector<LoopRV> spatial = SpatialLoops(sch, block);
  if (spatial.empty()) return LoopRV();
  LoopRV all = spatial.size() == 1 ? spatial[0] : sch.Fuse(spatial);
  const int64_t extent = schedule::Extent(sch, all);
  int64_t threads = std::max<int64_t>(1, target->GetIntAttr("max_num_threads", kThreadsPerBlock));
  if (extent > 0) threads = std::min(threads, extent);
  std::vector<LoopRV> parts = sch.Split(all, {kRest, PrimExpr(threads)});
  sch.Bind(parts[0], "blockIdx.x");
  sch.Bind(parts[1], "threadIdx.x");
  return parts[1];
}

void ScheduleBlock(Schedule& sch, const BlockRV& block, BlockRV epilogue, const Target& target) {
  if (!schedule::IsReduction(sch, block)) {
    BindSpatial(sch, block, target);
    return;
  }
  // The sum lives in a register until the element is written.
  if (SpatialLoops(sch, block).empty()) return;
  if (!epilogue.defined()) epilogue = sch.CacheWrite(block, 0, "local");
  LoopRV thread = BindSpatial(sch, epilogue, target);
  if (sch.Get(block)->writes[0]->buffer.scope() != "local") sch.SetScope(block, 0, "local");
  sch.ComputeAt(block, thread);
}

}  // namespace

tir::PrimFunc ScheduleForGpu(const tir::PrimFunc& func, const Target& target) {
  Schedule sch(func);
  for (const BlockRV& block : sch.GetBlocks()) {
    if (schedule::Work(sch, block) == 0) return func;
  }
  schedule::InlineInjective(sch);
  std::set<std::string> done;
  tir::PrimFunc result = sch.func();
  std::vector<std::string> names;
  for (const BlockRV& block : sch.GetBlocks()) names.push_back(block->name);
  for (const std::string& name : names) {
    if (!done.insert(name).second) continue;
    Schedule trial(result);
    BlockRV block = trial.GetBlock(name);
    if (trial.Get(block)->iter_vars.empty()) continue;  // opaque: a statement of the operator's own
    try {
      BlockRV epilogue = schedule::IsReduction(trial, block) ? schedule::EpilogueOf(trial, block) : BlockRV();
      const std::string consumer = epilogue.defined() ? epilogue->name : "";
      ScheduleBlock(trial, block, epilogue, target);
      if (!consumer.empty()) done.insert(consumer);
      result = trial.func();
    } catch (const tir::ScheduleError& e) {
      schedule::ChoiceLog::Note(StrCat("# block ", name, " runs in a kernel of one thread: ", e.what()));
    }
  }
  return result;
}

}  // namespace treadle::ops
