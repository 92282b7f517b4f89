// SPDX-License-Identifier: Apache-2.0
// Activations and the addition of a bias. Others (hard sigmoid, gelu, selu, ...) are compositions of these and of
// element-wise operators, which fuse.
#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/layout_rules.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(BiasAddAttrs);
TREADLE_DEFINE_NODE(LeakyReluAttrs);
TREADLE_DEFINE_NODE(PReluAttrs);

namespace {

Type LeakyReluInfer(const InferContext& context) {
  context.attrs<LeakyReluAttrs>();
  return IdentityInfer(context);
}

Type PReluInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  int axis = NormalizeAxis(context.attrs<PReluAttrs>()->axis, data->shape.size());
  context.Expect(1, TensorType(Array<PrimExpr>{data->shape[static_cast<size_t>(axis)]}, data->dtype));
  return context.type(0);
}

Type BiasAddInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  int axis = NormalizeAxis(context.attrs<BiasAddAttrs>()->axis, data->shape.size());
  context.Expect(1, TensorType(Array<PrimExpr>{data->shape[static_cast<size_t>(axis)]}, data->dtype));
  return context.type(0);
}

Array<Tensor> ReluCompute(const Attrs&, const Array<Tensor>& inputs, const Type&) {
  const Tensor& x = inputs[0];
  return {Compute(
      x->shape, [&](const Array<PrimExpr>& i) { return tir::max(x(i), tir::make_zero(x->dtype)); }, "relu",
      tag::kElemWise)};
}

Array<Tensor> LeakyReluCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const Tensor& x = inputs[0];
  PrimExpr alpha = tir::make_const(x->dtype, attrs.as<LeakyReluAttrs>()->alpha);
  return {Compute(
      x->shape, [&](const Array<PrimExpr>& i) { return tir::select(x(i) > 0, x(i), x(i) * alpha); }, "leaky_relu",
      tag::kElemWise)};
}

Array<Tensor> PReluCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(attrs.as<PReluAttrs>()->axis, x.ndim()));
  return {Compute(
      x->shape, [&](const Array<PrimExpr>& i) { return tir::select(x(i) > 0, x(i), x(i) * inputs[1](i[axis])); },
      "prelu", tag::kBroadcast)};
}

Array<Tensor> BiasAddCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(attrs.as<BiasAddAttrs>()->axis, x.ndim()));
  return {Compute(
      x->shape, [&](const Array<PrimExpr>& i) { return x(i) + inputs[1](i[axis]); }, "bias_add", tag::kBroadcast)};
}

}  // namespace

void RegisterActivationOps() {
  OpRegistration("nn.relu")
      .Describe("max(x, 0); NaN stays.")
      .Arguments({{"data", "Tensor", "The input."}})
      .SupportLevel(1)
      .Relation(Rule<IdentityInfer>)
      .Set(kOpPattern, OpPatternKind::kElemWise)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kScaleRule, ScaleRule::kPositive)
      .Set(kGradient, gradient::Times([](const GradientSite& s) {
             return MakeCast(CallOp("greater", {s.arg(0), gradient::Scalar(s, 0)}), s.type(0)->dtype);
           }))
      .Set(kCompute, FTECompute(ReluCompute));
  OpRegistration("nn.leaky_relu")
      .Describe("x where positive, else alpha * x.")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<LeakyReluAttrs>()
      .SupportLevel(3)
      .Relation(Rule<LeakyReluInfer>)
      .Set(kOpPattern, OpPatternKind::kElemWise)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kScaleRule, ScaleRule::kPositive)
      .Set(kGradient, FGradient(gradient::OfLeakyRelu))
      .Set(kCompute, FTECompute(LeakyReluCompute));
  OpRegistration("nn.prelu")
      .Describe("x where positive, else alpha[channel] * x.")
      .Arguments({{"data", "Tensor", "The input."}, {"alpha", "Tensor", "Slope of each channel."}})
      .AttrsType<PReluAttrs>()
      .SupportLevel(3)
      .Relation(Rule<PReluInfer, 1>)
      .Set(kOpPattern, OpPatternKind::kBroadcast)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kGradient, FGradient(gradient::OfPRelu))
      .Set(kCompute, FTECompute(PReluCompute));
  OpRegistration("nn.bias_add")
      .Describe("data + bias, the bias running along one dimension.")
      .Arguments({{"data", "Tensor", "The input."}, {"bias", "Tensor", "Vector."}})
      .AttrsType<BiasAddAttrs>()
      .SupportLevel(1)
      .Relation(Rule<BiasAddInfer, 1>)
      .Set(kOpPattern, OpPatternKind::kBroadcast)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kGradient, FGradient(gradient::OfBiasAdd))
      .Set(relay::kLayoutRule, relay::FLayoutRule(BiasAddLayoutRule))
      .Set(kCompute, FTECompute(BiasAddCompute));
}

}  // namespace treadle::ops
