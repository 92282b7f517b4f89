// SPDX-License-Identifier: Apache-2.0
// Conditions that a loop doesn't change move out of it: they are tested once, and what is left of the loop is plain.
#include <algorithm>

#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"

namespace treadle::tir {
namespace {

/// Conditions are taken off statement by statement from the innermost loop outwards.
class IfHoister : public StmtMutator {
 protected:
  using StmtMutator::VisitStmt_;
  Stmt VisitStmt_(const ForNode* op) override {
    Stmt result = StmtMutator::VisitStmt_(op);
    const auto* loop = result.as<ForNode>();
    const auto* branch = loop->body.as<IfThenElseNode>();
    if (branch == nullptr || loop->kind == ForKind::kThreadBinding || loop->kind == ForKind::kParallel) return result;
    std::unordered_set<const Object*> own{loop->loop_var.get()};
    PrimExpr outside, inside;
    auto add = [](PrimExpr& all, const PrimExpr& part) { all = all.defined() ? And(all, part) : part; };
    for (const PrimExpr& part : SplitConjunction(branch->condition, Likely::kKeep)) {
      // What reads memory may change from one iteration to the next.
      const std::vector<PrimExpr> conditions = SplitConjunction(part);
      const bool fixed = !UsesAnyVar(part, own) && std::none_of(conditions.begin(), conditions.end(), arith::ReadsData);
      add(fixed ? outside : inside, part);
    }
    if (!outside.defined()) return result;
    // `if (a && b) x else y` runs y where either fails: only whole conditions leave such a loop.
    if (branch->else_case.defined() && inside.defined()) return result;
    auto with_body = [&](const Stmt& body) {
      return For(loop->loop_var, loop->min, loop->extent, loop->kind, body, loop->thread_binding, loop->annotations,
                 loop->span);
    };
    Stmt then_case = with_body(inside.defined() ? Stmt(IfThenElse(inside, branch->then_case)) : branch->then_case);
    Stmt else_case = branch->else_case.defined() ? Stmt(with_body(branch->else_case)) : Stmt();
    return IfThenElse(outside, then_case, else_case, branch->span);
  }
};

}  // namespace

PrimFunc HoistIfThenElse(PrimFunc func, const LowerConfig&) {
  Stmt body = IfHoister()(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
