// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "treadle/ir/prim_ops.h"
#include "treadle/ir/structural.h"
#include "treadle/schedule/analysis.h"
#include "treadle/schedule/kernel.h"
#include "treadle/tir/node_count.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::schedule {
namespace {

/// Whether computing the value twice would cost.
bool IsExpensive(Schedule& sch, const BlockRV& block) {
  bool expensive = false;
  tir::PostOrderVisit(sch.Get(block)->body, [&](const ObjectRef& e) {
    const auto* call = e.as<tir::CallNode>();
    expensive |= call != nullptr && tir::CostOf(call) == tir::CallCost::kFunction;
  });
  return expensive;
}

/// Whether `consumer` reads elements of `block` at several places for one of its own: computed inside, they would be
/// computed several times.
bool IsReadAtSeveralPlaces(Schedule& sch, const BlockRV& block, const BlockRV& consumer) {
  tir::Block node = sch.Get(block);
  if (node->writes.size() != 1) return false;
  std::vector<Array<PrimExpr>> places;
  tir::PostOrderVisit(sch.Get(consumer)->body, [&](const ObjectRef& e) {
    const auto* load = e.as<tir::BufferLoadNode>();
    if (load == nullptr || !load->buffer.same_as(node->writes[0]->buffer)) return;
    for (const Array<PrimExpr>& place : places) {
      if (StructuralEqual(place, load->indices)) return;
    }
    places.push_back(load->indices);
  });
  return places.size() > 1;
}

/// Whether `consumer` chooses between what it reads, and rows of `block` don't divide into vectors: computed inside,
/// its elements would be computed one by one.
bool IsPartOfRow(Schedule& sch, const BlockRV& block, const BlockRV& consumer) {
  tir::Block node = sch.Get(block);
  if (node->writes.size() != 1 || node->writes[0]->buffer->shape.empty()) return false;
  const int64_t* width = AsConstInt(node->writes[0]->buffer->shape.back());
  if (width != nullptr && *width % 8 == 0) return false;
  bool chooses = false;
  tir::PostOrderVisit(sch.Get(consumer)->body, [&](const ObjectRef& e) {
    const auto* call = e.as<tir::CallNode>();
    chooses |= call != nullptr && tir::IsCallTo(call, "tir.if_then_else");
  });
  return chooses;
}

/// Places where a buffer is read, one that stands in an expression twice counted twice.
class ReadCounter : public tir::StmtExprVisitor {
 public:
  static int64_t Count(const tir::Stmt& body, const tir::Buffer& buffer) {
    ReadCounter counter(buffer);
    counter(body);
    return counter.reads_;
  }

 protected:
  using StmtExprVisitor::VisitExpr_;
  void VisitExpr_(const tir::BufferLoadNode* op) override {
    reads_ += op->buffer.same_as(buffer_) ? 1 : 0;
    StmtExprVisitor::VisitExpr_(op);
  }

 private:
  explicit ReadCounter(const tir::Buffer& buffer) : buffer_(buffer) {}

  const tir::Buffer& buffer_;
  int64_t reads_ = 0;
};

/// Whether a consumer would be of more nodes than analyses, which go through expressions as trees, can take: chains
/// whose links read the one before twice double with each.
bool WouldGrowLarge(Schedule& sch, const BlockRV& block) {
  constexpr int64_t kMaxNodes = 20000;
  tir::Block node = sch.Get(block);
  if (node->writes.size() != 1) return false;
  const int64_t nodes = tir::CountNodes(node->body, kMaxNodes);
  for (const BlockRV& consumer : sch.GetConsumers(block)) {
    const tir::Stmt& body = sch.Get(consumer)->body;
    const int64_t before = tir::CountNodes(body, kMaxNodes);
    if (before > kMaxNodes) return true;
    if (before + ReadCounter::Count(body, node->writes[0]->buffer) * nodes > kMaxNodes) return true;
  }
  return false;
}

/// Whether `consumer` reads each element of `block` at most once: where each of its axes of more than one step is an
/// index of what it reads, as in sums over whole images and in the product of a matrix by one column.
bool IsReadOnce(Schedule& sch, const BlockRV& block, const BlockRV& consumer) {
  const tir::Block read = sch.Get(block), node = sch.Get(consumer);
  if (read->writes.size() != 1) return false;
  const tir::Buffer& buffer = read->writes[0]->buffer;
  if (ReadCounter::Count(node->body, buffer) != 1) return false;
  bool once = true;
  tir::PostOrderVisit(node->body, [&](const ObjectRef& e) {
    const auto* load = e.as<tir::BufferLoadNode>();
    if (load == nullptr || !load->buffer.same_as(buffer)) return;
    for (const tir::IterVar& axis : node->iter_vars) {
      const bool is_index = std::any_of(load->indices.begin(), load->indices.end(),
                                        [&](const PrimExpr& index) { return index.same_as(axis->var); });
      once = once && (is_index || tir::is_one(axis->dom->extent));
    }
  });
  return once;
}

/// Whether a block only moves elements, rows as they are.
bool MovesRows(Schedule& sch, const BlockRV& block) {
  const tir::Block moved = sch.Get(block);
  const auto* store = moved->body.as<tir::BufferStoreNode>();
  const auto* source = store == nullptr ? nullptr : store->value.as<tir::BufferLoadNode>();
  if (source == nullptr || source->indices.empty() || store->indices.empty()) return false;
  return source->indices.back().same_as(store->indices.back());
}

/// Whether `consumer`, which in general reads its operands several times, can compute `block` as it reads it.
bool IsTakenInOnce(Schedule& sch, const BlockRV& block, const BlockRV& consumer) {
  const bool sums = TagOf(sch, consumer).kind == te::ComputeKind::kPool;
  return (sums || MovesRows(sch, block)) && IsReadOnce(sch, block, consumer);
}

}  // namespace

