// SPDX-License-Identifier: Apache-2.0
#include "tir/buffer_replacer.h"

#include <utility>

#include "treadle/tir/stmt_functor.h"

namespace treadle::tir {
namespace {

class BufferReplacer : public StmtExprMutator {
 public:
  explicit BufferReplacer(const Map<Buffer, Buffer>& buffers) : buffers_(buffers) {
    for (const auto& [from, to] : buffers) data_.Set(from->data, to->data);
  }
  Stmt Apply(const Stmt& stmt) { return VisitStmt(stmt); }

 protected:
  using StmtExprMutator::VisitExpr_;
  using StmtExprMutator::VisitStmt_;

  PrimExpr VisitExpr_(const VarNode* op) override {
    Var var = GetRef<Var>(op);
    if (!var.dtype().is_handle()) return var;
    std::optional<Var> to = data_.Get(var);
    return to ? *to : var;
  }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr load = StmtExprMutator::VisitExpr_(op);
    std::optional<Buffer> to = buffers_.Get(op->buffer);
    if (!to) return load;
    return BufferLoad(*to, load.as<BufferLoadNode>()->indices, op->span);
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Stmt stmt = StmtExprMutator::VisitStmt_(op);
    std::optional<Buffer> to = buffers_.Get(op->buffer);
    if (!to) return stmt;
    const auto* store = stmt.as<BufferStoreNode>();
    return BufferStore(*to, store->value, store->indices, op->span);
  }
  Stmt VisitStmt_(const AllocateNode* op) override {
    Stmt body = VisitStmt(op->body);
    return Allocate(Mapped(op->buffer), body, op->annotations, op->span);
  }
  Stmt VisitStmt_(const AttrStmtNode* op) override {
    Stmt stmt = StmtExprMutator::VisitStmt_(op);
    const auto* attr = stmt.as<AttrStmtNode>();
    ObjectRef node = attr->node;
    if (const auto* buffer = node.as<BufferNode>()) node = Mapped(GetRef<Buffer>(buffer));
    if (const auto* var = node.as<VarNode>()) node = VisitExpr_(var);
    if (node.same_as(attr->node)) return stmt;
    return AttrStmt(node, attr->attr_key, attr->value, attr->body, attr->span);
  }
  Stmt VisitStmt_(const BlockNode* op) override {
    Block block = Downcast<Block>(StmtExprMutator::VisitStmt_(op));
    auto map_region = [this](const BufferRegion& region) {
      Buffer buffer = Mapped(region->buffer);
      return buffer.same_as(region->buffer) ? region : BufferRegion(buffer, region->region);
    };
    Array<BufferRegion> reads = block->reads.Map(map_region);
    Array<BufferRegion> writes = block->writes.Map(map_region);
    Array<Buffer> allocs = block->alloc_buffers.Map([this](const Buffer& b) { return Mapped(b); });
    Array<MatchBufferRegion> matches = block->match_buffers.Map([&](const MatchBufferRegion& match) {
      BufferRegion source = map_region(match->source);
      return source.same_as(match->source) ? match : MatchBufferRegion(match->buffer, source);
    });
    if (reads.same_as(block->reads) && writes.same_as(block->writes) && allocs.same_as(block->alloc_buffers) &&
        matches.same_as(block->match_buffers)) {
      return block;
    }
    BlockNode* node = block.CopyOnWrite();
    node->reads = reads;
    node->writes = writes;
    node->alloc_buffers = allocs;
    node->match_buffers = matches;
    return block;
  }

 private:
  Buffer Mapped(const Buffer& buffer) const {
    std::optional<Buffer> to = buffers_.Get(buffer);
    return to ? *to : buffer;
  }

  const Map<Buffer, Buffer>& buffers_;
  Map<Var, Var> data_;
};

}  // namespace

Stmt ReplaceBuffers(const Stmt& stmt, const Map<Buffer, Buffer>& buffers) {
  if (buffers.empty()) return stmt;
  return BufferReplacer(buffers).Apply(stmt);
}

}  // namespace treadle::tir
