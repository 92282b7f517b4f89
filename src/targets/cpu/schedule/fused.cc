// SPDX-License-Identifier: Apache-2.0
// The schedule of a fused function: what can be is computed inside its consumer, each remaining nest is scheduled by
// its kind.
#include <functional>
#include <set>

#include "targets/cpu/schedule/block_reads.h"
#include "targets/cpu/schedule/cpu.h"
#include "targets/cpu/schedule/rows.h"
#include "targets/cpu/schedule/scan.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/schedule/kernel.h"
#include "treadle/te/stage.h"
#include "treadle/tir/any_expressions.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::ops {
namespace cpu {
namespace {

bool IsPool(Schedule& sch, const BlockRV& block) {
  return TagOf(sch, block).kind == te::ComputeKind::kPool && sch.Get(block)->writes.size() == 1;
}

/// Whether the block pads the input of pooling, or reduces columns of its windows, and does nothing else.
bool IsPartOfPool(Schedule& sch, const BlockRV& block) {
  if (sch.IsOutput(block) || (IsReduction(sch, block) ? !IsPool(sch, block) : !TagOf(sch, block).pads)) return false;
  std::vector<BlockRV> consumers = sch.GetConsumers(block);
  return consumers.size() == 1 && IsReduction(sch, consumers[0]) && IsPool(sch, consumers[0]);
}

/// Whether `apply` did what it's for; where it didn't, or failed, nothing is done.
bool Try(Schedule& sch, const BlockRV& block, const char* what, const std::function<bool()>& apply) {
  Schedule before = sch.Copy();
  try {
    if (apply()) return true;
  } catch (const tir::ScheduleError& e) {
    schedule::ChoiceLog::Note(StrCat("# block ", block->name, " has no ", what, ": ", e.what()));
  }
  sch = std::move(before);
  return false;
}

/// Schedules pooling with what pads its input.
void ScheduleAnyPool(Schedule& sch, const BlockRV& block, const BlockRV& epilogue, const schedule::Machine& machine) {
  const tir::Block node = sch.Get(block);
  const size_t blocked = 5;
  if (node->writes[0]->buffer->shape.size() == blocked && SpatialAxesOf(node) + 2 == node->iter_vars.size()) {
    return SchedulePool(sch, block, epilogue, machine);
  }
  if (Try(sch, block, "rows of windows", [&] { return ScheduleRowPool(sch, block, epilogue); })) return;
  const BlockRV columns = ColumnsOf(sch, block);
  if (const BlockRV pad = PaddingOf(sch, columns.defined() ? columns : block); pad.defined())
    ScheduleInjective(sch, pad);
  if (columns.defined()) ScheduleReduction(sch, columns, BlockRV());
  ScheduleReduction(sch, block, epilogue);
}

/// The axis of rows of a block of rows that are made just before use; -1 where it isn't one.
int64_t RowAxis(Schedule& sch, const BlockRV& block) {
  auto axis = sch.Get(block)->annotations.Get(te::kRowAxis);
  const auto* value = axis ? axis->as<IntImmNode>() : nullptr;
  return value != nullptr ? value->value : -1;
}

/// Where `block` reads rows that ScheduleResize can make just before, the block that makes them.
BlockRV ResizedRows(Schedule& sch, const BlockRV& block) {
  BlockRV rows;
  for (const BlockRV& producer : sch.GetProducers(block)) {
    if (RowAxis(sch, producer) >= 0 && sch.GetConsumers(producer).size() == 1) rows = producer;
  }
  if (!rows.defined()) return rows;
  const auto axis = static_cast<size_t>(RowAxis(sch, rows));
  tir::Block node = sch.Get(block);
  tir::Buffer buffer = sch.Get(rows)->writes[0]->buffer;
  const size_t rank = node->iter_vars.size();
  if (IsReduction(sch, block) || sch.GetLoops(block).size() != rank || buffer->shape.size() != rank) return BlockRV();
  bool same = true;
  tir::PostOrderVisit(node->body, [&](const ObjectRef& e) {
    const auto* load = e.as<tir::BufferLoadNode>();
    if (load == nullptr || !load->buffer.same_as(buffer)) return;
    for (size_t i = 0; i <= axis; ++i) same &= load->indices[i].same_as(node->iter_vars[i]->var);
  });
  return same ? rows : BlockRV();
}

/// Whether `block` is scheduled with the one that reads it.
bool IsResizedRow(Schedule& sch, const BlockRV& block) {
  if (RowAxis(sch, block) < 0) return false;
  std::vector<BlockRV> consumers = sch.GetConsumers(block);
  return consumers.size() == 1 && ResizedRows(sch, consumers[0]).defined();
}

/// Rows of images that are resampled are made just before a row of `block` reads them.
bool ScheduleResize(Schedule& sch, const BlockRV& block) {
  BlockRV rows = ResizedRows(sch, block);
  if (!rows.defined()) return false;
  const auto axis = static_cast<size_t>(RowAxis(sch, rows));
  std::vector<LoopRV> loops = sch.GetLoops(block);
  const double work = Work(sch, block) * ElementCost(sch, block);
  auto vectorize = [&](const LoopRV& last) {
    const int64_t extent = last.defined() ? Extent(sch, last) : 0;
    const int lanes = extent < 0 ? kDynamicLanes : VectorLanes(extent);
    if (lanes == 0) return;
    const bool whole = extent == lanes;
    sch.Vectorize(whole ? last : sch.Split(last, {PrimExpr(ObjectPtr<Object>()), PrimExpr(int64_t{lanes})})[1]);
  };
  vectorize(loops.back());
  sch.ComputeAt(rows, loops[axis]);
  vectorize(LoopsUnder(sch, rows, loops[axis]).back());
  // At last: what is computed within a fused loop of dynamic extents would be tested for being a row.
  FuseParallel(sch, {loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(axis) + 1}, work);
  return true;
}

/// Schedules an anchor by the kernel that its computation belongs to.
bool ScheduleKernel(Schedule& sch, const BlockRV& block, const schedule::Machine& machine,
                    std::set<std::string>* done) {
  const schedule::Stage stage = schedule::StageOf(sch, block);
  const schedule::Kernel* kernel = stage.is_anchor() ? schedule::FindKernel(stage.kernel) : nullptr;
  if (kernel == nullptr || !kernel->apply) return false;
  schedule::Candidate chosen;
  schedule::Problem problem;
  if (!stage.problem.empty()) {
    problem = schedule::ProblemFromJson(stage.problem);
    chosen = schedule::ChoosePlan(*kernel, problem, machine);
    chosen.Log(problem);
    if (!chosen.why_not.empty()) return false;  // its loops stay as the computation has them
  }
  auto apply = [&](const schedule::Plan& plan) {
    schedule::Stages stages(sch, block);
    kernel->apply(sch, stages, problem, machine, plan);
    for (const auto& [role, part] : stages.blocks()) done->insert(part->name);
  };
  if (!chosen.recorded) {
    apply(chosen.plan);
    return true;
  }
  // A record that can't be applied isn't a reason to fail.
  Schedule before = sch.Copy();
  try {
    apply(chosen.plan);
  } catch (const tir::ScheduleError& e) {
    schedule::ChoiceLog::Note(StrCat("# record of ", kernel->name, " left out: ", e.what()));
    sch = std::move(before);
    apply(schedule::DefaultPlan(*kernel, problem, machine).plan);
  }
  return true;
}

/// Whether the block is a product of matrices that has no kernel, because of its type or of sizes that only a run knows
/// to be equal, with as many rows and columns as a register tile is worth.
bool IsProductOfRows(Schedule& sch, const BlockRV& block) {
  constexpr int64_t kLeastRows = 4, kLeastColumns = 8;
  const tir::Block node = sch.Get(block);
  const auto* store = node->body.as<tir::BufferStoreNode>();
  const auto* sum = store == nullptr ? nullptr : store->value.as<tir::AddNode>();
  const size_t spatial = SpatialAxesOf(node);
  if (sum == nullptr || sum->b.as<tir::MulNode>() == nullptr || !sum->b.dtype().is_float()) return false;
  if (spatial < 2 || spatial + 1 != node->iter_vars.size()) return false;
  std::vector<const tir::BufferLoadNode*> vectors;
  const std::vector<const tir::BufferLoadNode*> loads = LoadsOf(node);
  for (const tir::BufferLoadNode* load : loads) {
    if (StrideAlong(node, load, node->iter_vars[spatial - 1]->var) != 0) vectors.push_back(load);
  }
  if (loads.size() != 2 || vectors.size() != 1) return false;
  const int rows = InnermostAxisOf(node, spatial - 1, vectors);
  const auto has = [&](int axis, int64_t least) {
    const int64_t extent = axis < 0 ? 0 : ExtentOf(node, static_cast<size_t>(axis));
    return extent < 0 || extent >= least;
  };
  return has(rows, kLeastRows) && has(static_cast<int>(spatial) - 1, kLeastColumns);
}

/// Schedules a product that has no kernel; false if the block is none.
bool ScheduleProduct(Schedule& sch, const BlockRV& block, const BlockRV& epilogue, const schedule::Machine& machine) {
  if (Try(sch, block, "row", [&] { return ScheduleRowProduct(sch, block, epilogue, machine); })) return true;
  return IsProductOfRows(sch, block) &&
         Try(sch, block, "register tile", [&] { return ScheduleContraction(sch, block, epilogue, machine); });
}

/// Schedules a block of a computation that no operator stands for; its loops stay as they are where nothing can be
/// done.
void ScheduleAny(Schedule& sch, const BlockRV& block, const BlockRV& epilogue, const schedule::Machine& machine) {
  auto elements = [&](const BlockRV& of) {
    const bool step = SharedLoops(sch, of) > 0;
    Try(sch, of, "vectors", [&] {
      step ? ScheduleStep(sch, of, machine) : ScheduleInjective(sch, of);
      return true;
    });
  };
  if (!IsReduction(sch, block)) {
    if (Try(sch, block, "stretches of rows", [&] { return ScheduleScan(sch, block, machine); })) return;
    return elements(block);
  }
  if (Try(sch, block, "register tile", [&] { return ScheduleContraction(sch, block, epilogue, machine); })) return;
  Try(sch, block, "vectors", [&] { return ScheduleReduction(sch, block, BlockRV()), true; });
  if (epilogue.defined()) elements(epilogue);
}

/// `any`: of expressions that no operator stands for.
void ScheduleStages(Schedule& sch, const schedule::Machine& machine, bool any) {
  std::set<std::string> done;
  for (const BlockRV& block : sch.GetBlocks()) ScheduleSoftmax(sch, block, &done);
  // From the last one: a chain is found by where it ends.
  const std::vector<BlockRV> blocks = sch.GetBlocks();
  for (size_t i = blocks.size(); i-- > 0;) {
    if (done.count(blocks[i]->name) != 0) continue;
    Try(sch, blocks[i], "rows", [&] { return ScheduleRows(sch, blocks[i], machine, &done); });
  }
  for (const BlockRV& block : sch.GetBlocks()) {
    if (!done.insert(block->name).second) continue;
    tir::Block node = sch.Get(block);
    if (node->iter_vars.empty()) continue;  // opaque: a statement of the operator's own
    if (ScheduleKernel(sch, block, machine, &done)) continue;
    if (!schedule::StageOf(sch, block).kernel.empty()) continue;  // scheduled with its anchor
    if (IsPartOfPool(sch, block)) continue;                       // scheduled with the window
    if (!IsReduction(sch, block)) {
      if (IsResizedRow(sch, block) || ScheduleResize(sch, block)) continue;
      any ? ScheduleAny(sch, block, BlockRV(), machine) : ScheduleInjective(sch, block);
      continue;
    }
    BlockRV epilogue = EpilogueOf(sch, block);
    if (epilogue.defined()) done.insert(epilogue->name);
    if (IsPool(sch, block)) {
      ScheduleAnyPool(sch, block, epilogue, machine);
    } else if (any) {
      ScheduleAny(sch, block, epilogue, machine);
    } else if (!Try(sch, block, "lookups", [&] { return ScheduleSumOfLookups(sch, block, epilogue); }) &&
               !ScheduleProduct(sch, block, epilogue, machine)) {
      ScheduleReduction(sch, block, epilogue);
    }
  }
}

}  // namespace
}  // namespace cpu

tir::PrimFunc ScheduleForCpu(const tir::PrimFunc& func, const schedule::Machine& machine) {
  tir::Schedule sch(func);
  for (const tir::BlockRV& block : sch.GetBlocks()) {
    if (cpu::Work(sch, block) == 0) return func;  // tensors without elements: nothing to make fast
  }
  cpu::InlineInjective(sch);
  cpu::ScheduleStages(sch, machine, func->HasNonzeroAttr(tir::kAnyExpressions));
  return sch.func();
}

}  // namespace treadle::ops
