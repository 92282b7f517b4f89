// SPDX-License-Identifier: Apache-2.0
// Strided accesses: their analysis, and vectors of elements at small distances read as whole vectors. The elements
// b, b + s, .., b + s (n-1) lie in the s vectors of n elements that begin at b, b + (n-1), b + 2 (n-1), ..; these reach
// from the first to the last of them and no further, so nothing outside the buffer is read.
#include "tir/passes/strided_access.h"

#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"

namespace treadle::tir {
namespace {

class AccessCollector : public StmtExprVisitor {
 public:
  std::vector<StridedAccess> found;

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;
  void VisitStmt_(const ForNode* op) override {
    const ForNode* outer = std::exchange(loop_, op);
    VisitStmt(op->body);
    loop_ = outer;
  }
  void VisitExpr_(const BufferLoadNode* op) override {
    Add(op->buffer, op->indices, false);
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    VisitExpr(op->value);
    for (const PrimExpr& index : op->indices) VisitExpr(index);
    Add(op->buffer, op->indices, true);
  }

 private:
  void Add(const Buffer& buffer, const Array<PrimExpr>& indices, bool is_store) {
    if (loop_ == nullptr || indices.size() != 1 || !indices[0].dtype().is_scalar()) return;
    const Var& var = loop_->loop_var;
    Map<Var, PrimExpr> next;
    next.Set(var, var + make_const(var.dtype(), 1));
    arith::Analyzer analyzer;
    analyzer.Bind(var, Range::FromMinExtent(loop_->min, loop_->extent));
    std::optional<int64_t> stride;
    if (!arith::ReadsData(indices[0])) stride = analyzer.ConstDifference(Substitute(indices[0], next), indices[0]);
    found.push_back({buffer, is_store, var, loop_->kind, stride});
  }
  const ForNode* loop_ = nullptr;
};

class StrideCoalescer : public FoldingMutator {
 protected:
  using FoldingMutator::VisitExpr_;
  PrimExpr VisitExpr_(const CallNode* op) override {
    if (IsCallTo(op, "tir.masked_load")) {
      const auto* load = op->args[0].as<BufferLoadNode>();
      const PrimExpr picked = load == nullptr ? PrimExpr() : Picked(load, op->args[1]);
      return picked.defined() && is_zero(op->args[2]) ? picked : GetRef<PrimExpr>(op);
    }
    // Under a mask only some of the elements may exist.
    const bool masked = (IsCallTo(op, "tir.if_then_else") && op->args[0].dtype().is_vector()) ||
                        IsCallTo(op, "tir.masked_store") || IsCallTo(op, "tir.address_of");
    return masked ? GetRef<PrimExpr>(op) : FoldingMutator::VisitExpr_(op);
  }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr result = FoldingMutator::VisitExpr_(op);
    const PrimExpr picked = Picked(result.as<BufferLoadNode>(), PrimExpr());
    return picked.defined() ? picked : result;
  }

 private:
  /// A load of elements at a small distance as vectors of which they are picked, or null. `mask` (may be null): the
  /// lanes that exist, others are zero.
  static PrimExpr Picked(const BufferLoadNode* load, const PrimExpr& mask) {
    const auto* ramp = load->indices.size() == 1 ? load->indices[0].as<RampNode>() : nullptr;
    const int64_t* stride = ramp != nullptr ? AsConstInt(ramp->stride) : nullptr;
    if (stride == nullptr || *stride < 2 || *stride > kMaxStride) return PrimExpr();
    const int lanes = ramp->lanes;
    const DataType t = load->buffer->dtype;
    if (lanes < 4 || lanes > kMaxLanes || !t.is_scalar() || t.is_bool() || t.bits() < 8) return PrimExpr();
    const DataType index_type = ramp->base.dtype();
    Array<PrimExpr> vectors, picked;
    for (int64_t k = 0; k < *stride; ++k) {
      PrimExpr base = ramp->base + make_const(index_type, k * (lanes - 1));
      PrimExpr vector = BufferLoad(load->buffer, {Ramp(base, make_const(index_type, 1), lanes)}, load->span);
      if (mask.defined()) {
        vector = CallIntrin(vector.dtype(), "tir.masked_load",
                            {vector, MaskOf(mask, k * (lanes - 1), *stride), make_zero(vector.dtype())});
      }
      vectors.push_back(vector);
    }
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t element = i * *stride, vector = std::min<int64_t>(element / (lanes - 1), *stride - 1);
      picked.push_back(PrimExpr(static_cast<int32_t>(vector * lanes + element - vector * (lanes - 1))));
    }
    return Shuffle(vectors, picked);
  }

  /// The lanes of a vector that begins `first` elements after that of lane 0 of `mask` that are picked and exist.
  static PrimExpr MaskOf(const PrimExpr& mask, int64_t first, int64_t stride) {
    const int lanes = mask.dtype().lanes();
    Array<PrimExpr> from;
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t element = first + i, lane = element / stride;
      const bool is_picked = element % stride == 0 && lane < lanes;
      from.push_back(PrimExpr(static_cast<int32_t>(is_picked ? lane : lanes)));
    }
    return Shuffle({mask, make_zero(mask.dtype())}, from);
  }

  static constexpr int64_t kMaxStride = 4;
  static constexpr int kMaxLanes = 16;
};

}  // namespace

std::vector<StridedAccess> AnalyzeStridedAccesses(const PrimFunc& func) {
  AccessCollector collector;
  collector(func->body);
  return std::move(collector.found);
}

std::string DescribeStridedAccesses(const PrimFunc& func) {
  std::string text;
  for (const StridedAccess& a : AnalyzeStridedAccesses(func)) {
    text += StrCat("loop ", a.loop->name_hint, a.kind == ForKind::kVectorized ? " vectorize" : "", ": ",
                   a.is_store ? "stores " : "loads ", a.buffer->name, " with ",
                   a.stride ? StrCat("stride ", *a.stride) : "no constant stride", "\n");
  }
  return text;
}

PrimFunc CoalesceStridedAccess(PrimFunc func, const LowerConfig&) {
  Stmt body = StrideCoalescer().Rewrite(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
