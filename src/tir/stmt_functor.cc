// SPDX-License-Identifier: Apache-2.0
#include "treadle/tir/stmt_functor.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace treadle::tir {

template class StmtFunctor<void(const Stmt&)>;
template class StmtFunctor<Stmt(const Stmt&)>;

void StmtExprVisitor::VisitExpr(const PrimExpr& e) { ExprVisitor::VisitExpr(e); }
PrimExpr StmtExprMutator::VisitExpr(const PrimExpr& e) { return ExprMutator::VisitExpr(e); }

// ---- Visitor ----

void StmtVisitor::VisitStmt_(const LetStmtNode* op) {
  VisitExpr(op->value);
  VisitStmt(op->body);
}
void StmtVisitor::VisitStmt_(const AttrStmtNode* op) {
  VisitExpr(op->value);
  VisitStmt(op->body);
}
void StmtVisitor::VisitStmt_(const AssertStmtNode* op) {
  VisitExpr(op->condition);
  VisitExpr(op->message);
  VisitStmt(op->body);
}
void StmtVisitor::VisitStmt_(const BufferStoreNode* op) {
  VisitExpr(op->value);
  for (const PrimExpr& e : op->indices) VisitExpr(e);
}
void StmtVisitor::VisitStmt_(const AllocateNode* op) {
  for (const PrimExpr& e : op->buffer->shape) VisitExpr(e);
  VisitStmt(op->body);
}
void StmtVisitor::VisitStmt_(const SeqStmtNode* op) {
  for (const Stmt& s : op->seq) VisitStmt(s);
}
void StmtVisitor::VisitStmt_(const IfThenElseNode* op) {
  VisitExpr(op->condition);
  VisitStmt(op->then_case);
  if (op->else_case.defined()) VisitStmt(op->else_case);
}
void StmtVisitor::VisitStmt_(const EvaluateNode* op) { VisitExpr(op->value); }
void StmtVisitor::VisitStmt_(const ForNode* op) {
  VisitExpr(op->min);
  VisitExpr(op->extent);
  VisitStmt(op->body);
}
void StmtVisitor::VisitStmt_(const WhileNode* op) {
  VisitExpr(op->condition);
  VisitStmt(op->body);
}
void StmtVisitor::VisitStmt_(const BlockNode* op) {
  for (const IterVar& iv : op->iter_vars) {
    VisitExpr(iv->dom->min);
    VisitExpr(iv->dom->extent);
  }
  auto visit_region = [this](const BufferRegion& region) {
    for (const Range& range : region->region) {
      VisitExpr(range->min);
      VisitExpr(range->extent);
    }
  };
  for (const BufferRegion& region : op->reads) visit_region(region);
  for (const BufferRegion& region : op->writes) visit_region(region);
  for (const MatchBufferRegion& match : op->match_buffers) visit_region(match->source);
  if (op->init.defined()) VisitStmt(op->init);
  VisitStmt(op->body);
}
void StmtVisitor::VisitStmt_(const BlockRealizeNode* op) {
  for (const PrimExpr& e : op->iter_values) VisitExpr(e);
  VisitExpr(op->predicate);
  VisitStmt(op->block);
}

// ---- Mutator ----

