// SPDX-License-Identifier: Apache-2.0
// Arithmetic on expressions, for rules that compose an operator of others.
#pragma once

#include <string>
#include <vector>

#include "frontend/onnx/node_import.h"

namespace treadle::onnx {

/// An expression with the node that it is built for. Operands of arithmetic have one dtype; a number takes that of the
/// other operand.
class Term {
 public:
  Term(NodeImport& n, relay::Expr e) : n_(&n), e_(std::move(e)) {}
  const relay::Expr& expr() const { return e_; }
  operator const relay::Expr&() const { return e_; }  // NOLINT(google-explicit-constructor)
  NodeImport& node() const { return *n_; }

  DataType dtype() const { return TypeOf(e_)->dtype; }
  int rank() const { return RankOf(e_); }
  const Array<PrimExpr>& shape() const { return TypeOf(e_)->shape; }

  Term Op(const char* op, const AttrList& attrs = {}) const { return {*n_, n_->Call(op, {e_}, attrs)}; }
  Term Op(const char* op, const Term& b, const AttrList& attrs = {}) const {
    return {*n_, n_->Call(op, {e_, b.e_}, attrs)};
  }
  Term Number(double value) const { return {*n_, n_->Scalar(dtype(), value)}; }
  Term As(DataType dtype) const { return {*n_, n_->Cast(e_, dtype)}; }
  /// New dimensions of size 1 in front of `axis`.
  Term Expand(int axis, int count = 1) const {
    return {*n_, n_->ExpandDims(e_, axis < 0 ? axis + rank() + 1 : axis, count)};
  }
  Term Squeeze(const std::vector<int64_t>& axes) const { return {*n_, n_->Squeeze(e_, axes)}; }
  Term Permute(const std::vector<int64_t>& axes) const { return {*n_, n_->Transpose(e_, axes)}; }
  Term Reshape(const std::vector<int64_t>& shape) const { return {*n_, n_->Reshape(e_, shape)}; }
  Term Slice(int axis, int64_t begin, int64_t end) const { return {*n_, n_->Slice(e_, axis, begin, end)}; }
  Term Reduce(const char* op, const std::vector<int64_t>& axes, bool keepdims = false) const {
    return Op(op, {{"axis", axes}, {"keepdims", keepdims}});
  }
  Term Sum(const std::vector<int64_t>& axes, bool keepdims = false) const { return Reduce("sum", axes, keepdims); }
  /// Elements of dimension `axis` by index; an index out of range is an error.
  Term Take(const Term& indices, int axis = 0) const {
    return Op("take", indices, {{"axis", int64_t{axis}}, {"mode", std::string("error")}});
  }
  /// Element `i` of a vector, as a scalar.
  Term Element(int64_t i) const { return Slice(0, i, i + 1).Reshape({}); }
  Term Select(const Term& yes, const Term& no) const { return {*n_, n_->Call("where", {e_, yes.e_, no.e_})}; }
  Term Select(const Term& yes, double no) const { return Select(yes, yes.Number(no)); }
  Term Not() const { return Op("logical_not"); }

 private:
  NodeImport* n_;
  relay::Expr e_;
};

#define TREADLE_TERM_OP(symbol, op)                                                      \
  inline Term operator symbol(const Term& a, const Term& b) { return a.Op(op, b); }      \
  inline Term operator symbol(const Term& a, double b) { return a.Op(op, a.Number(b)); } \
  inline Term operator symbol(double a, const Term& b) { return b.Number(a).Op(op, b); }
TREADLE_TERM_OP(+, "add")
TREADLE_TERM_OP(-, "subtract")
TREADLE_TERM_OP(*, "multiply")
TREADLE_TERM_OP(/, "divide")
TREADLE_TERM_OP(<, "less")
TREADLE_TERM_OP(>, "greater")
TREADLE_TERM_OP(<=, "less_equal")
TREADLE_TERM_OP(>=, "greater_equal")
TREADLE_TERM_OP(==, "equal")
TREADLE_TERM_OP(!=, "not_equal")
TREADLE_TERM_OP(&&, "logical_and")
TREADLE_TERM_OP(||, "logical_or")
#undef TREADLE_TERM_OP

inline Term Max(const Term& a, const Term& b) { return a.Op("maximum", b); }
inline Term Min(const Term& a, const Term& b) { return a.Op("minimum", b); }
inline Term Max(const Term& a, double b) { return Max(a, a.Number(b)); }
inline Term Min(const Term& a, double b) { return Min(a, a.Number(b)); }
/// Integers, rounded down.
inline Term FloorDiv(const Term& a, const Term& b) { return a.Op("floor_divide", b); }
inline Term FloorDiv(const Term& a, double b) { return FloorDiv(a, a.Number(b)); }

inline Term In(NodeImport& n, size_t i) { return {n, n.In(i)}; }
inline Term IntVec(NodeImport& n, const std::vector<int64_t>& values) { return {n, n.IntVector(values)}; }
inline Term IntNum(NodeImport& n, int64_t value) {
  return {n, n.Const(ArrayOf(std::vector<int64_t>{value}, std::vector<int64_t>{}, DataType::Int(64)))};
}
/// Input `i`, one number, as a scalar of `dtype`.
inline Term ScalarIn(NodeImport& n, size_t i, DataType dtype) {
  Term x = In(n, i);
  return (x.rank() == 0 ? x : x.Reshape({})).As(dtype);
}
inline Term Concat(const std::vector<Term>& parts, int axis) {
  if (parts.size() == 1) return parts[0];
  Array<relay::Expr> exprs;
  for (const Term& part : parts) exprs.push_back(part.expr());
  return {parts[0].node(), parts[0].node().Concat(exprs, axis)};
}
/// Scalars as a vector.
inline Term Stack(const std::vector<Term>& scalars) {
  std::vector<Term> parts;
  for (const Term& scalar : scalars) parts.push_back(scalar.Reshape({1}));
  return Concat(parts, 0);
}

// ---- Shapes. Defined in run_time_axes.cc.

/// The dimensions, int64.
Term ShapeOf(const Term& x);
/// Dimension `axis` as an int64 scalar.
Term DimOf(const Term& x, int axis);
/// 0, 1, .. below an int64 scalar.
Term Iota(const Term& count);
/// `x` with the dimensions that an int64 vector of known length lists.
Term ReshapeTo(const Term& x, const Term& shape);
Term ReshapeTo(const Term& x, const std::vector<Term>& dims);
/// `value` everywhere, of the shape that an int64 vector lists.
Term Full(const Term& value, const Term& shape);
Term BroadcastTo(const Term& x, const Term& shape);
/// [begin, end) of one dimension, int64 scalars.
Term SliceAxis(const Term& x, int axis, const Term& begin, const Term& end);
/// [begin, begin + count) of a dimension of known size; zeros for what lies beyond its end.
Term CutOrFilled(const Term& x, int axis, int64_t begin, int64_t count);

}  // namespace treadle::onnx
