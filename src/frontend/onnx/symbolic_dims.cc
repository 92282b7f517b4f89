// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/symbolic_dims.h"

#include <algorithm>

#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

/// A number that the expression of dimensions, none of which is negative, is never below; nothing where none is known.
std::optional<int64_t> LowerBound(const PrimExpr& e) {
  constexpr int64_t kFar = int64_t{1} << 30;  // sums and products of bounds below stay far from overflow
  const auto near = [](int64_t value) { return value < kFar && value > -kFar ? std::optional(value) : std::nullopt; };
  if (const int64_t* value = AsConstInt(e)) return *value >= 0 ? std::min(*value, kFar - 1) : near(*value);
  if (IsAnyDim(e)) return std::nullopt;
  if (e.as<tir::VarNode>() != nullptr) return 0;
  const auto of = [&](const auto* op, const auto& combine) -> std::optional<int64_t> {
    const auto a = LowerBound(op->a), b = LowerBound(op->b);
    return a && b ? combine(*a, *b) : std::nullopt;
  };
  using Bound = std::optional<int64_t>;
  if (const auto* op = e.as<tir::AddNode>()) return of(op, [&](int64_t a, int64_t b) { return near(a + b); });
  if (const auto* op = e.as<tir::MulNode>()) {
    return of(op, [&](int64_t a, int64_t b) { return a >= 0 && b >= 0 ? near(a * b) : Bound(); });
  }
  if (const auto* op = e.as<tir::MinNode>()) return of(op, [&](int64_t a, int64_t b) { return Bound(std::min(a, b)); });
  if (const auto* op = e.as<tir::MaxNode>()) {
    const auto a = LowerBound(op->a), b = LowerBound(op->b);
    return a && b ? std::max(*a, *b) : a ? a : b;
  }
  if (const auto* op = e.as<tir::FloorDivNode>()) {
    const int64_t* divisor = AsConstInt(op->b);
    if (divisor == nullptr) return of(op, [](int64_t a, int64_t b) { return a >= 0 && b >= 0 ? Bound(0) : Bound(); });
    const auto a = LowerBound(op->a);
    if (!a || *divisor <= 0) return std::nullopt;
    return *a >= 0 ? *a / *divisor : -((-*a + *divisor - 1) / *divisor);
  }
  return std::nullopt;
}

/// Whether the expression of dimensions can't be negative.
bool NeverNegative(const PrimExpr& e) {
  const auto bound = LowerBound(e);
  return bound && *bound >= 0;
}

}  // namespace

Array<PrimExpr> SizeHints(const std::optional<std::vector<PrimExpr>>& elements, int64_t length) {
  arith::Analyzer analyzer;
  Array<PrimExpr> hints;
  for (int64_t i = 0; i < length; ++i) {
    PrimExpr hint = elements ? (*elements)[static_cast<size_t>(i)] : PrimExpr();
    if (hint.defined() && !IsAnyDim(hint)) hint = analyzer.Simplify(hint);
    hints.push_back(hint.defined() && NeverNegative(hint) ? hint : PrimExpr(int64_t{-1}));
  }
  return hints;
}

Expr WithDims(NodeImport& n, const Expr& x, const Array<PrimExpr>& dims) {
  const Array<PrimExpr>& own = TypeOf(x)->shape;
  if (own.size() != dims.size()) return x;
  Array<PrimExpr> hints;
  bool more = false;
  for (size_t i = 0; i < own.size(); ++i) {
    const bool known = !IsAnyDim(dims[i]) && NeverNegative(dims[i]);
    more = more || (IsAnyDim(own[i]) && known);
    hints.push_back(!IsAnyDim(own[i]) ? own[i] : known ? dims[i] : PrimExpr(int64_t{-1}));
  }
  if (!more) return x;
  Expr shape = n.Call("shape_of", {x}, {{"dtype", DataType::Int(64)}});
  return n.Call("dyn.reshape", {x, shape}, {{"newshape", ObjectRef(hints)}, {"allowzero", true}});
}

PrimExpr SliceSize(const PrimExpr& size, const PrimExpr& begin, const PrimExpr& end) {
  if (!begin.defined() || !end.defined() || IsAnyDim(size) || IsAnyDim(end)) return AnyDim();
  const int64_t *first = AsConstInt(begin), *last = AsConstInt(end);
  if (first == nullptr || *first != 0) return AnyDim();
  arith::Analyzer analyzer;
  if (last != nullptr && *last < 0) return tir::max(analyzer.Simplify(size + end), PrimExpr(int64_t{0}));
  const PrimExpr most = analyzer.Simplify(end);
  if (!NeverNegative(most)) return AnyDim();
  return analyzer.CanProveEqual(most, size) ? size : tir::min(most, size);
}

}  // namespace treadle::onnx
