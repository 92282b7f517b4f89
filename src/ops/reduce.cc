// SPDX-License-Identifier: Apache-2.0
// Reductions. Semantics: NumPy; ONNX Reduce*, ArgMax-13, ArgMin-13.
#include "treadle/ops/attrs/reduce.h"
#include "ops/families.h"
#include "ops/infer.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace {

/// Whether each dimension is reduced.
std::vector<bool> ReducedDims(const ReduceAttrs* attrs, size_t rank) {
  std::vector<bool> reduced(rank, !attrs->axis.has_value());
  if (attrs->axis.has_value()) {
    for (int axis : NormalizeAxes(*attrs->axis, rank)) reduced[static_cast<size_t>(axis)] = true;
    if (attrs->exclude) reduced.flip();
  }
  return reduced;
}

Array<PrimExpr> ReduceShape(const ReduceAttrs* attrs, const Array<PrimExpr>& shape) {
  std::vector<bool> reduced = ReducedDims(attrs, shape.size());
  Array<PrimExpr> out;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!reduced[i]) {
      out.push_back(shape[i]);
    } else if (attrs->keepdims) {
      out.push_back(Dim(1));
    }
  }
  return out;
}

Type ReduceInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  return TensorType(ReduceShape(context.attrs<ReduceAttrs>(), data->shape), data->dtype);
}

Type BoolReduceInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  if (!data->dtype.is_bool()) throw DTypeError(StrCat("data must be bool, not ", data->dtype));
  return ReduceInfer(context);
}

Type ArgReduceInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  return TensorType(ReduceShape(context.attrs<ReduceAttrs>(), data->shape), DataType::Int(32));
}

/// data, mean -> variance; mean has the shape of the reduced data with keepdims.
Type VarianceInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  CheckSameDType(data, context.Tensor(1, "mean"));
  return TensorType(ReduceShape(context.attrs<VarianceAttrs>(), data->shape), data->dtype);
}

Type CollapseSumLikeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  return TensorType(context.Tensor(1, "collapse_type")->shape, data->dtype);
}

OpRegistration Reduction(const char* name, const char* text, TypeRelationFn relation = Rule<ReduceInfer>) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<ReduceAttrs>()
      .SupportLevel(4)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kCommReduce);
}

}  // namespace

void RegisterReduceOps() {
  Reduction("sum", "Sum.");
  Reduction("mean", "Arithmetic mean.");
  Reduction("prod", "Product.");
  Reduction("max", "Greatest element; NaN wins.");
  Reduction("min", "Smallest element; NaN wins.");
  Reduction("all", "Whether all are true.", Rule<BoolReduceInfer>);
  Reduction("any", "Whether any is true.", Rule<BoolReduceInfer>);
  Reduction("argmax", "Index of the greatest element, counted over the reduced dimensions.", Rule<ArgReduceInfer>)
      .AttrsType<ArgReduceAttrs>();
  Reduction("argmin", "Index of the smallest element, counted over the reduced dimensions.", Rule<ArgReduceInfer>)
      .AttrsType<ArgReduceAttrs>();
  Reduction("variance", "Mean of the squared distance from the mean.", Rule<VarianceInfer>)
      .AttrsType<VarianceAttrs>()
      .Arguments(
          {{"data", "Tensor", "The input."}, {"mean", "Tensor", "Its mean, with reduced dimensions of size 1."}});
  OpRegistration("collapse_sum_like")
      .Describe("Sum over the dimensions that broadcasting would have added or enlarged.")
      .Arguments({{"data", "Tensor", "The input."}, {"collapse_type", "Tensor", "Has the shape of the result."}})
      .SupportLevel(10)
      .Relation(Rule<CollapseSumLikeInfer>)
      .Set(kOpPattern, OpPatternKind::kCommReduce);
}

}  // namespace treadle::ops