Stmt StmtMutator::VisitStmt_(const LetStmtNode* op) {
  PrimExpr value = VisitExpr(op->value);
  Stmt body = VisitStmt(op->body);
  if (value.same_as(op->value) && body.same_as(op->body)) return GetRef<Stmt>(op);
  return LetStmt(op->var, std::move(value), std::move(body), op->span);
}
Stmt StmtMutator::VisitStmt_(const AttrStmtNode* op) {
  PrimExpr value = VisitExpr(op->value);
  Stmt body = VisitStmt(op->body);
  if (value.same_as(op->value) && body.same_as(op->body)) return GetRef<Stmt>(op);
  return AttrStmt(op->node, op->attr_key, std::move(value), std::move(body), op->span);
}
Stmt StmtMutator::VisitStmt_(const AssertStmtNode* op) {
  PrimExpr condition = VisitExpr(op->condition);
  PrimExpr message = VisitExpr(op->message);
  Stmt body = VisitStmt(op->body);
  if (condition.same_as(op->condition) && message.same_as(op->message) && body.same_as(op->body)) {
    return GetRef<Stmt>(op);
  }
  return AssertStmt(std::move(condition), std::move(message), std::move(body), op->span);
}
Stmt StmtMutator::VisitStmt_(const BufferStoreNode* op) {
  PrimExpr value = VisitExpr(op->value);
  Array<PrimExpr> indices = op->indices.Map([this](const PrimExpr& e) { return VisitExpr(e); });
  if (value.same_as(op->value) && indices.same_as(op->indices)) return GetRef<Stmt>(op);
  return BufferStore(op->buffer, std::move(value), std::move(indices), op->span);
}
Stmt StmtMutator::VisitStmt_(const AllocateNode* op) {
  Stmt body = VisitStmt(op->body);
  if (body.same_as(op->body)) return GetRef<Stmt>(op);
  return Allocate(op->buffer, std::move(body), op->annotations, op->span);
}
Stmt StmtMutator::VisitStmt_(const SeqStmtNode* op) {
  Array<Stmt> seq = op->seq.Map([this](const Stmt& s) { return VisitStmt(s); });
  if (seq.same_as(op->seq)) return GetRef<Stmt>(op);
  return SeqStmt::Flatten(seq);
}
Stmt StmtMutator::VisitStmt_(const IfThenElseNode* op) {
  PrimExpr condition = VisitExpr(op->condition);
  Stmt then_case = VisitStmt(op->then_case);
  Stmt else_case = op->else_case.defined() ? VisitStmt(op->else_case) : Stmt();
  if (condition.same_as(op->condition) && then_case.same_as(op->then_case) && else_case.same_as(op->else_case)) {
    return GetRef<Stmt>(op);
  }
  return IfThenElse(std::move(condition), std::move(then_case), std::move(else_case), op->span);
}
Stmt StmtMutator::VisitStmt_(const EvaluateNode* op) {
  PrimExpr value = VisitExpr(op->value);
  if (value.same_as(op->value)) return GetRef<Stmt>(op);
  return Evaluate(std::move(value), op->span);
}
Stmt StmtMutator::VisitStmt_(const ForNode* op) {
  PrimExpr min = VisitExpr(op->min);
  PrimExpr extent = VisitExpr(op->extent);
  Stmt body = VisitStmt(op->body);
  if (min.same_as(op->min) && extent.same_as(op->extent) && body.same_as(op->body)) return GetRef<Stmt>(op);
  return For(op->loop_var, std::move(min), std::move(extent), op->kind, std::move(body), op->thread_binding,
             op->annotations, op->span);
}
Stmt StmtMutator::VisitStmt_(const WhileNode* op) {
  PrimExpr condition = VisitExpr(op->condition);
  Stmt body = VisitStmt(op->body);
  if (condition.same_as(op->condition) && body.same_as(op->body)) return GetRef<Stmt>(op);
  return While(std::move(condition), std::move(body), op->span);
}
Stmt StmtMutator::VisitStmt_(const BlockNode* op) {
  auto visit_range = [this](const Range& range) {
    PrimExpr min = VisitExpr(range->min);
    PrimExpr extent = VisitExpr(range->extent);
    if (min.same_as(range->min) && extent.same_as(range->extent)) return range;
    return Range::FromMinExtent(std::move(min), std::move(extent));
  };
  auto visit_region = [&](const BufferRegion& region) {
    Array<Range> ranges = region->region.Map(visit_range);
    return ranges.same_as(region->region) ? region : BufferRegion(region->buffer, std::move(ranges));
  };
  Array<IterVar> iter_vars = op->iter_vars.Map([&](const IterVar& iv) {
    Range dom = visit_range(iv->dom);
    return dom.same_as(iv->dom) ? iv : IterVar(dom, iv->var, iv->iter_type, iv->thread_tag, iv->span);
  });
  Array<BufferRegion> reads = op->reads.Map(visit_region);
  Array<BufferRegion> writes = op->writes.Map(visit_region);
  Array<MatchBufferRegion> match_buffers = op->match_buffers.Map([&](const MatchBufferRegion& match) {
    BufferRegion source = visit_region(match->source);
    return source.same_as(match->source) ? match : MatchBufferRegion(match->buffer, source);
  });
  Stmt init = op->init.defined() ? VisitStmt(op->init) : Stmt();
  Stmt body = VisitStmt(op->body);
  if (iter_vars.same_as(op->iter_vars) && reads.same_as(op->reads) && writes.same_as(op->writes) &&
      match_buffers.same_as(op->match_buffers) && init.same_as(op->init) && body.same_as(op->body)) {
    return GetRef<Stmt>(op);
  }
  return Block(std::move(iter_vars), std::move(reads), std::move(writes), op->name_hint, std::move(body),
               std::move(init), op->alloc_buffers, std::move(match_buffers), op->annotations, op->span);
}
Stmt StmtMutator::VisitStmt_(const BlockRealizeNode* op) {
  Array<PrimExpr> values = op->iter_values.Map([this](const PrimExpr& e) { return VisitExpr(e); });
  PrimExpr predicate = VisitExpr(op->predicate);
  Stmt block = VisitStmt(op->block);
  if (values.same_as(op->iter_values) && predicate.same_as(op->predicate) && block.same_as(op->block)) {
    return GetRef<Stmt>(op);
  }
  return BlockRealize(std::move(values), std::move(predicate), Downcast<Block>(block), op->span);
}

