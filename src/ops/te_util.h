// SPDX-License-Identifier: Apache-2.0
// Helpers for writing operators as tensor expressions.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/prim_ops.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {

using te::Tensor;

inline PrimExpr Index(int64_t value) { return PrimExpr(value); }
Array<PrimExpr> Indices(const Array<te::Var>& axes);

/// The type of a result that is one tensor, or its field `i`.
const TensorTypeNode* OutTensor(const Type& out_type, int i = 0);

/// A computation whose body is a function of index expressions.
using IndexBody = std::function<PrimExpr(const Array<PrimExpr>& index)>;
Tensor Compute(const Array<PrimExpr>& shape, const IndexBody& body, const std::string& name, const std::string& tag);

/// The element of `t` that broadcasting puts at `index` of a result of shape `shape`.
PrimExpr LoadBroadcast(const Tensor& t, const Array<PrimExpr>& index, const Array<PrimExpr>& shape);

/// Where sums of products of `dtype` are accumulated: float32 for narrower floats, int32 for narrower integers.
DataType AccumulatorDType(DataType dtype);
/// `t` itself, or an element-wise conversion of it.
Tensor CastTo(const Tensor& t, DataType dtype, const std::string& name);

/// Axes over all of `extents`.
Array<te::IterVar> ReduceAxes(const std::vector<int64_t>& extents, const std::string& prefix);
Array<PrimExpr> AxisVars(const Array<te::IterVar>& axes);

/// `data` with `before[i]`, `after[i]` elements of `value` around dimension i; negative ones crop. Returns `data`
/// itself where all are 0.
Tensor Pad(const Tensor& data, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
           const PrimExpr& value, const std::string& name = "pad");

/// exp(x) of x that is at most 0, as in softmax, where results are compared with one of 1. Of float32 those below
/// 2^-125 are 0: sums with them are the same, and processors of Intel take over a hundred cycles for each product with
/// a subnormal number.
PrimExpr ExpUpToOne(const PrimExpr& x);

/// The bits of a float, as an integer of its size, as one that is in the order of the numbers (NaN apart); its own
/// inverse.
PrimExpr OrderOfBits(const PrimExpr& bits);

/// The greater of two; where one is NaN, any of them. One instruction instead of three that let NaN win, for where NaN
/// is found otherwise: in the sum of a softmax.
PrimExpr GreaterOf(const PrimExpr& a, const PrimExpr& b);
/// The greatest of `source` along `axis`, by GreaterOf.
PrimExpr GreatestOf(const PrimExpr& source, const te::IterVar& axis);

/// `value` saturated to the range of `dtype`: a bound that a model gives as a number.
PrimExpr SaturatedConst(DataType dtype, double value);
/// min(max(x, low), high), integers.
PrimExpr Clamp(const PrimExpr& x, const PrimExpr& low, const PrimExpr& high);
/// An index that comes from data, made safe: counted from the end if negative (unless `plain`), then clamped to
/// [0, extent). int64.
PrimExpr SafeIndex(const PrimExpr& index, const PrimExpr& extent, bool plain = false);
/// Whether the dimension is the constant 0.
bool IsEmptyDim(const PrimExpr& dim);

/// Position of each element of `index` in the flattened tensor, and back.
PrimExpr FlatIndex(const Array<PrimExpr>& index, const Array<PrimExpr>& shape);
Array<PrimExpr> UnflattenIndex(PrimExpr flat, const Array<PrimExpr>& shape);

}  // namespace treadle::ops
