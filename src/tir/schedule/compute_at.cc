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
  for (const BufferRegion& w : placed.block()->writes) {
    if (state.IsParameter(w->buffer)) {
      throw ScheduleError(StrCat(kName, ": block '", name, "' writes '", w->buffer->name,
                                 "', an output of the function, which must be computed whole; consumers can be moved "
                                 "to it with reverse_compute_at"));
    }
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

/// Position among `children` of the new statement: after the producers, before the first consumer.
size_t InsertPosition(const std::vector<Stmt>& children, const PlacedBlock& placed, const Var& loop) {
  size_t first_consumer = children.size(), after_producer = 0;
  for (size_t i = 0; i < children.size(); ++i) {
    for (const PlacedBlock& b : BlocksIn(children[i])) {
      for (const BufferRegion& w : placed.block()->writes) {
        if (ReadsBuffer(b.block(), w->buffer)) first_consumer = std::min(first_consumer, i);
      }
      for (const BufferRegion& r : placed.block()->reads) {
        if (WritesBuffer(b.block(), r->buffer)) after_producer = i + 1;
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
  std::vector<AxisDomain> domains = RequiredDomains(placed, loop->body, analyzer);
  Stmt nest = BuildNest(placed.realize->block, domains, true, keep_unit_loops, analyzer);

  std::vector<Stmt> children =
      loop->body.as<SeqStmtNode>() ? loop->body.as<SeqStmtNode>()->seq.ToVector() : std::vector<Stmt>{loop->body};
  children.insert(children.begin() + static_cast<std::ptrdiff_t>(InsertPosition(children, placed, loop_var)), nest);
  For changed = GetRef<For>(loop);
  changed.CopyOnWrite()->body = SeqStmt::Flatten(children);
  MoveTo(state, placed, loop, changed);
}

}  // namespace treadle::tir::primitive
