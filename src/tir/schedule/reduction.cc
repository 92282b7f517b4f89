// SPDX-License-Identifier: Apache-2.0
// Decompose reduction: init becomes a block of its own.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "tir/block_access.h"
#include "tir/conjunction.h"
#include "tir/schedule/primitives.h"
#include "tir/thread_axis.h"
#include "treadle/arith/analyzer.h"

namespace treadle::tir::primitive {

namespace {

/// Whether a sum of loops times constants is seen to take a value twice: a loop's step is no longer than the way that
/// loops of shorter steps go.
bool RepeatsValues(const PrimExpr& binding, const std::vector<For>& loops, arith::Analyzer& analyzer) {
  std::vector<Var> vars;
  for (const For& loop : loops) vars.push_back(loop->loop_var);
  const std::vector<PrimExpr> coefficients = analyzer.DetectLinear(binding, vars);
  if (coefficients.empty()) return false;
  std::vector<std::pair<int64_t, int64_t>> steps;  // and iterations
  for (size_t i = 0; i < loops.size(); ++i) {
    const PrimExpr size = analyzer.Simplify(loops[i]->extent);
    const int64_t *step = AsConstInt(coefficients[i]), *extent = AsConstInt(size);
    if (step == nullptr || extent == nullptr) return false;
    if (*step != 0 && *extent > 1) steps.emplace_back(std::abs(*step), *extent);
  }
  std::sort(steps.begin(), steps.end());
  int64_t way = 0;
  for (const auto& [step, extent] : steps) {
    int64_t length = 0;
    if (step <= way) return true;
    if (__builtin_mul_overflow(step, extent - 1, &length) || __builtin_add_overflow(way, length, &way)) return false;
  }
  return false;
}

/// The same where bindings aren't linear, such as quotients: tries out the first iterations of the loops, with sizes
/// that aren't known taken to be some number.
bool RepeatsElements(const PlacedBlock& placed, const std::vector<For>& loops) {
  constexpr int64_t kTries = 512, kUnknown = 5;
  Map<Var, PrimExpr> fixed;
  auto value = [&](const PrimExpr& e) {
    const PrimExpr known = Substitute(e, [&](const Var& v) -> std::optional<PrimExpr> {
      if (auto it = fixed.Get(v)) return *it;
      return make_const(v.dtype(), kUnknown);
    });
    const PrimExpr simple = arith::Analyzer().Simplify(known);
    const int64_t* number = AsConstInt(simple);
    return number == nullptr ? std::optional<int64_t>() : *number;
  };
  for (const For& loop : placed.Loops()) fixed.Set(loop->loop_var, loop->min);
  std::vector<PrimExpr> bindings;
  for (size_t i = 0; i < placed.realize->iter_values.size(); ++i) {
    if (placed.block()->iter_vars[i]->iter_type != IterVarType::kCommReduce) {
      bindings.push_back(placed.realize->iter_values[i]);
    }
  }
  std::vector<int64_t> extents, at(loops.size(), 0);
  const auto each =
      static_cast<int64_t>(std::pow(static_cast<double>(kTries), 1.0 / static_cast<double>(loops.size())));
  for (const For& loop : loops) {
    const std::optional<int64_t> extent = value(loop->extent);
    if (!extent || *extent <= 0 || !is_const_int(loop->min)) return false;
    extents.push_back(std::min(*extent, std::max<int64_t>(each, 2)));
  }
  std::set<std::vector<int64_t>> seen;
  while (true) {
    for (size_t i = 0; i < loops.size(); ++i) {
      fixed.Set(loops[i]->loop_var, make_const(loops[i]->loop_var.dtype(), *AsConstInt(loops[i]->min) + at[i]));
    }
    const std::optional<int64_t> runs = value(placed.realize->predicate);
    if (!runs) return false;
    std::vector<int64_t> element;
    for (const PrimExpr& binding : bindings) {
      const std::optional<int64_t> index = value(binding);
      if (!index) return false;
      element.push_back(*index);
    }
    if (*runs != 0 && !seen.insert(element).second) return true;
    size_t i = 0;
    while (i < loops.size() && ++at[i] == extents[i]) at[i++] = 0;
    if (i == loops.size()) return false;
  }
}

/// Whether the block's condition lets only the first iteration of `loop` through: the last loop of a split of one
/// iteration.
bool RunsOnce(const PlacedBlock& placed, const For& loop, const std::vector<For>& loops) {
  arith::Analyzer analyzer;
  for (const For& other : loops) analyzer.Bind(other->loop_var, Range::FromMinExtent(other->min, other->extent));
  analyzer.Bind(loop->loop_var, Range::FromMinExtent(loop->min + 1, loop->extent - 1));
  const std::vector<PrimExpr> conditions = SplitConjunction(placed.realize->predicate);
  return std::any_of(conditions.begin(), conditions.end(),
                     [&](const PrimExpr& condition) { return analyzer.CanProve(Not(condition)); });
}

/// Sums would be added up more than once where an iteration of `loops` computes elements of another one again.
void CheckComputesOnce(const PlacedBlock& placed, const std::vector<For>& loops) {
  arith::Analyzer analyzer;
  std::vector<For> data;
  auto refuse = [&](const std::string& why) {
    throw ScheduleError(StrCat("decompose_reduction: block '", placed.block()->name_hint, "' computes elements again ",
                               why, ", and the init before loop ", LoopName(loops[0]->loop_var),
                               " would run once for all; expected a loop further in"));
  };
  for (const For& loop : loops) {
    const Var& var = loop->loop_var;
    if (IterKindsBoundTo(placed, var).reduction || is_const_int(analyzer.Simplify(loop->extent), 1)) continue;
    if (IterKindsBoundTo(placed, var).data) {
      data.push_back(loop);
    } else if (!RunsOnce(placed, loop, loops)) {
      refuse(StrCat("in each iteration of loop ", LoopName(var)));
    }
  }
  const BlockNode* block = placed.block();
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    const PrimExpr& binding = placed.realize->iter_values[i];
    if (block->iter_vars[i]->iter_type != IterVarType::kCommReduce && RepeatsValues(binding, data, analyzer)) {
      refuse(StrCat("on axis '", block->iter_vars[i]->var->name_hint, "'"));
    }
  }
  std::vector<Var> vars;
  for (const For& loop : data) vars.push_back(loop->loop_var);
  bool linear = true;
  for (size_t i = 0; i < block->iter_vars.size(); ++i) {
    linear &= block->iter_vars[i]->iter_type == IterVarType::kCommReduce ||
              !analyzer.DetectLinear(placed.realize->iter_values[i], vars).empty();
  }
  if (!linear && RepeatsElements(placed, data)) refuse("in iterations of its loops");
}

/// Threads that reduce together need the init: each starts its own part from it.
void CheckNoThreadsReduce(const PlacedBlock& placed, const std::vector<For>& loops) {
  for (const For& loop : loops) {
    if (loop->kind != ForKind::kThreadBinding || is_const_int(loop->extent, 1)) continue;
    if (!IterKindsBoundTo(placed, loop->loop_var).reduction) continue;
    throw ScheduleError(StrCat("decompose_reduction: threads reduce block '", placed.name(), "' together along loop ",
                               LoopName(loop->loop_var), ", which is bound to ", loop->thread_binding->thread_tag,
                               ", and start from its init; expected a loop that isn't bound to threads"));
  }
}

/// The init can't stand before loops that make what it reads.
void CheckReadsOfInit(const PlacedBlock& placed, const For& loop) {
  if (!ReadsWhatIsWritten(placed.block()->init, loop->body)) return;
  throw ScheduleError(StrCat("decompose_reduction: the init of block '", placed.name(),
                             "' reads what another block computes within loop ", LoopName(loop->loop_var),
                             "; compute that block outside of the loop first"));
}

/// The init block with its loops, those of `loops` that drive data axes.
Stmt InitNest(const PlacedBlock& placed, const std::vector<For>& loops, const std::string& name) {
  const BlockNode* block = placed.block();
  Map<Var, PrimExpr> renamed;
  std::vector<For> kept;
  for (const For& loop : loops) {
    const auto [data, reduction] = IterKindsBoundTo(placed, loop->loop_var);
    if (data && reduction) {
      throw ScheduleError(StrCat("decompose_reduction: loop ", LoopName(loop->loop_var),
                                 " iterates over both data-parallel and "
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
  PrimExpr predicate = make_bool(true);
  for (const PrimExpr& condition : SplitConjunction(placed.realize->predicate)) {
    bool on_reduction = false, on_others = false;
    for (const For& loop : placed.Loops()) {
      if (!UsesLoopVar(condition, loop->loop_var)) continue;
      (IterKindsBoundTo(placed, loop->loop_var).reduction ? on_reduction : on_others) = true;
    }
    if (on_reduction && on_others) {
      throw ScheduleError(StrCat("decompose_reduction: a condition of block '", block->name_hint,
                                 "' depends on loops of its reduction and on others, so that it doesn't say which "
                                 "elements there are to initialise; decompose before fusing and splitting"));
    }
    if (!on_reduction) predicate = predicate && Substitute(condition, renamed);
  }
  Stmt body = Substitute(block->init, axis_map);
  BlockAccess access = DetectBlockAccess(body, Stmt());
  Stmt nest = BlockRealize(bindings, predicate, Block(axes, access.reads, access.writes, name, body));
  for (size_t i = kept.size(); i-- > 0;) {
    const For& loop = kept[i];
    nest = For(Downcast<Var>(renamed.at(loop->loop_var)), Substitute(loop->min, renamed),
               Substitute(loop->extent, renamed), loop->kind, nest, FreshThreadAxis(loop->thread_binding),
               loop->annotations);
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
                                   ", which is outside of loop ", LoopName(loop_var),
                                   ", iterates over reduction axis '", block->iter_vars[i]->var->name_hint,
                                   "' of block '", name, "'; the init must stand outside of all of them"));
      }
    }
  }
  if (!found) {
    throw ScheduleError(StrCat("decompose_reduction: loop ", LoopName(loop_var), " isn't around block '", name, "'"));
  }
  CheckNoThreadsReduce(placed, inner);
  CheckComputesOnce(placed, inner);
  CheckReadsOfInit(placed, inner[0]);
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
