// SPDX-License-Identifier: Apache-2.0
// Loops whose body tests boundaries (of imperfect splits, of padding) are cut into a part where the tests always hold,
// without them, and the rest. A parallel loop isn't cut: its body gets two forms. So does that of a loop annotated
// kPartitionWhole, after the loop is cut.
#include <algorithm>
#include <optional>

#include "arith/loop_scope.h"
#include "tir/passes/hoist_reads.h"
#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"
#include "treadle/tir/any_expressions.h"
#include "treadle/tir/loop_hints.h"

namespace treadle::tir {
namespace {

using arith::IntSet;

/// Comparisons that some if or if_then_else within a loop depends on, with the loops between.
class ConditionCollector : public StmtExprVisitor {
 public:
  struct Condition {
    PrimExpr comparison;
    std::vector<std::pair<Var, Range>> inner;  ///< loops between, outermost first
    bool in_serial_loop = false;               ///< whether it depends on one of them that can be cut itself
  };
  std::vector<Condition> conditions;

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;
  void VisitExpr(const PrimExpr& e) override {
    if (e->use_count() > 1 && !seen_.insert(e.get()).second) return;
    StmtExprVisitor::VisitExpr(e);
  }
  void VisitStmt_(const ForNode* op) override {
    inner_.emplace_back(op->loop_var, Range::FromMinExtent(op->min, op->extent));
    if (op->kind == ForKind::kSerial) serial_.insert(op->loop_var.get());
    // What another loop shares with this one stands in other ranges here.
    auto seen_outside = std::exchange(seen_, {});
    VisitStmt(op->body);
    seen_ = std::move(seen_outside);
    inner_.pop_back();
  }
  void VisitStmt_(const IfThenElseNode* op) override {
    Add(op->condition);
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitExpr_(const LetNode* op) override {
    bound_.insert(op->var.get());
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitStmt_(const LetStmtNode* op) override {
    bound_.insert(op->var.get());
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitExpr_(const CallNode* op) override {
    if (IsCallTo(op, "tir.if_then_else")) Add(op->args[0]);
    StmtExprVisitor::VisitExpr_(op);
  }

 private:
  void Add(const PrimExpr& condition) {
    for (const PrimExpr& part : SplitConjunction(condition)) {
      const bool comparison = part.as<LTNode>() || part.as<LENode>() || part.as<GTNode>() || part.as<GENode>();
      // What is bound within the loop means nothing outside it.
      if (comparison && !arith::ReadsData(part) && !UsesAnyVar(part, bound_))
        conditions.push_back({part, inner_, UsesAnyVar(part, serial_)});
    }
  }
  std::vector<std::pair<Var, Range>> inner_;
  std::unordered_set<const Object*> serial_, bound_;
  std::unordered_set<const Object*> seen_;  ///< shared subexpressions of the loop's body
};

/// Replaces comparisons, given by identity, by true.
class ConditionRemover : public FoldingMutator {
 public:
  explicit ConditionRemover(const std::unordered_set<const Object*>& removed) : removed_(removed) {}

 protected:
  using FoldingMutator::VisitStmt_;
  PrimExpr VisitExpr(const PrimExpr& e) override {
    if (removed_.count(e.get()) != 0) return make_bool(true);
    return FoldingMutator::VisitExpr(e);
  }
  Stmt VisitStmt_(const IfThenElseNode* op) override {
    Stmt result = FoldingMutator::VisitStmt_(op);
    const auto* branch = result.as<IfThenElseNode>();
    return is_one(branch->condition) ? branch->then_case : result;
  }

 private:
  const std::unordered_set<const Object*>& removed_;
};

/// What a loop's body does to memory that outlives it, with the conditions and the loops around each such statement.
class EffectCollector : public StmtVisitor {
 public:
  struct Effect {
    std::vector<PrimExpr> conditions;
    std::vector<std::pair<Var, Range>> inner;  ///< loops between, outermost first
  };
  std::vector<Effect> effects;

 protected:
  using StmtVisitor::VisitStmt_;
  void VisitStmt_(const ForNode* op) override {
    inner_.emplace_back(op->loop_var, Range::FromMinExtent(op->min, op->extent));
    VisitStmt(op->body);
    inner_.pop_back();
  }
  void VisitStmt_(const IfThenElseNode* op) override {
    const size_t outer = conditions_.size();
    for (const PrimExpr& part : SplitConjunction(op->condition)) {
      if (!arith::ReadsData(part) && !UsesAnyVar(part, bound_)) conditions_.push_back(part);
    }
    VisitStmt(op->then_case);
    conditions_.resize(outer);
    if (op->else_case.defined()) VisitStmt(op->else_case);
  }
  void VisitStmt_(const LetStmtNode* op) override {
    bound_.insert(op->var.get());
    VisitStmt(op->body);
  }
  void VisitStmt_(const AllocateNode* op) override {
    own_.insert(op->buffer->data.get());
    VisitStmt(op->body);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    if (own_.count(op->buffer->data.get()) == 0) Add();
  }
  void VisitStmt_(const EvaluateNode* op) override {
    const auto* call = op->value.as<CallNode>();
    if (call == nullptr || !IsCallTo(call, "tir.prefetch")) Add();
  }
  void VisitStmt_(const AssertStmtNode* op) override {
    Add();
    VisitStmt(op->body);
  }

 private:
  void Add() { effects.push_back({conditions_, inner_}); }
  std::vector<PrimExpr> conditions_;
  std::vector<std::pair<Var, Range>> inner_;
  std::unordered_set<const Object*> own_, bound_;
};

/// A condition is a - b + slack <= 0.
struct Difference {
  PrimExpr a, b;
  int64_t slack = 0;
};
std::optional<Difference> DifferenceOf(const PrimExpr& comparison) {
  Difference result;
  if (const auto* lt = comparison.as<LTNode>()) result = {lt->a, lt->b, 1};
  if (const auto* le = comparison.as<LENode>()) result = {le->a, le->b, 0};
  if (const auto* gt = comparison.as<GTNode>()) result = {gt->b, gt->a, 1};
  if (const auto* ge = comparison.as<GENode>()) result = {ge->b, ge->a, 0};
  if (!result.a.defined() || !result.a.dtype().is_int() || !result.a.dtype().is_scalar()) return std::nullopt;
  return result;
}

/// Of vectors whose last lanes a condition leaves out (the rest of a row, whose loop has one iteration), the others
/// become shorter vectors without it: else lanes would be computed one by one.
class VectorShortener : public StmtExprMutator {
 public:
  Stmt Run(const Stmt& body) { return VisitStmt(body); }

 protected:
  using StmtExprMutator::VisitStmt_;
  PrimExpr VisitExpr(const PrimExpr& e) override { return e; }

  Stmt VisitStmt_(const ForNode* op) override {
    if (op->kind == ForKind::kSerial && is_one(op->extent)) {
      Map<Var, PrimExpr> vmap;
      vmap.Set(op->loop_var, op->min);
      return VisitStmt(Substitute(op->body, vmap));
    }
    const auto* branch = op->body.as<IfThenElseNode>();
    const int64_t* lanes = AsConstInt(op->extent);
    if (op->kind != ForKind::kVectorized || branch == nullptr || branch->else_case.defined() || lanes == nullptr) {
      return StmtExprMutator::VisitStmt_(op);
    }
    int64_t live = *lanes;
    PrimExpr kept = make_bool(true);
    for (const PrimExpr& part : SplitConjunction(branch->condition)) {
      const std::optional<int64_t> holds = LanesOf(op, part);
      live = std::min(live, holds.value_or(live));
      if (!holds) kept = kept && part;
    }
    if (live == *lanes || live < 1) return GetRef<Stmt>(op);
    const Stmt body = is_one(kept) ? branch->then_case : IfThenElse(kept, branch->then_case);
    if (live == 1) {
      Map<Var, PrimExpr> vmap;
      vmap.Set(op->loop_var, op->min);
      return Substitute(body, vmap);
    }
    return For(op->loop_var, op->min, make_const(op->extent.dtype(), live), op->kind, body, op->thread_binding,
               op->annotations, op->span);
  }

 private:
  /// How many of the first lanes a condition holds for, and for no other; nothing where that isn't known.
  std::optional<int64_t> LanesOf(const ForNode* op, const PrimExpr& condition) {
    const auto difference = DifferenceOf(condition);
    if (!difference) return std::nullopt;
    const PrimExpr whole = difference->a - difference->b + make_const(difference->a.dtype(), difference->slack);
    const std::vector<PrimExpr> linear = analyzer_.DetectLinear(analyzer_.Simplify(whole), {op->loop_var});
    if (linear.size() != 2) return std::nullopt;
    const PrimExpr slope = analyzer_.Simplify(linear[0]), rest = analyzer_.Simplify(linear[1]);
    const int64_t *step = AsConstInt(slope), *start = AsConstInt(rest), *min = AsConstInt(op->min);
    if (step == nullptr || *step <= 0 || start == nullptr || min == nullptr || *start > 0) return std::nullopt;
    return -*start / *step + 1 - *min;
  }

  arith::Analyzer analyzer_;
};

class Partitioner : public StmtExprMutator {
 public:
  Stmt Run(const Stmt& body) {
    const Stmt cut = VisitStmt(body);
    ending_ = !endless_.empty();
    return ending_ ? VisitStmt(cut) : cut;
  }

 protected:
  using StmtExprMutator::VisitStmt_;
  PrimExpr VisitExpr(const PrimExpr& e) override { return e; }

  Stmt VisitStmt_(const ForNode* op) override {
    if (ending_) return VisitEnd(op);
    // Threads that wait for each other in the body have to run the loop equally often.
    const bool thread = op->kind == ForKind::kThreadBinding;
    loops_.insert(op->loop_var.get());
    const bool together = threads_around_ > 0 && Holds(op->body, ForKind::kThreadBinding);
    const bool fit = (op->kind == ForKind::kSerial || op->kind == ForKind::kParallel) && !together;
    arith::LoopScope own_range(analyzer_, op->loop_var, Range::FromMinExtent(op->min, op->extent));
    if (!fit || is_one(op->extent)) {
      threads_around_ += thread;
      Stmt result = StmtExprMutator::VisitStmt_(op);
      threads_around_ -= thread;
      return result;
    }
    ConditionCollector collector;
    collector(op->body);
    if (op->kind == ForKind::kParallel) return VisitParallel(op, collector.conditions);
    PrimExpr low, high;  // the part without conditions: [low, high)
    std::unordered_set<const Object*> removed, kept;
    // Around parallel loops, what serial loops inside can be cut at by dynamic sizes is left to them: each form of such
    // a loop has all that is inside, for ends that only the run knows.
    const bool around_parallel = Holds(op->body, ForKind::kParallel),
               dynamic_extent = AsConstInt(op->extent) == nullptr;
    for (const auto& condition : collector.conditions) {
      const bool left = around_parallel && condition.in_serial_loop && (dynamic_extent || UsesSizes(condition));
      (!left && Narrow(op, condition, &low, &high) ? removed : kept).insert(condition.comparison.get());
    }
    // One that stands in several places goes only where it holds in all of them.
    for (const Object* comparison : kept) removed.erase(comparison);
    const bool forms = op->annotations.contains(attr::kPartitionWhole);
    if (removed.empty()) return forms ? WithFreeForm(op) : StmtExprMutator::VisitStmt_(op);

    const PrimExpr end = analyzer_.Simplify(op->min + op->extent), bound = high;
    Clamp(op, &low, &high);
    if (analyzer_.CanProveLessEqual(high, low)) return StmtExprMutator::VisitStmt_(op);
    Stmt free_body = ConditionRemover(removed).Rewrite(op->body);
    Array<Stmt> parts;
    bool rest_without_end = false;
    auto add = [&](const PrimExpr& from, const PrimExpr& to, const Stmt& body, bool again) {
      if (analyzer_.CanProveLessEqual(to, from)) return;
      Var var(op->loop_var->name_hint, op->loop_var.dtype());
      loops_.insert(var.get());
      PrimExpr extent = analyzer_.Simplify(to - from);
      arith::LoopScope part_range(analyzer_, var, Range::FromMinExtent(from, extent));
      Map<Var, PrimExpr> vmap;
      vmap.Set(op->loop_var, var);
      Stmt copy = Substitute(body, vmap);
      if (again && !forms) copy = VisitStmt(copy);
      if (rest_without_end) endless_.insert(var.get());
      const For part(var, from, extent, op->kind, copy, op->thread_binding, op->annotations, op->span);
      parts.push_back(again && forms ? WithFreeForm(part.get()) : Stmt(part));
    };
    add(op->min, low, op->body, false);
    add(low, high, free_body, true);
    const bool dynamic = AsConstInt(high) == nullptr;
    // The rest of unknown size may have a main part of its own, and iterations that do nothing.
    // Ends become part of the bounds of the loops inside, which would grow exponentially with the depth: those of inner
    // loops are found when all loops are cut.
    const PrimExpr live = dynamic ? LiveEnd(op, bound, high, end) : end;
    rest_without_end = dynamic && in_cut_ && op->kind == ForKind::kSerial && threads_around_ == 0;
    const bool outermost = !in_cut_ && !live.same_as(end);
    in_cut_ = in_cut_ || outermost;
    add(high, live, op->body, dynamic);
    if (outermost) in_cut_ = false;
    return SeqStmt::Flatten(parts);
  }

 private:
  /// A loop after all are cut: those that run over what a cut has left end where nothing has an effect any more.
  Stmt VisitEnd(const ForNode* op) {
    arith::LoopScope own_range(analyzer_, op->loop_var, Range::FromMinExtent(op->min, op->extent));
    PrimExpr extent = op->extent;
    if (endless_.count(op->loop_var.get()) != 0) {
      const PrimExpr end = analyzer_.Simplify(op->min + op->extent);
      const PrimExpr live = LiveEnd(op, PrimExpr(), op->min, end);
      if (!live.same_as(end)) extent = analyzer_.Simplify(live - op->min);
    }
    const Stmt body = VisitStmt(op->body);
    if (extent.same_as(op->extent) && body.same_as(op->body)) return GetRef<Stmt>(op);
    return For(op->loop_var, op->min, extent, op->kind, body, op->thread_binding, op->annotations, op->span);
  }

  /// Whether a condition depends on more than loops.
  bool UsesSizes(const ConditionCollector::Condition& condition) const {
    return arith::UsesVar(condition.comparison, [&](const VarNode* v) {
      const bool inner = std::any_of(condition.inner.begin(), condition.inner.end(),
                                     [&](const auto& loop) { return loop.first.get() == v; });
      return !inner && loops_.count(v) == 0;
    });
  }

  static bool Holds(const Stmt& body, ForKind kind) {
    bool found = false;
    PostOrderVisit(body, [&](const ObjectRef& node) {
      found |= node.as<ForNode>() != nullptr && node.as<ForNode>()->kind == kind;
    });
    return found;
  }

  /// Where the iterations end that do something: from there to `end` some condition around each effect fails. `high`:
  /// where the main part ends, `bound` clamped to the loop.
  PrimExpr LiveEnd(const ForNode* op, const PrimExpr& bound, const PrimExpr& high, const PrimExpr& end) {
    EffectCollector collector;
    collector(op->body);
    PrimExpr live = high;
    bool only_main = bound.defined();
    for (const EffectCollector::Effect& effect : collector.effects) {
      PrimExpr last;  // the first iteration without this effect
      for (const PrimExpr& condition : effect.conditions) {
        auto difference = DifferenceOf(condition);
        if (!difference) continue;
        const auto& [a, b, slack] = *difference;
        std::vector<PrimExpr> linear = analyzer_.DetectLinear(a - b + make_const(a.dtype(), slack), {op->loop_var});
        if (linear.size() != 2) continue;
        const PrimExpr slope = analyzer_.Simplify(linear[0]);
        const int64_t* coefficient = AsConstInt(slope);
        if (coefficient == nullptr || *coefficient <= 0) continue;
        PrimExpr rest = MaximumOver(neg(linear[1]), effect.inner);
        if (!IsKnownBefore(op, rest, effect.inner)) continue;
        const DataType dtype = op->loop_var.dtype();
        PrimExpr first = floordiv(cast(dtype, rest), make_const(dtype, *coefficient)) + 1;
        last = last.defined() ? min(last, first) : first;
      }
      if (!last.defined()) return end;
      only_main = only_main && analyzer_.CanProveLessEqual(last, bound);
      live = max(live, last);
    }
    if (only_main) return high;
    if (in_cut_) return end;
    live = analyzer_.Simplify(min(live, end));
    return analyzer_.CanProveEqual(live, end) ? end : live;
  }

  /// [low, high), either of which may be missing, within the loop.
  void Clamp(const ForNode* op, PrimExpr* low, PrimExpr* high) {
    const PrimExpr end = analyzer_.Simplify(op->min + op->extent);
    auto clamp = [&](const PrimExpr& e, const PrimExpr& least) { return analyzer_.Simplify(max(least, min(e, end))); };
    *low = low->defined() ? clamp(*low, op->min) : op->min;
    *high = high->defined() ? clamp(*high, *low) : end;
  }

  /// Conditions that hold in a whole iteration of a parallel loop where `guard` does.
  struct Guarded {
    PrimExpr guard = make_bool(true);
    std::unordered_set<const Object*> removed;
  };
  Guarded GuardOf(const ForNode* op, const std::vector<ConditionCollector::Condition>& conditions, bool all) {
    Guarded result;
    PrimExpr low, high;
    std::unordered_set<const Object*> kept;
    for (const auto& condition : conditions) {
      bool holds = all || !condition.in_serial_loop;
      if (holds && !Narrow(op, condition, &low, &high)) {
        PrimExpr most = MostOf(op, condition);
        holds = most.defined();
        if (holds) result.guard = result.guard && (most <= make_zero(most.dtype()));
      }
      (holds ? result.removed : kept).insert(condition.comparison.get());
    }
    for (const Object* comparison : kept) result.removed.erase(comparison);
    Clamp(op, &low, &high);
    result.guard = analyzer_.Simplify(op->loop_var >= low && op->loop_var < high && result.guard);
    return result;
  }

  /// The loop, whose iterations run a body without conditions where all of them hold.
  Stmt WithFreeForm(const ForNode* op) {
    ConditionCollector collector;
    collector(op->body);
    const Guarded all = GuardOf(op, collector.conditions, true);
    Stmt body = VisitStmt(op->body);
    if (!all.removed.empty() && !is_zero(all.guard)) {
      body = IfThenElse(all.guard, VisitStmt(ConditionRemover(all.removed).Rewrite(op->body)), body);
    }
    return For(op->loop_var, op->min, op->extent, op->kind, body, op->thread_binding, op->annotations, op->span);
  }

  /// A body without the conditions, one without those that no loop inside can be cut at, and the one that was.
  Stmt VisitParallel(const ForNode* op, const std::vector<ConditionCollector::Condition>& conditions) {
    const Guarded all = GuardOf(op, conditions, true), leaves = GuardOf(op, conditions, false);
    auto freed = [&](const Guarded& guarded) { return VisitStmt(ConditionRemover(guarded.removed).Rewrite(op->body)); };
    auto choose = [&](const Guarded& guarded, const Stmt& otherwise) -> Stmt {
      if (guarded.removed.empty() || is_zero(guarded.guard)) return otherwise;
      if (is_one(guarded.guard)) return freed(guarded);
      return IfThenElse(guarded.guard, freed(guarded), otherwise);
    };
    Stmt body = VisitStmt(op->body);
    if (leaves.removed.size() < all.removed.size()) body = choose(leaves, body);
    // Where serial loops inside are cut by dynamic sizes in any case, one more form of them gains nothing.
    const bool cut_inside =
        leaves.removed.empty() && std::any_of(conditions.begin(), conditions.end(),
                                              [&](const auto& c) { return c.in_serial_loop && UsesSizes(c); });
    if (!cut_inside) body = choose(all, body);
    return For(op->loop_var, op->min, op->extent, op->kind, body, op->thread_binding, op->annotations, op->span);
  }

  static bool UsesInner(const PrimExpr& e, const std::vector<std::pair<Var, Range>>& inner) {
    for (const auto& [var, range] : inner) {
      if (arith::UsesVar(e, [&, v = var.get()](const VarNode* other) { return v == other; })) return true;
    }
    return false;
  }

  /// Whether a bound can be computed before the loop: bounds of loops inside may bring in its own variable, and reads.
  static bool IsKnownBefore(const ForNode* op, const PrimExpr& bound, const std::vector<std::pair<Var, Range>>& inner) {
    if (!bound.defined() || UsesInner(bound, inner) || arith::ReadsData(bound)) return false;
    return !arith::UsesVar(bound, [&](const VarNode* v) { return v == op->loop_var.get(); });
  }

  /// Tightens [low, high) to where the condition holds for all values of the loops between; whether that can be said.
  bool Narrow(const ForNode* op, const ConditionCollector::Condition& condition, PrimExpr* low, PrimExpr* high) {
    auto difference = DifferenceOf(condition.comparison);
    if (!difference) return false;
    const auto& [a, b, slack] = *difference;
    std::vector<PrimExpr> linear = analyzer_.DetectLinear(a - b + make_const(a.dtype(), slack), {op->loop_var});
    if (linear.size() != 2) return false;
    const PrimExpr slope = analyzer_.Simplify(linear[0]);
    const int64_t* coefficient = AsConstInt(slope);
    if (coefficient == nullptr || *coefficient == 0) return false;
    PrimExpr rest = MaximumOver(linear[1], condition.inner);
    if (!IsKnownBefore(op, rest, condition.inner)) return false;
    const DataType dtype = op->loop_var.dtype();
    rest = cast(dtype, rest);
    if (*coefficient > 0) {  // c v + rest <= 0: v <= floor(-rest / c)
      PrimExpr bound = floordiv(neg(rest), make_const(dtype, *coefficient)) + 1;
      *high = high->defined() ? min(*high, bound) : bound;
    } else {  // v >= ceil(rest / |c|)
      const int64_t c = -*coefficient;
      PrimExpr bound = floordiv(rest + make_const(dtype, c - 1), make_const(dtype, c));
      *low = low->defined() ? max(*low, bound) : bound;
    }
    return true;
  }

  /// The most that the difference of a condition on the loop's variable becomes in the loops between: the condition
  /// holds throughout where that isn't positive. Null where it isn't known, or depends on this loop by nothing.
  PrimExpr MostOf(const ForNode* op, const ConditionCollector::Condition& condition) {
    auto difference = DifferenceOf(condition.comparison);
    if (!difference) return PrimExpr();
    PrimExpr whole =
        analyzer_.Simplify(difference->a - difference->b + make_const(difference->a.dtype(), difference->slack));
    auto is_own = [&](const VarNode* v) { return v == op->loop_var.get(); };
    if (!arith::UsesVar(whole, is_own)) return PrimExpr();
    PrimExpr most = MaximumOver(whole, condition.inner);
    const bool known = most.defined() && !UsesInner(most, condition.inner) && !arith::ReadsData(most);
    return known && arith::UsesVar(most, is_own) ? most : PrimExpr();
  }

  /// An upper bound of `e` while the variables run, in terms of the others; null where there is none.
  PrimExpr MaximumOver(const PrimExpr& e, const std::vector<std::pair<Var, Range>>& inner) {
    PrimExpr current = e;
    // Innermost first, as ranges may depend on outer loops.
    for (size_t i = inner.size(); i-- > 0;) {
      const auto& [var, range] = inner[i];
      IntSet set = analyzer_.EvalSet(current, [&, v = var, r = range](const Var& other) -> std::optional<IntSet> {
        if (!other.same_as(v)) return std::nullopt;
        return IntSet::FromRange(r);
      });
      if (!set.max.defined()) return PrimExpr();
      current = set.max;
    }
    return analyzer_.Simplify(current);
  }

  arith::Analyzer analyzer_;
  std::unordered_set<const Object*> loops_;  ///< variables of loops
  int threads_around_ = 0;
  std::unordered_set<const Object*> endless_;  ///< variables of loops over what a cut has left, in other such loops
  bool ending_ = false;                        ///< all loops are cut
  bool in_cut_ = false;                        ///< in a loop that ends where nothing has an effect any more
};

}  // namespace

PrimFunc LoopPartition(PrimFunc func, const LowerConfig& config) {
  if (config.simple_mode) return func;
  func = HoistReads(std::move(func));
  Stmt body = Partitioner().Run(func->body);
  if (func->HasNonzeroAttr(kAnyExpressions)) body = VectorShortener().Run(body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
