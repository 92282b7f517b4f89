// SPDX-License-Identifier: Apache-2.0
// What the files of qnn.* operators share: how they are written in plain operators. Quantised operators have no
// computation of their own; the pass QnnCanonicalize replaces each by what its rule says.
#pragma once

#include <string>

#include "treadle/ops/make.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::ops::qnn {

/// The element type of a type that is a tensor's; InternalError otherwise.
DataType DTypeOf(const Type& type);
/// Whether the expression is a constant whose elements are all 0.
bool IsZero(const relay::Expr& value);
/// A scale or zero point (rank 0, or rank 1) so that it broadcasts to a tensor of `rank` along dimension `axis`.
relay::Expr AlongAxis(const relay::Expr& value, const Type& type, int axis, size_t rank);
/// `real` (float32), rounded half to even, plus `zero_point`, saturated to `dtype`; NaN becomes its least value.
/// `zero_point` may be null and must line up with `real`, which is divided by `divisor` (a float32) first.
relay::Expr Saturate(relay::Expr real, const relay::Expr& zero_point, DataType dtype, double divisor = 1);
/// The same of real / scale.
relay::Expr Quotient(relay::Expr real, const relay::Expr& scale, const relay::Expr& zero_point, DataType dtype);
/// (value - zero_point) * scale in float32, operands lined up. `zero_point` may be null.
relay::Expr Dequantized(const relay::Expr& value, const relay::Expr& scale, const relay::Expr& zero_point);
relay::Expr Sub(const relay::Expr& a, const relay::Expr& b);
relay::Expr Add(const relay::Expr& a, const relay::Expr& b);
relay::Expr Mul(const relay::Expr& a, const relay::Expr& b);

}  // namespace treadle::ops::qnn
