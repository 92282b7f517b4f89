// SPDX-License-Identifier: Apache-2.0
// Reverse compute at: a consumer runs right after its producers, on what they have just computed.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "tir/schedule/move.h"
#include "tir/schedule/primitives.h"

namespace treadle::tir::primitive {

namespace {

const char* const kName = "reverse_compute_at";

/// Checks places; returns the producers under the loop.
std::vector<PlacedBlock> ProducersUnder(const ScheduleState& state, const PlacedBlock& placed, const Path& loop_path,
                                        const Var& loop) {
  const std::string& name = placed.name();
  if (placed.path.size() == 1) throw ScheduleError(StrCat(kName, ": the root block can't move"));
  if (Contains(loop_path.back(), placed.realize.get())) {
    throw ScheduleError(StrCat(kName, ": block '", name, "' already is under loop ", LoopName(loop)));
  }
  size_t scope_at = placed.ScopeIndex();
  bool same_scope = scope_at < loop_path.size() && loop_path[scope_at].same_as(placed.path[scope_at]);
  for (size_t i = scope_at + 1; same_scope && i < loop_path.size(); ++i) same_scope = !loop_path[i].as<BlockNode>();
  if (!same_scope) {
    throw ScheduleError(
        StrCat(kName, ": block '", name, "' and loop ", LoopName(loop), " aren't directly inside the same block"));
  }
  std::vector<PlacedBlock> scope = state.ScopeOf(placed), under;
  bool passed_loop = false;
  for (const PlacedBlock& b : scope) {
    bool inside = Contains(loop_path.back(), b.realize.get());
    if (inside) passed_loop = true;
    if (b.name() == name) {
      if (!passed_loop) {
        throw ScheduleError(StrCat(kName, ": block '", name, "' runs before loop ", LoopName(loop)));
      }
      continue;
    }
    bool produces = false;
    for (const BufferRegion& r : placed.block()->reads) produces |= WritesBuffer(b.block(), r->buffer);
    if (inside && produces) under.push_back(b);
    if (!inside && produces && passed_loop) {
      throw ScheduleError(StrCat(kName, ": block '", b.name(), "', a producer of block '", name, "', runs after loop ",
                                 LoopName(loop)));
    }
    for (const BufferRegion& w : placed.block()->writes) {
      if (WritesBuffer(b.block(), w->buffer) || (inside && ReadsBuffer(b.block(), w->buffer))) {
        throw ScheduleError(StrCat(kName, ": block '", b.name(), "' also uses buffer '", w->buffer->name,
                                   "', which block '", name, "' writes"));
      }
    }
  }
  if (under.empty())
    throw ScheduleError(StrCat(kName, ": no producer of block '", name, "' is under loop ", LoopName(loop)));
  return under;
}

/// What a producer leaves under the loop must be final: no loop at or above it may drive a reduction of the producer.
void CheckComplete(const std::vector<PlacedBlock>& producers, const Path& loop_path, const std::string& name,
                   const Var& loop) {
  for (const PlacedBlock& p : producers) {
    for (size_t i = 0; i < p.realize->iter_values.size(); ++i) {
      if (p.block()->iter_vars[i]->iter_type == IterVarType::kDataPar) continue;
      for (const Stmt& s : loop_path) {
        const auto* outer = s.as<ForNode>();
        if (outer == nullptr || !UsesLoopVar(p.realize->iter_values[i], outer->loop_var)) continue;
        throw ScheduleError(StrCat(kName, ": loop ", LoopName(outer->loop_var), " (at or around loop ", LoopName(loop),
                                   ") iterates over the reduction axis '", p.block()->iter_vars[i]->var->name_hint,
                                   "' of block '", p.name(), "', whose result isn't complete there for block '", name,
                                   "'"));
      }
    }
  }
}

/// What a producer writes of a buffer in one iteration of a loop, and whether that is all of a box. Where it isn't, a
/// consumer that runs on the box would read elements that nobody has computed yet.
class WrittenBox {
 public:
  WrittenBox(const PlacedBlock& producer, const ForNode* loop, arith::Analyzer& analyzer)
      : producer_(producer), analyzer_(analyzer) {
    bool under = false;
    for (const For& l : producer.Loops()) {
      if (under && !is_one(l->extent)) inner_.push_back(l);
      if (!under) outer_.push_back(l);
      under |= l.get() == loop;
    }
    for (size_t i = 0; i < producer.realize->iter_values.size(); ++i) {
      bindings_.Set(producer.block()->iter_vars[i]->var, producer.realize->iter_values[i]);
    }
  }

