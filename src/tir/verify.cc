// SPDX-License-Identifier: Apache-2.0
#include "treadle/tir/verify.h"

#include <unordered_set>

#include "treadle/ir/prim_ops.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::tir {
namespace {

class Verifier : public StmtExprVisitor {
 public:
  std::string fault;

  void Run(const PrimFunc& func) {
    for (const Var& p : func->params) Define(p);
    for (const auto& [param, buffer] : func->buffer_map) {
      DefineBuffer(buffer);
      // Symbolic sizes are defined by the shapes of parameters.
      auto define_free = [&](const PrimExpr& e) {
        PostOrderVisit(e, [&](const ObjectRef& n) {
          if (const auto* var = n.as<VarNode>()) defined_.insert(var);
        });
      };
      for (const PrimExpr& e : buffer->shape) define_free(e);
      for (const PrimExpr& e : buffer->strides) define_free(e);
      if (buffer->elem_offset.defined()) define_free(buffer->elem_offset);
    }
    VisitStmt(func->body);
  }

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;

  void VisitExpr_(const VarNode* op) override {
    if (loops_outside_.count(op)) {
      Report(
          StrCat("uses loop variable '", op->name_hint, "' of a loop around the block; only its own axes may be used"));
    } else if (!defined_.count(op)) {
      Report(StrCat("uses variable '", op->name_hint, "', which isn't defined there"));
    }
  }
  void VisitExpr_(const LetNode* op) override {
    VisitExpr(op->value);
    Define(op->var);
    VisitExpr(op->body);
    defined_.erase(op->var.get());
  }
  void VisitExpr_(const BufferLoadNode* op) override {
    UseBuffer(op->buffer);
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitExpr_(const ReduceNode*) override { Report("has a tensor-level reduction"); }
  void VisitExpr_(const ProducerLoadNode*) override { Report("reads a tensor, not a buffer"); }
  void VisitStmt_(const BufferStoreNode* op) override {
    UseBuffer(op->buffer);
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const LetStmtNode* op) override {
    VisitExpr(op->value);
    Define(op->var);
    VisitStmt(op->body);
    defined_.erase(op->var.get());
  }
  void VisitStmt_(const ForNode* op) override {
    VisitExpr(op->min);
    VisitExpr(op->extent);
    Define(op->loop_var);
    open_loops_.insert(op->loop_var.get());
    VisitStmt(op->body);
    open_loops_.erase(op->loop_var.get());
    defined_.erase(op->loop_var.get());
  }
  void VisitStmt_(const AttrStmtNode* op) override {
    // Thread axes and the like are defined by the attribute.
    if (const auto* iv = op->node.as<IterVarNode>()) defined_.insert(iv->var.get());
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const AllocateNode* op) override {
    DefineBuffer(op->buffer);
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const BlockRealizeNode* op) override {
    for (const PrimExpr& value : op->iter_values) VisitExpr(value);
    VisitExpr(op->predicate);
    auto saved_loops = loops_outside_;
    auto saved_defined = defined_;
    std::string saved_place = place_;
    place_ = op->block->name_hint;
    // Everything that is a loop variable now is out of bounds inside.
    for (const VarNode* loop : open_loops_) loops_outside_.insert(loop);
    for (const IterVar& iv : op->block->iter_vars) Define(iv->var);
    for (const Buffer& b : op->block->alloc_buffers) DefineBuffer(b);
    for (const MatchBufferRegion& m : op->block->match_buffers) DefineBuffer(m->buffer);
    for (const BufferRegion& r : op->block->reads) UseBuffer(r->buffer);
    for (const BufferRegion& w : op->block->writes) UseBuffer(w->buffer);
    auto saved_open = open_loops_;
    open_loops_.clear();
    VisitStmt(op->block);
    open_loops_ = saved_open;
    loops_outside_ = saved_loops;
    defined_ = saved_defined;
    place_ = saved_place;
  }

 private:
  void Report(const std::string& what) {
    if (fault.empty()) fault = place_.empty() ? what : StrCat("block '", place_, "' ", what);
  }
  void Define(const Var& var) {
    if (!defined_.insert(var.get()).second) Report(StrCat("defines variable '", var->name_hint, "' a second time"));
  }
  void DefineBuffer(const Buffer& buffer) {
    buffers_.insert(buffer.get());
    defined_.insert(buffer->data.get());
  }
  void UseBuffer(const Buffer& buffer) {
    // A view of memory that is there, under another shape, is fine.
    if (buffers_.count(buffer.get()) || defined_.count(buffer->data.get())) return;
    Report(StrCat("uses buffer '", buffer->name, "', which isn't allocated there"));
  }

  std::unordered_set<const VarNode*> defined_, loops_outside_, open_loops_;
  std::unordered_set<const BufferNode*> buffers_;
  std::string place_;
};

}  // namespace

std::string FindFault(const PrimFunc& func) {
  Verifier verifier;
  verifier.Run(func);
  return verifier.fault;
}

void VerifyWellFormed(const PrimFunc& func, const std::string& after) {
  std::string fault = FindFault(func);
  TREADLE_ICHECK(fault.empty()) << "after " << after << ", the function " << fault;
}

}  // namespace treadle::tir
