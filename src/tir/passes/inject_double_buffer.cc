// SPDX-License-Identifier: Apache-2.0
// Buffers marked for double buffering get two halves: while one iteration of the loop around uses one of them, the
// other is filled for the next iteration. Where filling depends on what the rest of the loop's body writes, or the
// buffer is used in other ways, it stays single.
#include "tir/passes/pass_util.h"
#include "tir/thread_axis.h"

namespace treadle::tir {
namespace {

struct Accesses {
  std::unordered_set<const Object*> reads, writes;  ///< pointers
  bool opaque = false;                              ///< calls with effects, or pointers used otherwise
};

class AccessCollector : public StmtExprVisitor {
 public:
  static Accesses Of(const Stmt& stmt) {
    AccessCollector collector;
    collector.VisitStmt(stmt);
    return std::move(collector.result_);
  }

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;
  void VisitExpr_(const VarNode* op) override {
    if (op->dtype.is_handle()) result_.opaque = true;
  }
  void VisitExpr_(const BufferLoadNode* op) override {
    result_.reads.insert(op->buffer->data.get());
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitExpr_(const CallNode* op) override {
    if (EffectOf(op) == CallEffect::kOpaque || IsCallTo(op, "tir.address_of")) result_.opaque = true;
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    result_.writes.insert(op->buffer->data.get());
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const AllocateNode* op) override {
    StmtExprVisitor::VisitStmt_(op);
    result_.writes.erase(op->buffer->data.get());
    result_.reads.erase(op->buffer->data.get());
  }
  void VisitStmt_(const AttrStmtNode* op) override {
    result_.opaque = true;
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const AssertStmtNode* op) override {
    result_.opaque = true;
    StmtExprVisitor::VisitStmt_(op);
  }

 private:
  Accesses result_;
};

/// Shifts the accesses of one buffer by an offset; loops inside get variables of their own.
class HalfChooser : public FoldingMutator {
 public:
  HalfChooser(const Object* data, Buffer doubled, PrimExpr offset)
      : data_(data), doubled_(std::move(doubled)), offset_(std::move(offset)) {}

 protected:
  using FoldingMutator::VisitExpr_;
  using FoldingMutator::VisitStmt_;
  PrimExpr VisitExpr_(const VarNode* op) override {
    auto it = renamed_.find(op);
    return it == renamed_.end() ? GetRef<PrimExpr>(op) : PrimExpr(it->second);
  }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr result = FoldingMutator::VisitExpr_(op);
    const auto* load = result.as<BufferLoadNode>();
    if (load->buffer->data.get() != data_) return result;
    return BufferLoad(doubled_, {Shifted(load->indices[0])}, load->span);
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Stmt result = FoldingMutator::VisitStmt_(op);
    const auto* store = result.as<BufferStoreNode>();
    if (store->buffer->data.get() != data_) return result;
    return BufferStore(doubled_, store->value, {Shifted(store->indices[0])}, store->span);
  }
  Stmt VisitStmt_(const ForNode* op) override {
    PrimExpr min = VisitExpr(op->min), extent = VisitExpr(op->extent);
    Var var(op->loop_var->name_hint, op->loop_var.dtype());
    renamed_[op->loop_var.get()] = var;  // parts of a loop that was cut share their variable
    Forget();
    return For(var, min, extent, op->kind, VisitStmt(op->body), FreshThreadAxis(op->thread_binding), op->annotations,
               op->span);
  }

 private:
  PrimExpr Shifted(const PrimExpr& index) const { return index + cast(index.dtype(), offset_); }
  const Object* data_;
  Buffer doubled_;
  PrimExpr offset_;
  std::unordered_map<const Object*, Var> renamed_;
};

class DoubleBufferInjector : public StmtMutator {
 protected:
  using StmtMutator::VisitStmt_;