  /// `box`: bounds of what is written, per dimension.
  bool IsFull(const BufferRegion& write, const std::vector<arith::IntSet>& box) {
    if (!OnlyCutsAtTheDomain()) return false;
    std::vector<PrimExpr> indices;
    for (const Range& r : write->region) indices.push_back(analyzer_.Simplify(Substitute(r->min, bindings_)));
    std::vector<bool> done(indices.size(), false);
    for (size_t d = 0; d < indices.size(); ++d) {
      if (done[d]) continue;
      const std::vector<size_t> together = DrivenTogether(indices, d);
      for (size_t other : together) done[other] = true;
      const bool alone = together.size() == 1;
      if (alone && HasNoGaps(indices[d], write->region[d]->extent)) continue;
      bool everything = true;  // that it ever writes
      for (size_t other : together) everything &= !UsesAny(indices[other], outer_);
      if (!everything && !CountsUp(write, box, indices, together)) return false;
    }
    return true;
  }

 private:
  static bool UsesAny(const PrimExpr& e, const std::vector<For>& loops) {
    for (const For& loop : loops) {
      if (UsesLoopVar(e, loop->loop_var)) return true;
    }
    return false;
  }
  /// Whether the predicate holds wherever the axes are within their domains.
  bool OnlyCutsAtTheDomain() {
    const BlockRealize& realize = producer_.realize;
    bool fixed = !UsesAny(realize->predicate, outer_);
    for (const PrimExpr& value : realize->iter_values) fixed &= !UsesAny(value, outer_);
    if (fixed || is_one(realize->predicate)) return true;
    std::vector<std::unique_ptr<arith::Analyzer::Constraint>> within;
    for (size_t i = 0; i < realize->iter_values.size(); ++i) {
      const Range& dom = producer_.block()->iter_vars[i]->dom;
      const PrimExpr& value = realize->iter_values[i];
      within.push_back(std::make_unique<arith::Analyzer::Constraint>(
          analyzer_, dom->min <= value && value < dom->min + dom->extent));
    }
    const bool holds = analyzer_.CanProve(realize->predicate);
    while (!within.empty()) within.pop_back();  // the last one first
    return holds;
  }
  /// Dimension `d` and those that share loops with it, or with one of them.
  std::vector<size_t> DrivenTogether(const std::vector<PrimExpr>& indices, size_t d) const {
    std::vector<size_t> found{d};
    for (size_t i = 0; i < found.size(); ++i) {
      for (size_t other = 0; other < indices.size(); ++other) {
        if (std::find(found.begin(), found.end(), other) != found.end()) continue;
        const bool shares = std::any_of(inner_.begin(), inner_.end(), [&](const For& loop) {
          return UsesLoopVar(indices[found[i]], loop->loop_var) && UsesLoopVar(indices[other], loop->loop_var);
        });
        if (shares) found.push_back(other);
      }
    }
    return found;
  }
  /// Whether the loops inside make a linear index take all values between the first and the last.
  bool HasNoGaps(const PrimExpr& index, const PrimExpr& width) {
    std::vector<Var> vars;
    std::vector<const PrimExpr*> extents;
    for (const For& loop : inner_) {
      if (!UsesLoopVar(index, loop->loop_var)) continue;
      vars.push_back(loop->loop_var);
      extents.push_back(&loop->extent);
    }
    if (vars.empty()) return true;
    const std::vector<PrimExpr> linear = analyzer_.DetectLinear(index, vars);
    const int64_t* first = AsConstInt(width);
    if (linear.empty() || first == nullptr) return false;
    std::vector<std::pair<int64_t, const int64_t*>> steps;  // null: an unknown number of them
    for (size_t i = 0; i < vars.size(); ++i) {
      const int64_t* step = AsConstInt(linear[i]);
      if (step == nullptr) return false;
      steps.emplace_back(std::abs(*step), AsConstInt(*extents[i]));
    }
    std::sort(steps.begin(), steps.end());
    int64_t covered = *first;
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto& [step, count] = steps[i];
      if (step > covered || (count == nullptr && i + 1 < steps.size())) return false;
      if (count != nullptr) covered += step * (*count - 1);
    }
    return true;
  }
  /// Whether as many elements are written as there are in the box: no two iterations write the same.
  bool CountsUp(const BufferRegion& write, const std::vector<arith::IntSet>& box, const std::vector<PrimExpr>& indices,
                const std::vector<size_t>& dims) {
    if (!is_one(producer_.realize->predicate)) return false;
    PrimExpr missing(int64_t{1}), written(int64_t{1});
    for (size_t d : dims) {
      if (!is_one(write->region[d]->extent) || !box[d].is_bounded()) return false;
      missing = missing * cast(missing.dtype(), box[d].max - box[d].min + 1);
    }
    for (const For& loop : inner_) {
      const bool counts =
          std::any_of(dims.begin(), dims.end(), [&](size_t d) { return UsesLoopVar(indices[d], loop->loop_var); });
      if (counts) written = written * cast(written.dtype(), loop->extent);
    }
    return analyzer_.CanProveEqual(missing, written);
  }

