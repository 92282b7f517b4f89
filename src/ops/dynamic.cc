// SPDX-License-Identifier: Apache-2.0
// Operators whose shape is an operand. DynamicToStatic replaces those whose shape is known by their static twins.
#include <algorithm>

#include "ops/conv.h"
#include "ops/dynamic.h"
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/layout.h"
#include "ops/layout_rules.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/attrs/image.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(UniqueAttrs);

namespace {

/// Length of an operand that lists sizes; ShapeError unless it is a vector of constant length.
size_t ListLength(const InferContext& context, int i, const char* name) {
  const auto* list = context.Tensor(i, name);
  CheckRank(list, 1, name);
  CheckIntegral(list, name);
  if (DimValue(list->shape[0]) < 0 || DimValue(list->shape[0]) > 64) {
    throw ShapeError(StrCat(name, " must be a vector of constant length, not ", TypeText(list)));
  }
  return static_cast<size_t>(DimValue(list->shape[0]));
}

void CheckLength(const InferContext& context, int i, const char* name, size_t length) {
  const size_t found = ListLength(context, i, name);
  if (found != length) throw ShapeError(StrCat(name, " has ", found, " entries, expected ", length));
}

Array<PrimExpr> AnyShape(size_t rank) {
  Array<PrimExpr> shape;
  for (size_t i = 0; i < rank; ++i) shape.push_back(AnyDim());
  return shape;
}

/// Dimensions of an operand that lists sizes; known are positive numbers and expressions that the attribute repeats.
Array<PrimExpr> HintedShape(size_t rank, const Array<PrimExpr>& hints) {
  Array<PrimExpr> shape = AnyShape(rank);
  for (size_t i = 0; hints.size() == rank && i < rank; ++i) {
    const int64_t* size = AsConstInt(hints[i]);
    if (size == nullptr || *size > 0) shape.Set(i, hints[i]);
  }
  return shape;
}

/// (data, shape)
Type ReshapeInfer(const InferContext& context) {
  const auto* attrs = context.attrs<ReshapeAttrs>();
  return TensorType(HintedShape(ListLength(context, 1, "shape"), attrs->newshape), context.Tensor(0, "data")->dtype);
}

/// (data, shape): the shapes are broadcast against each other.
Type BroadcastToInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<InitOpAttrs>();
  Array<PrimExpr> shape = HintedShape(ListLength(context, 1, "shape"), attrs->shape);
  return TensorType(BroadcastShape(context, data->shape, shape), data->dtype);
}

/// (data, reps)
Type TileInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  return TensorType(AnyShape(std::max(ListLength(context, 1, "reps"), data->shape.size())), data->dtype);
}

/// (shape)
Type InitInfer(const InferContext& context) {
  DataType dtype = context.attrs<InitOpAttrs>()->dtype;
  if (dtype.is_void()) throw DTypeError("dtype is missing");
  return TensorType(AnyShape(ListLength(context, 0, "shape")), dtype);
}

/// (fill_value, shape)
Type FullInfer(const InferContext& context) {
  const auto* fill = context.Tensor(0, "fill_value");
  CheckRank(fill, 0, "fill_value");
  DataType dtype = context.attrs<InitOpAttrs>()->dtype;
  return TensorType(AnyShape(ListLength(context, 1, "shape")), dtype.is_void() ? fill->dtype : dtype);
}

/// (data, axis)
Type SqueezeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  size_t removed = ListLength(context, 1, "axis");
  if (removed > data->shape.size()) throw ShapeError(StrCat("axis has more entries than ", TypeText(data)));
  return TensorType(AnyShape(data->shape.size() - removed), data->dtype);
}

/// (data, begin, end, strides)
Type StridedSliceInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  size_t length = ListLength(context, 1, "begin");
  const auto* attrs = context.attrs<StridedSliceAttrs>();
  CheckLength(context, 2, "end", length);
  CheckLength(context, 3, "strides", length);
  Array<PrimExpr> out = data->shape;
  if (attrs->axes.has_value()) {
    if (attrs->axes->size() != length) {
      throw ShapeError(StrCat("axes has ", attrs->axes->size(), " entries, begin has ", length));
    }
    for (int axis : NormalizeAxes(*attrs->axes, out.size(), "axes")) out.Set(static_cast<size_t>(axis), AnyDim());
  } else {
    if (length > out.size()) throw ShapeError(StrCat("begin has more entries than ", TypeText(data)));
    for (size_t i = 0; i < length; ++i) out.Set(i, AnyDim());
  }
  return TensorType(out, data->dtype);
}