  Stmt VisitStmt_(const ForNode* op) override {
    Stmt result = StmtMutator::VisitStmt_(op);
    const auto* loop = result.as<ForNode>();
    if (loop->kind != ForKind::kSerial || is_one(loop->extent)) return result;
    std::vector<const AllocateNode*> chain;
    const AllocateNode* marked = nullptr;
    Stmt body = loop->body;
    while (const auto* allocate = body.as<AllocateNode>()) {
      if (allocate->annotations.contains(attr::kDoubleBufferScope) && marked == nullptr) marked = allocate;
      chain.push_back(allocate);
      body = allocate->body;
    }
    const auto* seq = body.as<SeqStmtNode>();
    if (marked == nullptr || seq == nullptr) return result;
    Stmt rewritten = Rewrite(loop, chain, marked, seq);
    return rewritten.defined() ? rewritten : result;
  }

 private:
  /// Null where it can't be done.
  static Stmt Rewrite(const ForNode* loop, const std::vector<const AllocateNode*>& chain, const AllocateNode* marked,
                      const SeqStmtNode* seq) {
    const Buffer& buffer = marked->buffer;
    const int64_t* size = buffer->shape.size() == 1 && buffer->strides.empty() ? AsConstInt(buffer->shape[0]) : nullptr;
    if (size == nullptr) return Stmt();
    const Object* data = buffer->data.get();
    size_t fill_end = 0;
    for (size_t i = 0; i < seq->seq.size(); ++i) {
      if (AccessCollector::Of(seq->seq[i]).writes.count(data) != 0) fill_end = i + 1;
    }
    if (fill_end == 0 || fill_end == seq->seq.size()) return Stmt();
    Array<Stmt> fill_list, use_list;
    for (size_t i = 0; i < seq->seq.size(); ++i) (i < fill_end ? fill_list : use_list).push_back(seq->seq[i]);
    Stmt fill = SeqStmt::Flatten(fill_list), use = SeqStmt::Flatten(use_list);
    const Accesses filling = AccessCollector::Of(fill), using_ = AccessCollector::Of(use);
    if (filling.opaque || using_.opaque || filling.writes.size() != 1) return Stmt();
    for (const Object* read : filling.reads) {
      if (using_.writes.count(read) != 0) return Stmt();
      for (const AllocateNode* other : chain) {
        if (other != marked && other->buffer->data.get() == read) return Stmt();
      }
    }
    const Var& var = loop->loop_var;
    const Var pointer(buffer->data->name_hint, buffer->data->type_annotation);
    Buffer doubled(pointer, buffer->dtype, {IntImm(buffer->shape[0].dtype(), *size * 2)}, {},
                   PrimExpr(ObjectPtr<Object>()), buffer->name, buffer->data_alignment, 0);
    PrimExpr half = make_const(var.dtype(), *size), two = make_const(var.dtype(), 2);
    auto offset = [&](const PrimExpr& i) { return floormod(i - loop->min, two) * half; };
    auto filled = [&](const PrimExpr& i) {
      Map<Var, PrimExpr> vmap;
      vmap.Set(var, i);
      return HalfChooser(data, doubled, offset(i)).Rewrite(Substitute(fill, vmap));
    };
    PrimExpr next = var + make_const(var.dtype(), 1), end = loop->min + loop->extent;
    Stmt body = SeqStmt::Flatten(
        {IfThenElse(likely(next < end), filled(next)), HalfChooser(data, doubled, offset(var)).Rewrite(use)});
    for (size_t i = chain.size(); i-- > 0;) {
      if (chain[i] != marked) body = Allocate(chain[i]->buffer, body, chain[i]->annotations, chain[i]->span);
    }
    Stmt first = filled(loop->min);
    const int64_t* extent = AsConstInt(loop->extent);
    if (extent == nullptr || *extent < 1) {
      first = IfThenElse(loop->extent > make_const(var.dtype(), 0), first);
    }
    Stmt steps =
        For(var, loop->min, loop->extent, loop->kind, body, loop->thread_binding, loop->annotations, loop->span);
    return Allocate(doubled, SeqStmt::Flatten({first, steps}));
  }
};

}  // namespace

PrimFunc InjectDoubleBuffer(PrimFunc func, const LowerConfig&) {
  Stmt body = DoubleBufferInjector()(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
