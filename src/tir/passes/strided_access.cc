// SPDX-License-Identifier: Apache-2.0
// Strided accesses: their analysis, and vectors of elements at small distances read as whole vectors. The elements
// b, b + s, .., b + s (n-1) lie in the s vectors of n elements that begin at b, b + (n-1), b + 2 (n-1), ..; these reach
// from the first to the last of them and no further, so nothing outside the buffer is read.
#include "tir/passes/strided_access.h"

#include <algorithm>
#include <optional>
#include <vector>

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

/// An index of each lane: `base` and a constant of its own.
struct LaneIndices {
  PrimExpr base;
  std::vector<int64_t> offsets;
};

/// Such indices of sums of ramps and their quotients by constants; nothing of others.
std::optional<LaneIndices> LaneIndicesOf(const PrimExpr& index) {
  const auto lanes = static_cast<size_t>(index.dtype().lanes());
  const PrimExpr zero = make_zero(index.dtype().element_of());
  if (const auto* broadcast = index.as<BroadcastNode>()) {
    return LaneIndices{broadcast->value, std::vector<int64_t>(lanes, 0)};
  }
  if (const auto* ramp = index.as<RampNode>()) {
    const int64_t* stride = AsConstInt(ramp->stride);
    if (stride == nullptr) return std::nullopt;
    LaneIndices made{ramp->base, {}};
    for (size_t i = 0; i < lanes; ++i) made.offsets.push_back(static_cast<int64_t>(i) * *stride);
    return made;
  }
  if (const auto* sum = index.as<AddNode>()) {
    std::optional<LaneIndices> a = LaneIndicesOf(sum->a);
    const std::optional<LaneIndices> b = a ? LaneIndicesOf(sum->b) : std::nullopt;
    if (!b) return std::nullopt;
    a->base = a->base + b->base;
    for (size_t i = 0; i < lanes; ++i) a->offsets[i] += b->offsets[i];
    return a;
  }
  const auto* quotient = index.as<FloorDivNode>();
  const auto* divisor = quotient == nullptr ? nullptr : quotient->b.as<BroadcastNode>();
  const int64_t* by = divisor == nullptr ? nullptr : AsConstInt(divisor->value);
  if (by == nullptr || *by <= 0) return std::nullopt;
  std::optional<LaneIndices> of = LaneIndicesOf(quotient->a);
  const int64_t* begin = of ? AsConstInt(of->base) : nullptr;
  if (begin == nullptr || *begin < 0) return std::nullopt;
  for (int64_t& offset : of->offsets) {
    if (*begin + offset < 0) return std::nullopt;
    offset = (*begin + offset) / *by;
  }
  of->base = zero;
  return of;
}

class StrideCoalescer : public FoldingMutator {
 protected:
  using FoldingMutator::VisitExpr_;
  PrimExpr VisitExpr_(const CallNode* op) override {
    if (IsCallTo(op, "tir.masked_load")) {
      const auto* load = op->args[0].as<BufferLoadNode>();
      PrimExpr picked = load == nullptr ? PrimExpr() : Picked(load, op->args[1]);
      if (load != nullptr && !picked.defined()) picked = Repeated(load, op->args[1]);
      return picked.defined() && is_zero(op->args[2]) ? picked : GetRef<PrimExpr>(op);
    }
    if (IsCallTo(op, "tir.masked_store")) {
      const PrimExpr value = VisitExpr(op->args[2]);
      const bool same = value.same_as(op->args[2]);
      return same ? GetRef<PrimExpr>(op)
                  : PrimExpr(Call(op->dtype, op->op, {op->args[0], op->args[1], value}, op->span));
    }
    // Under a mask only some of the elements may exist.
    const bool masked =
        (IsCallTo(op, "tir.if_then_else") && op->args[0].dtype().is_vector()) || IsCallTo(op, "tir.address_of");
    return masked ? GetRef<PrimExpr>(op) : FoldingMutator::VisitExpr_(op);
  }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr result = FoldingMutator::VisitExpr_(op);
    PrimExpr picked = Picked(result.as<BufferLoadNode>(), PrimExpr());
    if (!picked.defined()) picked = Repeated(result.as<BufferLoadNode>(), PrimExpr());
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
                            {vector, MaskOf(mask, k * (lanes - 1), *stride), zero_bits(vector.dtype())});
      }
      vectors.push_back(vector);
    }
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t element = i * *stride, vector = std::min<int64_t>(element / (lanes - 1), *stride - 1);
      picked.push_back(PrimExpr(static_cast<int32_t>(vector * lanes + element - vector * (lanes - 1))));
    }
    return Shuffle(vectors, picked);
  }

  /// A load of neighbours each of which several lanes read as a vector of the neighbours, or null.
  static PrimExpr Repeated(const BufferLoadNode* load, const PrimExpr& mask) {
    const DataType t = load->buffer->dtype;
    if (load->indices.size() != 1 || !t.is_scalar() || t.is_bool() || t.bits() < 8) return PrimExpr();
    const PrimExpr& index = load->indices[0];
    const int lanes = index.dtype().lanes();
    if (lanes < 4 || index.as<RampNode>() || index.as<BroadcastNode>() || arith::ReadsData(index)) return PrimExpr();
    const std::optional<LaneIndices> at = LaneIndicesOf(index);
    if (!at) return PrimExpr();
    const int64_t first = at->offsets[0];
    std::vector<std::vector<int32_t>> readers;  // lanes, of each of the neighbours
    Array<PrimExpr> picked;
    for (const int64_t offset : at->offsets) {
      const int64_t element = offset - first, met = static_cast<int64_t>(readers.size());
      if (element < std::max<int64_t>(met - 1, 0) || element > met) return PrimExpr();  // what lies between is read
      if (element == met) readers.emplace_back();
      readers.back().push_back(static_cast<int32_t>(picked.size()));
      picked.push_back(PrimExpr(static_cast<int32_t>(element)));
    }
    const auto count = static_cast<int>(readers.size());
    if (count < 2 || count > lanes / 2) return PrimExpr();
    const DataType type = index.dtype().element_of();
    PrimExpr vector =
        BufferLoad(load->buffer, {Ramp(at->base + make_const(type, first), make_const(type, 1), count)}, load->span);
    if (!mask.defined()) return Shuffle({vector}, picked);
    vector = CallIntrin(vector.dtype(), "tir.masked_load", {vector, AnyOf(mask, readers), zero_bits(vector.dtype())});
    return select(mask, Shuffle({vector}, picked), zero_bits(load->dtype));
  }

  /// Whether any of some lanes is set, for each list of them.
  static PrimExpr AnyOf(const PrimExpr& mask, const std::vector<std::vector<int32_t>>& lists) {
    size_t most = 0;
    for (const std::vector<int32_t>& lanes : lists) most = std::max(most, lanes.size());
    PrimExpr any;
    for (size_t k = 0; k < most; ++k) {
      Array<PrimExpr> from;
      for (const std::vector<int32_t>& lanes : lists) {
        from.push_back(PrimExpr(k < lanes.size() ? lanes[k] : static_cast<int32_t>(mask.dtype().lanes())));
      }
      const PrimExpr some = Shuffle({mask, make_zero(mask.dtype())}, from);
      any = any.defined() ? any || some : some;
    }
    return any;
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
