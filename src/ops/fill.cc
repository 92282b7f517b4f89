// SPDX-License-Identifier: Apache-2.0
// Tensors made of nothing but attributes and scalars.
#include <cmath>

#include "ops/families.h"
#include "ops/infer.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace {

void CheckShape(const Array<PrimExpr>& shape) {
  for (const PrimExpr& dim : shape) {
    if (AsConstInt(dim) != nullptr && DimValue(dim) < 0)
      throw ShapeError(StrCat("negative dimension in ", ShapeText(shape)));
  }
}

Type InitInfer(const InferContext& context) {
  const auto* attrs = context.attrs<InitOpAttrs>();
  CheckShape(attrs->shape);
  if (attrs->dtype.is_void()) throw DTypeError("dtype is missing");
  return TensorType(attrs->shape, attrs->dtype);
}

Type FullInfer(const InferContext& context) {
  const auto* fill = context.Tensor(0, "fill_value");
  const auto* attrs = context.attrs<InitOpAttrs>();
  CheckRank(fill, 0, "fill_value");
  CheckShape(attrs->shape);
  return TensorType(attrs->shape, attrs->dtype.is_void() ? fill->dtype : attrs->dtype);
}

Type ArangeInfer(const InferContext& context) {
  const auto* start = context.Tensor(0, "start");
  const auto* attrs = context.attrs<ArangeAttrs>();
  for (int i = 0; i < 3; ++i) {
    CheckRank(context.Tensor(i), 0, "operand");
    CheckSameDType(start, context.Tensor(i));
  }
  DataType dtype = attrs->dtype.is_void() ? start->dtype : attrs->dtype;
  if (!attrs->start || !attrs->stop || !attrs->step) return TensorType(Array<PrimExpr>{AnyDim()}, dtype);
  if (*attrs->step == 0) throw ShapeError("step must not be 0");
  double count = std::ceil((*attrs->stop - *attrs->start) / *attrs->step);
  if (!(count < 9e15)) throw ShapeError("too many elements");
  return TensorType(Array<PrimExpr>{Dim(count <= 0 ? 0 : static_cast<int64_t>(count))}, dtype);
}

}  // namespace

void RegisterFillOps() {
  for (const char* name : {"zeros", "ones"}) {
    OpRegistration(name)
        .Describe(StrCat("A tensor of ", name, "."))
        .Arguments({})
        .AttrsType<InitOpAttrs>()
        .SupportLevel(3)
        .Relation(Rule<InitInfer>)
        .Set(kOpPattern, OpPatternKind::kElemWise);
  }
  OpRegistration("full")
      .Describe("A tensor of one value.")
      .Arguments({{"fill_value", "Tensor", "Scalar."}})
      .AttrsType<InitOpAttrs>()
      .SupportLevel(3)
      .Relation(Rule<FullInfer>)
      .Set(kOpPattern, OpPatternKind::kElemWise);
  OpRegistration("arange")
      .Describe("start, start + step, .. up to but not including stop.")
      .Arguments({{"start", "Tensor", "Scalar."}, {"stop", "Tensor", "Scalar."}, {"step", "Tensor", "Scalar."}})
      .AttrsType<ArangeAttrs>()
      .SupportLevel(3)
      .Relation(Rule<ArangeInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kDataDependentShape, true);
}

}  // namespace treadle::ops
