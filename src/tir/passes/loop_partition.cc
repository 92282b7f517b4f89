// SPDX-License-Identifier: Apache-2.0
// Loops whose body tests boundaries (of imperfect splits, of padding) are cut into a part where the tests always hold,
// without them, and the rest. A parallel loop isn't cut: its body gets two forms.
#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"

namespace treadle::tir {
namespace {

using arith::IntSet;

/// Comparisons that some if or if_then_else within a loop depends on, with the loops between.
class ConditionCollector : public StmtExprVisitor {
 public:
  struct Condition {
    PrimExpr comparison;
    std::vector<std::pair<Var, Range>> inner;  ///< loops between, outermost first
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
    VisitStmt(op->body);
    inner_.pop_back();
  }
  void VisitStmt_(const IfThenElseNode* op) override {
    Add(op->condition);
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
      if (comparison && !arith::ReadsData(part)) conditions.push_back({part, inner_});
    }
  }
  std::vector<std::pair<Var, Range>> inner_;
  std::unordered_set<const Object*> seen_;
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

class Partitioner : public StmtExprMutator {
 public:
  Stmt Run(const Stmt& body) { return VisitStmt(body); }

 protected:
  using StmtExprMutator::VisitStmt_;
  PrimExpr VisitExpr(const PrimExpr& e) override { return e; }

  Stmt VisitStmt_(const ForNode* op) override {
    const bool fit = op->kind == ForKind::kSerial || op->kind == ForKind::kParallel;
    analyzer_.Bind(op->loop_var, Range::FromMinExtent(op->min, op->extent));
    if (!fit || is_one(op->extent)) return StmtExprMutator::VisitStmt_(op);
    ConditionCollector collector;
    collector(op->body);
    PrimExpr low, high;  // the part without conditions: [low, high)
    std::unordered_set<const Object*> removed;
    for (const auto& condition : collector.conditions) Narrow(op, condition, &low, &high, &removed);
    if (removed.empty()) return StmtExprMutator::VisitStmt_(op);

    const PrimExpr end = analyzer_.Simplify(op->min + op->extent);
    auto clamp = [&](const PrimExpr& e, const PrimExpr& least) { return analyzer_.Simplify(max(least, min(e, end))); };
    low = low.defined() ? clamp(low, op->min) : op->min;
    high = high.defined() ? clamp(high, low) : end;
    if (analyzer_.CanProveLessEqual(high, low)) return StmtExprMutator::VisitStmt_(op);
    Stmt free_body = ConditionRemover(removed).Rewrite(op->body);
    if (op->kind == ForKind::kParallel) {
      free_body = VisitStmt(free_body);
      PrimExpr inside = analyzer_.Simplify(op->loop_var >= low && op->loop_var < high);
      Stmt body = is_one(inside) ? free_body : Stmt(IfThenElse(inside, free_body, VisitStmt(op->body)));
      return For(op->loop_var, op->min, op->extent, op->kind, body, op->thread_binding, op->annotations, op->span);
    }
    Array<Stmt> parts;
    auto add = [&](const PrimExpr& from, const PrimExpr& to, const Stmt& body, bool again) {
      if (analyzer_.CanProveLessEqual(to, from)) return;
      Var var(op->loop_var->name_hint, op->loop_var.dtype());
      PrimExpr extent = analyzer_.Simplify(to - from);
      analyzer_.Bind(var, Range::FromMinExtent(from, extent));
      Map<Var, PrimExpr> vmap;
      vmap.Set(op->loop_var, var);
      Stmt copy = Substitute(body, vmap);
      if (again) copy = VisitStmt(copy);
      parts.push_back(For(var, from, extent, op->kind, copy, op->thread_binding, op->annotations, op->span));
    };
    add(op->min, low, op->body, false);
    add(low, high, free_body, true);
    add(high, end, op->body, false);
    return SeqStmt::Flatten(parts);
  }

 private:
  /// Tightens [low, high) to where the condition holds for all values of the loops between.
  void Narrow(const ForNode* op, const ConditionCollector::Condition& condition, PrimExpr* low, PrimExpr* high,
              std::unordered_set<const Object*>* removed) {
    PrimExpr a, b;
    int64_t slack = 0;  // the condition is a - b + slack <= 0
    auto take = [&](const PrimExpr& x, const PrimExpr& y, int64_t s) {
      a = x;
      b = y;
      slack = s;
    };
    if (const auto* lt = condition.comparison.as<LTNode>()) take(lt->a, lt->b, 1);
    if (const auto* le = condition.comparison.as<LENode>()) take(le->a, le->b, 0);
    if (const auto* gt = condition.comparison.as<GTNode>()) take(gt->b, gt->a, 1);
    if (const auto* ge = condition.comparison.as<GENode>()) take(ge->b, ge->a, 0);
    if (!a.dtype().is_int() || !a.dtype().is_scalar()) return;
    std::vector<PrimExpr> linear = analyzer_.DetectLinear(a - b + make_const(a.dtype(), slack), {op->loop_var});
    if (linear.size() != 2) return;
    const int64_t* coefficient = AsConstInt(analyzer_.Simplify(linear[0]));
    if (coefficient == nullptr || *coefficient == 0) return;
    PrimExpr rest = MaximumOver(linear[1], condition.inner);
    if (!rest.defined()) return;
    bool defined_outside = true;
    for (const auto& [var, range] : condition.inner) {
      if (arith::UsesVar(rest, [&](const VarNode* v) { return v == var.get(); })) defined_outside = false;
    }
    if (!defined_outside) return;
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
    removed->insert(condition.comparison.get());
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
};

}  // namespace

PrimFunc LoopPartition(PrimFunc func, const LowerConfig& config) {
  if (config.simple_mode) return func;
  Stmt body = Partitioner().Run(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