/// (data, pad_width, pad_value)
Type PadInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  CheckRank(context.Tensor(1, "pad_width"), 2, "pad_width");
  return TensorType(AnyShape(data->shape.size()), data->dtype);
}

/// (data, k)
Type TopKInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<TopKAttrs>();
  Array<PrimExpr> out = data->shape;
  out.Set(static_cast<size_t>(NormalizeAxis(attrs->axis, out.size())), AnyDim());
  TensorType values(out, data->dtype);
  TensorType indices(out, attrs->dtype);
  if (attrs->ret_type == "values") return values;
  if (attrs->ret_type == "indices") return indices;
  return TupleType(Array<Type>{values, indices});
}

/// (indices, on_value, off_value, depth)
Type OneHotInfer(const InferContext& context) {
  const auto* indices = context.Tensor(0, "indices");
  const auto* attrs = context.attrs<OneHotAttrs>();
  Array<PrimExpr> out = indices->shape;
  out.insert(static_cast<size_t>(NormalizeAxis(attrs->axis, out.size() + 1)), AnyDim());
  return TensorType(out, attrs->dtype.is_void() ? context.Tensor(1, "on_value")->dtype : attrs->dtype);
}

/// Spatial dimensions become unknown, but for `hints`: (data, size, ..) in NCHW, NHWC and the like, without blocks of
/// them.
Type AnySpatial(const InferContext& context, const std::string& text, size_t rank, DataType dtype,
                const Array<PrimExpr>& hints = {}) {
  const auto* data = context.Tensor(0, "data");
  const Layout layout(text);
  const std::string spatial = SpatialNames(rank);
  LogicalShape(layout, data->shape, "NC" + spatial, "data");
  const Array<PrimExpr> sizes = HintedShape(rank, hints);
  Array<PrimExpr> out = data->shape;
  for (size_t d = 0; d < rank; ++d) {
    if (layout.BlockOf(spatial[d]) != 1) {
      throw ShapeError(StrCat("resizing to a dynamic size in layout ", layout, " isn't implemented"));
    }
    out.Set(static_cast<size_t>(layout.IndexOf(spatial[d])), sizes[d]);
  }
  return TensorType(out, dtype.is_void() ? data->dtype : dtype);
}
Type ResizeInfer(const InferContext& context) {
  const auto* attrs = context.attrs<ResizeAttrs>();
  return AnySpatial(context, attrs->layout, 2, attrs->out_dtype, attrs->size);
}
Type UpSamplingInfer(const InferContext& context) {
  return AnySpatial(context, context.attrs<UpSamplingAttrs>()->layout, 2, DataType());
}
Type UpSampling3DInfer(const InferContext& context) {
  return AnySpatial(context, context.attrs<UpSampling3DAttrs>()->layout, 3, DataType());
}

/// One row of coordinates for each nonzero element.
Type ArgwhereInfer(const InferContext& context) {
  auto rank = static_cast<int64_t>(context.Tensor(0, "condition")->shape.size());
  return TensorType({AnyDim(), Dim(rank)}, DataType::Int(32));
}

/// (values, indices of first appearance, inverse, number of values[, counts])
Type UniqueInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<UniqueAttrs>();
  CheckRank(data, 1, "data");
  PrimExpr count = AnyDim();
  DataType index = DataType::Int(32);
  Array<Type> fields = {TensorType(Array<PrimExpr>{count}, data->dtype), TensorType(Array<PrimExpr>{count}, index),
                        TensorType(data->shape, index), TensorType(Array<PrimExpr>{Dim(1)}, index)};
  if (attrs->return_counts) fields.push_back(TensorType(Array<PrimExpr>{count}, index));
  return TupleType(fields);
}

OpRegistration Dynamic(const char* name, const char* twin, std::vector<OpArgument> arguments, TypeRelationFn relation,
                       OpPatternKind pattern = OpPatternKind::kInjective) {
  return OpRegistration(name)
      .Describe(StrCat("As ", twin, ", with the sizes given by an operand."))
      .Arguments(std::move(arguments))
      .SupportLevel(3)
      .Relation(relation)
      .Set(kOpPattern, pattern)
      .Set(kDataDependentShape, true);
}

}  // namespace

