// SPDX-License-Identifier: Apache-2.0
// N-dimensional buffers become one-dimensional ones.
#include <limits>

#include "tir/flat_buffer.h"
#include "tir/passes/pass_util.h"

namespace treadle::tir {
namespace {

class BufferFlattener : public FoldingMutator {
 protected:
  using FoldingMutator::VisitExpr_;
  using FoldingMutator::VisitStmt_;

  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr result = FoldingMutator::VisitExpr_(op);
    const auto* load = result.as<BufferLoadNode>();
    return BufferLoad(Flat(load->buffer), {Index(load->buffer, load->indices)}, load->span);
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Stmt result = FoldingMutator::VisitStmt_(op);
    const auto* store = result.as<BufferStoreNode>();
    return BufferStore(Flat(store->buffer), store->value, {Index(store->buffer, store->indices)}, store->span);
  }
  Stmt VisitStmt_(const AllocateNode* op) override {
    Stmt body = VisitStmt(op->body);
    return Allocate(Flat(op->buffer), body, op->annotations, op->span);
  }
  Stmt VisitStmt_(const AttrStmtNode* op) override {
    Stmt result = FoldingMutator::VisitStmt_(op);
    const auto* node = op->node.as<BufferNode>();
    if (node == nullptr) return result;
    const auto* attr = result.as<AttrStmtNode>();
    return AttrStmt(Flat(GetRef<Buffer>(node)), attr->attr_key, attr->value, attr->body, attr->span);
  }

 private:
  /// Whether all element numbers fit int32.
  static bool IsSmall(const Buffer& buffer) {
    for (const PrimExpr& stride : buffer->strides) {
      const int64_t* value = AsConstInt(stride);
      if (value == nullptr || *value < 1 || *value > std::numeric_limits<int32_t>::max()) return false;
    }
    const PrimExpr span = BufferSpan(buffer);
    const int64_t* count = AsConstInt(span);
    return count != nullptr && *count <= std::numeric_limits<int32_t>::max();
  }

  PrimExpr Index(const Buffer& buffer, const Array<PrimExpr>& indices) {
    const bool small = IsSmall(buffer);
    PrimExpr result = IntImm(DataType::Int(small ? 32 : 64), 0);
    auto widen = [&](const PrimExpr& e) {
      if (small && e.dtype().bits() > 32 && is_const_int(e)) return cast(DataType::Int(32), e);
      return !small && e.dtype().bits() < 64 ? cast(DataType::Int(64, e.dtype().lanes()), e) : e;
    };
    for (size_t i = 0; i < indices.size(); ++i) {
      if (buffer->strides.empty()) {
        result = i == 0 ? widen(indices[0]) : Combine(result, widen(buffer->shape[i]), widen(indices[i]));
      } else {
        result = Combine(widen(indices[i]), widen(buffer->strides[i]), result);
      }
    }
    if (buffer->elem_offset.defined() && !is_zero(buffer->elem_offset)) result = result + widen(buffer->elem_offset);
    return result;
  }
  /// a * factor + b; of vectors only ramps, which stay ramps.
  static PrimExpr Combine(const PrimExpr& a, const PrimExpr& factor, const PrimExpr& b) {
    if (const auto* ramp = b.as<RampNode>(); ramp && a.dtype().is_scalar()) {
      return Ramp(a * factor + ramp->base, ramp->stride, ramp->lanes);
    }
    if (const auto* ramp = a.as<RampNode>(); ramp && b.dtype().is_scalar()) {
      return Ramp(ramp->base * factor + b, ramp->stride * factor, ramp->lanes);
    }
    return a * factor + b;
  }

  Buffer Flat(const Buffer& buffer) {
    auto it = flat_.find(buffer.get());
    if (it != flat_.end()) return it->second.second;
    Buffer result = FlatBuffer(buffer);
    flat_.emplace(buffer.get(), std::make_pair(buffer, result));
    return result;
  }

  std::unordered_map<const Object*, std::pair<Buffer, Buffer>> flat_;
};

}  // namespace

PrimFunc FlattenBuffer(PrimFunc func, const LowerConfig&) {
  Stmt body = BufferFlattener().Rewrite(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
