// SPDX-License-Identifier: Apache-2.0
// Shapes as values.
#include "ops/families.h"
#include "ops/infer.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace {

Type ShapeOfInfer(const InferContext& context) {
  auto rank = static_cast<int64_t>(context.Tensor(0, "data")->shape.size());
  return TensorType(Array<PrimExpr>{Dim(rank)}, context.attrs<ShapeOfAttrs>()->dtype);
}

Type NdarraySizeInfer(const InferContext& context) {
  context.Tensor(0, "data");
  return TensorType::Scalar(context.attrs<NdarraySizeAttrs>()->dtype);
}

}  // namespace

void RegisterShapeOps() {
  OpRegistration("shape_of")
      .Describe("The dimensions of a tensor, as a vector.")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<ShapeOfAttrs>()
      .SupportLevel(10)
      .Relation(Rule<ShapeOfInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque);
  OpRegistration("ndarray_size")
      .Describe("The number of elements of a tensor, as a scalar.")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<NdarraySizeAttrs>()
      .SupportLevel(10)
      .Relation(Rule<NdarraySizeInfer>)
      .Set(kOpPattern, OpPatternKind::kInjective);
}

}  // namespace treadle::ops
