// SPDX-License-Identifier: Apache-2.0
// The schedule of a fused function: what can be is computed inside its consumer, each remaining nest is scheduled by
// its kind.
#include <set>

#include "targets/cpu/schedule/cpu.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::ops {
namespace cpu {
namespace {

bool Contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// A convolution in NCHW with neighbouring outputs reading neighbouring inputs.
bool IsRowWindow(Schedule& sch, const BlockRV& block, const std::string& tag) {
  if (tag != "conv2d_nchw" && tag != "group_conv2d_nchw" && tag != "depthwise_conv2d_nchw") return false;
  tir::Block node = sch.Get(block);
  if (node->writes.size() != 1 || node->writes[0]->buffer->shape.size() != 4) return false;
  const int64_t* width = AsConstInt(node->writes[0]->buffer->shape[3]);
  return width == nullptr || *width >= 4;
}

bool IsBlockedWindow(Schedule& sch, const BlockRV& block) {
  std::string tag = TagOf(sch, block);
  tir::Block node = sch.Get(block);
  bool blocked_pool = Contains(tag, "pool") && node->writes.size() == 1 && node->writes[0]->buffer->shape.size() == 5;
  return Contains(tag, "conv2d_NCHWc") || blocked_pool;
}

/// Whether the block adds zeros around the input of a window on channel-blocked data, and of nothing else.
bool PadsWindow(Schedule& sch, const BlockRV& block) {
  if (!Contains(TagOf(sch, block), "pad") || sch.IsOutput(block)) return false;
  std::vector<BlockRV> consumers = sch.GetConsumers(block);
  return consumers.size() == 1 && IsReduction(sch, consumers[0]) && IsBlockedWindow(sch, consumers[0]);
}

constexpr const char* kResizeRows = "resize_rows";

/// The axis of rows is the last character of the tag.
size_t RowAxis(Schedule& sch, const BlockRV& rows) { return static_cast<size_t>(TagOf(sch, rows).back() - '0'); }

/// Where `block` reads rows that ScheduleResize can make just before, the block that makes them.
BlockRV ResizedRows(Schedule& sch, const BlockRV& block) {
  BlockRV rows;
  for (const BlockRV& producer : sch.GetProducers(block)) {
    if (Contains(TagOf(sch, producer), kResizeRows) && sch.GetConsumers(producer).size() == 1) rows = producer;
  }
  if (!rows.defined()) return rows;
  const size_t axis = RowAxis(sch, rows);
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
  if (!Contains(TagOf(sch, block), kResizeRows)) return false;
  std::vector<BlockRV> consumers = sch.GetConsumers(block);
  return consumers.size() == 1 && ResizedRows(sch, consumers[0]).defined();
}

/// Rows of images that are resampled are made just before a row of `block` reads them.
bool ScheduleResize(Schedule& sch, const BlockRV& block) {
  BlockRV rows = ResizedRows(sch, block);
  if (!rows.defined()) return false;
  const size_t axis = RowAxis(sch, rows);
  std::vector<LoopRV> loops = sch.GetLoops(block);
  const double work = Work(sch, block) * ElementCost(sch, block);
  auto vectorize = [&](const LoopRV& last) {
    const int lanes = last.defined() ? VectorLanes(Extent(sch, last)) : 0;
    if (lanes == 0) return;
    const bool whole = Extent(sch, last) == lanes;
    sch.Vectorize(whole ? last : sch.Split(last, {PrimExpr(ObjectPtr<Object>()), PrimExpr(int64_t{lanes})})[1]);
  };
  vectorize(loops.back());
  LoopRV outer = FuseParallel(sch, {loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(axis) + 1}, work);
  sch.ComputeAt(rows, outer);
  vectorize(LoopsUnder(sch, rows, outer).back());
  return true;
}

void ScheduleStages(Schedule& sch, const TargetFeatures& features) {
  std::set<std::string> done;
  for (const BlockRV& block : sch.GetBlocks()) {
    if (!done.insert(block->name).second) continue;
    tir::Block node = sch.Get(block);
    if (node->iter_vars.empty()) continue;  // opaque: a statement of the operator's own
    if (!IsReduction(sch, block)) {
      if (TagOf(sch, block) == "packed_columns") continue;  // scheduled with the product
      if (PadsWindow(sch, block)) continue;                 // scheduled with the window
      if (IsResizedRow(sch, block) || ScheduleResize(sch, block)) continue;
      ScheduleInjective(sch, block);
      continue;
    }
    std::string tag = TagOf(sch, block);
    BlockRV epilogue = EpilogueOf(sch, block);
    if (epilogue.defined()) done.insert(epilogue->name);
    if (tag == "conv2d_NCHWc_flat") {
      done.insert(sch.GetConsumers(block).at(0)->name);
      ScheduleFlatWindow(sch, block, features);
    } else if (IsBlockedWindow(sch, block)) {
      ScheduleBlockedWindow(sch, block, epilogue, features);
    } else if (IsRowWindow(sch, block, tag)) {
      ScheduleRowWindow(sch, block, epilogue);
    } else if (tag == "packed_dense") {
      SchedulePackedDense(sch, block, epilogue, features);
    } else {
      ScheduleReduction(sch, block, epilogue);
    }
  }
}

}  // namespace
}  // namespace cpu

tir::PrimFunc ScheduleForCpu(const tir::PrimFunc& func, const TargetFeatures& features) {
  tir::Schedule sch(func);
  for (const tir::BlockRV& block : sch.GetBlocks()) {
    if (cpu::Work(sch, block) == 0) return func;  // tensors without elements: nothing to make fast
  }
  cpu::InlineInjective(sch);
  if (cpu::IsWinograd(sch)) {
    cpu::ScheduleWinograd(sch, features);
    return sch.func();
  }
  if (cpu::IsAttention(sch)) {
    cpu::ScheduleAttention(sch, features);
    return sch.func();
  }
  if (cpu::IsBlockDense(sch)) {
    cpu::ScheduleBlockDense(sch, features);
    return sch.func();
  }
  cpu::ScheduleStages(sch, features);
  return sch.func();
}

}  // namespace treadle::ops