// ---- Substitution ----

namespace {

class Substituter : public StmtExprMutator {
 public:
  explicit Substituter(const VarSubstitution& vmap) : vmap_(vmap) {}
  PrimExpr Apply(const PrimExpr& e) { return VisitExpr(e); }
  Stmt Apply(const Stmt& s) { return VisitStmt(s); }

 protected:
  using StmtExprMutator::VisitExpr_;
  using StmtExprMutator::VisitStmt_;

  PrimExpr VisitExpr_(const VarNode* op) override {
    Var var = GetRef<Var>(op);
    std::optional<PrimExpr> value = vmap_(var);
    return value ? *value : var;
  }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    Buffer buffer = MapBuffer(op->buffer);
    Array<PrimExpr> indices = op->indices.Map([this](const PrimExpr& e) { return VisitExpr(e); });
    if (buffer.same_as(op->buffer) && indices.same_as(op->indices)) return GetRef<PrimExpr>(op);
    return BufferLoad(buffer, indices, op->span);
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Buffer buffer = MapBuffer(op->buffer);
    Stmt stmt = StmtExprMutator::VisitStmt_(op);
    if (buffer.same_as(op->buffer)) return stmt;
    const auto* store = stmt.as<BufferStoreNode>();
    return BufferStore(buffer, store->value, store->indices, store->span);
  }
  Stmt VisitStmt_(const AllocateNode* op) override {
    Buffer buffer = MapBuffer(op->buffer);
    Stmt body = VisitStmt(op->body);
    if (buffer.same_as(op->buffer) && body.same_as(op->body)) return GetRef<Stmt>(op);
    return Allocate(buffer, body, op->annotations, op->span);
  }
  Stmt VisitStmt_(const AttrStmtNode* op) override {
    Stmt stmt = StmtExprMutator::VisitStmt_(op);
    ObjectRef node = op->node;
    if (const auto* buffer = node.as<BufferNode>()) {
      node = MapBuffer(GetRef<Buffer>(buffer));
    } else if (const auto* var = node.as<VarNode>()) {
      PrimExpr value = VisitExpr(GetRef<PrimExpr>(var));
      if (value.as<VarNode>()) node = value;
    }
    if (node.same_as(op->node)) return stmt;
    const auto* attr = stmt.as<AttrStmtNode>();
    return AttrStmt(node, attr->attr_key, attr->value, attr->body, attr->span);
  }
  Stmt VisitStmt_(const BlockNode* op) override {
    // Buffers first, so that the body sees the new ones.
    Array<Buffer> allocs = op->alloc_buffers.Map([this](const Buffer& b) { return MapBuffer(b); });
    Block block = Downcast<Block>(StmtExprMutator::VisitStmt_(op));
    auto map_region = [this](const BufferRegion& region) {
      Buffer buffer = MapBuffer(region->buffer);
      return buffer.same_as(region->buffer) ? region : BufferRegion(buffer, region->region);
    };
    Array<BufferRegion> reads = block->reads.Map(map_region);
    Array<BufferRegion> writes = block->writes.Map(map_region);
    Array<MatchBufferRegion> matches = block->match_buffers.Map([&](const MatchBufferRegion& match) {
      Buffer buffer = MapBuffer(match->buffer);
      BufferRegion source = map_region(match->source);
      if (buffer.same_as(match->buffer) && source.same_as(match->source)) return match;
      return MatchBufferRegion(buffer, source);
    });
    if (allocs.same_as(block->alloc_buffers) && reads.same_as(block->reads) && writes.same_as(block->writes) &&
        matches.same_as(block->match_buffers)) {
      return block;
    }
    BlockNode* node = block.CopyOnWrite();
    node->alloc_buffers = allocs;
    node->reads = reads;
    node->writes = writes;
    node->match_buffers = matches;
    return block;
  }

