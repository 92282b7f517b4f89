// SPDX-License-Identifier: Apache-2.0
// Picking elements by indices that are data. Semantics: NumPy take; ONNX Gather-13, GatherElements-13, GatherND-13,
// OneHot-11.
#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/taken_matrices.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(TakeAttrs);
TREADLE_DEFINE_NODE(GatherAttrs);
TREADLE_DEFINE_NODE(GatherNDAttrs);
TREADLE_DEFINE_NODE(OneHotAttrs);

namespace {

Type TakeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* indices = context.Tensor(1, "indices");
  const auto* attrs = context.attrs<TakeAttrs>();
  CheckIntegral(indices, "indices");
  if (attrs->mode != "clip" && attrs->mode != "wrap" && attrs->mode != "fast" && attrs->mode != "error") {
    throw ShapeError(StrCat("mode must be clip, wrap or error, not \"", attrs->mode, "\""));
  }
  if (!attrs->axis.has_value()) {
    if (attrs->batch_dims != 0) throw ShapeError("batch_dims needs an axis");
    return TensorType(indices->shape, data->dtype);
  }
  int axis = NormalizeAxis(*attrs->axis, data->shape.size());
  int batch = attrs->batch_dims == 0 ? 0 : NormalizeAxis(attrs->batch_dims, indices->shape.size() + 1, "batch_dims");
  if (batch > axis) throw ShapeError(StrCat("batch_dims ", batch, " must not exceed axis ", axis));
  for (size_t i = 0; i < static_cast<size_t>(batch); ++i) {
    CheckDim(context, indices, i, "indices", data->shape[i], "data");
  }
  Array<PrimExpr> out;
  for (int i = 0; i < axis; ++i) out.push_back(data->shape[static_cast<size_t>(i)]);
  for (auto i = static_cast<size_t>(batch); i < indices->shape.size(); ++i) out.push_back(indices->shape[i]);
  for (auto i = static_cast<size_t>(axis) + 1; i < data->shape.size(); ++i) out.push_back(data->shape[i]);
  return TensorType(out, data->dtype);
}

Type GatherInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* indices = context.Tensor(1, "indices");
  CheckIntegral(indices, "indices");
  CheckRank(indices, data->shape.size(), "indices");
  auto axis = static_cast<size_t>(NormalizeAxis(context.attrs<GatherAttrs>()->axis, data->shape.size()));
  for (size_t i = 0; i < data->shape.size(); ++i) {
    bool constant = AsConstInt(indices->shape[i]) != nullptr && AsConstInt(data->shape[i]) != nullptr;
    if (i != axis && constant && DimValue(indices->shape[i]) > DimValue(data->shape[i])) {
      throw ShapeError(
          StrCat("dimension ", i, " of indices ", TypeText(indices), " exceeds that of data ", TypeText(data)));
    }
    if (i != axis) RequireAtLeast(context, data->shape[i], indices->shape[i]);
  }
  return TensorType(indices->shape, data->dtype);
}

/// indices (m, ..): an index has m entries, along the first dimension.
Type GatherNDInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* indices = context.Tensor(1, "indices");
  const auto* attrs = context.attrs<GatherNDAttrs>();
  CheckIntegral(indices, "indices");
  if (indices->shape.empty()) throw ShapeError("indices must have at least 1 dimension");
  int64_t length = DimValue(indices->shape[0]);
  if (length < 0) length = attrs->index_rank.value_or(-1);
  if (length < 0) throw ShapeError("the first dimension of indices must be constant");
  int64_t batch = attrs->batch_dims;
  if (batch < 0 || batch >= static_cast<int64_t>(indices->shape.size()) ||
      length + batch > static_cast<int64_t>(data->shape.size())) {
    throw ShapeError(StrCat("an index of ", length, " entries after ", batch, " batch dimensions doesn't fit ",
                            TypeText(data), " with indices ", TypeText(indices)));
  }
  for (size_t i = 0; i < static_cast<size_t>(batch); ++i) {
    CheckDim(context, indices, i + 1, "indices", data->shape[i], "data");
  }
  Array<PrimExpr> out;
  for (size_t i = 1; i < indices->shape.size(); ++i) out.push_back(indices->shape[i]);
  for (auto i = static_cast<size_t>(length + batch); i < data->shape.size(); ++i) out.push_back(data->shape[i]);
  return TensorType(out, data->dtype);
}

Type OneHotInfer(const InferContext& context) {
  const auto* indices = context.Tensor(0, "indices");
  const auto* attrs = context.attrs<OneHotAttrs>();
  CheckIntegral(indices, "indices");
  CheckRank(context.Tensor(1, "on_value"), 0, "on_value");
  CheckRank(context.Tensor(2, "off_value"), 0, "off_value");
  if (attrs->depth < 0) throw ShapeError(StrCat("depth must not be negative, is ", attrs->depth));
  auto axis = static_cast<size_t>(NormalizeAxis(attrs->axis, indices->shape.size() + 1));
  Array<PrimExpr> out = indices->shape;
  out.insert(axis, Dim(attrs->depth));
  return TensorType(out, attrs->dtype.is_void() ? context.Tensor(1)->dtype : attrs->dtype);
}

/// An index into a dimension of `extent` elements as TakeAttrs::mode says; always within the dimension.
PrimExpr TakeIndex(const PrimExpr& index, const PrimExpr& extent, const std::string& mode) {
  PrimExpr i = tir::cast(DataType::Int(64), index);
  if (mode == "wrap") return tir::floormod(i, extent);
  return SafeIndex(index, extent, mode != "error");
}

