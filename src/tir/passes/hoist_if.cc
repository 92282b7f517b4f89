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
    if (Stmt sides = SidesOfStore(loop); sides.defined()) return sides;
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

 private:
  /// A loop that does nothing but store one of several values, which of them being the same for all of it: one loop for
  /// each value. Null where it isn't one.
  static Stmt SidesOfStore(const ForNode* loop) {
    constexpr int kMost = 16;  // each is code of its own
    const auto* store = loop->body.as<BufferStoreNode>();
    if (store == nullptr || loop->kind != ForKind::kSerial) return Stmt();
    const std::unordered_set<const Object*> own{loop->loop_var.get()};
    const auto side = [&](const PrimExpr& value) {
      return For(loop->loop_var, loop->min, loop->extent, loop->kind,
                 BufferStore(store->buffer, value, store->indices, store->span), loop->thread_binding,
                 loop->annotations, loop->span);
    };
    std::vector<const CallNode*> choices;
    PrimExpr rest = store->value;
    while (const auto* call = rest.as<CallNode>()) {
      const bool fixed =
          IsCallTo(call, "tir.if_then_else") && !UsesAnyVar(call->args[0], own) && !arith::ReadsData(call->args[0]);
      if (!fixed) break;
      choices.push_back(call);
      rest = call->args[2];
    }
    if (choices.empty() || choices.size() > kMost) return Stmt();
    Stmt result = side(rest);
    for (size_t i = choices.size(); i-- > 0;) {
      result = IfThenElse(choices[i]->args[0], side(choices[i]->args[1]), result);
    }
    return result;
  }
};

}  // namespace

PrimFunc HoistIfThenElse(PrimFunc func, const LowerConfig&) {
  Stmt body = IfHoister()(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
