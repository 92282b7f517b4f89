// SPDX-License-Identifier: Apache-2.0
// Reverse compute inline: an element-wise consumer is done where its producer stores.
#include <utility>

#include "tir/bind_shared.h"
#include "tir/block_access.h"
#include "tir/schedule/primitives.h"

namespace treadle::tir::primitive {

namespace {

const char* const kName = "reverse_compute_inline";

/// Replaces loads of the buffer by one expression.
class LoadSubstituter : public ExprMutator {
 public:
  LoadSubstituter(const Buffer& buffer, const PrimExpr& value) : buffer_(buffer), value_(value) {}

 protected:
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    if (op->buffer.same_as(buffer_)) return value_;
    return ExprMutator::VisitExpr_(op);
  }

 private:
  const Buffer& buffer_;
  const PrimExpr& value_;
};

/// Checks that every read of the buffer is at the same axes, one per dimension; gives axis by dimension.
std::vector<Var> ReadAxes(const BlockNode* block, const BufferStoreNode* store, const Buffer& buffer) {
  std::vector<Var> axes;
  bool first = true;
  PostOrderVisit(store->value, [&](const ObjectRef& node) {
    const auto* load = node.as<BufferLoadNode>();
    if (load == nullptr || !load->buffer.same_as(buffer)) return;
    std::vector<Var> here;
    for (size_t d = 0; d < load->indices.size(); ++d) {
      Var axis;
      for (const IterVar& iv : block->iter_vars) {
        if (load->indices[d].same_as(iv->var)) axis = iv->var;
      }
      bool unit = is_const_int(load->indices[d], 0) && is_const_int(buffer->shape[d], 1);
      for (const Var& other : here) unit &= !(axis.defined() && other.same_as(axis));
      if (!axis.defined() && !unit) {
        throw ScheduleError(StrCat(kName, ": block '", block->name_hint, "' must read buffer '", buffer->name,
                                   "' at its own axes; index ", d, " is another expression"));
      }
      here.push_back(axis);
    }
    for (size_t d = 0; !first && d < here.size(); ++d) {
      if (here[d].same_as(axes[d])) continue;
      throw ScheduleError(
          StrCat(kName, ": block '", block->name_hint, "' reads buffer '", buffer->name, "' at several places"));
    }
    axes = here;
    first = false;
  });
  return axes;
}

}  // namespace

void ReverseComputeInline(ScheduleState& state, const std::string& name) {
  PlacedBlock consumer = state.FindBlock(name);
  if (consumer.path.size() == 1) throw ScheduleError(StrCat(kName, ": the root block can't be inlined"));
  const BlockNode* block = consumer.block();
  const BufferStoreNode* store = OnlyStore(block, kName);
  std::vector<PlacedBlock> scope = state.ScopeOf(consumer);
  Buffer buffer;
  PlacedBlock producer;
  for (const BufferRegion& r : block->reads) {
    for (const PlacedBlock& w : WritersOf(scope, r->buffer, name)) {
      if (buffer.defined()) {
        throw ScheduleError(
            StrCat(kName, ": block '", name, "' has several producers: '", producer.name(), "' and '", w.name(), "'"));
      }
      buffer = r->buffer;
      producer = w;
    }
  }
  if (!buffer.defined()) throw ScheduleError(StrCat(kName, ": block '", name, "' has no producer"));
  if (state.IsParameter(buffer)) {
    throw ScheduleError(
        StrCat(kName, ": buffer '", buffer->name, "' of block '", producer.name(), "' is an output of the function"));
  }
  if (IsReduction(producer.block()) || producer.block()->init.defined()) {
    throw ScheduleError(StrCat(kName, ": block '", producer.name(),
                               "' is a reduction, whose stores aren't final; use "
                               "reverse_compute_at, after cache_write where the result must stay in registers"));
  }
  const BufferStoreNode* produced = OnlyStore(producer.block(), kName);
  for (const PlacedBlock& r : ReadersOf(scope, buffer, name)) {
    throw ScheduleError(StrCat(kName, ": block '", r.name(), "' reads buffer '", buffer->name, "' too"));
  }
  std::vector<Var> axes = ReadAxes(block, store, buffer);
  arith::Analyzer analyzer;
  state.BindContext(analyzer, producer.path);
  for (const IterVar& iv : producer.block()->iter_vars) analyzer.Bind(iv->var, iv->dom);
  Map<Var, PrimExpr> vmap;
  PrimExpr condition = make_bool(true);
  for (const IterVar& iv : block->iter_vars) {
    PrimExpr value{ObjectPtr<Object>()};
    for (size_t d = 0; d < axes.size(); ++d) {
      if (!axes[d].defined() || !axes[d].same_as(iv->var)) continue;
      value = cast(iv->var.dtype(), produced->indices[d]);
      PrimExpr end = iv->dom->min + iv->dom->extent;
      if (!analyzer.CanProveNonNegative(iv->dom->min) ||
          !analyzer.CanProveLessEqual(end, cast(end.dtype(), buffer->shape[d]))) {
        throw ScheduleError(StrCat(kName, ": axis '", iv->var->name_hint, "' of block '", name,
                                   "' reaches beyond dimension ", d, " of buffer '", buffer->name, "'"));
      }
      condition = condition && (iv->dom->min <= value) && (value < iv->dom->min + iv->dom->extent);
    }
    if (!value.defined() && is_const_int(iv->dom->extent, 1)) value = iv->dom->min;
    if (!value.defined()) {
      throw ScheduleError(StrCat(kName, ": axis '", iv->var->name_hint, "' of block '", name,
                                 "' doesn't index what it "
                                 "reads of '",
                                 buffer->name, "'"));
    }
    vmap.Set(iv->var, value);
  }
  condition = analyzer.Simplify(condition);
  Array<PrimExpr> indices =
      store->indices.Map([&](const PrimExpr& e) { return analyzer.Simplify(Substitute(e, vmap)); });
  PrimExpr value = Substitute(store->value, vmap);
  value = BindShared(LoadSubstituter(buffer, produced->value)(value));
  Stmt body = BufferStore(store->buffer, value, indices);
  if (!is_const_int(condition, 1)) body = IfThenElse(condition, body);
  Block changed = producer.realize->block;
  changed.CopyOnWrite()->body = body;
  changed = WithDetectedAccess(changed);
  std::unordered_map<const Object*, Stmt> replacements;
  replacements[consumer.realize.get()] = Stmt();
  replacements[producer.realize.get()] =
      BlockRealize(producer.realize->iter_values, producer.realize->predicate, changed);
  state.ReplaceMany(replacements);
  state.RemoveAlloc(buffer);
}

}  // namespace treadle::tir::primitive
