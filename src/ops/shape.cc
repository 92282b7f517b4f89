// SPDX-License-Identifier: Apache-2.0
// Shapes as values.
#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ShapeOfAttrs);
TREADLE_DEFINE_NODE(NdarraySizeAttrs);

namespace {

Type ShapeOfInfer(const InferContext& context) {
  auto rank = static_cast<int64_t>(context.Tensor(0, "data")->shape.size());
  return TensorType(Array<PrimExpr>{Dim(rank)}, context.attrs<ShapeOfAttrs>()->dtype);
}

Type NdarraySizeInfer(const InferContext& context) {
  context.Tensor(0, "data");
  return TensorType::Scalar(context.attrs<NdarraySizeAttrs>()->dtype);
}

Array<Tensor> ShapeOfCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  const Array<PrimExpr>& shape = inputs[0]->shape;
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr value = tir::make_zero(out->dtype);
        for (size_t d = shape.size(); d > 0; --d) {
          PrimExpr here = tir::equal(i[0], Index(static_cast<int64_t>(d - 1)));
          value = tir::select(here, tir::cast(out->dtype, shape[d - 1]), value);
        }
        return value;
      },
      "shape_of", tag::kInjective)};
}

Array<Tensor> NdarraySizeCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  PrimExpr count = DimProduct(inputs[0]->shape, 0, inputs[0].ndim());
  return {Compute(
      out->shape, [&](const Array<PrimExpr>&) { return tir::cast(out->dtype, count); }, "ndarray_size",
      tag::kInjective)};
}

}  // namespace

void RegisterShapeOps() {
  OpRegistration("shape_of")
      .Describe("The dimensions of a tensor, as a vector.")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<ShapeOfAttrs>()
      .SupportLevel(10)
      .Relation(Rule<ShapeOfInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, FTECompute(ShapeOfCompute))
      .Set(kGradient, FGradient(gradient::None));
  OpRegistration("ndarray_size")
      .Describe("The number of elements of a tensor, as a scalar.")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<NdarraySizeAttrs>()
      .SupportLevel(10)
      .Relation(Rule<NdarraySizeInfer>)
      .Set(kOpPattern, OpPatternKind::kInjective)
      .Set(kCompute, FTECompute(NdarraySizeCompute))
      .Set(kGradient, FGradient(gradient::None));
}

}  // namespace treadle::ops
