// SPDX-License-Identifier: Apache-2.0
// Gradients of reductions, matrix products, softmax and losses.
#include "ops/gradients.h"

namespace treadle::ops::gradient {
namespace {

/// The axes that a reduction removes or sets to 1, in order.
std::vector<int64_t> ReducedAxes(const Site& s) {
  const auto* attrs = s.call->attrs_as<ReduceAttrs>();
  size_t rank = s.type(0)->shape.size();
  std::vector<bool> listed(rank, !attrs->axis);
  if (attrs->axis) {
    for (int64_t axis : *attrs->axis) listed[static_cast<size_t>(PositiveAxis(static_cast<int>(axis), rank))] = true;
  }
  std::vector<int64_t> axes;
  for (size_t i = 0; i < rank; ++i) {
    if (listed[i] != (attrs->exclude && attrs->axis.has_value())) axes.push_back(static_cast<int64_t>(i));
  }
  return axes;
}

/// `reduced` (the result or its gradient) with the shape that broadcasts against the operand.
Expr KeepDims(const Site& s, Expr reduced) {
  if (s.call->attrs_as<ReduceAttrs>()->keepdims) return reduced;
  for (int64_t axis : ReducedAxes(s)) reduced = MakeExpandDims(reduced, static_cast<int>(axis));
  return reduced;
}

Expr SumGradient(const Site& s) { return Mul(KeepDims(s, s.grad), OnesLike(s.arg(0))); }

double ReducedElements(const Site& s) {
  double count = 1;
  for (int64_t axis : ReducedAxes(s)) {
    const int64_t* dim = AsConstInt(s.type(0)->shape[static_cast<size_t>(axis)]);
    if (dim == nullptr) throw ShapeError("gradient of mean over a dimension of unknown size");
    count *= static_cast<double>(*dim);
  }
  return count;
}

}  // namespace

Grads OfSum(const Site& s) { return {SumGradient(s)}; }

Grads OfMean(const Site& s) { return {Mul(SumGradient(s), Scalar(s, 1 / ReducedElements(s)))}; }

/// max and min: shared by the elements that have the value.
Grads OfExtreme(const Site& s) {
  Expr chosen = MakeCast(CallOp("equal", {s.arg(0), KeepDims(s, s.result())}), s.type(0)->dtype);
  Expr count = MakeReduce("sum", chosen, ReducedAxes(s), true);
  return {Mul(Div(chosen, count), KeepDims(s, s.grad))};
}

/// variance(data, mean)
Grads OfVariance(const Site& s) {
  const auto* attrs = s.call->attrs_as<VarianceAttrs>();
  Expr step = Mul(KeepDims(s, s.grad), Scalar(s, 2 / (ReducedElements(s) - (attrs->unbiased ? 1 : 0))));
  Expr to_data = Mul(Sub(s.arg(0), s.arg(1)), step);
  return {to_data, CallOp("collapse_sum_like", {Neg(to_data), s.arg(1)})};
}

Grads OfMatmul(const Site& s) {
  const auto* attrs = s.call->attrs_as<MatmulAttrs>();
  if (s.type(0)->shape.size() != 2) throw ShapeError("the gradient of nn.matmul needs matrices");
  auto product = [](Expr a, Expr b, bool transpose_a, bool transpose_b) {
    if (transpose_a) a = MakeTranspose(a, {1, 0});
    if (!transpose_b) b = MakeTranspose(b, {1, 0});
    return MakeDense(a, b);
  };
  const bool a = attrs->transpose_a, b = attrs->transpose_b;
  return {a ? product(s.arg(1), s.grad, b, true) : product(s.grad, s.arg(1), false, !b),
          b ? product(s.grad, s.arg(0), true, a) : product(s.arg(0), s.grad, !a, false)};
}

Grads OfDense(const Site& s) {
  if (s.type(0)->shape.size() != 2) throw ShapeError("the gradient of nn.dense needs a matrix as data");
  // data (m, k), weight (n, k), grad (m, n)
  Expr transposed = MakeTranspose(s.grad, {1, 0});
  return {MakeDense(s.grad, MakeTranspose(s.arg(1), {1, 0})), MakeDense(transposed, MakeTranspose(s.arg(0), {1, 0}))};
}

Grads OfBatchMatmul(const Site& s) {
  const auto* attrs = s.call->attrs_as<BatchMatmulAttrs>();
  if (attrs->transpose_a || !attrs->transpose_b) {
    throw Error("the gradient of nn.batch_matmul is implemented for transpose_a=False, transpose_b=True");
  }
  auto product = [](const Expr& a, const Expr& b) { return CallOp("nn.batch_matmul", {a, b}); };
  auto swap = [](const Expr& e) { return MakeTranspose(e, {0, 2, 1}); };
  return {product(s.grad, swap(s.arg(1))), product(swap(s.grad), swap(s.arg(0)))};
}

Grads OfSoftmax(const Site& s) {
  int64_t axis = s.call->attrs_as<SoftmaxAttrs>()->axis;
  Expr weighted = Mul(s.grad, s.result());
  return {Sub(weighted, Mul(MakeReduce("sum", weighted, std::vector<int64_t>{axis}, true), s.result()))};
}

Grads OfLogSoftmax(const Site& s) {
  int64_t axis = s.call->attrs_as<SoftmaxAttrs>()->axis;
  Expr sum = MakeReduce("sum", s.grad, std::vector<int64_t>{axis}, true);
  return {Sub(s.grad, Mul(CallOp("exp", {s.result()}), sum))};
}

/// predictions, targets (batch, classes) -> scalar
Grads OfCrossEntropy(const Site& s) {
  Expr part = Neg(Div(s.grad, Scalar(s, static_cast<double>(Dim(s.type(0), 0)))));
  return {Mul(part, Div(s.arg(1), s.arg(0))), Mul(part, CallOp("log", {s.arg(0)}))};
}

Grads OfCrossEntropyWithLogits(const Site& s) {
  Expr part = Neg(Div(s.grad, Scalar(s, static_cast<double>(Dim(s.type(0), 0)))));
  return {Mul(part, s.arg(1)), Mul(part, s.arg(0))};
}

Grads OfCollapseSumLike(const Site& s) { return {CallOp("broadcast_to_like", {s.grad, s.arg(0)}), Expr()}; }

Grads OfBroadcastTo(const Site& s) { return {Collapse(s, s.grad, 0)}; }

Grads OfBroadcastToLike(const Site& s) { return {Collapse(s, s.grad, 0), Expr()}; }

}  // namespace treadle::ops::gradient
