// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/symbolic_dims.h"

#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

/// Whether the expression of dimensions can't be negative.
bool NeverNegative(const PrimExpr& e) {
  if (const int64_t* value = AsConstInt(e)) return *value >= 0;
  if (IsAnyDim(e)) return false;
  if (e.as<tir::VarNode>() != nullptr) return true;
  const auto both = [](const auto* op) { return NeverNegative(op->a) && NeverNegative(op->b); };
  if (const auto* op = e.as<tir::AddNode>()) return both(op);
  if (const auto* op = e.as<tir::MulNode>()) return both(op);
  if (const auto* op = e.as<tir::MinNode>()) return both(op);
  if (const auto* op = e.as<tir::MaxNode>()) return NeverNegative(op->a) || NeverNegative(op->b);
  if (const auto* op = e.as<tir::FloorDivNode>()) return both(op);
  return false;
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