Array<Tensor> TakeCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<TakeAttrs>();
  const Tensor& x = inputs[0];
  const Tensor& indices = inputs[1];
  PrimExpr zero = tir::make_zero(x->dtype);
  const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
  if (!a->axis.has_value()) {
    PrimExpr count = DimProduct(x->shape, 0, x.ndim());
    return {Compute(
        shape,
        [&](const Array<PrimExpr>& i) {
          if (IsEmptyDim(count)) return zero;
          return x(UnflattenIndex(TakeIndex(indices(i), count, a->mode), x->shape));
        },
        "take", tag::kInjective)};
  }
  auto axis = static_cast<size_t>(NormalizeAxis(*a->axis, x.ndim()));
  auto batch =
      static_cast<size_t>(a->batch_dims < 0 ? a->batch_dims + static_cast<int>(indices.ndim()) : a->batch_dims);
  size_t picked = indices.ndim() - batch;
  return {Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        if (IsEmptyDim(x->shape[axis])) return zero;
        Array<PrimExpr> from, at;
        for (size_t d = 0; d < batch; ++d) from.push_back(i[d]);
        for (size_t d = 0; d < picked; ++d) from.push_back(i[axis + d]);
        for (size_t d = 0; d < axis; ++d) at.push_back(i[d]);
        at.push_back(TakeIndex(indices(from), x->shape[axis], a->mode));
        for (size_t d = axis + 1; d < x.ndim(); ++d) at.push_back(i[d - 1 + picked]);
        return x(at);
      },
      "take", tag::kInjective)};
}

Array<Tensor> GatherCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(attrs.as<GatherAttrs>()->axis, x.ndim()));
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        if (IsEmptyDim(x->shape[axis])) return tir::make_zero(x->dtype);
        Array<PrimExpr> at = i;
        at.Set(axis, SafeIndex(inputs[1](i), x->shape[axis]));
        return x(at);
      },
      "gather", tag::kInjective)};
}

Array<Tensor> GatherNDCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<GatherNDAttrs>();
  const Tensor& x = inputs[0];
  const Tensor& indices = inputs[1];
  int64_t known = DimValue(indices->shape[0]);
  auto length = static_cast<size_t>(known >= 0 ? known : a->index_rank.value_or(0));
  auto batch = static_cast<size_t>(a->batch_dims);
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at;
        for (size_t d = 0; d < batch; ++d) at.push_back(i[d]);
        for (size_t d = 0; d < length; ++d) {
          if (IsEmptyDim(x->shape[batch + d])) return tir::make_zero(x->dtype);
          Array<PrimExpr> from = {Index(static_cast<int64_t>(d))};
          for (size_t k = 0; k + 1 < indices.ndim(); ++k) from.push_back(i[k]);
          at.push_back(SafeIndex(indices(from), x->shape[batch + d]));
        }
        for (size_t d = indices.ndim() - 1; d < i.size(); ++d) at.push_back(i[d]);
        return x(at);
      },
      "gather_nd", tag::kInjective)};
}

Array<Tensor> OneHotCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& indices = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(attrs.as<OneHotAttrs>()->axis, out->shape.size()));
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> from = i;
        from.erase(axis);
        PrimExpr index = tir::cast(DataType::Int(64), indices(from));
        PrimExpr on = tir::cast(out->dtype, inputs[1](Array<PrimExpr>()));
        PrimExpr off = tir::cast(out->dtype, inputs[2](Array<PrimExpr>()));
        return tir::select(tir::equal(index, i[axis]), on, off);
      },
      "one_hot", tag::kInjective)};
}

OpRegistration Register(const char* name, const char* text, TypeRelationFn relation, OpPatternKind pattern) {
  return OpRegistration(name).Describe(text).SupportLevel(3).Relation(relation).Set(kOpPattern, pattern);
}

}  // namespace

void RegisterIndexOps() {
  const std::vector<OpArgument> pick = {{"data", "Tensor", "The input."}, {"indices", "Tensor", "Which elements."}};
  Register("take", "Slices of a dimension picked by index.", Rule<TakeInfer>, OpPatternKind::kInjective)
      .Arguments(pick)
      .AttrsType<TakeAttrs>()
      .Set(relay::kCallPattern, relay::FCallPattern(PatternOfTake))
      .Set(kValueRule, ValueRule::kMoves)
      .Set(kCompute, FTECompute(TakeCompute))
      .Set(kGradient, FGradient(gradient::OfTake));
  Register("gather", "Elements whose index along one dimension is given.", Rule<GatherInfer>, OpPatternKind::kInjective)
      .Arguments(pick)
      .AttrsType<GatherAttrs>()
      .Set(kValueRule, ValueRule::kMoves)
      .Set(kCompute, FTECompute(GatherCompute))
      .Set(kGradient, FGradient(gradient::OfGather));
  Register("gather_nd", "Slices picked by indices of several dimensions.", Rule<GatherNDInfer>,
           OpPatternKind::kInjective)
      .Arguments(pick)
      .AttrsType<GatherNDAttrs>()
      .Set(kValueRule, ValueRule::kMoves)
      .Set(kCompute, FTECompute(GatherNDCompute));
  Register("one_hot", "on_value at the index along a new dimension, off_value elsewhere.", Rule<OneHotInfer>,
           OpPatternKind::kInjective)
      .Arguments({{"indices", "Tensor", "Where on_value stands."},
                  {"on_value", "Tensor", "Scalar."},
                  {"off_value", "Tensor", "Scalar."}})
      .AttrsType<OneHotAttrs>()
      .Set(kCompute, FTECompute(OneHotCompute))
      .Set(kGradient, FGradient(gradient::None));
}

}  // namespace treadle::ops
