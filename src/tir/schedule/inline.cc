// SPDX-License-Identifier: Apache-2.0
// Compute inline: the value of an element-wise block goes into its consumers.
#include <unordered_map>
#include <utility>

#include "ir/scoped_entry.h"
#include "tir/bind_shared.h"
#include "tir/block_access.h"
#include "tir/schedule/primitives.h"

namespace treadle::tir::primitive {

namespace {

/// A copy of `e` whose Lets bind fresh variables.
class LetRenewer : public ExprMutator {
 protected:
  PrimExpr VisitExpr_(const VarNode* op) override {
    auto it = renewed_.find(op);
    return it == renewed_.end() ? GetRef<PrimExpr>(op) : PrimExpr(it->second);
  }
  PrimExpr VisitExpr_(const LetNode* op) override {
    PrimExpr value = VisitExpr(op->value);
    Var var(op->var->name_hint, op->var.dtype());
    ScopedEntry renewed(renewed_, op->var.get(), var);
    return Let(var, value, VisitExpr(op->body));
  }

 private:
  std::unordered_map<const VarNode*, Var> renewed_;
};

/// Replaces loads of one buffer by the value stored there. Loads at equal indices get the very same expression, so
/// that it can be shared.
class LoadReplacer : public ExprMutator {
 public:
  LoadReplacer(const Buffer& buffer, const std::vector<Var>& index_vars, const PrimExpr& value)
      : buffer_(buffer), index_vars_(index_vars), value_(value) {}
  PrimExpr Run(const PrimExpr& e) { return VisitExpr(e); }

 protected:
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr load = ExprMutator::VisitExpr_(op);
    if (!op->buffer.same_as(buffer_)) return load;
    const auto* node = load.as<BufferLoadNode>();
    for (const auto& [indices, value] : known_) {
      bool equal = true;
      for (size_t i = 0; i < indices.size() && equal; ++i) equal = arith::ExprDeepEqual(indices[i], node->indices[i]);
      if (equal) return value;
    }
    Map<Var, PrimExpr> vmap;
    for (size_t i = 0; i < index_vars_.size(); ++i) {
      if (index_vars_[i].defined()) vmap.Set(index_vars_[i], cast(index_vars_[i].dtype(), node->indices[i]));
    }
    PrimExpr value = Substitute(value_, vmap);
    value = LetRenewer()(value);
    known_.emplace_back(node->indices, value);
    return value;
  }

 private:
  const Buffer& buffer_;
  const std::vector<Var>& index_vars_;
  const PrimExpr& value_;
  std::vector<std::pair<Array<PrimExpr>, PrimExpr>> known_;
};

/// The axis that each index of the store is; an axis of extent 1 may be missing, its index being its only value.
std::vector<Var> IndexVars(const BlockNode* block, const BufferStoreNode* store, const char* primitive) {
  std::vector<Var> vars;
  std::vector<bool> used(block->iter_vars.size(), false);
  for (const PrimExpr& index : store->indices) {
    Var var;
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      if (index.same_as(block->iter_vars[i]->var) && !used[i]) {
        used[i] = true;
        var = block->iter_vars[i]->var;
      }
    }
    size_t dim = vars.size();
    if (!var.defined() && !(is_const_int(index, 0) && is_const_int(store->buffer->shape[dim], 1))) {
      throw ScheduleError(StrCat(primitive, ": block '", block->name_hint, "' must write buffer '", store->buffer->name,
                                 "' at its axes, one per dimension; index ", dim, " is another expression"));
    }
    vars.push_back(var);
  }
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i] && !is_const_int(block->iter_vars[i]->dom->extent, 1)) {
      throw ScheduleError(StrCat(primitive, ": axis '", block->iter_vars[i]->var->name_hint, "' of block '",
                                 block->name_hint, "' doesn't index what it writes"));
    }
  }
  return vars;
}

}  // namespace

void ComputeInline(ScheduleState& state, const std::string& name) {
  const char* primitive = "compute_inline";
  PlacedBlock placed = state.FindBlock(name);
  if (placed.path.size() == 1) throw ScheduleError("compute_inline: the root block can't be inlined");
  const BlockNode* block = placed.block();
  const BufferStoreNode* store = OnlyStore(block, primitive);
  Buffer buffer = store->buffer;
  if (state.IsParameter(buffer)) {
    throw ScheduleError(StrCat(primitive, ": block '", name, "' writes '", buffer->name,
                               "', an output of the function; outputs can't be inlined"));
  }
  for (const IterVar& iv : block->iter_vars) {
    if (iv->iter_type != IterVarType::kDataPar) {
      throw ScheduleError(StrCat(primitive, ": axis '", iv->var->name_hint, "' of block '", name,
                                 "' isn't data-parallel; only element-wise blocks can be inlined"));
    }
  }
  if (ReadsBuffer(block, buffer)) {
    throw ScheduleError(StrCat(primitive, ": block '", name, "' reads the buffer that it writes"));
  }
  if (!HasNoSideEffect(store->value)) {
    throw ScheduleError(StrCat(primitive, ": block '", name, "' has side effects"));
  }
  std::vector<Var> index_vars = IndexVars(block, store, primitive);
  // Axes that don't index (extent 1) have one value.
  Map<Var, PrimExpr> units;
  for (const IterVar& iv : block->iter_vars) {
    bool indexes = false;
    for (const Var& var : index_vars) indexes |= var.same_as(iv->var);
    if (!indexes) units.Set(iv->var, iv->dom->min);
  }
  PrimExpr value = Substitute(store->value, units);

  std::vector<PlacedBlock> all = state.AllBlocks();
  if (WritersOf(all, buffer, name).size() > 0) {
    for (const PlacedBlock& w : WritersOf(all, buffer, name)) {
      if (w.path.size() == 1 || Contains(w.realize, placed.block())) continue;
      throw ScheduleError(StrCat(primitive, ": block '", w.name(), "' writes buffer '", buffer->name, "' too"));
    }
  }
  std::unordered_map<const Object*, Stmt> replacements;
  replacements[placed.realize.get()] = Stmt();
  for (const PlacedBlock& consumer : all) {
    if (consumer.name() == name || !ReadsBuffer(consumer.block(), buffer)) continue;
    if (!BlocksIn(consumer.block()->body).empty()) {
      throw ScheduleError(StrCat(primitive, ": buffer '", buffer->name, "' is read inside block '", consumer.name(),
                                 "', which holds other blocks; inline before blockize"));
    }
    LoadReplacer replacer(buffer, index_vars, value);
    Block changed = MapBlockValues(consumer.realize->block, [&](const PrimExpr& e) { return replacer.Run(e); });
    if (ReadsBuffer(changed.get(), buffer)) {
      throw ScheduleError(
          StrCat(primitive, ": block '", consumer.name(), "' takes the address of buffer '", buffer->name, "'"));
    }
    replacements[consumer.realize.get()] =
        BlockRealize(consumer.realize->iter_values, consumer.realize->predicate, changed, consumer.realize->span);
  }
  state.ReplaceMany(replacements);
  state.RemoveAlloc(buffer);
}

}  // namespace treadle::tir::primitive
