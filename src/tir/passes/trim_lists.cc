// SPDX-License-Identifier: Apache-2.0
// Loops over the entries of lists of different lengths, which are as long as the longest, end where their list does.
// The length is behind the list: where the buffer that says which elements an entry is of would have one entry more.
#include "tir/passes/pass_util.h"
#include "treadle/tir/loop_hints.h"

namespace treadle::tir {
namespace {

class ListTrimmer : public StmtMutator {
 protected:
  using StmtMutator::VisitStmt_;
  Stmt VisitStmt_(const ForNode* op) override {
    Stmt result = StmtMutator::VisitStmt_(op);
    const auto* loop = result.as<ForNode>();
    if (loop == nullptr || !loop->annotations.contains(attr::kListLength) || !is_zero(loop->min)) return result;
    PrimExpr length = LengthOf(loop);
    if (!length.defined()) return result;
    return For(loop->loop_var, loop->min, cast(loop->extent.dtype(), length), loop->kind, loop->body,
               loop->thread_binding, loop->annotations, loop->span);
  }

 private:
  /// What the first int32 that is read of each entry would be behind the last one.
  static PrimExpr LengthOf(const ForNode* loop) {
    const std::unordered_set<const Object*> own{loop->loop_var.get()};
    PrimExpr length;
    bool fixed = true;
    PostOrderVisit(loop->body, [&](const ObjectRef& node) {
      const auto* load = node.as<BufferLoadNode>();
      if (length.defined() || load == nullptr || load->dtype != DataType::Int(32)) return;
      bool of_entry = false;
      for (const PrimExpr& index : load->indices) of_entry = of_entry || UsesAnyVar(index, own);
      if (!of_entry) return;
      length = Substitute(GetRef<PrimExpr>(load), Map<Var, PrimExpr>{{loop->loop_var, loop->extent}});
    });
    // The length is read before the loop: of what loops inside it count there is nothing yet.
    PostOrderVisit(loop->body, [&](const ObjectRef& node) {
      const auto* inner = node.as<ForNode>();
      if (length.defined() && inner != nullptr && UsesAnyVar(length, {inner->loop_var.get()})) fixed = false;
    });
    return fixed ? length : PrimExpr();
  }
};

}  // namespace

PrimFunc TrimLists(PrimFunc func, const LowerConfig&) {
  Stmt body = ListTrimmer()(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
