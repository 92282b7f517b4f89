// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/schedule/short_rows.h"

#include <algorithm>

#include "targets/cpu/schedule/block_reads.h"
#include "targets/cpu/schedule/cpu.h"
#include "targets/cpu/schedule/rows.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/structural.h"
#include "treadle/schedule/kernel.h"
#include "treadle/te/stage.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::ops {
namespace cpu {
namespace {

/// Elements of a row up to which a masked vector takes longer than what this file makes of them: if they are moved, and
/// if they are reduced, where vectors of partial results are combined besides.
constexpr int64_t kFewMoved = 4, kFewReduced = 8;
constexpr int64_t kLanes = 16;

/// What is short.
struct Rows {
  PrimExpr extent;  ///< of the axis along which the default schedule makes vectors; null: there is none
  int64_t few = kFewReduced;
};

bool IsShort(const tir::Block& node, size_t axis, const PrimExpr& extent) {
  return StructuralEqual(node->iter_vars[axis]->dom->extent, extent);
}

/// Whether elements along the axis are taken apart into indices by division, which short rows would do over and over.
bool IsDivided(const tir::Block& node, size_t axis) {
  const tir::VarNode* var = node->iter_vars[axis]->var.get();
  bool found = false;
  tir::PostOrderVisit(node->body, [&](const ObjectRef& e) {
    const auto* div = e.as<tir::FloorDivNode>();
    const auto* mod = e.as<tir::FloorModNode>();
    if (div == nullptr && mod == nullptr) return;
    found = found ||
            arith::UsesVar(div != nullptr ? div->a : mod->a, [&](const tir::VarNode* used) { return used == var; });
  });
  return found;
}

/// The last of the first `count` axes that has many elements as far as is known; -1: none has.
int LongAxis(const tir::Block& node, size_t count, const PrimExpr& extent) {
  for (size_t i = count; i-- > 0;) {
    const int64_t known = ExtentOf(node, i);
    if ((known < 0 || known >= kLanes) && !IsShort(node, i, extent)) return static_cast<int>(i);
  }
  return -1;
}

bool IsOfSoftmax(Schedule& sch, const BlockRV& block) {
  const std::string text = TagOf(sch, block).text;
  if (text == te::tag::kSoftmaxExp || text == te::tag::kSoftmaxOutput) return true;
  const std::vector<BlockRV> consumers = sch.GetConsumers(block);
  return IsReduction(sch, block) && std::any_of(consumers.begin(), consumers.end(), [&](const BlockRV& consumer) {
           const std::string reader = TagOf(sch, consumer).text;
           return reader == te::tag::kSoftmaxExp || reader == te::tag::kSoftmaxOfSum;
         });
}

/// The axis of the block that may be short; -1: vectors aren't made along one of dynamic length.
int DynamicRow(Schedule& sch, const BlockRV& block) {
  const tir::Block node = sch.Get(block);
  const size_t spatial = SpatialAxesOf(node);
  if (!IsReduction(sch, block)) {
    if (IsFlatElementwise(sch, block) || ExtentOf(node, spatial - 1) >= 0) return -1;
    return static_cast<int>(spatial) - 1;
  }
  const int axis = ContiguousAxis(sch, block);
  if (axis < 0 || ExtentOf(node, static_cast<size_t>(axis)) >= 0) return -1;
  const bool along = static_cast<size_t>(axis) >= spatial;
  // Of neighbouring results, vectors of the default schedule are worth it where little else is computed.
  return along ? (IsAnyOrder(node) ? axis : -1) : (IsOfSoftmax(sch, block) ? axis : -1);
}

bool IsForKernels(Schedule& sch, const BlockRV& block) {
  const tir::Block node = sch.Get(block);
  if (node->iter_vars.empty() || SpatialAxesOf(node) == 0 || !schedule::StageOf(sch, block).kernel.empty()) return true;
  const te::Tag tag = TagOf(sch, block);
  return tag.reuses_operands() || tag.pads || node->annotations.contains(te::kRowAxis) ||
         sch.GetLoops(block).size() != node->iter_vars.size();
}

/// Whether a size may be as small as `few`, by what it is where those that a run tells are 0: padding makes it longer.
bool MayBeShort(const PrimExpr& extent, int64_t few) {
  Map<tir::Var, PrimExpr> zeros;
  tir::PostOrderVisit(extent, [&](const ObjectRef& e) {
    if (const auto* var = e.as<tir::VarNode>()) zeros.Set(GetRef<tir::Var>(var), tir::make_zero(var->dtype));
  });
  arith::Analyzer analyzer;
  const PrimExpr least = analyzer.Simplify(tir::Substitute(extent, zeros));
  const int64_t* value = AsConstInt(least);
  return value == nullptr || *value <= few;
}

/// The rows that all blocks with rows of dynamic length have.
Rows FindRows(Schedule& sch) {
  Rows rows;
  bool has_neighbours = false;
  std::set<std::string> epilogues;
  for (const BlockRV& block : sch.GetBlocks()) {
    if (IsForKernels(sch, block)) return Rows();
    if (epilogues.count(block->name) != 0) continue;
    if (IsReduction(sch, block)) {
      if (const BlockRV epilogue = EpilogueOf(sch, block); epilogue.defined()) epilogues.insert(epilogue->name);
    }
    const int axis = DynamicRow(sch, block);
    if (axis < 0) continue;
    const tir::Block node = sch.Get(block);
    const PrimExpr extent = node->iter_vars[static_cast<size_t>(axis)]->dom->extent;
    const int across = LongAxis(node, SpatialAxesOf(node), extent);
    if (across >= 0 && IsDivided(node, static_cast<size_t>(across))) return Rows();
    has_neighbours = has_neighbours || across >= 0;
    if (rows.extent.defined() && !StructuralEqual(rows.extent, extent)) return Rows();
    rows.extent = extent;
    // Of a softmax elements cost as much as a reduction of them, but vectors along columns have to be worth it, too.
    const bool of_columns = IsReduction(sch, block) && static_cast<size_t>(axis) < SpatialAxesOf(node);
    if (of_columns || !(IsReduction(sch, block) || IsOfSoftmax(sch, block))) rows.few = kFewMoved;
  }
  return has_neighbours && MayBeShort(rows.extent, rows.few) ? rows : Rows();
}

/// Whether so much is computed for each element that vectors are gathered for it.
bool Computes(const tir::Block& node) {
  bool found = false;
  tir::PostOrderVisit(node->body, [&](const ObjectRef& e) {
    const auto* call = e.as<tir::CallNode>();
    found = found || (call != nullptr && tir::CostOf(call) == tir::CallCost::kFunction);
  });
  return found;
}

/// Stretches across rows, for each of the elements of a row.
void MoveAcross(Schedule& sch, const BlockRV& block, const PrimExpr& extent) {
  constexpr int64_t kStretch = 256;
  const tir::Block node = sch.Get(block);
  const int found = LongAxis(node, node->iter_vars.size(), extent);
  if (found < 0) return;
  const double work = Work(sch, block) * ElementCost(sch, block);
  std::vector<LoopRV> loops = sch.GetLoops(block);
  const auto across = static_cast<size_t>(found);
  const bool vectors = Computes(node);
  const std::vector<LoopRV> parts = sch.Split(loops[across], {kRest, PrimExpr(vectors ? kLanes : kStretch)});
  std::vector<LoopRV> outer, order, within;
  for (size_t i = 0; i < loops.size(); ++i) {
    if (i == across) {
      outer.push_back(parts[0]);
    } else {
      (IsShort(node, i, extent) ? within : outer).push_back(loops[i]);
    }
  }
  order = outer;
  order.insert(order.end(), within.begin(), within.end());
  order.push_back(parts[1]);
  sch.Reorder(order);
  if (vectors) sch.Vectorize(parts[1]);
  FuseParallel(sch, outer, work);
}

/// A vector of neighbouring rows is reduced at a time. Whether that was done.
bool ReduceAcross(Schedule& sch, const BlockRV& block, const BlockRV& epilogue, const PrimExpr& extent) {
  const tir::Block node = sch.Get(block);
  const size_t spatial = SpatialAxesOf(node);
  const int found = LongAxis(node, spatial, extent);
  if (node->writes.size() != 1 || found < 0) return false;
  const double work = Work(sch, block);
  const auto across = static_cast<size_t>(found);
  const BlockRV out = epilogue.defined() ? epilogue : sch.CacheWrite(block, 0, "local");
  const std::vector<LoopRV> loops = sch.GetLoops(out);
  if (loops.size() != spatial) return false;
  const std::vector<LoopRV> parts = sch.Split(loops[across], {kRest, PrimExpr(kLanes)});
  std::vector<LoopRV> outer(loops.begin(), loops.begin() + found), order;
  outer.push_back(parts[0]);
  order = outer;
  order.insert(order.end(), loops.begin() + found + 1, loops.end());
  const LoopRV at = order.back();
  order.push_back(parts[1]);
  if (order.size() > 1) sch.Reorder(order);
  ComputeTile(sch, block, at, {}, found);
  sch.Vectorize(parts[1]);
  FuseParallel(sch, outer, work);
  return true;
}

/// A reduction of few neighbouring columns, in vectors along each. Whether that was done.
bool ReduceColumns(Schedule& sch, const BlockRV& block) {
  const tir::Block node = sch.Get(block);
  if (ContiguousAxis(sch, block) >= static_cast<int>(SpatialAxesOf(node)) || !IsAnyOrder(node)) return false;
  const LoopRV along = JoinedReduction(sch, block, node->iter_vars.size() - 1);
  const PartialVectors vectors = ChoosePartialVectors(node, Extent(sch, along));
  if (vectors.lanes == 0) return true;
  const Partials partials = FactorReduction(sch, block, along, vectors);
  std::set<std::string> made;
  ComputePartialsAt(sch, partials, sch.GetLoops(block)[SpatialAxesOf(node) - 1], &made);
  return true;
}

std::optional<schedule::ShortForm> Scheduled(const tir::PrimFunc& func) {
  tir::Schedule sch(func);
  InlineInjective(sch);
  const Rows rows = FindRows(sch);
  if (!rows.extent.defined()) return std::nullopt;
  std::set<std::string> done;
  for (const BlockRV& block : sch.GetBlocks()) {
    if (!done.insert(block->name).second) continue;
    if (!IsReduction(sch, block)) {
      MoveAcross(sch, block, rows.extent);
      continue;
    }
    if (ReduceColumns(sch, block)) continue;
    const BlockRV epilogue = EpilogueOf(sch, block);
    if (epilogue.defined()) done.insert(epilogue->name);
    if (ReduceAcross(sch, block, epilogue, rows.extent)) continue;
    if (epilogue.defined()) MoveAcross(sch, epilogue, rows.extent);
  }
  const PrimExpr few = tir::make_const(rows.extent.dtype(), rows.few);
  return schedule::ShortForm{tir::less_equal(rows.extent, few), sch.func()};
}

}  // namespace
}  // namespace cpu

std::optional<schedule::ShortForm> ScheduleShortRows(const tir::PrimFunc& func) {
  try {
    return cpu::Scheduled(func);
  } catch (const tir::ScheduleError& e) {
    schedule::ChoiceLog::Note(StrCat("# no form for short rows: ", e.what()));
    return std::nullopt;
  }
}

}  // namespace treadle::ops
