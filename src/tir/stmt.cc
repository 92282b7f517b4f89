// SPDX-License-Identifier: Apache-2.0
#include "treadle/tir/stmt.h"

#include <utility>

#include "treadle/ir/prim_ops.h"

namespace treadle::tir {

TREADLE_DEFINE_NODE(StmtNode);
TREADLE_DEFINE_NODE(LetStmtNode);
TREADLE_DEFINE_NODE(AttrStmtNode);
TREADLE_DEFINE_NODE(AssertStmtNode);
TREADLE_DEFINE_NODE(BufferStoreNode);
TREADLE_DEFINE_NODE(AllocateNode);
TREADLE_DEFINE_NODE(SeqStmtNode);
TREADLE_DEFINE_NODE(IfThenElseNode);
TREADLE_DEFINE_NODE(EvaluateNode);
TREADLE_DEFINE_NODE(ForNode);
TREADLE_DEFINE_NODE(WhileNode);
TREADLE_DEFINE_NODE(BufferRegionNode);
TREADLE_DEFINE_NODE(MatchBufferRegionNode);
TREADLE_DEFINE_NODE(BlockNode);
TREADLE_DEFINE_NODE(BlockRealizeNode);

LetStmt::LetStmt(Var var, PrimExpr value, Stmt body, Span span) {
  TREADLE_ICHECK(var.dtype() == value.dtype())
      << "let " << var->name_hint << " of " << var.dtype() << " = value of " << value.dtype();
  auto node = MakeObject<LetStmtNode>();
  node->var = std::move(var);
  node->value = std::move(value);
  node->body = std::move(body);
  node->span = std::move(span);
  data_ = std::move(node);
}

AttrStmt::AttrStmt(ObjectRef attr_node, std::string attr_key, PrimExpr value, Stmt body, Span span) {
  auto node = MakeObject<AttrStmtNode>();
  node->node = std::move(attr_node);
  node->attr_key = std::move(attr_key);
  node->value = std::move(value);
  node->body = std::move(body);
  node->span = std::move(span);
  data_ = std::move(node);
}

AssertStmt::AssertStmt(PrimExpr condition, PrimExpr message, Stmt body, Span span) {
  TREADLE_ICHECK(condition.dtype().is_bool()) << "condition of an assertion has dtype " << condition.dtype();
  auto node = MakeObject<AssertStmtNode>();
  node->condition = std::move(condition);
  node->message = std::move(message);
  node->body = std::move(body);
  node->span = std::move(span);
  data_ = std::move(node);
}

BufferStore::BufferStore(Buffer buffer, PrimExpr value, Array<PrimExpr> indices, Span span) {
  TREADLE_ICHECK(indices.size() == buffer->shape.size())
      << "buffer " << buffer->name << " of rank " << buffer->shape.size() << " written with " << indices.size()
      << " indices";
  int lanes = indices.empty() ? 1 : indices.back().dtype().lanes();
  DataType expected = buffer->dtype.with_lanes(buffer->dtype.lanes() * lanes);
  if (value.dtype() != expected) {
    throw DTypeError(StrCat("buffer ", buffer->name, " of ", expected, " can't store a value of ", value.dtype()));
  }
  auto node = MakeObject<BufferStoreNode>();
  node->buffer = std::move(buffer);
  node->value = std::move(value);
  node->indices = std::move(indices);
  node->span = std::move(span);
  data_ = std::move(node);
}

Allocate::Allocate(Buffer buffer, Stmt body, Map<String, ObjectRef> annotations, Span span) {
  auto node = MakeObject<AllocateNode>();
  node->buffer = std::move(buffer);
  node->body = std::move(body);
  node->annotations = std::move(annotations);
  node->span = std::move(span);
  data_ = std::move(node);
}

SeqStmt::SeqStmt(Array<Stmt> seq, Span span) {
  auto node = MakeObject<SeqStmtNode>();
  node->seq = std::move(seq);
  node->span = std::move(span);
  data_ = std::move(node);
}

namespace {
bool IsNoOp(const Stmt& stmt) {
  const auto* evaluate = stmt.as<EvaluateNode>();
  return evaluate && evaluate->value.as<IntImmNode>();
}
}  // namespace

Stmt SeqStmt::Flatten(const Array<Stmt>& seq) {
  Array<Stmt> flat;
  std::vector<Stmt> pending;
  for (size_t i = seq.size(); i-- > 0;) pending.push_back(seq[i]);
  while (!pending.empty()) {
    Stmt stmt = pending.back();
    pending.pop_back();
    if (!stmt.defined() || IsNoOp(stmt)) continue;
    if (const auto* inner = stmt.as<SeqStmtNode>()) {
      for (size_t i = inner->seq.size(); i-- > 0;) pending.push_back(inner->seq[i]);
    } else {
      flat.push_back(stmt);
    }
  }
  if (flat.empty()) return Evaluate(PrimExpr(0));
  if (flat.size() == 1) return flat[0];
  return SeqStmt(flat);
}

IfThenElse::IfThenElse(PrimExpr condition, Stmt then_case, Stmt else_case, Span span) {
  TREADLE_ICHECK(condition.dtype().is_bool()) << "condition of if has dtype " << condition.dtype();
  auto node = MakeObject<IfThenElseNode>();
  node->condition = std::move(condition);
  node->then_case = std::move(then_case);
  node->else_case = std::move(else_case);
  node->span = std::move(span);
  data_ = std::move(node);
}

Evaluate::Evaluate(PrimExpr value, Span span) {
  auto node = MakeObject<EvaluateNode>();
  node->value = std::move(value);
  node->span = std::move(span);
  data_ = std::move(node);
}

For::For(Var loop_var, PrimExpr min, PrimExpr extent, ForKind kind, Stmt body, IterVar thread_binding,
         Map<String, ObjectRef> annotations, Span span) {
  TREADLE_ICHECK(loop_var.dtype().is_integral() && loop_var.dtype().is_scalar())
      << "loop variable " << loop_var->name_hint << " has dtype " << loop_var.dtype();
  auto node = MakeObject<ForNode>();
  node->min = cast(loop_var.dtype(), min);
  node->extent = cast(loop_var.dtype(), extent);
  node->loop_var = std::move(loop_var);
  node->kind = kind;
  node->body = std::move(body);
  node->thread_binding = std::move(thread_binding);
  node->annotations = std::move(annotations);
  node->span = std::move(span);
  data_ = std::move(node);
}

While::While(PrimExpr condition, Stmt body, Span span) {
  TREADLE_ICHECK(condition.dtype().is_bool()) << "condition of while has dtype " << condition.dtype();
  auto node = MakeObject<WhileNode>();
  node->condition = std::move(condition);
  node->body = std::move(body);
  node->span = std::move(span);
  data_ = std::move(node);
}

BufferRegion::BufferRegion(Buffer buffer, Array<Range> region) {
  TREADLE_ICHECK(region.size() == buffer->shape.size())
      << "region of rank " << region.size() << " of buffer " << buffer->name << " of rank " << buffer->shape.size();
  auto node = MakeObject<BufferRegionNode>();
  node->buffer = std::move(buffer);
  node->region = std::move(region);
  data_ = std::move(node);
}

BufferRegion BufferRegion::Full(const Buffer& buffer) {
  Array<Range> region;
  for (const PrimExpr& extent : buffer->shape) region.push_back(Range(extent));
  return BufferRegion(buffer, region);
}

MatchBufferRegion::MatchBufferRegion(Buffer buffer, BufferRegion source) {
  auto node = MakeObject<MatchBufferRegionNode>();
  node->buffer = std::move(buffer);
  node->source = std::move(source);
  data_ = std::move(node);
}

Block::Block(Array<IterVar> iter_vars, Array<BufferRegion> reads, Array<BufferRegion> writes, std::string name_hint,
             Stmt body, Stmt init, Array<Buffer> alloc_buffers, Array<MatchBufferRegion> match_buffers,
             Map<String, ObjectRef> annotations, Span span) {
  auto node = MakeObject<BlockNode>();
  node->iter_vars = std::move(iter_vars);
  node->reads = std::move(reads);
  node->writes = std::move(writes);
  node->name_hint = std::move(name_hint);
  node->body = std::move(body);
  node->init = std::move(init);
  node->alloc_buffers = std::move(alloc_buffers);
  node->match_buffers = std::move(match_buffers);
  node->annotations = std::move(annotations);
  node->span = std::move(span);
  data_ = std::move(node);
}

BlockRealize::BlockRealize(Array<PrimExpr> iter_values, PrimExpr predicate, Block block, Span span) {
  TREADLE_ICHECK(iter_values.size() == block->iter_vars.size())
      << "block " << block->name_hint << " has " << block->iter_vars.size() << " iteration variables but "
      << iter_values.size() << " bindings";
  TREADLE_ICHECK(predicate.dtype().is_bool()) << "predicate of block " << block->name_hint;
  auto node = MakeObject<BlockRealizeNode>();
  node->iter_values = std::move(iter_values);
  node->predicate = std::move(predicate);
  node->block = std::move(block);
  node->span = std::move(span);
  data_ = std::move(node);
}

}  // namespace treadle::tir