void RegisterDynamicOps() {
  const OpArgument data = {"data", "Tensor", "The input."};
  const OpArgument shape = {"shape", "Tensor", "Shape of the result."};
  Dynamic("dyn.reshape", "reshape", {data, shape}, Rule<ReshapeInfer>)
      .AttrsType<ReshapeAttrs>()
      .Set(kReshapeOp, true)
      .Set(kValueRule, ValueRule::kMoves);
  Dynamic("dyn.squeeze", "squeeze", {data, {"axis", "Tensor", "Dimensions to remove."}}, Rule<SqueezeInfer>)
      .AttrsType<SqueezeAttrs>()
      .Set(kReshapeOp, true)
      .Set(kValueRule, ValueRule::kMoves);
  Dynamic("dyn.tile", "tile", {data, {"reps", "Tensor", "Copies along each dimension."}}, Rule<TileInfer>)
      .AttrsType<TileAttrs>()
      .Set(kValueRule, ValueRule::kMoves);
  // No pattern of broadcasting: its second operand isn't data.
  Dynamic("dyn.broadcast_to", "broadcast_to", {data, shape}, Rule<BroadcastToInfer>)
      .AttrsType<InitOpAttrs>()
      .Set(kValueRule, ValueRule::kMoves);
  Dynamic("dyn.zeros", "zeros", {shape}, Rule<InitInfer>).AttrsType<InitOpAttrs>();
  Dynamic("dyn.ones", "ones", {shape}, Rule<InitInfer>).AttrsType<InitOpAttrs>();
  Dynamic("dyn.full", "full", {{"fill_value", "Tensor", "Scalar."}, shape}, Rule<FullInfer>).AttrsType<InitOpAttrs>();
  Dynamic("dyn.strided_slice", "strided_slice",
          {data, {"begin", "Tensor", "First indices."}, {"end", "Tensor", "Bounds."}, {"strides", "Tensor", "Steps."}},
          Rule<StridedSliceInfer>)
      .AttrsType<StridedSliceAttrs>()
      .Set(kValueRule, ValueRule::kMoves);
  Dynamic("dyn.nn.pad", "nn.pad", {data, {"pad_width", "Tensor", "(rank, 2)"}, {"pad_value", "Tensor", "Scalar."}},
          Rule<PadInfer>)
      .AttrsType<PadAttrs>();
  Dynamic("dyn.topk", "topk", {data, {"k", "Tensor", "Scalar."}}, Rule<TopKInfer>, OpPatternKind::kOpaque)
      .AttrsType<TopKAttrs>()
      .Set(kNumResults,
           FNumResults([](const Attrs& attrs) { return attrs.as<TopKAttrs>()->ret_type == "both" ? 2 : 0; }));
  Dynamic("dyn.one_hot", "one_hot",
          {{"indices", "Tensor", "Where on_value stands."},
           {"on_value", "Tensor", "Scalar."},
           {"off_value", "Tensor", "Scalar."},
           {"depth", "Tensor", "Scalar."}},
          Rule<OneHotInfer>)
      .AttrsType<OneHotAttrs>();
  Dynamic("dyn.image.resize2d", "image.resize2d",
          {data, {"size", "Tensor", "Spatial size."}, {"roi", "Tensor", "Region of the input."}}, Rule<ResizeInfer>)
      .AttrsType<Resize2DAttrs>()
      .Set(relay::kLayoutRule, relay::FLayoutRule(ResizeLayoutRule));
  OpRegistration("argwhere")
      .Describe("Coordinates of the nonzero elements.")
      .Arguments({{"condition", "Tensor", "The input."}})
      .SupportLevel(10)
      .Relation(Rule<ArgwhereInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kDataDependentShape, true);
  OpRegistration("unique")
      .Describe("The distinct elements, where they first appear, and which of them each element is.")
      .Arguments({data})
      .AttrsType<UniqueAttrs>()
      .SupportLevel(3)
      .Relation(Rule<UniqueInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kDataDependentShape, true)
      .Set(kNumResults, FNumResults([](const Attrs& attrs) { return attrs.as<UniqueAttrs>()->return_counts ? 5 : 4; }));
  const std::vector<OpArgument> scales2 = {data, {"scale_h", "Tensor", "Factor."}, {"scale_w", "Tensor", "Factor."}};
  Dynamic("dyn.nn.upsampling", "nn.upsampling", scales2, Rule<UpSamplingInfer>).AttrsType<UpSamplingAttrs>();
  const std::vector<OpArgument> scales3 = {
      data, {"scale_d", "Tensor", "Factor."}, {"scale_h", "Tensor", "Factor."}, {"scale_w", "Tensor", "Factor."}};
  Dynamic("dyn.nn.upsampling3d", "nn.upsampling3d", scales3, Rule<UpSampling3DInfer>).AttrsType<UpSampling3DAttrs>();
  RegisterDynamicComputes();
  RegisterNmsOps();
  RegisterDynamicAxisOps();
  RegisterHostOps();
  RegisterSampleOps();
}

}  // namespace treadle::ops
