// SPDX-License-Identifier: Apache-2.0
// Compute at: a producer runs where its consumers need it, for just the region they need.
#include <algorithm>
#include <utility>

#include "tir/schedule/move.h"
#include "tir/schedule/primitives.h"

namespace treadle::tir::primitive {

namespace {

const char* const kName = "compute_at";

/// Checks of where block and loop stand; returns the scope's blocks.
std::vector<PlacedBlock> CheckPlaces(const ScheduleState& state, const PlacedBlock& placed, const Path& loop_path,
                                     const Var& loop) {
  const std::string& name = placed.name();
  if (placed.path.size() == 1) throw ScheduleError(StrCat(kName, ": the root block can't move"));
  for (const Stmt& s : placed.path) {
    if (s.same_as(loop_path.back())) {
      throw ScheduleError(StrCat(kName, ": block '", name, "' already is under loop ", LoopName(loop)));
    }
  }
  size_t scope = placed.ScopeIndex();
  bool same_scope = scope < loop_path.size() && loop_path[scope].same_as(placed.path[scope]);
  for (size_t i = scope + 1; same_scope && i < loop_path.size(); ++i) same_scope = !loop_path[i].as<BlockNode>();
  if (!same_scope) {
    throw ScheduleError(
        StrCat(kName, ": block '", name, "' and loop ", LoopName(loop), " aren't directly inside the same block"));
  }
  const auto* node = loop_path.back().as<ForNode>();
  if (node->kind == ForKind::kVectorized) {
    throw ScheduleError(StrCat(kName, ": loop ", LoopName(loop), " is vectorized; vectorize after moving blocks"));
  }
  return state.ScopeOf(placed);
}

/// Consumers all under the loop; nothing computed inside the loops that the block leaves.
void CheckNeighbours(const std::vector<PlacedBlock>& scope, const PlacedBlock& placed, const Path& loop_path,
                     const Var& loop) {
  const std::string& name = placed.name();
  bool any = false;
  for (const BufferRegion& w : placed.block()->writes) {
    for (const PlacedBlock& reader : ReadersOf(scope, w->buffer, name)) {
      if (!Contains(loop_path.back(), reader.realize.get())) {
        throw ScheduleError(StrCat(kName, ": block '", reader.name(), "' reads '", w->buffer->name, "' of block '",
                                   name, "' but isn't under loop ", LoopName(loop)));
      }
      any = true;
    }
    if (!WritersOf(scope, w->buffer, name).empty()) {
      throw ScheduleError(StrCat(kName, ": buffer '", w->buffer->name, "' of block '", name, "' is also written by '",
                                 WritersOf(scope, w->buffer, name)[0].name(), "'"));
    }
  }
  if (!any) throw ScheduleError(StrCat(kName, ": no consumer of block '", name, "' is under loop ", LoopName(loop)));
  // A producer inside this block's own loops gives only what those loops need at a time.
  for (const BufferRegion& r : placed.block()->reads) {
    for (const PlacedBlock& writer : WritersOf(scope, r->buffer, name)) {
      for (const For& own : placed.Loops()) {
        if (Contains(own, writer.realize.get()) && !Contains(own, loop_path.back().get())) {
          throw ScheduleError(StrCat(kName, ": block '", writer.name(), "', a producer of block '", name,
                                     "', is computed inside loop ", LoopName(own->loop_var), " of '", name, "'; move '",
                                     name, "' first, then its producer"));
        }
      }
    }
  }
}

/// The body of the loop within those of the loops around it whose iterations' needs a block in shared memory must cover
/// at once: those bound to threads of a block, or virtual ones.
Stmt NeededAtOnce(const PlacedBlock& placed, const Path& loop_path) {
  const auto* loop = loop_path.back().as<ForNode>();
  bool shared = !placed.block()->writes.empty();
  for (const BufferRegion& w : placed.block()->writes) shared &= w->buffer.scope().rfind("shared", 0) == 0;
  Stmt body = loop->body;
  for (size_t i = loop_path.size(); shared && i-- > 0;) {
    const auto* around = loop_path[i].as<ForNode>();
    if (around == nullptr || around->kind != ForKind::kThreadBinding ||
        around->thread_binding->thread_tag.rfind("blockIdx", 0) == 0) {
      continue;
    }
    const Var fresh(around->loop_var->name_hint, around->loop_var.dtype());
    Map<Var, PrimExpr> vmap;
    vmap.Set(around->loop_var, fresh);
    body = For(fresh, around->min, around->extent, ForKind::kSerial, Substitute(body, vmap));
  }
  return body;
}

/// The domain of each axis of the block so that it covers `region` of what it writes.
std::vector<AxisDomain> RequiredDomains(const PlacedBlock& placed, const Stmt& body, arith::Analyzer& analyzer) {
  const BlockNode* block = placed.block();
  std::vector<AxisDomain> domains = FullDomains(block);
  std::vector<bool> seen(domains.size(), false);
  for (const BufferRegion& write : block->writes) {
    std::vector<arith::IntSet> needed = TouchedRegion(body, write->buffer, false, analyzer);
    for (size_t d = 0; d < needed.size(); ++d) {
      const Range range = write->region[d];
      for (size_t i = 0; i < domains.size(); ++i) {
        const IterVar& iv = block->iter_vars[i];
        if (iv->iter_type != IterVarType::kDataPar || !is_const_int(range->extent, 1)) continue;
        std::optional<int64_t> shift = analyzer.ConstDifference(range->min, iv->var);
        if (!shift) continue;
        if (!needed[d].is_bounded()) break;
        PrimExpr offset = make_const(iv->var.dtype(), *shift);
        AxisDomain wanted{cast(iv->var.dtype(), needed[d].min) - offset, cast(iv->var.dtype(), needed[d].max) - offset};
        if (seen[i]) {
          wanted.min = min(wanted.min, domains[i].min);
          wanted.max = max(wanted.max, domains[i].max);
        }
        seen[i] = true;
        domains[i] = wanted;
      }
    }
  }
  return domains;
}

/// An output of the function must be computed whole: each axis as such, or in steps of one loop without gaps.
void CheckOutput(const ScheduleState& state, const PlacedBlock& placed, const Path& loop_path,
                 const std::vector<AxisDomain>& domains, arith::Analyzer& analyzer) {
  const BlockNode* block = placed.block();
  const Buffer* output = nullptr;
  for (const BufferRegion& w : block->writes) {
    if (state.IsParameter(w->buffer)) output = &w->buffer;
  }
  if (output == nullptr) return;
  std::vector<const Object*> used;
  for (size_t i = 0; i < domains.size(); ++i) {
    const IterVar& iv = block->iter_vars[i];
    const PrimExpr low = domains[i].min, high = domains[i].max, last = iv->dom->min + iv->dom->extent - 1;
    bool whole = analyzer.CanProveLessEqual(low, iv->dom->min) && analyzer.CanProveLessEqual(last, high);
    const ForNode* steps = nullptr;
    int loops = 0;
    for (const Stmt& s : loop_path) {
      const auto* loop = s.as<ForNode>();
      if (loop == nullptr || (!UsesLoopVar(low, loop->loop_var) && !UsesLoopVar(high, loop->loop_var))) continue;
      steps = loop;
      ++loops;
    }
    if (!whole && loops == 1 && std::find(used.begin(), used.end(), steps) == used.end()) {
      const Var& var = steps->loop_var;
      auto at = [&](const PrimExpr& e, const PrimExpr& value) {
        Map<Var, PrimExpr> vmap;
        vmap.Set(var, value);
        return analyzer.Simplify(Substitute(e, vmap));
      };
      const PrimExpr one = make_const(var.dtype(), 1);
      whole = analyzer.CanProveLessEqual(at(low, steps->min), iv->dom->min) &&
              analyzer.CanProveLessEqual(last, at(high, steps->min + steps->extent - one)) &&
              analyzer.CanProveLessEqual(at(low, var + one), high + 1);
      used.push_back(steps);
    }
    if (whole) continue;
    throw ScheduleError(StrCat(kName, ": block '", placed.name(), "' writes '", (*output)->name,
                               "', an output of the function, which must be computed whole; its consumers don't need "
                               "all of axis '",
                               iv->var->name_hint,
                               "', or not in steps of one loop. Consumers can be moved to it with "
                               "reverse_compute_at"));
  }
}

/// Whether what the block reads of `buffer` is never what the statements around `loop_path` write of it: rows before
/// those of this step.
bool ReadsEarlierOnly(const ScheduleState& state, const PlacedBlock& placed, const Path& loop_path,
                      const Buffer& buffer) {
  size_t common = 0;
  while (common < placed.path.size() && common < loop_path.size() && placed.path[common].same_as(loop_path[common])) {
    ++common;
  }
  if (common >= placed.path.size() || common >= loop_path.size()) return false;
  arith::Analyzer analyzer;
  state.BindContext(analyzer, Path(loop_path.begin(), loop_path.begin() + static_cast<std::ptrdiff_t>(common)));
  const auto reads = TouchedRegion(placed.path[common], buffer, false, analyzer);
  const auto writes = TouchedRegion(loop_path[common], buffer, true, analyzer);
  for (size_t d = 0; d < reads.size() && d < writes.size(); ++d) {
    if (!reads[d].is_bounded() || !writes[d].is_bounded()) continue;
    if (analyzer.CanProveLess(reads[d].max, writes[d].min) || analyzer.CanProveLess(writes[d].max, reads[d].min)) {
      return true;
    }
  }
  return false;
}

/// Position among `children` of the new statement: after the producers, before the first consumer.
size_t InsertPosition(const ScheduleState& state, const std::vector<Stmt>& children, const PlacedBlock& placed,
                      const Path& loop_path, const Var& loop) {
  size_t first_consumer = children.size(), after_producer = 0;
  for (size_t i = 0; i < children.size(); ++i) {
    for (const PlacedBlock& b : BlocksIn(children[i])) {
      for (const BufferRegion& w : placed.block()->writes) {
        if (ReadsBuffer(b.block(), w->buffer)) first_consumer = std::min(first_consumer, i);
      }
      for (const BufferRegion& r : placed.block()->reads) {
        if (!WritesBuffer(b.block(), r->buffer)) continue;
        if (i >= first_consumer && ReadsEarlierOnly(state, placed, loop_path, r->buffer)) continue;
        after_producer = i + 1;
      }
    }
  }
  if (after_producer > first_consumer) {
    throw ScheduleError(StrCat(kName, ": under loop ", LoopName(loop), " a consumer of block '", placed.name(),
                               "' runs before one of its producers"));
  }
  return after_producer > 0 ? after_producer : std::min(first_consumer, children.size());
}

}  // namespace

void ComputeAt(ScheduleState& state, const std::string& name, const Var& loop_var, bool keep_unit_loops) {
  PlacedBlock placed = state.FindBlock(name);
  Path loop_path = state.FindLoop(loop_var, kName);
  std::vector<PlacedBlock> scope = CheckPlaces(state, placed, loop_path, loop_var);
  CheckNeighbours(scope, placed, loop_path, loop_var);
  const auto* loop = loop_path.back().as<ForNode>();

  arith::Analyzer analyzer;
  state.BindContext(analyzer, loop_path);
  std::vector<AxisDomain> domains = RequiredDomains(placed, NeededAtOnce(placed, loop_path), analyzer);
  CheckOutput(state, placed, loop_path, domains, analyzer);
  Stmt nest = BuildNest(placed.realize->block, domains, true, keep_unit_loops, analyzer);

  std::vector<Stmt> children =
      loop->body.as<SeqStmtNode>() ? loop->body.as<SeqStmtNode>()->seq.ToVector() : std::vector<Stmt>{loop->body};
  children.insert(
      children.begin() + static_cast<std::ptrdiff_t>(InsertPosition(state, children, placed, loop_path, loop_var)),
      nest);
  For changed = GetRef<For>(loop);
  changed.CopyOnWrite()->body = SeqStmt::Flatten(children);
  MoveTo(state, placed, loop, changed);
}

}  // namespace treadle::tir::primitive