  const PlacedBlock& producer_;
  arith::Analyzer& analyzer_;
  std::vector<For> inner_, outer_;  ///< loops of the producer: those within an iteration, and the others
  Map<Var, PrimExpr> bindings_;
};

void CheckFull(const PlacedBlock& placed, const Buffer& buffer, const std::vector<PlacedBlock>& producers,
               const std::vector<arith::IntSet>& box, const ForNode* loop, arith::Analyzer& analyzer) {
  for (const PlacedBlock& p : producers) {
    for (const BufferRegion& write : p.block()->writes) {
      if (!write->buffer.same_as(buffer) || WrittenBox(p, loop, analyzer).IsFull(write, box)) continue;
      throw ScheduleError(StrCat(kName, ": in one iteration of loop ", LoopName(loop->loop_var), " block '", p.name(),
                                 "' computes only scattered elements of '", buffer->name, "', of which block '",
                                 placed.name(), "' would need whole rows; fuse and split its loops less, or choose an ",
                                 "outer loop"));
    }
  }
}

/// The iterations of the consumer that what was produced under the loop suffices for, and only those.
std::vector<AxisDomain> ProducedDomains(const PlacedBlock& placed, const std::vector<PlacedBlock>& producers,
                                        const ForNode* at, arith::Analyzer& analyzer) {
  const BlockNode* block = placed.block();
  const Var& loop = at->loop_var;
  std::vector<AxisDomain> domains = FullDomains(block);
  std::vector<bool> seen(domains.size(), false);
  for (const BufferRegion& read : block->reads) {
    bool produced = false;
    for (const PlacedBlock& p : producers) produced |= WritesBuffer(p.block(), read->buffer);
    if (!produced) continue;
    std::vector<arith::IntSet> region = TouchedRegion(at->body, read->buffer, true, analyzer);
    CheckFull(placed, read->buffer, producers, region, at, analyzer);
    for (size_t d = 0; d < region.size(); ++d) {
      const Range range = read->region[d];
      auto refuse = [&](const char* why) {
        throw ScheduleError(
            StrCat(kName, ": block '", block->name_hint, "' reads dimension ", d, " of '", read->buffer->name, "' ",
                   why, ", so it can't run on the part that one iteration of loop ", LoopName(loop), " computes"));
      };
      // The whole dimension is there: any axis may run over it.
      PrimExpr last = read->buffer->shape[d] - 1;
      bool whole = region[d].is_bounded() && analyzer.CanProveLessEqual(region[d].min, make_zero(last.dtype())) &&
                   analyzer.CanProveLessEqual(last, region[d].max);
      if (whole) continue;
      if (!region[d].is_bounded()) refuse("whose written part isn't known");
      if (!is_const_int(range->extent, 1)) refuse("as a range");
      bool matched = false;
      for (size_t i = 0; i < domains.size() && !matched; ++i) {
        const IterVar& iv = block->iter_vars[i];
        std::optional<int64_t> shift = analyzer.ConstDifference(range->min, iv->var);
        if (!shift) continue;
        if (iv->iter_type != IterVarType::kDataPar) refuse("along a reduction axis");
        DataType dtype = iv->var.dtype();
        // Iterations whose (guarded) index lies outside of the buffer belong to no part.
        PrimExpr first = iv->dom->min + make_const(dtype, *shift);
        if (!analyzer.CanProveLessEqual(make_zero(dtype), first) ||
            !analyzer.CanProveLessEqual(first + iv->dom->extent - 1, cast(dtype, last))) {
          refuse("at an index that may lie outside of it");
        }
        AxisDomain wanted{analyzer.Simplify(cast(dtype, region[d].min) - make_const(dtype, *shift)),
                          analyzer.Simplify(cast(dtype, region[d].max) - make_const(dtype, *shift))};
        if (seen[i] && !(analyzer.CanProveEqual(wanted.min, domains[i].min) &&
                         analyzer.CanProveEqual(wanted.max, domains[i].max))) {
          refuse("at a place that differs from its other reads");
        }
        seen[i] = true;
        matched = true;
        domains[i] = wanted;
      }
      if (!matched) refuse("at an index that isn't one of its axes");
    }
  }
  return domains;
}

}  // namespace

