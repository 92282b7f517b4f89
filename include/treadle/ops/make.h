// SPDX-License-Identifier: Apache-2.0
// Building calls of operators from C++: for importers, passes and tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/pool.h"
#include "treadle/ops/attrs/reduce.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/relay/expr.h"

namespace treadle::ops {

/// A call of the operator of that name: `CallOp("nn.relu", {x})`, `CallOp("nn.conv2d", {x, w}, attrs)`.
/// An operator that has attributes gets default ones where none are given. Throws Error for an unknown operator.
relay::Expr CallOp(const std::string& name, Array<relay::Expr> args, Attrs attrs = Attrs(), Span span = Span());
/// As CallOp with attributes of the operator's class that `init` completes:
/// `CallWith<Conv2DAttrs>("nn.conv2d", {x, w}, [&](auto& a) { a.groups = 2; })`.
template <typename T, typename Init>
relay::Expr CallWith(const std::string& name, Array<relay::Expr> args, Init&& init) {
  return CallOp(name, std::move(args), MakeAttrs<T>(std::forward<Init>(init)));
}

/// Integer constants (int64) as attributes hold them: shapes, lists of pairs.
Array<PrimExpr> IntArray(const std::vector<int64_t>& values);
Array<Array<PrimExpr>> IntPairs(const std::vector<std::pair<int64_t, int64_t>>& pairs);
/// The inverse; nothing where an entry is symbolic.
std::optional<std::vector<int64_t>> ConstInts(const Array<PrimExpr>& values);

/// A rank-0 constant. Throws DTypeError unless `dtype` is a number or bool.
relay::Constant ScalarConstant(DataType dtype, double value);
relay::Constant ScalarConstant(DataType dtype, int64_t value);

relay::Expr MakeReshape(relay::Expr data, const Array<PrimExpr>& newshape);
relay::Expr MakeReshape(relay::Expr data, const std::vector<int64_t>& newshape);
relay::Expr MakeTranspose(relay::Expr data, std::vector<int64_t> axes);
relay::Expr MakeSqueeze(relay::Expr data, std::vector<int64_t> axis);
relay::Expr MakeExpandDims(relay::Expr data, int axis, int num_newaxis = 1);
relay::Expr MakeConcatenate(Array<relay::Expr> parts, int axis);
relay::Expr MakeStack(Array<relay::Expr> parts, int axis);
/// `sections` equal parts; the result is a tuple.
relay::Expr MakeSplit(relay::Expr data, int64_t sections, int axis);
relay::Expr MakeSplit(relay::Expr data, const std::vector<int64_t>& indices, int axis);
relay::Expr MakeStridedSlice(relay::Expr data, std::vector<int64_t> begin, std::vector<int64_t> end,
                             std::vector<int64_t> strides = {},
                             std::optional<std::vector<int64_t>> axes = std::nullopt);
relay::Expr MakeTake(relay::Expr data, relay::Expr indices, std::optional<int64_t> axis, std::string mode = "clip");
relay::Expr MakeCast(relay::Expr data, DataType dtype);
relay::Expr MakeClip(relay::Expr data, double a_min, double a_max);
relay::Expr MakeBroadcastTo(relay::Expr data, const Array<PrimExpr>& shape);
relay::Expr MakeFull(relay::Expr fill_value, const Array<PrimExpr>& shape, DataType dtype);
relay::Expr MakeZeros(const Array<PrimExpr>& shape, DataType dtype);
relay::Expr MakeOnes(const Array<PrimExpr>& shape, DataType dtype);
/// `name`: sum, mean, max, ...; no axis means all.
relay::Expr MakeReduce(const std::string& name, relay::Expr data, std::optional<std::vector<int64_t>> axis,
                       bool keepdims = false, bool exclude = false);
relay::Expr MakePad(relay::Expr data, const std::vector<std::pair<int64_t, int64_t>>& pad_width, relay::Expr pad_value,
                    std::string mode = "constant");
/// `data` (float32) of `rank` dimensions without the first and the last elements along an axis. Unlike slices, which
/// are empty where fewer are left, refuses such data, in a run as well.
relay::Expr MakeCrop(relay::Expr data, size_t rank, size_t axis, std::pair<int64_t, int64_t> cut, Span span);
relay::Expr MakeBiasAdd(relay::Expr data, relay::Expr bias, int axis = 1);
relay::Expr MakeDense(relay::Expr data, relay::Expr weight, std::optional<int64_t> units = std::nullopt);

/// Parts of a split: the number of equal ones, or nothing where cut points are given (SplitIndices).
std::optional<int64_t> SplitSections(const SplitAttrs& attrs);
std::vector<int64_t> SplitIndices(const SplitAttrs& attrs);

}  // namespace treadle::ops