void InlineInjective(Schedule& sch) {
  auto inline_or_keep = [&](const BlockRV& block) {
    if (WouldGrowLarge(sch, block)) {
      ChoiceLog::Note(StrCat("# ", block->name, " stays a stage of its own: its consumers would grow too large"));
      return;
    }
    try {
      sch.ComputeInline(block);
    } catch (const tir::ScheduleError& e) {
      ChoiceLog::Note(StrCat("# stays a stage of its own: ", e.what()));
    }
  };
  std::vector<BlockRV> read_often, costly_and_read_often;
  for (const BlockRV& block : sch.GetBlocks()) {
    if (sch.IsOutput(block) || IsReduction(sch, block)) continue;
    const te::Tag tag = TagOf(sch, block);
    if (!tag.is_injective()) continue;
    std::vector<BlockRV> consumers = sch.GetConsumers(block);
    bool repeated = false;
    for (const BlockRV& consumer : consumers) {
      if (!IsReduction(sch, consumer)) continue;
      // A reduction reads each element once unless it slides a window or multiplies matrices.
      repeated |= TagOf(sch, consumer).reuses_operands() && !IsTakenInOnce(sch, block, consumer);
    }
    if (repeated && !tag.constant) continue;
    if (consumers.size() <= 1) {
      constexpr double kCostly = 2;
      const bool costly = consumers.size() == 1 && (IsExpensive(sch, block) || ElementCost(sch, block) >= kCostly);
      if (costly && IsReadAtSeveralPlaces(sch, block, consumers[0])) continue;
      if (costly && IsExpensive(sch, block) && IsPartOfRow(sch, block, consumers[0])) continue;
      inline_or_keep(block);
    } else if (!IsExpensive(sch, block)) {
      read_often.push_back(block);
    } else {
      costly_and_read_often.push_back(block);
    }
  }
  // Last those with several consumers, which by now mostly are one: what they share is computed once there. Copies in
  // each of several consumers would be copied again with every step of a chain.
  for (size_t i = read_often.size(); i-- > 0;) inline_or_keep(read_often[i]);
  // Values that cost much may have one consumer, too, by now.
  for (size_t i = costly_and_read_often.size(); i-- > 0;) {
    const BlockRV& block = costly_and_read_often[i];
    const std::vector<BlockRV> consumers = sch.GetConsumers(block);
    if (consumers.size() != 1 || IsReduction(sch, consumers[0])) continue;
    if (IsReadAtSeveralPlaces(sch, block, consumers[0]) || IsPartOfRow(sch, block, consumers[0])) continue;
    inline_or_keep(block);
  }
}

BlockRV EpilogueOf(Schedule& sch, const BlockRV& block) {
  std::vector<BlockRV> consumers = sch.GetConsumers(block);
  if (sch.IsOutput(block) || consumers.size() != 1 || IsReduction(sch, consumers[0])) return BlockRV();
  tir::Block producer = sch.Get(block), consumer = sch.Get(consumers[0]);
  if (producer->writes.size() != 1 || consumer->writes.size() != 1) return BlockRV();
  tir::Buffer buffer = producer->writes[0]->buffer;
  // Same index.
  bool same = true;
  tir::PostOrderVisit(consumer->body, [&](const ObjectRef& e) {
    const auto* load = e.as<tir::BufferLoadNode>();
    if (load == nullptr || !load->buffer.same_as(buffer)) return;
    same &= load->indices.size() == consumer->iter_vars.size();
    for (size_t i = 0; same && i < load->indices.size(); ++i) {
      // Of an axis with one element, broadcasting names the element.
      const bool only = tir::is_zero(load->indices[i]) && tir::is_const_int(consumer->iter_vars[i]->dom->extent, 1);
      same &= only || load->indices[i].same_as(consumer->iter_vars[i]->var);
    }
  });
  return same ? consumers[0] : BlockRV();
}

}  // namespace treadle::schedule
