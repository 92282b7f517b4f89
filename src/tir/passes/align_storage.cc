// SPDX-License-Identifier: Apache-2.0
// Buffers whose rows were asked to be aligned get strides: that of dimension d becomes a multiple of its factor, plus
// its offset, so that rows begin where vectors (or banks) want them. What is handed on by its address stays compact,
// but for operands of tile products, which state their strides.
#include "tir/buffer_replacer.h"
#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"
#include "treadle/tir/tile_ops.h"

namespace treadle::tir {
namespace {

/// Finds pointers that are used otherwise than by indexing the buffer that was allocated.
class OpaqueFinder : public SharedExprVisitor {
 public:
  std::unordered_set<const Object*> opaque;                        ///< data pointers
  std::vector<std::pair<Buffer, Array<ObjectRef>>> aligned;        ///< with what is wanted of them
  std::unordered_map<const Object*, const BufferNode*> allocated;  ///< by data pointer

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;
  void VisitStmt_(const AllocateNode* op) override {
    const Buffer& buffer = op->buffer;
    // A pointer that is allocated twice may have two shapes.
    if (!allocated.emplace(buffer->data.get(), buffer.get()).second) opaque.insert(buffer->data.get());
    auto wanted = op->annotations.Get(attr::kStorageAlignment);
    if (wanted && buffer->strides.empty()) aligned.emplace_back(buffer, Downcast<Array<ObjectRef>>(*wanted));
    VisitStmt(op->body);
  }
  void VisitExpr_(const VarNode* op) override {
    if (op->dtype.is_handle()) opaque.insert(op);
  }
  void VisitExpr_(const BufferLoadNode* op) override {
    Use(op->buffer);
    for (const PrimExpr& index : op->indices) VisitExpr(index);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    Use(op->buffer);
    for (const PrimExpr& index : op->indices) VisitExpr(index);
    VisitExpr(op->value);
  }
  void VisitExpr_(const CallNode* op) override {
    if (IsTileProduct(op)) {  // states where its operands' second rows are
      for (const PrimExpr& arg : op->args) {
        const auto* address = arg.as<CallNode>();
        for (const PrimExpr& e : address != nullptr ? address->args : Array<PrimExpr>{arg}) VisitExpr(e);
      }
      return;
    }
    if (IsCallTo(op, "tir.address_of")) {
      if (const auto* load = op->args[0].as<BufferLoadNode>()) opaque.insert(load->buffer->data.get());
    }
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitStmt_(const AttrStmtNode* op) override {
    if (const auto* buffer = op->node.as<BufferNode>()) opaque.insert(buffer->data.get());
    if (op->node.as<VarNode>()) opaque.insert(op->node.get());
    StmtExprVisitor::VisitStmt_(op);
  }

 private:
  void Use(const Buffer& buffer) {
    auto it = allocated.find(buffer->data.get());
    if (it != allocated.end() && it->second != buffer.get()) opaque.insert(buffer->data.get());
  }
};

class AnnotationRemover : public StmtMutator {
 protected:
  using StmtMutator::VisitStmt_;
  Stmt VisitStmt_(const AllocateNode* op) override {
    Stmt body = VisitStmt(op->body);
    Map<String, ObjectRef> annotations;
    for (const auto& [key, value] : op->annotations) {
      if (key.str() != attr::kStorageAlignment) annotations.Set(key, value);
    }
    return Allocate(op->buffer, body, annotations, op->span);
  }
};

Array<PrimExpr> AlignedStrides(const Buffer& buffer, const Array<ObjectRef>& wanted) {
  arith::Analyzer analyzer;
  std::vector<PrimExpr> strides(buffer->shape.size());
  PrimExpr stride(int64_t{1});
  for (size_t d = strides.size(); d-- > 0;) {
    for (const ObjectRef& entry : wanted) {
      const auto values = Downcast<Array<PrimExpr>>(entry);  // dimension, factor, offset
      if (!is_const_int(values[0], static_cast<int64_t>(d))) continue;
      const PrimExpr factor = cast(stride.dtype(), values[1]), offset = cast(stride.dtype(), values[2]);
      stride = stride + floormod(factor + offset - floormod(stride, factor), factor);
    }
    strides[d] = stride = analyzer.Simplify(stride);
    stride = stride * cast(stride.dtype(), buffer->shape[d]);
  }
  return Array<PrimExpr>(strides);
}

}  // namespace

PrimFunc AlignStorage(PrimFunc func, const LowerConfig&) {
  OpaqueFinder finder;
  finder(func->body);
  if (finder.aligned.empty()) return func;
  Map<Buffer, Buffer> replacement;
  for (const auto& [b, wanted] : finder.aligned) {
    if (finder.opaque.count(b->data.get()) != 0 || b->shape.empty()) continue;
    replacement.Set(b, Buffer(b->data, b->dtype, b->shape, AlignedStrides(b, wanted), PrimExpr(ObjectPtr<Object>()),
                              b->name, b->data_alignment, 0, b->span));
  }
  Stmt body = AnnotationRemover()(func->body);
  return WithBody(std::move(func), ReplaceBuffers(body, replacement));
}

}  // namespace treadle::tir
