// SPDX-License-Identifier: Apache-2.0
// Sorting and scanning. Semantics: NumPy; ONNX TopK-11, CumSum-14. Sorting is stable; NaN sorts as the greatest.
#include "ops/families.h"
#include "ops/infer.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace {

Type SortInfer(const InferContext& context) {
  NormalizeAxis(context.attrs<ArgsortAttrs>()->axis, context.Tensor(0, "data")->shape.size());
  return context.type(0);
}

Type ArgsortInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ArgsortAttrs>();
  NormalizeAxis(attrs->axis, data->shape.size());
  return TensorType(data->shape, attrs->dtype);
}

Type TopKInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<TopKAttrs>();
  auto axis = static_cast<size_t>(NormalizeAxis(attrs->axis, data->shape.size()));
  Array<PrimExpr> out = data->shape;
  if (!attrs->k.has_value()) {
    out.Set(axis, AnyDim());
  } else if (*attrs->k >= 1) {
    if (AsConstInt(out[axis]) != nullptr && *attrs->k > DimValue(out[axis])) {
      throw ShapeError(StrCat("k ", *attrs->k, " exceeds dimension ", axis, " of ", TypeText(data)));
    }
    out.Set(axis, Dim(*attrs->k));
  }
  TensorType values(out, data->dtype);
  TensorType indices(out, attrs->dtype);
  if (attrs->ret_type == "both") return TupleType(Array<Type>{values, indices});
  if (attrs->ret_type == "values") return values;
  if (attrs->ret_type == "indices") return indices;
  throw ShapeError(StrCat("ret_type must be both, values or indices, not \"", attrs->ret_type, "\""));
}

Type ScanInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ScanopAttrs>();
  DataType dtype = attrs->dtype.is_void() ? data->dtype : attrs->dtype;
  if (attrs->axis.has_value()) {
    NormalizeAxis(*attrs->axis, data->shape.size());
    return TensorType(data->shape, dtype);
  }
  return TensorType(Array<PrimExpr>{DimProduct(data->shape, 0, data->shape.size())}, dtype);
}

OpRegistration Opaque(const char* name, const char* text, TypeRelationFn relation) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input."}})
      .SupportLevel(6)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kOpaque);
}

}  // namespace

void RegisterSortOps() {
  Opaque("sort", "Sorted along a dimension.", Rule<SortInfer>).AttrsType<ArgsortAttrs>();
  Opaque("argsort", "Indices that sort along a dimension.", Rule<ArgsortInfer>).AttrsType<ArgsortAttrs>();
  Opaque("topk", "The greatest elements along a dimension and their indices.", Rule<TopKInfer>).AttrsType<TopKAttrs>();
  Opaque("cumsum", "Sums of all elements up to each.", Rule<ScanInfer>).AttrsType<ScanopAttrs>();
  Opaque("cumprod", "Products of all elements up to each.", Rule<ScanInfer>).AttrsType<ScanopAttrs>();
}

}  // namespace treadle::ops