 private:
  Buffer MapBuffer(const Buffer& buffer) {
    auto it = buffers_.find(buffer.get());
    if (it != buffers_.end()) return it->second;
    auto visit = [this](const PrimExpr& e) { return VisitExpr(e); };
    Array<PrimExpr> shape = buffer->shape.Map(visit);
    Array<PrimExpr> strides = buffer->strides.Map(visit);
    PrimExpr offset = buffer->elem_offset.defined() ? VisitExpr(buffer->elem_offset) : buffer->elem_offset;
    PrimExpr data = VisitExpr(buffer->data);
    Buffer result = buffer;
    if (!shape.same_as(buffer->shape) || !strides.same_as(buffer->strides) || !offset.same_as(buffer->elem_offset) ||
        !data.same_as(buffer->data)) {
      TREADLE_ICHECK(data.as<VarNode>()) << "data pointer of buffer " << buffer->name << " replaced by an expression";
      result = Buffer(Downcast<Var>(data), buffer->dtype, shape, strides, offset, buffer->name, buffer->data_alignment,
                      buffer->offset_factor, buffer->span);
    }
    buffers_.emplace(buffer.get(), result);
    return result;
  }

  const VarSubstitution& vmap_;
  std::unordered_map<const BufferNode*, Buffer> buffers_;
};

VarSubstitution FromMap(const Map<Var, PrimExpr>& vmap) {
  return [&vmap](const Var& var) { return vmap.Get(var); };
}

}  // namespace

PrimExpr Substitute(const PrimExpr& expr, const VarSubstitution& vmap) { return Substituter(vmap).Apply(expr); }
Stmt Substitute(const Stmt& stmt, const VarSubstitution& vmap) { return Substituter(vmap).Apply(stmt); }
PrimExpr Substitute(const PrimExpr& expr, const Map<Var, PrimExpr>& vmap) {
  return vmap.empty() ? expr : Substitute(expr, FromMap(vmap));
}
Stmt Substitute(const Stmt& stmt, const Map<Var, PrimExpr>& vmap) {
  return vmap.empty() ? stmt : Substitute(stmt, FromMap(vmap));
}

// ---- Post-order ----

namespace {

class PostOrderVisitor : public StmtExprVisitor {
 public:
  explicit PostOrderVisitor(const std::function<void(const ObjectRef&)>& visit) : visit_(visit) {}
  void VisitExpr(const PrimExpr& e) override {
    if (!visited_.insert(e.get()).second) return;
    StmtExprVisitor::VisitExpr(e);
    visit_(e);
  }
  void VisitStmt(const Stmt& s) override {
    if (!visited_.insert(s.get()).second) return;
    StmtExprVisitor::VisitStmt(s);
    visit_(s);
  }

 private:
  const std::function<void(const ObjectRef&)>& visit_;
  std::unordered_set<const Object*> visited_;
};

}  // namespace

void PostOrderVisit(const ObjectRef& node, const std::function<void(const ObjectRef&)>& visit) {
  PostOrderVisitor visitor(visit);
  if (node->IsInstance<StmtNode>()) {
    visitor.VisitStmt(Downcast<Stmt>(node));
  } else if (const auto* func = node.as<PrimFuncNode>()) {
    visitor.VisitStmt(func->body);
  } else {
    visitor.VisitExpr(Downcast<PrimExpr>(node));
  }
}

}  // namespace treadle::tir
