// SPDX-License-Identifier: Apache-2.0
#include "tir/passes/thread_extents.h"

#include "tir/passes/pass_util.h"

namespace treadle::tir {
namespace {

class ThreadExtentBinder : public StmtMutator {
 protected:
  using StmtMutator::VisitStmt_;
  Stmt VisitStmt_(const AttrStmtNode* op) override {
    const auto* axis = op->node.as<IterVarNode>();
    const bool thread = op->attr_key == attr::kThreadExtent || op->attr_key == "virtual_thread";
    if (axis == nullptr || !thread) return StmtMutator::VisitStmt_(op);
    const IterVar binding(Range(), Var(axis->thread_tag, axis->var.dtype()), IterVarType::kThreadIndex,
                          axis->thread_tag);
    return For(axis->var, make_zero(axis->var.dtype()), op->value, ForKind::kThreadBinding, VisitStmt(op->body),
               binding);
  }
};

}  // namespace

PrimFunc BindThreadExtents(PrimFunc func, const LowerConfig&) {
  Stmt body = ThreadExtentBinder()(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
