// SPDX-License-Identifier: Apache-2.0
// What operators are in inference: norms become arithmetic, dropout its input. Formulas: Ioffe, Szegedy: Batch
// Normalization (arXiv:1502.03167) and the ONNX operators of these names.
#include "ops/inference_forms.h"

#include "treadle/ops/make.h"

namespace treadle::ops {

using relay::CallNode;
using relay::Expr;
using relay::Tuple;

namespace {

int PositiveAxis(int axis, size_t rank) { return axis < 0 ? axis + static_cast<int>(rank) : axis; }

Expr Scalar(DataType dtype, double value) { return ScalarConstant(dtype, value); }

/// A vector along `axis`, shaped to broadcast against `rank` dimensions.
Expr AlongAxis(const Expr& vector, int axis, int rank) {
  int trailing = rank - axis - 1;
  return trailing > 0 ? MakeExpandDims(vector, 1, trailing) : vector;
}

std::vector<int64_t> AllAxesBut(int rank, int first, int second) {
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i) {
    if (i != first && i != second) axes.push_back(i);
  }
  return axes;
}

/// The first element along each of `axes`; undefined where a size isn't known or is 0.
Expr First(const Expr& data, const std::vector<int64_t>& axes, const Array<PrimExpr>& shape) {
  std::vector<int64_t> begin(axes.size(), 0), end(axes.size(), 1), strides(axes.size(), 1);
  for (int64_t axis : axes) {
    const int64_t* size = AsConstInt(shape[static_cast<size_t>(axis)]);
    if (size == nullptr || *size < 1) return Expr();
  }
  return MakeStridedSlice(data, begin, end, strides, axes);
}

/// (data - mean) / sqrt(variance + epsilon) over `axes`. first: of each row, where the mean is that of the differences
/// from it: what rounding leaves in a mean of large numbers would be divided, in rows of equal ones, by sqrt(epsilon).
Expr Normalise(const Expr& data, const std::vector<int64_t>& axes, double epsilon, DataType dtype,
               const Expr& first = Expr()) {
  const Expr terms = first.defined() ? CallOp("subtract", {data, first}) : data;
  Expr mean = MakeReduce("mean", terms, axes, /*keepdims=*/true);
  if (first.defined()) mean = CallOp("add", {mean, first});
  Expr centered = CallOp("subtract", {data, mean});
  Expr variance = MakeReduce("mean", CallOp("multiply", {centered, centered}), axes, true);
  Expr deviation = CallOp("sqrt", {CallOp("add", {variance, Scalar(dtype, epsilon)})});
  return CallOp("divide", {centered, deviation});
}

template <typename AttrsT>
Expr ScaleAndShift(Expr data, const CallNode* call, const AttrsT* attrs, int axis, int rank) {
  if (attrs->scale) data = CallOp("multiply", {data, AlongAxis(call->args[1], axis, rank)});
  if (attrs->center) data = CallOp("add", {data, AlongAxis(call->args[2], axis, rank)});
  return data;
}

}  // namespace

/// As a scale and a shift per channel, which fold into constants and neighbouring weights.
Expr BatchNormInference(const CallNode* call, const TensorTypeNode* type) {
  const auto* attrs = call->attrs_as<BatchNormAttrs>();
  int rank = static_cast<int>(type->shape.size());
  int axis = PositiveAxis(attrs->axis, type->shape.size());
  Expr gamma = call->args[1], beta = call->args[2], mean = call->args[3], variance = call->args[4];
  Expr deviation = CallOp("sqrt", {CallOp("add", {variance, Scalar(type->dtype, attrs->epsilon)})});
  Expr scale = CallOp("divide", {Scalar(type->dtype, 1), deviation});
  if (attrs->scale) scale = CallOp("multiply", {scale, gamma});
  Expr shift = CallOp("multiply", {CallOp("negative", {mean}), scale});
  if (attrs->center) shift = CallOp("add", {shift, beta});
  Expr scaled = CallOp("multiply", {call->args[0], AlongAxis(scale, axis, rank)}, Attrs(), call->span);
  Expr result = CallOp("add", {scaled, AlongAxis(shift, axis, rank)}, Attrs(), call->span);
  return Tuple({result, mean, variance}, call->span);
}

Expr LayerNormInference(const CallNode* call, const TensorTypeNode* type) {
  const auto* attrs = call->attrs_as<LayerNormAttrs>();
  int axis = PositiveAxis(attrs->axis, type->shape.size());
  Expr result = Normalise(call->args[0], {axis}, attrs->epsilon, type->dtype);
  return ScaleAndShift(result, call, attrs, axis, static_cast<int>(type->shape.size()));
}

Expr InstanceNormInference(const CallNode* call, const TensorTypeNode* type) {
  const auto* attrs = call->attrs_as<InstanceNormAttrs>();
  int rank = static_cast<int>(type->shape.size()), axis = PositiveAxis(attrs->axis, type->shape.size());
  const std::vector<int64_t> axes = AllAxesBut(rank, 0, axis);
  const Expr& data = call->args[0];
  Expr result = Normalise(data, axes, attrs->epsilon, type->dtype, First(data, axes, type->shape));
  return ScaleAndShift(result, call, attrs, axis, rank);
}

Expr GroupNormInference(const CallNode* call, const TensorTypeNode* type) {
  const auto* attrs = call->attrs_as<GroupNormAttrs>();
  int rank = static_cast<int>(type->shape.size()), axis = PositiveAxis(attrs->axis, type->shape.size());
  if (attrs->num_groups == 1) {
    const Expr data = Normalise(call->args[0], AllAxesBut(rank, 0, 0), attrs->epsilon, type->dtype);
    return ScaleAndShift(data, call, attrs, axis, rank);
  }
  Array<PrimExpr> grouped;
  for (int i = 0; i < rank; ++i) {
    PrimExpr dim = type->shape[static_cast<size_t>(i)];
    if (i == axis) {
      const int64_t* channels = AsConstInt(dim);
      if (channels == nullptr || attrs->num_groups < 1 || *channels % attrs->num_groups != 0) {
        throw ShapeError(StrCat(call->span.str(), ": nn.group_norm needs a known number of channels, divisible by ",
                                attrs->num_groups));
      }
      grouped.push_back(IntImm(DataType::Int(64), attrs->num_groups));
      grouped.push_back(IntImm(DataType::Int(64), *channels / attrs->num_groups));
    } else {
      grouped.push_back(dim);
    }
  }
  Expr data = MakeReshape(call->args[0], grouped);
  data = Normalise(data, AllAxesBut(rank + 1, 0, axis), attrs->epsilon, type->dtype);
  return ScaleAndShift(MakeReshape(data, type->shape), call, attrs, axis, rank);
}

Expr L2NormalizeInference(const CallNode* call, const TensorTypeNode* type) {
  const auto* attrs = call->attrs_as<L2NormalizeAttrs>();
  Expr data = call->args[0];
  std::optional<std::vector<int64_t>> axes;
  if (!attrs->axis.empty()) axes = attrs->axis;
  Expr sum = MakeReduce("sum", CallOp("multiply", {data, data}), axes, /*keepdims=*/true);
  Expr norm = CallOp("sqrt", {CallOp("maximum", {sum, Scalar(type->dtype, attrs->eps)})});
  return CallOp("divide", {data, norm}, Attrs(), call->span);
}

Expr DropoutInference(const CallNode* call, const TensorTypeNode* type) {
  return Tuple({call->args[0], MakeOnes(type->shape, type->dtype)}, call->span);
}

}  // namespace treadle::ops
