// SPDX-License-Identifier: Apache-2.0
// Tensors made of nothing but attributes and scalars.
#include <cmath>

#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(InitOpAttrs);
TREADLE_DEFINE_NODE(ArangeAttrs);

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

Array<Tensor> ConstantTensor(const Type& out_type, int64_t value, const char* name) {
  const TensorTypeNode* out = OutTensor(out_type);
  PrimExpr fill = tir::make_const(out->dtype, value);
  return {Compute(out->shape, [&](const Array<PrimExpr>&) { return fill; }, name, tag::kElemWise)};
}
Array<Tensor> ZerosCompute(const Attrs&, const Array<Tensor>&, const Type& out_type) {
  return ConstantTensor(out_type, 0, "zeros");
}
Array<Tensor> OnesCompute(const Attrs&, const Array<Tensor>&, const Type& out_type) {
  return ConstantTensor(out_type, 1, "ones");
}
Array<Tensor> FullCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  return {Compute(
      out->shape, [&](const Array<PrimExpr>&) { return tir::cast(out->dtype, inputs[0](Array<PrimExpr>())); }, "full",
      tag::kElemWise)};
}
Array<Tensor> ArangeCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        DataType dtype = inputs[0]->dtype;
        PrimExpr step = tir::cast(dtype, i[0]) * inputs[2](Array<PrimExpr>());
        return tir::cast(out->dtype, inputs[0](Array<PrimExpr>()) + step);
      },
      "arange", tag::kInjective)};
}

}  // namespace

void RegisterFillOps() {
  for (bool one : {false, true}) {
    OpRegistration(one ? "ones" : "zeros")
        .Describe(one ? "A tensor of ones." : "A tensor of zeros.")
        .Set(kCompute, FTECompute(one ? OnesCompute : ZerosCompute))
        .Arguments({})
        .AttrsType<InitOpAttrs>()
        .SupportLevel(3)
        .Relation(Rule<InitInfer>)
        .Set(kOpPattern, OpPatternKind::kElemWise)
        .Set(kFiniteRule, FiniteRule::kAlways)
        .Set(kGradient, FGradient(gradient::None));
  }
  OpRegistration("full")
      .Describe("A tensor of one value.")
      .Arguments({{"fill_value", "Tensor", "Scalar."}})
      .AttrsType<InitOpAttrs>()
      .SupportLevel(3)
      .Relation(Rule<FullInfer>)
      .Set(kOpPattern, OpPatternKind::kElemWise)
      .Set(kCompute, FTECompute(FullCompute))
      .Set(kFiniteRule, FiniteRule::kAlways);
  OpRegistration("arange")
      .Describe("start, start + step, .. up to but not including stop.")
      .Arguments({{"start", "Tensor", "Scalar."}, {"stop", "Tensor", "Scalar."}, {"step", "Tensor", "Scalar."}})
      .AttrsType<ArangeAttrs>()
      .SupportLevel(3)
      .Relation(Rule<ArangeInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kDataDependentShape, true)
      .Set(kCompute, FTECompute(ArangeCompute))
      .Set(kGradient, FGradient(gradient::None));
}

}  // namespace treadle::ops
