// SPDX-License-Identifier: Apache-2.0
// Decompose reduction: init becomes a block of its own.
#include <utility>

#include "tir/block_access.h"
#include "tir/schedule/primitives.h"

namespace treadle::tir::primitive {

namespace {

void SplitConjunction(const PrimExpr& e, std::vector<PrimExpr>& out) {
  if (const auto* both = e.as<AndNode>()) {
    SplitConjunction(both->a, out);
    SplitConjunction(both->b, out);
  } else if (!is_const_int(e, 1)) {
    out.push_back(e);
  }
}

/// The init block with its loops, those of `loops` that drive data axes.
Stmt InitNest(const PlacedBlock& placed, const std::vector<For>& loops, const std::string& name) {
  const BlockNode* block = placed.block();
  Map<Var, PrimExpr> renamed;
  std::vector<For> kept;
  auto drives = [&](const Var& var, bool reduction) {
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      bool is_reduction = block->iter_vars[i]->iter_type == IterVarType::kCommReduce;
      if (is_reduction == reduction && UsesLoopVar(placed.realize->iter_values[i], var)) return true;
    }
    return false;
  };
  for (const For& loop : loops) {
    bool data = drives(loop->loop_var, false), reduction = drives(loop->loop_var, true);
    if (data && reduction) {
      throw ScheduleError(StrCat("decompose_reduction: loop ", LoopName(loop->loop_var),
                                 " drives both data and "
                                 "reduction axes of block '",
                                 block->name_hint, "'"));
    }
    // A loop that drives nothing may still stand in a condition.
    if (!data && (reduction || !UsesLoopVar(placed.realize->predicate, loop->loop_var))) continue;
    kept.push_back(loop);
    renamed.Set(loop->loop_var, Var(loop->loop_var->name_hint + "_init", loop->loop_var.dtype()));
  }
  Array<IterVar> axes;
  Array<PrimExpr> bindings;
  Map<Var, PrimExpr> axis_map;
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    const IterVar iv = block->iter_vars[i];
    if (iv->iter_type == IterVarType::kCommReduce) continue;
    Var fresh(iv->var->name_hint, iv->var.dtype());
    axes.push_back(IterVar(iv->dom, fresh, iv->iter_type));
    axis_map.Set(iv->var, fresh);
    bindings.push_back(Substitute(placed.realize->iter_values[i], renamed));
  }
  // Conditions on reduction loops say which elements are added, not which are initialised.
  std::vector<PrimExpr> conditions;
  SplitConjunction(placed.realize->predicate, conditions);
  PrimExpr predicate = make_bool(true);
  for (const PrimExpr& condition : conditions) {
    bool on_reduction = false;
    for (const For& loop : loops)
      on_reduction |= drives(loop->loop_var, true) && UsesLoopVar(condition, loop->loop_var);
    if (!on_reduction) predicate = predicate && Substitute(condition, renamed);
  }
  Stmt body = Substitute(block->init, axis_map);
  BlockAccess access = DetectBlockAccess(body, Stmt());
  Stmt nest = BlockRealize(bindings, predicate, Block(axes, access.reads, access.writes, name, body));
  for (size_t i = kept.size(); i-- > 0;) {
    const For& loop = kept[i];
    IterVar thread = loop->thread_binding;
    if (thread.defined()) {
      thread =
          IterVar(thread->dom, Var(thread->var->name_hint, thread->var.dtype()), thread->iter_type, thread->thread_tag);
    }
    nest = For(Downcast<Var>(renamed.at(loop->loop_var)), Substitute(loop->min, renamed),
               Substitute(loop->extent, renamed), loop->kind, nest, thread, loop->annotations);
  }
  return nest;
}

}  // namespace

std::string DecomposeReduction(ScheduleState& state, const std::string& name, const Var& loop_var) {
  PlacedBlock placed = state.FindBlock(name);
  const BlockNode* block = placed.block();
  if (!block->init.defined()) {
    throw ScheduleError(StrCat("decompose_reduction: block '", name, "' has no init"));
  }
  std::vector<For> loops = placed.Loops(), inner;
  bool found = false;
  for (const For& loop : loops) {
    found |= loop->loop_var.same_as(loop_var);
    if (found) {
      inner.push_back(loop);
      continue;
    }
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      if (block->iter_vars[i]->iter_type == IterVarType::kCommReduce &&
          UsesLoopVar(placed.realize->iter_values[i], loop->loop_var)) {
        throw ScheduleError(StrCat("decompose_reduction: loop ", LoopName(loop->loop_var),
                                   ", which is outside of loop ", LoopName(loop_var), ", drives reduction axis '",
                                   block->iter_vars[i]->var->name_hint, "' of block '", name,
                                   "'; the init must stand outside of all of them"));
      }
    }
  }
  if (!found) {
    throw ScheduleError(StrCat("decompose_reduction: loop ", LoopName(loop_var), " isn't around block '", name, "'"));
  }
  std::string init_name = state.UniqueBlockName(name + "_init");
  Stmt init = InitNest(placed, inner, init_name);
  Block update = placed.realize->block;
  update.CopyOnWrite()->init = Stmt();
  update = WithDetectedAccess(update);
  Stmt realize = BlockRealize(placed.realize->iter_values, placed.realize->predicate, update);
  // The path from the loop to the block is rebuilt with the update, then the init put in front.
  size_t at = 0;
  while (!placed.path[at].same_as(inner[0])) ++at;
  Stmt current = realize;
  for (size_t i = placed.path.size() - 1; i-- > at;) current = WithChild(placed.path[i], placed.path[i + 1], current);
  Path prefix(placed.path.begin(), placed.path.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  state.Replace(prefix, SeqStmt::Flatten({init, current}));
  return init_name;
}

}  // namespace treadle::tir::primitive
