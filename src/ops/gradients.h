// SPDX-License-Identifier: Apache-2.0
// The gradient rules of operators, by what they have in common, and what rules are made of. Operators name theirs where
// they are registered.
#pragma once

#include <vector>

#include "treadle/ops/gradient.h"
#include "treadle/ops/make.h"

namespace treadle::ops::gradient {

using relay::Expr;
using Site = GradientSite;
using Grads = std::vector<Expr>;

inline Expr Add(const Expr& a, const Expr& b) { return CallOp("add", {a, b}); }
inline Expr Sub(const Expr& a, const Expr& b) { return CallOp("subtract", {a, b}); }
inline Expr Mul(const Expr& a, const Expr& b) { return CallOp("multiply", {a, b}); }
inline Expr Div(const Expr& a, const Expr& b) { return CallOp("divide", {a, b}); }
inline Expr Neg(const Expr& a) { return CallOp("negative", {a}); }
inline Expr Square(const Expr& a) { return Mul(a, a); }
inline Expr Scalar(const Site& s, double value) { return ScalarConstant(s.type(0)->dtype, value); }
inline Expr OnesLike(const Expr& e) { return CallOp("ones_like", {e}); }
inline Expr ZerosLike(const Expr& e) { return CallOp("zeros_like", {e}); }
inline Expr Exp(const Expr& e) { return CallOp("exp", {e}); }

/// Dimension `i` of the type; an error where it isn't known.
inline int64_t Dim(const TensorTypeNode* type, size_t i) {
  const int64_t* dim = AsConstInt(type->shape[i]);
  if (dim == nullptr) throw ShapeError("this gradient needs static shapes");
  return *dim;
}
/// `axis`, counted from the front.
inline int PositiveAxis(int axis, size_t rank) { return axis < 0 ? axis + static_cast<int>(rank) : axis; }

/// The gradient of operand `i`, which was broadcast: summed over what was repeated.
Expr Collapse(const Site& s, const Expr& grad, size_t i);

/// The rule of an operator of one operand from its derivative, an expression of operand and result.
using Derivative = Expr (*)(const Site&);
FGradient Times(Derivative derivative);
/// Results that don't follow small changes of the operands.
Grads None(const Site& s);
/// The gradient of the result is that of the only operand.
Grads Unchanged(const Site& s);

// Element by element. (gradient_elementwise.cc)
Grads OfAdd(const Site& s);
Grads OfSubtract(const Site& s);
Grads OfMultiply(const Site& s);
Grads OfDivide(const Site& s);
Grads OfPower(const Site& s);
Grads OfWhere(const Site& s);
Grads OfMaximum(const Site& s);
Grads OfMinimum(const Site& s);
Grads OfClip(const Site& s);
Grads OfCast(const Site& s);
Grads OfLeakyRelu(const Site& s);
Grads OfPRelu(const Site& s);
Grads OfBiasAdd(const Site& s);

// Sums: reductions, products, losses. (gradient_sums.cc)
Grads OfSum(const Site& s);
Grads OfMean(const Site& s);
/// max and min
Grads OfExtreme(const Site& s);
Grads OfVariance(const Site& s);
Grads OfMatmul(const Site& s);
Grads OfDense(const Site& s);
Grads OfBatchMatmul(const Site& s);
Grads OfSoftmax(const Site& s);
Grads OfLogSoftmax(const Site& s);
Grads OfCrossEntropy(const Site& s);
Grads OfCrossEntropyWithLogits(const Site& s);
Grads OfCollapseSumLike(const Site& s);
Grads OfBroadcastTo(const Site& s);
Grads OfBroadcastToLike(const Site& s);

// Convolution, pooling and resizing. (gradient_windows.cc)
Grads OfConv2D(const Site& s);
Grads OfMaxPool2D(const Site& s);
Grads OfAvgPool2D(const Site& s);
Grads OfGlobalAvgPool2D(const Site& s);
Grads OfGlobalMaxPool2D(const Site& s);
Grads OfUpSampling(const Site& s);

// Operators that move elements. (gradient_moves.cc)
Grads OfReshape(const Site& s);
Grads OfReshapeLike(const Site& s);
Grads OfTranspose(const Site& s);
Grads OfConcatenate(const Site& s);
Grads OfStack(const Site& s);
Grads OfSplit(const Site& s);
Grads OfStridedSlice(const Site& s);
Grads OfPad(const Site& s);
Grads OfGather(const Site& s);
Grads OfTake(const Site& s);
Grads OfRepeat(const Site& s);
Grads OfTile(const Site& s);
Grads OfFullLike(const Site& s);

}  // namespace treadle::ops::gradient