void ReverseComputeAt(ScheduleState& state, const std::string& name, const Var& loop_var, bool keep_unit_loops) {
  PlacedBlock placed = state.FindBlock(name);
  Path loop_path = state.FindLoop(loop_var, kName);
  std::vector<PlacedBlock> producers = ProducersUnder(state, placed, loop_path, loop_var);
  CheckComplete(producers, loop_path, name, loop_var);
  const auto* loop = loop_path.back().as<ForNode>();
  if (loop->kind == ForKind::kVectorized) {
    throw ScheduleError(StrCat(kName, ": loop ", LoopName(loop_var), " is vectorized; vectorize after moving blocks"));
  }
  // Blocks inside the consumer's own loops would stay behind.
  for (const For& own : placed.Loops()) {
    if (Contains(own, loop)) continue;
    for (const PlacedBlock& other : BlocksIn(own)) {
      for (const BufferRegion& r : placed.block()->reads) {
        if (other.name() != name && WritesBuffer(other.block(), r->buffer)) {
          throw ScheduleError(StrCat(kName, ": block '", other.name(), "', a producer of block '", name,
                                     "', is computed inside loop ", LoopName(own->loop_var), " of '", name, "'"));
        }
      }
    }
  }
  arith::Analyzer analyzer;
  state.BindContext(analyzer, loop_path);
  std::vector<AxisDomain> domains = ProducedDomains(placed, producers, loop, analyzer);
  Stmt nest = BuildNest(placed.realize->block, domains, false, keep_unit_loops, analyzer);
  For changed = GetRef<For>(loop);
  changed.CopyOnWrite()->body = SeqStmt::Flatten({loop->body, nest});
  MoveTo(state, placed, loop, changed);
}

}  // namespace treadle::tir::primitive
