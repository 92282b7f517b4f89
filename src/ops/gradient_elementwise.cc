// SPDX-License-Identifier: Apache-2.0
// Gradients of operators that compute element by element.
#include "ops/gradients.h"
#include "ops/infer.h"

namespace treadle::ops::gradient {

Expr Collapse(const Site& s, const Expr& grad, size_t i) {
  const Array<PrimExpr>&from = s.type(i)->shape, &to = s.result_type()->shape;
  bool same = from.size() == to.size();
  for (size_t d = 0; same && d < to.size(); ++d) same = SameDim(from[d], to[d]);
  return same ? grad : CallOp("collapse_sum_like", {grad, s.arg(i)});
}

FGradient Times(Derivative derivative) {
  return [derivative](const Site& s) { return Grads{Mul(s.grad, derivative(s))}; };
}

Grads None(const Site& s) { return Grads(s.call->args.size()); }

Grads Unchanged(const Site& s) { return {s.grad}; }

Grads OfAdd(const Site& s) { return {Collapse(s, s.grad, 0), Collapse(s, s.grad, 1)}; }

Grads OfSubtract(const Site& s) { return {Collapse(s, s.grad, 0), Collapse(s, Neg(s.grad), 1)}; }

Grads OfMultiply(const Site& s) {
  return {Collapse(s, Mul(s.grad, s.arg(1)), 0), Collapse(s, Mul(s.grad, s.arg(0)), 1)};
}

Grads OfDivide(const Site& s) {
  Expr to_rhs = Neg(Div(Mul(s.grad, s.result()), s.arg(1)));
  return {Collapse(s, Div(s.grad, s.arg(1)), 0), Collapse(s, to_rhs, 1)};
}

Grads OfPower(const Site& s) {
  Expr to_base = Mul(s.grad, Mul(s.arg(1), CallOp("power", {s.arg(0), Sub(s.arg(1), Scalar(s, 1))})));
  Expr to_exponent = Mul(s.grad, Mul(s.result(), CallOp("log", {s.arg(0)})));
  return {Collapse(s, to_base, 0), Collapse(s, to_exponent, 1)};
}

Grads OfWhere(const Site& s) {
  Expr zero = ZerosLike(s.grad);
  return {Expr(), Collapse(s, CallOp("where", {s.arg(0), s.grad, zero}), 1),
          Collapse(s, CallOp("where", {s.arg(0), zero, s.grad}), 2)};
}

namespace {

/// 1 where the comparison holds, else 0, in the operands' type.
Expr Mask(const Site& s, const char* comparison, const Expr& a, const Expr& b) {
  return MakeCast(CallOp(comparison, {a, b}), s.type(0)->dtype);
}

/// maximum and minimum: to the operand that was taken, to the first where both are equal.
Grads ChoiceGradient(const Site& s, const char* first_taken, const char* second_taken) {
  return {Collapse(s, Mul(s.grad, Mask(s, first_taken, s.arg(0), s.arg(1))), 0),
          Collapse(s, Mul(s.grad, Mask(s, second_taken, s.arg(0), s.arg(1))), 1)};
}

}  // namespace

Grads OfMaximum(const Site& s) { return ChoiceGradient(s, "greater_equal", "less"); }

Grads OfMinimum(const Site& s) { return ChoiceGradient(s, "less_equal", "greater"); }

Grads OfClip(const Site& s) {
  const auto* attrs = s.call->attrs_as<ClipAttrs>();
  Expr inside = Mul(Mask(s, "less_equal", Scalar(s, attrs->a_min), s.arg(0)),
                    Mask(s, "less_equal", s.arg(0), Scalar(s, attrs->a_max)));
  return {Mul(s.grad, inside)};
}

Grads OfLeakyRelu(const Site& s) {
  double alpha = s.call->attrs_as<LeakyReluAttrs>()->alpha;
  Expr positive = Mask(s, "greater", s.arg(0), Scalar(s, 0));
  return {Mul(s.grad, Add(Mul(positive, Scalar(s, 1 - alpha)), Scalar(s, alpha)))};
}

Grads OfCast(const Site& s) {
  if (!s.type(0)->dtype.is_floating()) return {Expr()};
  return {MakeCast(s.grad, s.type(0)->dtype)};
}

/// prelu(data, alpha): alpha runs along one axis.
Grads OfPRelu(const Site& s) {
  const size_t rank = s.type(0)->shape.size();
  const int64_t axis = PositiveAxis(s.call->attrs_as<PReluAttrs>()->axis, rank);
  std::vector<int64_t> shape(rank, 1);
  shape[static_cast<size_t>(axis)] = Dim(s.type(1), 0);
  Expr zero = Scalar(s, 0);
  Expr positive = CallOp("greater", {s.arg(0), zero});
  Expr to_data = CallOp("where", {positive, s.grad, Mul(s.grad, MakeReshape(s.arg(1), shape))});
  Expr to_alpha = Mul(s.grad, CallOp("minimum", {s.arg(0), zero}));
  return {to_data, MakeReduce("sum", to_alpha, std::vector<int64_t>{axis}, false, /*exclude=*/true)};
}

Grads OfBiasAdd(const Site& s) {
  int64_t axis = PositiveAxis(s.call->attrs_as<BiasAddAttrs>()->axis, s.type(0)->shape.size());
  return {s.grad, MakeReduce("sum", s.grad, std::vector<int64_t>{axis}, false, /*exclude=*/true)};
}

}  // namespace treadle::ops::gradient
